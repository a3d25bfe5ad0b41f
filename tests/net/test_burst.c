/* Many transactions at once: bursts, first flights, and a socket that refuses some of them. */
#include "bed.h"
#include "shim.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "link/link.h"

static struct bed bed;

/* ---- the burst call -------------------------------------------------------------------------- */

enum { BURST = 64 };

static uint8_t wires[BURST][SOLSEND_TX_V1_BYTES_MAX];
static solsend_send sends[BURST];
static uint64_t tickets[BURST];
static int32_t results[BURST];

static void prepare(uint32_t i, uint32_t bytes)
{
    if (bytes > SOLSEND_TX_BYTES_MAX) {
        bed_transaction_v1(&bed, wires[i], bytes);
        assert_int_equal(solsend_send_init(&sends[i], sizeof sends[i]), 0);
        sends[i].wire = wires[i];
        sends[i].wire_bytes = bytes;
    } else {
        bed_prepare(&bed, &sends[i], wires[i], bytes);
    }
    sends[i].user = i;
}

/* Sends the first `count` prepared ones; all must be accepted. Returns how many left at once. */
static uint32_t burst(uint32_t count)
{
    uint32_t written = 0;
    memset(tickets, 0, sizeof tickets);
    memset(results, 0x55, sizeof results);
    assert_int_equal(solsend_link_send_burst(bed.link, sends, count, tickets, results), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(results[i], 0, 1);
        assert_int_not_equal(tickets[i], 0);
        written += results[i] == 1;
    }
    return written;
}

static void bursts_of_every_length_arrive_whole(const char *profile, int v1)
{
    uint64_t sent = 0;
    bed_open(&bed, profile, strcmp(profile, "udp") == 0 ? NULL : "grant=8192");
    bed.options.first_flight_bytes = 65527;
    bed_admit(&bed);
    for (uint32_t count = 1; count <= BURST; count++) {
        for (uint32_t i = 0; i < count; i++) {
            static const uint32_t sizes[] = {250, 250, 250, 250, 1232, 700, 1232, 251};
            prepare(i, v1 && (i + count) % 16 == 0 ? 4096 : sizes[(i / 4 + count + i / 7) % 8]);
        }
        sent += count;
        burst(count);
        if (strcmp(profile, "udp") == 0) {
            bed_until(&bed, SOLSEND_EVENT_WRITTEN, sent, 5000);
        } else {
            bed_until(&bed, SOLSEND_EVENT_ACKED, sent, 5000);
        }
    }
    assert_int_equal(mock_wait_accepted(bed.leader, sent, 5000), sent);
    assert_int_equal(bed_counts(&bed).distinct, sent);
    assert_int_equal(bed_counts(&bed).malformed, 0);
    solsend_link_stats s = bed_stats(&bed);
    assert_int_equal(s.written, sent);
    assert_int_equal(s.fragmented, 0);
    assert_true(s.send_calls < s.datagrams_sent); /* equal ones shared system calls */
    bed_close(&bed);
}

static void bursts_arrive_whole_on_quic(void **state)
{
    bursts_of_every_length_arrive_whole("agave-4.3", 1);
}

static void bursts_arrive_whole_on_udp(void **state)
{
    bursts_of_every_length_arrive_whole("udp", 0);
}

