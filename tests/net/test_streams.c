/* How transactions lie in streams and packets: one each, whole, whatever else is in flight. */
#include "bed.h"

#include <time.h>

#include "link/link.h"
#include "plain_client.h"

static struct bed bed;

/* ---- full transactions ----------------------------------------------------------------------- */

enum { FULL = 1000, SMALL = 200 };

struct crowd {
    const char *profile;
    uint32_t cap;
    double loss;
    int careful; /* 0: acknowledgements are left to ride with the transactions */
};

/* Waits a little, takes in what came, and forgets that it asks for an answer. */
static void read_carelessly(long more_ns)
{
    const struct timespec nap = {0, 200000 + more_ns};
    uint8_t data[2048];
    ssize_t n;
    nanosleep(&nap, NULL);
    while ((n = recv(bed.link->endpoint.fd, data, sizeof data, MSG_DONTWAIT)) > 0) {
        quic_read(bed.link->quic, data, (size_t)n, solsend_now_ns());
    }
    bed.link->quic->owes = 0;
}

/*
 * A thousand full transactions in bursts, between small ones, while the leader pings every
 * millisecond and renews its windows.
 */
static void send_crowd(const struct crowd *crowd)
{
    char faults[128];
    snprintf(faults, sizeof faults, "grant=4096,ping_every_ms=1,max_data_every_ms=1,loss=%g",
             crowd->loss);
    bed_open(&bed, crowd->profile, faults);
    bed.options.payload_bytes_max = crowd->cap;
    bed.options.slots = FULL + SMALL;
    bed_admit(&bed);
    for (uint32_t i = 0; i < FULL; i++) {
        if (!crowd->careful) {
            /* now and then long enough for several PINGs: their ACK is then due at once */
            read_carelessly(i % 50 == 0 ? 4000000 : 0);
        }
        assert_in_range(bed_send(&bed, 1232, 0, i), 0, 1);
        if (i % (FULL / SMALL) == 0) {
            assert_in_range(bed_send(&bed, 250 + i % 700, 0, i), 0, 1);
        }
        if (i % 16 == 15) {
            bed_step(&bed);
            bed_step(&bed);
        }
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, FULL + SMALL, 20000);
    bed_assert_accounted(&bed);
}

static void full_transactions_take_one_frame_each(void **state)
{
    static const struct crowd crowds[] = {
        {"firedancer", 1472, 0, 1}, {"firedancer", 1280, 0, 1}, {"agave-4.0", 1472, 0, 1},
        {"agave-4.3", 1280, 0, 1},  {"agave-4.3", 1264, 0, 1},
    };
    for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++) {
        send_crowd(&crowds[i]);
        const mock_arrival *a;
        size_t n = mock_arrivals(bed.leader, &a);
        assert_int_equal(n, FULL + SMALL);
        for (size_t k = 0; k < n; k++) {
            if (a[k].frames != 1 || a[k].copies != 1) {
                fail_msg("%u bytes in %u frames, %u times", a[k].bytes, a[k].frames, a[k].copies);
            }
        }
        mock_counts c = bed_counts(&bed);
        assert_int_equal(c.stream_frames, FULL + SMALL);
        assert_int_equal(c.streams_split, 0);
        assert_int_equal(c.gaps, 0);
        assert_in_range(c.max_datagram, 1232 + 20, crowds[i].cap);
        assert_int_equal(bed_stats(&bed).fragmented, 0);
        bed_close(&bed);
    }
}

/* The guard of the above turned off: what is owed is not written before a transaction. */
static void owed_frames_left_in_the_way_split_transactions(void **state)
{
    send_crowd(&(struct crowd){"agave-4.3", 1264, 0, 0});
    assert_true(bed_counts(&bed).streams_split > 0);
    assert_int_equal(bed_stats(&bed).fragmented, bed_counts(&bed).streams_split);
    bed_close(&bed);
}

/*
 * Lost ones are repeated by ngtcp2, which fills packets with them back to back and may cut one at
 * a packet's end; the first packet of each was whole, and nothing is lost or doubled by it.
 */
