/* 0-RTT: off by default; where the peer takes it, a round trip sooner; where it refuses it, the
 * same bytes go once more in 1-RTT and arrive once. */
#include "bed.h"

/* A leader that gives tickets and would take early data on 16 streams. */
#define TAKES "rtt_ms=50,early_data=1,initial_streams=16"

/* A first connection, from which a ticket remains; closed again. */
static void meet(struct bed *bed)
{
    bed_admit(bed);
    assert_in_range(bed_send(bed, 250, 0, 0), 0, 1);
    bed_until(bed, SOLSEND_EVENT_ACKED, 1, 5000);
    bed_run(bed, 100);
    assert_int_equal(bed_stats(bed).early_data_sent, 0);
    assert_int_equal(solsend_link_close(bed->link, 0), 0);
    bed->link = NULL;
    memset(bed->seen, 0, sizeof bed->seen);
    bed->logged = 0;
    assert_int_equal(mock_wait_accepted(bed->leader, 1, 1000), 1);
}

/* Every transaction arrived, and none of them twice. */
static void assert_arrived_once(struct bed *bed, uint64_t count)
{
    assert_int_equal(mock_wait_accepted(bed->leader, count, 2000), count);
    bed_run(bed, 150);
    assert_int_equal(bed_counts(bed).accepted, count);
    assert_int_equal(bed_counts(bed).distinct, count);
    assert_int_equal(bed_counts(bed).streams_split, 0);
}

static void early_data_is_off_by_default(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", TAKES);
    assert_int_equal(bed.options.early_data, 0);
    meet(&bed);
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 1232, 0, 1), 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed_stats(&bed).early_data_sent, 0);
    assert_int_equal(bed_stats(&bed).waited_admission, 1);
    assert_arrived_once(&bed, 2);
    bed_close(&bed);
}

static void accepted_early_data_arrives_before_the_handshake_is_done(void **state)
{
    struct bed bed;
    uint8_t leader[32];
    const mock_arrival *arrivals;
    bed_open(&bed, "agave-4.3", TAKES ",rtt_ms=200");
    mock_identity(bed.leader, leader);
    bed.options.expected_key = leader;
    bed.options.early_data = 1;
    meet(&bed);
    uint64_t start = solsend_now_ns();
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 1232, 0, 7), 1); /* on the wire beside the ClientHello */
    assert_int_equal(bed_info(&bed).state, SOLSEND_LINK_CONNECTING);
    assert_int_equal(bed_stats(&bed).early_data_sent, 1);
    assert_int_equal(bed_stats(&bed).written, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_arrived_once(&bed, 2);
    assert_int_equal(bed_stats(&bed).early_data_refused, 0);
    assert_int_equal(mock_arrivals(bed.leader, &arrivals), 2);
    assert_true(arrivals[1].received_ns < start + bed_info(&bed).connected_ns);
    assert_int_equal(bed_counts(&bed).connections, 2);

    /* a resumed connection knows its peer as well */
    assert_memory_equal(bed_info(&bed).peer_key, leader, 32);
    assert_int_equal(bed_stats(&bed).key_mismatches, 0);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void refused_early_data_is_sent_again_exactly_once(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", TAKES);
    bed.options.early_data = 1;
    meet(&bed);
    bed_fault(&bed, "early_data=0");
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 1232, 0, 7), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    solsend_link_stats s = bed_stats(&bed);
    assert_int_equal(s.early_data_sent, 1);
    assert_int_equal(s.early_data_refused, 1);
    assert_int_equal(s.written, 1);
    assert_int_equal(s.acked, 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].user, 7);
    assert_arrived_once(&bed, 2);
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

/* More than the remembered credit: the rest waits for the handshake, in both cases. */
static void a_burst_in_early_data_arrives_whole(void **state)
{
    static const char *const answers[] = {"early_data=1", "early_data=0"};
    for (int i = 0; i < 2; i++) {
        struct bed bed;
        bed_open(&bed, "agave-4.3", TAKES);
        bed.options.early_data = 1;
        meet(&bed);
        bed_fault(&bed, answers[i]);
        bed_connect(&bed);
        for (uint64_t n = 0; n < 20; n++) {
            assert_int_equal(bed_send(&bed, 1232, 0, n), n < 16);
        }
        assert_int_equal(bed_stats(&bed).early_data_sent, 16);
        assert_int_equal(bed_info(&bed).waiting, 4);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 20, 5000);
        assert_int_equal(bed_stats(&bed).early_data_refused, i == 0 ? 0 : 16);
        assert_arrived_once(&bed, 21);
        bed_assert_accounted(&bed);
        bed_close(&bed);
    }
}

