/* Waiting: for stream credit, for a window, for a slot; and what comes first when it ends. */
#include "bed.h"

#include <poll.h>
#include <time.h>

#include "link/link.h"

static struct bed bed;

static const uint64_t MS = 1000000;

/* ---- credit per round trip ------------------------------------------------------------------- */

/* 21, not 20: the leader announces credit in steps of three streams, as quinn does. */
enum { CREDIT = 21, LONG_RTT_MS = 250, SATURATED_MS = 2600 };

/* Acknowledgements come in one burst a round trip: whole bursts are counted. */
struct beat {
    uint64_t last_ns;
    uint64_t first_burst_ns;
    uint64_t newest_burst_ns;
    uint64_t acked; /* in bursts before the newest */
    uint64_t burst;
};

static void beat_acked(struct beat *b, uint64_t t_ns)
{
    if (t_ns - b->last_ns > LONG_RTT_MS / 5 * MS) {
        b->first_burst_ns = b->first_burst_ns == 0 ? t_ns : b->first_burst_ns;
        b->newest_burst_ns = t_ns;
        b->acked += b->burst;
        b->burst = 0;
    }
    b->last_ns = t_ns;
    b->burst++;
}

/* Keeps `links` saturated; transactions acked per round trip, all links together. */
static double saturate(solsend_link **links, uint32_t count)
{
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    struct beat beats[2] = {0};
    solsend_event events[64];
    solsend_send s;
    double sum = 0;
    uint64_t until = solsend_now_ns() + SATURATED_MS * MS;
    while (solsend_now_ns() < until) {
        for (uint32_t i = 0; i < count; i++) {
            solsend_link_info info = {.size = sizeof info};
            assert_true(solsend_link_poll(links[i]) >= 0);
            int n = solsend_link_drain(links[i], events, 64);
            for (int k = 0; k < n; k++) {
                if (events[k].kind == SOLSEND_EVENT_ACKED) {
                    beat_acked(&beats[i], events[k].t_ns);
                }
            }
            assert_int_equal(solsend_link_info_get(links[i], &info), 0);
            for (uint32_t k = info.waiting; k < 2 * CREDIT; k++) {
                bed_prepare(&bed, &s, wire, 250);
                assert_in_range(solsend_link_send(links[i], &s, NULL), 0, 1);
            }
        }
        struct timespec nap = {0, 500000};
        nanosleep(&nap, NULL);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t ns = beats[i].newest_burst_ns - beats[i].first_burst_ns;
        sum += (double)beats[i].acked / ((double)ns / (LONG_RTT_MS * 1e6));
    }
    return sum;
}

static void throughput_is_credit_per_round_trip(void **state)
{
    solsend_link *links[2] = {NULL, NULL};
    bed_open(&bed, "agave-4.3", "rtt_ms=250,grant=21");
    bed.options.handshake_timeout_ms = 3000;
    bed_admit(&bed);
    links[0] = bed.link;
    double one = saturate(links, 1);
    assert_true(one > CREDIT * 0.9 && one < CREDIT * 1.1);

    solsend_summary credit;
    solsend_link_stats stats = bed_stats(&bed);
    assert_int_equal(solsend_link_hop(bed.link, SOLSEND_HOP_CREDIT, &credit), 0);
    assert_true(stats.waited_credit > 100 && credit.count > 100);
    /* newest first: the median waits about one round trip, and it shows */
    assert_true(credit.max > LONG_RTT_MS / 2 * MS);
    bed_drain(&bed);

    /* a second connection has a credit of its own */
    assert_int_equal(solsend_link_open(&links[1], bed.uri, &bed.options, NULL), 0);
    assert_int_equal(solsend_link_wait_admitted(links[1], 5000), 0);
    double two = saturate(links, 2);
    assert_true(two > 2 * CREDIT * 0.9 && two < 2 * CREDIT * 1.1);
    solsend_link_close(links[1], 0);
    bed_close(&bed);
}

/* ---- who goes first -------------------------------------------------------------------------- */

static int send_with(uint32_t priority, uint64_t user, uint64_t *ticket)
{
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    solsend_send s;
    bed_prepare(&bed, &s, wire, 250);
    s.priority = priority;
    s.user = user;
    return solsend_link_send(bed.link, &s, ticket);
}

