/* Reading through the frames of a packet's plaintext (RFC 9000 sections 16 and 19). */
#ifndef LINK_FRAME_H
#define LINK_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_PADDING = 0x00,
    FRAME_PING = 0x01,
    FRAME_ACK = 0x02,
    FRAME_ACK_ECN = 0x03,
    FRAME_CRYPTO = 0x06,
    FRAME_STREAM = 0x08, /* to FRAME_STREAM_LAST: its low bits are FIN, LEN and OFF */
    FRAME_STREAM_LAST = 0x0f,
    FRAME_NEW_CONNECTION_ID = 0x18,
    FRAME_PATH_CHALLENGE = 0x1a,
    FRAME_PATH_RESPONSE = 0x1b,
    FRAME_CLOSE = 0x1c
};

/* Nothing is read beyond `end`; what would be, gives 0 and clears `ok`. */
struct frame_reader {
    const uint8_t *p;
    const uint8_t *end;
    int ok;
};

/* A variable-length integer. */
uint64_t frame_varint(struct frame_reader *reader);

/* Passes over so many integers, or bytes. */
void frame_skip_varints(struct frame_reader *reader, uint64_t count);
void frame_skip(struct frame_reader *reader, uint64_t bytes);

/* Passes over the rest of an ACK frame after its type. */
void frame_skip_ack(struct frame_reader *reader, int ecn);

#endif
