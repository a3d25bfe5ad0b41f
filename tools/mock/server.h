/*
 * The QUIC server without its socket: datagrams in, datagrams out by a callback, time by argument.
 * One thread.
 */
#ifndef MOCK_SERVER_H
#define MOCK_SERVER_H

#include "mock/admission.h"
#include "mock/cidmap.h"
#include "mock/credentials.h"
#include "mock/profile.h"
#include "mock/sockname.h"
#include "mock/tally.h"
#include "mock/timers.h"

#include "base/random.h"

#include <ngtcp2/ngtcp2.h>

#define SERVER_CID_BYTES   8u
#define SERVER_BLOCK_BYTES 4096u /* the largest stream of any profile */
#define SERVER_ENDED_ROWS  256u
#define SERVER_HELLO_BYTES 4096u

struct connection;

/* Memory for one stream that waits to be read. */
struct server_block {
    struct server_block *next;
    uint8_t data[SERVER_BLOCK_BYTES];
};

/* What is left of a connection for the report. */
struct server_row {
    struct sockname peer;
    uint8_t key[32];
    uint8_t key_known, staked, admitted, by_peer;
    int live;
    uint64_t started_ns, completed_ns, admitted_ns, ended_ns;
    uint64_t rtt_ns, granted, streams, accepted, packets;
    char end[64];
};

struct server {
    const struct profile *profile;
    struct fault *fault;
    struct tally *tally;
    struct credentials *credentials;
    struct admission admission;
    struct random_state random;
    struct cidmap cids;
    struct timers timers;
    struct sockname local;
    uint8_t secret[32]; /* of tokens and stateless resets */
    struct connection *live;
    struct connection *dirty; /* have something to write or to end */
    uint32_t live_count;
    struct server_block *blocks;
    uint64_t reset_not_before_ns;
    uint8_t hello[SERVER_HELLO_BYTES]; /* the newest ClientHello */
    size_t hello_bytes;
    struct server_row *ended; /* a ring */
    uint64_t ended_count;
    void (*send)(void *context, const struct sockname *to, const uint8_t *data, size_t bytes);
    void *context;
};

/* `profile`, `fault`, `tally`, `credentials`, `send` and `context` are set. Returns 0 or -1. */
int server_open(struct server *server, uint64_t seed);
void server_close(struct server *server);

/* One datagram. `received_ns` is when recv() had it, `now_ns` when it is handled. */
void server_datagram(struct server *server, const struct sockname *from, const uint8_t *data,
                     size_t bytes, uint64_t received_ns, uint64_t now_ns);

/* Runs what is due, then writes for every connection that has something to say. */
void server_run(struct server *server, uint64_t now_ns);

/* When server_run has something to do next, or UINT64_MAX. */
uint64_t server_next(const struct server *server);

/* Faults changed: connections look at their credit and timers again. */
void server_fault_changed(struct server *server, uint64_t now_ns);

/* Calls `each` with a row per connection, ended ones first. */
void server_rows(const struct server *server,
                 void (*each)(void *context, const struct server_row *row), void *context);

#endif
