/*
 * The encryption of outgoing QUIC packets: what has to be looked at or put right in their plaintext
 * on the way, and keeping the keys of an idle connection warm.
 */
#ifndef LINK_SEAL_H
#define LINK_SEAL_H

#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdint.h>

/* The AEAD and key that 1-RTT packets are sealed with; a null native handle: not known. */
struct seal_key {
    ngtcp2_crypto_aead aead;
    ngtcp2_crypto_aead_ctx context;
};

/* What a thread wants to know of the packets that it writes between begin and end. */
struct seal_watch {
    struct seal_key *key; /* receives the key of 1-RTT packets */
    int64_t cut;          /* the last stream that a packet cuts in two; -1: none. See repeat.h */
    int find_cut;
};

/* ngtcp2's encrypt callback. */
int seal_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                 const ngtcp2_crypto_aead_ctx *context, const uint8_t *plaintext,
                 size_t plaintext_bytes, const uint8_t *nonce, size_t nonce_bytes,
                 const uint8_t *aad, size_t aad_bytes);

/* At most one watch a thread at a time. */
void seal_watch_begin(struct seal_watch *watch);
void seal_watch_end(void);

/* Seals a scratch packet that never leaves this function, so that key and code stay in caches. */
void seal_warm(const struct seal_key *key);

#endif