static void a_burst_judges_each_alone(void **state)
{
    static uint8_t large[2000] = {1};
    bed_open(&bed, "agave-4.3", "grant=64");
    bed.options.slots = 4;
    bed_admit(&bed);
    for (uint32_t i = 0; i < 8; i++) {
        prepare(i, 250 + i);
    }
    sends[1].wire = large;
    sends[1].wire_bytes = sizeof large;
    sends[2].wire_bytes = 0;
    sends[3].deadline_ns = 1;
    assert_int_equal(solsend_link_send_burst(bed.link, sends, 8, NULL, results), 4);
    static const int32_t want[8] = {
        1, SOLSEND_ERR_TX_TOO_LARGE, SOLSEND_ERR_TX_EMPTY, SOLSEND_ERR_TX_EXPIRED, 1, 1,
        1, SOLSEND_ERR_FULL,
    };
    assert_memory_equal(results, want, sizeof want);
    assert_int_equal(solsend_link_send_burst(bed.link, sends, 0, NULL, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_link_send_burst(bed.link, sends, 65, NULL, NULL), SOLSEND_ERR_USAGE);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 4, 5000);
    assert_int_equal(bed_stats(&bed).refused, 4);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* ---- the first flight ------------------------------------------------------------------------ */

enum { RTT_MS = 80, GAP_NS = RTT_MS * 1000000 / 4 };

struct flights {
    uint32_t at_once;     /* send calls that returned 1 */
    uint32_t count;       /* groups of arrivals with silence in between */
    uint32_t first;       /* transactions in the first of them */
    uint64_t first_ns;    /* from its first arrival to its last */
    uint64_t duration_ns; /* from the first send call to the last acknowledgement */
};

static void count_flights(struct flights *f)
{
    const mock_arrival *a;
    size_t n = mock_arrivals(bed.leader, &a);
    f->count = n > 0;
    for (size_t i = 1; i < n; i++) {
        f->count += a[i].received_ns - a[i - 1].received_ns > GAP_NS;
        if (f->count == 1) {
            f->first = (uint32_t)i + 1;
            f->first_ns = a[i].received_ns - a[0].received_ns;
        }
    }
}

enum { FLIGHT_MAX = 100 };

static uint8_t flight_wires[FLIGHT_MAX][SOLSEND_TX_BYTES_MAX];
static solsend_send flight_sends[FLIGHT_MAX];

/* `count` full transactions at once on a fresh admitted connection over 80 ms. */
static struct flights fly(uint32_t count, uint32_t first_flight_bytes, int paced)
{
    struct flights f = {0};
    bed_open(&bed, "agave-4.3", "rtt_ms=80,grant=512");
    if (first_flight_bytes != 0) {
        bed.options.first_flight_bytes = first_flight_bytes;
    }
    bed_admit(&bed);
    for (uint32_t i = 0; i < count; i++) {
        bed_prepare(&bed, &flight_sends[i], flight_wires[i], 1232);
    }
    uint64_t start = solsend_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        f.at_once += solsend_link_send(bed.link, &flight_sends[i], NULL) == 1;
        if (paced) {
            ngtcp2_conn_update_pkt_tx_time(bed.link->quic->conn, solsend_now_ns());
        }
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, count, 5000);
    f.duration_ns = solsend_now_ns() - start;
    count_flights(&f);
    assert_int_equal(bed_stats(&bed).fragmented, 0);
    assert_int_equal(bed_stats(&bed).waited_window, count - f.at_once);
    bed_assert_accounted(&bed);
    bed_close(&bed);
    return f;
}

static void a_default_window_needs_two_flights(void **state)
{
    for (uint32_t count = 64; count <= FLIGHT_MAX; count += FLIGHT_MAX - 64) {
        struct flights f = fly(count, 0, 0);
        assert_in_range(f.at_once, 50, 54);
        assert_int_equal(f.count, 2);
        assert_in_range(f.first, f.at_once, 56); /* the handshake's own ACKs still add to it */
        assert_true(f.duration_ns > 2 * RTT_MS * UINT64_C(1000000));
    }
}

static void the_largest_window_needs_one(void **state)
{
    for (uint32_t count = 64; count <= FLIGHT_MAX; count += FLIGHT_MAX - 64) {
        struct flights f = fly(count, 65527, 0);
        assert_int_equal(f.at_once, count);
        assert_int_equal(f.count, 1);
        assert_int_equal(f.first, count);
        assert_true(f.duration_ns < 2 * RTT_MS * UINT64_C(1000000));
        /* nothing is paced: one hundred of them arrive as if they were one */
        assert_true(f.first_ns < RTT_MS * UINT64_C(1000000) / 2);
    }
}

