#include "link/frame.h"

uint64_t frame_varint(struct frame_reader *r)
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

void frame_skip_varints(struct frame_reader *r, uint64_t count)
{
    for (uint64_t i = 0; i < count && r->ok; i++) {
        frame_varint(r);
    }
}

void frame_skip(struct frame_reader *r, uint64_t bytes)
{
    if (bytes > (uint64_t)(r->end - r->p)) {
        r->ok = 0;
        return;
    }
    r->p += bytes;
}

void frame_skip_ack(struct frame_reader *r, int ecn)
{
    frame_skip_varints(r, 2);
    uint64_t ranges = frame_varint(r);
    frame_skip_varints(r, 1 + ranges * 2 + (ecn ? 3 : 0));
}
