/* The mock leader behaves as real leaders do, shown with a client that has no manners. */
#include "plain_bed.h"

#include "mock/credentials.h"

#include "base/clock.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <solsend/key.h>

#define RELAXED "throttle=off,conn_per_min=100000"

/* "KEY=LAMPORTS" for the identity of 32 x seed, then a big rest. */
static const char *stakes(char out[256], uint8_t seed, uint64_t lamports, uint64_t rest)
{
    uint8_t bytes[32], public_key[32];
    char text[64], other[64];
    solsend_key *key;
    memset(bytes, seed, sizeof bytes);
    assert_int_equal(solsend_key_from_seed(&key, bytes), 0);
    assert_int_equal(solsend_key_public(key, public_key), 0);
    solsend_key_close(key);
    assert_true(solsend_base58_encode(text, sizeof text, public_key, 32) > 0);
    memset(public_key, 0x55, sizeof public_key);
    assert_true(solsend_base58_encode(other, sizeof other, public_key, 32) > 0);
    snprintf(out, 256, "%s=%llu,%s=%llu", text, (unsigned long long)lamports, other,
             (unsigned long long)rest);
    return out;
}

/* ---- Agave ------------------------------------------------------------------------------------
 */

static void every_transaction_is_accepted_once_in_one_frame(void **state)
{
    (void)state;
    struct plain p;
    const mock_arrival *arrivals;
    uint8_t tx[1232];
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_burst(&p, 0, 60, 250);
    plain_burst(&p, 60, 40, 1232);
    plain_until_count(&p, &p.acked_streams, 100, 2000);
    assert_int_equal(p.acked_streams, 100);
    assert_int_equal(mock_wait_accepted(m, 100, 1000), 100);
    assert_int_equal(mock_arrivals(m, &arrivals), 100);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(arrivals[i].frames, 1);
        assert_int_equal(arrivals[i].copies, 1);
        assert_int_equal(arrivals[i].bytes, i < 60 ? 250 : 1232);
        assert_true(arrivals[i].received_ns <= arrivals[i].accepted_ns);
        plain_transaction(tx, sizeof tx, i);
        assert_true(mock_saw(m, tx + 1));
        assert_memory_equal(&arrivals[i].signature_head, tx + 1, 8);
    }
    plain_transaction(tx, sizeof tx, 100);
    assert_false(mock_saw(m, tx + 1));
    mock_counts c = plain_counts(m);
    assert_int_equal(c.distinct, 100);
    assert_int_equal(c.stream_frames, 100);
    assert_int_equal(c.streams_split, 0);
    assert_int_equal(c.malformed, 0);
    plain_close(&p);
    mock_close(m);
}

static void a_second_copy_is_counted_as_one(void **state)
{
    (void)state;
    struct plain p;
    const mock_arrival *arrivals;
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_burst(&p, 5, 1, 300);
    plain_burst(&p, 5, 1, 300);
    plain_burst(&p, 6, 1, 300);
    plain_until_count(&p, &p.acked_streams, 3, 2000);
    assert_int_equal(mock_wait_accepted(m, 3, 1000), 3);
    assert_int_equal(plain_counts(m).distinct, 2);
    assert_int_equal(mock_arrivals(m, &arrivals), 3);
    assert_int_equal(arrivals[1].copies, 2);
    mock_forget(m);
    assert_int_equal(plain_counts(m).accepted, 0);
    assert_int_equal(mock_arrivals(m, &arrivals), 0);
    plain_burst(&p, 5, 1, 300);
    plain_until_count(&p, &p.acked_streams, 4, 2000);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    assert_int_equal(plain_counts(m).distinct, 1);
    plain_close(&p);
    mock_close(m);
}

