/* The bare loop as a sender of the measuring loop. */
#ifndef SENDER_BARE_H
#define SENDER_BARE_H

#include "bench/sender.h"

/* As bare_open. Returns 0 or -1 with one line in `why`. */
int sender_bare_open(struct sender **out, uint16_t port, const uint8_t secret[32],
                     const uint8_t public_key[32], uint32_t first_flight_bytes, char *why,
                     size_t why_bytes);

#endif
