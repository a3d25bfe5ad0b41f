/* How a link ends, by the peer's word or ours, and what becomes of what was open. */
#include "bed.h"

#include <time.h>

enum { COUNT = 100, BURST = 16 };

static const struct close_code {
    uint64_t peer;
    int code;
    const char *name;
} codes[] = {
    {1, SOLSEND_ERR_DROPPED, "DROPPED"},
    {2, SOLSEND_ERR_DISALLOWED, "DISALLOWED"},
    {3, SOLSEND_ERR_STREAM_COUNT, "STREAM_COUNT"},
    {4, SOLSEND_ERR_TOO_MANY, "TOO_MANY"},
    {5, SOLSEND_ERR_INVALID_STREAM, "INVALID_STREAM"},
    {77, SOLSEND_ERR_CLOSED_BY_PEER, "CLOSED_BY_PEER"},
};

/* Everything of the link says the same: poll, info, event, text, and what was open. */
static void assert_ended_by_peer(struct bed *bed, const struct close_code *c)
{
    char text[256];
    assert_int_equal(bed_until_end(bed, 5000), c->code);
    assert_string_equal(solsend_error_name(c->code), c->name);
    assert_int_equal(solsend_error_kind(c->code), SOLSEND_KIND_PEER);
    solsend_link_info info = bed_info(bed);
    assert_int_equal(info.state, SOLSEND_LINK_ENDED);
    assert_int_equal(info.end_code, c->code);
    assert_int_equal(info.end_peer_code, c->peer);
    assert_int_equal(bed->seen[SOLSEND_EVENT_LINK_CLOSED], 1);
    assert_int_equal(bed->last[SOLSEND_EVENT_LINK_CLOSED].code, c->code);
    assert_int_equal(bed->last[SOLSEND_EVENT_LINK_CLOSED].peer_code, c->peer);
    assert_int_equal(bed->log[bed->logged - 1].kind, SOLSEND_EVENT_LINK_CLOSED); /* the last word */
    for (uint32_t i = 0; i < bed->logged; i++) {
        if (bed->log[i].kind == SOLSEND_EVENT_CLOSED) {
            assert_int_equal(bed->log[i].code, c->code);
            assert_int_equal(bed->log[i].peer_code, c->peer);
        }
    }
    assert_int_equal(bed_stats(bed).closed, bed->seen[SOLSEND_EVENT_CLOSED]);
    assert_true(solsend_link_text(bed->link, text, sizeof text) > 0);
    assert_non_null(strstr(text, solsend_error_text(c->code)));
    bed_assert_accounted(bed);

    /* it is over for good */
    uint64_t refused = bed_stats(bed).refused;
    assert_int_equal(bed_send(bed, 250, 0, 0), SOLSEND_ERR_CLOSED);
    assert_int_equal(bed_stats(bed).refused, refused + 1);
    assert_int_equal(solsend_link_poll(bed->link), c->code);
    assert_int_equal(solsend_link_wait_admitted(bed->link, 10), c->code);
    assert_int_equal(solsend_link_cancel(bed->link, 1), SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_flush(bed->link, 10), 0);
    assert_int_equal(solsend_link_finish(bed->link, 10), 0);
}

/* ---- by the peer -------------------------------------------------------------------------------
 */

static void close_codes_right_after_the_handshake(void **state)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct bed bed;
        char faults[64];
        snprintf(faults, sizeof faults, "rtt_ms=20,close=%u@handshake", (unsigned)codes[i].peer);
        bed_open(&bed, "agave-4.3", faults);
        bed_connect(&bed);
        for (uint64_t n = 0; n < 3; n++) {
            assert_int_equal(bed_send(&bed, 250, 0, n), 0);
        }
        assert_ended_by_peer(&bed, &codes[i]);
        assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], 3);
        assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_ADMITTED], 0);
        assert_int_equal(bed_counts(&bed).accepted, 0);
        bed_close(&bed);
    }
}

static void a_close_before_the_keys_hides_its_code(void **state)
{
    struct bed bed;
    /* an application close in an Initial shows APPLICATION_ERROR: RFC 9000 section 10.2.3 */
    const struct close_code hidden = {0xc, SOLSEND_ERR_HANDSHAKE_REFUSED, "HANDSHAKE_REFUSED"};
    bed_open(&bed, "agave-4.3", "close=2@hello");
    bed_connect(&bed);
    assert_ended_by_peer(&bed, &hidden);
    bed_close(&bed);
}

