/* Handshakes: who may connect to whom, what a refusal is called, and where the packets go. */
#include "bed.h"

#include "plain_client.h"
#include "relay.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ALERT_CERT_REQUIRED = 0x174, ALERT_NO_ALPN = 0x178, ALERT_UNSUPPORTED_CERT = 0x12b };

static uint64_t ms_since(uint64_t start_ns)
{
    return (solsend_now_ns() - start_ns) / 1000000;
}

/* The link ends with this code and this peer code, and every way to ask says so. */
static void assert_ends(struct bed *bed, int code, uint64_t peer_code)
{
    assert_int_equal(bed_until_end(bed, 5000), code);
    solsend_link_info info = bed_info(bed);
    assert_int_equal(info.state, SOLSEND_LINK_ENDED);
    assert_int_equal(info.end_code, code);
    assert_int_equal(info.end_peer_code, peer_code);
    assert_int_equal(bed->seen[SOLSEND_EVENT_LINK_CLOSED], 1);
    assert_int_equal(bed->last[SOLSEND_EVENT_LINK_CLOSED].code, code);
    assert_int_equal(bed->last[SOLSEND_EVENT_LINK_CLOSED].peer_code, peer_code);
    assert_int_equal(bed_send(bed, 250, 0, 0), SOLSEND_ERR_CLOSED);
    assert_int_equal(solsend_link_next_timeout_ns(bed->link), UINT64_MAX);
}

/* It is over, and the link does not start again by itself. */
static void assert_stays_quiet(struct bed *bed)
{
    uint64_t sent = bed_stats(bed).datagrams_sent;
    uint64_t initials = bed_counts(bed).initials;
    bed_run(bed, 200);
    assert_int_equal(bed_stats(bed).datagrams_sent, sent);
    assert_int_equal(bed_counts(bed).initials, initials);
}

static void expect_one_transaction(struct bed *bed)
{
    assert_in_range(bed_send(bed, 250, 2000, 1), 0, 1);
    bed_until(bed, SOLSEND_EVENT_ACKED, 1, 5000);
    assert_int_equal(mock_wait_accepted(bed->leader, 1, 5000), 1);
    bed_assert_accounted(bed);
}

/* ---- ALPN --------------------------------------------------------------------------------------
 */

static void the_right_alpn_connects(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed_admit(&bed);
    expect_one_transaction(&bed);
    bed_close(&bed);

    /* and it is the name that decides, not the default */
    bed_open(&bed, "agave-4.3", "alpn=private-relay");
    strncat(bed.uri, "?alpn=private-relay", sizeof bed.uri - strlen(bed.uri) - 1);
    bed_admit(&bed);
    expect_one_transaction(&bed);
    bed_close(&bed);
}

static void a_wrong_alpn_is_refused_and_not_tried_again(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    strncat(bed.uri, "?alpn=h3", sizeof bed.uri - strlen(bed.uri) - 1);
    bed_connect(&bed);
    assert_in_range(bed_send(&bed, 250, 0, 7), 0, 0);
    assert_ends(&bed, SOLSEND_ERR_ALPN_REFUSED, ALERT_NO_ALPN);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_CONNECTED], 0);
    assert_int_equal(bed.seen[SOLSEND_EVENT_CLOSED], 1);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].code, SOLSEND_ERR_ALPN_REFUSED);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].peer_code, ALERT_NO_ALPN);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].user, 7);
    assert_stays_quiet(&bed);
    assert_int_equal(bed_counts(&bed).accepted, 0);
    bed_close(&bed);
}

static void firedancer_refuses_a_wrong_alpn_too(void **state)
{
    struct bed bed;
    bed_open(&bed, "firedancer", "alpn=other");
    bed_connect(&bed);
    assert_ends(&bed, SOLSEND_ERR_ALPN_REFUSED, ALERT_NO_ALPN);
    bed_close(&bed);
}

/* ---- our certificate ---------------------------------------------------------------------------
 */

static uint32_t warnings;

static void count_warning(void *context, int32_t level, const char *text, uint32_t text_bytes)
{
    if (level <= SOLSEND_LOG_WARN && strstr(text, "identity") != NULL) {
        warnings++;
    }
    assert_int_equal(strlen(text), text_bytes);
}

