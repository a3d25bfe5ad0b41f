/* What a path carries: black holes, routers that say so, a smaller device, local addresses. */
#include "bed.h"
#include "child.h"
#include "wire.h"

#include "link/link.h"

static struct bed bed;

static const char *const addresses[] = {"10.77.2.2:0", "[fd77:2::2]:0"};
static const uint32_t headers[] = {28, 48};

/* Drives until `count` are acked, or so many ms. Returns how many are. */
static uint64_t run_until_acked(uint64_t count, uint32_t ms)
{
    uint64_t until = solsend_now_ns() + ms * UINT64_C(1000000);
    while (bed.seen[SOLSEND_EVENT_ACKED] < count && solsend_now_ns() < until) {
        bed_step(&bed);
    }
    return bed.seen[SOLSEND_EVENT_ACKED];
}

/* ---- a black hole in the mock ---------------------------------------------------------------- */

enum { COUNT = 50 };

/* Full ones into a way that silently drops what is larger than a 1280 byte link takes. */
static void fall_into_the_hole(int watchful, uint32_t deadline_ms)
{
    bed_open(&bed, "agave-4.3", "grant=512,rtt_ms=4");
    bed_admit(&bed);
    bed_run(&bed, 50);
    bed_fault(&bed, "mtu=1252");
    if (!watchful) {
        bed.link->path_check_ns = UINT64_MAX;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_in_range(bed_send(&bed, i % 5 == 4 ? 250 : 1232, deadline_ms, i), 0, 1);
    }
}

static void a_black_hole_is_found_and_told(void **state)
{
    fall_into_the_hole(1, 0);
    assert_int_equal(run_until_acked(COUNT, 5000), COUNT);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_PATH].value, 1200);
    assert_int_equal(bed_info(&bed).payload_bytes, 1200);
    assert_int_equal(bed_counts(&bed).distinct, COUNT);
    assert_true(bed_counts(&bed).dropped_in >= COUNT / 5 * 4);

    /* from now on the small cap is used from the first packet on, and counted */
    uint64_t dropped = bed_counts(&bed).dropped_in, before = bed_stats(&bed).fragmented;
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(bed_send(&bed, 1232, 0, i), 1);
    }
    assert_int_equal(run_until_acked(COUNT + 10, 2000), COUNT + 10);
    assert_int_equal(bed_counts(&bed).dropped_in, dropped);
    assert_int_equal(bed_stats(&bed).fragmented, before + 10);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* The guard turned off: every full one ends unacknowledged, the small ones do not. */
static void unwatched_it_swallows_every_full_one(void **state)
{
    fall_into_the_hole(0, 400);
    bed_until(&bed, SOLSEND_EVENT_EXPIRED, COUNT / 5 * 4, 3000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], COUNT / 5);
    assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NOT_ACKED);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void short_deadlines_find_it_too(void **state)
{
    bed_open(&bed, "agave-4.3", "rtt_ms=100");
    bed_admit(&bed);
    bed_fault(&bed, "mtu=1252");
    for (uint32_t i = 0; i < 12 && bed.seen[SOLSEND_EVENT_LINK_PATH] == 0; i++) {
        assert_true(bed_send(&bed, 1232, 250, i) >= 0);
        bed_run(&bed, 260);
    }
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 1);
    bed_close(&bed);
}

static void a_paused_peer_is_not_a_black_hole(void **state)
{
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    for (uint64_t k = 1; k <= 3; k++) {
        mock_stop(bed.leader);
        for (uint32_t i = 0; i < 20; i++) {
            assert_true(bed_send(&bed, 1232, 0, i) >= 0);
        }
        bed_run(&bed, 300);
        assert_int_equal(mock_start(bed.leader), 0);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 20 * k, 3000);
    }
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 0);
    assert_int_equal(bed_info(&bed).payload_bytes, 1472);
    bed_close(&bed);
}

/* ---- real routers ---------------------------------------------------------------------------- */

static struct wire wire;

/* Client and leader on the wire, admitted. */
static int open_on_wire(int family, uint32_t mtu, int icmp)
{
    const char *why;
    if (wire_open(&wire, mtu, &why) != 0) {
        CHILD_SKIP(why);
    }
    if (!icmp && wire_drop_icmp(&wire) != 0) {
        CHILD_SKIP("no nft here");
    }
    wire_enter(&wire, WIRE_LEADER);
    int rc = bed_open_at(&bed, "agave-4.3", "grant=512", addresses[family]);
    wire_enter(&wire, WIRE_CLIENT);
    if (rc != 0) {
        CHILD_SKIP("this family cannot be had in a namespace");
    }
    bed.options.handshake_timeout_ms = 3000;
    bed_admit(&bed);
    return CHILD_OK;
}