static void higher_priority_first_then_the_newest(void **state)
{
    static const uint64_t want[] = {0, 8, 5, 4, 7, 6, 3, 2, 1};
    static const uint32_t priorities[] = {0, 1, 1, 1, 9, 9, 5, 5, 10};
    bed_open(&bed, "agave-4.3", "grant=total:1");
    bed_admit(&bed);
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(send_with(priorities[i], i, NULL), i == 0);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 1000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PARKED], 1);
    assert_int_equal(bed_info(&bed).waiting, 8);
    for (uint32_t total = 2; total <= 9; total++) {
        char fault[32];
        snprintf(fault, sizeof fault, "grant=total:%u", total);
        bed_fault(&bed, fault);
        bed_until(&bed, SOLSEND_EVENT_ACKED, total, 1000);
        assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].user, want[total - 1]);
        assert_int_equal(bed_info(&bed).waiting, 9 - total);
    }
    assert_int_equal(bed_stats(&bed).waited_credit, 8);
    assert_int_equal(bed.seen[SOLSEND_EVENT_WRITTEN], 8);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void cancel_takes_back_what_waits_and_what_flies(void **state)
{
    uint64_t tickets[6];
    bed_open(&bed, "agave-4.3", "grant=total:2,ack=delay:100");
    bed_admit(&bed);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(send_with(0, i, &tickets[i]), i < 2);
    }
    assert_int_equal(mock_wait_accepted(bed.leader, 2, 1000), 2);
    assert_int_equal(solsend_link_cancel(bed.link, tickets[1]), 0); /* flying */
    assert_int_equal(solsend_link_cancel(bed.link, tickets[3]), 0); /* waiting */
    assert_int_equal(solsend_link_cancel(bed.link, tickets[1]), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(solsend_link_cancel(bed.link, 0), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(solsend_link_cancel(bed.link, tickets[5] + 1), SOLSEND_ERR_NO_SUCH_TICKET);
    bed_fault(&bed, "grant=total:64,ack=normal");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 4, 2000);
    bed_until(&bed, SOLSEND_EVENT_CANCELLED, 2, 1000);
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_CANCELLED) {
            assert_true(bed.log[i].user == 1 || bed.log[i].user == 3);
            assert_int_equal(bed.log[i].code, SOLSEND_ERR_CANCELLED);
        }
    }
    assert_int_equal(solsend_link_cancel(bed.link, tickets[0]), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(bed_counts(&bed).accepted, 5); /* all but the one that had waited */
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void send_and_see_it_dropped(uint64_t *ticket)
{
    uint64_t before = bed_counts(&bed).datagrams;
    assert_int_equal(send_with(0, 0, ticket), 1);
    for (int i = 0; i < 1000 && bed_counts(&bed).datagrams == before; i++) {
        struct timespec nap = {0, 1000000};
        nanosleep(&nap, NULL);
    }
    assert_true(bed_counts(&bed).datagrams > before);
    bed_fault(&bed, "drop_1rtt=1"); /* again: back when the leader is done with it */
}

static void a_cancelled_one_is_not_repeated(void **state)
{
    uint64_t ticket;
    bed_open(&bed, "agave-4.3", "grant=64");
    bed_admit(&bed);
    bed_fault(&bed, "drop_1rtt=1");
    send_and_see_it_dropped(&ticket);
    assert_int_equal(solsend_link_cancel(bed.link, ticket), 0);
    bed_fault(&bed, "drop_1rtt=0");
    bed_run(&bed, 150); /* several probe timeouts */
    assert_int_equal(bed_counts(&bed).accepted, 0);

    /* the same without the cancel */
    bed_fault(&bed, "drop_1rtt=1");
    send_and_see_it_dropped(&ticket);
    bed_fault(&bed, "drop_1rtt=0");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    assert_int_equal(bed_counts(&bed).accepted, 1);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void full_until_events_are_drained(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=64");
    bed.options.slots = 4;
    bed_admit(&bed);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 4; i++) {
            assert_int_equal(send_with(0, i, NULL), 1);
        }
        uint64_t ticket = 77;
        assert_int_equal(send_with(0, 4, &ticket), SOLSEND_ERR_FULL);
        assert_int_equal(ticket, 77);
        while (bed_info(&bed).open > 0) {
            assert_true(solsend_link_poll(bed.link) >= 0);
        }
        assert_int_equal(send_with(0, 4, NULL), SOLSEND_ERR_FULL); /* acked, but not told */
        bed_drain(&bed);
    }
    assert_int_equal(bed_stats(&bed).refused, 6);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], 12);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void quiet_ones_speak_only_when_they_fail(void **state)
{
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    solsend_send s;
    bed_open(&bed, "agave-4.3", "grant=64");
    bed.options.slots = 4;
    bed_admit(&bed);
    for (int i = 0; i < 40; i++) {
        bed_prepare(&bed, &s, wire, 250);
        s.quiet = 1;
        int rc;
        while ((rc = solsend_link_send(bed.link, &s, NULL)) == SOLSEND_ERR_FULL) {
            assert_true(solsend_link_poll(bed.link) >= 0); /* nothing is ever drained */
        }
        assert_int_equal(rc, 1);
    }
    assert_int_equal(solsend_link_flush(bed.link, 2000), 0);
    bed_drain(&bed);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED] + bed.seen[SOLSEND_EVENT_WRITTEN], 0);
    assert_int_equal(bed_stats(&bed).acked, 40);
    assert_int_equal(bed_counts(&bed).accepted, 40);

    bed_fault(&bed, "drop_1rtt=1");
    bed_prepare(&bed, &s, wire, 250);
    s.quiet = 1;
    s.user = 9;
    s.deadline_ns = solsend_now_ns() + 5 * MS;
    assert_int_equal(solsend_link_send(bed.link, &s, NULL), 1);
    bed_until(&bed, SOLSEND_EVENT_EXPIRED, 1, 1000);
    assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].user, 9);
    assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NOT_ACKED);
    bed_close(&bed);
}

