/*
 * A QUIC server that can forge: it shakes hands like any other, and seals any payload with the keys
 * of its connection, so that it gets past the client's cipher.
 */
#ifndef FORGER_H
#define FORGER_H

#include <stddef.h>
#include <stdint.h>

enum forger_level { FORGER_HANDSHAKE, FORGER_SHORT, FORGER_LEVELS };

enum { FORGER_DATAGRAM_BYTES = 1472, FORGER_PAYLOAD_BYTES = 1400 };

/* Forgets the connection, if there is one. */
void forger_reset(void);

/* Takes a client's datagram in; the first one, with its Initial, begins a connection. */
void forger_read(const uint8_t *data, size_t bytes);

/* The next honest datagram into `out` (FORGER_DATAGRAM_BYTES). Returns its length, 0: none is due.
 */
size_t forger_write(uint8_t *out);

/*
 * A packet with this payload into `out` (FORGER_DATAGRAM_BYTES). Returns its length, or 0 as long
 * as there are no keys of this level.
 */
size_t forger_seal(uint8_t *out, enum forger_level level, const uint8_t *payload, size_t bytes);

#endif
