#include "link/repeat.h"

enum { FRAME_ACK = 0x02, FRAME_ACK_ECN = 0x03, FRAME_CRYPTO = 0x06 };
enum { FRAME_STREAM = 0x08, FRAME_STREAM_LAST = 0x0f };
enum { STREAM_FIN = 0x01, STREAM_LEN = 0x02, STREAM_OFF = 0x04 };
enum { FRAME_NEW_CONNECTION_ID = 0x18, FRAME_PATH_CHALLENGE = 0x1a, FRAME_PATH_RESPONSE = 0x1b };

struct reader {
    const uint8_t *p;
    const uint8_t *end;
    int ok;
};

/* A variable-length integer (RFC 9000 section 16); 0 and not ok beyond the end. */
static uint64_t varint(struct reader *r)
{
    size_t n = r->p < r->end ? (size_t)1 << (*r->p >> 6) : 1;
    if ((size_t)(r->end - r->p) < n) {
        r->ok = 0;
        return 0;
    }
    uint64_t v = *r->p & 0x3f;
    for (size_t i = 1; i < n; i++) {
        v = v << 8 | r->p[i];
    }
    r->p += n;
    return v;
}

static void skip(struct reader *r, uint64_t bytes)
{
    if (bytes > (uint64_t)(r->end - r->p)) {
        r->ok = 0;
        return;
    }
    r->p += bytes;
}

static void varints(struct reader *r, uint64_t count)
{
    for (uint64_t i = 0; i < count && r->ok; i++) {
        varint(r);
    }
}

static void skip_ack(struct reader *r, int ecn)
{
    varints(r, 2);
    uint64_t ranges = varint(r);
    varints(r, 1 + ranges * 2 + (ecn ? 3 : 0));
}

static void skip_new_connection_id(struct reader *r)
{
    varints(r, 2);
    uint64_t bytes = r->p < r->end ? *r->p : 0;
    skip(r, 1 + bytes + 16);
}

/* All frames but STREAM that a client sends in 1-RTT packets. */
static void skip_frame(struct reader *r, uint8_t kind)
{
    /* how many integers such a frame holds, by its type; -1: it is of another make */
    static const int8_t plain[0x20] = {
        0, 0, -1, -1, 3, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        1, 2, 1,  1,  1, 2, 1,  1,  -1, 1,  -1, -1, -1, -1, 0,  -1,
    };
    if (kind < sizeof plain && plain[kind] >= 0) {
        varints(r, (uint64_t)plain[kind]);
    } else if (kind == FRAME_ACK || kind == FRAME_ACK_ECN) {
        skip_ack(r, kind == FRAME_ACK_ECN);
    } else if (kind == FRAME_CRYPTO) {
        varint(r);
        skip(r, varint(r));
    } else if (kind == FRAME_NEW_CONNECTION_ID) {
        skip_new_connection_id(r);
    } else if (kind == FRAME_PATH_CHALLENGE || kind == FRAME_PATH_RESPONSE) {
        skip(r, 8);
    } else {
        r->ok = 0;
    }
}

int64_t repeat_find_cut(const uint8_t *payload, size_t bytes)
{
    struct reader r = {payload, payload + bytes, 1};
    int64_t cut = -1;
    while (r.ok && r.p < r.end) {
        uint8_t kind = *r.p++;
        if (kind < FRAME_STREAM || kind > FRAME_STREAM_LAST) {
            skip_frame(&r, kind);
            continue;
        }
        int64_t id = (int64_t)varint(&r);
        if (kind & STREAM_OFF) {
            varint(&r);
        }
        skip(&r, kind & STREAM_LEN ? varint(&r) : (uint64_t)(r.end - r.p));
        if (r.ok && !(kind & STREAM_FIN)) {
            cut = id;
        }
    }
    return cut;
}
