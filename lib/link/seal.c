#include "link/seal.h"

#include <stdatomic.h>
#include <string.h>

#include "link/initial_order.h"
#include "link/repeat.h"

enum { WARM_BYTES = 256, TAG_BYTES_MAX = 32, NONCE_BYTES = 12, LONG_HEADER = 0x80 };

/*
 * The encrypt callback is not told whose packet it is. Threads that want to know what they write
 * say so here; the count keeps the others from looking for it in thread-local memory.
 */
static atomic_uint watchers;
static _Thread_local struct seal_watch *watched;

static void look(const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *context,
                 const uint8_t *plaintext, size_t plaintext_bytes, const uint8_t *aad,
                 size_t aad_bytes)
{
    if (aad_bytes == 0 || (aad[0] & LONG_HEADER) != 0) {
        return;
    }
    watched->key->aead = *aead;
    watched->key->context = *context;
    if (watched->find_cut) {
        watched->cut = repeat_find_cut(plaintext, plaintext_bytes);
    }
}

/*
 * Client Initials get their CRYPTO frames back in order: Firedancer has no CRYPTO reorder buffer
 * (src/waltz/quic/fd_quic.c, fd_quic_handle_crypto_frame) and ngtcp2 >= 1.15 shuffles them.
 */
static __attribute__((noinline, cold)) int
encrypt_after_a_look(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                     const ngtcp2_crypto_aead_ctx *context, const uint8_t *plaintext,
                     size_t plaintext_bytes, const uint8_t *nonce, size_t nonce_bytes,
                     const uint8_t *aad, size_t aad_bytes)
{
    uint8_t sorted[INITIAL_ORDER_BYTES_MAX];
    if (initial_order_wants(aad, aad_bytes)) {
        if (initial_order_sort(sorted, plaintext, plaintext_bytes)) {
            plaintext = sorted;
        }
    } else if (watched != NULL) {
        look(aead, context, plaintext, plaintext_bytes, aad, aad_bytes);
    }
    return ngtcp2_crypto_encrypt_cb(dest, aead, context, plaintext, plaintext_bytes, nonce,
                                    nonce_bytes, aad, aad_bytes);
}

int seal_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                 const ngtcp2_crypto_aead_ctx *context, const uint8_t *plaintext,
                 size_t plaintext_bytes, const uint8_t *nonce, size_t nonce_bytes,
                 const uint8_t *aad, size_t aad_bytes)
{
    int wanted = initial_order_wants(aad, aad_bytes) ||
                 atomic_load_explicit(&watchers, memory_order_relaxed) != 0;
    if (__builtin_expect(wanted, 0)) {
        return encrypt_after_a_look(dest, aead, context, plaintext, plaintext_bytes, nonce,
                                    nonce_bytes, aad, aad_bytes);
    }
    return ngtcp2_crypto_encrypt_cb(dest, aead, context, plaintext, plaintext_bytes, nonce,
                                    nonce_bytes, aad, aad_bytes);
}

void seal_watch_begin(struct seal_watch *watch)
{
    watched = watch;
    atomic_fetch_add_explicit(&watchers, 1, memory_order_relaxed);
}

void seal_watch_end(void)
{
    atomic_fetch_sub_explicit(&watchers, 1, memory_order_relaxed);
    watched = NULL;
}

void seal_warm(const struct seal_key *key)
{
    static const uint8_t plaintext[WARM_BYTES], nonce[NONCE_BYTES], aad[16];
    uint8_t sealed[WARM_BYTES + TAG_BYTES_MAX];
    if (key->context.native_handle == NULL || key->aead.max_overhead > TAG_BYTES_MAX) {
        return;
    }
    ngtcp2_crypto_encrypt(sealed, &key->aead, &key->context, plaintext, sizeof plaintext, nonce,
                          sizeof nonce, aad, sizeof aad);
}
