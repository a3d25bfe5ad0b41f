/* The inside of a shadow that links look at on every send and poll. */
#ifndef LINK_SHADOW_H
#define LINK_SHADOW_H

#include <solsend/link.h>

#include "link/endpoint.h"
#include "link/shadow_server.h"

enum { SHADOW_BYTES_MAX = 1232 };

struct solsend_shadow {
    uint64_t last_ns;   /* newest real or warm send of the thread */
    solsend_link *link; /* the client half: a real link */
    struct shadow_server *server;
    struct endpoint target; /* SINK and TTL: where its packets go instead of to the server */
    uint32_t bytes;
    uint32_t probes; /* 1: this kernel really sends nothing on MSG_PROBE */
    uint8_t wire[SHADOW_BYTES_MAX];
};

/* A real send happened: no warm one is needed for a while. */
static inline void shadow_seen(struct solsend_shadow *shadow, uint64_t now)
{
    if (shadow != NULL) {
        shadow->last_ns = now;
    }
}

/* When the next warm send is due, if it may be at most `every_ns` after the last send. */
static inline uint64_t shadow_due(const struct solsend_shadow *shadow, uint64_t every_ns)
{
    return shadow->last_ns + every_ns;
}

#endif
