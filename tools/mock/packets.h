/*
 * Between ngtcp2 and its cipher: sees the frames of every packet in clear. Counts what ngtcp2 does
 * not report, refuses packets as Firedancer does, hides frames by fault.
 */
#ifndef MOCK_PACKETS_H
#define MOCK_PACKETS_H

#include <ngtcp2/ngtcp2_crypto.h>

struct connection;

/* Names the connection whose ngtcp2 call follows: the cipher callbacks have no argument for it. */
void packets_enter(struct connection *c);
void packets_leave(void);

int packets_decrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                    const ngtcp2_crypto_aead_ctx *aead_ctx, const uint8_t *ciphertext,
                    size_t ciphertextlen, const uint8_t *nonce, size_t noncelen, const uint8_t *aad,
                    size_t aadlen);

int packets_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                    const ngtcp2_crypto_aead_ctx *aead_ctx, const uint8_t *plaintext,
                    size_t plaintextlen, const uint8_t *nonce, size_t noncelen, const uint8_t *aad,
                    size_t aadlen);

#endif
