/*
 * The payloads of client Initials. A sorted one carries the same CRYPTO bytes at the same offsets,
 * the same other frames in the same order, and is as long; one that is left alone is untouched.
 */
#include "fuzz.h"

#include <string.h>

#include "link/initial_order.h"

enum { FRAMES_MAX = 256 };

struct frame {
    uint64_t offset;  /* of a CRYPTO frame */
    size_t at, bytes; /* its data; of another frame the whole of it */
    int is_crypto;
};

struct frames {
    struct frame list[FRAMES_MAX];
    size_t count;
};

struct cursor {
    const uint8_t *data;
    size_t at, end;
    int ok;
};

static uint64_t varint(struct cursor *c)
{
    if (!c->ok || c->at >= c->end) {
        c->ok = 0;
        return 0;
    }
    size_t n = (size_t)1 << (c->data[c->at] >> 6);
    if (c->end - c->at < n) {
        c->ok = 0;
        return 0;
    }
    uint64_t v = c->data[c->at++] & 0x3f;
    for (; n > 1; n--) {
        v = v << 8 | c->data[c->at++];
    }
    return v;
}

static void skip(struct cursor *c, uint64_t n)
{
    if (n > c->end - c->at) {
        c->ok = 0;
    } else {
        c->at += (size_t)n;
    }
}

static void read_body(struct cursor *c, uint8_t kind, struct frame *f)
{
    uint64_t n;
    switch (kind) {
    case 0x01:
        break;
    case 0x02:
    case 0x03:
        varint(c);
        varint(c);
        n = varint(c);
        varint(c);
        n = n * 2 + (kind == 0x03 ? 3 : 0);
        for (; n > 0 && c->ok; n--) {
            varint(c);
        }
        break;
    case 0x06:
        f->is_crypto = 1;
        f->offset = varint(c);
        n = varint(c);
        f->at = c->at;
        f->bytes = (size_t)n;
        skip(c, n);
        break;
    case 0x1c:
        varint(c);
        varint(c);
        n = varint(c);
        skip(c, c->ok ? n : 0);
        break;
    default:
        c->ok = 0;
    }
}

/* Returns 1 if every frame is known and whole; too many to list count as that too. */
static int read_frames(struct frames *out, const uint8_t *data, size_t bytes)
{
    struct cursor c = {data, 0, bytes, 1};
    out->count = 0;
    while (c.ok && c.at < c.end && out->count < FRAMES_MAX) {
        struct frame f = {.at = c.at};
        uint8_t kind = data[c.at++];
        if (kind == 0) {
            continue;
        }
        read_body(&c, kind, &f);
        if (!f.is_crypto) {
            f.bytes = c.at - f.at;
        }
        out->list[out->count++] = f;
    }
    return c.ok;
}

/* The CRYPTO data in the order of its offsets, equal ones as they come. */
static size_t join_crypto(uint8_t *out, const struct frames *frames, const uint8_t *data)
{
    size_t total = 0;
    uint8_t taken[FRAMES_MAX] = {0};
    for (;;) {
        size_t best = FRAMES_MAX;
        for (size_t i = 0; i < frames->count; i++) {
            const struct frame *f = &frames->list[i];
            if (f->is_crypto && !taken[i] &&
                (best == FRAMES_MAX || f->offset < frames->list[best].offset)) {
                best = i;
            }
        }
        if (best == FRAMES_MAX) {
            return total;
        }
        taken[best] = 1;
        memcpy(out + total, data + frames->list[best].at, frames->list[best].bytes);
        total += frames->list[best].bytes;
    }
}

static size_t join_others(uint8_t *out, const struct frames *frames, const uint8_t *data)
{
    size_t total = 0;
    for (size_t i = 0; i < frames->count; i++) {
        if (!frames->list[i].is_crypto) {
            memcpy(out + total, data + frames->list[i].at, frames->list[i].bytes);
            total += frames->list[i].bytes;
        }
    }
    return total;
}

static void check_sorted(const uint8_t *out, const uint8_t *in, size_t bytes)
{
    static struct frames before, after;
    uint8_t a[INITIAL_ORDER_BYTES_MAX], b[INITIAL_ORDER_BYTES_MAX];
    FUZZ_CHECK(read_frames(&before, in, bytes));
    FUZZ_CHECK(read_frames(&after, out, bytes));
    if (before.count == FRAMES_MAX) {
        return;
    }
    size_t n = join_crypto(a, &before, in);
    FUZZ_CHECK(n == join_crypto(b, &after, out) && memcmp(a, b, n) == 0);
    n = join_others(a, &before, in);
    FUZZ_CHECK(n == join_others(b, &after, out) && memcmp(a, b, n) == 0);
    for (size_t i = 1; i < after.count; i++) {
        const struct frame *f = &after.list[i], *last = f - 1;
        FUZZ_CHECK(!f->is_crypto || last->is_crypto);           /* CRYPTO stands first … */
        FUZZ_CHECK(!f->is_crypto || f->offset >= last->offset); /* … ascending … */
        FUZZ_CHECK(!f->is_crypto || f->offset != last->offset + last->bytes); /* … and joined */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *out = malloc(bytes > 0 ? bytes : 1);
    if (out == NULL) {
        return 0;
    }
    memset(out, 0xee, bytes);
    static const uint8_t nothing[1];
    const uint8_t *in = data != NULL ? data : nothing;
    if (initial_order_sort(out, in, bytes)) {
        check_sorted(out, in, bytes);
    } else {
        static struct frames frames;
        for (size_t i = 0; i < bytes; i++) {
            FUZZ_CHECK(out[i] == 0xee);
        }
        /* only what is broken, foreign or too much is left alone */
        FUZZ_CHECK(bytes > INITIAL_ORDER_BYTES_MAX || !read_frames(&frames, in, bytes) ||
                   frames.count > 64);
    }
    free(out);
    return 0;
}
