#include "mock/connection.h"

#include "mock/packets.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#define PACKET_BYTES 1472u
#define MS           CLOCK_NS_PER_MS

static void rearm(struct connection *c, uint64_t now_ns);

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
        connection_stop_stream(c, ordinal);
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
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
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
    settings->max_tx_udp_payload_size = PACKET_BYTES;
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
    params->max_ack_delay = p->max_ack_delay_ms * MS;
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

/* ---- ends -------------------------------------------------------------------------------------
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

static void end(struct connection *c, enum connection_state state, uint64_t now_ns)
{
    c->state = state;
    c->ended_ns = now_ns;
    c->linger_ns = now_ns + 3 * ngtcp2_conn_get_pto(c->quic);
    admission_leave(&c->server->admission, &c->seat);
    connection_mark(c);
}

static void end_text(struct connection *c, const char *how, const ngtcp2_ccerr *error)
{
    int application = error->type == NGTCP2_CCERR_TYPE_APPLICATION;
    snprintf(c->end, sizeof c->end, "%s %s 0x%llx %.*s", how,
             application ? "application" : "transport", (unsigned long long)error->error_code,
             (int)(error->reasonlen > 24 ? 24 : error->reasonlen), (const char *)error->reason);
}

static void shut(struct connection *c, const ngtcp2_ccerr *error, uint64_t now_ns)
{
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info;
    ngtcp2_path_storage_zero(&path);
    packets_enter(c);
    ngtcp2_ssize n = ngtcp2_conn_write_connection_close(c->quic, &path.path, &info, c->close_packet,
                                                        sizeof c->close_packet, error, now_ns);
    packets_leave();
    end_text(c, "closed:", error);
    c->close_bytes = n > 0 ? (size_t)n : 0;
    if (c->close_bytes > 0) {
        c->server->send(c->server->context, &c->peer, c->close_packet, c->close_bytes);
    }
    end(c, c->server->profile->lingers ? CONNECTION_CLOSING : CONNECTION_DEAD, now_ns);
}

static void shut_application(struct connection *c, uint64_t code, const char *reason,
                             uint64_t now_ns)
{
    uint8_t text[64];
    ngtcp2_ccerr error;
    size_t n = strlen(reason);
    n = n > sizeof text ? sizeof text : n;
    memcpy(text, reason, n);
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_application_error(&error, code, text, n);
    shut(c, &error, now_ns);
}

static void shut_tls(struct connection *c, uint64_t now_ns)
{
    ngtcp2_ccerr error;
    uint8_t alert = ngtcp2_conn_get_tls_alert(c->quic);
    if (c->credentials.alert != 0) {
        alert = c->credentials.alert;
    } else if (alert == GNUTLS_A_CERTIFICATE_REQUIRED &&
               c->credentials.policy == PROFILE_CERTIFICATE_EXACT) {
        alert = GNUTLS_A_BAD_CERTIFICATE;
    }
    if (alert == GNUTLS_A_CERTIFICATE_REQUIRED || alert == GNUTLS_A_BAD_CERTIFICATE ||
        alert == GNUTLS_A_UNSUPPORTED_CERTIFICATE) {
        TALLY_ADD(c->server->tally, certificates_refused, 1);
    }
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_tls_alert(&error, alert, NULL, 0);
    shut(c, &error, now_ns);
}

static void shut_library(struct connection *c, int liberr, uint64_t now_ns)
{
    ngtcp2_ccerr error;
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_liberr(&error, liberr, NULL, 0);
    shut(c, &error, now_ns);
}

static void closed_by_peer(struct connection *c, uint64_t now_ns)
{
    c->by_peer = 1;
    TALLY_ADD(c->server->tally, closed_by_peer, 1);
    end_text(c, "peer closed:", ngtcp2_conn_get_ccerr(c->quic));
    end(c, c->server->profile->lingers ? CONNECTION_DRAINING : CONNECTION_DEAD, now_ns);
}

static void vanish(struct connection *c, const char *why, uint64_t now_ns)
{
    snprintf(c->end, sizeof c->end, "%s", why);
    end(c, CONNECTION_DEAD, now_ns);
}

/* What a ngtcp2 call returned. */
static void outcome(struct connection *c, int rv, uint64_t now_ns)
{
    switch (rv) {
    case 0:
    case NGTCP2_ERR_CLOSING:
        break;
    case NGTCP2_ERR_DRAINING:
        closed_by_peer(c, now_ns);
        break;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
        vanish(c, "dropped: the Initial was of no use", now_ns);
        break;
    case NGTCP2_ERR_IDLE_CLOSE:
        vanish(c, "idle", now_ns);
        break;
    case NGTCP2_ERR_CRYPTO:
        shut_tls(c, now_ns);
        break;
    default:
        shut_library(c, rv, now_ns);
        break;
    }
}

/* ---- admission --------------------------------------------------------------------------------
 */

