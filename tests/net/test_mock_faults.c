/* Every fault of the mock does what docs/mock.md says. */
#include "plain_bed.h"

#include "base/clock.h"

#include <solsend/tx.h>

#include <ctype.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define RELAXED "throttle=off,conn_per_min=100000"

static mock *leader(const char *faults)
{
    char all[256];
    snprintf(all, sizeof all, RELAXED "%s%s", faults[0] == '\0' ? "" : ",", faults);
    return plain_leader("agave-4.3", all, NULL, NULL);
}

/* ---- the way between --------------------------------------------------------------------------
 */

static void rtt_is_added_both_ways_together(void **state)
{
    (void)state;
    struct plain p;
    ngtcp2_conn_info info;
    mock *m = leader("rtt_ms=40");
    plain_admit(&p, m, NULL);
    plain_burst(&p, 1, 5, 200);
    plain_until_count(&p, &p.acked_streams, 5, 3000);
    ngtcp2_conn_get_conn_info(p.quic, &info);
    assert_true(info.min_rtt >= 40 * CLOCK_NS_PER_MS);
    plain_close(&p);
    mock_close(m);
}

static void losses_are_repaired_by_the_sender_and_counted(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("");
    plain_admit(&p, m, NULL);
    plain_fault(m, "loss=0.2");
    plain_burst(&p, 0, 60, 600);
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 60, 8000), 60);
    assert_int_equal(mock_wait_accepted(m, 60, 1000), 60);
    mock_counts c = plain_counts(m);
    assert_true(c.dropped_in > 0);
    assert_true(c.dropped_out > 0);
    plain_fault(m, "loss=1");
    plain_burst(&p, 100, 1, 200);
    plain_run(&p, 50);
    assert_int_equal(plain_counts(m).accepted, 60);
    plain_close(&p);
    mock_close(m);
}

static void duplicates_and_reordering_change_nothing_for_agave(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("");
    plain_admit(&p, m, NULL);
    plain_fault(m, "duplicate=1,reorder=0.3");
    uint64_t before = plain_counts(m).accepted;
    plain_burst(&p, 0, 50, 300);
    plain_until_count(&p, &p.acked_streams, 50, 3000);
    assert_int_equal(mock_wait_accepted(m, 50, 1000), before + 50);
    assert_int_equal(plain_counts(m).distinct, 50);
    assert_int_equal(plain_counts(m).accepted, 50);
    plain_close(&p);
    mock_close(m);
}

static void larger_datagrams_vanish(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("mtu=1250");
    plain_admit(&p, m, NULL);
    plain_burst(&p, 1, 1, 1232);
    plain_run(&p, 100);
    assert_int_equal(plain_counts(m).accepted, 0);
    assert_true(plain_counts(m).dropped_in >= 1);
    assert_true(plain_counts(m).max_datagram > 1250);
    plain_burst(&p, 2, 1, 1100);
    assert_int_equal(mock_wait_accepted(m, 1, 0), 0); /* behind the one that is missing */
    plain_fault(m, "mtu=0");
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 2, 3000), 2);
    assert_int_equal(mock_wait_accepted(m, 2, 1000), 2);
    plain_close(&p);
    mock_close(m);
}

/* ---- acknowledgements and credit --------------------------------------------------------------
 */

static void without_acknowledgements_it_still_accepts(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("ack=never");
    plain_admit(&p, m, NULL);
    plain_burst(&p, 0, 10, 200);
    plain_run(&p, 200);
    assert_int_equal(mock_wait_accepted(m, 10, 1000), 10);
    assert_int_equal(p.acked_streams, 0);
    plain_fault(m, "ack=normal");
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 10, 4000), 10);
    assert_int_equal(plain_counts(m).accepted, 10);
    plain_close(&p);
    mock_close(m);
}

