/* udp:// links whose socket is full, filtered or moody. */
#include "udp_bed.h"

/* ---- a full socket --------------------------------------------------------------------------- */

static void a_full_socket_is_waited_for(void **state)
{
    (void)state;
    open_link();
    SCRIPT(EAGAIN);
    uint64_t before = solsend_now_ns();
    assert_int_equal(send_number(1), 0);
    assert_int_equal(info().open, 1);
    assert_int_equal(info().waiting, 1);
    drain();
    assert_int_equal(bed.event_count, 0);
    uint64_t next = solsend_link_next_timeout_ns(bed.link);
    assert_true(next < solsend_now_ns() + 10000000);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    ARRIVED(1);
    drain();
    assert_int_equal(bed.event_count, 1);
    ended(1, SOLSEND_EVENT_WRITTEN, 0);
    assert_in_range(bed.events[0].value, 1, solsend_now_ns() - before);
    assert_int_equal(stats().waited_socket, 1);
    assert_int_equal(stats().socket_full, 1);
    assert_int_equal(hop_count(SOLSEND_HOP_CREDIT), 1);
    assert_int_equal(hop_count(SOLSEND_HOP_CALL), 0); /* the call itself wrote nothing */
    assert_int_equal(info().open + info().waiting, 0);
}

/* A QUIC link owes its handshake, but while the socket is full polling at once is of no use. */
static void a_kept_hello_is_tried_at_intervals(void **state)
{
    (void)state;
    uint8_t data[2048];
    SCRIPT(EAGAIN, EAGAIN);
    assert_int_equal(
        solsend_link_open(&bed.link, udp_peer_uri(&bed.peer, "quic"), &bed.options, NULL), 0);
    assert_int_equal(udp_peer_take(&bed.peer, data, sizeof data), -1);
    assert_true(solsend_link_next_timeout_ns(bed.link) > 0);
    assert_true(solsend_link_next_timeout_ns(bed.link) < solsend_now_ns() + 10000000);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    assert_true(solsend_link_next_timeout_ns(bed.link) > 0);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    assert_int_equal(udp_peer_take(&bed.peer, data, sizeof data), 1200);
    assert_int_equal(stats().socket_full, 2);
}

