/* Where a transaction's time is booked: each in the hop that it took, and nothing that was not
 * measured. */
#include "bed.h"
#include "shim.h"

#include <errno.h>
#include <time.h>

static struct bed bed;

static uint64_t hop_count(uint32_t hop)
{
    solsend_summary s;
    assert_int_equal(solsend_link_hop(bed.link, hop, &s), 0);
    return s.count;
}

static void pause_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

/* The credit lies unread in the socket: the call finds it and is timed like any that wrote. */
static void a_call_that_found_credit_by_reading_is_a_call(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=1");
    bed_admit(&bed);
    bed_run(&bed, 20);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    assert_int_equal(hop_count(SOLSEND_HOP_CALL), 1);
    uint64_t tries = 0;
    do {
        pause_ms(30); /* no poll: what the leader answers stays where it is */
        int rc = bed_send(&bed, 250, 0, 2);
        assert_true(rc == 0 || rc == 1);
        if (rc == 1) {
            assert_int_equal(hop_count(SOLSEND_HOP_CALL), 2);
            assert_int_equal(hop_count(SOLSEND_HOP_CREDIT), tries);
            assert_int_equal(bed_stats(&bed).waited_credit, tries);
            break;
        }
        bed_until(&bed, SOLSEND_EVENT_ACKED, 2 + tries, 2000); /* a slow machine: once more */
    } while (++tries < 20);
    assert_in_range(tries, 0, 19);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 2 + tries, 2000);
    bed_close(&bed);
}

static int refuse_first(void *context, const struct shim_call *call)
{
    int *left = context;
    return call->bytes > 1200 && (*left)-- > 0 ? EPERM : SHIM_MAKE;
}

/* A packet filter ate the first packet, loss recovery's got through: from when to when is unknown.
 */
static void an_ack_without_a_write_is_no_measurement(void **state)
{
    int left = 1;
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    bed_run(&bed, 30);
    shim_clear();
    shim.judge = refuse_first;
    shim.context = &left;
    assert_int_equal(bed_send(&bed, 1232, 0, 1), 0);
    assert_int_equal(bed_stats(&bed).netfilter_drops, 1);
    assert_int_equal(bed_stats(&bed).written, 0);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].value, 0);
    assert_int_equal(hop_count(SOLSEND_HOP_ACK), 0);
    assert_int_equal(bed_stats(&bed).written, 1);
    assert_int_equal(bed_send(&bed, 1232, 0, 2), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 2, 5000);
    assert_true(bed.last[SOLSEND_EVENT_ACKED].value > 0);
    assert_int_equal(hop_count(SOLSEND_HOP_ACK), 1);
    shim_clear();
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_found_credit_by_reading_is_a_call),
        cmocka_unit_test(an_ack_without_a_write_is_no_measurement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
