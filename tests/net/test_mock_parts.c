/* The mock's parts without a socket: time is an argument, so that nothing here waits. */
#include "check.h"

#include "mock/admission.h"
#include "mock/cidmap.h"
#include "mock/credentials.h"
#include "mock/frames.h"
#include "mock/netem.h"
#include "mock/script.h"
#include "mock/tally.h"
#include "mock/throttle.h"
#include "mock/timers.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

static void the_throttle_lets_twenty_one_pass_a_window(void **state)
{
    (void)state;
    struct throttle_window w = {0};
    struct throttle_load load = {0};
    uint64_t now = 5 * S;
    uint64_t quota = throttle_quota(&load, 0, 1000);
    assert_int_equal(quota, 20);
    for (int window = 0; window < 5; window++) {
        /* As the reader does: the one that waited is read without asking again. */
        uint64_t read = 0;
        uint64_t wait;
        while ((wait = throttle_wait(&w, quota, now)) == 0) {
            throttle_read(&w, &load, 0, now);
            read++;
            now += MS / 100;
        }
        assert_int_equal(read, 20);
        now += wait;
        throttle_read(&w, &load, 0, now);
    }
    assert_in_range(now - 5 * S, 500 * MS, 510 * MS);
}

static void staked_quotas_shrink_only_under_load(void **state)
{
    (void)state;
    struct throttle_window w = {0};
    struct throttle_load load = {.step_started_ns = S};
    assert_int_equal(throttle_quota(&load, 1, 1000), 40000);
    for (uint64_t now = S; now < 2 * S; now += 2500) { /* 400 a millisecond */
        throttle_read(&w, &load, 1, now);
    }
    assert_int_equal(throttle_quota(&load, 100, 1000), 4000);
    assert_int_equal(throttle_quota(&load, 1, 1000000), 21);
    assert_int_equal(throttle_quota(&load, 0, 1000), 20);
    throttle_read(&w, &load, 1, 3 * S);
    assert_int_equal(throttle_quota(&load, 1, 1000), 40000);
}

static void nobody(void *owner)
{
    (*(int *)owner)++;
}

static void tokens_come_back_one_in_seven_and_a_half_seconds(void **state)
{
    (void)state;
    struct admission a;
    struct fault fault;
    struct admission_seat seats[16] = {0};
    const uint8_t ip[16] = {1};
    uint64_t now = 100 * S;
    fault_init(&fault);
    admission_open(&a, &fault, 1, nobody);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(admission_hello(&a, ip, 0, now), ADMISSION_WELCOME);
        assert_int_equal(admission_enter(&a, &seats[i], ip, NULL, now), ADMISSION_WELCOME);
        admission_leave(&a, &seats[i]); /* closing gives nothing back */
    }
    assert_int_equal(admission_hello(&a, ip, 0, now), ADMISSION_SILENCE);
    assert_int_equal(admission_enter(&a, &seats[8], ip, NULL, now), ADMISSION_DISALLOWED);
    assert_int_equal(admission_hello(&a, ip, 0, now + 7400 * MS), ADMISSION_SILENCE);
    assert_int_equal(admission_hello(&a, ip, 0, now + 7600 * MS), ADMISSION_WELCOME);
    assert_int_equal(admission_enter(&a, &seats[8], ip, NULL, now + 7600 * MS), ADMISSION_WELCOME);
    assert_int_equal(admission_hello(&a, ip, 0, now + 7600 * MS), ADMISSION_SILENCE);
    /* An hour of quiet saves up eighty, not more; eight places then decide. */
    now += 3600 * S;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(admission_enter(&a, &seats[i], ip, NULL, now), ADMISSION_WELCOME);
    }
    for (int i = 0; i < 73; i++) {
        assert_int_equal(admission_enter(&a, &seats[9], ip, NULL, now), ADMISSION_TOO_MANY);
    }
    assert_int_equal(admission_enter(&a, &seats[9], ip, NULL, now), ADMISSION_DISALLOWED);
    assert_int_equal(admission_hello(&a, ip, 5000, now + 60 * S), ADMISSION_FULL);
    admission_close(&a);
}

