/* Bitcoin's base58, as Solana writes keys, signatures and blockhashes. */
#include <string.h>

#include <sodium.h>

#include <solsend/key.h>

#include "base/detail.h"

enum {
    DATA_BYTES_MAX = 128,
    TEXT_CHARS_MAX = 176 /* 128 bytes / log256(58) */
};

static const char alphabet[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/* The digit of a character, or 58 if it is none. */
static uint32_t digit_of(char c)
{
    for (uint32_t i = 0; i < 58; i++) {
        if (alphabet[i] == c) {
            return i;
        }
    }
    return 58;
}

/* Writes base-58 digits, most significant first, into the end of `digits`; returns how many. */
static size_t to_digits(uint8_t digits[TEXT_CHARS_MAX], const uint8_t *data, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t carry = data[i];
        for (size_t j = 0; j < count || carry != 0; j++) {
            uint8_t *digit = &digits[TEXT_CHARS_MAX - 1 - j];
            carry += j < count ? 256u * *digit : 0;
            *digit = (uint8_t)(carry % 58);
            carry /= 58;
            count = j < count ? count : j + 1;
        }
    }
    return count;
}

int solsend_base58_encode(char *out, size_t out_bytes, const uint8_t *data, size_t bytes)
{
    if (out == NULL || (data == NULL && bytes != 0) || bytes > DATA_BYTES_MAX) {
        return SOLSEND_ERR_USAGE;
    }
    size_t zeros = 0;
    while (zeros < bytes && data[zeros] == 0) {
        zeros++;
    }
    uint8_t digits[TEXT_CHARS_MAX];
    size_t count = bytes > zeros ? to_digits(digits, data + zeros, bytes - zeros) : 0;
    if (out_bytes < zeros + count + 1) {
        return SOLSEND_ERR_BUFFER_TOO_SMALL;
    }
    memset(out, alphabet[0], zeros);
    for (size_t i = 0; i < count; i++) {
        out[zeros + i] = alphabet[digits[TEXT_CHARS_MAX - count + i]];
    }
    out[zeros + count] = 0;
    return (int)(zeros + count);
}

/* number = number x 58 + digit, big-endian in place. Returns what does not fit any more. */
static uint32_t push_digit(uint8_t *number, size_t bytes, uint32_t digit)
{
    uint32_t carry = digit;
    for (size_t i = bytes; i-- > 0;) {
        carry += 58u * number[i];
        number[i] = (uint8_t)carry;
        carry >>= 8;
    }
    return carry;
}

static int refuse(uint8_t *out, size_t bytes, solsend_detail *detail, size_t at, const char *why)
{
    sodium_memzero(out, bytes); /* it may have been half a secret */
    return detail_set(detail, SOLSEND_ERR_BASE58, (uint32_t)at, "base58, byte %u: %s", (uint32_t)at,
                      why);
}

int solsend_base58_decode(uint8_t *out, size_t bytes, const char *text, size_t text_bytes,
                          solsend_detail *detail)
{
    if ((out == NULL && bytes != 0) || (text == NULL && text_bytes != 0) ||
        bytes > DATA_BYTES_MAX) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET,
                          "base58: a null argument, or more than 128 bytes");
    }
    if (bytes != 0) {
        memset(out, 0, bytes);
    }
    size_t ones = 0;
    while (ones < text_bytes && text[ones] == alphabet[0]) {
        ones++;
    }
    for (size_t i = 0; i < text_bytes; i++) {
        uint32_t digit = digit_of(text[i]);
        if (digit == 58) {
            return refuse(out, bytes, detail, i, "not in the alphabet");
        }
        if (i >= ones && push_digit(out, bytes, digit) != 0) {
            return refuse(out, bytes, detail, i, "more bytes than expected");
        }
    }
    /* each leading 1 is one zero byte: a text has one value, a value one text */
    size_t zeros = 0;
    while (zeros < bytes && out[zeros] == 0) {
        zeros++;
    }
    if (zeros != ones) {
        return refuse(out, bytes, detail, ones < zeros ? text_bytes : zeros,
                      ones < zeros ? "fewer bytes than expected" : "more bytes than expected");
    }
    return 0;
}
