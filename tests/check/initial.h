/*
 * QUIC v1 Initial packets (RFC 9001 section 5) by GnuTLS's primitives alone: opening what a client
 * sends and sealing what a server would answer, without the library under test or ngtcp2.
 */
#ifndef INITIAL_H
#define INITIAL_H

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { INITIAL_CLIENT, INITIAL_SERVER };
enum { INITIAL_TAG_BYTES = 16, INITIAL_CID_MAX = 20 };

struct initial_keys {
    uint8_t key[16];
    uint8_t iv[12];
    uint8_t hp[16];
};

/* The plain parts of a packet, and where they stand in it. */
struct initial_packet {
    uint8_t dcid[INITIAL_CID_MAX];
    uint8_t scid[INITIAL_CID_MAX];
    size_t dcid_bytes;
    size_t scid_bytes;
    size_t token_bytes;
    size_t pn_at;
    size_t end; /* of the packet in its datagram */
    uint32_t pn;
    uint8_t payload[2048];
    size_t payload_bytes;
};

static inline void initial_expand(const uint8_t secret[32], const char *label, uint8_t *out,
                                  size_t bytes)
{
    uint8_t info[64];
    size_t n = strlen(label);
    info[0] = 0;
    info[1] = (uint8_t)bytes;
    info[2] = (uint8_t)(6 + n);
    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, label, n);
    info[9 + n] = 0;
    gnutls_datum_t key = {(uint8_t *)(uintptr_t)secret, 32};
    gnutls_datum_t text = {info, (unsigned)(10 + n)};
    gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &text, out, bytes);
}

/* The keys that `side` writes with, from the client's first destination connection id. */
static inline void initial_derive(struct initial_keys *keys, int side, const uint8_t *dcid,
                                  size_t dcid_bytes)
{
    static const uint8_t salt_v1[20] = {0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17,
                                        0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a};
    uint8_t initial[32], secret[32];
    gnutls_datum_t ikm = {(uint8_t *)(uintptr_t)dcid, (unsigned)dcid_bytes};
    gnutls_datum_t salt = {(uint8_t *)(uintptr_t)salt_v1, sizeof salt_v1};
    gnutls_hkdf_extract(GNUTLS_MAC_SHA256, &ikm, &salt, initial);
    initial_expand(initial, side == INITIAL_CLIENT ? "client in" : "server in", secret, 32);
    initial_expand(secret, "quic key", keys->key, sizeof keys->key);
    initial_expand(secret, "quic iv", keys->iv, sizeof keys->iv);
    initial_expand(secret, "quic hp", keys->hp, sizeof keys->hp);
}

/* One block of AES: with a zero IV, the first block of CBC. */
static inline void initial_mask(const struct initial_keys *keys, const uint8_t sample[16],
                                uint8_t mask[16])
{
    uint8_t zero[16] = {0};
    gnutls_datum_t key = {(uint8_t *)(uintptr_t)keys->hp, sizeof keys->hp}, iv = {zero, 16};
    gnutls_cipher_hd_t cipher;
    memset(mask, 0, 16);
    if (gnutls_cipher_init(&cipher, GNUTLS_CIPHER_AES_128_CBC, &key, &iv) == 0) {
        gnutls_cipher_encrypt2(cipher, sample, 16, mask, 16);
        gnutls_cipher_deinit(cipher);
    }
}

static inline void initial_nonce(const struct initial_keys *keys, uint32_t pn, uint8_t nonce[12])
{
    memcpy(nonce, keys->iv, 12);
    for (int i = 0; i < 4; i++) {
        nonce[11 - i] ^= (uint8_t)(pn >> (8 * i));
    }
}

/* A variable-length integer; moves `*at`. Returns UINT64_MAX when it does not fit. */
static inline uint64_t initial_varint(const uint8_t *data, size_t bytes, size_t *at)
{
    if (*at >= bytes || bytes - *at < (size_t)1 << (data[*at] >> 6)) {
        return UINT64_MAX;
    }
    size_t n = (size_t)1 << (data[*at] >> 6);
    uint64_t v = data[(*at)++] & 0x3f;
    while (--n > 0) {
        v = v << 8 | data[(*at)++];
    }
    return v;
}