static void agave_announces_no_streams_and_grants_them_after_admission(void **state)
{
    (void)state;
    struct plain p;
    uint8_t key[32];
    mock *m = plain_leader("agave-4.3", NULL, NULL, NULL);
    plain_admit(&p, m, NULL);
    assert_int_equal(p.peer.initial_max_streams_uni, 0);
    assert_int_equal(p.peer.initial_max_streams_bidi, 0);
    assert_int_equal(p.peer.initial_max_stream_data_uni, 4096);
    assert_int_equal(p.peer.initial_max_data, 8 << 20);
    assert_int_equal(p.peer.max_idle_timeout, 30 * CLOCK_NS_PER_S);
    assert_int_equal(p.peer.max_udp_payload_size, 1472);
    assert_true(p.peer.disable_active_migration);
    assert_int_equal(p.retries, 0);
    assert_int_equal(p.granted, 128);
    mock_identity(m, key);
    assert_memory_equal(p.server_key, key, 32);
    plain_close(&p);
    mock_close(m);
}

static void credit_is_announced_again_after_an_eighth(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_burst(&p, 0, 16, 200);
    plain_run(&p, 60);
    assert_int_equal(p.granted, 128);
    plain_burst(&p, 16, 1, 200);
    plain_until_count(&p, &p.granted, 129, 1000);
    assert_int_equal(p.granted, 128 + 17);
    assert_int_equal(plain_counts(m).grants, 2);
    plain_close(&p);
    mock_close(m);
}

static void credit_grows_with_stake_and_rtt(void **state)
{
    (void)state;
    static const struct {
        uint64_t lamports, rest;
        const char *faults;
        uint64_t low, high;
        int staked;
    } cases[] = {
        {1000, 9000, RELAXED, 512, 512, 1},            /* a tenth of all stake */
        {1000, 39999000, RELAXED, 130, 130, 1},        /* 1/40000 */
        {1000, 59999000, RELAXED, 128, 128, 0},        /* below 1/50000: as unstaked */
        {0, 1000, RELAXED ",rtt_ms=100", 256, 400, 0}, /* twice the reference RTT */
        {1000, 9000, RELAXED ",rtt_ms=100", 1024, 1600, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plain p;
        char text[256];
        struct plain_options o = {.seed = 9};
        mock *m = plain_leader("agave-4.3", cases[i].faults,
                               stakes(text, 9, cases[i].lamports, cases[i].rest), NULL);
        plain_admit(&p, m, &o);
        assert_in_range(p.granted, cases[i].low, cases[i].high);
        assert_int_equal(plain_counts(m).staked, cases[i].staked);
        plain_close(&p);
        mock_close(m);
    }
}

static void eight_new_connections_a_minute_then_silence(void **state)
{
    (void)state;
    struct plain p;
    struct plain_options o = plain_from(1);
    mock *m = plain_leader("agave-4.3", NULL, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        plain_admit(&p, m, &o);
        plain_goodbye(&p);
        plain_close(&p);
    }
    assert_int_equal(plain_open(&p, mock_port(m), &o), 0);
    plain_run(&p, 300);
    assert_int_equal(p.completed, 0);
    assert_int_equal(p.received, 0);
    plain_close(&p);
    mock_counts c = plain_counts(m);
    assert_int_equal(c.admitted, 8);
    assert_true(c.initials_ignored >= 2);
    /* Another address has its own eight. */
    o = plain_from(2);
    plain_admit(&p, m, &o);
    plain_close(&p);
    mock_close(m);
}

/* Opens so many at once; returns how many were admitted, the others' close code in *code. */
static uint32_t crowd(const mock *m, uint32_t count, int same_key, int own_address, uint64_t *code,
                      char reason[32])
{
    static struct plain crowd_of[32];
    uint32_t admitted = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct plain_options o = plain_from((uint8_t)(own_address ? i + 1 : 1));
        o.seed = (uint8_t)(same_key ? 9 : i + 1);
        assert_int_equal(plain_open(&crowd_of[i], mock_port(m), &o), 0);
    }
    for (int round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < count; i++) {
            plain_run(&crowd_of[i], 1);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct plain *p = &crowd_of[i];
        admitted += !p->ended && p->granted > 0;
        if (p->closed && p->close_application) {
            *code = p->close_code;
            memcpy(reason, p->close_reason, 32);
        }
        plain_close(p);
    }
    return admitted;
}

