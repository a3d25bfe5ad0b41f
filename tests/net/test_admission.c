/* Admission and credit: connected is not admitted, and whoever waits keeps its deadline. */
#include "bed.h"

#include "plain_client.h"

#include <poll.h>
#include <time.h>

static const uint64_t ms = 1000000;

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 * ms + (uint64_t)t.tv_nsec;
}

/* As an event loop does: sleeps until the fd is readable or poll is due. Returns how often it woke
 * up. */
static uint32_t sleep_through(struct bed *bed, uint32_t duration_ms)
{
    uint32_t wakeups = 0;
    uint64_t until = solsend_now_ns() + duration_ms * ms, now;
    while ((now = solsend_now_ns()) < until) {
        uint64_t next = solsend_link_next_timeout_ns(bed->link);
        next = next < until ? next : until;
        uint64_t ns = next > now ? next - now : 0;
        struct timespec t = {(time_t)(ns / (1000 * ms)), (long)(ns % (1000 * ms))};
        struct pollfd p = {.fd = solsend_link_fd(bed->link), .events = POLLIN};
        ppoll(&p, 1, &t, NULL);
        wakeups++;
        solsend_link_poll(bed->link);
        bed_drain(bed);
    }
    return wakeups;
}

static solsend_summary hop(const struct bed *bed, uint32_t which)
{
    solsend_summary s;
    assert_int_equal(solsend_link_hop(bed->link, which, &s), 0);
    return s;
}

/* ---- the grant comes after the handshake -------------------------------------------------------
 */

static void expect_leaves_at_the_grant(uint32_t delay_ms)
{
    struct bed bed;
    char faults[64];
    snprintf(faults, sizeof faults, "rtt_ms=50,grant=8,grant_delay_ms=%u", delay_ms);
    bed_open(&bed, "agave-4.3", faults);
    uint64_t start = solsend_now_ns();
    bed_connect(&bed);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(bed_send(&bed, 1232, 3000, i), 0);
    }
    assert_int_equal(bed_info(&bed).waiting, 3);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 3, 5000);

    uint64_t granted = bed.last[SOLSEND_EVENT_LINK_ADMITTED].t_ns;
    assert_true(granted - start >= delay_ms * ms);
    assert_true(bed_info(&bed).admitted_ns >= delay_ms * ms);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_ADMITTED].value, 8);
    assert_int_equal(bed.seen[SOLSEND_EVENT_WRITTEN], 3);
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_WRITTEN) {
            assert_in_range(bed.log[i].t_ns, granted, granted + 100 * ms);
            assert_true(bed.log[i].value >= delay_ms * ms);
        }
    }
    solsend_link_stats s = bed_stats(&bed);
    assert_int_equal(s.waited_admission, 3);
    assert_int_equal(s.expired + s.closed + s.refused, 0);
    assert_int_equal(hop(&bed, SOLSEND_HOP_CREDIT).count, 3);
    assert_true(hop(&bed, SOLSEND_HOP_CREDIT).max >= delay_ms * ms);
    assert_int_equal(hop(&bed, SOLSEND_HOP_CALL).count, 0);
    assert_int_equal(mock_wait_accepted(bed.leader, 3, 2000), 3);
    assert_int_equal(bed_counts(&bed).streams_split, 0);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void what_is_sent_while_connecting_leaves_at_the_grant(void **state)
{
    expect_leaves_at_the_grant(0);
    expect_leaves_at_the_grant(20);
    expect_leaves_at_the_grant(500);
}

static void connected_without_credit_is_parked_until_the_grant(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "rtt_ms=50,grant=8,grant_delay_ms=300");
    bed_connect(&bed);
    bed_until(&bed, SOLSEND_EVENT_LINK_CONNECTED, 1, 2000);
    assert_int_equal(bed_info(&bed).state, SOLSEND_LINK_CONNECTED);
    assert_int_equal(bed_info(&bed).streams_left, 0);
    assert_int_equal(solsend_link_wait_admitted(bed.link, 20), SOLSEND_ERR_NOT_READY);
    for (uint64_t i = 0; i < 20; i++) { /* more than the grant: the rest goes as streams end */
        assert_int_equal(bed_send(&bed, 250, 3000, i), 0);
    }
    assert_int_equal(bed_stats(&bed).waited_credit, 20);
    bed_until(&bed, SOLSEND_EVENT_LINK_PARKED, 1, 100);
    assert_int_equal(bed.seen[SOLSEND_EVENT_WRITTEN], 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 20, 5000);
    assert_true(bed.seen[SOLSEND_EVENT_LINK_CREDIT] >= 1);
    assert_int_equal(bed_info(&bed).state, SOLSEND_LINK_ADMITTED);
    assert_int_equal(hop(&bed, SOLSEND_HOP_CREDIT).count, 20);
    assert_int_equal(mock_wait_accepted(bed.leader, 20, 2000), 20);
    assert_int_equal(bed_stats(&bed).expired, 0);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* What the waiting is for: who opens a stream right after the handshake has lost its transaction.
 */