static void admitted(struct connection *c, uint64_t now_ns)
{
    const struct server *s = c->server;
    c->admitted_ns = now_ns;
    c->window = admission_streams(&s->admission, &c->seat, c->rtt_ns);
    c->grant_ns = s->fault->grant_delay_ns == 0 ? 0 : now_ns + s->fault->grant_delay_ns;
    TALLY_ADD(s->tally, admitted, 1);
    if (c->seat.peer != NULL && c->seat.peer->staked) {
        TALLY_ADD(s->tally, staked, 1);
        c->staked = 1;
    }
    credit_refresh(c, 1);
}

static void ping_interval(struct connection *c)
{
    ngtcp2_conn_set_keep_alive_timeout(c->quic, c->server->fault->ping_every_ns);
}

/* Like quinn: as many address tokens as session tickets. */
static void new_tokens(struct connection *c, uint64_t now_ns)
{
    const struct server *s = c->server;
    uint8_t token[NGTCP2_CRYPTO_MAX_REGULAR_TOKENLEN];
    for (int i = 0; i < s->profile->tickets; i++) {
        ngtcp2_ssize n = ngtcp2_crypto_generate_regular_token(token, s->secret, sizeof s->secret,
                                                              &c->peer.any, c->peer.bytes, now_ns);
        if (n > 0) {
            (void)ngtcp2_conn_submit_new_token(c->quic, token, (size_t)n);
        }
    }
}

static void completed(struct connection *c, uint64_t now_ns)
{
    struct server *s = c->server;
    ngtcp2_conn_info info;
    int verdict = ADMISSION_WELCOME;
    ngtcp2_conn_get_conn_info(c->quic, &info);
    c->rtt_ns = info.min_rtt == UINT64_MAX ? 0 : info.smoothed_rtt;
    c->completed_ns = now_ns;
    c->state = CONNECTION_OPEN;
    TALLY_ADD(s->tally, connections, 1);
    packets_enter(c);
    credentials_completed(c->tls, s->profile);
    packets_leave();
    new_tokens(c, now_ns);
    ping_interval(c);
    if (s->fault->max_data_every_ns != 0) {
        c->max_data_ns = now_ns + s->fault->max_data_every_ns;
    }
    if (s->fault->close_when == FAULT_CLOSE_HANDSHAKE) {
        connection_doom(c, s->fault->close_code, NULL);
        return;
    }
    if (s->profile->admits) {
        verdict = admission_enter(&s->admission, &c->seat, c->ip,
                                  c->credentials.key_known ? c->credentials.key : NULL, now_ns);
    }
    if (verdict == ADMISSION_WELCOME) {
        admitted(c, now_ns);
        return;
    }
    TALLY_ADD(s->tally, refused, 1);
    connection_doom(c, verdict == ADMISSION_DISALLOWED ? 2 : 4, NULL);
}