static void acknowledgements_can_be_late(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("ack=delay:60");
    plain_admit(&p, m, NULL);
    plain_run(&p, 100);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t start = clock_now();
        plain_burst(&p, i, 1, 200);
        assert_int_equal(plain_until_count(&p, &p.acked_streams, i + 1, 2000), i + 1);
        assert_true(clock_now() - start >= 55 * CLOCK_NS_PER_MS);
        assert_int_equal(plain_counts(m).accepted, i + 1);
        plain_run(&p, 80);
    }
    plain_close(&p);
    mock_close(m);
}

static void what_is_discarded_is_acknowledged_all_the_same(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("discard=1");
    plain_admit(&p, m, NULL);
    plain_burst(&p, 0, 10, 200);
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 10, 2000), 10);
    mock_counts c = plain_counts(m);
    assert_int_equal(c.discarded, 10);
    assert_int_equal(c.accepted, 0);
    plain_close(&p);
    mock_close(m);
}

static void credit_comes_when_it_is_granted(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("grant=never");
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_until(&p, &p.confirmed, 1, 2000);
    plain_run(&p, 150);
    assert_int_equal(p.granted, 0);
    assert_int_equal(plain_counts(m).admitted, 1);
    plain_fault(m, "grant=8");
    plain_until_count(&p, &p.granted, 1, 1000);
    assert_int_equal(p.granted, 8);
    plain_burst(&p, 0, 30, 200); /* a window of eight moves on */
    plain_until_count(&p, &p.acked_streams, 30, 2000);
    assert_int_equal(mock_wait_accepted(m, 30, 1000), 30);
    plain_fault(m, "grant=never");
    while (plain_streams_left(&p) > 0) {
        plain_burst(&p, (uint32_t)p.granted, 1, 200);
    }
    plain_run(&p, 100);
    assert_int_equal(plain_streams_left(&p), 0);
    plain_close(&p);
    mock_close(m);
}

static void a_total_is_never_renewed_until_raised(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("grant=total:4");
    plain_admit(&p, m, NULL);
    assert_int_equal(p.granted, 4);
    plain_burst(&p, 0, 4, 200);
    plain_run(&p, 100);
    assert_int_equal(plain_streams_left(&p), 0);
    plain_fault(m, "grant=total:6");
    plain_until_count(&p, &p.granted, 6, 1000);
    assert_int_equal(p.granted, 6);
    plain_close(&p);
    mock_close(m);
}

static void a_shrunken_window_is_renewed_by_its_new_size(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("grant=20");
    plain_admit(&p, m, NULL);
    assert_int_equal(p.granted, 20);
    plain_fault(m, "grant=4");
    plain_burst(&p, 0, 16, 200);
    plain_run(&p, 50);
    assert_int_equal(p.granted, 20); /* what was given cannot be taken back */
    plain_burst(&p, 16, 4, 200);
    plain_until_count(&p, &p.granted, 24, 1000);
    assert_int_equal(p.granted, 24);
    plain_close(&p);
    mock_close(m);
}

static void the_first_grant_can_be_late(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("grant_delay_ms=150");
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_until(&p, &p.confirmed, 1, 2000);
    uint64_t start = clock_now();
    assert_int_equal(p.granted, 0);
    assert_int_equal(plain_until_count(&p, &p.granted, 1, 2000), 128);
    assert_true(clock_now() - start >= 120 * CLOCK_NS_PER_MS);
    plain_close(&p);
    mock_close(m);
}

/* ---- ends -------------------------------------------------------------------------------------
 */