static void a_naive_client_cannot_send_after_the_handshake(void **state)
{
    struct bed bed;
    struct plain client;
    struct plain_options options = {.seed = 3};
    uint8_t wire[250];
    bed_open(&bed, "agave-4.3", "grant=8,grant_delay_ms=200");
    bed_transaction(&bed, wire, sizeof wire);
    assert_int_equal(plain_open(&client, mock_port(bed.leader), &options), 0);
    assert_int_equal(plain_until(&client, &client.completed, 1, 2000), 1);
    assert_int_equal(plain_streams_left(&client), 0);
    assert_int_equal(plain_send(&client, wire, sizeof wire), -1);
    plain_run(&client, 400);
    assert_int_equal(plain_streams_left(&client), 8);
    assert_int_equal(bed_counts(&bed).accepted, 0);
    plain_close(&client);
    bed_close(&bed);
}

static void credit_in_the_transport_parameters_admits_with_the_handshake(void **state)
{
    struct bed bed;
    bed_open(&bed, "firedancer", NULL);
    bed_admit(&bed);
    assert_int_equal(bed_info(&bed).admitted_ns, bed_info(&bed).connected_ns);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    bed_close(&bed);
}

/* ---- no grant ----------------------------------------------------------------------------------
 */

static void without_a_grant_the_deadline_ends_it_and_nothing_leaves(void **state)
{
    struct bed bed, other;
    bed_open(&bed, "agave-4.3", "grant=never");
    bed_open(&other, "agave-4.3", NULL);
    bed_connect(&bed);
    bed_until(&bed, SOLSEND_EVENT_LINK_CONNECTED, 1, 2000);
    bed_admit(&other);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 0); /* no deadline: it may wait for ever */
    assert_int_equal(bed_send(&bed, 250, 400, 2), 0);
    assert_int_equal(bed_send(&other, 250, 400, 3), 1); /* another leader does not notice */
    bed_until(&other, SOLSEND_EVENT_ACKED, 1, 300);
    assert_int_equal(bed.seen[SOLSEND_EVENT_EXPIRED], 0);

    bed_until(&bed, SOLSEND_EVENT_EXPIRED, 1, 2000);
    const solsend_event *e = &bed.last[SOLSEND_EVENT_EXPIRED];
    assert_int_equal(e->user, 2);
    assert_int_equal(e->code, SOLSEND_ERR_NO_CREDIT);
    assert_in_range(e->value, 400 * ms, 450 * ms);
    print_message("deadline of 400 ms: expired after %llu us\n",
                  (unsigned long long)(e->value / 1000));
    bed_run(&bed, 200);
    assert_int_equal(bed_info(&bed).open, 1);
    assert_int_equal(bed_stats(&bed).written, 0);
    mock_counts c = bed_counts(&bed);
    assert_int_equal(c.streams + c.stream_frames + c.accepted, 0);
    bed_close(&other);
    bed_close(&bed);
}

static void a_sleeping_loop_is_woken_for_the_deadline(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "grant=never");
    bed_connect(&bed);
    bed_until(&bed, SOLSEND_EVENT_LINK_CONNECTED, 1, 2000);
    bed_run(&bed, 100);
    assert_int_equal(bed_send(&bed, 250, 200, 2), 0);
    uint32_t wakeups = sleep_through(&bed, 400);
    assert_int_equal(bed.seen[SOLSEND_EVENT_EXPIRED], 1);
    assert_in_range(bed.last[SOLSEND_EVENT_EXPIRED].value, 200 * ms, 350 * ms);
    assert_in_range(wakeups, 1, 20);
    bed_close(&bed);
}

static void before_the_handshake_it_is_admission_that_is_lacking(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "ignore_initials=all");
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 100, 2), 0);
    bed_until(&bed, SOLSEND_EVENT_EXPIRED, 1, 900);
    assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NO_ADMISSION);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* ---- credit goes and comes ---------------------------------------------------------------------
 */

