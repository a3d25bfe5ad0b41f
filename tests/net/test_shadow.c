#include "bed.h"

#include <solsend/link.h>

#include "link/link.h"
#include "link/shadow.h"

static void touches_are_acknowledged(void **state)
{
    (void)state;
    solsend_shadow *s = NULL;
    solsend_detail d = {0};
    int rc = solsend_shadow_open(&s, NULL, &d);
    if (rc != 0) {
        fail_msg("%s: %s", solsend_error_name(rc), d.text);
    }
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(solsend_shadow_touch(s), 0);
    }
    solsend_link_stats stats = {.size = sizeof stats};
    assert_int_equal(solsend_link_stats_get(s->link, &stats), 0);
    assert_int_equal(stats.accepted, 2000);
    assert_in_range(stats.acked, 1900, 2000);
    assert_int_equal(stats.fragmented, 0);
    assert_int_equal(stats.expired + stats.closed + stats.refused, 0);
    solsend_shadow_close(s);
}

static void a_sink_gets_the_real_packets(void **state)
{
    (void)state;
    struct endpoint sink = {.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)};
    sink.local.v4.sin_family = AF_INET;
    sink.local.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof sink.local;
    assert_int_equal(bind(sink.fd, &sink.local.any, sizeof sink.local.v4), 0);
    assert_int_equal(getsockname(sink.fd, &sink.local.any, &bytes), 0);

    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", endpoint_address_port(&sink.local));
    solsend_shadow_options o;
    solsend_shadow_options_init(&o, sizeof o);
    o.target = SOLSEND_SHADOW_SINK;
    o.address = address;
    o.bytes = 250;
    solsend_shadow *s = NULL;
    solsend_detail d = {0};
    assert_int_equal(solsend_shadow_open(&s, &o, &d), 0);
    int got = 0;
    for (int i = 0; i < 20; i++) {
        uint8_t packet[2048];
        assert_int_equal(solsend_shadow_touch(s), 0);
        while (recv(sink.fd, packet, sizeof packet, 0) > 250) {
            got++;
        }
    }
    assert_in_range(got, 20, 24);
    solsend_link_stats stats = {.size = sizeof stats};
    assert_int_equal(solsend_link_stats_get(s->link, &stats), 0);
    assert_in_range(stats.acked, 15, 20);
    solsend_shadow_close(s);
    endpoint_close(&sink);
}

static void an_idle_link_is_kept_warm_without_a_packet_to_the_leader(void **state)
{
    (void)state;
    struct bed bed;
    solsend_shadow *shadow = NULL;
    bed_open(&bed, "agave-4.3", NULL);
    assert_int_equal(solsend_shadow_open(&shadow, NULL, NULL), 0);
    bed.options.shadow = shadow;
    bed.options.keep_hot_us = 2000;
    bed_admit(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 1, 2000);
    bed_run(&bed, 100); /* late acknowledgements of ours go out */
    uint64_t before = bed_counts(&bed).datagrams;
    bed_run(&bed, 300);
    assert_in_range(bed_stats(&bed).warm_sends, 50, 400);
    assert_int_equal(bed_counts(&bed).datagrams, before);
    assert_int_equal(bed_stats(&bed).icmp_errors, 0);
    assert_int_equal(bed_send(&bed, 1232, 0, 2), 1);
    bed_until(&bed, SOLSEND_EVENT_ACKED, 2, 2000);
    assert_int_equal(bed_counts(&bed).streams_split, 0);
    bed_close(&bed);
    solsend_shadow_close(shadow);
}

static void warming_survives_the_peers_key_updates(void **state)
{
    (void)state;
    struct bed bed;
    solsend_shadow *shadow = NULL;
    bed_open(&bed, "agave-4.3", "key_update=2");
    assert_int_equal(solsend_shadow_open(&shadow, NULL, NULL), 0);
    bed.options.shadow = shadow;
    bed.options.keep_hot_us = 1000;
    bed_admit(&bed);
    for (uint64_t i = 1; i <= 100; i++) {
        assert_true(bed_send(&bed, 250, 0, i) >= 0);
        bed_run(&bed, 2);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 100, 3000);
    assert_true(bed_stats(&bed).key_updates > 2);
    bed_assert_accounted(&bed);
    bed_close(&bed);
    solsend_shadow_close(shadow);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    solsend_shadow_options o;
    solsend_shadow *s = (void *)1;
    solsend_detail d = {0};
    solsend_shadow_options_init(&o, sizeof o);
    o.bytes = 5000;
    assert_int_equal(solsend_shadow_open(&s, &o, &d), SOLSEND_ERR_BAD_OPTION);
    assert_null(s);
    assert_non_null(strstr(d.text, "bytes"));
    solsend_shadow_options_init(&o, sizeof o);
    o.target = SOLSEND_SHADOW_TTL;
    assert_int_equal(solsend_shadow_open(&s, &o, &d), SOLSEND_ERR_BAD_OPTION);
    assert_non_null(strstr(d.text, "address"));
    solsend_shadow_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touches_are_acknowledged),
        cmocka_unit_test(a_sink_gets_the_real_packets),
        cmocka_unit_test(an_idle_link_is_kept_warm_without_a_packet_to_the_leader),
        cmocka_unit_test(warming_survives_the_peers_key_updates),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