static void the_pruned_table_keeps_nine_tenths(void **state)
{
    (void)state;
    enum { COUNT = 2001 };
    struct admission a;
    struct fault fault;
    int evicted = 0;
    struct admission_seat *seats = calloc(COUNT, sizeof *seats);
    fault_init(&fault);
    admission_open(&a, &fault, 1, nobody);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t ip[16] = {0};
        memcpy(ip, &i, sizeof i);
        seats[i].owner = &evicted;
        assert_int_equal(admission_enter(&a, &seats[i], ip, NULL, S + i * 10 * MS),
                         ADMISSION_WELCOME);
    }
    assert_int_equal(evicted, 200);
    assert_int_equal(a.unstaked_count, 1801);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(seats[i].peer == NULL, i < 200); /* the oldest */
        admission_leave(&a, &seats[i]);
    }
    assert_int_equal(a.unstaked_count, 0);
    admission_close(&a);
    free(seats);
}

static void the_same_seed_loses_the_same_datagrams(void **state)
{
    (void)state;
    struct fault fault;
    char why[64];
    const struct sockname peer = {0};
    uint8_t verdicts[2][500];
    fault_init(&fault);
    assert_int_equal(fault_parse(&fault, "loss_in=0.3,reorder=0.1", why, sizeof why), 0);
    for (int run = 0; run < 2; run++) {
        struct netem n;
        netem_open(&n, 42);
        for (int i = 0; i < 500; i++) {
            verdicts[run][i] =
                (uint8_t)netem_offer(&n, &fault, NETEM_IN, &peer, (const uint8_t *)"x", 1, S);
            if (run == 1) { /* the other direction draws from its own sequence */
                (void)netem_offer(&n, &fault, NETEM_OUT, &peer, (const uint8_t *)"x", 1, S);
            }
        }
        netem_close(&n);
    }
    assert_memory_equal(verdicts[0], verdicts[1], 500);
    int dropped = 0;
    for (int i = 0; i < 500; i++) {
        dropped += verdicts[0][i] == NETEM_DROPPED;
    }
    assert_in_range(dropped, 100, 200);
}

static void held_datagrams_come_in_time_and_order(void **state)
{
    (void)state;
    struct fault fault;
    struct netem n;
    const struct sockname peer = {0};
    fault_init(&fault);
    fault.rtt_ns = 10 * MS;
    netem_open(&n, 1);
    assert_int_equal(netem_next(&n), UINT64_MAX);
    for (uint8_t i = 0; i < 100; i++) {
        assert_int_equal(netem_offer(&n, &fault, NETEM_OUT, &peer, &i, 1, S + i / 10 * MS),
                         NETEM_HELD);
    }
    assert_int_equal(netem_next(&n), S + 5 * MS);
    assert_null(netem_take(&n, NETEM_OUT, S + 5 * MS - 1));
    assert_null(netem_take(&n, NETEM_IN, S + 50 * MS));
    for (uint8_t i = 0; i < 100; i++) {
        struct netem_packet *p = netem_take(&n, NETEM_OUT, S + (i / 10 + 5) * MS);
        assert_non_null(p);
        assert_int_equal(p->data[0], i);
        free(p);
    }
    netem_close(&n);
}