static void close_on_wire(void)
{
    bed_close(&bed);
    wire_close(&wire);
}

#define OPEN_ON_WIRE(family, mtu, icmp)                                                            \
    do {                                                                                           \
        int opened = open_on_wire(family, mtu, icmp);                                              \
        if (opened != CHILD_OK) {                                                                  \
            return opened;                                                                         \
        }                                                                                          \
    } while (0)

static int check_wire_black_hole(int family)
{
    OPEN_ON_WIRE(family, 1280, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        CHILD_CHECK(bed_send(&bed, 1232, 0, i) == 1);
    }
    CHILD_CHECK(run_until_acked(COUNT, 5000) == COUNT);
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_LINK_PATH] == 1);
    CHILD_CHECK(bed_info(&bed).payload_bytes == 1200);
    CHILD_CHECK(bed_counts(&bed).distinct == COUNT);
    CHILD_CHECK(bed_counts(&bed).max_datagram <= 1280 - headers[family]);
    CHILD_CHECK(bed_stats(&bed).too_big == 0);
    for (int host = 0; host < WIRE_HOSTS; host++) {
        CHILD_CHECK(wire_fragments(&wire, (enum wire_host)host) == 0);
    }
    close_on_wire();
    return CHILD_OK;
}

static int check_wire_announces(int family)
{
    uint32_t carries = 1280 - headers[family];
    OPEN_ON_WIRE(family, 1280, 1);
    /* the first full one dies at the router, which says so; a small one must not pay for it */
    CHILD_CHECK(bed_send(&bed, 1232, 0, 0) == 1);
    struct timespec nap = {0, 20000000};
    nanosleep(&nap, NULL);
    CHILD_CHECK(bed_send(&bed, 250, 0, 1) == 1);
    for (uint32_t i = 2; i < COUNT; i++) {
        CHILD_CHECK(bed_send(&bed, i % 2 ? 250 : 1232, 0, i) >= 0);
    }
    CHILD_CHECK(run_until_acked(COUNT, 5000) == COUNT);
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_LINK_PATH] == 1);
    CHILD_CHECK(bed.last[SOLSEND_EVENT_LINK_PATH].value == carries);
    CHILD_CHECK(bed_info(&bed).payload_bytes == carries);
    CHILD_CHECK(bed_counts(&bed).distinct == COUNT);
    CHILD_CHECK(bed_counts(&bed).max_datagram <= carries);
    for (int host = 0; host < WIRE_HOSTS; host++) {
        CHILD_CHECK(wire_fragments(&wire, (enum wire_host)host) == 0);
    }
    close_on_wire();
    return CHILD_OK;
}

static int check_device_shrinks(int family)
{
    uint32_t carries = 1280 - headers[family];
    OPEN_ON_WIRE(family, 1500, 1);
    CHILD_CHECK(bed_send(&bed, 1232, 0, 0) == 1);
    CHILD_CHECK(run_until_acked(1, 1000) == 1);
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_LINK_PATH] == 0);
    CHILD_CHECK(wire_run(&wire, WIRE_CLIENT, "ip link set c0 mtu 1280") == 0);
    for (uint32_t i = 1; i < COUNT; i++) {
        CHILD_CHECK(bed_send(&bed, 1232, 0, i) >= 0);
    }
    CHILD_CHECK(bed_stats(&bed).too_big == 1); /* one was enough to learn it */
    CHILD_CHECK(bed_info(&bed).payload_bytes == carries);
    CHILD_CHECK(run_until_acked(COUNT, 5000) == COUNT);
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_LINK_PATH] == 1);
    CHILD_CHECK(bed.last[SOLSEND_EVENT_LINK_PATH].value == carries);
    CHILD_CHECK(bed_counts(&bed).distinct == COUNT);
    CHILD_CHECK(bed_stats(&bed).fragmented == COUNT - 2);
    close_on_wire();
    return CHILD_OK;
}