static void only_repeated_transactions_may_be_cut(void **state)
{
    static const struct crowd crowds[] = {{"firedancer", 1472, 0.03, 1},
                                          {"agave-4.0", 1280, 0.03, 1}};
    for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++) {
        send_crowd(&crowds[i]);
        mock_counts c = bed_counts(&bed);
        assert_true(c.dropped_in > 0);
        assert_int_equal(c.accepted, FULL + SMALL);
        assert_int_equal(c.distinct, FULL + SMALL);
        assert_in_range(c.streams_split, 0, c.dropped_in);
        assert_int_equal(bed_stats(&bed).fragmented, 0);
        assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 0);
        bed_close(&bed);
    }
}

/* A path that cannot take a full one: cut, counted and told at once. */
static void a_small_cap_cuts_and_says_so(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=64");
    bed.options.payload_bytes_max = 1200;
    bed_admit(&bed);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(bed_send(&bed, 1232, 0, 0), 1);
        assert_int_equal(bed_send(&bed, 1000, 0, 0), 1);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 20, 5000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_PATH].value, 1200);
    assert_int_equal(bed_info(&bed).payload_bytes, 1200);
    assert_int_equal(bed_stats(&bed).fragmented, 10);
    assert_int_equal(bed_counts(&bed).streams_split, 10);
    assert_int_equal(bed_counts(&bed).max_datagram, 1200);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

enum { ACK_BYTES = 40 }; /* one in a packet of its own, at the most */

/* ---- what fits ------------------------------------------------------------------------------- */

/* Bytes of a packet around a transaction of `bytes`, when a probe of 100 bytes had `probed`. */
static uint32_t predicted(uint32_t bytes, uint32_t probed)
{
    return bytes + (probed - 100) - (bytes < 64); /* the length takes two bytes from 64 on */
}

/* Sends raw bytes, waits for the acknowledgement; returns the bytes of all its packets. */
static uint32_t send_measured(uint32_t bytes, uint64_t *datagrams)
{
    static uint8_t wire[SOLSEND_TX_BYTES_MAX] = {1};
    solsend_send s;
    solsend_send_init(&s, sizeof s);
    s.wire = wire;
    s.wire_bytes = bytes;
    solsend_link_stats before = bed_stats(&bed);
    assert_int_equal(solsend_link_send(bed.link, &s, NULL), 1);
    solsend_link_stats after = bed_stats(&bed);
    *datagrams = after.datagrams_sent - before.datagrams_sent;
    bed_until(&bed, SOLSEND_EVENT_ACKED, after.accepted, 5000);
    return (uint32_t)(after.bytes_sent - before.bytes_sent);
}

/* The smallest of a few: now and then a packet carries an acknowledgement too. */
static uint32_t probe(void)
{
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        uint64_t datagrams;
        uint32_t took = send_measured(100, &datagrams);
        least = took < least ? took : least;
    }
    return least;
}

/*
 * Every size in one packet exactly when it must fit by arithmetic: the head of the packet is
 * learnt from a small transaction just before.
 */
static void check_sizes(uint32_t cap)
{
    mock_counts begin = bed_counts(&bed);
    uint32_t cut = 0, whole = 0;
    for (uint32_t bytes = 1; bytes <= 1232; bytes += bytes < 1100 ? 13 : 1) {
        uint64_t datagrams;
        uint32_t want = predicted(bytes, probe());
        uint32_t took = send_measured(bytes, &datagrams);
        if (want <= cap) {
            whole++;
            if (took > want + ACK_BYTES || took < want || (datagrams != 1 && took == want)) {
                fail_msg("%u bytes, cap %u: %u bytes in %u packets, not %u in one", bytes, cap,
                         took, (unsigned)datagrams, want);
            }
        } else {
            cut++;
            assert_in_range(datagrams, 2, 3);
            assert_true(took > want);
        }
    }
    mock_counts end = bed_counts(&bed);
    assert_true(end.max_datagram <= cap);
    assert_int_equal(end.streams_split - begin.streams_split, cut);
    assert_int_equal(bed_stats(&bed).fragmented, cut);
    assert_true(whole > 80);
    assert_int_equal(cut == 0, cap > 1260);
}