static void the_ninth_at_once_is_disallowed(void **state)
{
    (void)state;
    uint64_t code = 0;
    char reason[32] = "";
    mock *m = plain_leader("agave-4.3", "per_ip=100", NULL, NULL);
    assert_int_equal(crowd(m, 12, 0, 0, &code, reason), 8);
    assert_int_equal(code, 2);
    assert_string_equal(reason, "disallowed");
    assert_int_equal(plain_counts(m).refused, 4);
    mock_close(m);
}

static void an_unstaked_ip_has_eight_places(void **state)
{
    (void)state;
    uint64_t code = 0;
    char reason[32] = "";
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    assert_int_equal(crowd(m, 12, 0, 0, &code, reason), 8);
    assert_int_equal(code, 4);
    assert_string_equal(reason, "too_many");
    mock_close(m);
}

static void a_staked_key_has_sixteen_places(void **state)
{
    (void)state;
    uint64_t code = 0;
    char reason[32] = "", text[256];
    mock *m = plain_leader("agave-4.3", RELAXED, stakes(text, 9, 1000, 9000), NULL);
    assert_int_equal(crowd(m, 20, 1, 0, &code, reason), 16);
    assert_int_equal(code, 4);
    assert_int_equal(plain_counts(m).staked, 16);
    mock_close(m);
}

static void every_address_has_places_of_its_own(void **state)
{
    (void)state;
    uint64_t code = 0;
    char reason[32] = "";
    mock *m = plain_leader("agave-4.3", NULL, NULL, NULL);
    assert_int_equal(crowd(m, 24, 1, 1, &code, reason), 24);
    mock_close(m);
}

static void a_full_table_drops_its_oldest(void **state)
{
    (void)state;
    uint64_t code = 0;
    char reason[32] = "";
    mock *m = plain_leader("agave-4.3", "max_unstaked=6", NULL, NULL);
    assert_int_equal(crowd(m, 10, 0, 1, &code, reason), 6);
    assert_int_equal(code, 1);
    assert_string_equal(reason, "dropped");
    mock_counts c = plain_counts(m);
    assert_int_equal(c.admitted, 10);
    assert_int_equal(c.evicted, 4);
    mock_close(m);
}

static void more_stake_takes_the_place_of_less(void **state)
{
    (void)state;
    struct plain p[3];
    char text[256];
    uint8_t seed[32];
    mock *m = plain_leader("agave-4.3", RELAXED ",max_staked=2", NULL, NULL);
    for (uint8_t k = 0; k < 3; k++) {
        struct plain_options o = plain_from((uint8_t)(k + 1));
        uint8_t key[32];
        solsend_key *pair;
        memset(seed, k + 1, sizeof seed);
        assert_int_equal(solsend_key_from_seed(&pair, seed), 0);
        assert_int_equal(solsend_key_public(pair, key), 0);
        solsend_key_close(pair);
        mock_stake(m, key, k == 2 ? 9000 : 1000);
        plain_admit(&p[k], m, &o);
        assert_int_equal(plain_counts(m).staked, k + 1);
    }
    plain_run(&p[0], 30);
    plain_run(&p[1], 30);
    assert_int_equal(p[0].closed + p[1].closed, 1);
    assert_int_equal(p[p[0].closed ? 0 : 1].close_code, 1);
    assert_false(p[2].ended);
    for (int k = 0; k < 3; k++) {
        plain_close(&p[k]);
    }
    (void)text;
    mock_close(m);
}

