#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "stats/histogram.h"

enum { SAMPLES = 50000 };

/* Repeatable numbers: a failure must fail again. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static solsend_histogram *opened(void)
{
    solsend_histogram *h = NULL;
    assert_int_equal(solsend_histogram_open(&h), 0);
    assert_non_null(h);
    return h;
}

/* Equal in every total and every bucket. */
static void assert_same(const solsend_histogram *a, const solsend_histogram *b)
{
    const size_t from = offsetof(solsend_histogram, count);
    const size_t until = offsetof(solsend_histogram, counts) + sizeof a->counts;
    assert_memory_equal((const uint8_t *)a + from, (const uint8_t *)b + from, until - from);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void empty_is_all_zero(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    solsend_summary summary;
    memset(&summary, 0xff, sizeof summary);
    solsend_histogram_summary(h, &summary);
    const solsend_summary zero = {0};
    assert_memory_equal(&summary, &zero, sizeof zero);
    assert_int_equal(solsend_histogram_quantile(h, 0.5), 0);
    uint32_t index = 0;
    uint64_t low, high, count;
    assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 0);
    solsend_histogram_close(h);
}

static void zeroed_memory_is_an_empty_histogram(void **state)
{
    (void)state;
    struct solsend_histogram *h = aligned_alloc(HISTOGRAM_ALIGN, HISTOGRAM_BYTES);
    memset(h, 0, HISTOGRAM_BYTES);
    histogram_record(h, 70);
    histogram_record(h, 50);
    solsend_summary summary;
    solsend_histogram_summary(h, &summary);
    assert_int_equal(summary.count, 2);
    assert_int_equal(summary.min, 50);
    assert_int_equal(summary.max, 70);
    memset(h, 0xa5, HISTOGRAM_BYTES);
    histogram_init(h);
    solsend_histogram_summary(h, &summary);
    assert_int_equal(summary.count, 0);
    free(h);
}

/* Every value is inside a bucket no wider than 1/32 of it, and buckets tile without a gap. */
static void one_value_answers_within_three_percent(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    uint64_t seed = 7;
    for (int octave = 0; octave < 36; octave++) {
        for (int i = 0; i < 200; i++) {
            uint64_t base = UINT64_C(1) << octave;
            uint64_t value = i == 0   ? base
                             : i == 1 ? 2 * base - 1
                                      : base + next_random(&seed) % base;
            if (value > 60 * CLOCK_NS_PER_S) {
                continue;
            }
            solsend_histogram_reset(h);
            solsend_histogram_record(h, 0);
            solsend_histogram_record(h, value);
            solsend_histogram_record(h, UINT64_C(1) << 40);
            uint64_t answer = solsend_histogram_quantile(h, 0.5);
            double error = fabs((double)answer - (double)value) / (double)value;
            assert_true(error <= 1.0 / 64);

            uint32_t index = 1; /* past the zero */
            uint64_t low, high, count;
            assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 1);
            assert_true(low <= value && value < high);
            assert_true(high - low == 1 || (double)(high - low) <= (double)low / 32);
            assert_int_equal(count, 1);
        }
    }
    solsend_histogram_close(h);
}

static void buckets_tile_without_gap(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    uint64_t value = 0;
    uint32_t index = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        assert_int_equal(histogram_index(value), i);
        solsend_histogram_record(h, value);
        uint64_t low, high, count;
        assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 1);
        assert_int_equal(low, value);
        assert_int_equal(histogram_index(high - 1), i);
        value = high;
    }
    assert_int_equal(value, UINT64_C(1) << HISTOGRAM_TOP_BITS);
    assert_true(value > 60 * CLOCK_NS_PER_S);
    assert_int_equal(histogram_index(value), HISTOGRAM_BUCKETS);
    assert_int_equal(histogram_index(UINT64_MAX), HISTOGRAM_BUCKETS);
    solsend_histogram_close(h);
}

/* Mixes scales as latencies do: many small, a long tail. */
static void fill_samples(uint64_t *values, uint64_t seed)
{
    for (int i = 0; i < SAMPLES; i++) {
        values[i] = 900 + next_random(&seed) % (UINT64_C(1) << (next_random(&seed) % 30));
    }
}

