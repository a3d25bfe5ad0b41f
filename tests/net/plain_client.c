#include "plain_client.h"

#include "mock/credentials.h"
#include "mock/frames.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PRIORITY                                                                                   \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:-GROUP-ALL:+GROUP-X25519:"             \
    "%DISABLE_TLS13_COMPAT_MODE"

static _Thread_local struct plain *current; /* for encrypt(), which has no argument for it */

/* ---- callbacks --------------------------------------------------------------------------------
 */

static ngtcp2_conn *ref_conn(ngtcp2_crypto_conn_ref *ref)
{
    struct plain *p = ref->user_data;
    return p->quic;
}

static void fill_random(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *context)
{
    (void)context;
    gnutls_rnd(GNUTLS_RND_NONCE, dest, bytes);
}

static int new_cid(ngtcp2_conn *quic, ngtcp2_cid *cid, uint8_t *token, size_t bytes, void *user)
{
    (void)quic;
    (void)user;
    cid->datalen = bytes;
    gnutls_rnd(GNUTLS_RND_NONCE, cid->data, bytes);
    gnutls_rnd(GNUTLS_RND_NONCE, token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static size_t varint_put(uint8_t *out, size_t value)
{
    out[0] = (uint8_t)(0x40 | value >> 8);
    out[1] = (uint8_t)value;
    return 2;
}

/* Rewrites "CRYPTO 0…n, PADDING…" as "CRYPTO n/2…n, CRYPTO 0…n/2, PADDING…". */
static void split_hello(uint8_t *out, const uint8_t *payload, size_t bytes)
{
    struct frames frames;
    struct frame f;
    memcpy(out, payload, bytes);
    frames_open(&frames, payload, bytes);
    if (frames_next(&frames, &f) != 1 || f.kind != FRAME_CRYPTO || f.offset != 0 || f.length < 64) {
        return;
    }
    size_t half = f.length / 2;
    size_t at = 0;
    memset(out, 0, bytes);
    out[at++] = FRAME_CRYPTO;
    at += varint_put(out + at, half);
    at += varint_put(out + at, f.length - half);
    memcpy(out + at, f.data + half, f.length - half);
    at += f.length - half;
    out[at++] = FRAME_CRYPTO;
    at += varint_put(out + at, 0);
    at += varint_put(out + at, half);
    memcpy(out + at, f.data, half);
}

static int encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                   const ngtcp2_crypto_aead_ctx *aead_ctx, const uint8_t *plaintext,
                   size_t plaintextlen, const uint8_t *nonce, size_t noncelen, const uint8_t *aad,
                   size_t aadlen)
{
    uint8_t changed[2048];
    if (current != NULL && current->options.split_hello && (aad[0] & 0xb0) == 0x80 &&
        plaintextlen <= sizeof changed) {
        split_hello(changed, plaintext, plaintextlen);
        plaintext = changed;
    }
    return ngtcp2_crypto_encrypt_cb(dest, aead, aead_ctx, plaintext, plaintextlen, nonce, noncelen,
                                    aad, aadlen);
}

static int on_ticket(gnutls_session_t session, unsigned int type, unsigned int when,
                     unsigned int incoming, const gnutls_datum_t *message)
{
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(session);
    struct plain *p = ref->user_data;
    gnutls_datum_t data;
    (void)type;
    (void)when;
    (void)incoming;
    (void)message;
    if (gnutls_session_get_data2(session, &data) != 0) {
        return 0;
    }
    ngtcp2_ssize n = ngtcp2_conn_encode_0rtt_transport_params(p->quic, p->ticket.params,
                                                              sizeof p->ticket.params);
    if (n > 0 && data.size <= sizeof p->ticket.session) {
        memcpy(p->ticket.session, data.data, data.size);
        p->ticket.session_bytes = data.size;
        p->ticket.params_bytes = (size_t)n;
    }
    gnutls_free(data.data);
    return 0;
}

/* Everything that makes 0-RTT possible; quietly does without when the ticket does not allow it. */
static void resume(struct plain *p)
{
    const struct plain_ticket *t = p->options.ticket;
    gnutls_handshake_set_hook_function(p->tls, GNUTLS_HANDSHAKE_NEW_SESSION_TICKET,
                                       GNUTLS_HOOK_POST, on_ticket);
    if (t != NULL) {
        (void)gnutls_session_set_data(p->tls, t->session, t->session_bytes);
        (void)ngtcp2_conn_decode_and_set_0rtt_transport_params(p->quic, t->params, t->params_bytes);
    }
}

static int on_early_refused(ngtcp2_conn *quic, void *user)
{
    (void)quic;
    ((struct plain *)user)->early_refused = 1;
    return 0;
}

static int on_completed(ngtcp2_conn *quic, void *user)
{
    struct plain *p = user;
    unsigned int count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(p->tls, &count);
    p->completed = 1;
    p->resumed = gnutls_session_is_resumed(p->tls);
    if (p->options.ticket != NULL &&
        (gnutls_session_get_flags(p->tls) & GNUTLS_SFLAGS_EARLY_DATA) == 0) {
        (void)ngtcp2_conn_tls_early_data_rejected(quic);
    }
    p->peer = *ngtcp2_conn_get_remote_transport_params(quic);
    p->granted = p->peer.initial_max_streams_uni;
    if (count == 1 && chain[0].size == CREDENTIALS_CERTIFICATE_BYTES) {
        memcpy(p->server_key, chain[0].data + 100, 32);
    }
    return 0;
}

static int on_confirmed(ngtcp2_conn *quic, void *user)
{
    (void)quic;
    ((struct plain *)user)->confirmed = 1;
    return 0;
}

static int on_retry(ngtcp2_conn *quic, const ngtcp2_pkt_hd *hd, void *user)
{
    struct plain *p = user;
    p->retries++;
    p->pause_until_ns = clock_now() + p->options.retry_pause_ms * CLOCK_NS_PER_MS;
    return ngtcp2_crypto_recv_retry_cb(quic, hd, user);
}

static int on_versions(ngtcp2_conn *quic, const ngtcp2_pkt_hd *hd, const uint32_t *versions,
                       size_t count, void *user)
{
    (void)quic;
    (void)hd;
    (void)versions;
    ((struct plain *)user)->version_negotiated = count > 0;
    return 0;
}

static int on_reset(ngtcp2_conn *quic, const ngtcp2_pkt_stateless_reset *sr, void *user)
{
    (void)quic;
    (void)sr;
    ((struct plain *)user)->reset_seen = 1;
    return 0;
}

static int on_streams(ngtcp2_conn *quic, uint64_t limit, void *user)
{
    (void)quic;
    ((struct plain *)user)->granted = limit;
    return 0;
}

static int on_stream_close(ngtcp2_conn *quic, uint32_t flags, int64_t stream, uint64_t code,
                           void *user, void *stream_user)
{
    (void)quic;
    (void)stream;
    (void)code;
    (void)stream_user;
    struct plain *p = user;
    /* This client resets nothing by itself: an error code is the answer to STOP_SENDING. */
    if ((flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET) != 0) {
        p->stops++;
    } else {
        p->acked_streams++;
    }
    return 0;
}

static int on_update_key(ngtcp2_conn *quic, uint8_t *rx_secret, uint8_t *tx_secret,
                         ngtcp2_crypto_aead_ctx *rx_aead_ctx, uint8_t *rx_iv,
                         ngtcp2_crypto_aead_ctx *tx_aead_ctx, uint8_t *tx_iv,
                         const uint8_t *current_rx_secret, const uint8_t *current_tx_secret,
                         size_t secret_bytes, void *user)
{
    ((struct plain *)user)->key_updates++;
    return ngtcp2_crypto_update_key_cb(quic, rx_secret, tx_secret, rx_aead_ctx, rx_iv, tx_aead_ctx,
                                       tx_iv, current_rx_secret, current_tx_secret, secret_bytes,
                                       user);
}

static const ngtcp2_callbacks callbacks = {
    .client_initial = ngtcp2_crypto_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .handshake_completed = on_completed,
    .handshake_confirmed = on_confirmed,
    .recv_version_negotiation = on_versions,
    .encrypt = encrypt,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .stream_close = on_stream_close,
    .recv_stateless_reset = on_reset,
    .recv_retry = on_retry,
    .extend_max_local_streams_uni = on_streams,
    .rand = fill_random,
    .get_new_connection_id = new_cid,
    .update_key = on_update_key,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    .tls_early_data_rejected = on_early_refused,
};

/* ---- opening ----------------------------------------------------------------------------------
 */

static int certificate_set(struct plain *p)
{
    uint8_t seed[32], secret[64], template[CREDENTIALS_CERTIFICATE_BYTES];
    gnutls_datum_t der = {template, sizeof template};
    gnutls_privkey_t key;
    gnutls_pcert_st chain[2];
    memset(seed, p->options.seed, sizeof seed);
    crypto_sign_seed_keypair(p->public_key, secret, seed);
    credentials_certificate(p->public_key, template);
    uint8_t *other = NULL;
    if (p->options.der != NULL) {
        other = malloc(p->options.der_bytes);
        memcpy(other, p->options.der, p->options.der_bytes);
        der = (gnutls_datum_t){other, p->options.der_bytes};
    }
    gnutls_datum_t x = {p->public_key, 32}, k = {seed, 32};
    int rc = gnutls_privkey_init(&key);
    rc |= gnutls_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &x, NULL, &k);
    rc |= gnutls_pcert_import_x509_raw(&chain[0], &der, GNUTLS_X509_FMT_DER, 0);
    rc |= p->options.chain ? gnutls_pcert_import_x509_raw(&chain[1], &der, GNUTLS_X509_FMT_DER, 0)
                           : 0;
    free(other);
    return rc != 0 ? rc
                   : gnutls_certificate_set_key(p->credentials, NULL, 0, chain,
                                                p->options.chain ? 2 : 1, key);
}