static void close_codes_while_idle(void **state)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct bed bed;
        char faults[64];
        snprintf(faults, sizeof faults, "close=%u@idle:50", (unsigned)codes[i].peer);
        bed_open(&bed, "agave-4.3", faults);
        bed_admit(&bed);
        assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
        assert_ended_by_peer(&bed, &codes[i]);
        assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], 0);
        assert_int_equal(bed_counts(&bed).accepted, 1);
        bed_close(&bed);
    }
}

static void close_codes_amid_streams(void **state)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct bed bed;
        char faults[64];
        snprintf(faults, sizeof faults, "rtt_ms=20,close=%u@stream:4", (unsigned)codes[i].peer);
        bed_open(&bed, "agave-4.3", faults);
        bed_admit(&bed);
        for (uint64_t n = 0; n < 10; n++) {
            assert_int_equal(bed_send(&bed, 1232, 0, n), 1);
        }
        assert_ended_by_peer(&bed, &codes[i]);
        assert_true(bed.seen[SOLSEND_EVENT_CLOSED] >= 7); /* the fourth and what came after it */
        assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED] + bed.seen[SOLSEND_EVENT_CLOSED], 10);
        assert_in_range(bed_counts(&bed).accepted, bed.seen[SOLSEND_EVENT_ACKED], 3);
        bed_close(&bed);
    }
}

static void a_stateless_reset_ends_it_with_its_own_code(void **state)
{
    struct bed bed;
    const struct close_code reset = {0, SOLSEND_ERR_STATELESS_RESET, "STATELESS_RESET"};
    bed_open(&bed, "agave-4.3", "reset=stateless@stream:3");
    bed_admit(&bed);
    for (uint64_t n = 0; n < 5; n++) {
        assert_in_range(bed_send(&bed, 250, 0, n), 0, 1);
    }
    assert_ended_by_peer(&bed, &reset);
    assert_true(bed.seen[SOLSEND_EVENT_CLOSED] >= 3);
    bed_close(&bed);
}

/* The peer closes while bursts go out: what was accepted ends exactly once, the rest is refused. */
static void a_close_amid_bursts_leaves_nothing_unaccounted(void **state)
{
    struct bed bed;
    static uint8_t wires[BURST][250];
    solsend_send sends[BURST];
    uint64_t accepted = 0, refused = 0;
    bed_open(&bed, "agave-4.3", "grant=100000,close=1@stream:200");
    bed.options.slots = 1024;
    bed_admit(&bed);
    for (int round = 0; round < 400; round++) {
        int32_t results[BURST];
        for (int i = 0; i < BURST; i++) {
            bed_transaction(&bed, wires[i], sizeof wires[i]);
            solsend_send_init(&sends[i], sizeof sends[i]);
            sends[i].wire = wires[i];
            sends[i].wire_bytes = sizeof wires[i];
            sends[i].user = (uint64_t)round * BURST + (uint64_t)i;
        }
        int n = solsend_link_send_burst(bed.link, sends, BURST, NULL, results);
        if (n == SOLSEND_ERR_CLOSED) {
            break;
        }
        assert_in_range(n, 0, BURST);
        for (int i = 0; i < BURST; i++) {
            accepted += results[i] >= 0;
            refused += results[i] < 0;
        }
        bed_run(&bed, 1);
    }
    assert_int_equal(bed_until_end(&bed, 2000), SOLSEND_ERR_DROPPED);
    solsend_link_stats s = bed_stats(&bed);
    assert_true(accepted >= 200);
    assert_int_equal(s.accepted, accepted);
    assert_int_equal(s.refused, refused);
    assert_int_equal(s.acked + s.closed, accepted);
    assert_true(s.closed > 0);
    bed_assert_accounted(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 0), SOLSEND_ERR_CLOSED);
    bed_close(&bed);
}

/* ---- by us -------------------------------------------------------------------------------------
 */

static void open_and_send_all(struct bed *bed, const char *faults)
{
    bed_open(bed, "agave-4.3", faults);
    bed_admit(bed);
    for (uint64_t n = 0; n < COUNT; n++) {
        assert_in_range(bed_send(bed, 250, 0, n), 0, 1);
    }
}

