#include "mock/admitting.h"

#include "mock/packets.h"

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

void admitting_completed(struct connection *c, uint64_t now_ns)
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
    ngtcp2_conn_set_keep_alive_timeout(c->quic, s->fault->ping_every_ns);
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

void admitting_evicted(void *owner)
{
    struct connection *c = owner;
    TALLY_ADD(c->server->tally, evicted, 1);
    connection_doom(c, 1, NULL);
}
