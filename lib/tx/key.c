#include "tx/key.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/fork.h"
#include "base/random.h"
#include "tx/key_pool.h"

/* The handle itself is ordinary memory: in a child it must still say whose it is. */
struct solsend_key {
    uint64_t epoch;
    struct key_pool_slot slot; /* seed, then public half: what libsodium signs with */
    uint8_t public_half[SOLSEND_KEY_BYTES];
};

_Static_assert(KEY_POOL_SECRET_BYTES == crypto_sign_SECRETKEYBYTES, "a slot holds one secret");

static int key_new(solsend_key **out)
{
    if (out == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    *out = NULL;
    int rc = random_start();
    if (rc != 0) {
        return rc;
    }
    solsend_key *key = calloc(1, sizeof *key);
    if (key == NULL || key_pool_take(&key->slot) != 0) {
        free(key);
        return SOLSEND_ERR_MEMORY;
    }
    key->epoch = fork_epoch();
    *out = key;
    return 0;
}

int solsend_key_from_seed(solsend_key **out, const uint8_t seed[32])
{
    if (seed == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    int rc = key_new(out);
    if (rc == 0) {
        crypto_sign_seed_keypair((*out)->public_half, (*out)->slot.secret, seed);
    }
    return rc;
}

int solsend_key_random(solsend_key **out)
{
    int rc = key_new(out);
    if (rc == 0) {
        crypto_sign_keypair((*out)->public_half, (*out)->slot.secret);
    }
    return rc;
}

void solsend_key_close(solsend_key *key)
{
    if (key == NULL) {
        return;
    }
    if (!key_is_foreign(key)) {
        key_pool_give(&key->slot);
    }
    free(key);
}

int solsend_key_public(const solsend_key *key, uint8_t out[32])
{
    if (key == NULL || out == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    if (key_is_foreign(key)) {
        return SOLSEND_ERR_FORKED;
    }
    memcpy(out, key->public_half, sizeof key->public_half);
    return 0;
}

int solsend_key_sign(const solsend_key *key, const uint8_t *message, size_t bytes,
                     uint8_t signature[64])
{
    if (key == NULL || signature == NULL || (message == NULL && bytes != 0)) {
        return SOLSEND_ERR_USAGE;
    }
    if (key_is_foreign(key)) {
        return SOLSEND_ERR_FORKED;
    }
    crypto_sign_detached(signature, NULL, message, bytes, key->slot.secret);
    return 0;
}

int solsend_key_is_locked(const solsend_key *key)
{
    if (key == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    if (key_is_foreign(key)) {
        return SOLSEND_ERR_FORKED;
    }
    return key_pool_is_locked(&key->slot);
}

int solsend_signature_verify(const uint8_t signature[64], const uint8_t *message, size_t bytes,
                             const uint8_t public_key[32])
{
    if (signature == NULL || public_key == NULL || (message == NULL && bytes != 0)) {
        return SOLSEND_ERR_USAGE;
    }
    int rc = crypto_sign_verify_detached(signature, message, bytes, public_key);
    return rc == 0 ? 0 : SOLSEND_ERR_TX_MALFORMED;
}

const uint8_t *key_seed(const solsend_key *key)
{
    return key->slot.secret;
}

const uint8_t *key_public(const solsend_key *key)
{
    return key->public_half;
}

int key_is_foreign(const solsend_key *key)
{
    return fork_is_foreign(key->epoch);
}