/* A whole burst that the device no longer takes, segments and all. */
static int check_burst_too_large(int family)
{
    static uint8_t wires[16][SOLSEND_TX_BYTES_MAX];
    solsend_send sends[16];
    OPEN_ON_WIRE(family, 1500, 1);
    CHILD_CHECK(wire_run(&wire, WIRE_CLIENT, "ip link set c0 mtu 1280") == 0);
    for (uint32_t i = 0; i < 16; i++) {
        bed_prepare(&bed, &sends[i], wires[i], 1232);
    }
    CHILD_CHECK(solsend_link_send_burst(bed.link, sends, 16, NULL, NULL) == 16);
    CHILD_CHECK(run_until_acked(16, 5000) == 16);
    CHILD_CHECK(bed_info(&bed).payload_bytes == 1280 - headers[family]);
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_LINK_PATH] == 1);
    CHILD_CHECK(bed_counts(&bed).distinct == 16 && bed_counts(&bed).accepted == 16);
    close_on_wire();
    return CHILD_OK;
}

/* The kernel knows the small path before the link is opened. */
static int check_known_from_the_start(int family)
{
    uint32_t carries = 1280 - headers[family];
    OPEN_ON_WIRE(family, 1500, 1);
    CHILD_CHECK(wire_run(&wire, WIRE_CLIENT, "ip link set c0 mtu 1280") == 0);
    solsend_link_close(bed.link, 0);
    bed_admit(&bed);
    bed_drain(&bed);
    CHILD_CHECK(bed_info(&bed).payload_bytes == carries);
    /* told when a full one does not fit into one packet */
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_LINK_PATH] == 1);
    CHILD_CHECK(bed.last[SOLSEND_EVENT_LINK_PATH].value == carries);
    for (uint32_t i = 0; i < 10; i++) {
        CHILD_CHECK(bed_send(&bed, 1232, 0, i) == 1);
    }
    CHILD_CHECK(run_until_acked(10, 2000) == 10);
    CHILD_CHECK(bed_stats(&bed).fragmented == 10 && bed_stats(&bed).too_big == 0);

    solsend_link *tiny = NULL;
    CHILD_CHECK(wire_run(&wire, WIRE_CLIENT, "ip link set c0 mtu 1000") == 0);
    if (family == 0) { /* IPv6 does not live below 1280 */
        CHILD_CHECK(solsend_link_open(&tiny, bed.uri, &bed.options, &bed.detail) ==
                    SOLSEND_ERR_PATH_TOO_SMALL);
        CHILD_CHECK(tiny == NULL && strstr(bed.detail.text, "972") != NULL);
    }
    close_on_wire();
    return CHILD_OK;
}

static int udp_says_path_too_small(void)
{
    const char *why;
    if (wire_open(&wire, 1500, &why) != 0) {
        CHILD_SKIP(why);
    }
    wire_enter(&wire, WIRE_LEADER);
    CHILD_CHECK(bed_open_at(&bed, "udp", NULL, addresses[0]) == 0);
    wire_enter(&wire, WIRE_CLIENT);
    bed_admit(&bed);
    CHILD_CHECK(bed_send(&bed, 1232, 0, 0) == 1);
    CHILD_CHECK(wire_run(&wire, WIRE_CLIENT, "ip link set c0 mtu 1000") == 0);
    CHILD_CHECK(bed_send(&bed, 1232, 0, 1) == 0);
    CHILD_CHECK(bed_send(&bed, 250, 0, 2) == 1);
    bed_drain(&bed);
    CHILD_CHECK(bed.seen[SOLSEND_EVENT_CLOSED] == 1);
    CHILD_CHECK(bed.last[SOLSEND_EVENT_CLOSED].code == SOLSEND_ERR_PATH_TOO_SMALL);
    CHILD_CHECK(bed.last[SOLSEND_EVENT_CLOSED].user == 1);
    CHILD_CHECK(mock_wait_accepted(bed.leader, 2, 1000) == 2);
    close_on_wire();
    return CHILD_OK;
}

#define BOTH_FAMILIES(name)                                                                        \
    static int name##_v4(void)                                                                     \
    {                                                                                              \
        return check_##name(0);                                                                    \
    }                                                                                              \
    static int name##_v6(void)                                                                     \
    {                                                                                              \
        return check_##name(1);                                                                    \
    }

BOTH_FAMILIES(wire_black_hole)
BOTH_FAMILIES(wire_announces)
BOTH_FAMILIES(device_shrinks)
BOTH_FAMILIES(burst_too_large)
BOTH_FAMILIES(known_from_the_start)

static void a_router_that_keeps_silent_loses_nothing(void **state)
{
    EXPECT_CHILD(wire_black_hole_v4);
    EXPECT_CHILD(wire_black_hole_v6);
}

