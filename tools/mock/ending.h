/* How a connection ends: by us, by the peer, by silence. */
#ifndef MOCK_ENDING_H
#define MOCK_ENDING_H

#include "mock/connection.h"

/* Sends an application close and begins to linger. */
void ending_shut_application(struct connection *c, uint64_t code, const char *reason,
                             uint64_t now_ns);

/* Ends without a word. */
void ending_vanish(struct connection *c, const char *why, uint64_t now_ns);

/* Carries out what a ngtcp2 call returned; 0 is fine. */
void ending_outcome(struct connection *c, int rv, uint64_t now_ns);

/* A packet came to a closed connection: says it again, ever more rarely. */
void ending_repeat(struct connection *c);

#endif
