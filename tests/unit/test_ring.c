#include "check.h"

#include <pthread.h>
#include <sched.h>

#include <solsend/error.h>

#include "base/ring.h"

enum { ROUNDS = 200000 };

static void full_and_empty_are_answers(void **state)
{
    (void)state;
    struct ring r;
    uint64_t v = 1;
    assert_int_equal(ring_open(&r, 0, 8), SOLSEND_ERR_USAGE);
    assert_int_equal(ring_open(&r, 4, 0), SOLSEND_ERR_USAGE);
    assert_int_equal(ring_open(&r, 3, sizeof v), 0);
    assert_int_equal(ring_pop(&r, &v), 0);
    for (v = 0; v < 4; v++) {
        assert_int_equal(ring_push(&r, &v), 1);
    }
    assert_int_equal(ring_push(&r, &v), 0);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(ring_pop(&r, &v), 1);
        assert_int_equal(v, i);
    }
    assert_int_equal(ring_pop(&r, &v), 0);
    ring_close(&r);
}

static void *produce(void *arg)
{
    struct ring *r = arg;
    for (uint64_t v = 0; v < ROUNDS; v++) {
        while (!ring_push(r, &v)) {
            sched_yield();
        }
    }
    return NULL;
}

static void order_survives_two_threads(void **state)
{
    (void)state;
    struct ring r;
    assert_int_equal(ring_open(&r, 16, sizeof(uint64_t)), 0);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, produce, &r), 0);
    for (uint64_t want = 0; want < ROUNDS;) {
        uint64_t v;
        if (ring_pop(&r, &v)) {
            assert_int_equal(v, want);
            want++;
        } else {
            sched_yield();
        }
    }
    pthread_join(t, NULL);
    ring_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_and_empty_are_answers),
        cmocka_unit_test(order_survives_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
