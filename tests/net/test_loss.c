/* A path that loses, reorders and doubles; deadlines on it; a leader that acknowledges and forgets.
 */
#include "bed.h"

#include "link/link.h"

static struct bed bed;

static const uint64_t MS = 1000000;

enum { MANY = 5000, OPEN_MAX = 200 };

static uint8_t wire[SOLSEND_TX_BYTES_MAX];
static uint64_t heads[MANY], deadlines[MANY];
static uint8_t fates[MANY]; /* terminal event's kind by user; 0: none yet */

static void note_fates(void)
{
    solsend_event e[64];
    int n;
    while ((n = solsend_link_drain(bed.link, e, 64)) > 0) {
        for (int i = 0; i < n; i++) {
            bed.seen[e[i].kind]++;
            bed.last[e[i].kind] = e[i];
            if (solsend_event_is_terminal(e[i].kind)) {
                assert_in_range(e[i].user, 0, MANY - 1);
                assert_int_equal(fates[e[i].user], 0);
                fates[e[i].user] = (uint8_t)e[i].kind;
            }
        }
    }
}

static void step(void)
{
    assert_true(solsend_link_poll(bed.link) >= 0);
    note_fates();
}

/* Sends MANY, large and small, never more than OPEN_MAX open; each has `deadline_ms` (0: none). */
static void send_many(uint32_t deadline_ms)
{
    memset(fates, 0, sizeof fates);
    for (uint32_t i = 0; i < MANY; i++) {
        solsend_send s;
        bed_prepare(&bed, &s, wire, i % 3 == 0 ? 250 : 1232);
        s.user = i;
        deadlines[i] = solsend_now_ns() + deadline_ms * MS;
        s.deadline_ns = deadline_ms != 0 ? deadlines[i] : UINT64_MAX;
        memcpy(&heads[i], wire + 1, sizeof heads[i]);
        assert_in_range(solsend_link_send(bed.link, &s, NULL), 0, 1);
        if (i % 4 == 3) {
            step();
        }
        while (bed_info(&bed).open >= OPEN_MAX) {
            step();
        }
    }
    uint64_t until = solsend_now_ns() + 20000 * MS;
    while (bed_info(&bed).open > 0 && solsend_now_ns() < until) {
        step();
    }
    note_fates();
    solsend_link_stats s = bed_stats(&bed);
    assert_int_equal(s.accepted, MANY);
    assert_int_equal(s.acked + s.expired, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(fates[i] == SOLSEND_EVENT_ACKED || fates[i] == SOLSEND_EVENT_EXPIRED);
    }
}

static void open_lossy(const char *profile, double loss)
{
    char faults[128];
    snprintf(faults, sizeof faults, "%srtt_ms=2,loss=%g,reorder=0.02,duplicate=0.02",
             strcmp(profile, "firedancer") == 0 ? "" : "grant=4096,", loss);
    bed_open(&bed, profile, faults);
    bed.options.handshake_timeout_ms = 5000;
    bed_admit(&bed);
}

static void everything_gets_through_exactly_once(void **state)
{
    static const struct {
        const char *profile;
        double loss;
    } ways[] = {{"agave-4.3", 0.01}, {"firedancer", 0.01}, {"agave-4.3", 0.1}, {"firedancer", 0.1}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        open_lossy(ways[i].profile, ways[i].loss);
        send_many(0);
        mock_counts c = bed_counts(&bed);
        assert_true(c.dropped_in > MANY * ways[i].loss / 2);
        assert_int_equal(c.distinct, MANY);
        assert_int_equal(c.malformed, 0);
        if (strcmp(ways[i].profile, "firedancer") == 0) {
            /* what a repeat would cut starts anew, now and then without need */
            assert_in_range(c.accepted, MANY, MANY + MANY / 100);
            assert_int_equal(c.streams_split + c.gaps, 0);
        } else {
            assert_int_equal(c.accepted, MANY);
        }
        assert_int_equal(bed_stats(&bed).acked, MANY);
        assert_int_equal(bed_stats(&bed).written, MANY);
        assert_int_equal(bed_stats(&bed).fragmented, 0);
        assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 0);
        bed_close(&bed);
    }
}