static void unstaked_streams_are_read_late_not_refused(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("agave-4.3", NULL, NULL, NULL);
    plain_admit(&p, m, NULL);
    uint64_t start = clock_now();
    plain_burst(&p, 0, 128, 100);
    for (uint32_t sent = 128; clock_now() - start < 700 * CLOCK_NS_PER_MS;) {
        while (plain_streams_left(&p) > 0) {
            plain_burst(&p, sent++, 1, 100);
        }
        plain_run(&p, 1);
    }
    mock_counts c = plain_counts(m);
    uint64_t windows = (clock_now() - start) / (100 * CLOCK_NS_PER_MS);
    assert_in_range(c.accepted, 20 * (windows - 3), 21 * (windows + 2));
    assert_true(c.throttle_waits >= 3);
    assert_int_equal(p.stops, 0);
    assert_false(p.ended);
    plain_close(&p);
    mock_close(m);
}

static void staked_streams_are_not_throttled(void **state)
{
    (void)state;
    struct plain p;
    char text[256];
    struct plain_options o = {.seed = 9};
    mock *m = plain_leader("agave-4.3", NULL, stakes(text, 9, 1000, 9000), NULL);
    plain_admit(&p, m, &o);
    plain_burst(&p, 0, 200, 100);
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 200, 2000), 200);
    assert_int_equal(mock_wait_accepted(m, 200, 1000), 200);
    assert_int_equal(plain_counts(m).throttle_waits, 0);
    plain_close(&p);
    mock_close(m);
}

/* Handshakes with these options; checks how the server ended it. */
static void assert_refused(const char *profile, const struct plain_options *options, uint64_t code)
{
    struct plain p;
    mock *m = plain_leader(profile, NULL, NULL, NULL);
    assert_int_equal(plain_open(&p, mock_port(m), options), 0);
    plain_until(&p, &p.closed, 1, 2000);
    assert_true(p.closed);
    assert_false(p.close_application);
    assert_int_equal(p.close_code, code);
    assert_int_equal(plain_counts(m).admitted, 0);
    plain_close(&p);
    mock_close(m);
}

static void no_certificate_is_refused(void **state)
{
    (void)state;
    const struct plain_options o = {.no_certificate = 1};
    assert_refused("agave-4.3", &o, 0x174);
    assert_refused("firedancer", &o, 0x12a);
}

static void another_alpn_or_none_is_refused(void **state)
{
    (void)state;
    const struct plain_options other = {.alpn = "h3"};
    const struct plain_options none = {.alpn = ""};
    assert_refused("agave-4.3", &other, 0x178);
    assert_refused("agave-4.3", &none, 0x178);
    assert_refused("firedancer", &other, 0x178);
}

static void a_chain_of_two_is_anonymous(void **state)
{
    (void)state;
    struct plain p;
    char text[256];
    const struct plain_options o = {.seed = 9, .chain = 1};
    mock *m = plain_leader("agave-4.3", RELAXED, stakes(text, 9, 1000, 9000), NULL);
    plain_admit(&p, m, &o);
    assert_int_equal(p.granted, 128);
    assert_int_equal(plain_counts(m).staked, 0);
    plain_close(&p);
    mock_close(m);
}

static void an_empty_stream_costs_the_connection(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_write(&p, plain_stream(&p), NULL, 0, 1);
    plain_until(&p, &p.closed, 1, 2000);
    assert_true(p.close_application);
    assert_int_equal(p.close_code, 5);
    assert_string_equal(p.close_reason, "invalid_stream");
    plain_close(&p);
    mock_close(m);
}

static void a_stream_over_the_limit_costs_the_connection(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        size_t good, bad;
    } cases[] = {{"agave-4.3", 4096, 4097}, {"agave-4.0", 1232, 1233}, {"agave-4.3", 1, 6000}};
    uint8_t tx[6000];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plain p;
        mock *m = plain_leader(cases[i].profile, RELAXED, NULL, NULL);
        plain_admit(&p, m, NULL);
        plain_transaction(tx, sizeof tx, 1);
        assert_true(plain_send(&p, tx, cases[i].good) >= 0);
        plain_until_count(&p, &p.acked_streams, 1, 2000);
        assert_false(p.ended);
        int64_t id = plain_stream(&p);
        for (size_t at = 0; at < cases[i].bad && !p.ended;) { /* as the window allows */
            size_t n = cases[i].bad - at < 1000 ? cases[i].bad - at : 1000;
            if (at + n > ngtcp2_conn_get_max_stream_data_left(p.quic, id) + at) {
                n = ngtcp2_conn_get_max_stream_data_left(p.quic, id);
            }
            assert_int_equal(n == 0 ? 0 : plain_write(&p, id, tx + at, n, at + n == cases[i].bad),
                             0);
            at += n;
            plain_run(&p, 2);
        }
        plain_until(&p, &p.closed, 1, 2000);
        assert_true(p.close_application);
        assert_int_equal(p.close_code, 5);
        plain_close(&p);
        mock_close(m);
    }
}

