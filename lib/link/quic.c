#include "link/quic.h"

#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/log.h"
#include "link/quic_end.h"

enum {
    CID_BYTES = 8,
    DCID_BYTES = 18,
    CONTROL_PACKETS_MAX = 256,
    CREDIT_ENDLESS = 1 << 30 /* more streams than this at once: a stream costs nothing */
};

static struct quic *from_ref(ngtcp2_crypto_conn_ref *ref)
{
    return ref->user_data;
}

static ngtcp2_conn *get_conn(ngtcp2_crypto_conn_ref *ref)
{
    return from_ref(ref)->conn;
}

/* ---- what ngtcp2 asks of us ------------------------------------------------------------------ */

static void on_rand(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *context)
{
    random_fill(context->native_handle, dest, bytes);
}

static int on_new_connection_id(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t bytes,
                                void *user)
{
    (void)conn;
    struct quic *q = user;
    cid->datalen = bytes;
    random_fill(&q->random, cid->data, bytes);
    random_fill(&q->random, token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static int on_recv_crypto_data(ngtcp2_conn *conn, ngtcp2_encryption_level level, uint64_t offset,
                               const uint8_t *data, size_t bytes, void *user)
{
    struct quic *q = user;
    if (tls_guard_check(&q->guard, TLS_SERVER, level, data, bytes) != 0) {
        ngtcp2_conn_set_tls_alert(conn, GNUTLS_A_UNEXPECTED_MESSAGE);
        return NGTCP2_ERR_CRYPTO;
    }
    return ngtcp2_crypto_recv_crypto_data_cb(conn, level, offset, data, bytes, user);
}

static int on_recv_retry(ngtcp2_conn *conn, const ngtcp2_pkt_hd *header, void *user)
{
    struct quic *q = user;
    q->retries++;
    return ngtcp2_crypto_recv_retry_cb(conn, header, user);
}

static int on_update_key(ngtcp2_conn *conn, uint8_t *rx_secret, uint8_t *tx_secret,
                         ngtcp2_crypto_aead_ctx *rx_context, uint8_t *rx_iv,
                         ngtcp2_crypto_aead_ctx *tx_context, uint8_t *tx_iv,
                         const uint8_t *current_rx_secret, const uint8_t *current_tx_secret,
                         size_t secret_bytes, void *user)
{
    struct quic *q = user;
    q->keys_made++;
    return ngtcp2_crypto_update_key_cb(conn, rx_secret, tx_secret, rx_context, rx_iv, tx_context,
                                       tx_iv, current_rx_secret, current_tx_secret, secret_bytes,
                                       user);
}

static void see_credit(struct quic *q)
{
    if (q->admitted_ns == 0 && ngtcp2_conn_get_streams_uni_left(q->conn) > 0) {
        q->admitted_ns = q->now;
    }
}

static int on_more_streams(ngtcp2_conn *conn, uint64_t max_streams, void *user)
{
    (void)conn;
    struct quic *q = user;
    q->streams_granted = max_streams;
    see_credit(q);
    return 0;
}

static void check_peer_key(struct quic *q)
{
    if (tls_peer_key(&q->tls, q->peer_key) < 0) {
        memset(q->peer_key, 0, sizeof q->peer_key);
    }
    if (!q->has_expected_key || memcmp(q->peer_key, q->expected_key, sizeof q->peer_key) == 0) {
        return;
    }
    q->key_mismatch = 1;
    log_line(&q->log, SOLSEND_LOG_WARN, "the peer's key is not the expected one");
}

/* PING often enough for the shorter idle timeout of the two, with room for a lost one. */
static void start_keep_alive(struct quic *q, uint64_t peer_idle_ns)
{
    if (peer_idle_ns != 0 && (q->idle_ns == 0 || peer_idle_ns < q->idle_ns)) {
        q->idle_ns = peer_idle_ns;
    }
    if (q->keep_alive && q->idle_ns != 0) {
        q->keep_alive_ns = q->idle_ns * 2 / 5;
        ngtcp2_conn_set_keep_alive_timeout(q->conn, q->keep_alive_ns);
    }
}

/* ---- 0-RTT ----------------------------------------------------------------------------------- */

/* A ticket came: keep it with the transport parameters that 0-RTT must remember. */
static int on_ticket(gnutls_session_t session, unsigned kind, unsigned when, unsigned incoming,
                     const gnutls_datum_t *message)
{
    (void)kind;
    (void)when;
    (void)incoming;
    (void)message;
    struct quic *q = from_ref(gnutls_session_get_ptr(session));
    gnutls_datum_t data;
    if (gnutls_session_get_data2(session, &data) < 0) {
        return 0;
    }
    struct ticket t = {0};
    ngtcp2_ssize n = ngtcp2_conn_encode_0rtt_transport_params(q->conn, t.params, sizeof t.params);
    if (n > 0 && data.size <= sizeof t.session) {
        memcpy(t.name, q->ticket_name, sizeof t.name);
        memcpy(t.session, data.data, data.size);
        t.session_bytes = data.size;
        t.params_bytes = (uint32_t)n;
        tickets_put(&t);
    }
    sodium_memzero(&t, sizeof t);
    sodium_memzero(data.data, data.size);
    gnutls_free(data.data);
    return 0;
}

/* With a known ticket the first transactions can leave beside the ClientHello. */
static void prepare_early(struct quic *q)
{
    struct ticket t;
    gnutls_handshake_set_hook_function(q->tls.session, GNUTLS_HANDSHAKE_NEW_SESSION_TICKET,
                                       GNUTLS_HOOK_POST, on_ticket);
    if (!tickets_get(&t, q->ticket_name)) {
        return;
    }
    if (gnutls_session_set_data(q->tls.session, t.session, t.session_bytes) == 0 &&
        ngtcp2_conn_decode_and_set_0rtt_transport_params(q->conn, t.params, t.params_bytes) == 0) {
        q->early = 1;
        q->stream_bytes_max =
            ngtcp2_conn_get_remote_transport_params(q->conn)->initial_max_stream_data_uni;
    }
    sodium_memzero(&t, sizeof t);
}

static int on_early_refused(ngtcp2_conn *conn, void *user)
{
    (void)conn;
    struct quic *q = user;
    q->partial = NULL;
    q->sink.early_refused(q->sink.owner, q->now);
    return 0;
}

/*
 * After a Retry ngtcp2 would repeat the early packets' frames in what the Initial leaves of its
 * datagram, cut in two. The round trip is lost anyway: they wait for 1-RTT, whole.
 */
static void take_early_back(struct quic *q)
{
    q->early = 0;
    if (ngtcp2_conn_tls_early_data_rejected(q->conn) != 0) {
        quic_fail(q, SOLSEND_ERR_INTERNAL, "early data could not be taken back");
    }
}

static int on_handshake_completed(ngtcp2_conn *conn, void *user)
{
    struct quic *q = user;
    if (q->early) {
        q->early = 0;
        int accepted = (gnutls_session_get_flags(q->tls.session) & GNUTLS_SFLAGS_EARLY_DATA) != 0;
        if (!accepted) {
            tickets_drop(q->ticket_name);
            if (ngtcp2_conn_tls_early_data_rejected(conn) != 0) {
                return NGTCP2_ERR_CALLBACK_FAILURE;
            }
        }
    }
    const ngtcp2_transport_params *peer = ngtcp2_conn_get_remote_transport_params(conn);
    q->connected_ns = q->now;
    q->stream_bytes_max = peer->initial_max_stream_data_uni;
    q->streams_granted = peer->initial_max_streams_uni;
    q->restarts = peer->initial_max_streams_uni > CREDIT_ENDLESS;
    if (peer->max_udp_payload_size < q->payload) {
        quic_lower_payload(q, (uint32_t)peer->max_udp_payload_size);
    }
    start_keep_alive(q, peer->max_idle_timeout);
    check_peer_key(q);
    see_credit(q);
    return 0;
}

static int on_handshake_confirmed(ngtcp2_conn *conn, void *user)
{
    (void)conn;
    struct quic *q = user;
    q->confirmed = 1;
    return 0;
}

/* A stream of ours ends when all of it and its FIN are acknowledged, or after a reset. */
static int on_stream_close(ngtcp2_conn *conn, uint32_t flags, int64_t stream_id, uint64_t code,
                           void *user, void *stream_user)
{
    (void)conn;
    (void)stream_id;
    struct quic *q = user;
    struct quic_flight *flight = stream_user;
    if (flight == NULL) {
        return 0; /* abandoned */
    }
    if (q->partial == flight) {
        q->partial = NULL;
    }
    flight->stream_id = -1;
    if (flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET) {
        q->sink.stopped(q->sink.owner, flight, code, q->now);
    } else {
        q->sink.acked(q->sink.owner, flight, q->now);
    }
    return 0;
}

static int on_stateless_reset(ngtcp2_conn *conn, const ngtcp2_pkt_stateless_reset *reset,
                              void *user)
{
    (void)conn;
    (void)reset;
    quic_fail(user, SOLSEND_ERR_STATELESS_RESET, "stateless reset");
    return 0;
}

/* A key is gone: it must not be used to warm anything any more. */
static void on_delete_aead(ngtcp2_conn *conn, ngtcp2_crypto_aead_ctx *context, void *user)
{
    struct quic *q = user;
    if (q->seal_key.context.native_handle == context->native_handle) {
        q->seal_key.context.native_handle = NULL;
    }
    ngtcp2_crypto_delete_crypto_aead_ctx_cb(conn, context, user);
}

static const ngtcp2_callbacks callbacks = {
    .client_initial = ngtcp2_crypto_client_initial_cb,
    .recv_crypto_data = on_recv_crypto_data,
    .handshake_completed = on_handshake_completed,
    .handshake_confirmed = on_handshake_confirmed,
    .encrypt = seal_encrypt,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .stream_close = on_stream_close,
    .recv_stateless_reset = on_stateless_reset,
    .recv_retry = on_recv_retry,
    .extend_max_local_streams_uni = on_more_streams,
    .rand = on_rand,
    .get_new_connection_id = on_new_connection_id,
    .update_key = on_update_key,
    .delete_crypto_aead_ctx = on_delete_aead,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    .tls_early_data_rejected = on_early_refused,
};

/* ---- open and close -------------------------------------------------------------------------- */

static void fill_settings(ngtcp2_settings *s, const struct quic_config *config, struct quic *q,
                          uint64_t now)
{
    ngtcp2_settings_default(s);
    s->cc_algo = config->congestion;
    s->initial_ts = now;
    s->initial_rtt = config->initial_rtt_ns;
    s->handshake_timeout = config->handshake_timeout_ns;
    s->rand_ctx.native_handle = &q->random;
    /*
     * The initial congestion window follows max_tx_udp_payload_size, which has no other setting;
     * the real cap on a packet is the length of the buffer that we pass. We never call
     * ngtcp2_conn_update_pkt_tx_time: it would switch pacing on.
     */
    s->max_tx_udp_payload_size = config->first_flight_bytes;
    s->no_tx_udp_payload_size_shaping = 1;
    s->no_pmtud = 1;
}

static void fill_params(ngtcp2_transport_params *p, const struct quic_config *config)
{
    ngtcp2_transport_params_default(p);
    p->max_idle_timeout = config->idle_timeout_ns;
    p->max_udp_payload_size = QUIC_PAYLOAD_MAX;
    p->disable_active_migration = 1;
}

static int start(struct quic *q, const struct quic_config *config, const struct endpoint *endpoint,
                 uint64_t now)
{
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_cid dcid = {.datalen = DCID_BYTES}, scid = {.datalen = CID_BYTES};
    random_fill(&q->random, dcid.data, dcid.datalen);
    random_fill(&q->random, scid.data, scid.datalen);
    fill_settings(&settings, config, q, now);
    fill_params(&params, config);
    q->path.local.addr = (ngtcp2_sockaddr *)(uintptr_t)&endpoint->local;
    q->path.local.addrlen = endpoint_address_bytes(&endpoint->local);
    q->path.remote.addr = (ngtcp2_sockaddr *)(uintptr_t)&endpoint->remote;
    q->path.remote.addrlen = endpoint_address_bytes(&endpoint->remote);
    int rc = ngtcp2_conn_client_new(&q->conn, &dcid, &scid, &q->path, NGTCP2_PROTO_VER_V1,
                                    &callbacks, &settings, &params, &config->pool->mem, q);
    if (rc != 0) {
        return rc == NGTCP2_ERR_NOMEM ? SOLSEND_ERR_MEMORY : SOLSEND_ERR_INTERNAL;
    }
    ngtcp2_conn_set_tls_native_handle(q->conn, q->tls.session);
    return 0;
}

int quic_open(struct quic **out, const struct quic_config *config, const struct endpoint *endpoint,
              struct outbox *box, uint64_t now, solsend_detail *detail)
{
    *out = NULL;
    struct quic *q = calloc(1, sizeof *q);
    if (q == NULL) {
        return detail_set(detail, SOLSEND_ERR_MEMORY, SOLSEND_NO_OFFSET, "connection");
    }
    q->conn_ref.get_conn = get_conn;
    q->conn_ref.user_data = q;
    q->box = box;
    q->sink = config->sink;
    q->log = *config->log;
    q->now = q->last_now = q->opened_ns = now;
    quic_set_payload(q, config->payload_bytes_max);
    q->idle_ns = config->idle_timeout_ns;
    q->keep_alive = config->keep_alive != 0;
    q->strict_key = config->strict_key != 0;
    q->owes = 1;
    if (config->expected_key != NULL) {
        q->has_expected_key = 1;
        memcpy(q->expected_key, config->expected_key, sizeof q->expected_key);
    }
    struct tls_wishes tls = {
        .role = TLS_CLIENT,
        .identity = config->identity,
        .alpn = config->alpn,
        .sni = config->sni,
        .early_data = config->ticket_name != NULL,
        .conn_ref = &q->conn_ref,
    };
    int rc = random_open(&q->random);
    if (rc == 0) {
        rc = tls_open(&q->tls, &tls, detail);
    }
    if (rc == 0) {
        rc = start(q, config, endpoint, now);
    }
    if (rc < 0) {
        quic_close(q);
        return rc;
    }
    if (config->ticket_name != NULL) {
        snprintf(q->ticket_name, sizeof q->ticket_name, "%s", config->ticket_name);
        prepare_early(q);
    }
    *out = q;
    return 0;
}

void quic_close(struct quic *quic)
{
    if (quic == NULL) {
        return;
    }
    if (quic->conn != NULL) {
        ngtcp2_conn_del(quic->conn);
    }
    tls_close(&quic->tls);
    free(quic);
}

void quic_fail(struct quic *quic, int code, const char *text)
{
    if (quic->end_code == 0) {
        quic->end_code = code;
        snprintf(quic->end_text, sizeof quic->end_text, "%s", text);
        log_line(&quic->log, SOLSEND_LOG_INFO, "connection ended: %s (%s)",
                 solsend_error_name(code), quic->end_text);
    }
}

/* ngtcp2 aborts when time goes backwards; callers on several threads may read it out of order. */
static uint64_t advance(struct quic *q, uint64_t now)
{
    if (now < q->last_now) {
        now = q->last_now;
    }
    q->last_now = q->now = now;
    return now;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Handshake packets stay small; 0-RTT packets, written when none of those is due, need not. */
static uint32_t payload_cap(const struct quic *q)
{
    return q->connected_ns != 0 || (q->early && !q->owes) ? q->payload : QUIC_HANDSHAKE_PAYLOAD;
}

static void say(struct quic *q, const ngtcp2_ccerr *error, uint64_t now)
{
    uint8_t *space = outbox_space(q->box, QUIC_PAYLOAD_MIN);
    if (space == NULL) {
        return;
    }
    ngtcp2_pkt_info pi;
    ngtcp2_ssize n =
        ngtcp2_conn_write_connection_close(q->conn, NULL, &pi, space, QUIC_PAYLOAD_MIN, error, now);
    if (n > 0) {
        outbox_push(q->box, (uint32_t)n);
    }
}

/* A library error while reading or writing ends the connection and tells the peer. */
static void end_by_library(struct quic *q, int error, uint64_t now)
{
    ngtcp2_ccerr close;
    ngtcp2_ccerr_default(&close);
    if (error == NGTCP2_ERR_CRYPTO) {
        uint8_t alert = ngtcp2_conn_get_tls_alert(q->conn);
        ngtcp2_ccerr_set_tls_alert(&close, alert, NULL, 0);
    } else {
        ngtcp2_ccerr_set_liberr(&close, error, NULL, 0);
    }
    if (error != NGTCP2_ERR_IDLE_CLOSE && error != NGTCP2_ERR_HANDSHAKE_TIMEOUT &&
        error != NGTCP2_ERR_DRAINING && error != NGTCP2_ERR_CLOSING) {
        say(q, &close, now);
    }
    if (error == NGTCP2_ERR_IDLE_CLOSE && q->connected_ns == 0) {
        error = NGTCP2_ERR_HANDSHAKE_TIMEOUT; /* our idle timeout was the shorter one */
    }
    int code = quic_end_of_library_error(error);
    if (error == NGTCP2_ERR_CRYPTO &&
        ngtcp2_conn_get_tls_alert(q->conn) == GNUTLS_A_NO_APPLICATION_PROTOCOL) {
        code = SOLSEND_ERR_ALPN_REFUSED;
    } else if (error == NGTCP2_ERR_CRYPTO && q->connected_ns != 0) {
        code = SOLSEND_ERR_PROTOCOL; /* there is no handshake left to refuse */
    }
    quic_fail(q, code, ngtcp2_strerror(error));
}

/* One packet of what is due, and the stream that it cuts in two; -1: none. */
static ngtcp2_ssize write_watched(struct quic *q, uint8_t *space, uint32_t cap, uint64_t now,
                                  int64_t *cut)
{
    struct seal_watch watch = {.key = &q->seal_key, .cut = -1, .find_cut = q->restarts};
    ngtcp2_pkt_info pi;
    seal_watch_begin(&watch);
    ngtcp2_ssize n = ngtcp2_conn_write_pkt(q->conn, NULL, &pi, space, cap, now);
    seal_watch_end();
    *cut = watch.cut;
    return n;
}

/*
 * Everything that is due without new stream data. Afterwards nothing is owed unless the window or
 * the socket is shut, so that a transaction's packet carries that transaction and nothing else.
 */
static void write_control(struct quic *q, uint64_t now)
{
    for (int i = 0; i < CONTROL_PACKETS_MAX && !quic_is_dead(q); i++) {
        uint32_t cap = payload_cap(q);
        uint8_t *space = outbox_space(q->box, cap);
        if (space == NULL) {
            return;
        }
        int64_t cut;
        ngtcp2_ssize n = write_watched(q, space, cap, now, &cut);
        if (n < 0) {
            end_by_library(q, (int)n, now);
            return;
        }
        if (n == 0) {
            q->owes = ngtcp2_conn_get_cwnd_left(q->conn) == 0;
            return;
        }
        if (outbox_push(q->box, (uint32_t)n) == OUTBOX_BIG) {
            quic_lower_payload(q, (uint32_t)n - 1);
        }
        if (cut >= 0) {
            q->sink.cut(q->sink.owner, cut);
        }
    }
}

/* May a new stream begin? Asked before it is opened: an open stream cannot be taken back. */
static inline int check_room(struct quic *q, const struct quic_flight *flight, uint64_t now)
{
    int tight = flight->bytes > q->roomy_bytes;
    if (__builtin_expect(q->owes | tight, 0) &&
        (q->owes || ngtcp2_conn_get_expiry(q->conn) <= now)) {
        write_control(q, now);
        if (quic_is_dead(q)) {
            return QUIC_DEAD;
        }
        if (outbox_is_blocked(q->box)) {
            return QUIC_NO_SPACE;
        }
    }
    if (ngtcp2_conn_get_cwnd_left(q->conn) == 0 ||
        ngtcp2_conn_get_max_data_left(q->conn) < flight->bytes) {
        /* without credit the windows do not matter */
        return ngtcp2_conn_get_streams_uni_left(q->conn) == 0 ? QUIC_NO_CREDIT : QUIC_NO_WINDOW;
    }
    return QUIC_WRITTEN;
}

static inline int open_stream(struct quic *q, struct quic_flight *flight)
{
    int rc = ngtcp2_conn_open_uni_stream(q->conn, &flight->stream_id, flight);
    if (__builtin_expect(rc == 0, 1)) {
        return QUIC_WRITTEN;
    }
    flight->stream_id = -1;
    if (rc == NGTCP2_ERR_STREAM_ID_BLOCKED) {
        return QUIC_NO_CREDIT;
    }
    quic_fail(q, quic_end_of_library_error(rc), ngtcp2_strerror(rc));
    return QUIC_DEAD;
}

/* ngtcp2 gave no packet: `n` is 0 or an error. */
static __attribute__((noinline, cold)) int
judge_no_packet(struct quic *q, struct quic_flight *flight, ngtcp2_ssize n, uint64_t now)
{
    if (n == 0 || n == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
        return QUIC_NO_WINDOW;
    }
    if (n == NGTCP2_ERR_STREAM_SHUT_WR || n == NGTCP2_ERR_STREAM_NOT_FOUND) {
        /* STOP_SENDING came in between: on_stream_close tells the owner */
        flight->offset = flight->bytes;
        return QUIC_LOST;
    }
    end_by_library(q, (int)n, now);
    return QUIC_DEAD;
}

/* The outbox did not send a packet of `n` bytes. */
static __attribute__((noinline, cold)) int
judge_unsent(struct quic *q, const struct quic_flight *flight, enum outbox_result r, ngtcp2_ssize n)
{
    if (r == OUTBOX_KEPT) {
        outbox_claim(q->box, flight);
        return QUIC_KEPT;
    }
    if (r == OUTBOX_BIG) {
        quic_lower_payload(q, (uint32_t)n - 1);
    }
    return QUIC_LOST;
}

/* One packet. Returns QUIC_WRITTEN, KEPT, LOST, or why there was none. */
static inline int write_packet(struct quic *q, struct quic_flight *flight, uint64_t now)
{
    uint32_t cap = payload_cap(q);
    uint8_t *space = outbox_space(q->box, cap);
    if (__builtin_expect(space == NULL, 0)) {
        return QUIC_NO_SPACE;
    }
    ngtcp2_vec rest = {(uint8_t *)(uintptr_t)flight->wire + flight->offset,
                       flight->bytes - flight->offset};
    ngtcp2_ssize taken;
    ngtcp2_pkt_info pi;
    ngtcp2_ssize n =
        ngtcp2_conn_writev_stream(q->conn, NULL, &pi, space, cap, &taken,
                                  NGTCP2_WRITE_STREAM_FLAG_FIN, flight->stream_id, &rest, 1, now);
    if (__builtin_expect(n <= 0, 0)) {
        return judge_no_packet(q, flight, n, now);
    }
    if (taken > 0) {
        flight->offset += (uint32_t)taken;
        flight->packets++;
        if (__builtin_expect(q->early, 0)) {
            flight->early = 1;
        }
    }
    enum outbox_result r = outbox_push(q->box, (uint32_t)n);
    return __builtin_expect(r == OUTBOX_SENT, 1) ? QUIC_WRITTEN : judge_unsent(q, flight, r, n);
}

int quic_write(struct quic *quic, struct quic_flight *flight, uint64_t now)
{
    if (quic->connected_ns == 0 && !quic->early) {
        return quic_is_dead(quic) ? QUIC_DEAD : QUIC_NOT_UP;
    }
    if (quic_is_dead(quic)) {
        return QUIC_DEAD;
    }
    if (outbox_is_blocked(quic->box)) {
        return QUIC_NO_SPACE;
    }
    if (quic->partial != NULL && quic->partial != flight) {
        return QUIC_NO_WINDOW;
    }
    now = advance(quic, now);
    int rc;
    if (flight->stream_id < 0) {
        rc = check_room(quic, flight, now);
        if (rc == QUIC_WRITTEN) {
            rc = open_stream(quic, flight);
        }
        if (rc < 0) {
            return rc;
        }
    }
    int worst = QUIC_WRITTEN;
    do {
        rc = write_packet(quic, flight, now);
        if (rc < 0) {
            quic->partial = rc == QUIC_DEAD ? NULL : flight;
            return rc;
        }
        if (rc > worst) {
            worst = rc;
        }
    } while (flight->offset < flight->bytes);
    quic->partial = NULL;
    return worst;
}

void quic_say_goodbye(struct quic *quic, uint64_t now)
{
    if (quic_is_dead(quic)) {
        return;
    }
    now = advance(quic, now);
    write_control(quic, now);
    ngtcp2_ccerr close;
    ngtcp2_ccerr_default(&close);
    ngtcp2_ccerr_set_application_error(&close, 0, NULL, 0);
    say(quic, &close, now);
    quic_fail(quic, SOLSEND_ERR_CLOSED, "closed by us");
}

/* ---- reading and time ------------------------------------------------------------------------ */

static void refuse_foreign_key(struct quic *q, uint64_t now)
{
    ngtcp2_ccerr close;
    ngtcp2_ccerr_default(&close);
    ngtcp2_ccerr_set_tls_alert(&close, GNUTLS_A_BAD_CERTIFICATE, NULL, 0);
    say(q, &close, now);
    quic_fail(q, SOLSEND_ERR_FOREIGN_KEY, "the peer's key is not the expected one");
}

void quic_read(struct quic *quic, const uint8_t *data, size_t bytes, uint64_t now)
{
    if (quic_is_dead(quic)) {
        return;
    }
    now = advance(quic, now);
    ngtcp2_pkt_info pi = {0};
    int rc = ngtcp2_conn_read_pkt(quic->conn, &quic->path, &pi, data, bytes, now);
    quic->owes = 1;
    if (rc == 0) {
        quic->heard_ns = now;
        if (quic->early && quic->retries != 0) {
            take_early_back(quic);
        }
        if (quic->key_mismatch && quic->strict_key) {
            refuse_foreign_key(quic, now);
        }
        return;
    }
    if (rc == NGTCP2_ERR_DRAINING || rc == NGTCP2_ERR_CLOSING) {
        const ngtcp2_ccerr *error = ngtcp2_conn_get_ccerr(quic->conn);
        char text[sizeof quic->end_text];
        quic->peer_code = error->error_code;
        quic_fail(quic, quic_end_of_peer_close(error, text, sizeof text), text);
        return;
    }
    end_by_library(quic, rc, now);
}

void quic_tick(struct quic *quic, uint64_t now)
{
    if (quic_is_dead(quic)) {
        return;
    }
    now = advance(quic, now);
    if (ngtcp2_conn_get_expiry(quic->conn) <= now) {
        quic->owes = 1;
        int rc = ngtcp2_conn_handle_expiry(quic->conn, now);
        if (rc != 0) {
            end_by_library(quic, rc, now);
            return;
        }
    }
    if (quic->owes) {
        write_control(quic, now);
    }
}

void quic_warm(struct quic *quic, uint64_t now)
{
    if (quic_is_dead(quic) || quic->connected_ns == 0) {
        return;
    }
    write_control(quic, advance(quic, now)); /* nothing is due: it walks the way of a packet */
    seal_warm(&quic->seal_key);
}

uint64_t quic_expiry(const struct quic *quic)
{
    return quic_is_dead(quic) ? UINT64_MAX : ngtcp2_conn_get_expiry(quic->conn);
}

void quic_abandon(struct quic *quic, struct quic_flight *flight)
{
    if (quic->partial == flight) {
        quic->partial = NULL;
    }
    if (flight->stream_id < 0 || quic_is_dead(quic)) {
        return;
    }
    ngtcp2_conn_set_stream_user_data(quic->conn, flight->stream_id, NULL);
    ngtcp2_conn_shutdown_stream_write(quic->conn, 0, flight->stream_id, 0);
    flight->stream_id = -1;
    quic->owes = 1;
}

void quic_ping_after(struct quic *quic, uint64_t ns)
{
    if (!quic_is_dead(quic)) {
        ngtcp2_conn_set_keep_alive_timeout(quic->conn, ns != 0 ? ns : UINT64_MAX);
    }
}

void quic_set_payload(struct quic *quic, uint32_t payload)
{
    quic->payload = payload;
    quic->roomy_bytes = payload - 2 * QUIC_STREAM_OVERHEAD;
}

int quic_lower_payload(struct quic *quic, uint32_t payload)
{
    if (payload < QUIC_PAYLOAD_MIN) {
        payload = QUIC_PAYLOAD_MIN;
    }
    if (payload >= quic->payload) {
        return 0;
    }
    quic_set_payload(quic, payload);
    return 1;
}

uint64_t quic_streams_left(const struct quic *quic)
{
    return quic->connected_ns != 0 || quic->early ? ngtcp2_conn_get_streams_uni_left(quic->conn)
                                                  : 0;
}

uint64_t quic_window_left(const struct quic *quic)
{
    return ngtcp2_conn_get_cwnd_left(quic->conn);
}
