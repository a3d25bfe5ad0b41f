#include "link/initial_order.h"

#include <string.h>

enum {
    FRAME_PADDING = 0x00,
    FRAME_PING = 0x01,
    FRAME_ACK = 0x02,
    FRAME_ACK_ECN = 0x03,
    FRAME_CRYPTO = 0x06,
    FRAME_CLOSE = 0x1c,
    FRAMES_MAX = 64
};

struct crypto {
    uint64_t offset;
    uint64_t bytes;
    const uint8_t *data;
};

struct reader {
    const uint8_t *p;
    const uint8_t *end;
};

/* A variable-length integer (RFC 9000 section 16). Returns 0 when it runs over the end. */
static int read_varint(struct reader *r, uint64_t *value)
{
    if (r->p == r->end) {
        return 0;
    }
    size_t n = (size_t)1 << (*r->p >> 6);
    if ((size_t)(r->end - r->p) < n) {
        return 0;
    }
    uint64_t v = *r->p & 0x3f;
    for (size_t i = 1; i < n; i++) {
        v = v << 8 | r->p[i];
    }
    r->p += n;
    *value = v;
    return 1;
}

static int skip_bytes(struct reader *r, uint64_t n)
{
    if ((uint64_t)(r->end - r->p) < n) {
        return 0;
    }
    r->p += n;
    return 1;
}

/* The body of an ACK frame after its type (RFC 9000 section 19.3). */
static int skip_ack(struct reader *r, int ecn)
{
    uint64_t v, ranges;
    if (!read_varint(r, &v) || !read_varint(r, &v) || !read_varint(r, &ranges) ||
        !read_varint(r, &v)) {
        return 0;
    }
    for (uint64_t i = 0; i < ranges * 2 + (ecn ? 3 : 0); i++) {
        if (!read_varint(r, &v)) {
            return 0;
        }
    }
    return 1;
}

/* The body of a CONNECTION_CLOSE frame of type 0x1c (RFC 9000 section 19.19). */
static int skip_close(struct reader *r)
{
    uint64_t v, reason;
    return read_varint(r, &v) && read_varint(r, &v) && read_varint(r, &reason) &&
           skip_bytes(r, reason);
}

/* 0x06, offset, length: how many bytes this frame head takes with the smallest varints. */
static size_t varint_bytes(uint64_t v)
{
    return v < 64 ? 1 : v < 16384 ? 2 : v < 1073741824 ? 4 : 8;
}

static uint8_t *write_varint(uint8_t *p, uint64_t v)
{
    size_t n = varint_bytes(v);
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
    }
    p[0] |= (uint8_t)((n == 8 ? 3 : n == 4 ? 2 : n == 2 ? 1 : 0) << 6);
    return p + n;
}

static void insert_by_offset(struct crypto *list, size_t n, struct crypto c)
{
    size_t i = n;
    while (i > 0 && list[i - 1].offset > c.offset) {
        list[i] = list[i - 1];
        i--;
    }
    list[i] = c;
}

int initial_order_sort(uint8_t *out, const uint8_t *in, size_t bytes)
{
    struct crypto crypto[FRAMES_MAX];
    size_t crypto_count = 0;
    uint8_t others[INITIAL_ORDER_BYTES_MAX];
    size_t other_bytes = 0;
    struct reader r = {in, in + bytes};
    if (bytes > INITIAL_ORDER_BYTES_MAX) {
        return 0;
    }
    while (r.p < r.end) {
        const uint8_t *start = r.p;
        uint8_t kind = *r.p++;
        int ok = 1;
        if (kind == FRAME_PADDING) {
            continue;
        }
        if (kind == FRAME_CRYPTO) {
            struct crypto c;
            if (crypto_count == FRAMES_MAX || !read_varint(&r, &c.offset) ||
                !read_varint(&r, &c.bytes)) {
                return 0;
            }
            c.data = r.p;
            if (!skip_bytes(&r, c.bytes)) {
                return 0;
            }
            insert_by_offset(crypto, crypto_count++, c);
            continue;
        }
        if (kind == FRAME_ACK || kind == FRAME_ACK_ECN) {
            ok = skip_ack(&r, kind == FRAME_ACK_ECN);
        } else if (kind == FRAME_CLOSE) {
            ok = skip_close(&r);
        } else {
            ok = kind == FRAME_PING;
        }
        if (!ok) {
            return 0;
        }
        memcpy(others + other_bytes, start, (size_t)(r.p - start));
        other_bytes += (size_t)(r.p - start);
    }

    uint8_t result[INITIAL_ORDER_BYTES_MAX];
    uint8_t *p = result;
    const uint8_t *room = result + bytes;
    for (size_t i = 0; i < crypto_count;) {
        /* frames that touch become one, so that the peer sees one contiguous ClientHello */
        uint64_t total = crypto[i].bytes;
        size_t last = i + 1;
        while (last < crypto_count && crypto[last].offset == crypto[i].offset + total) {
            total += crypto[last++].bytes;
        }
        size_t need = 1 + varint_bytes(crypto[i].offset) + varint_bytes(total) + (size_t)total;
        if ((size_t)(room - p) < need) {
            return 0;
        }
        *p++ = FRAME_CRYPTO;
        p = write_varint(p, crypto[i].offset);
        p = write_varint(p, total);
        for (; i < last; i++) {
            memcpy(p, crypto[i].data, (size_t)crypto[i].bytes);
            p += crypto[i].bytes;
        }
    }
    if ((size_t)(room - p) < other_bytes) {
        return 0;
    }
    memcpy(p, others, other_bytes);
    p += other_bytes;
    memset(p, FRAME_PADDING, (size_t)(room - p));
    memcpy(out, result, bytes);
    return 1;
}