static void a_routers_word_sets_the_cap_exactly(void **state)
{
    EXPECT_CHILD(wire_announces_v4);
    EXPECT_CHILD(wire_announces_v6);
}

static void a_device_that_shrinks_costs_one_packet(void **state)
{
    EXPECT_CHILD(device_shrinks_v4);
    EXPECT_CHILD(device_shrinks_v6);
}

static void a_burst_too_large_for_the_device_gets_through(void **state)
{
    EXPECT_CHILD(burst_too_large_v4);
    EXPECT_CHILD(burst_too_large_v6);
}

static void a_path_known_to_be_small_is_told_at_open(void **state)
{
    EXPECT_CHILD(known_from_the_start_v4);
    EXPECT_CHILD(known_from_the_start_v6);
}

static void a_datagram_too_large_for_the_device_is_reported(void **state)
{
    EXPECT_CHILD(udp_says_path_too_small);
}

/* ---- local addresses ------------------------------------------------------------------------- */

static void the_bound_address_is_what_the_leader_sees(void **state)
{
    static const char *const profiles[] = {"agave-4.3", "udp"};
    for (size_t i = 0; i < 2; i++) {
        char peer[64], want[64];
        bed_open(&bed, profiles[i], i == 0 ? "grant=64" : NULL);
        bed.options.bind = "127.0.0.2";
        bed_admit(&bed);
        assert_int_equal(bed_send(&bed, 250, 0, 0), 1);
        assert_int_equal(mock_wait_accepted(bed.leader, 1, 2000), 1);
        mock_last_peer(bed.leader, peer, sizeof peer);
        snprintf(want, sizeof want, "127.0.0.2:%u", bed_info(&bed).local_port);
        assert_string_equal(peer, want);
        solsend_link_close(bed.link, 0);

        /* without it the kernel chooses */
        bed.options.bind = NULL;
        bed_admit(&bed);
        assert_int_equal(bed_send(&bed, 250, 0, 0), 1);
        assert_int_equal(mock_wait_accepted(bed.leader, 2, 2000), 2);
        mock_last_peer(bed.leader, peer, sizeof peer);
        snprintf(want, sizeof want, "127.0.0.1:%u", bed_info(&bed).local_port);
        assert_string_equal(peer, want);
        bed_close(&bed);
    }
}

/* Without privileges the kernel clamps the buffers; the link says by how much, or refuses. */
static int clamped_buffers_are_told(void)
{
    CHILD_CHECK(child_drop_privileges() == 0);
    bed_open(&bed, "udp", NULL);
    bed.options.send_buffer_bytes = 1 << 30;
    bed_connect(&bed);
    solsend_step steps[8];
    int n = solsend_link_steps(bed.link, steps, 8), seen = 0;
    for (int i = 0; i < n && i < 8; i++) {
        if (steps[i].step == SOLSEND_STEP_SEND_BUFFER) {
            CHILD_CHECK(steps[i].wanted == 1 << 30 && steps[i].got < 1 << 30 && steps[i].got > 0);
            CHILD_CHECK(steps[i].code == SOLSEND_ERR_CLAMPED);
            seen++;
        }
    }
    CHILD_CHECK(seen == 1);
    solsend_link *strict = NULL;
    bed.options.strict = 1;
    CHILD_CHECK(solsend_link_open(&strict, bed.uri, &bed.options, &bed.detail) ==
                SOLSEND_ERR_CLAMPED);
    CHILD_CHECK(strict == NULL && strstr(bed.detail.text, "1073741824") != NULL);
    bed_close(&bed);
    return CHILD_OK;
}

static void a_clamped_buffer_is_told(void **state)
{
    EXPECT_CHILD(clamped_buffers_are_told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_black_hole_is_found_and_told),
        cmocka_unit_test(unwatched_it_swallows_every_full_one),
        cmocka_unit_test(short_deadlines_find_it_too),
        cmocka_unit_test(a_paused_peer_is_not_a_black_hole),
        cmocka_unit_test(a_router_that_keeps_silent_loses_nothing),
        cmocka_unit_test(a_routers_word_sets_the_cap_exactly),
        cmocka_unit_test(a_device_that_shrinks_costs_one_packet),
        cmocka_unit_test(a_burst_too_large_for_the_device_gets_through),
        cmocka_unit_test(a_path_known_to_be_small_is_told_at_open),
        cmocka_unit_test(a_datagram_too_large_for_the_device_is_reported),
        cmocka_unit_test(the_bound_address_is_what_the_leader_sees),
        cmocka_unit_test(a_clamped_buffer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