/* The same with ngtcp2 told of every packet's time, as its documentation suggests. */
static void pacing_would_hold_them_back(void **state)
{
    struct flights f = fly(64, 65527, 1);
    assert_true(f.at_once < 16);
}

/* ---- GSO refused ----------------------------------------------------------------------------- */

static int refuse_segments(void *context, const struct shim_call *call)
{
    return call->segmented ? *(const int *)context : SHIM_MAKE;
}

static void equal_burst(uint32_t count, uint32_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        prepare(i, bytes);
    }
    assert_int_equal(burst(count), count);
}

static void segments_are_used_where_the_kernel_can(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=512");
    bed_admit(&bed);
    shim_clear();
    equal_burst(32, 250);
    if (shim.segmented == 1 && bed_stats(&bed).segment_failures == 0) {
        assert_int_equal(bed_stats(&bed).segmented_sends, 1);
        assert_true(shim.calls <= 2);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 32, 5000);
    shim_clear();
    equal_burst(3, 250); /* fewer than four never */
    assert_int_equal(shim.segmented, 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 35, 5000);
    bed_close(&bed);

    bed_open(&bed, "agave-4.3", "grant=512");
    bed.options.segment_bursts = 0;
    bed_admit(&bed);
    shim_clear();
    equal_burst(32, 250);
    assert_int_equal(shim.segmented, 0);
    assert_int_equal(shim.calls, 32);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 32, 5000);
    bed_close(&bed);
}

static void refused_segments_leave_one_by_one(void **state)
{
    static int errors[] = {EIO, EINVAL, EOPNOTSUPP};
    static const char *const profiles[] = {"agave-4.3", "udp"};
    for (size_t k = 0; k < 6; k++) {
        int udp = k >= 3;
        bed_open(&bed, profiles[udp], udp ? NULL : "grant=512");
        bed_admit(&bed);
        shim_clear();
        shim.judge = refuse_segments;
        shim.context = &errors[k % 3];
        for (uint32_t round = 0; round < 4; round++) {
            equal_burst(16, 600);
        }
        bed_until(&bed, udp ? SOLSEND_EVENT_WRITTEN : SOLSEND_EVENT_ACKED, 64, 5000);
        assert_int_equal(mock_wait_accepted(bed.leader, 64, 5000), 64);
        assert_int_equal(bed_counts(&bed).distinct, 64);
        solsend_link_stats s = bed_stats(&bed);
        assert_int_equal(s.segment_failures, 1); /* asked once, never again */
        assert_int_equal(s.segmented_sends, 0);
        assert_int_equal(shim.segmented, 1);
        assert_int_equal(s.written, 64);
        assert_int_equal(s.send_failures + s.socket_full, 0);

        /* the guard turned off: every burst knocks at the same closed door */
        for (uint32_t round = 0; round < 3; round++) {
            bed.link->box.segment_ok = 1;
            equal_burst(16, 600);
        }
        assert_int_equal(bed_stats(&bed).segment_failures, 4);
        bed_close(&bed);
    }
    shim_clear();
}

/* ---- a socket that takes no more ------------------------------------------------------------- */

struct refusals {
    uint32_t every; /* each so-many-th call … */
    uint32_t random_percent;
    uint32_t after; /* … or all behind the first so many */
    uint32_t seen;
    uint32_t only; /* or just this one, with `error` */
    int error;
    uint32_t state;
};

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static int refuse_some(void *context, const struct shim_call *call)
{
    struct refusals *r = context;
    uint32_t n = ++r->seen;
    if (r->only != 0) {
        return n == r->only ? r->error : SHIM_MAKE;
    }
    if (r->after != 0) {
        return n > r->after ? EAGAIN : SHIM_MAKE;
    }
    int hit = r->every != 0 ? n % r->every == 0 : draw(&r->state) % 100 < r->random_percent;
    return !hit ? SHIM_MAKE : n & 1 ? EAGAIN : ENOBUFS;
}

