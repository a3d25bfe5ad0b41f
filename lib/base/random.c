#include "base/random.h"

#include <sodium.h>
#include <string.h>

#include <solsend/error.h>

int random_open(struct random_state *state)
{
    if (sodium_init() < 0) {
        return SOLSEND_ERR_INTERNAL;
    }
    randombytes_buf(state->key, sizeof state->key);
    state->counter = 0;
    state->used = sizeof state->block;
    return 0;
}

static void refill(struct random_state *state)
{
    uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
    memcpy(nonce, &state->counter, sizeof nonce);
    crypto_stream_chacha20(state->block, sizeof state->block, nonce, state->key);
    state->counter++;
    state->used = 0;
}

void random_fill(struct random_state *state, uint8_t *out, size_t bytes)
{
    while (bytes > 0) {
        if (state->used == sizeof state->block) {
            refill(state);
        }
        size_t n = sizeof state->block - state->used;
        if (n > bytes) {
            n = bytes;
        }
        memcpy(out, state->block + state->used, n);
        state->used += (uint32_t)n;
        out += n;
        bytes -= n;
    }
}