static int tls_open(struct plain *p)
{
    char alpn[32] = "solana-tpu";
    if (p->options.alpn != NULL) {
        memcpy(alpn, p->options.alpn, strlen(p->options.alpn) + 1);
    }
    gnutls_datum_t protocol = {(unsigned char *)alpn, (unsigned int)strlen(alpn)};
    if (gnutls_init(&p->tls, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT | GNUTLS_ENABLE_EARLY_DATA |
                                 GNUTLS_NO_END_OF_EARLY_DATA) != 0 ||
        gnutls_priority_set_direct(p->tls, PRIORITY, NULL) != 0 ||
        gnutls_certificate_allocate_credentials(&p->credentials) != 0 ||
        (!p->options.no_certificate && certificate_set(p) != 0) ||
        gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, p->credentials) != 0 ||
        (alpn[0] != '\0' && gnutls_alpn_set_protocols(p->tls, &protocol, 1, 0) != 0) ||
        ngtcp2_crypto_gnutls_configure_client_session(p->tls) != 0) {
        return -1;
    }
    p->ref.get_conn = ref_conn;
    p->ref.user_data = p;
    gnutls_session_set_ptr(p->tls, &p->ref);
    return 0;
}

static int socket_open(struct plain *p, uint16_t port)
{
    socklen_t length = sizeof p->local;
    p->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    p->local.sin_family = p->remote.sin_family = AF_INET;
    inet_pton(AF_INET, p->options.bind == NULL ? "127.0.0.1" : p->options.bind, &p->local.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &p->remote.sin_addr);
    p->remote.sin_port = htons(port);
    return p->fd < 0 || bind(p->fd, (struct sockaddr *)&p->local, sizeof p->local) != 0 ||
                   connect(p->fd, (struct sockaddr *)&p->remote, sizeof p->remote) != 0 ||
                   getsockname(p->fd, (struct sockaddr *)&p->local, &length) != 0
               ? -1
               : 0;
}