static void a_half_sent_stream_blocks_those_behind_it_for_two_seconds(void **state)
{
    (void)state;
    struct plain p;
    uint8_t tx[400];
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_transaction(tx, sizeof tx, 1);
    uint64_t start = clock_now();
    assert_int_equal(plain_write(&p, plain_stream(&p), tx, 200, 0), 0);
    plain_burst(&p, 2, 3, 200);
    plain_run(&p, 300);
    assert_int_equal(plain_counts(m).accepted, 0);
    plain_until(&p, &p.stops, 1, 4000);
    assert_int_equal(p.stops, 1);
    assert_true(clock_now() - start >= 1900 * CLOCK_NS_PER_MS);
    assert_int_equal(mock_wait_accepted(m, 3, 1000), 3);
    assert_int_equal(plain_counts(m).chunk_timeouts, 1);
    plain_close(&p);
    mock_close(m);
}

static void a_transaction_in_two_packets_is_counted_as_split(void **state)
{
    (void)state;
    struct plain p;
    const mock_arrival *arrivals;
    const struct plain_options o = {.payload = 1200};
    mock *m = plain_leader("agave-4.3", RELAXED, NULL, NULL);
    plain_admit(&p, m, &o);
    p.swap_next = 1; /* Agave does not mind the order */
    plain_burst(&p, 1, 1, 1232);
    plain_until_count(&p, &p.acked_streams, 1, 2000);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    assert_int_equal(mock_arrivals(m, &arrivals), 1);
    assert_int_equal(arrivals[0].frames, 2);
    assert_int_equal(plain_counts(m).streams_split, 1);
    assert_int_equal(plain_counts(m).gaps, 0);
    plain_close(&p);
    mock_close(m);
}