static void a_finish_with_time_to_flush_loses_nothing(void **state)
{
    struct bed bed;
    open_and_send_all(&bed, "rtt_ms=50,grant=1000");
    assert_int_equal(solsend_link_finish(bed.link, 200), 0);
    bed_assert_accounted(&bed);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], COUNT);
    assert_int_equal(mock_wait_accepted(bed.leader, COUNT, 1000), COUNT);
    assert_int_equal(bed_counts(&bed).distinct, COUNT);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_CLOSED].code, SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_finish(bed.link, 200), 0);
    assert_int_equal(bed_send(&bed, 250, 0, 0), SOLSEND_ERR_CLOSED);
    bed_close(&bed);
}

static void a_finish_without_time_reports_every_one_it_gave_up(void **state)
{
    struct bed bed;
    open_and_send_all(&bed, "rtt_ms=50,grant=1000");
    assert_int_equal(solsend_link_finish(bed.link, 0), COUNT);
    assert_int_equal(solsend_link_finish(bed.link, 0), 0);
    bed_assert_accounted(&bed);
    assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], COUNT);
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_CLOSED) {
            assert_int_equal(bed.log[i].code, SOLSEND_ERR_ABORTED);
        }
    }
    assert_int_equal(bed_stats(&bed).closed, COUNT);
    bed_close(&bed);
}

/* What the flush is for: of those that wait for credit none gets out without it. */
static void only_the_flush_brings_the_waiting_out(void **state)
{
    for (int flush = 0; flush < 2; flush++) {
        struct bed bed;
        bed_open(&bed, "agave-4.3", "rtt_ms=50,grant=1000,grant_delay_ms=50");
        bed_connect(&bed);
        for (uint64_t n = 0; n < COUNT; n++) {
            assert_int_equal(bed_send(&bed, 250, 0, n), 0);
        }
        assert_int_equal(solsend_link_finish(bed.link, flush ? 1000 : 0), flush ? 0 : COUNT);
        bed_assert_accounted(&bed);
        const struct timespec nap = {0, 200 * 1000000};
        nanosleep(&nap, NULL);
        assert_int_equal(bed_counts(&bed).accepted, flush ? COUNT : 0);
        bed_close(&bed);
    }
}

static void a_flush_that_runs_out_of_time_aborts_the_rest(void **state)
{
    struct bed bed;
    open_and_send_all(&bed, "grant=total:60");
    uint64_t start = solsend_now_ns();
    assert_int_equal(solsend_link_finish(bed.link, 100), COUNT - 60);
    assert_true(solsend_now_ns() - start >= 100 * UINT64_C(1000000));
    bed_assert_accounted(&bed);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], 60);
    assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], COUNT - 60);
    assert_int_equal(bed_counts(&bed).accepted, 60);
    bed_close(&bed);
}

static void the_peer_hears_of_our_end(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    assert_int_equal(solsend_link_close(bed.link, 500), 0);
    bed.link = NULL;
    for (int i = 0; i < 200 && bed_counts(&bed).closed_by_peer == 0; i++) {
        const struct timespec nap = {0, 5 * 1000000};
        nanosleep(&nap, NULL);
    }
    assert_int_equal(bed_counts(&bed).closed_by_peer, 1);
    assert_int_equal(bed_counts(&bed).accepted, 1);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_codes_right_after_the_handshake),
        cmocka_unit_test(a_close_before_the_keys_hides_its_code),
        cmocka_unit_test(close_codes_while_idle),
        cmocka_unit_test(close_codes_amid_streams),
        cmocka_unit_test(a_stateless_reset_ends_it_with_its_own_code),
        cmocka_unit_test(a_close_amid_bursts_leaves_nothing_unaccounted),
        cmocka_unit_test(a_finish_with_time_to_flush_loses_nothing),
        cmocka_unit_test(a_finish_without_time_reports_every_one_it_gave_up),
        cmocka_unit_test(only_the_flush_brings_the_waiting_out),
        cmocka_unit_test(a_flush_that_runs_out_of_time_aborts_the_rest),
        cmocka_unit_test(the_peer_hears_of_our_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