static void shim_refuse(struct refusals *refusals)
{
    shim_clear();
    shim.judge = refuse_some;
    shim.context = refusals;
}

enum { MANY = 2000 };

static uint64_t heads[MANY];

static uint64_t head_of(const uint8_t *wire)
{
    uint64_t head;
    memcpy(&head, wire + 1, sizeof head);
    return head;
}

/* Sends MANY of mixed sizes, singly and in bursts, while the socket refuses some of the calls. */
static void send_many(const char *profile, struct refusals *refusals)
{
    int udp = strcmp(profile, "udp") == 0;
    bed_open(&bed, profile, udp ? NULL : "grant=4096");
    bed.options.first_flight_bytes = 65527;
    bed_admit(&bed);
    bed_run(&bed, 30);
    shim_refuse(refusals);
    uint32_t sent = 0;
    while (sent < MANY) {
        uint32_t count = sent % 3 == 0 ? 1 : 1 + sent % 7;
        count = count > MANY - sent ? MANY - sent : count;
        for (uint32_t i = 0; i < count; i++) {
            static const uint32_t sizes[] = {300, 517, 250, 999, 1232};
            prepare(i, sent % 2 != 0 ? 250 : sizes[(sent + i) % 5]);
            heads[sent + i] = head_of(wires[i]);
        }
        if (count == 1) {
            assert_in_range(solsend_link_send(bed.link, &sends[0], NULL), 0, 1);
        } else {
            burst(count);
        }
        sent += count;
        while (bed_info(&bed).open > 48) {
            bed_step(&bed);
        }
        bed_step(&bed);
    }
    bed_until(&bed, udp ? SOLSEND_EVENT_WRITTEN : SOLSEND_EVENT_ACKED, MANY, 10000);
    shim.judge = NULL;
    assert_int_equal(mock_wait_accepted(bed.leader, MANY, 5000), MANY);
}

static void assert_nothing_failed(void)
{
    solsend_link_stats s = bed_stats(&bed);
    assert_int_equal(bed_counts(&bed).distinct, MANY);
    assert_int_equal(s.written, MANY);
    assert_int_equal(s.expired + s.closed + s.stopped + s.cancelled, 0);
    assert_int_equal(s.send_failures + s.netfilter_drops + s.icmp_errors + s.too_big, 0);
    assert_true(shim.refused > 50);
    assert_int_equal(s.socket_full, shim.refused);
    assert_in_range(s.waited_socket, 1, MANY);
    solsend_summary credit;
    assert_int_equal(solsend_link_hop(bed.link, SOLSEND_HOP_CREDIT, &credit), 0);
    assert_true(credit.count >= s.waited_socket);
}

static void refused_packets_are_kept_in_order(void **state)
{
    static const char *const profiles[] = {"udp", "agave-4.3"};
    for (size_t k = 0; k < 2; k++) {
        struct refusals r = {.every = 20};
        send_many(profiles[k], &r);
        assert_nothing_failed();
        const mock_arrival *a;
        assert_int_equal(mock_arrivals(bed.leader, &a), MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            if (a[i].signature_head != heads[i]) {
                fail_msg("%s: arrival %u is another than was sent", profiles[k], i);
            }
        }
        bed_close(&bed);
    }
    shim_clear();
}

static void a_socket_that_refuses_at_random_loses_nothing(void **state)
{
    static const char *const profiles[] = {"udp", "agave-4.3", "firedancer"};
    for (size_t k = 0; k < 3; k++) {
        struct refusals r = {.random_percent = 5, .state = 11};
        send_many(profiles[k], &r);
        assert_nothing_failed();
        if (k > 0) {
            bed_assert_accounted(&bed);
            assert_int_equal(bed_counts(&bed).accepted, MANY);
        }
        bed_close(&bed);
    }
    shim_clear();
}