static void an_unknown_connection_is_reset(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("agave-4.3", RELAXED ",reset=stateless@stream:2", NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_burst(&p, 1, 1, 200);
    plain_run(&p, 20);
    assert_false(p.ended);
    plain_burst(&p, 2, 1, 200);
    plain_until(&p, &p.reset_seen, 1, 2000);
    assert_true(p.reset_seen);
    assert_int_equal(plain_counts(m).accepted, 1);
    plain_close(&p);
    mock_close(m);
}

/* ---- Firedancer -------------------------------------------------------------------------------
 */

static void firedancer_retries_and_lets_streams_flow_at_once(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    plain_admit(&p, m, NULL);
    assert_int_equal(p.retries, 1);
    assert_int_equal(p.peer.initial_max_streams_uni, UINT64_C(1) << 60);
    assert_int_equal(p.peer.initial_max_stream_data_uni, 4096);
    assert_int_equal(p.peer.max_idle_timeout, 10 * CLOCK_NS_PER_S);
    assert_int_equal(p.peer.max_ack_delay, 20 * CLOCK_NS_PER_MS);
    plain_burst(&p, 0, 50, 1232 / 4);
    assert_int_equal(plain_until_count(&p, &p.acked_streams, 50, 2000), 50);
    assert_int_equal(mock_wait_accepted(m, 50, 1000), 50);
    mock_counts c = plain_counts(m);
    assert_int_equal(c.retries_sent, 1);
    assert_int_equal(c.throttle_waits, 0);
    plain_close(&p);
    mock_close(m);
}

/* A certificate of the same key with another serial number and a valid signature. */
static size_t other_certificate(uint8_t *out, size_t room, uint8_t seed)
{
    uint8_t secret[32], public_key[32], serial[1] = {7};
    solsend_key *pair;
    gnutls_privkey_t key;
    gnutls_pubkey_t pub;
    gnutls_x509_crt_t crt;
    memset(secret, seed, sizeof secret);
    assert_int_equal(solsend_key_from_seed(&pair, secret), 0);
    assert_int_equal(solsend_key_public(pair, public_key), 0);
    solsend_key_close(pair);
    gnutls_datum_t x = {public_key, 32}, k = {secret, 32};
    assert_int_equal(gnutls_privkey_init(&key), 0);
    assert_int_equal(gnutls_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &x, NULL, &k), 0);
    assert_int_equal(gnutls_pubkey_init(&pub), 0);
    assert_int_equal(gnutls_pubkey_import_privkey(pub, key, 0, 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, serial, sizeof serial);
    gnutls_x509_crt_set_activation_time(crt, 0);
    gnutls_x509_crt_set_expiration_time(crt, 4102444800);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "Solana node", 11);
    assert_int_equal(gnutls_x509_crt_set_pubkey(crt, pub), 0);
    assert_int_equal(gnutls_x509_crt_privkey_sign(crt, crt, key, GNUTLS_DIG_SHA512, 0), 0);
    assert_int_equal(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_DER, out, &room), 0);
    gnutls_x509_crt_deinit(crt);
    gnutls_pubkey_deinit(pub);
    gnutls_privkey_deinit(key);
    return room;
}

static void firedancer_compares_the_certificate_byte_by_byte(void **state)
{
    (void)state;
    uint8_t der[1024];
    struct plain_options o = {.seed = 9, .der = der};
    o.der_bytes = (uint32_t)other_certificate(der, sizeof der, 9);
    assert_refused("firedancer", &o, 0x12b);
    /* Agave takes it, and reads the key. */
    struct plain p;
    char text[256];
    mock *m = plain_leader("agave-4.3", RELAXED, stakes(text, 9, 1000, 9000), NULL);
    plain_admit(&p, m, &o);
    assert_int_equal(plain_counts(m).staked, 1);
    plain_close(&p);
    mock_close(m);
}

static void firedancer_wants_the_hello_in_order(void **state)
{
    (void)state;
    struct plain p;
    const struct plain_options o = {.split_hello = 1};
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    assert_int_equal(plain_open(&p, mock_port(m), &o), 0);
    plain_until(&p, &p.completed, 1, 400);
    assert_int_equal(p.retries, 1);
    assert_int_equal(p.completed, 0);
    assert_true(plain_counts(m).hello_disordered >= 1);
    plain_close(&p);
    plain_fault(m, "ordered=0");
    plain_admit(&p, m, &o);
    plain_close(&p);
    mock_close(m);
    m = plain_leader("agave-4.3", NULL, NULL, NULL);
    plain_admit(&p, m, &o);
    assert_true(plain_counts(m).hello_disordered >= 1);
    plain_close(&p);
    mock_close(m);
}

static void a_retry_token_lives_one_second(void **state)
{
    (void)state;
    struct plain p;
    struct plain_options o = {.retry_pause_ms = 300};
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    plain_admit(&p, m, &o);
    plain_close(&p);
    o.retry_pause_ms = 1200;
    assert_int_equal(plain_open(&p, mock_port(m), &o), 0);
    plain_until(&p, &p.completed, 1, 1500);
    assert_int_equal(p.completed, 0);
    assert_int_equal(p.received, 1); /* the Retry, then silence */
    assert_true(plain_counts(m).tokens_refused >= 1);
    plain_close(&p);
    mock_close(m);
}

