/**
 * Ed25519 keys: the identity of a connection and the signer of a transaction.
 *
 * Secrets live in locked memory that is wiped at close, wiped in a forked child and left out of
 * core dumps; nothing here ever prints or logs one.
 *
 * Threads: a key is read-only after open and may be used by any number of threads; close it when
 * nobody uses it. Blocks: the functions that read files, else never.
 */
#ifndef SOLSEND_KEY_H
#define SOLSEND_KEY_H

#include <solsend/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOLSEND_KEY_BYTES       32u
#define SOLSEND_SIGNATURE_BYTES 64u

typedef struct solsend_key solsend_key;

/**
 * Opens a key from where the caller keeps it. `source` is a path or "file:PATH" or "env:NAME"; the
 * content is solana-keygen JSON (64 numbers, the public half is checked), 32 or 64 bytes in base58,
 * or a raw 32-byte seed (files only). At most 4096 bytes are read.
 *
 * Returns 0, or FILE, KEY_MALFORMED, KEY_MISMATCH, USAGE, MEMORY; `detail` then says where.
 */
SOLSEND_API int solsend_key_open(solsend_key **out, const char *source, solsend_detail *detail);

/** The same from memory: JSON or base58 text. `text` need not end with a zero. */
SOLSEND_API int solsend_key_from_text(solsend_key **out, const char *text, size_t text_bytes,
                                      solsend_detail *detail);

/** From a 32-byte seed, copied. Returns 0, USAGE or MEMORY. */
SOLSEND_API int solsend_key_from_seed(solsend_key **out, const uint8_t seed[32]);

/** A fresh random key. Returns 0 or MEMORY. */
SOLSEND_API int solsend_key_random(solsend_key **out);

/** Wipes and frees it; null is allowed. In a forked child it only forgets it. */
SOLSEND_API void solsend_key_close(solsend_key *key);

/** Copies the public key. Returns 0, USAGE, or FORKED in a forked child. */
SOLSEND_API int solsend_key_public(const solsend_key *key, uint8_t out[32]);

/** Signs `bytes` bytes at `message` (RFC 8032, deterministic). Returns 0, USAGE or FORKED. */
SOLSEND_API int solsend_key_sign(const solsend_key *key, const uint8_t *message, size_t bytes,
                                 uint8_t signature[64]);

/** 1 if the secret's memory is locked, 0 if the host refused (RLIMIT_MEMLOCK). */
SOLSEND_API int solsend_key_is_locked(const solsend_key *key);

/** 0 if `signature` is `public_key`'s over the message, else SOLSEND_ERR_TX_MALFORMED. */
SOLSEND_API int solsend_signature_verify(const uint8_t signature[64], const uint8_t *message,
                                         size_t bytes, const uint8_t public_key[32]);

/**
 * base58 as Solana writes keys, signatures and blockhashes (Bitcoin's alphabet). `out` receives a
 * zero-terminated string. Inputs up to 128 bytes. 45 chars hold 32 bytes, 89 hold 64, with the 0.
 * Returns the length without the zero, or USAGE, BUFFER_TOO_SMALL.
 */
SOLSEND_API int solsend_base58_encode(char *out, size_t out_bytes, const uint8_t *data,
                                      size_t bytes);

/**
 * The reverse; the text must decode to exactly `bytes` bytes. Returns 0 or BASE58; `detail.offset`
 * is the first wrong character.
 */
SOLSEND_API int solsend_base58_decode(uint8_t *out, size_t bytes, const char *text,
                                      size_t text_bytes, solsend_detail *detail);

#ifdef __cplusplus
}
#endif
#endif