static void without_an_identity_an_ephemeral_one_is_used_and_warned_about_once(void **state)
{
    static const uint8_t zero[32];
    struct bed bed;
    solsend_log_sink sink = {.write = count_warning, .level = SOLSEND_LOG_DEBUG};
    bed_open(&bed, "agave-4.3", NULL);
    bed.options.identity = NULL;
    bed.options.log = &sink;
    warnings = 0;
    bed_admit(&bed);
    expect_one_transaction(&bed);
    bed_run(&bed, 100);
    assert_int_equal(warnings, 1);
    solsend_link_info info = bed_info(&bed);
    assert_memory_not_equal(info.identity, zero, 32);

    /* a certificate was shown, and it carries that key */
    char report[8192], key[64];
    assert_true(solsend_base58_encode(key, sizeof key, info.identity, 32) > 0);
    bed_report(&bed, report, sizeof report);
    assert_non_null(strstr(report, key));
    bed_close(&bed);

    /* with an identity there is nothing to warn about */
    bed_open(&bed, "agave-4.3", NULL);
    bed.options.log = &sink;
    warnings = 0;
    bed_admit(&bed);
    assert_int_equal(warnings, 0);
    bed_close(&bed);
}

static void without_a_certificate_leaders_refuse(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    bed.options.certificate = SOLSEND_CERTIFICATE_NONE;
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 0);
    assert_ends(&bed, SOLSEND_ERR_CERT_REQUIRED, ALERT_CERT_REQUIRED);
    assert_stays_quiet(&bed);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_ADMITTED], 0);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].code, SOLSEND_ERR_CERT_REQUIRED);
    assert_int_equal(bed_counts(&bed).certificates_refused, 1);
    bed_close(&bed);

    /* a peer that asks for none takes us without one */
    bed_open(&bed, "agave-4.3", "cert=none");
    bed.options.certificate = SOLSEND_CERTIFICATE_NONE;
    bed_admit(&bed);
    expect_one_transaction(&bed);
    bed_close(&bed);
}

static void the_certificate_carries_the_identity(void **state)
{
    static const char *const profiles[] = {"agave-4.0", "agave-4.3", "firedancer"};
    for (int i = 0; i < 3; i++) {
        struct bed bed;
        char report[8192], key[64];
        bed_open(&bed, profiles[i], NULL);
        bed_admit(&bed);
        expect_one_transaction(&bed);
        assert_true(solsend_base58_encode(key, sizeof key, bed_info(&bed).identity, 32) > 0);
        bed_report(&bed, report, sizeof report);
        assert_non_null(strstr(report, key));
        assert_int_equal(bed_counts(&bed).hello_disordered, 0);
        bed_close(&bed);
    }
}

/* A certificate with the same key that any X.509 parser takes, with a signature that holds. */
static uint32_t make_other_certificate(uint8_t *out, size_t out_bytes, uint8_t seed_byte)
{
    uint8_t seed_bytes[32], serial = 1;
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    memset(seed_bytes, seed_byte, sizeof seed_bytes);
    solsend_key *pair = NULL;
    assert_int_equal(solsend_key_from_seed(&pair, seed_bytes), 0);
    uint8_t public_key[32];
    assert_int_equal(solsend_key_public(pair, public_key), 0);
    solsend_key_close(pair);
    gnutls_datum_t x = {public_key, 32}, k = {seed_bytes, 32};
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(
        gnutls_x509_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &x, NULL, &k), 0);
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_set_version(crt, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(crt, &serial, 1), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(crt, "CN=Solana node", NULL), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(crt, 0), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(crt, 4000000000), 0);
    assert_int_equal(gnutls_x509_crt_set_key(crt, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA512, 0), 0);
    assert_int_equal(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_DER, out, &out_bytes), 0);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
    return (uint32_t)out_bytes;
}

