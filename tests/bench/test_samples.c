#include "check.h"

#include <math.h>

#include "bench/order.h"
#include "bench/samples.h"

static void quantiles_are_by_nearest_rank(void **state)
{
    uint64_t values[1000];
    struct quantiles q;
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        values[i] = 1000 - i;
    }
    samples_sort(values, 1000);
    samples_quantiles(&q, values, 1000);
    assert_int_equal(q.count, 1000);
    assert_int_equal(q.p50, 500);
    assert_int_equal(q.p90, 900);
    assert_int_equal(q.p99, 990);
    assert_int_equal(q.p999, 999);
    assert_int_equal(q.max, 1000);
    assert_int_equal(samples_at(values, 1000, 0), 1);
    assert_int_equal(samples_at(values, 0, 0.5), 0);
}

static void one_stall_makes_the_deviation_and_leaves_the_others_alone(void **state)
{
    uint64_t values[10000], scratch[10000];
    struct spread s;
    (void)state;
    for (int i = 0; i < 10000; i++) {
        values[i] = 50000;
    }
    values[4711] = 50000 + 10000000;
    samples_spread(&s, values, scratch, 10000);
    assert_int_equal(s.max, 10050000);
    /* L / sqrt(N) */
    assert_true(fabs(s.sd - 100000) < 10);
    assert_true(s.mad == 0);
    assert_true(s.without_1 == 0 && s.without_5 == 0 && s.without_10 == 0);
    assert_true(fabs(s.mean - 51000) < 1e-6);
}

static void the_worst_are_those_furthest_from_the_median_on_either_side(void **state)
{
    uint64_t values[] = {0, 99, 100, 100, 100, 101, 5000}, scratch[7];
    struct spread s;
    (void)state;
    samples_spread(&s, values, scratch, 7);
    /* without 5000, then without 0 and the next three */
    assert_true(s.without_1 > 40 && s.without_1 < 41.1);
    assert_true(s.without_5 < 1);
}

static void the_robust_width_of_a_normal_shape_is_its_deviation(void **state)
{
    enum { COUNT = 20000 };
    static uint64_t values[COUNT], scratch[COUNT];
    uint64_t random = 7;
    struct spread s;
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int k = 0; k < 12; k++) {
            sum += (double)(order_next(&random) >> 11) / 9007199254740992.0;
        }
        values[i] = (uint64_t)(100000 + 1000 * (sum - 6));
    }
    samples_spread(&s, values, scratch, COUNT);
    assert_true(fabs(s.sd - 1000) < 30);
    assert_true(fabs(s.mad - s.sd) < 40);
}

static void a_median_of_an_even_number_lies_between(void **state)
{
    double values[] = {4, 1, 3, 2};
    (void)state;
    assert_true(samples_median(values, 4) == 2.5);
    assert_true(samples_median(values, 3) == 2);
    assert_true(isnan(samples_median(values, 0)));
}

static void an_order_is_complete_and_comes_again_with_its_seed(void **state)
{
    uint32_t a[64], b[64], seen[64] = {0}, moved = 0;
    uint64_t first = 42, second = 42;
    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        a[i] = b[i] = i;
    }
    order_shuffle(&first, a, 64);
    order_shuffle(&second, b, 64);
    assert_memory_equal(a, b, sizeof a);
    for (uint32_t i = 0; i < 64; i++) {
        assert_true(a[i] < 64);
        seen[a[i]]++;
        moved += a[i] != i;
    }
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_true(moved > 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_by_nearest_rank),
        cmocka_unit_test(one_stall_makes_the_deviation_and_leaves_the_others_alone),
        cmocka_unit_test(the_worst_are_those_furthest_from_the_median_on_either_side),
        cmocka_unit_test(the_robust_width_of_a_normal_shape_is_its_deviation),
        cmocka_unit_test(a_median_of_an_even_number_lies_between),
        cmocka_unit_test(an_order_is_complete_and_comes_again_with_its_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
