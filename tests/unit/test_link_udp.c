/* udp:// links: sizes, bursts, slots, events, the end. */
#include "udp_bed.h"

static void a_fresh_link_is_ready(void **state)
{
    (void)state;
    open_link();
    solsend_link_info i = info();
    assert_int_equal(i.state, SOLSEND_LINK_ADMITTED);
    assert_int_equal(i.end_code, 0);
    assert_int_equal(i.open + i.waiting, 0);
    assert_int_equal(i.tx_bytes_max, 4096);
    assert_in_range(i.local_port, 1, 65535);
    assert_int_equal(solsend_link_wait_admitted(bed.link, 0), 0);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    assert_int_equal(solsend_link_flush(bed.link, 1000), 0);
    assert_true(solsend_link_fd(bed.link) >= 0);
    assert_true(solsend_link_next_timeout_ns(bed.link) == UINT64_MAX);
    drain();
    assert_int_equal(bed.event_count, 0);
    char text[128], tiny[5];
    int n = solsend_link_text(bed.link, text, sizeof text);
    assert_int_equal(n, strlen(text));
    assert_non_null(strstr(text, bed.peer.host));
    assert_non_null(strstr(text, "admitted"));
    assert_int_equal(solsend_link_text(bed.link, tiny, sizeof tiny), 4);
    assert_memory_equal(tiny, text, 4);
    assert_int_equal(tiny[4], 0);
    assert_int_equal(solsend_link_text(bed.link, NULL, 5), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_link_text(bed.link, text, 0), SOLSEND_ERR_USAGE);
}

static void written_is_the_end_on_udp(void **state)
{
    (void)state;
    open_link();
    uint64_t ticket = 0, before = solsend_now_ns();
    assert_int_equal(send_with(7, 0, UINT64_MAX, &ticket), 1);
    uint64_t after = solsend_now_ns();
    assert_true(ticket != 0);
    assert_int_equal(info().open, 0);
    ARRIVED(7);
    assert_int_equal(bed.peer.source_port, info().local_port);
    drain();
    assert_int_equal(bed.event_count, 1);
    const solsend_event *e = &bed.events[0];
    assert_int_equal(e->kind, SOLSEND_EVENT_WRITTEN);
    assert_int_equal(e->code, 0);
    assert_true(e->ticket == ticket);
    assert_int_equal(e->user, 7);
    assert_in_range(e->t_ns, before, after);
    assert_in_range(e->value, 1, after - before);
    assert_int_equal(e->lane + e->peer + e->peer_code + e->reserved, 0);
    assert_int_equal(solsend_link_cancel(bed.link, ticket), SOLSEND_ERR_NO_SUCH_TICKET);
    assert_int_equal(hop_count(SOLSEND_HOP_CALL), 1);
    assert_int_equal(hop_count(SOLSEND_HOP_CREDIT), 0);
    assert_int_equal(hop_count(SOLSEND_HOP_ACK), 0);
    solsend_link_stats s = stats();
    assert_int_equal(s.accepted, 1);
    assert_int_equal(s.written, 1);
    assert_int_equal(s.datagrams_sent, 1);
    assert_int_equal(s.bytes_sent, 200);
    assert_int_equal(s.send_calls, 1);
}

static void quiet_sends_have_no_events_and_free_their_slots(void **state)
{
    (void)state;
    bed.options.slots = 2;
    open_link();
    uint8_t wire[200];
    solsend_send s;
    for (uint32_t i = 0; i < 20; i++) {
        prepare(&s, wire, i, sizeof wire);
        s.quiet = 1;
        assert_int_equal(solsend_link_send(bed.link, &s, NULL), 1);
        assert_int_equal(arrived(), i);
    }
    drain();
    assert_int_equal(bed.event_count, 0);
    SCRIPT(EPERM); /* but a failure is told */
    assert_int_equal(solsend_link_send(bed.link, &s, NULL), 0);
    drain();
    assert_int_equal(bed.event_count, 1);
    ended(19, SOLSEND_EVENT_CLOSED, SOLSEND_ERR_NETFILTER);
}

