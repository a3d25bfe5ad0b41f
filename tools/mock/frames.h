/*
 * Walking the frames of one decrypted QUIC packet (RFC 9000 section 19), to see what ngtcp2 does
 * not tell its callers: frame counts, orders and gaps.
 */
#ifndef MOCK_FRAMES_H
#define MOCK_FRAMES_H

#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_PADDING = 0x00,
    FRAME_PING = 0x01,
    FRAME_ACK = 0x02,
    FRAME_ACK_ECN = 0x03,
    FRAME_RESET_STREAM = 0x04,
    FRAME_STOP_SENDING = 0x05,
    FRAME_CRYPTO = 0x06,
    FRAME_NEW_TOKEN = 0x07,
    FRAME_STREAM = 0x08, /* to 0x0f; `kind` is always 0x08 for them */
    FRAME_MAX_DATA = 0x10,
    FRAME_MAX_STREAM_DATA = 0x11,
    FRAME_MAX_STREAMS_BIDI = 0x12,
    FRAME_MAX_STREAMS_UNI = 0x13,
    FRAME_DATA_BLOCKED = 0x14,
    FRAME_STREAM_DATA_BLOCKED = 0x15,
    FRAME_STREAMS_BLOCKED_BIDI = 0x16,
    FRAME_STREAMS_BLOCKED_UNI = 0x17,
    FRAME_NEW_CONNECTION_ID = 0x18,
    FRAME_RETIRE_CONNECTION_ID = 0x19,
    FRAME_PATH_CHALLENGE = 0x1a,
    FRAME_PATH_RESPONSE = 0x1b,
    FRAME_CLOSE = 0x1c,
    FRAME_CLOSE_APP = 0x1d,
    FRAME_HANDSHAKE_DONE = 0x1e,
    FRAME_DATAGRAM = 0x30,
    FRAME_DATAGRAM_LENGTH = 0x31,
};

struct frames {
    const uint8_t *at;
    const uint8_t *end;
};

struct frame {
    uint64_t kind;
    const uint8_t *start; /* its first byte */
    size_t bytes;         /* whole frame; a run of PADDING is one frame */
    uint64_t id;          /* stream id, STREAM frames and those about a stream */
    uint64_t offset;      /* STREAM and CRYPTO */
    const uint8_t *data;  /* STREAM and CRYPTO */
    size_t length;        /* of data */
    int fin;              /* STREAM */
};

static inline void frames_open(struct frames *frames, const uint8_t *payload, size_t bytes)
{
    frames->at = payload;
    frames->end = payload + bytes;
}

/* Returns 1 with the next frame, 0 at the end, -1 if the bytes are no frame. */
int frames_next(struct frames *frames, struct frame *out);

#endif