/* The guard of the above turned off: repeats in pieces, whose rests Firedancer does not take. */
static void without_restarts_firedancer_refuses_rests(void **state)
{
    open_lossy("firedancer", 0.1);
    bed.link->quic->restarts = 0;
    send_many(300);
    assert_true(bed_counts(&bed).streams_split > 0);
    assert_true(bed_counts(&bed).gaps > 0);
    bed_close(&bed);
}

/* The sender's index of an arrival. */
static uint32_t sent_as(uint64_t head)
{
    for (uint32_t i = 0; i < MANY; i++) {
        if (heads[i] == head) {
            return i;
        }
    }
    fail_msg("an arrival that was never sent");
    return 0;
}

static void after_a_deadline_nothing_is_repeated(void **state)
{
    open_lossy("agave-4.3", 0.1);
    send_many(6); /* about as long as a repeat takes: some come in time, some do not */
    /* the leader reads streams in order: it may still wait for the news of one that expired */
    uint64_t until = solsend_now_ns() + 5000 * MS;
    while (bed_counts(&bed).accepted < bed_stats(&bed).acked && solsend_now_ns() < until) {
        bed_step(&bed);
    }
    bed_run(&bed, 50); /* what is still on its way */
    uint64_t frames = bed_counts(&bed).stream_frames;
    bed_run(&bed, 200);
    assert_int_equal(bed_counts(&bed).stream_frames, frames);
    const mock_arrival *a;
    size_t n = mock_arrivals(bed.leader, &a);
    static uint8_t arrived[MANY];
    memset(arrived, 0, sizeof arrived);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = sent_as(a[i].signature_head);
        arrived[k]++;
        /* half a round trip, reordering, and a machine that is busy */
        if (a[i].received_ns > deadlines[k] + 250 * MS) {
            fail_msg("arrived %.1f ms after its deadline",
                     (double)(a[i].received_ns - deadlines[k]) / 1e6);
        }
    }
    uint32_t expired = 0, unseen = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        assert_in_range(arrived[i], 0, 1);
        assert_true(arrived[i] == 1 || fates[i] == SOLSEND_EVENT_EXPIRED);
        expired += fates[i] == SOLSEND_EVENT_EXPIRED;
        unseen += arrived[i] == 0;
    }
    assert_in_range(expired, 1, MANY - MANY / 20);
    assert_true(unseen <= expired);
    assert_int_equal(bed_stats(&bed).expired, expired);
    bed_close(&bed);
}

/* ---- behind a lost window -------------------------------------------------------------------- */

enum { LOST = 90 };

/*
 * A whole window is lost; then a fresh small transaction is sent. Returns how many packets left up
 * to and with it, 0 if it did not leave with the call.
 */
static uint64_t packets_until_fresh(uint32_t deadline_ms)
{
    bed_open(&bed, "agave-4.3", "grant=1024");
    bed.options.first_flight_bytes = 65527;
    bed_admit(&bed);
    bed_run(&bed, 30);
    bed_fault(&bed, "drop_1rtt=1");
    for (uint32_t i = 0; i < LOST; i++) {
        assert_int_equal(bed_send(&bed, 1232, deadline_ms, i), 1);
    }
    bed_run(&bed, 60);
    assert_int_equal(bed.seen[SOLSEND_EVENT_EXPIRED], deadline_ms != 0 ? LOST : 0);
    bed_fault(&bed, "drop_1rtt=0");
    uint64_t before = bed_stats(&bed).datagrams_sent;
    int rc = bed_send(&bed, 250, 0, 1000);
    return rc == 1 ? bed_stats(&bed).datagrams_sent - before : 0;
}