static void firedancer_refuses_fragments_out_of_order(void **state)
{
    (void)state;
    struct plain p;
    const mock_arrival *arrivals;
    const struct plain_options o = {.payload = 1200};
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    plain_admit(&p, m, &o);
    plain_burst(&p, 1, 1, 1232); /* in order: taken */
    plain_until_count(&p, &p.acked_streams, 1, 2000);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    assert_int_equal(plain_counts(m).gaps, 0);
    p.swap_next = 1;
    plain_burst(&p, 2, 1, 1232);
    assert_int_equal(PLAIN_WAIT(m, gaps, 1), 1);
    assert_int_equal(plain_counts(m).accepted, 1);
    plain_until_count(&p, &p.acked_streams, 2, 2000); /* until it is sent again */
    assert_int_equal(mock_wait_accepted(m, 2, 1000), 2);
    assert_int_equal(mock_arrivals(m, &arrivals), 2);
    assert_int_equal(arrivals[1].frames, 2);
    plain_close(&p);
    mock_close(m);
}

static void firedancer_drops_what_is_too_short(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_burst(&p, 1, 1, 133);
    plain_burst(&p, 2, 1, 134);
    plain_until_count(&p, &p.acked_streams, 2, 2000);
    assert_int_equal(mock_wait_accepted(m, 1, 1000), 1);
    assert_int_equal(plain_counts(m).malformed, 1);
    plain_close(&p);
    mock_close(m);
}

static void firedancer_holds_acknowledgements_back(void **state)
{
    (void)state;
    struct plain p;
    mock *m = plain_leader("firedancer", NULL, NULL, NULL);
    plain_admit(&p, m, NULL);
    plain_run(&p, 30);
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t start = clock_now();
        plain_burst(&p, i, 1, 200);
        plain_until_count(&p, &p.acked_streams, i + 1, 2000);
        assert_true(clock_now() - start >= 9 * CLOCK_NS_PER_MS);
        plain_run(&p, 5);
    }
    plain_close(&p);
    mock_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transaction_is_accepted_once_in_one_frame),
        cmocka_unit_test(a_second_copy_is_counted_as_one),
        cmocka_unit_test(agave_announces_no_streams_and_grants_them_after_admission),
        cmocka_unit_test(credit_is_announced_again_after_an_eighth),
        cmocka_unit_test(credit_grows_with_stake_and_rtt),
        cmocka_unit_test(eight_new_connections_a_minute_then_silence),
        cmocka_unit_test(the_ninth_at_once_is_disallowed),
        cmocka_unit_test(an_unstaked_ip_has_eight_places),
        cmocka_unit_test(a_staked_key_has_sixteen_places),
        cmocka_unit_test(every_address_has_places_of_its_own),
        cmocka_unit_test(a_full_table_drops_its_oldest),
        cmocka_unit_test(more_stake_takes_the_place_of_less),
        cmocka_unit_test(unstaked_streams_are_read_late_not_refused),
        cmocka_unit_test(staked_streams_are_not_throttled),
        cmocka_unit_test(no_certificate_is_refused),
        cmocka_unit_test(another_alpn_or_none_is_refused),
        cmocka_unit_test(a_chain_of_two_is_anonymous),
        cmocka_unit_test(an_empty_stream_costs_the_connection),
        cmocka_unit_test(a_stream_over_the_limit_costs_the_connection),
        cmocka_unit_test(a_half_sent_stream_blocks_those_behind_it_for_two_seconds),
        cmocka_unit_test(a_transaction_in_two_packets_is_counted_as_split),
        cmocka_unit_test(an_unknown_connection_is_reset),
        cmocka_unit_test(firedancer_retries_and_lets_streams_flow_at_once),
        cmocka_unit_test(firedancer_compares_the_certificate_byte_by_byte),
        cmocka_unit_test(firedancer_wants_the_hello_in_order),
        cmocka_unit_test(a_retry_token_lives_one_second),
        cmocka_unit_test(firedancer_refuses_fragments_out_of_order),
        cmocka_unit_test(firedancer_drops_what_is_too_short),
        cmocka_unit_test(firedancer_holds_acknowledgements_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