static void slots_come_back_by_draining(void **state)
{
    (void)state;
    bed.options.slots = 4;
    open_link();
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(send_number(i), 1);
    }
    assert_int_equal(send_number(4), SOLSEND_ERR_FULL);
    assert_int_equal(solsend_link_drain(bed.link, bed.events, 1), 1);
    assert_int_equal(bed.events[0].user, 0);
    assert_int_equal(send_number(5), 1);
    assert_int_equal(send_number(6), SOLSEND_ERR_FULL);
    drain();
    assert_int_equal(bed.event_count, 4);
    assert_int_equal(stats().refused, 2);
    assert_int_equal(stats().accepted, 5);
    ARRIVED(0, 1, 2, 3, 5);
}

static void sizes_follow_the_format_and_the_path(void **state)
{
    (void)state;
    open_link();
    solsend_send s;
    solsend_send_init(&s, sizeof s);
    s.wire = bed.wire;
    const struct {
        uint8_t first;
        uint32_t bytes;
        int result;
    } cases[] = {
        {1, 0, SOLSEND_ERR_TX_EMPTY},
        {1, 1, 1},
        {1, 1232, 1},
        {1, 1233, SOLSEND_ERR_TX_TOO_LARGE},
        {1, 1644, SOLSEND_ERR_TX_TOO_LARGE}, /* base64 of 1232 */
        {0x81, 1233, 1},
        {0x81, 4096, 1},
        {0x81, 4097, SOLSEND_ERR_TX_TOO_LARGE},
        {0x80, 1233, SOLSEND_ERR_TX_TOO_LARGE},
        {0x81, UINT32_MAX, SOLSEND_ERR_TX_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t data[8192];
        uint64_t ticket = 99;
        bed.wire[0] = cases[i].first;
        s.wire_bytes = cases[i].bytes;
        assert_int_equal(solsend_link_send(bed.link, &s, &ticket), cases[i].result);
        ssize_t n = udp_peer_take(&bed.peer, data, sizeof data);
        assert_int_equal(n, cases[i].result == 1 ? (ssize_t)cases[i].bytes : -1); /* never cut */
        assert_int_equal(ticket == 99, cases[i].result != 1);
    }
    s.wire = NULL;
    s.wire_bytes = 10;
    assert_int_equal(solsend_link_send(bed.link, &s, NULL), SOLSEND_ERR_USAGE);
    s.wire_bytes = 0;
    assert_int_equal(solsend_link_send(bed.link, &s, NULL), SOLSEND_ERR_TX_EMPTY);
    drain();
    assert_int_equal(bed.event_count, 4); /* refused calls cause no events */
}

static void a_passed_deadline_is_refused(void **state)
{
    (void)state;
    open_link();
    assert_int_equal(send_with(1, 0, 0, NULL), SOLSEND_ERR_TX_EXPIRED);
    assert_int_equal(send_with(1, 0, solsend_now_ns(), NULL), SOLSEND_ERR_TX_EXPIRED);
    assert_int_equal(send_with(2, 0, solsend_now_ns() + 1000000000, NULL), 1);
    ARRIVED(2);
    drain();
    assert_int_equal(bed.event_count, 1);
}

static void bursts_share_system_calls(void **state)
{
    (void)state;
    open_link();
    uint64_t tickets[64];
    int32_t results[64];
    assert_int_equal(burst(100, 16, 250, tickets, results), 16);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(results[i], 1);
        assert_int_equal(arrived(), 100 + i);
    }
    solsend_link_stats s = stats();
    if (s.segment_failures == 0) {
        assert_int_equal(s.segmented_sends, 1);
        assert_int_equal(s.send_calls, 1);
    }
    assert_int_equal(s.datagrams_sent, 16);
    assert_int_equal(s.written, 16);
    drain();
    assert_int_equal(bed.event_count, 16);
    for (uint32_t i = 0; i < 16; i++) {
        assert_true(event_of(100 + i)->ticket == tickets[i]);
        ended(100 + i, SOLSEND_EVENT_WRITTEN, 0);
    }
    assert_int_equal(burst(0, 3, 250, NULL, NULL), 3);
    ARRIVED(0, 1, 2);
}