static void quantiles_match_the_sorted_values(void **state)
{
    (void)state;
    static uint64_t values[SAMPLES];
    fill_samples(values, 42);
    solsend_histogram *h = opened();
    for (int i = 0; i < SAMPLES; i++) {
        solsend_histogram_record(h, values[i]);
    }
    qsort(values, SAMPLES, sizeof values[0], compare);
    for (int i = 0; i <= 1000; i++) {
        double q = i / 1000.0;
        uint32_t rank = (uint32_t)(i * (SAMPLES / 1000));
        uint64_t exact = values[rank > 0 ? rank - 1 : 0];
        uint64_t answer = solsend_histogram_quantile(h, q);
        assert_true(fabs((double)answer - (double)exact) <= (double)exact / 64);
    }
    assert_int_equal(solsend_histogram_quantile(h, 0), values[0]);
    assert_int_equal(solsend_histogram_quantile(h, 1), values[SAMPLES - 1]);

    solsend_summary s;
    solsend_histogram_summary(h, &s);
    assert_int_equal(s.count, SAMPLES);
    assert_int_equal(s.min, values[0]);
    assert_int_equal(s.max, values[SAMPLES - 1]);
    assert_int_equal(s.p50, solsend_histogram_quantile(h, 0.5));
    assert_int_equal(s.p90, solsend_histogram_quantile(h, 0.9));
    assert_int_equal(s.p99, solsend_histogram_quantile(h, 0.99));
    assert_int_equal(s.p999, solsend_histogram_quantile(h, 0.999));
    solsend_histogram_close(h);
}

static void quantile_is_clamped(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    for (uint64_t v = 1; v <= 100; v++) {
        solsend_histogram_record(h, v);
    }
    assert_int_equal(solsend_histogram_quantile(h, -3), 1);
    assert_int_equal(solsend_histogram_quantile(h, (double)NAN), 1);
    assert_int_equal(solsend_histogram_quantile(h, 7), 100);
    /* binary fractions of a little more than the rank must not answer the next one */
    for (int i = 2; i < 64; i++) {
        assert_int_equal(solsend_histogram_quantile(h, i / 100.0), i);
    }
    solsend_histogram_close(h);
}

static void deviation_and_mean_are_exact(void **state)
{
    (void)state;
    static uint64_t values[SAMPLES];
    const uint64_t offsets[] = {0, 1000, 60 * CLOCK_NS_PER_S};
    const uint64_t spreads[] = {3, 1000, 20000000};
    uint64_t seed = 99;
    for (int o = 0; o < 3; o++) {
        for (int p = 0; p < 3; p++) {
            solsend_histogram *h = opened();
            long double sum = 0;
            for (int i = 0; i < SAMPLES; i++) {
                values[i] = offsets[o] + next_random(&seed) % spreads[p];
                sum += (long double)values[i];
                solsend_histogram_record(h, values[i]);
            }
            long double mean = sum / SAMPLES;
            long double squares = 0;
            for (int i = 0; i < SAMPLES; i++) {
                long double d = (long double)values[i] - mean;
                squares += d * d;
            }
            solsend_summary s;
            solsend_histogram_summary(h, &s);
            assert_true(fabs((double)(mean - (long double)s.mean)) <= 0.5001);
            double sd = (double)sqrtl(squares / SAMPLES);
            assert_true(sd - (double)s.sd >= -0.001 && sd - (double)s.sd < 1.001);
            solsend_histogram_close(h);
        }
    }
}

