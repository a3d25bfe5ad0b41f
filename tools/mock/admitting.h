/* From a completed handshake to the first credit. */
#ifndef MOCK_ADMITTING_H
#define MOCK_ADMITTING_H

#include "mock/connection.h"

/* The handshake completed: lets it in with credit, or dooms it. */
void admitting_completed(struct connection *c, uint64_t now_ns);

/* Another connection takes its place (the `evict` of admission). */
void admitting_evicted(void *owner);

#endif
