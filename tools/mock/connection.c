#include "mock/connection.h"

#include "mock/admitting.h"
#include "mock/ending.h"
#include "mock/packets.h"

#include "base/clock.h"

#include <stdlib.h>

#include <sodium.h>

/* ---- ngtcp2's callbacks -----------------------------------------------------------------------
 */

static ngtcp2_conn *ref_conn(ngtcp2_crypto_conn_ref *ref)
{
    struct connection *c = ref->user_data;
    return c->quic;
}

static void fill_random(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *context)
{
    random_fill(context->native_handle, dest, bytes);
}

static int new_cid(ngtcp2_conn *quic, ngtcp2_cid *cid, uint8_t *token, size_t bytes, void *user)
{
    struct connection *c = user;
    (void)quic;
    cid->datalen = bytes;
    random_fill(&c->server->random, cid->data, bytes);
    if (ngtcp2_crypto_generate_stateless_reset_token(token, c->server->secret,
                                                     sizeof c->server->secret, cid) != 0 ||
        cidmap_put(&c->server->cids, cid->data, cid->datalen, c) != 0) {
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static int remove_cid(ngtcp2_conn *quic, const ngtcp2_cid *cid, void *user)
{
    struct connection *c = user;
    (void)quic;
    cidmap_remove(&c->server->cids, cid->data, cid->datalen);
    return 0;
}

static int stream_open(ngtcp2_conn *quic, int64_t id, void *user)
{
    struct connection *c = user;
    const struct fault *fault = c->server->fault;
    (void)quic;
    (void)id;
    c->streams++;
    TALLY_ADD(c->server->tally, streams, 1);
    if (fault->close_when == FAULT_CLOSE_STREAM && c->streams == fault->close_arg) {
        connection_doom(c, fault->close_code, NULL);
    }
    if (fault->reset_stream != 0 && c->streams == fault->reset_stream &&
        c->doom == CONNECTION_NO_DOOM) {
        c->doom = CONNECTION_DOOM_FORGET;
    }
    return 0;
}

/* A client's KeyUpdate would end us, see link/tls_guard.h. */
static int crypto_data(ngtcp2_conn *quic, ngtcp2_encryption_level level, uint64_t offset,
                       const uint8_t *data, size_t bytes, void *user)
{
    struct connection *c = user;
    if (tls_guard_check(&c->guard, TLS_CLIENT, level, data, bytes) != 0) {
        ngtcp2_conn_set_tls_alert(quic, GNUTLS_A_UNEXPECTED_MESSAGE);
        return NGTCP2_ERR_CRYPTO;
    }
    return ngtcp2_crypto_recv_crypto_data_cb(quic, level, offset, data, bytes, user);
}

static int stream_data(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t offset,
                       const uint8_t *data, size_t bytes, void *user, void *stream_user)
{
    struct connection *c = user;
    uint64_t ordinal = (uint64_t)id >> 2;
    uint64_t every = c->server->fault->stop_sending;
    (void)quic;
    (void)stream_user;
    if (c->doom != CONNECTION_NO_DOOM) {
        return 0;
    }
    if (every != 0 && (ordinal + 1) % every == 0) {
        connection_stop_stream(c, ordinal, c->server->fault->stop_code);
        reassembly_gone(c, ordinal, c->now_ns);
        return 0;
    }
    reassembly_data(c, ordinal, offset, data, bytes, (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0,
                    c->now_ns);
    return 0;
}

static int stream_reset(ngtcp2_conn *quic, int64_t id, uint64_t final_size, uint64_t code,
                        void *user, void *stream_user)
{
    struct connection *c = user;
    (void)quic;
    (void)final_size;
    (void)code;
    (void)stream_user;
    if (c->doom == CONNECTION_NO_DOOM) {
        reassembly_gone(c, (uint64_t)id >> 2, c->now_ns);
    }
    return 0;
}

static const ngtcp2_callbacks callbacks = {
    .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
    .recv_crypto_data = crypto_data,
    .encrypt = packets_encrypt,
    .decrypt = packets_decrypt,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_stream_data = stream_data,
    .stream_open = stream_open,
    .stream_reset = stream_reset,
    .rand = fill_random,
    .get_new_connection_id = new_cid,
    .remove_connection_id = remove_cid,
    .update_key = ngtcp2_crypto_update_key_cb,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
};

/* ---- opening ----------------------------------------------------------------------------------
 */

static void settings_fill(ngtcp2_settings *settings, struct server *s,
                          const struct connection_hello *hello, uint64_t now_ns)
{
    ngtcp2_settings_default(settings);
    settings->initial_ts = now_ns;
    settings->max_tx_udp_payload_size = CONNECTION_PACKET_BYTES;
    settings->no_pmtud = 1;                   /* it only answers: nothing it sends is large */
    settings->handshake_timeout = UINT64_MAX; /* rearm() watches it */
    settings->rand_ctx.native_handle = &s->random;
    settings->token = hello->token;
    settings->tokenlen = hello->token_bytes;
    settings->token_type = hello->token_type;
}

static int params_fill(ngtcp2_transport_params *params, struct connection *c,
                       const struct connection_hello *hello, const ngtcp2_cid *scid)
{
    const struct server *s = c->server;
    const struct profile *p = s->profile;
    uint64_t stream_bytes =
        s->fault->stream_bytes == FAULT_DEFAULT ? p->stream_bytes : s->fault->stream_bytes;
    ngtcp2_transport_params_default(params);
    params->original_dcid = hello->original_cid;
    params->original_dcid_present = 1;
    if (hello->retried) {
        params->retry_scid = hello->header->dcid;
        params->retry_scid_present = 1;
    }
    c->credit_managed = p->streams_initial == 0 || s->fault->grant != FAULT_GRANT_NORMAL ||
                        s->fault->streams_initial != FAULT_DEFAULT;
    params->initial_max_streams_uni = c->credit_managed ? 0 : p->streams_initial;
    if (s->fault->streams_initial != FAULT_DEFAULT) {
        params->initial_max_streams_uni = c->granted = s->fault->streams_initial;
    }
    params->initial_max_stream_data_uni = stream_bytes;
    params->initial_max_data = p->data_initial;
    params->max_idle_timeout = s->fault->idle_ns == FAULT_DEFAULT ? p->idle_ns : s->fault->idle_ns;
    params->max_udp_payload_size = 1472;
    params->max_ack_delay = p->max_ack_delay_ms * CLOCK_NS_PER_MS;
    params->ack_delay_exponent = p->ack_delay_exponent;
    params->active_connection_id_limit = p->issues_cids ? 5 : 2;
    params->disable_active_migration = 1;
    params->stateless_reset_token_present = 1;
    return ngtcp2_crypto_generate_stateless_reset_token(params->stateless_reset_token, s->secret,
                                                        sizeof s->secret, scid);
}

static int quic_open(struct connection *c, const struct connection_hello *hello, uint64_t now_ns)
{
    struct server *s = c->server;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_cid scid = {.datalen = SERVER_CID_BYTES};
    ngtcp2_path path = {.local = {&s->local.any, s->local.bytes},
                        .remote = {&c->path.any, c->path.bytes}};
    random_fill(&s->random, scid.data, scid.datalen);
    settings_fill(&settings, s, hello, now_ns);
    if (params_fill(&params, c, hello, &scid) != 0 ||
        cidmap_put(&s->cids, scid.data, scid.datalen, c) != 0) {
        return -1;
    }
    if (ngtcp2_conn_server_new(&c->quic, &hello->header->scid, &scid, &path, hello->header->version,
                               &callbacks, &settings, &params, NULL, c) != 0) {
        c->quic = NULL;
        cidmap_remove(&s->cids, scid.data, scid.datalen);
        return -1;
    }
    ngtcp2_conn_set_tls_native_handle(c->quic, c->tls);
    return cidmap_put(&s->cids, c->hello_cid.data, c->hello_cid.datalen, c);
}

struct connection *connection_open(struct server *s, const struct connection_hello *hello,
                                   const struct sockname *from, uint64_t now_ns)
{
    struct connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->server = s;
    c->peer = *from;
    c->path = *from;
    c->hello_cid = hello->header->dcid;
    c->started_ns = c->heard_ns = c->now_ns = now_ns;
    c->seat.owner = c;
    c->credentials.ref.get_conn = ref_conn;
    c->credentials.ref.user_data = c;
    sockname_ip(from, c->ip);
    timers_init(&c->timer, c);
    c->next = s->live;
    if (s->live != NULL) {
        s->live->prev = c;
    }
    s->live = c;
    s->live_count++;
    c->tls = credentials_session(s->credentials, s->profile, s->fault, &c->credentials);
    if (c->tls == NULL || quic_open(c, hello, now_ns) != 0) {
        connection_free(c);
        return NULL;
    }
    return c;
}

static void forget_cids(struct connection *c)
{
    cidmap_remove(&c->server->cids, c->hello_cid.data, c->hello_cid.datalen);
    size_t count = c->quic == NULL ? 0 : ngtcp2_conn_get_scid(c->quic, NULL);
    ngtcp2_cid *cids = count == 0 ? NULL : calloc(count, sizeof *cids);
    if (cids != NULL) {
        ngtcp2_conn_get_scid(c->quic, cids);
        for (size_t i = 0; i < count; i++) {
            cidmap_remove(&c->server->cids, cids[i].data, cids[i].datalen);
        }
        free(cids);
    }
}

void connection_free(struct connection *c)
{
    struct server *s = c->server;
    forget_cids(c);
    timers_set(&s->timers, &c->timer, TIMERS_NEVER);
    admission_leave(&s->admission, &c->seat);
    reassembly_close(c);
    if (c->quic != NULL) {
        ngtcp2_conn_del(c->quic);
    }
    if (c->tls != NULL) {
        gnutls_deinit(c->tls);
    }
    *(c->prev == NULL ? &s->live : &c->prev->next) = c->next;
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    s->live_count--;
    free(c);
}

/* ---- decided ends -------------------------------------------------------------------------------
 */

void connection_mark(struct connection *c)
{
    if (!c->is_dirty) {
        c->is_dirty = 1;
        c->dirty_next = c->server->dirty;
        c->server->dirty = c;
    }
}

void connection_doom(struct connection *c, uint64_t code, const char *reason)
{
    static const char *const reasons[] = {
        "", "dropped", "disallowed", "exceed_max_stream_count", "too_many", "invalid_stream"};
    if (c->doom == CONNECTION_NO_DOOM && c->state <= CONNECTION_OPEN) {
        c->doom = CONNECTION_DOOM_CLOSE;
        c->doom_code = code;
        c->doom_reason = reason != NULL ? reason : code < 6 ? reasons[code] : "";
    }
    connection_mark(c);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static void update_keys(struct connection *c, uint64_t now_ns)
{
    uint64_t every = c->server->fault->key_update;
    if (every != 0 && c->packets_1rtt - c->key_update_at >= every &&
        ngtcp2_conn_initiate_key_update(c->quic, now_ns) == 0) {
        c->key_update_at = c->packets_1rtt;
    }
}

/* 1 if a packet from there belongs to this connection. */
static int from_there(struct connection *c, const struct sockname *from)
{
    if (sockname_equal(from, &c->peer)) {
        return 1;
    }
    if (!c->server->profile->port_may_change || !sockname_same_ip(from, &c->peer)) {
        return 0;
    }
    c->peer = *from;
    return 1;
}

void connection_read(struct connection *c, const struct sockname *from, const uint8_t *data,
                     size_t bytes, uint64_t received_ns, uint64_t now_ns)
{
    struct server *s = c->server;
    ngtcp2_path path = {.local = {&s->local.any, s->local.bytes},
                        .remote = {&c->path.any, c->path.bytes}};
    ngtcp2_pkt_info info = {0};
    if (!from_there(c, from) || c->state >= CONNECTION_DRAINING) {
        return;
    }
    if (c->state == CONNECTION_CLOSING) {
        ending_repeat(c);
        return;
    }
    c->received_ns = received_ns;
    c->heard_ns = c->now_ns = now_ns;
    c->packets++;
    packets_enter(c);
    int rv = ngtcp2_conn_read_pkt(c->quic, &path, &info, data, bytes, now_ns);
    packets_leave();
    connection_mark(c);
    if (c->doom != CONNECTION_NO_DOOM) {
        return; /* carried out by pulse_settle, whatever ngtcp2 says */
    }
    ending_outcome(c, rv, now_ns);
    if (c->state > CONNECTION_OPEN) {
        return;
    }
    if (s->fault->close_when == FAULT_CLOSE_HELLO && c->completed_ns == 0) {
        connection_doom(c, s->fault->close_code, NULL);
    } else if (c->completed_ns == 0 && ngtcp2_conn_get_handshake_completed(c->quic)) {
        admitting_completed(c, now_ns);
    }
    update_keys(c, now_ns);
}

/* ---- for reassembly.c -------------------------------------------------------------------------
 */

/* 1 if the first signature is the first signer's over the message. Legacy and version 0 only. */
static int signature_holds(const uint8_t *wire, size_t bytes)
{
    size_t message = 1 + (size_t)wire[0] * 64;
    size_t keys = message + 3 + (message < bytes && wire[message] == 0x80);
    if (wire[0] >= 0x80 || keys + 33 > bytes) {
        return 0;
    }
    return crypto_sign_verify_detached(wire + 1, wire + message, bytes - message,
                                       wire + keys + 1) == 0;
}

void connection_transaction(struct connection *c, const uint8_t *wire, size_t bytes,
                            uint32_t frames, uint64_t received_ns)
{
    struct server *s = c->server;
    uint64_t accepted_ns = clock_now();
    if (frames > 1) {
        TALLY_ADD(s->tally, streams_split, 1);
    }
    if (s->fault->discard) {
        TALLY_ADD(s->tally, discarded, 1);
        return;
    }
    if (bytes < s->profile->tx_bytes_min || (s->fault->verify && !signature_holds(wire, bytes))) {
        TALLY_ADD(s->tally, malformed, 1);
        return;
    }
    c->accepted += (uint64_t)tally_accept(s->tally, wire, bytes, frames, received_ns, accepted_ns);
}

void connection_stream_over(struct connection *c, uint64_t now_ns)
{
    c->finished++;
    if (c->seat.peer != NULL) {
        c->seat.peer->updated_ns = now_ns;
    }
    credit_refresh(c, 0);
}

void connection_stop_stream(struct connection *c, uint64_t ordinal, uint64_t code)
{
    (void)ngtcp2_conn_shutdown_stream_read(c->quic, 0, (int64_t)(ordinal << 2 | 2), code);
    connection_mark(c);
}

void connection_consumed(struct connection *c, uint64_t ordinal, uint64_t bytes, int stream_too)
{
    ngtcp2_conn_extend_max_offset(c->quic, bytes);
    if (stream_too) {
        (void)ngtcp2_conn_extend_max_stream_offset(c->quic, (int64_t)(ordinal << 2 | 2), bytes);
        connection_mark(c);
    }
}