static ngtcp2_path path_of(struct plain *p)
{
    return (ngtcp2_path){.local = {(struct sockaddr *)&p->local, sizeof p->local},
                         .remote = {(struct sockaddr *)&p->remote, sizeof p->remote}};
}

static void flush(struct plain *p);

int plain_open(struct plain *p, uint16_t port, const struct plain_options *options)
{
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_cid scid = {.datalen = 8}, dcid = {.datalen = 18};
    memset(p, 0, sizeof *p);
    p->fd = -1;
    p->options = options == NULL ? (struct plain_options){0} : *options;
    if (socket_open(p, port) != 0 || tls_open(p) != 0) {
        return -1;
    }
    gnutls_rnd(GNUTLS_RND_NONCE, scid.data, scid.datalen);
    gnutls_rnd(GNUTLS_RND_NONCE, dcid.data, dcid.datalen);
    ngtcp2_settings_default(&settings);
    settings.initial_ts = clock_now();
    settings.initial_rtt = 50 * CLOCK_NS_PER_MS;
    settings.max_tx_udp_payload_size = p->options.payload == 0 ? 1472 : p->options.payload;
    settings.no_tx_udp_payload_size_shaping = 1;
    settings.no_pmtud = 1;
    ngtcp2_transport_params_default(&params);
    params.max_idle_timeout = 30 * CLOCK_NS_PER_S;
    ngtcp2_path path = path_of(p);
    if (ngtcp2_conn_client_new(&p->quic, &dcid, &scid, &path, NGTCP2_PROTO_VER_V1, &callbacks,
                               &settings, &params, NULL, p) != 0) {
        return -1;
    }
    ngtcp2_conn_set_tls_native_handle(p->quic, p->tls);
    resume(p);
    flush(p);
    return 0;
}

