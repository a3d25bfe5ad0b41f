/* Silence: keep-alive in time for the shorter of both ends' timeouts, no more, and none if
 * unwanted. */
#include "bed.h"

#include <poll.h>
#include <time.h>

static const uint64_t ms = 1000000;

static uint64_t now_ms(void)
{
    return solsend_now_ns() / ms;
}

static void the_interval_follows_the_shorter_timeout(void **state)
{
    static const struct {
        uint32_t peer_ms, ours_ms, both_ms;
    } cases[] = {
        {2000, 30000, 2000},   {10000, 30000, 10000}, {30000, 30000, 30000}, {60000, 30000, 30000},
        {60000, 90000, 60000}, {30000, 5000, 5000},   {0, 30000, 30000},     {30000, 0, 30000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bed bed;
        char faults[64];
        snprintf(faults, sizeof faults, "idle_ms=%u", cases[i].peer_ms);
        bed_open(&bed, "agave-4.3", faults);
        bed.options.idle_timeout_ms = cases[i].ours_ms;
        bed_admit(&bed);
        solsend_link_info info = bed_info(&bed);
        assert_int_equal(info.idle_timeout_ms, cases[i].both_ms);
        assert_in_range(info.keep_alive_ms, cases[i].both_ms / 5, cases[i].both_ms * 2 / 5);
        bed_close(&bed);
    }
}

static void no_timeout_on_either_side_needs_no_pings(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "idle_ms=0");
    bed.options.idle_timeout_ms = 0;
    bed_admit(&bed);
    assert_int_equal(bed_info(&bed).idle_timeout_ms, 0);
    assert_int_equal(bed_info(&bed).keep_alive_ms, 0);
    bed_run(&bed, 50); /* a late ACK in the handshake costs a probe, which is a PING too */
    uint64_t pings = bed_counts(&bed).pings;
    bed_run(&bed, 100);
    assert_int_equal(bed_counts(&bed).pings, pings);
    bed_close(&bed);
}

/* As an event loop does, for several links: sleeps until something is readable or due. */
static uint32_t sleep_through(struct bed *beds, int count, uint32_t duration_ms)
{
    uint32_t wakeups = 0;
    uint64_t until = solsend_now_ns() + duration_ms * ms, now;
    while ((now = solsend_now_ns()) < until) {
        struct pollfd fds[4];
        uint64_t next = until;
        for (int i = 0; i < count; i++) {
            uint64_t due = solsend_link_next_timeout_ns(beds[i].link);
            next = due < next ? due : next;
            /* of an ended link only the wake-up at its end is of interest */
            int ended = bed_info(&beds[i]).state == SOLSEND_LINK_ENDED;
            fds[i] =
                (struct pollfd){.fd = ended ? -1 : solsend_link_fd(beds[i].link), .events = POLLIN};
        }
        uint64_t ns = next > now ? next - now : 0;
        struct timespec t = {(time_t)(ns / (1000 * ms)), (long)(ns % (1000 * ms))};
        ppoll(fds, (nfds_t)count, &t, NULL);
        wakeups++;
        for (int i = 0; i < count; i++) {
            solsend_link_poll(beds[i].link);
            bed_drain(&beds[i]);
        }
    }
    return wakeups;
}

