/* Kernel stamps of sampled packets, and the shadow that keeps the path hot. */
#include "bed.h"
#include "shim.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "host/socket.h"
#include "link/link.h"
#include "link/shadow.h"

static struct bed bed;

static const uint64_t MS = 1000000;

static solsend_summary hop(uint32_t which)
{
    solsend_summary s;
    assert_int_equal(solsend_link_hop(bed.link, which, &s), 0);
    return s;
}

static void nap_us(uint32_t us)
{
    struct timespec t = {0, (long)us * 1000};
    nanosleep(&t, NULL);
}

/* ---- stamps ---------------------------------------------------------------------------------- */

enum { SENDS = 200 };

static int host_stamps(int family)
{
    solsend_step step;
    return host_socket_probe_stamps(family, &step) == 0;
}

static void open_stamped(const char *profile, const char *address, uint32_t every)
{
    int udp = strcmp(profile, "udp") == 0;
    if (bed_open_at(&bed, profile, udp ? NULL : "grant=4096", address) != 0) {
        skip();
    }
    bed.options.stamp_every = every;
    bed_admit(&bed);
    bed_run(&bed, 30);
}

static void send_stamped(uint32_t count, uint32_t pause_us)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(bed_send(&bed, 250, 0, i), 0, 1);
        if (pause_us != 0) {
            nap_us(pause_us);
        }
        bed_step(&bed);
    }
    bed_run(&bed, 50);
}

/* 1 if the socket wakes a sleeper for nothing. */
static int wakes_for_nothing(void)
{
    struct pollfd p = {.fd = solsend_link_fd(bed.link), .events = POLLIN};
    return poll(&p, 1, 0) != 0 && (p.revents & POLLERR) != 0;
}

static void check_stamps(const char *profile, const char *address, int family)
{
    int have = host_stamps(family);
    open_stamped(profile, address, 1);
    send_stamped(SENDS, 0);
    solsend_summary encode = hop(SOLSEND_HOP_ENCODE), call = hop(SOLSEND_HOP_SYSCALL);
    solsend_summary sched = hop(SOLSEND_HOP_SCHED), snd = hop(SOLSEND_HOP_SND);
    assert_int_equal(encode.count, SENDS);
    assert_int_equal(call.count, SENDS);
    assert_int_equal(wakes_for_nothing(), 0);
    if (have) {
        assert_int_equal(sched.count, SENDS);
        assert_int_equal(snd.count, SENDS);
        assert_int_equal(bed_stats(&bed).stamps_missing, 0);
        assert_true(sched.p50 > 0 && sched.p50 <= snd.p50 && snd.p50 < 20 * MS);
    } else {
        print_message("no kernel stamps on this host\n");
        assert_int_equal(sched.count + snd.count, 0);
    }
    bed_close(&bed);

    open_stamped(profile, address, 10);
    send_stamped(SENDS, 0);
    assert_int_equal(hop(SOLSEND_HOP_ENCODE).count, SENDS / 10);
    assert_int_equal(hop(SOLSEND_HOP_SND).count, have ? SENDS / 10 : 0);
    assert_int_equal(hop(SOLSEND_HOP_CALL).count, SENDS);
    bed_close(&bed);

    open_stamped(profile, address, 0);
    send_stamped(20, 0);
    assert_int_equal(hop(SOLSEND_HOP_ENCODE).count + hop(SOLSEND_HOP_SND).count, 0);
    bed_close(&bed);
}

static void sampled_packets_get_their_stamps(void **state)
{
    check_stamps("agave-4.3", "127.0.0.1:0", AF_INET);
    check_stamps("udp", "127.0.0.1:0", AF_INET);
}

static void also_on_ipv6(void **state)
{
    check_stamps("agave-4.3", "[::1]:0", AF_INET6);
}

static void stamps_that_never_come_are_counted(void **state)
{
    shim_clear();
    open_stamped("agave-4.3", "127.0.0.1:0", 1);
    shim.stamps_hidden = 1;
    send_stamped(SENDS, 0);
    bed_run(&bed, 1200);
    assert_int_equal(bed_stats(&bed).stamps_missing, SENDS);
    assert_int_equal(hop(SOLSEND_HOP_SCHED).count, 0); /* not measured, not zero */
    assert_int_equal(hop(SOLSEND_HOP_SND).count, 0);
    assert_int_equal(hop(SOLSEND_HOP_SYSCALL).count, SENDS);
    shim_clear();
    bed_close(&bed);
}

