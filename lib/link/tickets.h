/*
 * TLS session tickets for 0-RTT, kept for the life of the process: one a peer address, identity and
 * ALPN, in memory that is wiped on fork and left out of core dumps. Only links that ask for early
 * data put any here.
 *
 * Threads: any.
 */
#ifndef LINK_TICKETS_H
#define LINK_TICKETS_H

#include <stddef.h>
#include <stdint.h>

enum { TICKETS_SESSION_BYTES = 7680, TICKETS_PARAMS_BYTES = 256, TICKETS_NAME_BYTES = 160 };

struct ticket {
    char name[TICKETS_NAME_BYTES]; /* what it is for; empty: free */
    uint32_t session_bytes;
    uint32_t params_bytes;
    uint8_t params[TICKETS_PARAMS_BYTES];   /* the server's transport parameters, encoded */
    uint8_t session[TICKETS_SESSION_BYTES]; /* GnuTLS session data */
};

/* Keeps a copy, in place of the older one of the same name or the oldest of all. */
void tickets_put(const struct ticket *ticket);

/* Copies the newest ticket of that name. Returns 1, or 0 when there is none. */
int tickets_get(struct ticket *out, const char *name);

/* Forgets the one of that name: the server refused it. */
void tickets_drop(const char *name);

#endif