/* Agave's own transport parameters hold no credit, so there is nothing to send early. */
static void without_remembered_credit_it_waits_for_the_grant(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "rtt_ms=50,early_data=1");
    bed.options.early_data = 1;
    meet(&bed);
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed_stats(&bed).early_data_sent, 0);
    assert_arrived_once(&bed, 2);
    bed_close(&bed);
}

/* A ticket tells the leader who we are: it is never shown for somebody else. */
static void another_identity_does_not_use_the_ticket(void **state)
{
    struct bed bed;
    solsend_key *other = NULL;
    bed_open(&bed, "agave-4.3", TAKES);
    bed.options.early_data = 1;
    meet(&bed);
    assert_int_equal(solsend_key_random(&other), 0);
    bed.options.identity = other;
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed_stats(&bed).early_data_sent, 0);
    assert_arrived_once(&bed, 2);
    bed_close(&bed);
    solsend_key_close(other);
}

/* The leader was restarted: its new ticket key makes nothing of the old ticket. */
static void a_restarted_leader_refuses_and_gets_it_once(void **state)
{
    struct bed bed;
    char listen[64];
    bed_open(&bed, "agave-4.3", TAKES);
    bed.options.early_data = 1;
    meet(&bed);
    solsend_key *identity = bed.identity;
    snprintf(listen, sizeof listen, "127.0.0.1:%u", mock_port(bed.leader));
    bed.identity = NULL;
    bed_close(&bed);

    assert_int_equal(bed_open_at(&bed, "agave-4.3", TAKES, listen), 0);
    bed.options.early_data = 1;
    bed.options.identity = identity;
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed_stats(&bed).early_data_refused, 1);
    assert_arrived_once(&bed, 1);
    bed_assert_accounted(&bed);
    bed_close(&bed);
    solsend_key_close(identity);
}

/* The address must be proven first: the leader drops what came with the first ClientHello. */
static void early_data_lost_to_a_retry_arrives_whole(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", TAKES ",retry=1");
    bed.options.early_data = 1;
    meet(&bed);
    bed_connect(&bed);
    for (uint64_t n = 0; n < 4; n++) {
        assert_int_equal(bed_send(&bed, 1232, 0, n), 1);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 4, 5000);
    assert_int_equal(bed_stats(&bed).retries_seen, 1);
    assert_int_equal(bed_stats(&bed).early_data_sent, 4);
    assert_int_equal(bed_stats(&bed).early_data_refused, 4);
    assert_arrived_once(&bed, 5);

    /* the ticket is as good as before */
    assert_int_equal(solsend_link_close(bed.link, 0), 0);
    bed_fault(&bed, "retry=0");
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 1232, 0, 9), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 5, 5000);
    assert_int_equal(bed_stats(&bed).early_data_refused, 0);
    assert_arrived_once(&bed, 6);
    bed.seen[SOLSEND_EVENT_ACKED] = 1; /* of this link */
    bed.logged = 0;
    bed_assert_accounted(&bed);
    bed_close(&bed);
}

static void a_deadline_amid_the_handshake_ends_early_data_too(void **state)
{
    static const char *const answers[] = {"early_data=1", "early_data=0"};
    for (int i = 0; i < 2; i++) {
        struct bed bed;
        bed_open(&bed, "agave-4.3", TAKES);
        bed.options.early_data = 1;
        meet(&bed);
        bed_fault(&bed, answers[i]);
        bed_connect(&bed);
        assert_int_equal(bed_send(&bed, 250, 20, 1), 1);
        bed_until(&bed, SOLSEND_EVENT_EXPIRED, 1, 1000);
        assert_int_equal(bed.last[SOLSEND_EVENT_EXPIRED].code, SOLSEND_ERR_NOT_ACKED);
        bed_until(&bed, SOLSEND_EVENT_LINK_ADMITTED, 1, 5000);
        bed_run(&bed, 200);
        assert_int_equal(bed_counts(&bed).accepted,
                         i == 0 ? 2 : 1); /* it had left, or was refused */
        assert_in_range(bed_send(&bed, 250, 0, 2), 0, 1);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
        bed_assert_accounted(&bed);
        bed_close(&bed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_data_is_off_by_default),
        cmocka_unit_test(accepted_early_data_arrives_before_the_handshake_is_done),
        cmocka_unit_test(refused_early_data_is_sent_again_exactly_once),
        cmocka_unit_test(a_burst_in_early_data_arrives_whole),
        cmocka_unit_test(without_remembered_credit_it_waits_for_the_grant),
        cmocka_unit_test(another_identity_does_not_use_the_ticket),
        cmocka_unit_test(a_restarted_leader_refuses_and_gets_it_once),
        cmocka_unit_test(early_data_lost_to_a_retry_arrives_whole),
        cmocka_unit_test(a_deadline_amid_the_handshake_ends_early_data_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
