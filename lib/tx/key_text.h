/* The texts a key is written in. Refusals name the byte and the reason, never the content. */
#ifndef TX_KEY_TEXT_H
#define TX_KEY_TEXT_H

#include <solsend/key.h>

/* A file or variable longer than this is no key. */
enum { KEY_TEXT_BYTES_MAX = 4096 };

/*
 * What a text held; wipe it after use. `public_at` is the byte of the text where a public half
 * starts, or SOLSEND_NO_OFFSET: the seed stood alone.
 */
struct key_text {
    uint8_t secret[64];
    uint32_t public_at;
};

/* Reads solana-keygen JSON or base58 of 32 or 64 bytes. Returns 0 or KEY_MALFORMED. */
int key_text_parse(struct key_text *out, const char *text, size_t text_bytes,
                   solsend_detail *detail);

#endif