static void it_closes_when_told_to(void **state)
{
    (void)state;
    static const struct {
        const char *fault;
        int application, admitted;
        uint64_t code;
    } cases[] = {{"close=77@handshake", 1, 0, 77},
                 {"close=2@handshake", 1, 0, 2},
                 {"close=4@hello", 0, 0, 0x0c},
                 {"close=1@idle:80", 1, 1, 1},
                 {"close=3@stream:3", 1, 1, 3},
                 {"close=9@after:80", 1, 1, 9},
                 {"refuse=1", 0, 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plain p;
        mock *m = leader(cases[i].fault);
        assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
        if (cases[i].admitted) {
            assert_true(plain_until_count(&p, &p.granted, 1, 2000) > 0);
            plain_burst(&p, 0, 2, 200);
            plain_run(&p, 10);
            assert_false(p.ended);
            if (strstr(cases[i].fault, "stream") != NULL) {
                plain_burst(&p, 2, 1, 200);
            }
        }
        plain_until(&p, &p.closed, 1, 2000);
        assert_true(p.closed);
        assert_int_equal(p.close_application, cases[i].application);
        assert_int_equal(p.close_code, cases[i].code);
        assert_int_equal(plain_counts(m).accepted, cases[i].admitted ? 2 : 0);
        plain_close(&p);
        mock_close(m);
    }
}

static void a_handshake_may_take_two_seconds(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("");
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    usleep(2100 * 1000); /* hears nothing, says nothing */
    plain_until(&p, &p.closed, 1, 500);
    assert_true(p.closed);
    assert_false(p.close_application); /* application close 0, as it looks in a handshake */
    assert_int_equal(p.close_code, 0x0c);
    assert_int_equal(plain_counts(m).connections, 0);
    plain_close(&p);
    mock_close(m);
}

static void initials_can_be_ignored(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("ignore_initials=2");
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_until(&p, &p.completed, 1, 3000);
    assert_int_equal(p.completed, 1);
    assert_int_equal(plain_counts(m).initials_ignored, 2);
    plain_close(&p);
    plain_fault(m, "ignore_initials=1");
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_run(&p, 400);
    assert_int_equal(p.received, 0);
    plain_close(&p);
    mock_close(m);
}

static void silence_ends_at_the_idle_timeout(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("idle_ms=200");
    plain_admit(&p, m, NULL);
    assert_int_equal(p.peer.max_idle_timeout, 200 * CLOCK_NS_PER_MS);
    uint64_t start = clock_now();
    plain_run(&p, 3000);
    assert_int_equal(p.end_rv, NGTCP2_ERR_IDLE_CLOSE);
    assert_true(clock_now() - start >= 150 * CLOCK_NS_PER_MS);
    plain_close(&p);
    mock_close(m);
}

static void a_forgotten_connection_answers_with_a_reset(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("firedancer", "reset=stateless@stream:1", NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_burst(&p, 1, 1, 200);
    plain_until(&p, &p.reset_seen, 1, 2000);
    assert_true(p.reset_seen);
    plain_close(&p);
    mock_close(m);
}

/* ---- TLS and versions -------------------------------------------------------------------------
 */

static void a_foreign_key_is_shown_and_proven(void **state)
{
    (void)state;
    struct plain p;
    uint8_t key[32];
    const uint8_t none[32] = {0};
    mock *m = leader("key=foreign");
    plain_admit(&p, m, NULL);
    mock_identity(m, key);
    assert_memory_not_equal(p.server_key, key, 32);
    assert_memory_not_equal(p.server_key, none, 32);
    plain_close(&p);
    plain_fault(m, "key=own");
    plain_admit(&p, m, NULL);
    assert_memory_equal(p.server_key, key, 32);
    plain_close(&p);
    mock_close(m);
}

static void another_alpn_is_another_protocol(void **state)
{
    (void)state;
    struct plain p;
    const struct plain_options o = {.alpn = "relay-1"};
    mock *m = leader("alpn=relay-1");
    plain_admit(&p, m, &o);
    plain_close(&p);
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_until(&p, &p.closed, 1, 2000);
    assert_int_equal(p.close_code, 0x178);
    plain_close(&p);
    mock_close(m);
}

static void it_can_speak_another_version(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("version_negotiation=1");
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_until(&p, &p.version_negotiated, 1, 2000);
    assert_true(p.version_negotiated);
    assert_int_equal(p.end_rv, NGTCP2_ERR_RECV_VERSION_NEGOTIATION);
    plain_close(&p);
    mock_close(m);
}

static void early_data_is_taken_or_refused(void **state)
{
    (void)state;
    struct plain first, second, third;
    uint8_t tx[200];
    mock *m = leader("early_data=1,initial_streams=16");
    plain_admit(&first, m, NULL);
    assert_int_equal(first.peer.initial_max_streams_uni, 16);
    plain_until_count(&first, &first.granted, 128, 1000);
    assert_int_equal(first.granted, 128);
    assert_true(first.ticket.session_bytes > 0);
    assert_false(first.resumed);
    const struct plain_options o = {.ticket = &first.ticket};
    assert_int_equal(plain_open(&second, mock_port(m), &o), 0);
    plain_transaction(tx, sizeof tx, 1);
    assert_false(second.completed);
    assert_true(plain_send(&second, tx, sizeof tx) >= 0); /* before any answer */
    plain_until_count(&second, &second.acked_streams, 1, 2000);
    assert_true(second.resumed);
    assert_false(second.early_refused);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    plain_fault(m, "early_data=0");
    const struct plain_options again = {.ticket = &second.ticket};
    assert_int_equal(plain_open(&third, mock_port(m), &again), 0);
    plain_transaction(tx, sizeof tx, 2);
    assert_true(plain_send(&third, tx, sizeof tx) >= 0);
    plain_until_count(&third, &third.granted, 128, 2000);
    assert_true(third.early_refused);
    assert_int_equal(plain_counts(m).accepted, 1);
    plain_burst(&third, 2, 1, 200);
    assert_int_equal(mock_wait_accepted(m, 2, 1000), 2);
    plain_close(&first);
    plain_close(&second);
    plain_close(&third);
    mock_close(m);
}

static void a_resumed_session_keeps_its_key(void **state)
{
    (void)state;
    struct plain first, second;
    mock *m = leader("");
    plain_admit(&first, m, NULL);
    plain_run(&first, 30);
    assert_true(first.ticket.session_bytes > 0);
    mock_stake(m, first.public_key, 1000);
    const struct plain_options o = {.ticket = &first.ticket};
    plain_admit(&second, m, &o);
    assert_true(second.resumed);
    assert_int_equal(second.granted, 512);
    plain_close(&first);
    plain_close(&second);
    mock_close(m);
}

static void the_hello_is_kept(void **state)
{
    (void)state;
    struct plain p;
    uint8_t hello[4096];
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    assert_int_equal(mock_hello(m, hello, sizeof hello), 0);
    plain_admit(&p, m, NULL);
    size_t bytes = mock_hello(m, hello, sizeof hello);
    assert_in_range(bytes, 100, 1200);
    assert_int_equal(hello[0], 1);                              /* ClientHello */
    assert_int_equal(hello[2] << 8 | hello[3], (int)bytes - 4); /* all of it */
    assert_int_equal(hello[1], 0);
    plain_close(&p);
    mock_close(m);
}

static void agave_can_retry_and_need_no_certificate(void **state)
{
    (void)state;
    struct plain p;
    const struct plain_options o = {.no_certificate = 1};
    mock *m = leader("retry=1,cert=none");
    plain_admit(&p, m, &o);
    assert_int_equal(p.retries, 1);
    plain_close(&p);
    mock_close(m);
}

/* ---- inside a connection ----------------------------------------------------------------------
 */

static void keys_are_updated_early_and_often(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("key_update=5");
    plain_admit(&p, m, NULL);
    for (uint32_t i = 0; i < 60; i++) {
        plain_burst(&p, i, 1, 200);
        plain_run(&p, 2);
    }
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 60, 3000), 60);
    assert_int_equal(mock_wait_accepted(m, 60, 1000), 60);
    assert_true(plain_counts(m).key_updates >= 2);
    assert_true(p.key_updates >= 2);
    plain_close(&p);
    mock_close(m);
}

