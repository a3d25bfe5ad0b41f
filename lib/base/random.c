#include "base/random.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <string.h>

#include <solsend/error.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int started;

static void take(void)
{
    pthread_mutex_lock(&lock);
}

static void give(void)
{
    pthread_mutex_unlock(&lock);
}

/* A fork waits for the one start, or libsodium's own lock would stay held in the child for ever. */
static void register_fork(void)
{
    pthread_atfork(take, give, give);
}

int random_start(void)
{
    if (atomic_load_explicit(&started, memory_order_acquire)) {
        return 0;
    }
    pthread_once(&once, register_fork);
    take();
    int rc = sodium_init() < 0 ? SOLSEND_ERR_INTERNAL : 0;
    if (rc == 0) {
        atomic_store_explicit(&started, 1, memory_order_release);
    }
    give();
    return rc;
}

int random_open(struct random_state *state)
{
    int rc = random_start();
    if (rc != 0) {
        return rc;
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