/* Reads the long header of an Initial up to the packet number. Returns 0 or -1. */
static inline int initial_read_header(struct initial_packet *p, const uint8_t *data, size_t bytes)
{
    static const uint8_t version_1[4] = {0, 0, 0, 1};
    size_t at = 5;
    memset(p, 0, sizeof *p);
    if (bytes < 7 || (data[0] & 0xf0) != 0xc0 || memcmp(data + 1, version_1, 4) != 0) {
        return -1;
    }
    p->dcid_bytes = data[at++];
    if (p->dcid_bytes > INITIAL_CID_MAX || bytes - at < p->dcid_bytes + 1) {
        return -1;
    }
    memcpy(p->dcid, data + at, p->dcid_bytes);
    at += p->dcid_bytes;
    p->scid_bytes = data[at++];
    if (p->scid_bytes > INITIAL_CID_MAX || bytes - at < p->scid_bytes) {
        return -1;
    }
    memcpy(p->scid, data + at, p->scid_bytes);
    at += p->scid_bytes;
    p->token_bytes = (size_t)initial_varint(data, bytes, &at);
    if (p->token_bytes > bytes - at) {
        return -1;
    }
    at += p->token_bytes;
    uint64_t length = initial_varint(data, bytes, &at);
    if (length > bytes - at) {
        return -1;
    }
    p->pn_at = at;
    p->end = at + (size_t)length;
    return 0;
}

/* Opens the first packet of a datagram. Returns 0, or -1 if it is no Initial or was changed. */
static inline int initial_open(struct initial_packet *p, const struct initial_keys *keys,
                               const uint8_t *data, size_t bytes)
{
    uint8_t header[512], mask[16], nonce[12];
    if (initial_read_header(p, data, bytes) != 0 || p->pn_at + 4 > sizeof header ||
        p->end < p->pn_at + 4 + 16) {
        return -1;
    }
    memcpy(header, data, p->pn_at + 4);
    initial_mask(keys, data + p->pn_at + 4, mask);
    header[0] ^= mask[0] & 0x0f;
    size_t pn_bytes = (size_t)(header[0] & 3) + 1;
    for (size_t i = 0; i < pn_bytes; i++) {
        header[p->pn_at + i] ^= mask[1 + i];
        p->pn = p->pn << 8 | header[p->pn_at + i];
    }
    size_t header_bytes = p->pn_at + pn_bytes;
    gnutls_aead_cipher_hd_t cipher;
    gnutls_datum_t key = {(uint8_t *)(uintptr_t)keys->key, sizeof keys->key};
    p->payload_bytes = sizeof p->payload;
    initial_nonce(keys, p->pn, nonce);
    if (gnutls_aead_cipher_init(&cipher, GNUTLS_CIPHER_AES_128_GCM, &key) != 0) {
        return -1;
    }
    int rc = gnutls_aead_cipher_decrypt(cipher, nonce, sizeof nonce, header, header_bytes,
                                        INITIAL_TAG_BYTES, data + header_bytes,
                                        p->end - header_bytes, p->payload, &p->payload_bytes);
    gnutls_aead_cipher_deinit(cipher);
    return rc == 0 ? 0 : -1;
}

/*
 * Seals one Initial with `payload` (at least 4 bytes, so that there is a sample) into `out`, which
 * has room for 64 bytes more than it. Returns the length.
 */
static inline size_t initial_seal(uint8_t *out, const struct initial_keys *keys,
                                  const struct initial_packet *ids, uint32_t pn,
                                  const uint8_t *payload, size_t payload_bytes)
{
    uint8_t mask[16], nonce[12];
    uint64_t length = 2 + payload_bytes + INITIAL_TAG_BYTES;
    size_t n = 0, sealed = payload_bytes + INITIAL_TAG_BYTES;
    out[n++] = 0xc1; /* a packet number of two bytes */
    memcpy(out + n, "\0\0\0\1", 4);
    n += 4;
    out[n++] = (uint8_t)ids->dcid_bytes;
    memcpy(out + n, ids->dcid, ids->dcid_bytes);
    n += ids->dcid_bytes;
    out[n++] = (uint8_t)ids->scid_bytes;
    memcpy(out + n, ids->scid, ids->scid_bytes);
    n += ids->scid_bytes;
    out[n++] = 0; /* no token */
    out[n++] = (uint8_t)(0x40 | length >> 8);
    out[n++] = (uint8_t)length;
    size_t pn_at = n;
    out[n++] = (uint8_t)(pn >> 8);
    out[n++] = (uint8_t)pn;
    gnutls_aead_cipher_hd_t cipher;
    gnutls_datum_t key = {(uint8_t *)(uintptr_t)keys->key, sizeof keys->key};
    initial_nonce(keys, pn, nonce);
    if (gnutls_aead_cipher_init(&cipher, GNUTLS_CIPHER_AES_128_GCM, &key) != 0) {
        return 0;
    }
    gnutls_aead_cipher_encrypt(cipher, nonce, sizeof nonce, out, n, INITIAL_TAG_BYTES, payload,
                               payload_bytes, out + n, &sealed);
    gnutls_aead_cipher_deinit(cipher);
    initial_mask(keys, out + pn_at + 4, mask);
    out[0] ^= mask[0] & 0x0f;
    out[pn_at] ^= mask[1];
    out[pn_at + 1] ^= mask[2];
    return n + sealed;
}

#endif