void plain_close(struct plain *p)
{
    if (p->quic != NULL) {
        ngtcp2_conn_del(p->quic);
    }
    if (p->tls != NULL) {
        gnutls_deinit(p->tls);
    }
    if (p->credentials != NULL) {
        gnutls_certificate_free_credentials(p->credentials);
    }
    if (p->fd >= 0) {
        close(p->fd);
    }
    while (p->memory != NULL) {
        void *next = *(void **)p->memory;
        free(p->memory);
        p->memory = next;
    }
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void put(struct plain *p, const uint8_t *packet, size_t bytes)
{
    if (p->swap_next) {
        p->swap_next = 0;
        memcpy(p->held, packet, bytes);
        p->held_bytes = bytes;
        return;
    }
    (void)!send(p->fd, packet, bytes, MSG_NOSIGNAL);
    if (p->held_bytes > 0) {
        (void)!send(p->fd, p->held, p->held_bytes, MSG_NOSIGNAL);
        p->held_bytes = 0;
    }
}

static void note_end(struct plain *p, int rv)
{
    const ngtcp2_ccerr *e = ngtcp2_conn_get_ccerr(p->quic);
    p->ended = 1;
    p->end_rv = rv;
    if (rv == NGTCP2_ERR_DRAINING && !p->reset_seen) {
        p->closed = 1;
        p->close_application = e->type == NGTCP2_CCERR_TYPE_APPLICATION;
        p->close_code = e->error_code;
        size_t n =
            e->reasonlen < sizeof p->close_reason ? e->reasonlen : sizeof p->close_reason - 1;
        if (n > 0) {
            memcpy(p->close_reason, e->reason, n);
        }
    }
}

static ngtcp2_ssize write_packet(struct plain *p, int64_t stream, ngtcp2_vec *data, int fin,
                                 ngtcp2_ssize *taken)
{
    uint8_t packet[1500];
    size_t room = p->options.payload == 0 ? 1472 : p->options.payload;
    ngtcp2_pkt_info info;
    ngtcp2_path_storage path;
    ngtcp2_path_storage_zero(&path);
    current = p;
    ngtcp2_ssize n = ngtcp2_conn_writev_stream(
        p->quic, &path.path, &info, packet, p->completed ? room : 1200, taken,
        fin ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0, stream, data, data == NULL ? 0 : 1, clock_now());
    current = NULL;
    if (n > 0) {
        put(p, packet, (size_t)n);
    }
    return n;
}

static void flush(struct plain *p)
{
    ngtcp2_ssize n = 0;
    while (!p->ended && clock_now() >= p->pause_until_ns &&
           (n = write_packet(p, -1, NULL, 0, NULL)) > 0) {
    }
    if (n < 0) {
        note_end(p, (int)n);
    }
}

static void read_all(struct plain *p)
{
    uint8_t packet[2048];
    ngtcp2_pkt_info info = {0};
    ngtcp2_path path = path_of(p);
    ssize_t n;
    while (!p->ended && (n = recv(p->fd, packet, sizeof packet, 0)) >= 0) {
        p->received++;
        current = p;
        int rv = ngtcp2_conn_read_pkt(p->quic, &path, &info, packet, (size_t)n, clock_now());
        current = NULL;
        if (rv != 0) {
            note_end(p, rv);
        }
    }
}

static void step(struct plain *p, uint64_t until_ns)
{
    uint64_t now = clock_now();
    uint64_t due = ngtcp2_conn_get_expiry(p->quic);
    if (due <= now && now >= p->pause_until_ns) {
        int rv = ngtcp2_conn_handle_expiry(p->quic, now);
        if (rv != 0) {
            note_end(p, rv);
            return;
        }
        due = UINT64_MAX;
    }
    flush(p);
    due = due < until_ns ? due : until_ns;
    uint64_t ms = due > now ? (due - now) / CLOCK_NS_PER_MS : 0;
    struct pollfd fd = {p->fd, POLLIN, 0};
    (void)poll(&fd, 1, ms > 5 ? 5 : ms == 0 ? 1 : (int)ms);
    read_all(p);
    flush(p);
}

void plain_run(struct plain *p, uint32_t ms)
{
    uint64_t end = clock_now() + ms * CLOCK_NS_PER_MS;
    while (!p->ended && clock_now() < end) {
        step(p, end);
    }
}

int plain_until(struct plain *p, const int *flag, int value, uint32_t ms)
{
    uint64_t end = clock_now() + ms * CLOCK_NS_PER_MS;
    while (!p->ended && *flag < value && clock_now() < end) {
        step(p, end);
    }
    return *flag;
}

uint64_t plain_until_count(struct plain *p, const uint64_t *count, uint64_t value, uint32_t ms)
{
    uint64_t end = clock_now() + ms * CLOCK_NS_PER_MS;
    while (!p->ended && *count < value && clock_now() < end) {
        step(p, end);
    }
    return *count;
}

void plain_goodbye(struct plain *p)
{
    uint8_t packet[1200];
    ngtcp2_ccerr error;
    ngtcp2_pkt_info info;
    ngtcp2_path_storage path;
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_application_error(&error, 0, NULL, 0);
    ngtcp2_path_storage_zero(&path);
    ngtcp2_ssize n = ngtcp2_conn_write_connection_close(p->quic, &path.path, &info, packet,
                                                        sizeof packet, &error, clock_now());
    if (n > 0) {
        put(p, packet, (size_t)n);
    }
    p->ended = 1;
}

/* ---- sending ----------------------------------------------------------------------------------
 */

uint64_t plain_streams_left(const struct plain *p)
{
    return ngtcp2_conn_get_streams_uni_left(p->quic);
}

int64_t plain_stream(struct plain *p)
{
    int64_t id;
    return p->ended || ngtcp2_conn_open_uni_stream(p->quic, &id, NULL) != 0 ? -1 : id;
}

int plain_write(struct plain *p, int64_t stream, const uint8_t *data, size_t bytes, int fin)
{
    void **block = malloc(sizeof *block + bytes);
    uint8_t *copy = (uint8_t *)(block + 1);
    size_t done = 0;
    int fin_left = fin;
    uint64_t end = clock_now() + 3 * CLOCK_NS_PER_S;
    *block = p->memory;
    p->memory = block;
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    while (!p->ended && (done < bytes || fin_left)) {
        ngtcp2_ssize taken = -1;
        ngtcp2_vec vec = {copy + done, bytes - done};
        ngtcp2_ssize n = write_packet(p, stream, &vec, fin, &taken);
        if (n < 0 || clock_now() > end) {
            return -1;
        }
        if (n == 0) {
            plain_run(p, 1); /* a window is shut */
            continue;
        }
        done += taken > 0 ? (size_t)taken : 0;
        fin_left = fin_left && !(taken >= 0 && done == bytes);
    }
    return 0;
}

int64_t plain_send(struct plain *p, const uint8_t *data, size_t bytes)
{
    int64_t id = plain_stream(p);
    return id < 0 || plain_write(p, id, data, bytes, 1) != 0 ? -1 : id;
}