void connection_evicted(void *owner)
{
    struct connection *c = owner;
    TALLY_ADD(c->server->tally, evicted, 1);
    connection_doom(c, 1, NULL);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void repeat_close(struct connection *c)
{
    /* Ever more rarely: after 1, 2, 4, 8… packets (RFC 9000 section 10.2.1). */
    c->close_repeats++;
    if (c->close_bytes > 0 && (c->close_repeats & (c->close_repeats - 1)) == 0) {
        c->server->send(c->server->context, &c->peer, c->close_packet, c->close_bytes);
    }
}

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
        repeat_close(c);
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
        return; /* carried out by connection_settle, whatever ngtcp2 says */
    }
    outcome(c, rv, now_ns);
    if (c->state > CONNECTION_OPEN) {
        return;
    }
    if (s->fault->close_when == FAULT_CLOSE_HELLO && c->completed_ns == 0) {
        connection_doom(c, s->fault->close_code, NULL);
    } else if (c->completed_ns == 0 && ngtcp2_conn_get_handshake_completed(c->quic)) {
        completed(c, now_ns);
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

void connection_stop_stream(struct connection *c, uint64_t ordinal)
{
    (void)ngtcp2_conn_shutdown_stream_read(c->quic, 0, (int64_t)(ordinal << 2 | 2), 0);
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

/* ---- writing ----------------------------------------------------------------------------------
 */

/* Until when nothing leaves, because acknowledgements are held back; 0: free to write. */
static uint64_t gate(const struct connection *c)
{
    const struct fault *fault = c->server->fault;
    const struct profile *profile = c->server->profile;
    if (!c->settled || c->hold_since_ns == 0) {
        return 0;
    }
    if (fault->ack == FAULT_ACK_DELAY) {
        return c->hold_since_ns + fault->ack_hold_ns;
    }
    if (profile->ack_hold_ns == 0 || c->hold_bytes >= profile->ack_hold_bytes) {
        return 0;
    }
    return c->hold_since_ns + profile->ack_hold_ns;
}

static void write_packets(struct connection *c, uint64_t now_ns)
{
    struct server *s = c->server;
    uint8_t packet[PACKET_BYTES];
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info;
    int muted = c->settled && s->fault->ack == FAULT_ACK_NEVER;
    ngtcp2_path_storage_zero(&path);
    for (;;) {
        packets_enter(c);
        ngtcp2_ssize n =
            ngtcp2_conn_write_pkt(c->quic, &path.path, &info, packet, sizeof packet, now_ns);
        packets_leave();
        if (n <= 0) {
            outcome(c, (int)n, now_ns);
            return;
        }
        if (!muted) {
            s->send(s->context, &c->peer, packet, (size_t)n);
        }
    }
}

static void flush(struct connection *c, uint64_t now_ns)
{
    if (gate(c) > now_ns) {
        return;
    }
    write_packets(c, now_ns);
    c->hold_since_ns = 0;
    c->hold_bytes = 0;
    c->settled = c->admitted_ns != 0 && c->grant_ns == 0;
}

void connection_settle(struct connection *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->state <= CONNECTION_OPEN && c->doom == CONNECTION_DOOM_CLOSE) {
        shut_application(c, c->doom_code, c->doom_reason, now_ns);
    } else if (c->state <= CONNECTION_OPEN && c->doom == CONNECTION_DOOM_FORGET) {
        vanish(c, "forgotten by fault", now_ns);
    } else if (c->state <= CONNECTION_OPEN) {
        flush(c, now_ns);
    }
    rearm(c, now_ns);
}

/* ---- timers -----------------------------------------------------------------------------------
 */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When a fault closes the connection, or UINT64_MAX. */
static uint64_t close_ns(const struct connection *c)
{
    const struct fault *fault = c->server->fault;
    if (c->completed_ns != 0 && fault->close_when == FAULT_CLOSE_IDLE) {
        return c->heard_ns + fault->close_arg;
    }
    if (c->completed_ns != 0 && fault->close_when == FAULT_CLOSE_AFTER) {
        return c->completed_ns + fault->close_arg;
    }
    return UINT64_MAX;
}

static void rearm(struct connection *c, uint64_t now_ns)
{
    const struct profile *profile = c->server->profile;
    uint64_t due = c->linger_ns;
    if (c->state == CONNECTION_DEAD) {
        due = TIMERS_NEVER;
    } else if (c->state <= CONNECTION_OPEN) {
        uint64_t shut_until = gate(c);
        due = ngtcp2_conn_get_expiry(c->quic);
        if (shut_until > now_ns) {
            due = shut_until; /* nothing may leave earlier, whatever ngtcp2 wishes */
        }
        due = earlier(due, reassembly_next(c));
        due = earlier(due, close_ns(c));
        due = c->completed_ns == 0 ? earlier(due, c->started_ns + profile->handshake_ns) : due;
        due = c->grant_ns != 0 ? earlier(due, c->grant_ns) : due;
        due = c->max_data_ns != 0 ? earlier(due, c->max_data_ns) : due;
    }
    if (timers_set(&c->server->timers, &c->timer, due) != 0) {
        vanish(c, "out of memory", now_ns);
    }
}

/* MAX_DATA frames that nobody needs: half a window more each time. */
static void churn_max_data(struct connection *c, uint64_t now_ns)
{
    const struct server *s = c->server;
    if (s->fault->max_data_every_ns == 0) {
        c->max_data_ns = 0;
        return;
    }
    ngtcp2_conn_extend_max_offset(c->quic, s->profile->data_initial / 2 + 1);
    c->max_data_ns = now_ns + s->fault->max_data_every_ns;
}

void connection_expire(struct connection *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    connection_mark(c);
    if (c->state > CONNECTION_OPEN) {
        c->state = now_ns >= c->linger_ns ? CONNECTION_DEAD : c->state;
        return;
    }
    if (c->completed_ns == 0 && now_ns >= c->started_ns + c->server->profile->handshake_ns) {
        connection_doom(c, 0, NULL);
        return;
    }
    if (now_ns >= close_ns(c)) {
        connection_doom(c, c->server->fault->close_code, NULL);
        return;
    }
    if (c->grant_ns != 0 && now_ns >= c->grant_ns) {
        c->grant_ns = 0;
        credit_refresh(c, 1);
    }
    if (c->max_data_ns != 0 && now_ns >= c->max_data_ns) {
        churn_max_data(c, now_ns);
    }
    if (now_ns >= reassembly_next(c)) {
        reassembly_run(c, now_ns);
    }
    if (gate(c) <= now_ns && ngtcp2_conn_get_expiry(c->quic) <= now_ns) {
        outcome(c, ngtcp2_conn_handle_expiry(c->quic, now_ns), now_ns);
    }
}

void connection_faults(struct connection *c, uint64_t now_ns)
{
    if (c->state > CONNECTION_OPEN) {
        return;
    }
    c->now_ns = now_ns;
    if (c->completed_ns != 0) {
        ping_interval(c);
        if (c->server->fault->max_data_every_ns != 0 && c->max_data_ns == 0) {
            c->max_data_ns = now_ns + c->server->fault->max_data_every_ns;
        }
    }
    credit_refresh(c, 1);
    connection_mark(c);
}