/* ---- a window in the middle of a transaction ---------------------------------------------------
 */

static int send_v1(uint64_t user, uint64_t *ticket)
{
    uint8_t wire[SOLSEND_TX_V1_BYTES_MAX];
    solsend_send s;
    bed_transaction_v1(&bed, wire, sizeof wire);
    assert_int_equal(solsend_send_init(&s, sizeof s), 0);
    s.wire = wire;
    s.wire_bytes = sizeof wire;
    s.user = user;
    return solsend_link_send(bed.link, &s, ticket);
}

/*
 * Small ones until the window takes no more than a part of a large one; then that one, and one with
 * priority behind it. Returns how many small ones.
 */
static uint64_t fill_window(uint64_t *begun)
{
    uint64_t small = 0;
    bed_open(&bed, "agave-4.3", "grant=512");
    bed.options.first_flight_bytes = 2944;
    bed_admit(&bed);
    bed_run(&bed, 30);
    bed_fault(&bed, "ack=delay:60");
    while (bed_info(&bed).window_left_bytes > 2500) {
        assert_int_equal(send_with(0, 0, NULL), 1);
        small++;
    }
    assert_int_equal(send_v1(1, begun), 0);
    assert_non_null(bed.link->quic->partial);
    assert_in_range(bed.link->quic->partial->offset, 1, 4095);
    assert_int_equal(send_with(100, 2, NULL), 0);
    assert_int_equal(bed_info(&bed).window_left_bytes, 0);
    return small;
}

