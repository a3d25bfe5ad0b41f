/*
 * Putting the CRYPTO frames of a client Initial back in order.
 *
 * ngtcp2 from 1.15 on splits and shuffles the ClientHello's CRYPTO frames and has no setting
 * against it; Firedancer has no reorder buffer for CRYPTO and drops what comes early. The frames of
 * one packet may stand in any order (RFC 9000 section 12.4), so we sort them before encryption.
 */
#ifndef LINK_INITIAL_ORDER_H
#define LINK_INITIAL_ORDER_H

#include <stddef.h>
#include <stdint.h>

enum { INITIAL_ORDER_BYTES_MAX = 1500 };

/* 1 if this header (before protection) is of a QUIC v1 Initial packet. */
static inline int initial_order_wants(const uint8_t *header, size_t header_bytes)
{
    return header_bytes > 0 && (header[0] & 0xb0) == 0x80;
}

/*
 * Copies an Initial's payload from `in` to `out` (both `bytes` long, not overlapping): CRYPTO
 * frames by ascending offset, merged where they touch, then every other frame in its order, then
 * PADDING. Returns 1; or 0 with `out` untouched when the payload holds a frame it does not know or
 * needs more room, and the caller sends it as it is.
 */
int initial_order_sort(uint8_t *out, const uint8_t *in, size_t bytes);

#endif