/* What a sender without a memory makes of the same socket. */
static void a_naive_sender_loses_what_is_refused(void **state)
{
    struct refusals r = {.random_percent = 5, .state = 11};
    bed_open(&bed, "udp", NULL);
    bed_admit(&bed);
    shim_refuse(&r);
    uint32_t lost = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        prepare(0, 250);
        lost += send(solsend_link_fd(bed.link), wires[0], 250, MSG_NOSIGNAL) < 0;
    }
    assert_in_range(lost, 50, 200);
    assert_int_equal(mock_wait_accepted(bed.leader, MANY - lost, 5000), MANY - lost);
    shim_clear();
    bed_close(&bed);
}

/* The real thing: a socket buffer smaller than the burst. */
static void a_small_socket_buffer_only_delays(void **state)
{
    bed_open(&bed, "udp", NULL);
    bed.options.send_buffer_bytes = 2048;
    bed.options.segment_bursts = 0;
    bed_admit(&bed);
    shim_clear();
    for (uint32_t i = 0; i < BURST; i++) {
        prepare(i, 1232);
    }
    burst(BURST);
    bed_until(&bed, SOLSEND_EVENT_WRITTEN, BURST, 5000);
    assert_int_equal(mock_wait_accepted(bed.leader, BURST, 5000), BURST);
    assert_int_equal(bed_stats(&bed).written, BURST);
    bed_close(&bed);
}

static void what_is_kept_can_be_taken_back(void **state)
{
    static const char *const profiles[] = {"udp", "agave-4.3"};
    for (size_t k = 0; k < 2; k++) {
        struct refusals r = {.every = 1};
        bed_open(&bed, profiles[k], k == 0 ? NULL : "grant=64");
        bed_admit(&bed);
        bed_run(&bed, 30);
        for (uint32_t i = 0; i < 8; i++) {
            prepare(i, 250);
        }
        sends[5].deadline_ns = solsend_now_ns() + 10000000;
        shim_refuse(&r);
        assert_int_equal(burst(8), 0);
        assert_int_equal(bed_info(&bed).waiting, 8);
        assert_int_equal(solsend_link_cancel(bed.link, tickets[2]), 0);
        bed_until(&bed, SOLSEND_EVENT_EXPIRED, 1, 1000);
        assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NO_BUFFER);
        assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].user, 5);
        assert_int_equal(bed_counts(&bed).accepted, 0);
        shim_clear();
        bed_until(&bed, k == 0 ? SOLSEND_EVENT_WRITTEN : SOLSEND_EVENT_ACKED, 6, 2000);
        assert_int_equal(mock_wait_accepted(bed.leader, 6, 5000), 6);
        bed_run(&bed, 30); /* and no seventh comes */
        assert_int_equal(bed_counts(&bed).accepted, 6);
        assert_int_equal(mock_saw(bed.leader, wires[2] + 1), 0);
        assert_int_equal(mock_saw(bed.leader, wires[5] + 1), 0);
        assert_int_equal(bed.seen[SOLSEND_EVENT_CANCELLED], 1);
        assert_int_equal(bed.last[SOLSEND_EVENT_CANCELLED].user, 2);
        bed_close(&bed);
    }
}