/* Firedancer compares bytes: what another library would send for the same key is refused there. */
static void firedancer_takes_only_the_one_encoding(void **state)
{
    uint8_t der[1024];
    struct bed bed;
    struct plain client;
    struct plain_options other = {.seed = 9, .der = der};
    other.der_bytes = make_other_certificate(der, sizeof der, other.seed);

    bed_open(&bed, "firedancer", NULL);
    assert_int_equal(plain_open(&client, mock_port(bed.leader), &other), 0);
    assert_int_equal(plain_until(&client, &client.closed, 1, 3000), 1);
    assert_int_equal(client.close_code, ALERT_UNSUPPORTED_CERT);
    plain_close(&client);
    bed_admit(&bed); /* ours */
    expect_one_transaction(&bed);
    bed_close(&bed);

    /* it is a valid certificate: Agave reads the key from it */
    char report[8192], key[64];
    bed_open(&bed, "agave-4.3", NULL);
    assert_int_equal(plain_open(&client, mock_port(bed.leader), &other), 0);
    assert_int_equal(plain_until(&client, &client.confirmed, 1, 3000), 1);
    assert_true(solsend_base58_encode(key, sizeof key, client.public_key, 32) > 0);
    bed_report(&bed, report, sizeof report);
    assert_non_null(strstr(report, key));
    plain_close(&client);
    bed_close(&bed);
}

/* ---- the peer's key ----------------------------------------------------------------------------
 */

static void a_foreign_server_key_is_counted_and_told(void **state)
{
    struct bed bed;
    uint8_t expected[32];
    bed_open(&bed, "agave-4.3", "key=foreign");
    mock_identity(bed.leader, expected);
    bed.options.expected_key = expected;
    bed_admit(&bed);
    expect_one_transaction(&bed);
    assert_int_equal(bed_stats(&bed).key_mismatches, 1);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_KEY], 1);
    assert_memory_not_equal(bed_info(&bed).peer_key, expected, 32);
    bed_close(&bed);

    /* nothing was expected: nothing to tell */
    bed_open(&bed, "agave-4.3", "key=foreign");
    bed_admit(&bed);
    assert_int_equal(bed_stats(&bed).key_mismatches, 0);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_KEY], 0);
    bed_close(&bed);
}

static void strict_refuses_a_foreign_server_key_before_anything_leaves(void **state)
{
    struct bed bed;
    uint8_t expected[32];
    bed_open(&bed, "firedancer", "key=foreign"); /* its credit would let a transaction go at once */
    mock_identity(bed.leader, expected);
    bed.options.expected_key = expected;
    bed.options.strict = 1;
    bed.options.send_buffer_bytes = bed.options.receive_buffer_bytes = 4096; /* never clamped */
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 3), 0);
    assert_ends(&bed, SOLSEND_ERR_FOREIGN_KEY, 0);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].code, SOLSEND_ERR_FOREIGN_KEY);
    assert_int_equal(bed_stats(&bed).key_mismatches, 1);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_KEY], 1);
    assert_stays_quiet(&bed);
    mock_counts c = bed_counts(&bed);
    assert_int_equal(c.streams, 0);
    assert_int_equal(c.closed_by_peer, 1); /* and the peer was told */
    bed_close(&bed);
}

static void the_expected_server_key_is_fine_under_strict(void **state)
{
    struct bed bed;
    uint8_t expected[32];
    bed_open(&bed, "agave-4.3", NULL);
    mock_identity(bed.leader, expected);
    bed.options.expected_key = expected;
    bed.options.strict = 1;
    bed.options.send_buffer_bytes = bed.options.receive_buffer_bytes = 4096;
    bed_admit(&bed);
    expect_one_transaction(&bed);
    assert_int_equal(bed_stats(&bed).key_mismatches, 0);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_KEY], 0);
    assert_memory_equal(bed_info(&bed).peer_key, expected, 32);
    bed_close(&bed);
}

/* ---- Retry -------------------------------------------------------------------------------------
 */

static void a_retry_costs_one_more_round_trip(void **state)
{
    struct bed bed;
    bed_open(&bed, "firedancer", "rtt_ms=50");
    bed_admit(&bed);
    assert_int_equal(bed_stats(&bed).retries_seen, 1);
    assert_int_equal(bed_counts(&bed).retries_sent, 1);
    assert_true(bed_info(&bed).connected_ns >= 100 * UINT64_C(1000000));
    assert_true(bed_info(&bed).connected_ns < 280 * UINT64_C(1000000)); /* no probe was needed */
    expect_one_transaction(&bed);
    bed_close(&bed);

    bed_open(&bed, "agave-4.3", "rtt_ms=50");
    bed_admit(&bed);
    assert_int_equal(bed_stats(&bed).retries_seen, 0);
    bed_close(&bed);
}