static void one_rtt_packets_can_vanish_after_the_handshake(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("");
    plain_admit(&p, m, NULL);
    plain_fault(m, "drop_1rtt=1");
    plain_burst(&p, 0, 3, 200);
    plain_run(&p, 100);
    assert_int_equal(plain_counts(m).accepted, 0);
    assert_int_equal(p.acked_streams, 0);
    plain_fault(m, "drop_1rtt=0");
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 3, 3000), 3);
    assert_int_equal(mock_wait_accepted(m, 3, 1000), 3);
    plain_close(&p);
    mock_close(m);
}

static void streams_are_stopped(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("stop_sending=3");
    plain_admit(&p, m, NULL);
    plain_burst(&p, 0, 9, 200);
    assert_int_equal(plain_until(&p, &p.stops, 3, 3000), 3);
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 6, 3000), 6);
    assert_int_equal(mock_wait_accepted(m, 6, 1000), 6);
    assert_false(p.ended);
    plain_close(&p);
    mock_close(m);
}

static void it_pings_and_moves_windows_for_nothing(void **state)
{
    (void)state;
    static const char *const faults[] = {"ping_every_ms=10", "max_data_every_ms=10"};
    for (size_t i = 0; i < 2; i++) {
        struct plain p;
        mock *m = leader("");
        plain_admit(&p, m, NULL);
        plain_run(&p, 100);
        uint64_t before = p.received;
        plain_run(&p, 100);
        assert_int_equal(p.received, before);
        plain_fault(m, faults[i]);
        plain_run(&p, 200);
        assert_true(p.received >= before + 5);
        plain_burst(&p, 0, 10, 200);
        assert_int_equal(plain_until_count(&p, &p.acked_streams, 10, 2000), 10);
        plain_close(&p);
        mock_close(m);
    }
}

