#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/allocations.h"
#include "bench/pace.h"

#define COUNT       200u
#define INTERVAL_NS 200000u

/* A sender that does what the test wants instead of sending. */
struct actor {
    struct sender base;
    uint32_t sent, tended;
    uint32_t stall_at;  /* this send takes 10 ms */
    uint32_t refuse_at; /* this one is refused three times */
    uint32_t refusals;
    uint32_t die_at;      /* from this one on it has ended */
    uint8_t order[COUNT]; /* first byte of each wire */
};

static int actor_send(struct sender *s, const uint8_t *wire, uint32_t bytes)
{
    struct actor *a = (struct actor *)s;
    assert_int_equal(bytes, 4);
    if (a->sent == a->die_at) {
        return SOLSEND_ERR_CLOSED;
    }
    if (a->sent == a->refuse_at && a->refusals < 3) {
        a->refusals++;
        return SOLSEND_ERR_FULL;
    }
    if (a->sent == a->stall_at) {
        usleep(10000);
    }
    a->order[a->sent++] = wire[0];
    return 1;
}

static int actor_tend(struct sender *s)
{
    struct actor *a = (struct actor *)s;
    a->tended++;
    return a->sent == a->die_at ? SOLSEND_ERR_CLOSED : 0;
}

static int actor_fd(const struct sender *s)
{
    (void)s;
    return -1;
}

static uint64_t actor_timeout(const struct sender *s)
{
    (void)s;
    return UINT64_MAX;
}

static const struct sender_table actor_table = {.transport = "actor",
                                                .send = actor_send,
                                                .tend = actor_tend,
                                                .fd = actor_fd,
                                                .timeout_ns = actor_timeout};

struct stage {
    struct actor actor;
    struct wires wires;
    struct pace pace;
    struct pace_stamps stamps;
};

static void set(struct stage *g)
{
    memset(g, 0, sizeof *g);
    g->actor.base.table = &actor_table;
    g->actor.stall_at = g->actor.refuse_at = g->actor.die_at = UINT32_MAX;
    g->wires.bytes = 4;
    g->wires.count = COUNT;
    g->wires.memory = calloc(COUNT, 4);
    assert_non_null(g->wires.memory);
    for (uint32_t i = 0; i < COUNT; i++) {
        g->wires.memory[i * 4] = (uint8_t)i;
    }
    g->pace.interval_ns = INTERVAL_NS;
    assert_int_equal(pace_stamps_open(&g->stamps, COUNT), 0);
}

static void strike(struct stage *g)
{
    pace_stamps_close(&g->stamps);
    wires_close(&g->wires);
}

static void no_send_is_early_or_skipped_and_a_late_one_leaves_at_once(void **state)
{
    struct stage g;
    (void)state;
    set(&g);
    g.actor.stall_at = 20;
    assert_int_equal(pace_run(&g.pace, &g.actor.base, &g.wires, 0, COUNT, &g.stamps), 0);
    assert_int_equal(g.actor.sent, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(g.actor.order[i], (uint8_t)i);
        assert_true(g.stamps.start[i] >= g.stamps.t0 + i * g.pace.interval_ns);
        assert_true(g.stamps.end[i] >= g.stamps.start[i]);
    }
    /* the stall is in the call of one send only, but in the wait of those behind it */
    assert_true(g.stamps.end[20] - g.stamps.start[20] >= 10 * CLOCK_NS_PER_MS);
    for (uint32_t i = 21; i < 60; i++) {
        assert_true(g.stamps.end[i] - (g.stamps.t0 + i * g.pace.interval_ns) >=
                    2 * CLOCK_NS_PER_MS);
    }
    assert_true(g.actor.tended > 0);
    strike(&g);
}

static void a_refused_send_is_repeated_until_it_is_taken(void **state)
{
    struct stage g;
    (void)state;
    set(&g);
    g.actor.refuse_at = 30;
    assert_int_equal(pace_run(&g.pace, &g.actor.base, &g.wires, 0, COUNT, &g.stamps), 0);
    assert_int_equal(g.actor.sent, COUNT);
    assert_int_equal(g.actor.refusals, 3);
    assert_int_equal(g.stamps.refused, 1);
    assert_int_equal(g.stamps.dead, 0);
    strike(&g);
}

static void a_sender_that_ends_is_reported_with_what_it_did_not_send(void **state)
{
    struct stage g;
    (void)state;
    set(&g);
    g.actor.die_at = 150;
    assert_int_equal(pace_run(&g.pace, &g.actor.base, &g.wires, 0, COUNT, &g.stamps),
                     SOLSEND_ERR_CLOSED);
    assert_int_equal(g.actor.sent, 150);
    assert_int_equal(g.stamps.dead, COUNT - 150);
    strike(&g);
}

static void sleeping_between_sends_keeps_the_plan(void **state)
{
    struct stage g;
    (void)state;
    set(&g);
    g.pace.wait = PACE_SLEEP;
    assert_int_equal(pace_run(&g.pace, &g.actor.base, &g.wires, 0, COUNT, &g.stamps), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(g.stamps.start[i] >= g.stamps.t0 + i * g.pace.interval_ns);
    }
    /* asleep, not tending all the time */
    assert_true(g.actor.tended <= 3 * COUNT);
    strike(&g);
}

static void heap_calls_of_this_thread_are_counted(void **state)
{
    uint64_t before = allocations_count();
    int64_t live = allocations_live_bytes();
    void *volatile p;
    (void)state;
    if (!allocations_available()) {
        SKIP_TEST("the heap cannot be counted in this build");
    }
    p = malloc(1000);
    p = realloc(p, 5000);
    assert_int_equal(allocations_count() - before, 2);
    assert_true(allocations_live_bytes() - live >= 5000);
    assert_true(allocations_live_bytes() - live < 5200);
    free(p);
    p = NULL;
    assert_int_equal(posix_memalign((void **)(uintptr_t)&p, 256, 100), 0);
    assert_int_equal((uintptr_t)p % 256, 0);
    free(p);
    assert_int_equal(posix_memalign((void **)(uintptr_t)&p, 3, 100), 22 /* EINVAL */);
    assert_int_equal(allocations_count() - before, 3);
    assert_int_equal(allocations_live_bytes(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_send_is_early_or_skipped_and_a_late_one_leaves_at_once),
        cmocka_unit_test(a_refused_send_is_repeated_until_it_is_taken),
        cmocka_unit_test(a_sender_that_ends_is_reported_with_what_it_did_not_send),
        cmocka_unit_test(sleeping_between_sends_keeps_the_plan),
        cmocka_unit_test(heap_calls_of_this_thread_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