/* Polls only when the socket or next_timeout asks for it; returns how often. */
static uint32_t sleep_and_poll(uint64_t ms)
{
    uint64_t until = solsend_now_ns() + ms * MS;
    uint32_t polls = 0;
    for (uint64_t now; (now = solsend_now_ns()) < until;) {
        uint64_t next = solsend_link_next_timeout_ns(bed.link);
        next = next < until ? next : until;
        uint64_t ns = next > now ? next - now : 0;
        struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        struct pollfd p = {.fd = solsend_link_fd(bed.link), .events = POLLIN};
        ppoll(&p, 1, &t, NULL);
        assert_true(solsend_link_poll(bed.link) >= 0);
        bed_drain(&bed);
        polls++;
    }
    return polls;
}

static void the_error_queue_does_not_keep_a_sleeper_awake(void **state)
{
    if (!host_stamps(AF_INET)) {
        skip();
    }
    open_stamped("agave-4.3", "127.0.0.1:0", 1);
    for (uint32_t i = 0; i < STAMPS_PENDING; i++) {
        assert_in_range(bed_send(&bed, 250, 0, i), 0, 1);
    }
    assert_int_equal(wakes_for_nothing(), 1);
    sleep_and_poll(100);
    assert_int_equal(wakes_for_nothing(), 0);
    assert_in_range(sleep_and_poll(200), 1, 40);
    assert_int_equal(hop(SOLSEND_HOP_SND).count, STAMPS_PENDING);

    /* the guard turned off: nobody reads the queue */
    assert_in_range(bed_send(&bed, 250, 0, 0), 0, 1);
    bed.link->stamp_every = 0;
    assert_true(sleep_and_poll(100) > 1000);
    bed_close(&bed);
}

/* ---- a sampled packet that the socket does not take ------------------------------------------ */

static int refuse_every_third_stamped(void *context, const struct shim_call *call)
{
    uint32_t *seen = context;
    return call->stamped && ++*seen % 3 == 0 ? EAGAIN : SHIM_MAKE;
}

static void stamps_belong_to_their_own_packets(void **state)
{
    uint32_t seen = 0;
    if (!host_stamps(AF_INET)) {
        skip();
    }
    shim_clear();
    open_stamped("agave-4.3", "127.0.0.1:0", 1);
    shim.judge = refuse_every_third_stamped;
    shim.context = &seen;
    send_stamped(60, 5000);
    shim_clear();
    assert_int_equal(bed.seen[SOLSEND_EVENT_ACKED], 60);
    /* a stamp taken for another packet's would be one pause of 5 ms too large */
    assert_true(hop(SOLSEND_HOP_SND).p50 < 3 * MS);
    assert_true(hop(SOLSEND_HOP_SCHED).p50 < 3 * MS);
    assert_int_equal(hop(SOLSEND_HOP_SND).count, 40);
    assert_int_equal(hop(SOLSEND_HOP_SYSCALL).count, 40);
    bed_run(&bed, 1200);
    assert_int_equal(bed_stats(&bed).stamps_missing, 0);
    bed_close(&bed);
}

/* ---- kept hot -------------------------------------------------------------------------------- */

static solsend_shadow *shadow;

static void open_hot(const char *profile)
{
    solsend_detail why;
    if (solsend_shadow_open(&shadow, NULL, &why) != 0) {
        fail_msg("%s", why.text);
    }
    bed_open(&bed, profile, strcmp(profile, "udp") == 0 ? NULL : "grant=4096");
    bed.options.shadow = shadow;
    bed.options.keep_hot_us = 5000;
    bed_admit(&bed);
}

static void close_hot(void)
{
    bed_close(&bed);
    solsend_shadow_close(shadow);
}

