#include "mock/server.h"

#include "mock/admitting.h"
#include "mock/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_BYTES       1472u
#define RESET_BYTES_MIN   (NGTCP2_MIN_STATELESS_RESET_RANDLEN + NGTCP2_STATELESS_RESET_TOKENLEN)
#define RESET_BYTES_MAX   42u
#define RESET_INTERVAL_NS 20000000u /* quinn: at most 50 stateless resets a second */
#define TOKEN_LIFE_NS     (UINT64_C(14) * 86400 * 1000000000) /* 14 days */
#define DRAFT_29          0xff00001du
#define GREASE_VERSION    0x0a1a2a3au

int server_open(struct server *s, uint64_t seed)
{
    s->ended = calloc(SERVER_ENDED_ROWS, sizeof *s->ended);
    timers_open(&s->timers);
    if (s->ended == NULL || cidmap_open(&s->cids) != 0 || random_open(&s->random) != 0) {
        free(s->ended);
        s->ended = NULL;
        return -1;
    }
    random_fill(&s->random, s->secret, sizeof s->secret);
    admission_open(&s->admission, s->fault, seed, admitting_evicted);
    return 0;
}

void server_close(struct server *s)
{
    if (s->ended == NULL) {
        return;
    }
    while (s->live != NULL) {
        connection_free(s->live);
    }
    while (s->blocks != NULL) {
        struct server_block *block = s->blocks;
        s->blocks = block->next;
        free(block);
    }
    admission_close(&s->admission);
    cidmap_close(&s->cids);
    timers_close(&s->timers);
    free(s->ended);
    s->ended = NULL;
}

/* ---- answers without a connection -------------------------------------------------------------
 */

static void reply(struct server *s, const struct sockname *to, const uint8_t *data, ngtcp2_ssize n)
{
    if (n > 0) {
        s->send(s->context, to, data, (size_t)n);
    }
}

/* `honest`: with the version we do speak. */
static void version_negotiation(struct server *s, const struct sockname *from,
                                const ngtcp2_version_cid *vc, int honest)
{
    uint8_t packet[REPLY_BYTES];
    uint8_t unused;
    uint32_t versions[] = {GREASE_VERSION, honest ? NGTCP2_PROTO_VER_V1 : DRAFT_29};
    random_fill(&s->random, &unused, 1);
    reply(s, from, packet,
          ngtcp2_pkt_write_version_negotiation(packet, sizeof packet, unused, vc->scid, vc->scidlen,
                                               vc->dcid, vc->dcidlen, versions, 2));
}

static void refuse(struct server *s, const struct sockname *from, const ngtcp2_pkt_hd *hd)
{
    uint8_t packet[REPLY_BYTES];
    TALLY_ADD(s->tally, refused, 1);
    reply(s, from, packet,
          ngtcp2_crypto_write_connection_close(packet, sizeof packet, hd->version, &hd->scid,
                                               &hd->dcid, NGTCP2_CONNECTION_REFUSED, NULL, 0));
}

static void retry(struct server *s, const struct sockname *from, const ngtcp2_pkt_hd *hd,
                  uint64_t now_ns)
{
    uint8_t packet[REPLY_BYTES];
    uint8_t token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN];
    ngtcp2_cid scid = {.datalen = SERVER_CID_BYTES};
    random_fill(&s->random, scid.data, scid.datalen);
    ngtcp2_ssize n =
        ngtcp2_crypto_generate_retry_token(token, s->secret, sizeof s->secret, hd->version,
                                           &from->any, from->bytes, &scid, &hd->dcid, now_ns);
    if (n > 0) {
        TALLY_ADD(s->tally, retries_sent, 1);
        reply(s, from, packet,
              ngtcp2_crypto_write_retry(packet, sizeof packet, hd->version, &hd->scid, &scid,
                                        &hd->dcid, token, (size_t)n));
    }
}