static void those_that_wait_go_by_priority_then_newest(void **state)
{
    (void)state;
    open_link();
    SCRIPT(EAGAIN, EAGAIN, EAGAIN, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
    assert_int_equal(send_with(1, 0, UINT64_MAX, NULL), 0); /* its packet is kept: it stays first */
    assert_int_equal(send_with(2, 1, UINT64_MAX, NULL), 0);
    assert_int_equal(send_with(3, 5, UINT64_MAX, NULL), 0);
    assert_int_equal(send_with(4, 5, UINT64_MAX, NULL), 0);
    assert_int_equal(send_with(5, 0, UINT64_MAX, NULL), 0);
    assert_int_equal(send_with(6, UINT32_MAX, UINT64_MAX, NULL), 0);
    assert_int_equal(info().waiting, 6);
    assert_int_equal(solsend_link_poll(bed.link), 0); /* still full */
    assert_int_equal(solsend_link_poll(bed.link), 0);
    ARRIVED(1, 6, 4, 3, 2, 5);
    drain();
    assert_int_equal(bed.event_count, 6);
    assert_int_equal(stats().waited_socket, 6);
    assert_int_equal(stats().written, 6);
    assert_int_equal(hop_count(SOLSEND_HOP_CREDIT), 6);
    assert_int_equal(hop_count(SOLSEND_HOP_CALL), 0);
}

static void a_new_send_does_not_overtake_a_more_urgent_one(void **state)
{
    (void)state;
    open_link();
    SCRIPT(EAGAIN, EAGAIN);
    assert_int_equal(send_with(1, 0, UINT64_MAX, NULL), 0);
    assert_int_equal(send_with(2, 9, UINT64_MAX, NULL), 0);
    assert_int_equal(send_with(3, 1, UINT64_MAX, NULL), 1); /* the socket is free again */
    ARRIVED(1, 2, 3);
    drain();
    assert_int_equal(bed.event_count, 3);
    assert_int_equal(hop_count(SOLSEND_HOP_CALL), 1);
    assert_int_equal(hop_count(SOLSEND_HOP_CREDIT), 2);
}

static void what_was_cancelled_never_leaves(void **state)
{
    (void)state;
    open_link();
    uint64_t kept, waiting;
    SCRIPT(EAGAIN, EAGAIN);
    assert_int_equal(send_with(1, 0, UINT64_MAX, &kept), 0);
    assert_int_equal(send_with(2, 0, UINT64_MAX, &waiting), 0);
    assert_int_equal(solsend_link_cancel(bed.link, waiting), 0);
    assert_int_equal(solsend_link_cancel(bed.link, kept), 0);
    assert_int_equal(solsend_link_cancel(bed.link, kept), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(solsend_link_cancel(bed.link, 0), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(info().open + info().waiting, 0);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    assert_int_equal(send_number(3), 1);
    ARRIVED(3);
    drain();
    assert_int_equal(bed.event_count, 3);
    ended(1, SOLSEND_EVENT_CANCELLED, SOLSEND_ERR_CANCELLED);
    ended(2, SOLSEND_EVENT_CANCELLED, SOLSEND_ERR_CANCELLED);
    assert_int_equal(stats().cancelled, 2);
    assert_int_equal(stats().written, 1);
}

static void one_of_a_kept_burst_can_be_cancelled(void **state)
{
    (void)state;
    open_link();
    uint64_t tickets[5];
    int32_t results[5];
    SCRIPT(EAGAIN);
    assert_int_equal(burst(0, 5, 250, tickets, results), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(results[i], 0);
    }
    assert_int_equal(solsend_link_cancel(bed.link, tickets[1]), 0);
    assert_int_equal(solsend_link_cancel(bed.link, tickets[4]), 0);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    ARRIVED(0, 2, 3);
    drain();
    assert_int_equal(bed.event_count, 5);
    ended(0, SOLSEND_EVENT_WRITTEN, 0);
    ended(1, SOLSEND_EVENT_CANCELLED, SOLSEND_ERR_CANCELLED);
    ended(3, SOLSEND_EVENT_WRITTEN, 0);
    ended(4, SOLSEND_EVENT_CANCELLED, SOLSEND_ERR_CANCELLED);
    assert_int_equal(stats().written, 3);
}

static void what_left_of_a_burst_is_told_at_once(void **state)
{
    (void)state;
    bed.options.segment_bursts = 0;
    open_link();
    uint64_t tickets[4];
    int32_t results[4];
    SCRIPT(0, 0, EAGAIN, EAGAIN);
    assert_int_equal(burst(0, 4, 250, tickets, results), 4);
    ARRIVED(0, 1);
    const int32_t expected[] = {1, 1, 0, 0};
    assert_memory_equal(results, expected, sizeof results);
    assert_int_equal(info().open, 2);
    assert_int_equal(stats().written, 2);
    drain();
    assert_int_equal(bed.event_count, 2);
    ended(0, SOLSEND_EVENT_WRITTEN, 0);
    ended(1, SOLSEND_EVENT_WRITTEN, 0);
    assert_int_equal(solsend_link_cancel(bed.link, tickets[0]), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(solsend_link_poll(bed.link), 0); /* still full */
    assert_int_equal(solsend_link_poll(bed.link), 0);
    ARRIVED(2, 3);
    drain();
    assert_int_equal(bed.event_count, 2);
}

static void a_passed_deadline_keeps_waiting_bytes_off_the_wire(void **state)
{
    (void)state;
    open_link();
    uint64_t deadline = solsend_now_ns() + 3000000;
    SCRIPT(EAGAIN, EAGAIN, EAGAIN, EAGAIN);
    assert_int_equal(send_with(1, 0, deadline, NULL), 0);
    assert_int_equal(send_with(2, 0, deadline, NULL), 0);
    assert_int_equal(send_with(3, 0, UINT64_MAX, NULL), 0);
    assert_true(solsend_link_next_timeout_ns(bed.link) <= deadline);
    wait_until(deadline);
    faults.script_count = 0; /* the socket is free at the very moment */
    assert_int_equal(solsend_link_poll(bed.link), 0);
    ARRIVED(3);
    drain();
    assert_int_equal(bed.event_count, 3);
    ended(1, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_NO_BUFFER);
    ended(2, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_NO_BUFFER);
    ended(3, SOLSEND_EVENT_WRITTEN, 0);
    assert_int_equal(stats().expired, 2);
    assert_int_equal(stats().written, 1);
    assert_true(solsend_link_next_timeout_ns(bed.link) == UINT64_MAX);
}

static void a_send_does_not_let_late_bytes_out_either(void **state)
{
    (void)state;
    open_link();
    uint64_t deadline = solsend_now_ns() + 3000000;
    SCRIPT(EAGAIN, EAGAIN);
    assert_int_equal(send_with(1, 0, deadline, NULL), 0);
    assert_int_equal(send_with(2, 7, deadline, NULL), 0);
    wait_until(deadline);
    assert_int_equal(send_number(3), 1);
    ARRIVED(3);
    SCRIPT(EAGAIN, EAGAIN);
    deadline = solsend_now_ns() + 3000000;
    assert_int_equal(send_with(4, 0, deadline, NULL), 0);
    wait_until(deadline);
    assert_int_equal(burst(5, 2, 250, NULL, NULL), 2);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    ARRIVED(5, 6);
    drain();
    assert_int_equal(bed.event_count, 6);
    ended(1, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_NO_BUFFER);
    ended(2, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_NO_BUFFER);
    ended(4, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_NO_BUFFER);
}

/* ---- packets that the kernel refuses --------------------------------------------------------- */

static void what_the_kernel_refuses_ends_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        int error;
        int times;
        int code;
    } cases[] = {
        {EPERM, 1, SOLSEND_ERR_NETFILTER},
        {EMSGSIZE, 2, SOLSEND_ERR_PATH_TOO_SMALL},
        {ECONNREFUSED, 4, SOLSEND_ERR_PORT_UNREACHABLE},
        {EHOSTUNREACH, 4, SOLSEND_ERR_UNREACHABLE},
        {ENETUNREACH, 4, SOLSEND_ERR_UNREACHABLE},
        {EINVAL, 1, SOLSEND_ERR_UNREACHABLE},
    };
    open_link();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int errors[4] = {cases[i].error, cases[i].error, cases[i].error, cases[i].error};
        faults_script(cases[i].times, errors);
        assert_int_equal(send_number((uint32_t)i), 0);
        assert_int_equal(faults.call_count, cases[i].times);
        drain();
        assert_int_equal(bed.event_count, 1);
        ended(i, SOLSEND_EVENT_CLOSED, cases[i].code);
        assert_true(bed.events[0].value > 0);
    }
    ARRIVED(-1);
    solsend_link_stats s = stats();
    assert_int_equal(s.netfilter_drops, 1);
    assert_int_equal(s.too_big, 1);
    assert_int_equal(s.icmp_errors, 12);
    assert_int_equal(s.send_failures, 1);
    assert_int_equal(s.closed, 6);
    assert_int_equal(s.written, 0);
}

static void one_refused_of_a_burst_says_nothing_of_the_others(void **state)
{
    (void)state;
    open_link();
    int32_t results[3];
    SCRIPT(0, EPERM, 0);
    assert_int_equal(burst(0, 3, 250, NULL, results), 3);
    ARRIVED(0, 2);
    drain();
    assert_int_equal(bed.event_count, 3);
    ended(0, SOLSEND_EVENT_WRITTEN, 0);
    ended(1, SOLSEND_EVENT_CLOSED, SOLSEND_ERR_NETFILTER);
    ended(2, SOLSEND_EVENT_WRITTEN, 0);
    const int32_t expected[] = {1, 0, 1};
    assert_memory_equal(results, expected, sizeof results);
    assert_int_equal(stats().written, 2);
    assert_int_equal(stats().closed, 1);
    assert_int_equal(hop_count(SOLSEND_HOP_CREDIT), 0); /* nothing had to wait */
    SCRIPT(EMSGSIZE, EMSGSIZE, EPERM, 0);
    assert_int_equal(burst(3, 3, 250, NULL, results), 3);
    ARRIVED(5);
    drain();
    ended(3, SOLSEND_EVENT_CLOSED, SOLSEND_ERR_PATH_TOO_SMALL);
    ended(4, SOLSEND_EVENT_CLOSED, SOLSEND_ERR_NETFILTER);
    ended(5, SOLSEND_EVENT_WRITTEN, 0);
}

static void a_filtered_burst_is_no_fault_of_segments(void **state)
{
    (void)state;
    open_link();
    faults.segment_error = EPERM;
    SCRIPT(EPERM, EPERM, EPERM, EPERM, EPERM);
    assert_int_equal(burst(0, 4, 250, NULL, NULL), 4);
    ARRIVED(-1);
    drain();
    assert_int_equal(bed.event_count, 4);
    for (uint64_t i = 0; i < 4; i++) {
        ended(i, SOLSEND_EVENT_CLOSED, SOLSEND_ERR_NETFILTER);
    }
    assert_int_equal(stats().segment_failures, 0);
    assert_int_equal(stats().netfilter_drops, 4);
    faults.segment_error = 0;
    faults.script_count = 0;
    assert_int_equal(burst(4, 4, 250, NULL, NULL), 4);
    ARRIVED(4, 5, 6, 7);
    assert_int_equal(stats().segmented_sends + stats().segment_failures, 1);
}

static void refused_segments_lose_no_transaction(void **state)
{
    (void)state;
    open_link();
    int32_t results[16];
    faults.segment_error = EIO;
    assert_int_equal(burst(0, 16, 250, NULL, results), 16);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(results[i], 1);
        assert_int_equal(arrived(), i);
    }
    assert_int_equal(burst(16, 8, 250, NULL, results), 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(arrived(), 16 + i);
    }
    solsend_link_stats s = stats();
    assert_int_equal(s.segment_failures, 1);
    assert_int_equal(s.send_calls, 25);
    assert_int_equal(s.written, 24);
    assert_int_equal(s.send_failures + s.closed, 0);
}