static void signatures_are_verified_when_asked(void **state)
{
    (void)state;
    struct plain p;
    uint8_t tx[1232];
    solsend_transfer t;
    solsend_key *key;
    mock *m = leader("verify=1");
    plain_admit(&p, m, NULL);
    assert_int_equal(solsend_key_random(&key), 0);
    assert_int_equal(solsend_transfer_init(&t, sizeof t), 0);
    t.payer = key;
    int bytes = solsend_tx_transfer(tx, sizeof tx, &t);
    assert_true(bytes > 0);
    assert_true(plain_send(&p, tx, (size_t)bytes) >= 0);
    tx[70] ^= 1; /* in the message */
    assert_true(plain_send(&p, tx, (size_t)bytes) >= 0);
    plain_burst(&p, 1, 1, 200);
    plain_until_count(&p, &p.acked_streams, 3, 2000);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    assert_int_equal(plain_counts(m).malformed, 2);
    solsend_key_close(key);
    plain_close(&p);
    mock_close(m);
}

static void fragments_out_of_order_can_be_refused_or_taken(void **state)
{
    (void)state;
    struct plain p;
    const struct plain_options o = {.payload = 1200};
    mock *m = leader("gaps_refused=1");
    plain_admit(&p, m, &o);
    p.swap_next = 1;
    plain_burst(&p, 1, 1, 1232);
    assert_int_equal(PLAIN_WAIT(m, gaps, 1), 1);
    plain_close(&p);
    mock_close(m);
    m = plain_leader("firedancer", "gaps_refused=0", NULL, NULL);
    plain_admit(&p, m, &o);
    p.swap_next = 1;
    plain_burst(&p, 1, 1, 1232);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    assert_int_equal(plain_counts(m).gaps, 0);
    plain_close(&p);
    mock_close(m);
}

/* ---- script, report, UDP ----------------------------------------------------------------------
 */