static void values_over_the_top_are_kept(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    const uint64_t day = 86400 * CLOCK_NS_PER_S;
    solsend_histogram_record(h, 5);
    solsend_histogram_record(h, 61 * CLOCK_NS_PER_S);
    solsend_histogram_record(h, 100 * CLOCK_NS_PER_S);
    solsend_histogram_record(h, day);
    solsend_summary s;
    solsend_histogram_summary(h, &s);
    assert_int_equal(s.count, 4);
    assert_int_equal(s.max, day);
    assert_int_equal(s.mean, (5 + 161 * CLOCK_NS_PER_S + day + 2) / 4);
    uint32_t index = 0;
    uint64_t low, high, count;
    assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 1);
    assert_int_equal(low, 5);
    assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 1);
    assert_true(low <= 61 * CLOCK_NS_PER_S && 61 * CLOCK_NS_PER_S < high);
    assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 1);
    assert_int_equal(count, 2);
    assert_int_equal(low, UINT64_C(1) << HISTOGRAM_TOP_BITS);
    assert_int_equal(high, day + 1);
    assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 0);
    assert_int_equal(solsend_histogram_next(h, &index, &low, &high, &count), 0);
    solsend_histogram_close(h);
}

/* Sums of absurd values carry and saturate; nothing is undefined. */
static void absurd_values_do_not_overflow(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    for (int i = 0; i < 5; i++) {
        solsend_histogram_record(h, UINT64_MAX);
    }
    solsend_summary s;
    solsend_histogram_summary(h, &s);
    assert_int_equal(s.mean, UINT64_MAX);
    assert_int_equal(s.max, UINT64_MAX);
    assert_int_equal(s.min, UINT64_MAX);
    assert_int_equal(s.p50, UINT64_MAX);
    assert_int_equal(s.sd, UINT64_MAX); /* "more than can be said" */
    solsend_histogram_close(h);
}

static void merge_equals_recording_all(void **state)
{
    (void)state;
    static uint64_t values[SAMPLES];
    fill_samples(values, 5);
    solsend_histogram *all = opened();
    solsend_histogram *left = opened();
    solsend_histogram *right = opened();
    for (int i = 0; i < SAMPLES; i++) {
        solsend_histogram_record(all, values[i]);
        solsend_histogram_record(i % 3 == 0 ? left : right, values[i]);
    }
    solsend_histogram_merge(left, right);
    assert_same(left, all);

    solsend_histogram *empty = opened();
    solsend_histogram_merge(left, empty);
    assert_same(left, all);
    solsend_histogram_merge(empty, left);
    assert_same(empty, all);

    solsend_histogram_merge(left, left);
    solsend_summary once, twice;
    solsend_histogram_summary(all, &once);
    solsend_histogram_summary(left, &twice);
    assert_int_equal(twice.count, 2 * once.count);
    assert_int_equal(twice.sd, once.sd);
    assert_int_equal(twice.p99, once.p99);
    solsend_histogram_close(all);
    solsend_histogram_close(left);
    solsend_histogram_close(right);
    solsend_histogram_close(empty);
}

static void reset_forgets_everything(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    solsend_histogram *fresh = opened();
    solsend_histogram_record(h, 1234567);
    solsend_histogram_record(h, UINT64_MAX);
    solsend_histogram_reset(h);
    assert_same(h, fresh);
    solsend_histogram_close(h);
    solsend_histogram_close(fresh);
}

static void null_is_answered(void **state)
{
    (void)state;
    assert_int_equal(solsend_histogram_open(NULL), SOLSEND_ERR_USAGE);
    solsend_histogram_close(NULL);
    solsend_histogram_record(NULL, 1);
    solsend_histogram_reset(NULL);
    solsend_histogram_merge(NULL, NULL);
    assert_int_equal(solsend_histogram_quantile(NULL, 0.5), 0);
    solsend_summary s = {.count = 9};
    solsend_histogram_summary(NULL, &s);
    assert_int_equal(s.count, 0);
    uint32_t index = 0;
    assert_int_equal(solsend_histogram_next(NULL, &index, NULL, NULL, NULL), 0);
}

enum { CONSTANT = 987654321 };

struct shared {
    solsend_histogram *histogram;
    _Atomic int started;
    _Atomic int stop;
    uint64_t written;
};

static void *write_until_told(void *arg)
{
    struct shared *shared = arg;
    for (uint64_t i = 0; !atomic_load(&shared->stop); i++) {
        solsend_histogram_record(shared->histogram, CONSTANT);
        shared->written++;
        atomic_store(&shared->started, 1);
        /* bursts without a pause, then as far apart as sends are */
        for (volatile int pause = i % 8192 < 4096 ? 0 : 300; pause > 0; pause--) {
        }
    }
    return NULL;
}