static void stateless_reset(struct server *s, const struct sockname *from, const uint8_t *data,
                            size_t bytes, uint64_t now_ns)
{
    uint8_t packet[RESET_BYTES_MAX];
    uint8_t token[NGTCP2_STATELESS_RESET_TOKENLEN];
    uint8_t noise[RESET_BYTES_MAX - NGTCP2_STATELESS_RESET_TOKENLEN];
    ngtcp2_cid cid;
    /* Shorter than what it answers, so that two servers cannot play ping-pong. */
    size_t size = bytes - 1 < RESET_BYTES_MAX ? bytes - 1 : RESET_BYTES_MAX;
    if (bytes <= RESET_BYTES_MIN || now_ns < s->reset_not_before_ns) {
        return;
    }
    s->reset_not_before_ns = now_ns + RESET_INTERVAL_NS;
    ngtcp2_cid_init(&cid, data + 1, SERVER_CID_BYTES);
    random_fill(&s->random, noise, sizeof noise);
    if (ngtcp2_crypto_generate_stateless_reset_token(token, s->secret, sizeof s->secret, &cid) ==
        0) {
        reply(s, from, packet,
              ngtcp2_pkt_write_stateless_reset(packet, size, token, noise,
                                               size - NGTCP2_STATELESS_RESET_TOKENLEN));
    }
}

/* ---- new connections --------------------------------------------------------------------------
 */

static int ignored(struct server *s)
{
    if (s->fault->ignore_initials == 0) {
        return 0;
    }
    if (s->fault->ignore_initials != FAULT_ALL) {
        s->fault->ignore_initials--;
    }
    return 1;
}

static uint64_t retry_ttl(const struct server *s)
{
    uint64_t usual = s->profile->retry_ttl_ns;
    if (s->fault->retry != FAULT_DEFAULT) {
        usual = s->fault->retry == 0 ? 0 : usual == 0 ? UINT64_C(15000000000) : usual;
    }
    return usual != 0 && s->fault->retry_ttl_ns != FAULT_DEFAULT ? s->fault->retry_ttl_ns : usual;
}

/* A token of an earlier connection proves the address too; one of somebody else's says nothing. */
static void known_token(const struct server *s, const struct sockname *from,
                        const ngtcp2_pkt_hd *hd, struct connection_hello *hello, uint64_t now_ns)
{
    if (hd->tokenlen > 0 && hd->token[0] == NGTCP2_CRYPTO_TOKEN_MAGIC_REGULAR &&
        ngtcp2_crypto_verify_regular_token(hd->token, hd->tokenlen, s->secret, sizeof s->secret,
                                           &from->any, from->bytes, TOKEN_LIFE_NS, now_ns) == 0) {
        hello->token = hd->token;
        hello->token_bytes = hd->tokenlen;
        hello->token_type = NGTCP2_TOKEN_TYPE_NEW_TOKEN;
    }
}

/* Returns 1 when the client has proven its address, 0 when a Retry went out or nothing will. */
static int address_proven(struct server *s, const struct sockname *from, const ngtcp2_pkt_hd *hd,
                          struct connection_hello *hello, uint64_t now_ns)
{
    uint64_t ttl = retry_ttl(s);
    if (ttl == 0) {
        known_token(s, from, hd, hello, now_ns);
        return 1;
    }
    if (hd->tokenlen == 0) {
        retry(s, from, hd, now_ns);
        return 0;
    }
    if (ngtcp2_crypto_verify_retry_token(&hello->original_cid, hd->token, hd->tokenlen, s->secret,
                                         sizeof s->secret, hd->version, &from->any, from->bytes,
                                         &hd->dcid, ttl, now_ns) != 0) {
        TALLY_ADD(s->tally, tokens_refused, 1);
        return 0;
    }
    hello->retried = 1;
    hello->token = hd->token;
    hello->token_bytes = hd->tokenlen;
    hello->token_type = NGTCP2_TOKEN_TYPE_RETRY;
    return 1;
}

/* Returns 1 to go on with it. */
static int welcome(struct server *s, const struct sockname *from, const ngtcp2_pkt_hd *hd,
                   uint64_t now_ns)
{
    uint8_t ip[16];
    int verdict = ADMISSION_WELCOME;
    sockname_ip(from, ip);
    if (s->profile->admits) {
        verdict = admission_hello(&s->admission, ip, s->live_count, now_ns);
    }
    if (ignored(s) || verdict == ADMISSION_SILENCE) {
        TALLY_ADD(s->tally, initials_ignored, 1);
        return 0;
    }
    if (s->fault->refuse || verdict == ADMISSION_FULL) {
        refuse(s, from, hd);
        return 0;
    }
    return 1;
}