static void a_script_changes_faults_over_time(void **state)
{
    (void)state;
    struct plain p;
    mock *m =
        plain_leader("agave-4.3", RELAXED ",grant=never", NULL,
                     "@600ms grant=total:3 ; @0.3s grant=total:1,discard=1; @600ms discard=0");
    uint64_t start = clock_now();
    assert_int_equal(plain_open(&p, mock_port(m), NULL), 0);
    plain_until(&p, &p.confirmed, 1, 2000);
    assert_int_equal(p.granted, 0);
    assert_int_equal(plain_until_count(&p, &p.granted, 1, 2000), 1);
    assert_true(clock_now() - start >= 290 * CLOCK_NS_PER_MS);
    plain_burst(&p, 0, 1, 200);
    plain_until_count(&p, &p.acked_streams, 1, 2000);
    assert_int_equal(plain_counts(m).discarded, 1);
    assert_int_equal(plain_until_count(&p, &p.granted, 3, 2000), 3);
    assert_true(clock_now() - start >= 590 * CLOCK_NS_PER_MS);
    plain_burst(&p, 1, 2, 200);
    assert_int_equal(mock_wait_accepted(m, 2, 1000), 2);
    plain_close(&p);
    mock_close(m);
}

/* Skips one JSON value; null when the text is none. */
static const char *json_value(const char *s);

static const char *json_blank(const char *s)
{
    while (*s == ' ' || *s == '\n') {
        s++;
    }
    return s;
}

static const char *json_string(const char *s)
{
    if (*s++ != '"') {
        return NULL;
    }
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20 || (*s == '\\' && strchr("\"\\/bfnrt", *++s) == NULL)) {
            return NULL;
        }
    }
    return s + 1;
}

static const char *json_list(const char *s, char end)
{
    s = json_blank(s + 1);
    if (*s == end) {
        return s + 1;
    }
    for (;;) {
        if (end == '}') {
            s = json_string(json_blank(s));
            s = s == NULL ? NULL : json_blank(s);
            if (s == NULL || *s++ != ':') {
                return NULL;
            }
        }
        s = json_value(s);
        s = s == NULL ? NULL : json_blank(s);
        if (s == NULL || (*s != ',' && *s != end)) {
            return NULL;
        }
        if (*s++ == end) {
            return s;
        }
    }
}

static const char *json_value(const char *s)
{
    char *end;
    s = json_blank(s);
    if (*s == '{' || *s == '[') {
        return json_list(s, *s == '{' ? '}' : ']');
    }
    if (*s == '"') {
        return json_string(s);
    }
    if (strncmp(s, "true", 4) == 0 || strncmp(s, "null", 4) == 0) {
        return s + 4;
    }
    if (strncmp(s, "false", 5) == 0) {
        return s + 5;
    }
    (void)strtod(s, &end);
    return end == s || !(isdigit((unsigned char)*s) || *s == '-') ? NULL : end;
}

static void the_report_is_json(void **state)
{
    (void)state;
    struct plain p;
    char *text = NULL;
    size_t bytes = 0;
    mock *m = leader("");
    for (int round = 0; round < 2; round++) {
        FILE *out = open_memstream(&text, &bytes);
        mock_report(m, out);
        fclose(out);
        const char *end = json_value(text);
        assert_non_null(end);
        assert_int_equal(*json_blank(end), '\0');
        assert_non_null(strstr(text, "\"profile\": \"agave-4.3\""));
        assert_non_null(strstr(text, round == 0 ? "\"connections\": []" : "\"accepted\": 3"));
        free(text);
        if (round == 0) {
            plain_admit(&p, m, NULL);
            plain_burst(&p, 0, 3, 200);
            assert_int_equal(mock_wait_accepted(m, 3, 1000), 3);
            plain_goodbye(&p);
            plain_close(&p);
            assert_int_equal(PLAIN_WAIT(m, closed_by_peer, 1), 1);
            plain_admit(&p, m, NULL);
        }
    }
    plain_close(&p);
    mock_close(m);
}