/* All values are one value, so any mixture of two moments would show in the mean or the sd. */
static int read_until_late(struct shared *shared)
{
    uint64_t last = 0;
    uint64_t until = clock_now() + 200 * CLOCK_NS_PER_MS;
    while (clock_now() < until) {
        solsend_summary s;
        solsend_histogram_summary(shared->histogram, &s);
        if (s.count < last || s.mean != CONSTANT || s.sd != 0 || s.min != CONSTANT ||
            s.p99 != CONSTANT || s.max != CONSTANT) {
            print_error("count %" PRIu64 " after %" PRIu64 ", mean %" PRIu64 ", sd %" PRIu64 "\n",
                        s.count, last, s.mean, s.sd);
            return 0;
        }
        last = s.count;
    }
    return last > 1;
}

static void a_reader_sees_whole_totals_while_written(void **state)
{
    (void)state;
    struct shared shared = {.histogram = opened()};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_until_told, &shared), 0);
    while (!atomic_load(&shared.started)) {
    }
    int whole = read_until_late(&shared);
    atomic_store(&shared.stop, 1);
    pthread_join(writer, NULL);
    assert_true(whole);
    solsend_summary s;
    solsend_histogram_summary(shared.histogram, &s);
    assert_int_equal(s.count, shared.written);
    solsend_histogram_close(shared.histogram);
}

/* A writer that was preempted in the middle of a change does not stop a reader. */
static void an_unfinished_change_is_estimated_from_buckets(void **state)
{
    (void)state;
    static uint64_t values[SAMPLES];
    fill_samples(values, 11);
    solsend_histogram *h = opened();
    for (int i = 0; i < SAMPLES; i++) {
        solsend_histogram_record(h, values[i]);
    }
    solsend_summary exact, estimate;
    solsend_histogram_summary(h, &exact);
    h->sequence++;
    h->sum[0] = 1; /* half a change */
    solsend_histogram_summary(h, &estimate);
    assert_int_equal(estimate.count, exact.count);
    assert_int_equal(estimate.min, exact.min);
    assert_int_equal(estimate.max, exact.max);
    assert_int_equal(estimate.p99, exact.p99);
    assert_true(fabs((double)estimate.mean / (double)exact.mean - 1) < 0.016);
    assert_true(fabs((double)estimate.sd / (double)exact.sd - 1) < 0.016);
    solsend_histogram_close(h);
}

static void recording_is_cheap(void **state)
{
    (void)state;
    solsend_histogram *h = opened();
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 2000; round++) { /* short: one of them is not interrupted */
        uint64_t start = clock_now();
        for (uint64_t i = 0; i < 1000; i++) {
            histogram_record(h, 1000 + (i & 1023));
        }
        uint64_t spent = clock_now() - start;
        best = spent < best ? spent : best;
    }
    print_message("record: %.2f ns\n", (double)best / 1000);
    assert_true(best / 1000 < 500); /* generous: sanitizers and busy machines pass */
    solsend_histogram_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_all_zero),
        cmocka_unit_test(zeroed_memory_is_an_empty_histogram),
        cmocka_unit_test(one_value_answers_within_three_percent),
        cmocka_unit_test(buckets_tile_without_gap),
        cmocka_unit_test(quantiles_match_the_sorted_values),
        cmocka_unit_test(quantile_is_clamped),
        cmocka_unit_test(deviation_and_mean_are_exact),
        cmocka_unit_test(values_over_the_top_are_kept),
        cmocka_unit_test(absurd_values_do_not_overflow),
        cmocka_unit_test(merge_equals_recording_all),
        cmocka_unit_test(reset_forgets_everything),
        cmocka_unit_test(null_is_answered),
        cmocka_unit_test(a_reader_sees_whole_totals_while_written),
        cmocka_unit_test(an_unfinished_change_is_estimated_from_buckets),
        cmocka_unit_test(recording_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
