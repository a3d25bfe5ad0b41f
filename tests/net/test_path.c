#include "bed.h"

static void a_black_hole_is_found_and_told(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "agave-4.3", "rtt_ms=10");
    bed_admit(&bed);
    char why[128];
    assert_int_equal(mock_fault(bed.leader, "mtu=1252", why, sizeof why), 0);
    for (int i = 0; i < 5; i++) {
        assert_true(bed_send(&bed, 1232, 0, (uint64_t)i) >= 0);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 5, 5000);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_LINK_PATH].value, 1200);
    assert_true(bed_send(&bed, 1232, 0, 9) >= 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 6, 1000);
    assert_true(bed_stats(&bed).fragmented >= 1);
    bed_close(&bed);
}

static void short_deadlines_find_it_too(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "agave-4.3", "rtt_ms=100");
    bed_admit(&bed);
    char why[128];
    assert_int_equal(mock_fault(bed.leader, "mtu=1252", why, sizeof why), 0);
    for (int i = 0; i < 12 && bed.seen[SOLSEND_EVENT_LINK_PATH] == 0; i++) {
        assert_true(bed_send(&bed, 1232, 250, (uint64_t)i) >= 0);
        bed_run(&bed, 260);
    }
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 1);
    bed_close(&bed);
}

static void a_paused_peer_is_not_a_black_hole(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    for (int k = 0; k < 3; k++) {
        mock_stop(bed.leader);
        for (int i = 0; i < 20; i++) {
            assert_true(bed_send(&bed, 1232, 0, (uint64_t)i) >= 0);
        }
        bed_run(&bed, 300);
        assert_int_equal(mock_start(bed.leader), 0);
        bed_until(&bed, SOLSEND_EVENT_ACKED, 20 * (uint64_t)(k + 1), 3000);
    }
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_PATH], 0);
    assert_int_equal(bed_info(&bed).payload_bytes, 1472);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_black_hole_is_found_and_told),
        cmocka_unit_test(short_deadlines_find_it_too),
        cmocka_unit_test(a_paused_peer_is_not_a_black_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