static void one_packet_exactly_when_it_fits(void **state)
{
    static const char *const at[] = {"127.0.0.1:0", "[::1]:0"};
    static const uint32_t caps[] = {1200, 1232, 1252, 1264, 1280, 1472};
    for (size_t f = 0; f < 2; f++) {
        for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
            if (bed_open_at(&bed, "agave-4.3", "grant=total:4096", at[f]) != 0) {
                print_message("no IPv6 here: IPv4 only\n");
                return;
            }
            bed.options.payload_bytes_max = caps[i];
            bed_admit(&bed);
            bed_run(&bed, 60); /* what the handshake left to acknowledge is gone then */
            assert_int_equal(bed_info(&bed).payload_bytes, caps[i]);
            check_sizes(caps[i]);
            bed_assert_accounted(&bed);
            bed_close(&bed);
        }
    }
}

/* ---- sizes and formats ----------------------------------------------------------------------- */

static int send_v1(uint32_t bytes, uint64_t user)
{
    uint8_t wire[SOLSEND_TX_V1_BYTES_MAX];
    solsend_send s;
    bed_transaction_v1(&bed, wire, bytes);
    assert_int_equal(solsend_send_init(&s, sizeof s), 0);
    s.wire = wire;
    s.wire_bytes = bytes;
    s.user = user;
    return solsend_link_send(bed.link, &s, NULL);
}

static int send_legacy_of(uint32_t bytes)
{
    static uint8_t wire[SOLSEND_TX_V1_BYTES_MAX + 1] = {1};
    solsend_send s;
    assert_int_equal(solsend_send_init(&s, sizeof s), 0);
    s.wire = wire;
    s.wire_bytes = bytes;
    return solsend_link_send(bed.link, &s, NULL);
}

static void version_1_goes_where_the_leader_takes_it(void **state)
{
    static const char *const takers[] = {"agave-4.3", "firedancer"};
    for (size_t i = 0; i < 2; i++) {
        bed_open(&bed, takers[i], "grant=64");
        bed_admit(&bed);
        assert_int_equal(bed_info(&bed).tx_bytes_max, 4096);
        assert_int_equal(send_legacy_of(1233), SOLSEND_ERR_TX_TOO_LARGE);
        assert_int_equal(send_legacy_of(1644), SOLSEND_ERR_TX_TOO_LARGE);
        for (uint32_t bytes = 1232; bytes <= 4096; bytes += 358) {
            assert_in_range(send_v1(bytes, 0), 0, 1);
        }
        assert_int_equal(send_legacy_of(4097), SOLSEND_ERR_TX_TOO_LARGE);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 9, 5000);
        assert_int_equal(mock_wait_accepted(bed.leader, 9, 5000), 9);
        const mock_arrival *a;
        assert_int_equal(mock_arrivals(bed.leader, &a), 9);
        for (uint32_t k = 0; k < 9; k++) {
            assert_int_equal(a[k].bytes, 1232 + k * 358);
            assert_in_range(a[k].frames, 1, 3);
        }
        assert_int_equal(bed_stats(&bed).refused, 3);
        assert_int_equal(bed_stats(&bed).fragmented, 0);
        bed_assert_accounted(&bed);
        bed_close(&bed);
    }
}

static void version_1_is_refused_where_the_leader_reads_1232(void **state)
{
    bed_open(&bed, "agave-4.0", "grant=64");
    bed_connect(&bed);
    /* its limit is not known yet: accepted, and ended when the handshake tells */
    assert_int_equal(send_v1(4096, 17), 0);
    assert_int_equal(send_v1(1233, 18), 0);
    assert_in_range(send_v1(1232, 19), 0, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].user, 19);
    assert_int_equal(bed.seen[SOLSEND_EVENT_EXPIRED], 2);
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_EXPIRED) {
            assert_int_equal(bed.log[i].code, SOLSEND_ERR_TX_TOO_LARGE);
            assert_in_range(bed.log[i].user, 17, 18);
        }
    }
    assert_int_equal(bed_info(&bed).tx_bytes_max, 1232);
    assert_int_equal(send_v1(1233, 0), SOLSEND_ERR_TX_TOO_LARGE);
    assert_int_equal(send_v1(4096, 0), SOLSEND_ERR_TX_TOO_LARGE);
    assert_in_range(send_v1(1232, 0), 0, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 2, 5000);
    assert_int_equal(bed_counts(&bed).distinct, 2);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* The guard turned off: the stream hangs at the leader's limit, and everything behind it. */