static void udp_counts_a_transaction_a_datagram(void **state)
{
    (void)state;
    uint8_t tx[1232];
    char peer[64], own[64], uri[64];
    const mock_arrival *arrivals;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, from;
    socklen_t length = sizeof from;
    mock *m = plain_leader("udp", NULL, NULL, NULL);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons(mock_port(m));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&from, &length), 0);
    for (uint32_t i = 0; i < 20; i++) {
        plain_transaction(tx, sizeof tx, i / 2);
        assert_int_equal(send(fd, tx, sizeof tx, 0), sizeof tx);
    }
    assert_int_equal(send(fd, "short", 5, 0), 5);
    assert_int_equal(PLAIN_WAIT(m, malformed, 1), 1);
    mock_counts c = plain_counts(m);
    assert_int_equal(c.accepted, 20);
    assert_int_equal(c.distinct, 10);
    assert_int_equal(c.datagrams, 21);
    assert_int_equal(mock_arrivals(m, &arrivals), 20);
    assert_int_equal(arrivals[3].frames, 1);
    assert_int_equal(arrivals[3].copies, 2);
    mock_last_peer(m, peer, sizeof peer);
    snprintf(own, sizeof own, "127.0.0.1:%u", ntohs(from.sin_port));
    assert_string_equal(peer, own);
    mock_uri(m, uri, sizeof uri);
    assert_memory_equal(uri, "udp://127.0.0.1:", 16);
    close(fd);
    mock_close(m);
}

static void it_stops_and_starts_again(void **state)
{
    (void)state;
    struct plain p;
    mock *m = leader("");
    plain_admit(&p, m, NULL);
    mock_stop(m);
    plain_burst(&p, 0, 5, 200);
    plain_run(&p, 50);
    assert_int_equal(plain_counts(m).accepted, 0);
    assert_int_equal(mock_start(m), 0);
    assert_int_equal(mock_start(m), -1);
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 5, 2000), 5);
    plain_close(&p);
    mock_close(m);
}

static void fed_garbage_does_no_harm(void **state)
{
    (void)state;
    char why[256];
    uint8_t data[1500];
    uint32_t x = 1;
    const mock_config config = {.profile = "firedancer", .cpu = -1, .seed = 3};
    mock *m;
    assert_int_equal(mock_open(&m, &config, why, sizeof why), 0);
    for (int i = 0; i < 2000; i++) {
        for (size_t k = 0; k < sizeof data; k++) {
            x = x * 1664525u + 1013904223u;
            data[k] = (uint8_t)(x >> 24);
        }
        data[0] |= i % 2 == 0 ? 0xc0 : 0x40;
        if (i % 4 == 0) {
            memcpy(data + 1, "\0\0\0\1\10", 5); /* version 1, a CID of eight */
            data[14] = 8;
            data[0] = 0xc3;
            data[23] = (uint8_t)(i % 3 == 0 ? 0 : 20);
        }
        mock_feed(m, data, (size_t)(x % sizeof data));
    }
    assert_true(plain_counts(m).datagrams == 2000);
    mock_close(m);
}