/* Two links to two leaders with 2 s of idle timeout: one pings, one does not. */
static void pings_keep_a_silent_connection_and_without_them_it_dies(void **state)
{
    enum { PINGING, MUTE, BEDS };
    static struct bed beds[BEDS];
    for (int i = 0; i < BEDS; i++) {
        bed_open(&beds[i], "agave-4.3", "idle_ms=2000");
        beds[i].options.keep_alive = i == PINGING;
        bed_admit(&beds[i]);
    }
    assert_int_equal(bed_info(&beds[PINGING]).keep_alive_ms, 800);
    assert_int_equal(bed_info(&beds[MUTE]).keep_alive_ms, 0);
    uint64_t start = now_ms();
    uint32_t wakeups = sleep_through(beds, BEDS, 5000);

    assert_int_equal(bed_info(&beds[PINGING]).state, SOLSEND_LINK_ADMITTED);
    assert_int_equal(beds[PINGING].seen[SOLSEND_EVENT_LINK_CLOSED], 0);
    uint64_t pings = bed_counts(&beds[PINGING]).pings;
    print_message("5 s of silence: %llu pings, %u wake-ups for two links\n",
                  (unsigned long long)pings, wakeups);
    assert_in_range(pings, 5, 8);
    assert_in_range(wakeups, 10, 60);
    assert_int_equal(bed_stats(&beds[PINGING]).poll_gaps, 0); /* nothing was open */
    assert_int_equal(bed_send(&beds[PINGING], 250, 1000, 1), 1);
    bed_until(&beds[PINGING], SOLSEND_EVENT_ACKED, 1, 1000);
    assert_int_equal(bed_counts(&beds[PINGING]).connections, 1);

    assert_int_equal(bed_info(&beds[MUTE]).state, SOLSEND_LINK_ENDED);
    assert_int_equal(bed_info(&beds[MUTE]).end_code, SOLSEND_ERR_IDLE);
    assert_in_range(bed_counts(&beds[MUTE]).pings, 0, 1); /* a probe in a slow handshake */
    uint64_t died = beds[MUTE].last[SOLSEND_EVENT_LINK_CLOSED].t_ns / ms - start;
    assert_in_range(died, 1800, 2500);
    for (int i = 0; i < BEDS; i++) {
        bed_close(&beds[i]);
    }
}

/* A leader that is gone without a word: what was open ends with the connection. */
static void a_peer_that_vanished_is_idle_after_the_timeout(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed.options.idle_timeout_ms = 500;
    bed_admit(&bed);
    bed_fault(&bed, "loss=1");
    uint64_t start = now_ms();
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    assert_int_equal(bed_until_end(&bed, 5000), SOLSEND_ERR_IDLE);
    assert_in_range(now_ms() - start, 400, 1500);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].code, SOLSEND_ERR_IDLE);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].peer_code, 0);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* Its port is closed now: the ICMP answers are counted, but anybody could have sent those. */
static void icmp_does_not_end_a_connection_that_was_up(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed.options.idle_timeout_ms = 500;
    bed_admit(&bed);
    mock_close(bed.leader);
    bed.leader = NULL;
    for (uint64_t i = 0; i < 5; i++) {
        assert_in_range(bed_send(&bed, 250, 0, i), 0, 1);
        bed_run(&bed, 20);
    }
    assert_int_equal(bed_info(&bed).state, SOLSEND_LINK_ADMITTED);
    assert_true(bed_stats(&bed).icmp_errors > 0);
    assert_int_equal(bed_until_end(&bed, 5000), SOLSEND_ERR_IDLE);
    assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], 5);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* Traffic of the peer's is a sign of life too: no PING while there is some. */
static void there_is_no_ping_while_transactions_flow(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "idle_ms=1000"); /* a PING after 400 ms of silence */
    bed_admit(&bed);
    for (uint64_t i = 0; i < 15; i++) {
        assert_in_range(bed_send(&bed, 250, 0, i), 0, 1);
        bed_run(&bed, 100);
    }
    assert_in_range(bed_counts(&bed).pings, 0, 1); /* every 400 ms would be three */
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], 15);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_follows_the_shorter_timeout),
        cmocka_unit_test(no_timeout_on_either_side_needs_no_pings),
        cmocka_unit_test(pings_keep_a_silent_connection_and_without_them_it_dies),
        cmocka_unit_test(a_peer_that_vanished_is_idle_after_the_timeout),
        cmocka_unit_test(icmp_does_not_end_a_connection_that_was_up),
        cmocka_unit_test(there_is_no_ping_while_transactions_flow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