static void idle_links_are_kept_hot_and_busy_ones_need_it_not(void **state)
{
    static const char *const profiles[] = {"agave-4.3", "udp"};
    for (size_t i = 0; i < 2; i++) {
        open_hot(profiles[i]);
        uint64_t before = bed_stats(&bed).warm_sends;
        bed_run(&bed, 500);
        uint64_t warm = bed_stats(&bed).warm_sends - before;
        assert_in_range(warm, 20, 100); /* one in 5 ms, fewer where the machine is busy */

        /* a real send every millisecond: none is due */
        before = bed_stats(&bed).warm_sends;
        uint64_t start = solsend_now_ns(), longest = 0;
        for (uint32_t k = 0; k < 200; k++) {
            uint64_t begin = solsend_now_ns();
            assert_in_range(bed_send(&bed, 250, 0, 0), 0, 1);
            nap_us(500);
            solsend_link_poll(bed.link);
            bed_drain(&bed);
            uint64_t took = solsend_now_ns() - begin;
            longest = took > longest ? took : longest;
        }
        if (longest < 4 * MS) {
            assert_int_equal(bed_stats(&bed).warm_sends, before);
        } else {
            assert_true(bed_stats(&bed).warm_sends - before <
                        (solsend_now_ns() - start) / (5 * MS) + 1);
        }
        bed_run(&bed, 100);
        assert_true(bed_stats(&bed).warm_sends > before);
        /* what the shadow sends is not in the link's own numbers, nor at the leader */
        assert_int_equal(bed_stats(&bed).accepted, 200);
        assert_int_equal(mock_wait_accepted(bed.leader, 200, 1000), 200);
        close_hot();
    }
}

static void without_a_shadow_nothing_is_warmed(void **state)
{
    bed_open(&bed, "agave-4.3", "grant=64");
    bed_admit(&bed);
    bed_run(&bed, 50);
    assert_int_equal(bed_stats(&bed).warm_sends, 0);
    bed_close(&bed);
}

static void two_links_of_a_thread_share_the_warming(void **state)
{
    solsend_link *other = NULL;
    open_hot("agave-4.3");
    assert_int_equal(solsend_link_open(&other, bed.uri, &bed.options, NULL), 0);
    assert_int_equal(solsend_link_wait_admitted(other, 5000), 0);
    solsend_link_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    assert_int_equal(solsend_link_stats_get(other, &before), 0);
    uint64_t warm = bed_stats(&bed).warm_sends + before.warm_sends, start = solsend_now_ns();
    while (solsend_now_ns() < start + 300 * MS) {
        bed_step(&bed);
        assert_true(solsend_link_poll(other) >= 0);
    }
    assert_int_equal(solsend_link_stats_get(other, &after), 0);
    warm = bed_stats(&bed).warm_sends + after.warm_sends - warm;
    assert_in_range(warm, 10, (solsend_now_ns() - start) / (5 * MS) + 1);
    solsend_link_close(other, 0);
    close_hot();
}

static void warming_lets_the_program_sleep(void **state)
{
    open_hot("agave-4.3");
    bed_run(&bed, 50);
    uint64_t next = solsend_link_next_timeout_ns(bed.link), now = solsend_now_ns();
    assert_true(next < now + 6 * MS);
    assert_in_range(sleep_and_poll(500), 20, 250);
    close_hot();
}

static void a_dead_shadow_does_not_make_it_spin(void **state)
{
    open_hot("agave-4.3");
    bed_run(&bed, 20);
    solsend_link_finish(shadow->link, 0);
    assert_true(solsend_shadow_touch(shadow) < 0);
    uint64_t warm = bed_stats(&bed).warm_sends;
    assert_in_range(sleep_and_poll(300), 1, 250);
    assert_int_equal(bed_stats(&bed).warm_sends, warm); /* none was made */
    assert_in_range(bed_send(&bed, 250, 0, 0), 0, 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 1000);
    close_hot();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_packets_get_their_stamps),
        cmocka_unit_test(also_on_ipv6),
        cmocka_unit_test(stamps_that_never_come_are_counted),
        cmocka_unit_test(the_error_queue_does_not_keep_a_sleeper_awake),
        cmocka_unit_test(stamps_belong_to_their_own_packets),
        cmocka_unit_test(idle_links_are_kept_hot_and_busy_ones_need_it_not),
        cmocka_unit_test(without_a_shadow_nothing_is_warmed),
        cmocka_unit_test(two_links_of_a_thread_share_the_warming),
        cmocka_unit_test(warming_lets_the_program_sleep),
        cmocka_unit_test(a_dead_shadow_does_not_make_it_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