static void timers_fire_by_time_and_can_be_moved(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct timers t;
    struct timer timer[COUNT];
    uint64_t last = 0;
    uint32_t x = 9;
    int fired = 0;
    timers_open(&t);
    for (int i = 0; i < COUNT; i++) {
        timers_init(&timer[i], &timer[i]);
        x = x * 1664525u + 1013904223u;
        assert_int_equal(timers_set(&t, &timer[i], 1000 + (x >> 16)), 0);
    }
    for (int i = 0; i < COUNT; i += 3) {
        timers_set(&t, &timer[i], i % 2 == 0 ? TIMERS_NEVER : (uint64_t)i);
    }
    assert_null(timers_pop(&t, 2));
    for (struct timer *due; (due = timers_pop(&t, UINT64_MAX - 1)) != NULL; fired++) {
        assert_int_equal(due->due_ns, TIMERS_NEVER);
        last++;
    }
    assert_int_equal(fired, COUNT - COUNT / 6);
    assert_int_equal(timers_next(&t), TIMERS_NEVER);
    (void)last;
    timers_close(&t);
}

static void connection_ids_are_found_until_removed(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    struct cidmap map;
    static int values[COUNT];
    uint8_t cid[8] = {0};
    assert_int_equal(cidmap_open(&map), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        memcpy(cid, &i, sizeof i);
        assert_int_equal(cidmap_put(&map, cid, 4 + i % 5, &values[i]), 0);
    }
    for (uint32_t i = 0; i < COUNT; i += 2) {
        memcpy(cid, &i, sizeof i);
        cidmap_remove(&map, cid, 4 + i % 5);
        cidmap_remove(&map, cid, 4 + i % 5);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        memcpy(cid, &i, sizeof i);
        assert_ptr_equal(cidmap_get(&map, cid, 4 + i % 5), i % 2 == 0 ? NULL : &values[i]);
    }
    assert_int_equal(map.used, COUNT / 2);
    assert_int_equal(cidmap_put(&map, cid, 21, &values[0]), -1);
    assert_null(cidmap_get(&map, cid, 21));
    cidmap_close(&map);
}

static void frames_are_walked(void **state)
{
    (void)state;
    static const uint8_t payload[] = {
        0x01,                                           /* PING */
        0x02, 0x40, 0x64, 0x00, 0x01, 0x02, 0x03, 0x04, /* ACK of two ranges */
        0x0e, 0x02, 0x43, 0xe8, 0x03, 'a',  'b',  'c',  /* STREAM 2 at 1000, three bytes */
        0x06, 0x05, 0x02, 'x',  'y',                    /* CRYPTO at 5 */
        0x1d, 0x05, 0x03, 'b',  'y',  'e',              /* application close */
        0x00, 0x00, 0x00,                               /* PADDING */
        0x09, 0x06, 'r',  'e',  's',  't',              /* STREAM 6 with FIN, to the end */
    };
    static const uint64_t kinds[] = {FRAME_PING,      FRAME_ACK,     FRAME_STREAM, FRAME_CRYPTO,
                                     FRAME_CLOSE_APP, FRAME_PADDING, FRAME_STREAM};
    struct frames frames;
    struct frame f;
    frames_open(&frames, payload, sizeof payload);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(frames_next(&frames, &f), 1);
        assert_int_equal(f.kind, kinds[i]);
        if (i == 2) {
            assert_int_equal(f.id, 2);
            assert_int_equal(f.offset, 1000);
            assert_int_equal(f.length, 3);
            assert_false(f.fin);
        }
    }
    assert_int_equal(f.id, 6);
    assert_int_equal(f.length, 4);
    assert_true(f.fin);
    assert_int_equal(frames_next(&frames, &f), 0);
    /* Cut anywhere, it ends or fails; it never reads on. */
    for (size_t cut = 1; cut < sizeof payload; cut++) {
        uint8_t *copy = malloc(cut);
        int rc;
        memcpy(copy, payload, cut);
        frames_open(&frames, copy, cut);
        while ((rc = frames_next(&frames, &f)) == 1) {
        }
        assert_true(rc == 0 || rc == -1);
        free(copy);
    }
    frames_open(&frames, (const uint8_t *)"\x3f", 1);
    assert_int_equal(frames_next(&frames, &f), -1);
}