static void hello(struct server *s, const struct sockname *from, const ngtcp2_version_cid *vc,
                  const uint8_t *data, size_t bytes, uint64_t received_ns, uint64_t now_ns)
{
    ngtcp2_pkt_hd hd;
    struct connection_hello first = {.header = &hd};
    if (ngtcp2_accept(&hd, data, bytes) != 0) {
        return;
    }
    TALLY_ADD(s->tally, initials, 1);
    first.original_cid = hd.dcid;
    if (s->fault->version_negotiation) {
        version_negotiation(s, from, vc, 0);
        return;
    }
    if (!welcome(s, from, &hd, now_ns) || !address_proven(s, from, &hd, &first, now_ns)) {
        return;
    }
    struct connection *c = connection_open(s, &first, from, now_ns);
    if (c != NULL) {
        connection_read(c, from, data, bytes, received_ns, now_ns);
    }
}

void server_datagram(struct server *s, const struct sockname *from, const uint8_t *data,
                     size_t bytes, uint64_t received_ns, uint64_t now_ns)
{
    ngtcp2_version_cid vc;
    int rv = bytes == 0 ? NGTCP2_ERR_INVALID_ARGUMENT
                        : ngtcp2_pkt_decode_version_cid(&vc, data, bytes, SERVER_CID_BYTES);
    if (rv == NGTCP2_ERR_VERSION_NEGOTIATION && s->profile->answers_unknown) {
        version_negotiation(s, from, &vc, 1);
    }
    if (rv != 0) {
        return;
    }
    struct connection *c = cidmap_get(&s->cids, vc.dcid, vc.dcidlen);
    if (c != NULL) {
        connection_read(c, from, data, bytes, received_ns, now_ns);
        if (c->doom == CONNECTION_DOOM_FORGET && c->state <= CONNECTION_OPEN) {
            stateless_reset(s, from, data, bytes, now_ns);
        }
    } else if ((data[0] & 0x80) != 0) {
        hello(s, from, &vc, data, bytes, received_ns, now_ns);
    } else if (s->profile->answers_unknown || s->fault->reset_stream != 0) {
        stateless_reset(s, from, data, bytes, now_ns);
    }
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void row_fill(struct server_row *row, const struct connection *c)
{
    memset(row, 0, sizeof *row);
    row->peer = c->peer;
    memcpy(row->key, c->credentials.key, sizeof row->key);
    row->key_known = c->credentials.key_known != 0;
    row->admitted = c->admitted_ns != 0;
    row->staked = c->staked != 0;
    row->by_peer = c->by_peer != 0;
    row->live = c->state <= CONNECTION_OPEN;
    row->started_ns = c->started_ns;
    row->completed_ns = c->completed_ns;
    row->admitted_ns = c->admitted_ns;
    row->ended_ns = c->ended_ns;
    row->rtt_ns = c->rtt_ns;
    row->granted = c->granted;
    row->streams = c->streams;
    row->accepted = c->accepted;
    row->packets = c->packets;
    memcpy(row->end, c->end, sizeof row->end);
}

static void bury(struct server *s, struct connection *c)
{
    row_fill(&s->ended[s->ended_count++ % SERVER_ENDED_ROWS], c);
    connection_free(c);
}

static void settle_dirty(struct server *s, uint64_t now_ns)
{
    while (s->dirty != NULL) {
        struct connection *c = s->dirty;
        s->dirty = c->dirty_next;
        c->is_dirty = 0;
        pulse_settle(c, now_ns);
        if (c->state == CONNECTION_DEAD && !c->is_dirty) {
            bury(s, c);
        }
    }
}

void server_run(struct server *s, uint64_t now_ns)
{
    struct connection *c;
    while ((c = timers_pop(&s->timers, now_ns)) != NULL) {
        pulse_expire(c, now_ns);
    }
    settle_dirty(s, now_ns);
}

uint64_t server_next(const struct server *s)
{
    return s->dirty != NULL ? 0 : timers_next(&s->timers);
}

void server_fault_changed(struct server *s, uint64_t now_ns)
{
    for (struct connection *c = s->live; c != NULL; c = c->next) {
        pulse_faults(c, now_ns);
    }
}

void server_rows(const struct server *s, void (*each)(void *context, const struct server_row *row),
                 void *context)
{
    struct server_row row;
    uint64_t first = s->ended_count > SERVER_ENDED_ROWS ? s->ended_count - SERVER_ENDED_ROWS : 0;
    for (uint64_t i = first; i < s->ended_count; i++) {
        each(context, &s->ended[i % SERVER_ENDED_ROWS]);
    }
    for (const struct connection *c = s->live; c != NULL; c = c->next) {
        row_fill(&row, c);
        each(context, &row);
    }
}