/* What the man in the middle needs for Retry packets of his own. */
struct forger {
    ngtcp2_cid client, original; /* connection IDs of the client's first Initial */
    int only_forged;             /* the server's own Retry is swallowed */
    int forged;
};

static void forge_retry(struct relay *relay, const ngtcp2_cid *odcid)
{
    struct forger *f = relay->context;
    uint8_t packet[1200], token[32];
    ngtcp2_cid scid = {.datalen = 8};
    memset(token, 0x55, sizeof token);
    memset(scid.data, 0x77, scid.datalen);
    ngtcp2_ssize n = ngtcp2_crypto_write_retry(packet, sizeof packet, NGTCP2_PROTO_VER_V1,
                                               &f->client, &scid, odcid, token, sizeof token);
    assert_true(n > 0);
    f->forged++;
    relay_inject(relay, RELAY_TO_CLIENT, packet, (size_t)n);
}

/* After the server's Retry: the same again, another to the first Initial, one to the second. */
static int more_retries(struct relay *relay, enum relay_way way, const uint8_t *data, size_t bytes)
{
    struct forger *f = relay->context;
    ngtcp2_version_cid vc;
    if (bytes < 7 || ngtcp2_pkt_decode_version_cid(&vc, data, bytes, 8) != 0 ||
        (data[0] & 0x80) == 0) {
        return 1;
    }
    if (way == RELAY_TO_SERVER && f->client.datalen == 0) {
        ngtcp2_cid_init(&f->original, vc.dcid, vc.dcidlen);
        ngtcp2_cid_init(&f->client, vc.scid, vc.scidlen);
    }
    if (way == RELAY_TO_SERVER || (data[0] & 0xf0) != 0xf0) {
        return 1;
    }
    ngtcp2_cid retried;
    ngtcp2_cid_init(&retried, vc.scid, vc.scidlen);
    if (!f->only_forged) {
        relay_inject(relay, way, data, bytes);
        relay_inject(relay, way, data, bytes);
        forge_retry(relay, &retried);
    }
    forge_retry(relay, &f->original);
    return 0;
}

static int run_through(struct bed *bed, struct relay *relay, uint32_t ms)
{
    uint64_t start = solsend_now_ns();
    int rc;
    do {
        rc = solsend_link_wait_admitted(bed->link, 1);
        relay_pump(relay);
    } while (rc == SOLSEND_ERR_NOT_READY && ms_since(start) < ms);
    return rc;
}

static void a_second_retry_is_ignored(void **state)
{
    struct bed bed;
    struct relay relay;
    struct forger forger = {.forged = 0};
    bed_open(&bed, "firedancer", NULL);
    relay_open(&relay, mock_port(bed.leader));
    relay.hook = more_retries;
    relay.context = &forger;
    snprintf(bed.uri, sizeof bed.uri, "quic://127.0.0.1:%u", relay.port);
    bed_connect(&bed);
    assert_int_equal(run_through(&bed, &relay, 3000), 0);
    assert_int_equal(forger.forged, 2);
    assert_int_equal(bed_stats(&bed).retries_seen, 1);
    assert_int_equal(bed_counts(&bed).retries_sent, 1);
    assert_int_equal(bed_counts(&bed).tokens_refused, 0);
    bed_close(&bed);
    relay_close(&relay);

    /* the forged one is good enough to be believed where it comes first: then its token goes out */
    forger = (struct forger){.only_forged = 1};
    bed_open(&bed, "firedancer", NULL);
    relay_open(&relay, mock_port(bed.leader));
    relay.hook = more_retries;
    relay.context = &forger;
    snprintf(bed.uri, sizeof bed.uri, "quic://127.0.0.1:%u", relay.port);
    bed_connect(&bed);
    assert_int_equal(run_through(&bed, &relay, 3000), SOLSEND_ERR_HANDSHAKE_TIMEOUT);
    assert_int_equal(bed_stats(&bed).retries_seen, 1);
    assert_true(bed_counts(&bed).tokens_refused > 0);
    bed_close(&bed);
    relay_close(&relay);
}

/* ---- refusals without TLS ----------------------------------------------------------------------
 */