static void lost_credit_parks_the_link_and_new_credit_frees_it(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "grant=total:20");
    bed_admit(&bed);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(bed_send(&bed, 250, 0, i), 1);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 20, 2000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PARKED], 0);
    for (uint64_t i = 20; i < 25; i++) {
        assert_int_equal(bed_send(&bed, 250, 0, i), 0);
    }
    bed_until(&bed, SOLSEND_EVENT_LINK_PARKED, 1, 100);
    assert_true(bed.last[SOLSEND_EVENT_LINK_PARKED].value >= 1);
    bed_run(&bed, 50);

    uint64_t cpu = thread_cpu_ns();
    uint32_t wakeups = sleep_through(&bed, 1000);
    cpu = thread_cpu_ns() - cpu;
    print_message("parked for 1 s: %u wake-ups, %llu us of CPU\n", wakeups,
                  (unsigned long long)(cpu / 1000));
    assert_in_range(wakeups, 1, 30);
    assert_true(cpu < 20 * ms);
    assert_int_equal(bed_info(&bed).waiting, 5);
    assert_int_equal(bed_counts(&bed).streams, 20);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_CREDIT], 0);

    bed_fault(&bed, "grant=total:40");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 25, 2000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_CREDIT], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_CREDIT].value, 20);
    assert_true(bed.last[SOLSEND_EVENT_LINK_CREDIT].t_ns -
                    bed.last[SOLSEND_EVENT_LINK_PARKED].t_ns >=
                1000 * ms);
    assert_int_equal(bed_info(&bed).streams_left, 15);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* Whoever waited for the handshake, or a window, can find the credit used up afterwards. */
static void credit_that_runs_out_while_the_waiting_leave_parks_too(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "rtt_ms=50,grant=total:3");
    bed_connect(&bed);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(bed_send(&bed, 250, 0, i), 0);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 3, 2000);
    bed_until(&bed, SOLSEND_EVENT_LINK_PARKED, 1, 100);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_PARKED].value, 2);
    bed_fault(&bed, "grant=total:5");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 5, 2000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_CREDIT], 1);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* Link events are coalesced: who drains late must still learn how it is now. */
static void a_late_drain_ends_with_the_state_that_holds(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "grant=total:1");
    bed_admit(&bed);
    bed_drain(&bed);
    for (uint64_t i = 0; i < 2; i++) {
        bed_send(&bed, 250, 0, i);
    }
    for (int total = 2; total < 5; total++) { /* parked, then freed and parked again, undrained */
        char faults[32];
        assert_int_equal(bed_send(&bed, 250, 0, 0), 0);
        snprintf(faults, sizeof faults, "grant=total:%d", total);
        bed_fault(&bed, faults);
        uint64_t until = solsend_now_ns() + 2000 * ms;
        while (bed_stats(&bed).acked < (uint64_t)total && solsend_now_ns() < until) {
            solsend_link_poll(bed.link);
        }
        assert_int_equal(bed_stats(&bed).acked, total);
    }
    assert_int_equal(bed_info(&bed).waiting, 1);
    uint32_t newest = 0;
    bed_drain(&bed);
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_LINK_PARKED ||
            bed.log[i].kind == SOLSEND_EVENT_LINK_CREDIT) {
            newest = bed.log[i].kind;
        }
    }
    assert_int_equal(newest, SOLSEND_EVENT_LINK_PARKED);
    bed_close(&bed);
}

/* Credit that comes after the deadline, to a caller that did not poll in between, sends nothing. */
static void a_late_poll_does_not_send_what_is_past_its_deadline(void **state)
{
    for (int by_send = 0; by_send < 2; by_send++) {
        struct bed bed;
        const struct timespec nap = {0, 150 * 1000000};
        bed_open(&bed, "agave-4.3", "grant=total:1");
        bed_admit(&bed);
        assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
        assert_int_equal(bed_send(&bed, 250, 50, 2), 0);
        bed_fault(&bed, "grant=total:10");
        nanosleep(&nap, NULL);
        if (by_send) {
            assert_in_range(bed_send(&bed, 250, 0, 3), 0, 1);
            bed_until(&bed, SOLSEND_EVENT_ACKED, 2, 2000);
        }
        bed_run(&bed, 50);
        assert_int_equal(bed.seen[SOLSEND_EVENT_EXPIRED], 1);
        assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].user, 2);
        assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NO_CREDIT);
        assert_int_equal(bed_counts(&bed).streams, by_send ? 2 : 1);
        bed_assert_accounted(&bed);
        bed_close(&bed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_while_connecting_leaves_at_the_grant),
        cmocka_unit_test(connected_without_credit_is_parked_until_the_grant),
        cmocka_unit_test(a_naive_client_cannot_send_after_the_handshake),
        cmocka_unit_test(credit_in_the_transport_parameters_admits_with_the_handshake),
        cmocka_unit_test(without_a_grant_the_deadline_ends_it_and_nothing_leaves),
        cmocka_unit_test(a_sleeping_loop_is_woken_for_the_deadline),
        cmocka_unit_test(before_the_handshake_it_is_admission_that_is_lacking),
        cmocka_unit_test(lost_credit_parks_the_link_and_new_credit_frees_it),
        cmocka_unit_test(credit_that_runs_out_while_the_waiting_leave_parks_too),
        cmocka_unit_test(a_late_poll_does_not_send_what_is_past_its_deadline),
        cmocka_unit_test(a_late_drain_ends_with_the_state_that_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
