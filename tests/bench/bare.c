#include "bare.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#include "base/clock.h"

#define BARE_PRIORITY                                                                              \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:-GROUP-ALL:+GROUP-X25519:"             \
    "%DISABLE_TLS13_COMPAT_MODE"
#define BARE_PACKET 1472

struct bare {
    ngtcp2_conn *conn;
    int fd;
    int64_t stream; /* opened but not written: the window was shut; -1 none */
    int64_t open;   /* bare_send's: streams opened */
    uint64_t acked, datagrams, calls;
    int dead, completed;
    size_t packet_max;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    ngtcp2_crypto_conn_ref ref;
    struct sockaddr_in local, peer;
    ngtcp2_path path;
    uint8_t packet[BARE_PACKET];
};

static ngtcp2_conn *bare_conn_of(ngtcp2_crypto_conn_ref *ref)
{
    return ((struct bare *)ref->user_data)->conn;
}

static void bare_rand(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *ctx)
{
    (void)ctx;
    gnutls_rnd(GNUTLS_RND_NONCE, dest, bytes);
}

static int bare_new_id(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t bytes, void *user)
{
    (void)conn;
    (void)user;
    cid->datalen = bytes;
    if (gnutls_rnd(GNUTLS_RND_NONCE, cid->data, bytes) != 0 ||
        gnutls_rnd(GNUTLS_RND_NONCE, token, NGTCP2_STATELESS_RESET_TOKENLEN) != 0) {
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static int bare_completed(ngtcp2_conn *conn, void *user)
{
    struct bare *b = user;
    (void)conn;
    b->completed = 1;
    b->packet_max = BARE_PACKET;
    return 0;
}

static int bare_stream_closed(ngtcp2_conn *conn, uint32_t flags, int64_t id, uint64_t code,
                              void *user, void *stream_user)
{
    struct bare *b = user;
    (void)conn;
    (void)flags;
    (void)id;
    (void)code;
    (void)stream_user;
    b->acked++;
    return 0;
}

/* A self-signed Ed25519 certificate: the one thing of mutual TLS that takes more than a line. */
static int bare_certificate(struct bare *b, const uint8_t seed[32], const uint8_t public_key[32])
{
    gnutls_datum_t x = {(unsigned char *)(uintptr_t)public_key, 32};
    gnutls_datum_t k = {(unsigned char *)(uintptr_t)seed, 32};
    gnutls_privkey_t key = NULL;
    gnutls_pubkey_t pub = NULL;
    gnutls_x509_crt_t crt = NULL;
    gnutls_pcert_st pcert;
    uint8_t serial[8] = {1};
    int rc = -1;
    memset(&pcert, 0, sizeof pcert);
    if (gnutls_certificate_allocate_credentials(&b->credentials) == 0 &&
        gnutls_privkey_init(&key) == 0 && gnutls_pubkey_init(&pub) == 0 &&
        gnutls_x509_crt_init(&crt) == 0 &&
        gnutls_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &x, NULL, &k) == 0 &&
        gnutls_pubkey_import_privkey(pub, key, 0, 0) == 0 &&
        gnutls_x509_crt_set_pubkey(crt, pub) == 0 && gnutls_x509_crt_set_version(crt, 3) == 0 &&
        gnutls_x509_crt_set_serial(crt, serial, sizeof serial) == 0 &&
        gnutls_x509_crt_set_activation_time(crt, 0) == 0 &&
        gnutls_x509_crt_set_expiration_time(crt, 67767976233532799) == 0 &&
        gnutls_x509_crt_set_dn(crt, "CN=Solana node", NULL) == 0 &&
        gnutls_x509_crt_privkey_sign(crt, crt, key, GNUTLS_DIG_SHA512, 0) == 0 &&
        gnutls_pcert_import_x509(&pcert, crt, 0) == 0 &&
        gnutls_certificate_set_key(b->credentials, NULL, 0, &pcert, 1, key) == 0) {
        key = NULL; /* the credentials own it now */
        rc = 0;
    }
    if (crt != NULL) {
        gnutls_x509_crt_deinit(crt);
    }
    if (pub != NULL) {
        gnutls_pubkey_deinit(pub);
    }
    if (key != NULL) {
        gnutls_privkey_deinit(key);
    }
    return rc;
}

/* Leaders ask for an Ed25519 certificate without naming an issuer of ours: give it anyway. */
static int bare_tls(struct bare *b)
{
    gnutls_datum_t alpn = {(unsigned char *)(uintptr_t) "solana-tpu", 10};
    if (gnutls_init(&b->session, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT | GNUTLS_NO_TICKETS) !=
            0 ||
        gnutls_priority_set_direct(b->session, BARE_PRIORITY, NULL) != 0 ||
        ngtcp2_crypto_gnutls_configure_client_session(b->session) != 0 ||
        gnutls_credentials_set(b->session, GNUTLS_CRD_CERTIFICATE, b->credentials) != 0 ||
        gnutls_alpn_set_protocols(b->session, &alpn, 1, GNUTLS_ALPN_MANDATORY) != 0) {
        return -1;
    }
    b->ref.get_conn = bare_conn_of;
    b->ref.user_data = b;
    gnutls_session_set_ptr(b->session, &b->ref);
    return 0;
}

static int bare_socket(struct bare *b, uint16_t port)
{
    socklen_t bytes = sizeof b->local;
    int buffer = 4 << 20;
    b->peer.sin_family = AF_INET;
    b->peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b->peer.sin_port = htons(port);
    b->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (b->fd < 0 || connect(b->fd, (struct sockaddr *)&b->peer, sizeof b->peer) != 0 ||
        getsockname(b->fd, (struct sockaddr *)&b->local, &bytes) != 0) {
        return -1;
    }
    (void)setsockopt(b->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    (void)setsockopt(b->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    b->path.local.addr = (ngtcp2_sockaddr *)&b->local;
    b->path.local.addrlen = sizeof b->local;
    b->path.remote.addr = (ngtcp2_sockaddr *)&b->peer;
    b->path.remote.addrlen = sizeof b->peer;
    return 0;
}

static int bare_connect(struct bare *b, uint32_t first_flight_bytes)
{
    ngtcp2_callbacks callbacks = {
        .client_initial = ngtcp2_crypto_client_initial_cb,
        .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
        .handshake_completed = bare_completed,
        .encrypt = ngtcp2_crypto_encrypt_cb,
        .decrypt = ngtcp2_crypto_decrypt_cb,
        .hp_mask = ngtcp2_crypto_hp_mask_cb,
        .recv_retry = ngtcp2_crypto_recv_retry_cb,
        .rand = bare_rand,
        .get_new_connection_id = bare_new_id,
        .update_key = ngtcp2_crypto_update_key_cb,
        .stream_close = bare_stream_closed,
        .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
        .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
        .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
        .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    };
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_cid dcid = {.datalen = 8}, scid = {.datalen = 8};
    ngtcp2_settings_default(&settings);
    settings.initial_ts = clock_now();
    settings.cc_algo = NGTCP2_CC_ALGO_CUBIC;
    settings.max_tx_udp_payload_size = first_flight_bytes;
    settings.no_tx_udp_payload_size_shaping = 1;
    settings.no_pmtud = 1;
    ngtcp2_transport_params_default(&params);
    params.max_idle_timeout = 30 * NGTCP2_SECONDS;
    if (gnutls_rnd(GNUTLS_RND_NONCE, dcid.data, 8) != 0 ||
        gnutls_rnd(GNUTLS_RND_NONCE, scid.data, 8) != 0 ||
        ngtcp2_conn_client_new(&b->conn, &dcid, &scid, &b->path, NGTCP2_PROTO_VER_V1, &callbacks,
                               &settings, &params, NULL, b) != 0) {
        return -1;
    }
    ngtcp2_conn_set_tls_native_handle(b->conn, b->session);
    ngtcp2_conn_set_keep_alive_timeout(b->conn, NGTCP2_SECONDS);
    return 0;
}

static int bare_write(struct bare *b, ngtcp2_tstamp now)
{
    for (int i = 0; i < 16; i++) {
        ngtcp2_ssize n = ngtcp2_conn_write_pkt(b->conn, NULL, NULL, b->packet, b->packet_max, now);
        if (n <= 0) {
            return n < 0 ? -1 : 0;
        }
        (void)send(b->fd, b->packet, (size_t)n, MSG_NOSIGNAL);
        b->datagrams++;
        b->calls++;
    }
    return 0;
}

int bare_poll(struct bare *b)
{
    uint8_t datagram[2048];
    ngtcp2_pkt_info info = {0};
    ngtcp2_tstamp now;
    int got = 0;
    if (b->dead) {
        return -1;
    }
    for (; got < 16; got++) {
        ssize_t n = recv(b->fd, datagram, sizeof datagram, 0);
        if (n < 0) {
            break;
        }
        if (ngtcp2_conn_read_pkt(b->conn, &b->path, &info, datagram, (size_t)n, clock_now()) != 0) {
            b->dead = 1;
            return -1;
        }
    }
    now = clock_now();
    if (now >= ngtcp2_conn_get_expiry(b->conn) && ngtcp2_conn_handle_expiry(b->conn, now) != 0) {
        b->dead = 1;
        return -1;
    }
    if ((got != 0 || now >= ngtcp2_conn_get_expiry(b->conn)) && bare_write(b, now) != 0) {
        b->dead = 1;
        return -1;
    }
    return 0;
}

int bare_send(struct bare *b, const uint8_t *wire, size_t bytes)
{
    ngtcp2_vec data = {(uint8_t *)(uintptr_t)wire, bytes};
    ngtcp2_ssize taken = -1, n;
    if (b->stream < 0 && ngtcp2_conn_open_uni_stream(b->conn, &b->stream, NULL) != 0) {
        return b->dead ? -1 : 0;
    }
    n = ngtcp2_conn_writev_stream(b->conn, NULL, NULL, b->packet, BARE_PACKET, &taken,
                                  NGTCP2_WRITE_STREAM_FLAG_FIN, b->stream, &data, 1, clock_now());
    if (n <= 0) {
        b->dead = n < 0;
        return b->dead ? -1 : 0;
    }
    (void)send(b->fd, b->packet, (size_t)n, MSG_NOSIGNAL);
    b->datagrams++;
    b->calls++;
    if (taken != (ngtcp2_ssize)bytes) {
        return 0; /* a packet of something else went first; the stream is still to be written */
    }
    b->stream = -1;
    return 1;
}

static int bare_admitted(struct bare *b, int timeout_ms)
{
    uint64_t end = clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    if (bare_write(b, clock_now()) != 0) {
        return -1;
    }
    while (!b->completed || ngtcp2_conn_get_streams_uni_left(b->conn) == 0) {
        struct pollfd p = {b->fd, POLLIN, 0};
        (void)poll(&p, 1, 1);
        if (bare_poll(b) != 0 || clock_now() > end) {
            return -1;
        }
    }
    return 0;
}

struct bare *bare_open(uint16_t port, const uint8_t seed[32], const uint8_t public_key[32],
                       uint32_t first_flight_bytes, char *why, size_t why_bytes)
{
    struct bare *b = calloc(1, sizeof *b);
    const char *what = "memory";
    if (b != NULL) {
        b->fd = -1;
        b->stream = -1;
        b->packet_max = 1200; /* newer ngtcp2 pads Initials to what it is given */
        what = bare_socket(b, port) != 0                    ? "socket"
               : bare_certificate(b, seed, public_key) != 0 ? "certificate"
               : bare_tls(b) != 0                           ? "TLS session"
               : bare_connect(b, first_flight_bytes) != 0   ? "connection"
               : bare_admitted(b, 3000) != 0                ? "handshake or admission"
                                                            : NULL;
    }
    if (what != NULL) {
        snprintf(why, why_bytes, "bare: %s failed", what);
        bare_close(b);
        return NULL;
    }
    return b;
}

int bare_fd(const struct bare *b)
{
    return b->fd;
}

void bare_counts(const struct bare *b, uint64_t *acked, uint64_t *datagrams, uint64_t *calls)
{
    *acked = b->acked;
    *datagrams = b->datagrams;
    *calls = b->calls;
}

void bare_close(struct bare *b)
{
    if (b == NULL) {
        return;
    }
    if (b->conn != NULL) {
        ngtcp2_ccerr error;
        ngtcp2_ssize n;
        ngtcp2_ccerr_default(&error);
        n = ngtcp2_conn_write_connection_close(b->conn, NULL, NULL, b->packet, b->packet_max,
                                               &error, clock_now());
        if (n > 0) {
            (void)send(b->fd, b->packet, (size_t)n, MSG_NOSIGNAL);
        }
        ngtcp2_conn_del(b->conn);
    }
    if (b->session != NULL) {
        gnutls_deinit(b->session);
    }
    if (b->credentials != NULL) {
        gnutls_certificate_free_credentials(b->credentials);
    }
    if (b->fd >= 0) {
        close(b->fd);
    }
    free(b);
}