static void another_version_is_named(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "version_negotiation=1");
    bed_connect(&bed);
    assert_ends(&bed, SOLSEND_ERR_VERSION, 0);
    assert_stays_quiet(&bed);
    bed_close(&bed);
}

static void a_full_leader_is_named(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", "refuse=1");
    bed_connect(&bed);
    assert_ends(&bed, SOLSEND_ERR_PEER_BUSY, 2); /* RFC 9000 section 20.1, CONNECTION_REFUSED */
    assert_stays_quiet(&bed);
    bed_close(&bed);
}

/* A bound socket that nobody reads, or, closed again, a port where nobody listens. */
static int open_silent(struct bed *bed)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof a;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    snprintf(bed->uri, sizeof bed->uri, "quic://127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

static void a_port_without_a_listener_is_told_at_once(void **state)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    close(open_silent(&bed));
    uint64_t start = solsend_now_ns();
    bed_connect(&bed);
    assert_ends(&bed, SOLSEND_ERR_PORT_UNREACHABLE, 0);
    assert_true(ms_since(start) < 500); /* not the handshake timeout */
    assert_true(bed_stats(&bed).icmp_errors > 0);
    bed_close(&bed);
}

static uint64_t time_of_silence(uint32_t timeout_ms, uint32_t rtt_us, uint32_t idle_ms)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", NULL);
    int fd = open_silent(&bed);
    bed.options.handshake_timeout_ms = timeout_ms;
    bed.options.known_rtt_us = rtt_us;
    bed.options.idle_timeout_ms = idle_ms;
    uint64_t start = solsend_now_ns();
    bed_connect(&bed);
    assert_int_equal(bed_send(&bed, 250, 0, 1), 0);
    assert_ends(&bed, SOLSEND_ERR_HANDSHAKE_TIMEOUT, 0);
    uint64_t took = ms_since(start);
    assert_int_equal(bed.last[SOLSEND_EVENT_CLOSED].code, SOLSEND_ERR_HANDSHAKE_TIMEOUT);
    assert_int_equal(bed.seen[SOLSEND_EVENT_LINK_CONNECTED], 0);
    bed_close(&bed);
    close(fd);
    return took;
}

static void a_silent_peer_is_given_up_after_the_handshake_timeout(void **state)
{
    assert_in_range(time_of_silence(200, 0, 30000), 200, 350);
    assert_in_range(time_of_silence(500, 0, 30000), 500, 700);
    /* six round trips of what is known of the way are always allowed */
    assert_in_range(time_of_silence(200, 100000, 30000), 600, 800);
    /* silence before the handshake is one thing, whatever the idle timeout is */
    assert_in_range(time_of_silence(1500, 10000, 100), 60, 1700);
}

static uint64_t connected_after(const char *faults, uint32_t known_rtt_us)
{
    struct bed bed;
    bed_open(&bed, "agave-4.3", faults);
    bed.options.known_rtt_us = known_rtt_us;
    bed_admit(&bed);
    uint64_t took = bed_info(&bed).connected_ns / 1000000;
    expect_one_transaction(&bed);
    bed_close(&bed);
    return took;
}

/* A lost first packet costs three round trips of the guess, or of what is known of the way. */
static void a_lost_client_hello_is_repeated(void **state)
{
    assert_in_range(connected_after("ignore_initials=first:1", 0), 290, 600);
    assert_in_range(connected_after("ignore_initials=first:1", 20000), 55, 250);
}

/* Waiting means sleeping. */
static void a_wait_for_a_silent_peer_costs_no_cpu(void **state)
{
    struct bed bed;
    struct timespec before, after;
    bed_open(&bed, "agave-4.3", NULL);
    int fd = open_silent(&bed);
    bed_connect(&bed);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(solsend_link_wait_admitted(bed.link, 3000), SOLSEND_ERR_HANDSHAKE_TIMEOUT);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    int64_t cpu_us =
        (after.tv_sec - before.tv_sec) * INT64_C(1000000) + (after.tv_nsec - before.tv_nsec) / 1000;
    assert_in_range(cpu_us, 0, 20000); /* of one second */
    bed_close(&bed);
    close(fd);
}

/* ---- addresses ---------------------------------------------------------------------------------
 */