static void a_burst_may_be_larger_than_what_one_call_takes(void **state)
{
    (void)state;
    open_link();
    int32_t results[64];
    assert_int_equal(burst(0, 64, 1232, NULL, results), 64);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(results[i], 1);
        assert_int_equal(arrived(), i);
    }
    assert_int_equal(info().open, 0);
    assert_int_equal(stats().written, 64);
    assert_int_equal(stats().waited_socket, 0);
}

static void a_burst_judges_each_of_its_own(void **state)
{
    (void)state;
    bed.options.slots = 3;
    open_link();
    solsend_send s[7];
    uint8_t wires[7][200];
    uint64_t tickets[7] = {0};
    int32_t results[7];
    for (uint32_t i = 0; i < 7; i++) {
        prepare(&s[i], wires[i], i, 200);
    }
    s[1].wire_bytes = 0;
    s[2].deadline_ns = 1;
    s[4].size = 0;
    assert_int_equal(solsend_link_send_burst(bed.link, s, 7, tickets, results), 3);
    const int32_t expected[] = {
        1, SOLSEND_ERR_TX_EMPTY, SOLSEND_ERR_TX_EXPIRED, 1, SOLSEND_ERR_BAD_SIZE,
        1, SOLSEND_ERR_FULL};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(results[i], expected[i]);
        assert_int_equal(tickets[i] != 0, expected[i] == 1);
    }
    ARRIVED(0, 3, 5);
    assert_int_equal(stats().refused, 4);
    assert_int_equal(solsend_link_send_burst(bed.link, s, 0, NULL, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_link_send_burst(bed.link, s, 65, NULL, NULL), SOLSEND_ERR_USAGE);
}

static void quiet_bursts_reuse_their_slots(void **state)
{
    (void)state;
    bed.options.slots = 64;
    open_link();
    static uint8_t wires[64][SOLSEND_TX_BYTES_MAX];
    solsend_send s[64];
    int32_t results[64];
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < 64; i++) {
            prepare(&s[i], wires[i], 64 * round + i, SOLSEND_TX_BYTES_MAX);
            s[i].quiet = 1;
        }
        assert_int_equal(solsend_link_send_burst(bed.link, s, 64, NULL, results), 64);
        for (uint32_t i = 0; i < 64; i++) {
            assert_int_equal(results[i], 1);
            assert_int_equal(arrived(), 64 * round + i);
        }
    }
    assert_int_equal(info().open + info().waiting, 0);
    assert_int_equal(stats().waited_socket, 0);
    drain();
    assert_int_equal(bed.event_count, 0);
}

static void a_closed_port_is_counted_and_nothing_is_held_up(void **state)
{
    (void)state;
    open_link();
    udp_peer_close(&bed.peer);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(send_number(i), 1);
    }
    solsend_link_stats s = stats();
    assert_int_equal(s.icmp_errors, 9); /* each but the first met the answer to the one before */
    assert_int_equal(s.send_calls, 19);
    assert_int_equal(s.written, 10);
    assert_true(solsend_link_poll(bed.link) >= 0); /* the tenth answer is read off the socket */
    assert_int_equal(stats().icmp_errors, 10);
    assert_int_equal(send_number(10), 1);
    assert_int_equal(stats().send_calls, 20);
    assert_int_equal(info().state, SOLSEND_LINK_ADMITTED);
}