/* ---- everything at once ---------------------------------------------------------------------- */

/*
 * The promise in one property: a transaction has exactly one terminal event, and it says WRITTEN if
 * and only if its datagram left (on loopback: arrived), whatever the socket does meanwhile.
 */
enum { NUMBERS = 12000 };
static uint8_t left[NUMBERS], told[NUMBERS], accepted[NUMBERS];
static uint64_t open_tickets[NUMBERS];

static void see_arrivals(void)
{
    for (int64_t n = arrived(); n >= 0; n = arrived()) {
        if (n >= NUMBERS || !accepted[n]) {
            fail_msg("number %d arrived and was never accepted", (int)n);
        }
        left[n]++;
        assert_int_equal(left[n], 1);
    }
}

static void see_events(void)
{
    drain();
    for (int i = 0; i < bed.event_count; i++) {
        const solsend_event *e = &bed.events[i];
        if (e->kind < SOLSEND_EVENT_LINK_CONNECTED) {
            assert_true(e->user < NUMBERS && accepted[e->user]);
            assert_int_equal(told[e->user], 0);
            assert_true(e->ticket == open_tickets[e->user]);
            told[e->user] = (uint8_t)e->kind;
        }
    }
}

static void random_send(uint32_t *next)
{
    static const uint64_t spans_ns[] = {20000, 200000, 100000000};
    solsend_send s[8];
    uint8_t wires[8][SOLSEND_TX_BYTES_MAX];
    uint64_t tickets[8] = {0};
    int32_t results[8];
    uint32_t count = 1 + (uint32_t)faults_draw(8);
    uint32_t bytes = 16 + (uint32_t)faults_draw(1000);
    for (uint32_t i = 0; i < count; i++) {
        prepare(&s[i], wires[i], *next + i, bytes);
        s[i].priority = (uint32_t)faults_draw(3);
        if (faults_draw(3) == 0) {
            s[i].deadline_ns = solsend_now_ns() + spans_ns[faults_draw(3)];
        }
        if (faults_draw(4) == 0) {
            bytes = 16 + (uint32_t)faults_draw(1000);
        }
    }
    if (count > 4) {
        count -= 4;
        for (uint32_t i = 0; i < count; i++) {
            results[i] = solsend_link_send(bed.link, &s[i], &tickets[i]);
        }
    } else {
        assert_true(solsend_link_send_burst(bed.link, s, count, tickets, results) >= 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(results[i] >= 0 || results[i] == SOLSEND_ERR_FULL ||
                    results[i] == SOLSEND_ERR_TX_EXPIRED);
        accepted[*next + i] = results[i] >= 0;
        open_tickets[*next + i] = tickets[i];
        if (results[i] < 0) {
            left[*next + i] = told[*next + i] = UINT8_MAX;
        }
    }
    see_arrivals();
    for (uint32_t i = 0; i < count; i++) { /* 1 means: it has left before the return */
        assert_true(results[i] != 1 || left[*next + i] == 1);
    }
    *next += count;
}

static void what_is_told_is_what_happened(void **state)
{
    (void)state;
    bed.options.slots = 32;
    open_link();
    memset(left, 0, sizeof left);
    memset(told, 0, sizeof told);
    faults.random_state = 11;
    faults.lasting_of_100 = 3;
    uint32_t next = 0;
    while (next + 8 < NUMBERS) {
        if (faults_draw(6) == 0) {
            faults.random_of_100 = faults_draw(3) == 0 ? 97 : 15; /* at times nothing goes */
        }
        switch (faults_draw(6)) {
        case 0:
            usleep(50); /* some deadlines pass */
            assert_true(solsend_link_poll(bed.link) >= 0);
            break;
        case 1:
            see_arrivals();
            see_events();
            break;
        case 2:
            if (next > 0) {
                uint32_t back = 1 + (uint32_t)faults_draw(next < 10 ? next : 10);
                int rc = solsend_link_cancel(bed.link, open_tickets[next - back]);
                assert_true(rc == 0 || rc == SOLSEND_ERR_NO_SUCH_TICKET);
            }
            break;
        default:
            random_send(&next);
        }
        see_arrivals();
    }
    faults.random_of_100 = faults.lasting_of_100 = 0;
    assert_int_equal(solsend_link_flush(bed.link, 1000), 0);
    see_arrivals();
    uint64_t kinds[8] = {0};
    do {
        see_events();
    } while (bed.event_count > 0);
    for (uint32_t i = 0; i < next; i++) {
        if (told[i] == UINT8_MAX) {
            continue;
        }
        assert_in_range(told[i], 1, 6);
        kinds[told[i]]++;
        if ((told[i] == SOLSEND_EVENT_WRITTEN) != (left[i] == 1)) {
            fail_msg("number %u: told \"%s\", but it %s", i, solsend_event_name(told[i]),
                     left[i] ? "left" : "did not leave");
        }
    }
    solsend_link_stats s = stats();
    assert_int_equal(s.written, kinds[SOLSEND_EVENT_WRITTEN]);
    assert_int_equal(s.expired, kinds[SOLSEND_EVENT_EXPIRED]);
    assert_int_equal(s.closed, kinds[SOLSEND_EVENT_CLOSED]);
    assert_int_equal(s.cancelled, kinds[SOLSEND_EVENT_CANCELLED]);
    assert_int_equal(s.accepted, s.written + s.expired + s.closed + s.cancelled);
    assert_true(s.written > 1000 && s.expired > 50 && s.closed > 50 && s.cancelled > 50);
    assert_int_equal(info().open + info().waiting, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_socket_is_waited_for),
        TEST(a_kept_hello_is_tried_at_intervals),
        TEST(those_that_wait_go_by_priority_then_newest),
        TEST(a_new_send_does_not_overtake_a_more_urgent_one),
        TEST(what_was_cancelled_never_leaves),
        TEST(one_of_a_kept_burst_can_be_cancelled),
        TEST(what_left_of_a_burst_is_told_at_once),
        TEST(a_passed_deadline_keeps_waiting_bytes_off_the_wire),
        TEST(a_send_does_not_let_late_bytes_out_either),
        TEST(what_the_kernel_refuses_ends_with_its_reason),
        TEST(one_refused_of_a_burst_says_nothing_of_the_others),
        TEST(a_filtered_burst_is_no_fault_of_segments),
        TEST(refused_segments_lose_no_transaction),
        TEST(what_is_told_is_what_happened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