static void wrong_configurations_are_named(void **state)
{
    (void)state;
    static const struct {
        mock_config config;
        const char *word;
    } cases[] = {
        {{.profile = "agave-9"}, "agave-4.3"},
        {{.profile = NULL}, "profile"},
        {{.profile = "udp", .listen = "127.0.0.1"}, "127.0.0.1"},
        {{.profile = "udp", .listen = "127.0.0.1:70000"}, "70000"},
        {{.profile = "udp", .listen = "[::1:5"}, "[::1:5"},
        {{.profile = "udp", .listen = "203.0.113.9:5"}, "203.0.113.9"},
        {{.profile = "udp", .faults = "los=1"}, "\"los\""},
        {{.profile = "udp", .faults = "loss"}, "name=value"},
        {{.profile = "udp", .faults = "loss=2"}, "loss cannot be \"2\""},
        {{.profile = "udp", .faults = "rtt_ms=-1"}, "rtt_ms"},
        {{.profile = "udp", .faults = "rtt_ms=1x"}, "rtt_ms"},
        {{.profile = "udp", .faults = "rtt_ms=nan"}, "rtt_ms"},
        {{.profile = "udp", .faults = "refuse=1,close=5@teatime"}, "5@teatime"},
        {{.profile = "udp", .faults = "close=five@handshake"}, "close"},
        {{.profile = "udp", .faults = "ack=late"}, "ack"},
        {{.profile = "udp", .faults = "grant=total:x"}, "grant"},
        {{.profile = "udp", .faults = "alpn="}, "alpn"},
        {{.profile = "udp", .faults = "mtu=1.5"}, "mtu"},
        {{.profile = "udp", .script = "500ms loss=1"}, "@500ms"},
        {{.profile = "udp", .script = "@500 loss=1"}, "@500"},
        {{.profile = "udp", .script = "@1s loss=1; @2s los=1"}, "los"},
        {{.profile = "agave-4.3", .stakes = "abc=5"}, "abc"},
        {{.profile = "agave-4.3", .stakes = "11111111111111111111111111111111=x"}, "lamports"},
        {{.profile = "agave-4.3", .stakes = "file:/nonexistent/x"}, "/nonexistent/x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[256] = "";
        mock *m = (mock *)&m;
        assert_int_equal(mock_open(&m, &cases[i].config, why, sizeof why), -1);
        assert_null(m);
        if (strstr(why, cases[i].word) == NULL) {
            fail_msg("case %zu says \"%s\", not %s", i, why, cases[i].word);
        }
    }
}

static void a_taken_port_is_an_error(void **state)
{
    (void)state;
    char why[256] = "", listen[64];
    mock *other;
    mock *m = plain_leader("udp", NULL, NULL, NULL);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", mock_port(m));
    const mock_config config = {.profile = "udp", .listen = listen, .cpu = -1};
    assert_int_equal(mock_open(&other, &config, why, sizeof why), -1);
    assert_non_null(strstr(why, listen));
    mock_close(m);
    mock_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rtt_is_added_both_ways_together),
        cmocka_unit_test(losses_are_repaired_by_the_sender_and_counted),
        cmocka_unit_test(duplicates_and_reordering_change_nothing_for_agave),
        cmocka_unit_test(larger_datagrams_vanish),
        cmocka_unit_test(without_acknowledgements_it_still_accepts),
        cmocka_unit_test(acknowledgements_can_be_late),
        cmocka_unit_test(what_is_discarded_is_acknowledged_all_the_same),
        cmocka_unit_test(credit_comes_when_it_is_granted),
        cmocka_unit_test(a_total_is_never_renewed_until_raised),
        cmocka_unit_test(a_shrunken_window_is_renewed_by_its_new_size),
        cmocka_unit_test(the_first_grant_can_be_late),
        cmocka_unit_test(it_closes_when_told_to),
        cmocka_unit_test(a_handshake_may_take_two_seconds),
        cmocka_unit_test(initials_can_be_ignored),
        cmocka_unit_test(silence_ends_at_the_idle_timeout),
        cmocka_unit_test(a_forgotten_connection_answers_with_a_reset),
        cmocka_unit_test(a_foreign_key_is_shown_and_proven),
        cmocka_unit_test(another_alpn_is_another_protocol),
        cmocka_unit_test(it_can_speak_another_version),
        cmocka_unit_test(early_data_is_taken_or_refused),
        cmocka_unit_test(a_resumed_session_keeps_its_key),
        cmocka_unit_test(the_hello_is_kept),
        cmocka_unit_test(agave_can_retry_and_need_no_certificate),
        cmocka_unit_test(keys_are_updated_early_and_often),
        cmocka_unit_test(one_rtt_packets_can_vanish_after_the_handshake),
        cmocka_unit_test(streams_are_stopped),
        cmocka_unit_test(it_pings_and_moves_windows_for_nothing),
        cmocka_unit_test(signatures_are_verified_when_asked),
        cmocka_unit_test(fragments_out_of_order_can_be_refused_or_taken),
        cmocka_unit_test(a_script_changes_faults_over_time),
        cmocka_unit_test(the_report_is_json),
        cmocka_unit_test(udp_counts_a_transaction_a_datagram),
        cmocka_unit_test(it_stops_and_starts_again),
        cmocka_unit_test(fed_garbage_does_no_harm),
        cmocka_unit_test(wrong_configurations_are_named),
        cmocka_unit_test(a_taken_port_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