static void beyond_the_limit_a_stream_blocks_the_others(void **state)
{
    bed_open(&bed, "agave-4.0", "grant=64");
    bed_admit(&bed);
    bed.link->tx_bytes_max = 4096;
    assert_int_equal(send_v1(4096, 0), 0);
    assert_int_equal(bed_send(&bed, 250, 0, 0), 0);
    bed_run(&bed, 100);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], 0);
    assert_int_equal(bed_counts(&bed).accepted, 0);
    bed_close(&bed);
}

/* ---- a Firedancer leader --------------------------------------------------------------------- */

static void firedancer_from_hello_to_the_last_byte(void **state)
{
    bed_open_strict(&bed, "firedancer", "verify=1");
    bed_admit(&bed);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(bed_send(&bed, 1232, 0, 0), 1);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 50, 5000);
    bed_fault(&bed, "verify=0");
    assert_int_equal(send_v1(4096, 0), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 51, 5000);
    mock_counts c = bed_counts(&bed);
    assert_int_equal(c.accepted, 51);
    assert_int_equal(c.hello_disordered, 0);
    assert_int_equal(c.certificates_refused, 0);
    assert_int_equal(c.retries_sent, 1);
    assert_int_equal(c.tokens_refused, 0);
    assert_int_equal(c.gaps + c.malformed, 0);
    assert_int_equal(bed_stats(&bed).retries_seen, 1);
    solsend_link_info info = bed_info(&bed);
    uint8_t leader[32], own[32];
    mock_identity(bed.leader, leader);
    assert_memory_equal(info.peer_key, leader, 32);
    solsend_key_public(bed.identity, own);
    assert_memory_equal(info.identity, own, 32);
    assert_int_equal(info.idle_timeout_ms, 10000);
    assert_int_equal(info.keep_alive_ms, 4000);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* The same leader refuses a ClientHello whose second half stands before its first. */
static void firedancer_refuses_a_disordered_hello(void **state)
{
    struct plain_options ordered = {.seed = 3}, disordered = {.seed = 4, .split_hello = 1};
    struct plain p;
    bed_open(&bed, "firedancer", NULL);
    assert_int_equal(plain_open(&p, mock_port(bed.leader), &disordered), 0);
    plain_run(&p, 300);
    assert_int_equal(p.completed, 0);
    plain_close(&p);
    assert_true(bed_counts(&bed).hello_disordered > 0);
    assert_int_equal(bed_counts(&bed).connections, 0);

    assert_int_equal(plain_open(&p, mock_port(bed.leader), &ordered), 0);
    assert_int_equal(plain_until(&p, &p.completed, 1, 2000), 1);
    plain_close(&p);
    bed_close(&bed);
}

/* ---- STOP_SENDING ---------------------------------------------------------------------------- */

static void a_stopped_stream_ends_with_the_leaders_code(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=64,stop_sending=4,stop_code=7");
    bed_admit(&bed);
    for (uint32_t i = 0; i < 40; i++) {
        assert_in_range(bed_send(&bed, 250 + 20 * i, 0, i), 0, 1);
        bed_run(&bed, 2);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 30, 5000);
    bed_until(&bed, SOLSEND_EVENT_STOPPED, 10, 5000);
    for (uint32_t i = 0; i < bed.logged; i++) {
        const solsend_event *e = &bed.log[i];
        if (e->kind == SOLSEND_EVENT_STOPPED) {
            assert_int_equal(e->user % 4, 3);
            assert_int_equal(e->code, SOLSEND_ERR_STOPPED);
            assert_int_equal(e->peer_code, 7);
        }
    }
    assert_int_equal(bed_stats(&bed).stopped, 10);
    assert_int_equal(bed_counts(&bed).distinct, 30);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_transactions_take_one_frame_each),
        cmocka_unit_test(owed_frames_left_in_the_way_split_transactions),
        cmocka_unit_test(only_repeated_transactions_may_be_cut),
        cmocka_unit_test(a_small_cap_cuts_and_says_so),
        cmocka_unit_test(one_packet_exactly_when_it_fits),
        cmocka_unit_test(version_1_goes_where_the_leader_takes_it),
        cmocka_unit_test(version_1_is_refused_where_the_leader_reads_1232),
        cmocka_unit_test(beyond_the_limit_a_stream_blocks_the_others),
        cmocka_unit_test(firedancer_from_hello_to_the_last_byte),
        cmocka_unit_test(firedancer_refuses_a_disordered_hello),
        cmocka_unit_test(a_stopped_stream_ends_with_the_leaders_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
