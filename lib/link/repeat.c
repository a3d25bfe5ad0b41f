#include "link/repeat.h"

#include "link/frame.h"

enum { STREAM_FIN = 0x01, STREAM_LEN = 0x02, STREAM_OFF = 0x04 };

static void skip_new_connection_id(struct frame_reader *r)
{
    frame_skip_varints(r, 2);
    uint64_t bytes = r->p < r->end ? *r->p : 0;
    frame_skip(r, 1 + bytes + 16);
}

/* All frames but STREAM that a client sends in 1-RTT packets. */
static void skip_frame(struct frame_reader *r, uint8_t kind)
{
    /* how many integers such a frame holds, by its type; -1: it is of another make */
    static const int8_t plain[0x20] = {
        0, 0, -1, -1, 3, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        1, 2, 1,  1,  1, 2, 1,  1,  -1, 1,  -1, -1, -1, -1, 0,  -1,
    };
    if (kind < sizeof plain && plain[kind] >= 0) {
        frame_skip_varints(r, (uint64_t)plain[kind]);
    } else if (kind == FRAME_ACK || kind == FRAME_ACK_ECN) {
        frame_skip_ack(r, kind == FRAME_ACK_ECN);
    } else if (kind == FRAME_CRYPTO) {
        frame_varint(r);
        frame_skip(r, frame_varint(r));
    } else if (kind == FRAME_NEW_CONNECTION_ID) {
        skip_new_connection_id(r);
    } else if (kind == FRAME_PATH_CHALLENGE || kind == FRAME_PATH_RESPONSE) {
        frame_skip(r, 8);
    } else {
        r->ok = 0;
    }
}

int64_t repeat_find_cut(const uint8_t *payload, size_t bytes)
{
    struct frame_reader r = {payload, payload + bytes, 1};
    int64_t cut = -1;
    while (r.ok && r.p < r.end) {
        uint8_t kind = *r.p++;
        if (kind < FRAME_STREAM || kind > FRAME_STREAM_LAST) {
            skip_frame(&r, kind);
            continue;
        }
        int64_t id = (int64_t)frame_varint(&r);
        if (kind & STREAM_OFF) {
            frame_varint(&r);
        }
        frame_skip(&r, kind & STREAM_LEN ? frame_varint(&r) : (uint64_t)(r.end - r.p));
        if (r.ok && !(kind & STREAM_FIN)) {
            cut = id;
        }
    }
    return cut;
}
