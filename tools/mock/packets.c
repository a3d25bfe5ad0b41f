#include "mock/packets.h"

#include "mock/connection.h"
#include "mock/frames.h"

#include <string.h>

#define LONG_HEADER   0x80u
#define LONG_TYPE     0x30u /* 0: Initial */
#define KEY_PHASE     0x04u
#define PLAINTEXT_MAX 2048u

static _Thread_local struct connection *current;

void packets_enter(struct connection *c)
{
    current = c;
}

void packets_leave(void)
{
    current = NULL;
}

static int by_profile(uint64_t fault, int profile)
{
    return fault == FAULT_DEFAULT ? profile : (int)fault;
}

/* Keeps the newest ClientHello for mock_hello. */
static void keep_hello(struct server *s, const struct frame *f)
{
    if (f->offset + f->length > sizeof s->hello || f->offset > s->hello_bytes) {
        return;
    }
    memcpy(s->hello + f->offset, f->data, f->length);
    s->hello_bytes = f->offset + f->length;
}

/*
 * Firedancer has no reorder buffer for the ClientHello: a packet with a CRYPTO frame beyond what it
 * holds is dropped unacknowledged. (It keeps frames of that packet that came in order; here the
 * packet is dropped as a whole.)
 */
static int initial(struct connection *c, const uint8_t *payload, size_t bytes)
{
    struct frames frames;
    struct frame f;
    uint64_t held = c->hello_held;
    int disordered = 0;
    frames_open(&frames, payload, bytes);
    while (frames_next(&frames, &f) == 1) {
        if (f.kind != FRAME_CRYPTO) {
            continue;
        }
        disordered |= f.offset > held;
        if (f.offset <= held && f.offset + f.length > held) {
            held = f.offset + f.length;
            keep_hello(c->server, &f);
        }
    }
    if (disordered) {
        TALLY_ADD(c->server->tally, hello_disordered, 1);
        if (by_profile(c->server->fault->hello_ordered, c->server->profile->hello_ordered)) {
            return NGTCP2_ERR_DECRYPT;
        }
    }
    c->hello_held = held;
    return 0;
}

/* Takes the FIN away from every so-many-th stream, so that there is something left to stop. */
static void stop_sending(const struct connection *c, uint8_t *payload, const struct frame *f)
{
    uint64_t every = c->server->fault->stop_sending;
    if (every != 0 && ((f->id >> 2) + 1) % every == 0) {
        payload[f->start - payload] &= (uint8_t)~1u;
    }
}

static void held_back(struct connection *c, uint64_t stream_bytes)
{
    if (c->hold_since_ns == 0) {
        c->hold_since_ns = c->heard_ns;
    }
    c->hold_bytes += stream_bytes;
}

static void key_phase(struct connection *c, uint8_t first)
{
    uint8_t phase = (first & KEY_PHASE) != 0;
    if (phase != c->key_phase) {
        c->key_phase = phase;
        TALLY_ADD(c->server->tally, key_updates, 1);
    }
}

static int one_rtt(struct connection *c, uint8_t first, uint8_t *payload, size_t bytes)
{
    const struct server *s = c->server;
    int refuse_gaps = by_profile(s->fault->gaps_refused, s->profile->gaps_refused);
    uint64_t pings = 0;
    uint64_t stream_frames = 0;
    uint64_t stream_bytes = 0;
    int elicits = 0;
    struct frames frames;
    struct frame f;
    if (s->fault->drop_1rtt && c->completed_ns != 0) {
        return NGTCP2_ERR_DECRYPT;
    }
    frames_open(&frames, payload, bytes);
    while (frames_next(&frames, &f) == 1) {
        elicits |= f.kind != FRAME_ACK && f.kind != FRAME_ACK_ECN && f.kind != FRAME_PADDING &&
                   f.kind != FRAME_CLOSE && f.kind != FRAME_CLOSE_APP;
        pings += f.kind == FRAME_PING;
        if (f.kind == FRAME_STREAM) {
            if (refuse_gaps && reassembly_gap(c, f.id >> 2, f.offset)) {
                TALLY_ADD(s->tally, gaps, 1);
                return NGTCP2_ERR_DECRYPT;
            }
            stream_frames++;
            stream_bytes += f.length;
            stop_sending(c, payload, &f);
        }
    }
    c->packets_1rtt++;
    key_phase(c, first);
    if (pings != 0) {
        TALLY_ADD(s->tally, pings, pings);
    }
    if (stream_frames != 0) {
        TALLY_ADD(s->tally, stream_frames, stream_frames);
    }
    if (elicits) {
        held_back(c, stream_bytes);
    }
    return 0;
}

int packets_decrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                    const ngtcp2_crypto_aead_ctx *aead_ctx, const uint8_t *ciphertext,
                    size_t ciphertextlen, const uint8_t *nonce, size_t noncelen, const uint8_t *aad,
                    size_t aadlen)
{
    int rv = ngtcp2_crypto_decrypt_cb(dest, aead, aead_ctx, ciphertext, ciphertextlen, nonce,
                                      noncelen, aad, aadlen);
    if (rv != 0 || current == NULL || aadlen == 0) {
        return rv;
    }
    size_t bytes = ciphertextlen - aead->max_overhead;
    if ((aad[0] & LONG_HEADER) == 0) {
        return one_rtt(current, aad[0], dest, bytes);
    }
    return (aad[0] & LONG_TYPE) == 0 ? initial(current, dest, bytes) : 0;
}

/* Overwrites with PADDING what this server would not say. Returns 1 if anything changed. */
static int hide(const struct connection *c, uint8_t *payload, size_t bytes)
{
    struct frames frames;
    struct frame f;
    int stops = 0;
    int changed = 0;
    frames_open(&frames, payload, bytes);
    while (frames_next(&frames, &f) == 1) {
        stops |= f.kind == FRAME_STOP_SENDING;
        if (f.kind == FRAME_NEW_CONNECTION_ID && !c->server->profile->issues_cids) {
            memset(payload + (f.start - payload), 0, f.bytes);
            changed = 1;
        }
    }
    if (!stops || c->server->fault->stop_sending == 0) {
        return changed;
    }
    /* An ACK for the stream in the same packet would end it before the stop is seen. */
    frames_open(&frames, payload, bytes);
    while (frames_next(&frames, &f) == 1) {
        if (f.kind == FRAME_ACK || f.kind == FRAME_ACK_ECN) {
            memset(payload + (f.start - payload), 0, f.bytes);
            changed = 1;
        }
    }
    return changed;
}

int packets_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                    const ngtcp2_crypto_aead_ctx *aead_ctx, const uint8_t *plaintext,
                    size_t plaintextlen, const uint8_t *nonce, size_t noncelen, const uint8_t *aad,
                    size_t aadlen)
{
    uint8_t copy[PLAINTEXT_MAX];
    if (current != NULL && aadlen > 0 && (aad[0] & LONG_HEADER) == 0 &&
        plaintextlen <= sizeof copy &&
        (!current->server->profile->issues_cids || current->server->fault->stop_sending != 0)) {
        memcpy(copy, plaintext, plaintextlen);
        if (hide(current, copy, plaintextlen)) {
            plaintext = copy;
        }
    }
    return ngtcp2_crypto_encrypt_cb(dest, aead, aead_ctx, plaintext, plaintextlen, nonce, noncelen,
                                    aad, aadlen);
}