static void signatures_are_found_in_every_version(void **state)
{
    (void)state;
    uint8_t wire[400] = {0};
    wire[0] = 2;
    assert_ptr_equal(tally_signature(wire, 200), wire + 1);
    assert_null(tally_signature(wire, 129));
    wire[0] = 0;
    assert_null(tally_signature(wire, 400));
    wire[0] = 0x81;
    wire[1] = 1;
    assert_ptr_equal(tally_signature(wire, 300), wire + 300 - 64);
    wire[1] = 13;
    assert_null(tally_signature(wire, 400));
    assert_null(tally_signature(wire, 1));
    assert_null(tally_signature(wire, 0));
}

static void a_full_tally_still_counts(void **state)
{
    (void)state;
    struct tally t;
    uint8_t wire[100];
    mock_counts c;
    memset(wire, 1, sizeof wire);
    assert_int_equal(tally_open(&t, 3), 0);
    for (uint64_t i = 0; i < 6000; i++) {
        memcpy(wire + 1, &i, sizeof i);
        assert_int_equal(tally_accept(&t, wire, sizeof wire, 1, i, i + 1), 1);
    }
    tally_counts(&t, &c);
    assert_int_equal(c.accepted, 6000);
    assert_int_equal(c.distinct, 4096); /* the smallest set */
    assert_int_equal(atomic_load(&t.arrivals_count), 3);
    assert_int_equal(t.arrivals[2].received_ns, 2);
    assert_true(tally_saw(&t, wire + 1) == 0);
    tally_close(&t);
}

static void scripts_run_in_time(void **state)
{
    (void)state;
    struct script s;
    struct fault fault;
    char why[128];
    fault_init(&fault);
    assert_int_equal(script_open(&s, "@2s loss=0; @500ms loss=1,mtu=1300", why, sizeof why), 0);
    assert_int_equal(script_next(&s), 500 * MS);
    script_run(&s, &fault, 499 * MS);
    assert_true(fault.loss_in == 0);
    script_run(&s, &fault, 500 * MS);
    assert_true(fault.loss_in == 1 && fault.loss_out == 1 && fault.mtu == 1300);
    script_run(&s, &fault, 3 * S);
    assert_true(fault.loss_in == 0 && fault.mtu == 1300);
    assert_int_equal(script_next(&s), UINT64_MAX);
    script_close(&s);
    /* A list with one bad item changes nothing. */
    assert_int_equal(fault_parse(&fault, "mtu=9,loss=5", why, sizeof why), -1);
    assert_int_equal(fault.mtu, 1300);
    assert_string_equal(why, "fault loss cannot be \"5\"");
}

static void the_certificate_is_the_one_of_leaders(void **state)
{
    (void)state;
    uint8_t der[CREDENTIALS_CERTIFICATE_BYTES];
    uint8_t key[32];
    memset(key, 0xab, sizeof key);
    credentials_certificate(key, der);
    assert_memory_equal(der, "\x30\x81\xf6\x30\x81\xa9\xa0\x03\x02\x01\x02\x02\x08", 13);
    assert_memory_equal(der + 100, key, 32);
    for (size_t i = 185; i < 249; i++) {
        assert_int_equal(der[i], 0xff);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_throttle_lets_twenty_one_pass_a_window),
        cmocka_unit_test(staked_quotas_shrink_only_under_load),
        cmocka_unit_test(tokens_come_back_one_in_seven_and_a_half_seconds),
        cmocka_unit_test(the_pruned_table_keeps_nine_tenths),
        cmocka_unit_test(the_same_seed_loses_the_same_datagrams),
        cmocka_unit_test(held_datagrams_come_in_time_and_order),
        cmocka_unit_test(timers_fire_by_time_and_can_be_moved),
        cmocka_unit_test(connection_ids_are_found_until_removed),
        cmocka_unit_test(frames_are_walked),
        cmocka_unit_test(signatures_are_found_in_every_version),
        cmocka_unit_test(a_full_tally_still_counts),
        cmocka_unit_test(scripts_run_in_time),
        cmocka_unit_test(the_certificate_is_the_one_of_leaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
