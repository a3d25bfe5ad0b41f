/*
 * The yardstick: the shortest honest ngtcp2 + GnuTLS + send() loop. A client that opens a
 * connection with the certificate and the TLS parameters that leaders demand and sends each
 * transaction as one stream. No slots, events, deadlines, stamps or histograms: what is missing
 * here is what the library costs.
 */
#ifndef BARE_H
#define BARE_H

#include <stddef.h>
#include <stdint.h>

struct bare;

/*
 * Connects to 127.0.0.1:`port` and waits until the peer granted streams. `seed` is the identity's
 * secret and `public_key` its public half. `first_flight_bytes` as in solsend_link_options. Returns
 * null with one line in `why`.
 */
struct bare *bare_open(uint16_t port, const uint8_t seed[32], const uint8_t public_key[32],
                       uint32_t first_flight_bytes, char *why, size_t why_bytes);

/*
 * Sends `bytes` bytes at `wire`, which must stay as they are until close: nothing is copied.
 * Returns 1 when the socket took the packet, 0 when credit or window blocks (poll, then call again
 * with the same arguments), -1 when the connection is dead.
 */
int bare_send(struct bare *b, const uint8_t *wire, size_t bytes);

/* Reads what came (at most 16 datagrams), runs timers, answers. Returns 0, or -1 when dead. */
int bare_poll(struct bare *b);

int bare_fd(const struct bare *b);

/* Streams the peer has acknowledged in full, and datagrams and send() calls so far. */
void bare_counts(const struct bare *b, uint64_t *acked, uint64_t *datagrams, uint64_t *calls);

void bare_close(struct bare *b);

#endif
