/* A process that forks with links open: the child is told, the parent notices nothing. */
#include "bed.h"
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>

static struct bed bed;
static solsend_shadow *shadow;
static uint8_t wire[250];

static solsend_send one_send(void)
{
    solsend_send send;
    solsend_send_init(&send, sizeof send);
    send.wire = wire;
    send.wire_bytes = sizeof wire;
    return send;
}

static int child_calls_everything(void)
{
    solsend_link *link = bed.link;
    solsend_send send = one_send();
    solsend_event event;
    solsend_link_info info = {.size = sizeof info};
    solsend_link_stats stats = {.size = sizeof stats};
    solsend_summary summary;
    solsend_step step;
    uint64_t ticket = 0;
    int32_t result = 0;
    char text[256];
    CHILD_CHECK(solsend_link_send(link, &send, &ticket) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_send_burst(link, &send, 1, &ticket, &result) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_cancel(link, 1) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_poll(link) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_drain(link, &event, 1) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_wait_admitted(link, 1000) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_flush(link, 1000) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_info_get(link, &info) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_stats_get(link, &stats) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_hop(link, SOLSEND_HOP_CALL, &summary) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_steps(link, &step, 1) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_text(link, text, sizeof text) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_fd(link) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_next_timeout_ns(link) == UINT64_MAX);
    CHILD_CHECK(solsend_shadow_touch(shadow) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_finish(link, 1000) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(solsend_link_close(link, 1000) == SOLSEND_ERR_FORKED);
    solsend_shadow_close(shadow);
    CHILD_CHECK(ticket == 0 && result == 0);
    return CHILD_OK;
}

static void a_child_may_not_touch_its_parents_links(void **state)
{
    bed_open(&bed, "agave-4.3", NULL);
    assert_int_equal(solsend_shadow_open(&shadow, NULL, NULL), 0);
    bed.options.shadow = shadow;
    bed.options.keep_alive = 0;
    bed_admit(&bed);
    bed_transaction(&bed, wire, sizeof wire);
    assert_in_range(bed_send(&bed, 250, 0, 1), 0, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);

    EXPECT_CHILD(child_calls_everything);

    /* the parent goes on where it was: the child has used up no packet number and no stream */
    assert_in_range(bed_send(&bed, 250, 0, 2), 0, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 2, 5000);
    assert_int_equal(solsend_shadow_touch(shadow), 0);
    assert_int_equal(bed_counts(&bed).accepted, 2);
    /* what the child would have sent had come before what is acknowledged by now */
    assert_true(bed_counts(&bed).datagrams <= bed_stats(&bed).datagrams_sent);
    bed_assert_accounted(&bed);
    solsend_link_close(bed.link, 200);
    bed.link = NULL;
    solsend_shadow_close(shadow);
    bed_close(&bed);
}

/* Everything anew: a key, a link, one transaction to the parent's leader, acknowledged. */
static int child_sends_on_its_own(void)
{
    solsend_key *key = NULL;
    solsend_link *link = NULL;
    solsend_link_options options;
    solsend_detail detail = {0};
    CHILD_CHECK(solsend_link_open(&link, bed.uri, &bed.options, &detail) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(strstr(detail.text, "identity") != NULL);
    CHILD_CHECK(solsend_key_random(&key) == 0);
    solsend_link_options_init(&options, sizeof options);
    options.identity = key;
    CHILD_CHECK(solsend_link_open(&link, bed.uri, &options, &detail) == 0);
    CHILD_CHECK(solsend_link_wait_admitted(link, 5000) == 0);
    solsend_send send = one_send();
    CHILD_CHECK(solsend_link_send(link, &send, NULL) >= 0);
    CHILD_CHECK(solsend_link_flush(link, 5000) == 0);
    CHILD_CHECK(solsend_link_close(link, 200) == 0);
    solsend_key_close(key);
    return CHILD_OK;
}

static void a_child_may_open_its_own(void **state)
{
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    bed_transaction(&bed, wire, sizeof wire);
    EXPECT_CHILD(child_sends_on_its_own);
    assert_int_equal(mock_wait_accepted(bed.leader, 1, 5000), 1);
    assert_true(mock_saw(bed.leader, wire + 1));
    assert_in_range(bed_send(&bed, 250, 0, 1), 0, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    bed_close(&bed);
}

static _Atomic int stop;

static void *open_send_close(void *arg)
{
    uint64_t *rounds = arg;
    while (!atomic_load(&stop)) {
        solsend_link *link = NULL;
        if (solsend_link_open(&link, bed.uri, &bed.options, NULL) != 0) {
            return NULL;
        }
        solsend_send send = one_send();
        int sent = solsend_link_send(link, &send, NULL) >= 0 &&
                   solsend_link_wait_admitted(link, 5000) == 0;
        int aborted = solsend_link_close(link, 5000);
        if (!sent || aborted != 0) {
            return NULL;
        }
        ++*rounds;
    }
    return arg;
}

/* A lock of ours that another thread holds at the moment of the fork would hang the child. */
static void forks_amid_other_threads_work(void **state)
{
    pthread_t thread;
    uint64_t rounds = 0;
    void *good = NULL;
    int failed = 0;
#ifdef __SANITIZE_ADDRESS__
    SKIP_TEST("AddressSanitizer's allocator itself hangs after a fork amid other threads");
#endif
    bed_open(&bed, "agave-4.3", NULL);
    bed_transaction(&bed, wire, sizeof wire);
    atomic_store(&stop, 0);
    assert_int_equal(pthread_create(&thread, NULL, open_send_close, &rounds), 0);
    for (int i = 0; i < 30; i++) {
        failed += child_run(child_sends_on_its_own) != CHILD_OK;
    }
    atomic_store(&stop, 1);
    pthread_join(thread, &good);
    assert_non_null(good);
    assert_true(rounds > 0);
    assert_int_equal(failed, 0);
    bed_close(&bed);
}

/* The handshake goes on, and what waits for it leaves once, from the parent. */
static void a_fork_amid_the_handshake_changes_nothing(void **state)
{
    bed_open(&bed, "agave-4.3", "rtt_ms=50");
    assert_int_equal(solsend_shadow_open(&shadow, NULL, NULL), 0);
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 7), 0);
    EXPECT_CHILD(child_calls_everything);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(bed.last[SOLSEND_EVENT_ACKED].user, 7);
    assert_int_equal(bed_counts(&bed).connections, 1);
    assert_int_equal(bed_counts(&bed).accepted, 1);
    assert_true(bed_counts(&bed).datagrams <= bed_stats(&bed).datagrams_sent);
    bed_assert_accounted(&bed);
    solsend_shadow_close(shadow);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_may_not_touch_its_parents_links),
        cmocka_unit_test(a_fork_amid_the_handshake_changes_nothing),
        cmocka_unit_test(a_child_may_open_its_own),
        cmocka_unit_test(forks_amid_other_threads_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