static void a_begun_transaction_goes_on_where_it_stopped(void **state)
{
    uint64_t begun, small = fill_window(&begun);
    bed_until(&bed, SOLSEND_EVENT_ACKED, small + 2, 3000);
    const mock_arrival *a;
    assert_int_equal(mock_arrivals(bed.leader, &a), small + 2);
    assert_int_equal(a[small].bytes, 4096);
    assert_int_equal(a[small + 1].bytes, 250);
    assert_int_equal(bed_counts(&bed).malformed, 0);
    assert_int_equal(bed_counts(&bed).distinct, small + 2);
    assert_int_equal(bed_stats(&bed).waited_window, 2);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void a_begun_transaction_can_be_cancelled(void **state)
{
    uint64_t begun, small = fill_window(&begun);
    assert_int_equal(solsend_link_cancel(bed.link, begun), 0);
    assert_null(bed.link->quic->partial);
    bed_until(&bed, SOLSEND_EVENT_ACKED, small + 1, 3000);
    assert_int_equal(bed.last[SOLSEND_EVENT_CANCELLED].user, 1);
    bed_run(&bed, 100);
    assert_int_equal(bed_counts(&bed).accepted, small + 1);
    assert_int_equal(bed_counts(&bed).malformed, 0);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* ---- a program that sleeps ------------------------------------------------------------------- */

/* Polls only when the socket or next_timeout asks for it; returns how often. */
static uint32_t sleep_and_poll(uint64_t ms)
{
    uint64_t until = solsend_now_ns() + ms * MS;
    uint32_t polls = 0;
    for (uint64_t now; (now = solsend_now_ns()) < until;) {
        uint64_t next = solsend_link_next_timeout_ns(bed.link);
        next = next < until ? next : until;
        uint64_t ns = next > now ? next - now : 0;
        struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        struct pollfd p = {.fd = solsend_link_fd(bed.link), .events = POLLIN};
        ppoll(&p, 1, &t, NULL);
        assert_true(solsend_link_poll(bed.link) >= 0);
        polls++;
    }
    return polls;
}

static void an_idle_link_lets_its_program_sleep(void **state)
{
    static const char *const profiles[] = {"agave-4.3", "firedancer"};
    for (size_t i = 0; i < 2; i++) {
        bed_open(&bed, profiles[i], "idle_ms=1000,grant=64");
        bed_admit(&bed);
        for (int k = 0; k < 10; k++) {
            assert_int_equal(send_with(0, 0, NULL), 1);
        }
        bed_until(&bed, SOLSEND_EVENT_ACKED, 10, 1000);
        bed_run(&bed, 50);
        assert_int_equal(bed_info(&bed).keep_alive_ms, 400);
        uint64_t pings = bed_counts(&bed).pings;
        assert_in_range(sleep_and_poll(2000), 4, 60);
        assert_in_range(bed_counts(&bed).pings - pings, 4, 6);
        assert_int_equal(bed_info(&bed).state, SOLSEND_LINK_ADMITTED);
        bed_close(&bed);
    }
}

static void a_link_that_waits_lets_its_program_sleep(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=total:1");
    bed_admit(&bed);
    bed_run(&bed, 50);
    for (uint64_t k = 0; k < 20; k++) {
        send_with(0, k, NULL);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 1000);
    bed_run(&bed, 50);
    assert_int_equal(bed_info(&bed).waiting, 19);
    assert_in_range(sleep_and_poll(500), 1, 30); /* no credit: nothing to do but sleep */

    /* lost packets and a shut window: probes, with ever longer sleeps between them */
    bed_fault(&bed, "grant=total:1000");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 20, 1000);
    bed_fault(&bed, "drop_1rtt=1");
    for (uint64_t k = 0; k < 200; k++) {
        send_with(0, k, NULL);
    }
    assert_in_range(sleep_and_poll(500), 2, 100);
    bed_close(&bed);
}

/* ---- the numbers in events ------------------------------------------------------------------- */

static void event_values_agree_with_the_round_trip(void **state)
{
    enum { RTT_MS = 40 };
    const uint64_t slack = 500 * MS; /* for a machine that is busy with other things */
    bed_open(&bed, "agave-4.3", "rtt_ms=40,grant=total:1");
    uint64_t before = solsend_now_ns();
    bed_admit(&bed);
    bed_drain(&bed);
    const solsend_event *e = &bed.last[SOLSEND_EVENT_LINK_CONNECTED];
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_CONNECTED], 1);
    assert_in_range(e->value, RTT_MS * MS, RTT_MS * MS + slack);
    assert_in_range(e->t_ns, before + e->value - MS, before + e->value + slack);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_ADMITTED].value, 1);
    assert_in_range(bed_info(&bed).rtt_min_ns, RTT_MS * MS, RTT_MS * MS + slack);

    uint64_t sent = solsend_now_ns();
    assert_int_equal(send_with(0, 1, NULL), 1);
    assert_int_equal(send_with(0, 2, NULL), 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    e = &bed.last[SOLSEND_EVENT_ACKED];
    assert_in_range(e->value, RTT_MS * MS, RTT_MS * MS + slack); /* the ACK may be held for 25 ms */
    assert_in_range(e->t_ns, sent + e->value, sent + e->value + slack);
    assert_int_equal(bed.seen[SOLSEND_EVENT_WRITTEN], 0); /* the call had said so */

    bed_run(&bed, 100);
    bed_fault(&bed, "grant=total:2");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 2, 2000);
    e = &bed.last[SOLSEND_EVENT_WRITTEN];
    assert_int_equal(e->user, 2);
    assert_in_range(e->value, 140 * MS, 600 * MS + slack); /* it waited for the credit */
    assert_in_range(e->t_ns, sent + e->value, sent + e->value + slack);
    uint64_t written = e->t_ns;
    e = &bed.last[SOLSEND_EVENT_ACKED];
    assert_in_range(e->value, RTT_MS * MS, RTT_MS * MS + slack);
    assert_int_equal(e->t_ns, written + e->value);
    solsend_summary hop;
    assert_int_equal(solsend_link_hop(bed.link, SOLSEND_HOP_ACK, &hop), 0);
    assert_int_equal(hop.count, 2);
    assert_int_equal(solsend_link_hop(bed.link, SOLSEND_HOP_CREDIT, &hop), 0);
    assert_int_equal(hop.count, 1);
    assert_in_range(bed_info(&bed).rtt_ns, RTT_MS * MS, RTT_MS * MS + slack);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(throughput_is_credit_per_round_trip),
        cmocka_unit_test(higher_priority_first_then_the_newest),
        cmocka_unit_test(cancel_takes_back_what_waits_and_what_flies),
        cmocka_unit_test(a_cancelled_one_is_not_repeated),
        cmocka_unit_test(full_until_events_are_drained),
        cmocka_unit_test(quiet_ones_speak_only_when_they_fail),
        cmocka_unit_test(a_begun_transaction_goes_on_where_it_stopped),
        cmocka_unit_test(a_begun_transaction_can_be_cancelled),
        cmocka_unit_test(an_idle_link_lets_its_program_sleep),
        cmocka_unit_test(a_link_that_waits_lets_its_program_sleep),
        cmocka_unit_test(event_values_agree_with_the_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
