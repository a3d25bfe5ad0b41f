#include "mock/frames.h"

#include <string.h>

static int varint(struct frames *f, uint64_t *out)
{
    if (f->at >= f->end) {
        return -1;
    }
    size_t bytes = (size_t)1 << (*f->at >> 6);
    if ((size_t)(f->end - f->at) < bytes) {
        return -1;
    }
    uint64_t value = *f->at & 0x3f;
    for (size_t i = 1; i < bytes; i++) {
        value = value << 8 | f->at[i];
    }
    f->at += bytes;
    *out = value;
    return 0;
}

static int varints(struct frames *f, uint32_t count)
{
    uint64_t ignored;
    while (count-- > 0) {
        if (varint(f, &ignored) != 0) {
            return -1;
        }
    }
    return 0;
}

static int skip(struct frames *f, uint64_t bytes)
{
    if (bytes > (uint64_t)(f->end - f->at)) {
        return -1;
    }
    f->at += bytes;
    return 0;
}

static int ack(struct frames *f, int ecn)
{
    uint64_t ranges;
    if (varints(f, 2) != 0 || varint(f, &ranges) != 0 || varints(f, 1) != 0) {
        return -1;
    }
    /* Each range takes at least two bytes: a greater count cannot be true. */
    if (ranges > (uint64_t)(f->end - f->at) / 2 || varints(f, (uint32_t)ranges * 2) != 0) {
        return -1;
    }
    return ecn ? varints(f, 3) : 0;
}

static int body(struct frames *f, struct frame *out)
{
    uint64_t length;
    if (varint(f, &length) != 0) {
        return -1;
    }
    out->data = f->at;
    out->length = (size_t)length;
    return skip(f, length);
}

static int stream(struct frames *f, struct frame *out, uint64_t type)
{
    out->kind = FRAME_STREAM;
    out->fin = (type & 1) != 0;
    if (varint(f, &out->id) != 0 || ((type & 4) != 0 && varint(f, &out->offset) != 0)) {
        return -1;
    }
    if ((type & 2) != 0) {
        return body(f, out);
    }
    out->data = f->at;
    out->length = (size_t)(f->end - f->at);
    f->at = f->end;
    return 0;
}

static int new_connection_id(struct frames *f)
{
    if (varints(f, 2) != 0 || f->at >= f->end) {
        return -1;
    }
    return skip(f, UINT64_C(1) + *f->at + 16);
}

static int close_frame(struct frames *f, struct frame *out)
{
    return varints(f, out->kind == FRAME_CLOSE ? 2 : 1) != 0 ? -1 : body(f, out);
}

static int padding(struct frames *f)
{
    while (f->at < f->end && *f->at == 0) {
        f->at++;
    }
    return 0;
}

static int contents(struct frames *f, struct frame *out, uint64_t type)
{
    switch (type) {
    case FRAME_PADDING:
        return padding(f);
    case FRAME_PING:
    case FRAME_HANDSHAKE_DONE:
        return 0;
    case FRAME_ACK:
    case FRAME_ACK_ECN:
        return ack(f, type == FRAME_ACK_ECN);
    case FRAME_RESET_STREAM:
        return varint(f, &out->id) != 0 ? -1 : varints(f, 2);
    case FRAME_STOP_SENDING:
    case FRAME_MAX_STREAM_DATA:
    case FRAME_STREAM_DATA_BLOCKED:
        return varint(f, &out->id) != 0 ? -1 : varints(f, 1);
    case FRAME_CRYPTO:
        return varint(f, &out->offset) != 0 ? -1 : body(f, out);
    case FRAME_NEW_TOKEN:
    case FRAME_DATAGRAM_LENGTH:
        return body(f, out);
    case FRAME_DATAGRAM:
        f->at = f->end;
        return 0;
    case FRAME_MAX_DATA:
    case FRAME_MAX_STREAMS_BIDI:
    case FRAME_MAX_STREAMS_UNI:
    case FRAME_DATA_BLOCKED:
    case FRAME_STREAMS_BLOCKED_BIDI:
    case FRAME_STREAMS_BLOCKED_UNI:
    case FRAME_RETIRE_CONNECTION_ID:
        return varints(f, 1);
    case FRAME_NEW_CONNECTION_ID:
        return new_connection_id(f);
    case FRAME_PATH_CHALLENGE:
    case FRAME_PATH_RESPONSE:
        return skip(f, 8);
    case FRAME_CLOSE:
    case FRAME_CLOSE_APP:
        return close_frame(f, out);
    default:
        return type >= FRAME_STREAM && type < FRAME_MAX_DATA ? stream(f, out, type) : -1;
    }
}

int frames_next(struct frames *frames, struct frame *out)
{
    if (frames->at >= frames->end) {
        return 0;
    }
    memset(out, 0, sizeof *out);
    out->start = frames->at;
    uint64_t type;
    if (varint(frames, &type) != 0) {
        return -1;
    }
    out->kind = type;
    if (contents(frames, out, type) != 0) {
        return -1;
    }
    out->bytes = (size_t)(frames->at - out->start);
    return 1;
}
