/* Written is not acked: what the peer did not acknowledge is never said to have arrived. */
#include "bed.h"

#include <time.h>

static const uint64_t ms = 1000000;

static void without_acknowledgement_written_stays_the_last_word(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    bed_fault(&bed, "drop_1rtt=1");
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(bed_send(&bed, 250, 300, i), 1);
    }
    assert_int_equal(bed_send(&bed, 250, 0, 9), 1); /* without a deadline */
    bed_run(&bed, 200);
    assert_int_equal(bed_stats(&bed).written, 4);
    assert_int_equal(bed_info(&bed).open, 4); /* not ended, neither way */
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED] + bed.seen[SOLSEND_EVENT_EXPIRED], 0);
    bed_until(&bed, SOLSEND_EVENT_EXPIRED, 3, 1000);
    for (uint32_t i = 0; i < bed.logged; i++) {
        if (bed.log[i].kind == SOLSEND_EVENT_EXPIRED) {
            assert_int_equal(bed.log[i].code, SOLSEND_ERR_NOT_ACKED);
            assert_in_range(bed.log[i].value, 300 * ms, 350 * ms);
        }
    }
    bed_run(&bed, 300);
    assert_int_equal(bed_info(&bed).open, 1);
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], 0);
    assert_int_equal(bed_stats(&bed).acked, 0);
    assert_int_equal(bed_counts(&bed).accepted, 0);

    /* the way is free again: what may still be repeated arrives, what expired does not */
    bed_fault(&bed, "drop_1rtt=0");
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].user, 9);
    bed_run(&bed, 300);
    assert_int_equal(bed_counts(&bed).accepted, 1);
    assert_int_equal(bed_info(&bed).state, SOLSEND_LINK_ADMITTED);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void an_acknowledgement_comes_with_its_time(void **state)
{
    struct bed bed;
    solsend_summary hop;
    bed_open(&bed, "agave-4.3", "rtt_ms=40");
    bed_admit(&bed);
    uint64_t sent = solsend_now_ns();
    assert_int_equal(bed_send(&bed, 250, 1000, 5), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    const solsend_event *e = &bed.last[SOLSEND_EVENT_ACKED];
    assert_int_equal(e->user, 5);
    assert_int_equal(e->code, 0);
    assert_in_range(e->value, 40 * ms, 200 * ms);
    assert_in_range(e->t_ns, sent + 40 * ms, solsend_now_ns());
    assert_int_equal(bed.seen[SOLSEND_EVENT_WRITTEN], 0); /* the call itself had said so */
    assert_int_equal(solsend_link_hop(bed.link, SOLSEND_HOP_ACK, &hop), 0);
    assert_int_equal(hop.count, 1);
    assert_int_equal(hop.max, e->value);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* Acked is not landed: the leader may throw it away afterwards, and nobody can know. */
static void acknowledged_and_discarded_looks_like_acknowledged(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "discard=1");
    bed_admit(&bed);
    assert_int_equal(bed_send(&bed, 250, 1000, 5), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    assert_int_equal(bed_counts(&bed).accepted, 0);
    assert_int_equal(bed_counts(&bed).discarded, 1);
    bed_close(&bed);
}

/* A late poll finds a probe timeout and a passed deadline: the deadline counts. */
static void a_late_poll_does_not_repeat_what_is_past_its_deadline(void **state)
{
    struct bed bed;
    const struct timespec nap = {0, 400 * 1000000};
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    bed_run(&bed, 100);
    bed_fault(&bed, "loss=1");
    assert_int_equal(bed_send(&bed, 250, 100, 2), 1);
    nanosleep(&nap, NULL);
    bed_fault(&bed, "loss=0");
    bed_run(&bed, 300);
    assert_int_equal(bed.seen[SOLSEND_EVENT_EXPIRED], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NOT_ACKED);
    assert_int_equal(bed_counts(&bed).accepted, 1);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* The leader reads its streams in order: what its stack has may stand behind a hole for a while. */
static int is_seen_soon(struct bed *bed, const uint8_t *signature)
{
    uint64_t until = solsend_now_ns() + 5000 * ms;
    while (!mock_saw(bed->leader, signature) && solsend_now_ns() < until) {
        bed_run(bed, 10);
    }
    return mock_saw(bed->leader, signature);
}

/* Whatever the way does to the packets: acked means that the leader's stack had all of it. */
static void on_a_bad_way_acked_still_means_received(void **state)
{
    enum { COUNT = 500 };
    static uint8_t wires[COUNT][250];
    struct bed bed;
    bed_open(&bed, "agave-4.3", "rtt_ms=40,loss=0.2,reorder=0.2,duplicate=0.2,grant=100000");
    bed.options.handshake_timeout_ms = 10000;
    bed.options.slots = 1024;
    bed_admit(&bed);
    for (uint64_t i = 0; i < COUNT; i++) {
        solsend_send send;
        bed_transaction(&bed, wires[i], sizeof wires[i]);
        solsend_send_init(&send, sizeof send);
        send.wire = wires[i];
        send.wire_bytes = sizeof wires[i];
        send.user = i;
        send.deadline_ns = solsend_now_ns() + (i % 2 == 0 ? 60 : 5000) * ms;
        assert_in_range(solsend_link_send(bed.link, &send, NULL), 0, 1);
        bed_run(&bed, i % 8 == 0 ? 2 : 0);
    }
    uint64_t until = solsend_now_ns() + 6000 * ms;
    while (bed_info(&bed).open != 0 && solsend_now_ns() < until) {
        bed_run(&bed, 10);
    }
    bed_assert_accounted(&bed);
    for (uint32_t i = 0; i < bed.logged; i++) {
        const solsend_event *e = &bed.log[i];
        if (e->kind == SOLSEND_EVENT_ACKED) {
            assert_true(is_seen_soon(&bed, wires[e->user] + 1));
        } else if (e->kind == SOLSEND_EVENT_EXPIRED) {
            assert_int_equal(e->user % 2, 0); /* five seconds are enough for all others */
        }
    }
    print_message("%llu of %d acked, %llu expired\n",
                  (unsigned long long)bed.seen[SOLSEND_EVENT_ACKED], COUNT,
                  (unsigned long long)bed.seen[SOLSEND_EVENT_EXPIRED]);
    assert_int_equal(bed_counts(&bed).accepted, bed_counts(&bed).distinct);
    assert_in_range(bed.seen[SOLSEND_EVENT_EXPIRED], 1, COUNT / 2);
    bed_close(&bed);
}

/* quinn servers change keys within the first packets. */
static void the_peers_key_updates_lose_nothing(void **state)
{
    static const char *const faults[] = {"key_update=1", "key_update=2", "key_update=10",
                                         "key_update=3,rtt_ms=10,loss=0.05"};
    for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
        struct bed bed;
        enum { COUNT = 200 };
        bed_open(&bed, "agave-4.3", faults[f]);
        bed_connect(&bed);
        for (uint64_t i = 0; i < COUNT; i++) {
            assert_in_range(bed_send(&bed, 250, 0, i), 0, 1);
            bed_run(&bed, i < 10 ? 0 : 1);
        }
        bed_until(&bed, SOLSEND_EVENT_ACKED, COUNT, 10000);
        solsend_link_stats s = bed_stats(&bed);
        mock_counts c = bed_counts(&bed);
        print_message("%s: %llu key updates here, %llu there\n", faults[f],
                      (unsigned long long)s.key_updates, (unsigned long long)c.key_updates);
        assert_true(s.key_updates > 0);
        assert_true(c.key_updates > 0); /* and we answered in the new phase */
        assert_in_range(s.key_updates, c.key_updates - 1, c.key_updates);
        assert_int_equal(mock_wait_accepted(bed.leader, COUNT, 1000), COUNT);
        assert_int_equal(bed_counts(&bed).distinct, COUNT);
        bed_assert_accounted(&bed);
        bed_close(&bed);
    }
}

static void we_start_no_key_update(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    for (uint64_t i = 0; i < 300; i++) {
        assert_in_range(bed_send(&bed, 250, 0, i), 0, 1);
        bed_run(&bed, i % 50 == 0 ? 2 : 0);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 250, 5000);
    assert_int_equal(bed_stats(&bed).key_updates, 0);
    assert_int_equal(bed_counts(&bed).key_updates, 0);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_acknowledgement_written_stays_the_last_word),
        cmocka_unit_test(an_acknowledgement_comes_with_its_time),
        cmocka_unit_test(acknowledged_and_discarded_looks_like_acknowledged),
        cmocka_unit_test(a_late_poll_does_not_repeat_what_is_past_its_deadline),
        cmocka_unit_test(on_a_bad_way_acked_still_means_received),
        cmocka_unit_test(the_peers_key_updates_lose_nothing),
        cmocka_unit_test(we_start_no_key_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