static void datagrams_from_the_peer_are_read_and_dropped(void **state)
{
    (void)state;
    open_link();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)info().local_port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sendto(bed.peer.fd, "", i % 2, 0, (struct sockaddr *)&to, sizeof to),
                         i % 2);
    }
    assert_int_equal(solsend_link_poll(bed.link), 16);
    assert_int_equal(solsend_link_poll(bed.link), 4);
    assert_int_equal(solsend_link_poll(bed.link), 0);
    assert_int_equal(stats().datagrams_received, 20);
    drain();
    assert_int_equal(bed.event_count, 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void finishing_tells_exactly_what_was_open(void **state)
{
    (void)state;
    open_link();
    SCRIPT(0, EAGAIN, EAGAIN, EAGAIN, EAGAIN);
    assert_int_equal(send_number(0), 1);
    for (uint32_t i = 1; i < 5; i++) {
        assert_int_equal(send_number(i), 0);
    }
    assert_int_equal(solsend_link_finish(bed.link, 0), 4);
    faults.script_count = 0;
    assert_int_equal(solsend_link_finish(bed.link, 0), 0); /* idempotent */
    assert_int_equal(info().state, SOLSEND_LINK_ENDED);
    assert_int_equal(info().end_code, SOLSEND_ERR_CLOSED);
    assert_int_equal(info().open + info().waiting, 0);
    assert_int_equal(stats().closed, 4);

    uint64_t ticket = 5;
    assert_int_equal(send_with(9, 0, UINT64_MAX, &ticket), SOLSEND_ERR_CLOSED);
    assert_int_equal(ticket, 5);
    assert_int_equal(burst(9, 2, 250, NULL, NULL), SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_cancel(bed.link, 1), SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_poll(bed.link), SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_wait_admitted(bed.link, 1000), SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_flush(bed.link, 1000), 0);
    assert_true(solsend_link_next_timeout_ns(bed.link) == UINT64_MAX);
    ARRIVED(0);

    drain();
    assert_int_equal(bed.event_count, 6);
    ended(0, SOLSEND_EVENT_WRITTEN, 0);
    for (uint64_t i = 1; i < 5; i++) {
        ended(i, SOLSEND_EVENT_CLOSED, SOLSEND_ERR_ABORTED);
    }
    assert_int_equal(bed.events[5].kind, SOLSEND_EVENT_LINK_CLOSED); /* last of all */
    assert_int_equal(bed.events[5].code, SOLSEND_ERR_CLOSED);
    assert_int_equal(bed.events[5].value, 4);
    drain();
    assert_int_equal(bed.event_count, 0);
    char text[128];
    solsend_link_text(bed.link, text, sizeof text);
    assert_non_null(strstr(text, "ended"));
    assert_int_equal(solsend_link_close(bed.link, 100), 0);
    bed.link = NULL;
    assert_int_equal(solsend_link_close(NULL, 100), 0);
}

static void finishing_with_time_flushes_first(void **state)
{
    (void)state;
    open_link();
    SCRIPT(EAGAIN, EAGAIN, EAGAIN, EAGAIN);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(send_number(i), 0);
    }
    assert_int_equal(solsend_link_close(bed.link, 2000), 0);
    bed.link = NULL;
    ARRIVED(0, 2, 1);
}

static void flushing_gives_up_after_its_time(void **state)
{
    (void)state;
    open_link();
    faults.random_of_100 = 100; /* nothing ever leaves */
    int rc = send_number(1);
    assert_int_equal(rc, 0);
    drain();
    if (bed.event_count == 0) { /* else the fault drawn was a lasting one */
        assert_int_equal(send_number(2), 0);
        uint64_t before = solsend_now_ns();
        int open = solsend_link_flush(bed.link, 20);
        assert_in_range(open, 0, 2);
        assert_true(open == 0 || solsend_now_ns() - before >= 20000000);
    }
    faults.random_of_100 = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_fresh_link_is_ready),
        TEST(written_is_the_end_on_udp),
        TEST(quiet_sends_have_no_events_and_free_their_slots),
        TEST(slots_come_back_by_draining),
        TEST(sizes_follow_the_format_and_the_path),
        TEST(a_passed_deadline_is_refused),
        TEST(bursts_share_system_calls),
        TEST(a_burst_may_be_larger_than_what_one_call_takes),
        TEST(a_burst_judges_each_of_its_own),
        TEST(quiet_bursts_reuse_their_slots),
        TEST(a_closed_port_is_counted_and_nothing_is_held_up),
        TEST(datagrams_from_the_peer_are_read_and_dropped),
        TEST(finishing_tells_exactly_what_was_open),
        TEST(finishing_with_time_flushes_first),
        TEST(flushing_gives_up_after_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
