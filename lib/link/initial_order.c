#include "link/initial_order.h"

#include <string.h>

#include "link/frame.h"

enum { FRAMES_MAX = 64 };

struct crypto {
    uint64_t offset;
    uint64_t bytes;
    const uint8_t *data;
};

/* The frames of an Initial, sorted out. */
struct frames {
    struct crypto crypto[FRAMES_MAX]; /* by ascending offset */
    size_t crypto_count;
    uint8_t others[INITIAL_ORDER_BYTES_MAX];
    size_t other_bytes;
};

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

/* The body of a CONNECTION_CLOSE frame of type 0x1c (RFC 9000 section 19.19). */
static void skip_close(struct frame_reader *r)
{
    frame_skip_varints(r, 2);
    frame_skip(r, frame_varint(r));
}

/* Takes a CRYPTO frame after its type. */
static void take_crypto(struct frames *f, struct frame_reader *r)
{
    struct crypto c;
    c.offset = frame_varint(r);
    c.bytes = frame_varint(r);
    c.data = r->p;
    frame_skip(r, c.bytes);
    if (f->crypto_count == FRAMES_MAX) {
        r->ok = 0;
    }
    if (r->ok) {
        insert_by_offset(f->crypto, f->crypto_count++, c);
    }
}

/* Takes a frame of another type whole, from `start` on; the reader stands behind its type. */
static void take_other(struct frames *f, struct frame_reader *r, const uint8_t *start)
{
    if (*start == FRAME_ACK || *start == FRAME_ACK_ECN) {
        frame_skip_ack(r, *start == FRAME_ACK_ECN);
    } else if (*start == FRAME_CLOSE) {
        skip_close(r);
    } else if (*start != FRAME_PING) {
        r->ok = 0;
    }
    if (r->ok) {
        memcpy(f->others + f->other_bytes, start, (size_t)(r->p - start));
        f->other_bytes += (size_t)(r->p - start);
    }
}

/* Returns 0 when there is a frame it does not know. */
static int collect(struct frames *f, const uint8_t *in, size_t bytes)
{
    struct frame_reader r = {in, in + bytes, 1};
    f->crypto_count = f->other_bytes = 0;
    while (r.ok && r.p < r.end) {
        const uint8_t *start = r.p++;
        if (*start == FRAME_CRYPTO) {
            take_crypto(f, &r);
        } else if (*start != FRAME_PADDING) {
            take_other(f, &r, start);
        }
    }
    return r.ok;
}

int initial_order_sort(uint8_t *out, const uint8_t *in, size_t bytes)
{
    struct frames f;
    if (bytes > INITIAL_ORDER_BYTES_MAX || !collect(&f, in, bytes)) {
        return 0;
    }
    uint8_t result[INITIAL_ORDER_BYTES_MAX];
    uint8_t *p = result;
    const uint8_t *room = result + bytes;
    for (size_t i = 0; i < f.crypto_count;) {
        /* frames that touch become one, so that the peer sees one contiguous ClientHello */
        uint64_t total = f.crypto[i].bytes;
        size_t last = i + 1;
        while (last < f.crypto_count && f.crypto[last].offset == f.crypto[i].offset + total) {
            total += f.crypto[last++].bytes;
        }
        size_t need = 1 + varint_bytes(f.crypto[i].offset) + varint_bytes(total) + (size_t)total;
        if ((size_t)(room - p) < need) {
            return 0;
        }
        *p++ = FRAME_CRYPTO;
        p = write_varint(p, f.crypto[i].offset);
        p = write_varint(p, total);
        for (; i < last; i++) {
            memcpy(p, f.crypto[i].data, (size_t)f.crypto[i].bytes);
            p += f.crypto[i].bytes;
        }
    }
    if ((size_t)(room - p) < f.other_bytes) {
        return 0;
    }
    memcpy(p, f.others, f.other_bytes);
    p += f.other_bytes;
    memset(p, FRAME_PADDING, (size_t)(room - p));
    memcpy(out, result, bytes);
    return 1;
}