static void ipv6_works_as_ipv4_does(void **state)
{
    struct bed bed;
    if (bed_open_at(&bed, "agave-4.3", NULL, "[::1]:0") != 0) {
        SKIP_TEST("this host has no IPv6 loopback");
    }
    assert_non_null(strstr(bed.uri, "[::1]:"));
    bed_admit(&bed);
    for (uint64_t i = 0; i < 20; i++) {
        assert_in_range(bed_send(&bed, 1232, 2000, i), 0, 1);
    }
    bed_until(&bed, SOLSEND_EVENT_ACKED, 20, 5000);
    assert_int_equal(mock_wait_accepted(bed.leader, 20, 5000), 20);
    assert_int_equal(bed_counts(&bed).streams_split, 0);
    bed_assert_accounted(&bed);
    char peer[64];
    mock_last_peer(bed.leader, peer, sizeof peer);
    assert_non_null(strstr(peer, "[::1]:"));
    bed_close(&bed);

    if (bed_open_at(&bed, "udp", NULL, "[::1]:0") == 0) {
        bed_connect(&bed);
        assert_int_equal(bed_send(&bed, 1232, 0, 1), 1);
        assert_int_equal(mock_wait_accepted(bed.leader, 1, 2000), 1);
        bed_close(&bed);
    }
}

static int open_at_port(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int count_datagrams(int fd)
{
    uint8_t data[2048];
    int n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, 50);
    while (recv(fd, data, sizeof data, 0) >= 0) {
        n++;
    }
    return n;
}

/* Gossip names a port for each protocol. A guess by the old offset of 6 goes to somebody else. */
static void packets_go_to_exactly_the_port_given(void **state)
{
    static const char *const schemes[] = {"quic", "udp"};
    enum { OFFSET = 6 };
    int fds[3] = {-1, -1, -1};
    uint16_t port = 0;
    for (uint16_t base = 20011; port == 0 && base < 30000; base = (uint16_t)(base + 97)) {
        for (int i = 0; i < 3; i++) {
            fds[i] = open_at_port((uint16_t)(base + i * OFFSET));
        }
        if (fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0) {
            port = (uint16_t)(base + OFFSET);
            break;
        }
        for (int i = 0; i < 3; i++) {
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
    }
    assert_int_not_equal(port, 0);
    for (int i = 0; i < 2; i++) {
        struct bed bed;
        bed_open(&bed, "udp", NULL);
        snprintf(bed.uri, sizeof bed.uri, "%s://127.0.0.1:%u", schemes[i], port);
        bed_connect(&bed);
        assert_int_equal(bed_send(&bed, 250, 0, 1), i);
        bed_run(&bed, 20);
        assert_int_equal(count_datagrams(fds[1]), 1);
        assert_int_equal(count_datagrams(fds[0]), 0);
        assert_int_equal(count_datagrams(fds[2]), 0);
        bed_close(&bed);
        count_datagrams(fds[1]); /* the goodbye */
    }
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_alpn_connects),
        cmocka_unit_test(a_wrong_alpn_is_refused_and_not_tried_again),
        cmocka_unit_test(firedancer_refuses_a_wrong_alpn_too),
        cmocka_unit_test(without_an_identity_an_ephemeral_one_is_used_and_warned_about_once),
        cmocka_unit_test(without_a_certificate_leaders_refuse),
        cmocka_unit_test(the_certificate_carries_the_identity),
        cmocka_unit_test(firedancer_takes_only_the_one_encoding),
        cmocka_unit_test(a_foreign_server_key_is_counted_and_told),
        cmocka_unit_test(strict_refuses_a_foreign_server_key_before_anything_leaves),
        cmocka_unit_test(the_expected_server_key_is_fine_under_strict),
        cmocka_unit_test(a_retry_costs_one_more_round_trip),
        cmocka_unit_test(a_second_retry_is_ignored),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(a_full_leader_is_named),
        cmocka_unit_test(a_port_without_a_listener_is_told_at_once),
        cmocka_unit_test(a_silent_peer_is_given_up_after_the_handshake_timeout),
        cmocka_unit_test(a_lost_client_hello_is_repeated),
        cmocka_unit_test(a_wait_for_a_silent_peer_costs_no_cpu),
        cmocka_unit_test(ipv6_works_as_ipv4_does),
        cmocka_unit_test(packets_go_to_exactly_the_port_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
