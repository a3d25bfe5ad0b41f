/*
 * Random bytes without a system call on the hot path: ChaCha20 keyed once from the kernel, one
 * generator per connection. Good enough for connection ids and reset tokens (RFC 9000 section 21).
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random_state {
    uint8_t key[32];
    uint8_t block[256];
    uint64_t counter;
    uint32_t used; /* bytes of block handed out */
};

/*
 * Starts libsodium, once: sodium_init takes a lock even when there is nothing left to do, and a
 * child that was forked while another thread held it would wait for ever. Returns 0 or
 * SOLSEND_ERR_INTERNAL.
 */
int random_start(void);

/* Seeds from the kernel. Returns 0 or SOLSEND_ERR_INTERNAL when libsodium cannot start. */
int random_open(struct random_state *state);

/* Fills `out`. */
void random_fill(struct random_state *state, uint8_t *out, size_t bytes);

#endif