static void a_fresh_one_leaves_at_once_behind_expired_ones(void **state)
{
    assert_int_equal(packets_until_fresh(25), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 1000);
    assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].user, 1000);
    bed_run(&bed, 100);
    assert_int_equal(bed_counts(&bed).accepted, 1); /* none of the expired was repeated */
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_EXPIRED) {
            assert_int_equal(bed.log[i].code, SOLSEND_ERR_NOT_ACKED);
        }
    }
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void without_deadlines_it_stands_behind_the_dead(void **state)
{
    packets_until_fresh(0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, LOST + 1, 5000);
    const mock_arrival *a;
    assert_int_equal(mock_arrivals(bed.leader, &a), LOST + 1);
    uint32_t position = 0;
    while (a[position].bytes != 250) {
        position++;
    }
    assert_true(position > 10);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* ---- acknowledged is not accepted ------------------------------------------------------------ */

static void what_the_leader_throws_away_was_acknowledged(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=512");
    bed_admit(&bed);
    for (uint32_t i = 0; i < 200; i++) {
        if (i == 50) {
            bed_until(&bed, SOLSEND_EVENT_ACKED, 50, 2000);
            bed_fault(&bed, "discard=1");
        }
        assert_int_equal(bed_send(&bed, 250, 0, i), 1);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 200, 2000);
    assert_int_equal(bed_stats(&bed).acked, 200);
    assert_int_equal(bed_counts(&bed).accepted, 50);
    assert_int_equal(bed_counts(&bed).discarded, 150);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* ---- losses are not a black hole ------------------------------------------------------------- */

/* Single large transactions, each alone on a path that loses one packet in four. */
static void losses_do_not_pass_for_a_small_path(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=512,loss=0.25");
    bed.options.handshake_timeout_ms = 5000;
    bed_admit(&bed);
    for (uint32_t i = 0; i < 60; i++) {
        assert_in_range(bed_send(&bed, 1232, 0, i), 0, 1);
        bed_until(&bed, SOLSEND_EVENT_ACKED, i + 1, 5000);
    }
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 0);
    assert_int_equal(bed_info(&bed).payload_bytes, 1472);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* The tail of a burst is lost, and expires before it can be repeated; the peer is heard all along.
 */
static void lose_tails(int forgetful)
{
    bed_open(&bed, "agave-4.3", "grant=512,ping_every_ms=1");
    bed_admit(&bed);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 20; i++) {
            if (i == 10) {
                bed_until(&bed, SOLSEND_EVENT_ACKED, (round + 1) * 10, 2000);
                bed_fault(&bed, "drop_1rtt=1");
            }
            assert_int_equal(bed_send(&bed, 1232, 15, i), 1);
        }
        if (forgetful) {
            bed.link->large_through_ns = 0;
        }
        bed_until(&bed, SOLSEND_EVENT_EXPIRED, (round + 1) * 10, 2000);
        bed_fault(&bed, "drop_1rtt=0");
        bed_run(&bed, 30);
    }
}

static void a_lost_tail_does_not_pass_for_a_small_path(void **state)
{
    lose_tails(0);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 0);
    bed_close(&bed);

    /* without a memory of those that got through just before, it would */
    lose_tails(1);
    assert_true(bed.seen[SOLSEND_EVENT_LINK_PATH] > 0);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_gets_through_exactly_once),
        cmocka_unit_test(without_restarts_firedancer_refuses_rests),
        cmocka_unit_test(after_a_deadline_nothing_is_repeated),
        cmocka_unit_test(a_fresh_one_leaves_at_once_behind_expired_ones),
        cmocka_unit_test(without_deadlines_it_stands_behind_the_dead),
        cmocka_unit_test(what_the_leader_throws_away_was_acknowledged),
        cmocka_unit_test(losses_do_not_pass_for_a_small_path),
        cmocka_unit_test(a_lost_tail_does_not_pass_for_a_small_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
