/* The rhythm of a connection: when it writes, and what its timer does. */
#ifndef MOCK_PULSE_H
#define MOCK_PULSE_H

#include "mock/connection.h"

/* Carries a decided end out, writes what is to be written, sets the timer. */
void pulse_settle(struct connection *c, uint64_t now_ns);

/* The timer came. */
void pulse_expire(struct connection *c, uint64_t now_ns);

/* The faults changed. */
void pulse_faults(struct connection *c, uint64_t now_ns);

#endif