static void a_burst_that_left_in_part_says_which(void **state)
{
    static const char *const profiles[] = {"udp", "agave-4.3"};
    for (size_t k = 0; k < 2; k++) {
        struct refusals r = {.after = 3};
        bed_open(&bed, profiles[k], k == 0 ? NULL : "grant=64");
        bed.options.segment_bursts = 0;
        bed_admit(&bed);
        bed_run(&bed, 30);
        for (uint32_t i = 0; i < 8; i++) {
            prepare(i, 250);
            sends[i].deadline_ns = solsend_now_ns() + 20000000;
        }
        shim_refuse(&r);
        assert_int_equal(burst(8), 3);
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(results[i], i < 3);
        }
        bed_until(&bed, SOLSEND_EVENT_EXPIRED, 5, 1000);
        shim_clear();
        bed_until(&bed, k == 0 ? SOLSEND_EVENT_WRITTEN : SOLSEND_EVENT_ACKED, 3, 1000);
        bed_run(&bed, 10);
        assert_int_equal(bed_counts(&bed).accepted, 3);
        for (uint32_t i = 0; i < bed.logged; i++) {
            if (bed.log[i].kind == SOLSEND_EVENT_EXPIRED) {
                assert_int_equal(bed.log[i].code, SOLSEND_ERR_NO_BUFFER);
                assert_in_range(bed.log[i].user, 3, 7);
            }
        }
        bed_close(&bed);
    }
}

static void one_lost_datagram_of_a_burst_is_the_only_one_told(void **state)
{
    struct refusals r = {.only = 4, .error = EPERM};
    bed_open(&bed, "udp", NULL);
    bed.options.segment_bursts = 0;
    bed_admit(&bed);
    for (uint32_t i = 0; i < 8; i++) {
        prepare(i, 250);
    }
    shim_refuse(&r);
    assert_int_equal(burst(8), 7);
    bed_run(&bed, 5);
    assert_int_equal(bed.seen[SOLSEND_EVENT_WRITTEN], 7);
    assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].user, 3);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].code, SOLSEND_ERR_NETFILTER);
    assert_int_equal(mock_wait_accepted(bed.leader, 7, 1000), 7);
    assert_int_equal(mock_saw(bed.leader, wires[3] + 1), 0);
    shim_clear();
    bed_close(&bed);
}

/* While the socket is full, next_timeout asks for a poll every 50 us, not for a busy loop. */
static void a_full_socket_does_not_make_a_sleeper_spin(void **state)
{
    struct refusals r = {.every = 1};
    bed_open(&bed, "agave-4.3", "grant=64,ping_every_ms=1");
    bed_admit(&bed);
    bed_run(&bed, 30);
    shim_refuse(&r);
    assert_int_equal(bed_send(&bed, 250, 0, 0), 0);
    uint64_t until = solsend_now_ns() + 100000000;
    uint32_t polls = 0;
    while (solsend_now_ns() < until) {
        assert_true(solsend_link_poll(bed.link) >= 0);
        polls++;
        uint64_t next = solsend_link_next_timeout_ns(bed.link), now = solsend_now_ns();
        assert_true(next < now + 60000);
        struct timespec t = {0, next > now ? (long)(next - now) : 0};
        nanosleep(&t, NULL);
    }
    shim_clear();
    assert_in_range(polls, 20, 2200);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 1000);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_arrive_whole_on_quic),
        cmocka_unit_test(bursts_arrive_whole_on_udp),
        cmocka_unit_test(a_burst_judges_each_alone),
        cmocka_unit_test(a_default_window_needs_two_flights),
        cmocka_unit_test(the_largest_window_needs_one),
        cmocka_unit_test(pacing_would_hold_them_back),
        cmocka_unit_test(segments_are_used_where_the_kernel_can),
        cmocka_unit_test(refused_segments_leave_one_by_one),
        cmocka_unit_test(refused_packets_are_kept_in_order),
        cmocka_unit_test(a_socket_that_refuses_at_random_loses_nothing),
        cmocka_unit_test(a_naive_sender_loses_what_is_refused),
        cmocka_unit_test(a_small_socket_buffer_only_delays),
        cmocka_unit_test(what_is_kept_can_be_taken_back),
        cmocka_unit_test(a_burst_that_left_in_part_says_which),
        cmocka_unit_test(one_lost_datagram_of_a_burst_is_the_only_one_told),
        cmocka_unit_test(a_full_socket_does_not_make_a_sleeper_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
