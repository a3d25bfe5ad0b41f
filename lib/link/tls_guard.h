/*
 * Which TLS messages a peer may send at which encryption level (RFC 9001 sections 4.1.3, 4.4, 6).
 *
 * GnuTLS takes whatever TLS 1.3 knows. A KeyUpdate, which QUIC forbids, makes it install new keys,
 * and ngtcp2 ends the process by an assertion: five bytes of a peer would be enough.
 */
#ifndef LINK_TLS_GUARD_H
#define LINK_TLS_GUARD_H

#include <ngtcp2/ngtcp2.h>
#include <stddef.h>
#include <stdint.h>

#include "link/tls.h"

enum { TLS_GUARD_LEVELS = 3 };

/* How far each level's stream of messages has come; starts as zeros. */
struct tls_guard {
    uint32_t left[TLS_GUARD_LEVELS]; /* bytes of the message's body to come */
    uint32_t head[TLS_GUARD_LEVELS]; /* bytes of its head seen, 0 to 3 */
};

/*
 * Looks at the next bytes of a level's stream from a peer of this role. Returns 0, or -1 when a
 * message begins that has no place there.
 */
int tls_guard_check(struct tls_guard *guard, enum tls_role peer, ngtcp2_encryption_level level,
                    const uint8_t *data, size_t bytes);

#endif
