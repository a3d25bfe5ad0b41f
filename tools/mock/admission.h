/*
 * Who gets in at an Agave leader, and with how much credit: new connections per IP and in all, the
 * staked and the unstaked table, places per peer, eviction.
 */
#ifndef MOCK_ADMISSION_H
#define MOCK_ADMISSION_H

#include "mock/fault.h"
#include "mock/throttle.h"

struct admission_bucket {
    double tokens;
    uint64_t filled_ns;
};

struct admission_address {
    struct admission_address *next;
    struct admission_bucket bucket;
    uint8_t ip[16];
};

struct admission_stake {
    uint8_t key[32];
    uint64_t lamports;
};

/* One IP, or one key: everything that its connections share. */
struct admission_peer {
    struct admission_peer *next; /* of its hash chain */
    struct admission_seat *seats;
    struct throttle_window window;
    uint64_t updated_ns; /* its last finished stream, or its last admission */
    uint64_t stake;
    uint32_t count;
    uint8_t by_key; /* else by IP */
    uint8_t staked; /* in the staked table */
    uint8_t key[32];
};

/* A connection's place; embedded in it. */
struct admission_seat {
    struct admission_peer *peer; /* null: not seated */
    struct admission_seat *next;
    void *owner;
};

#define ADMISSION_CHAINS 1024u

struct admission {
    const struct fault *fault; /* limits that differ from the defaults */
    struct admission_bucket all;
    struct admission_address *addresses[ADMISSION_CHAINS];
    struct admission_peer *peers[ADMISSION_CHAINS];
    struct admission_stake *stakes;
    uint32_t stakes_count;
    uint32_t addresses_count;
    uint32_t staked_count, unstaked_count; /* seats */
    uint64_t stake_total;
    uint64_t random;
    struct throttle_load load;
    void (*evict)(void *owner); /* told before its seat is taken away */
};

enum {
    ADMISSION_WELCOME,
    ADMISSION_SILENCE,
    ADMISSION_FULL,
    ADMISSION_DISALLOWED,
    ADMISSION_TOO_MANY
};

void admission_open(struct admission *admission, const struct fault *fault, uint64_t seed,
                    void (*evict)(void *owner));
void admission_close(struct admission *admission);

/* Sets one key's stake; 0 takes it out. Returns 0 or -1 (no memory). */
int admission_stake(struct admission *admission, const uint8_t key[32], uint64_t lamports);

/* An Initial of a new connection; `open` are there already. WELCOME, SILENCE or FULL. */
int admission_hello(struct admission *admission, const uint8_t ip[16], uint32_t open,
                    uint64_t now_ns);

/*
 * A handshake completed: takes the IP's token and a seat. `key` is null for anonymous peers.
 * WELCOME, DISALLOWED or TOO_MANY.
 */
int admission_enter(struct admission *admission, struct admission_seat *seat, const uint8_t ip[16],
                    const uint8_t *key, uint64_t now_ns);

/* Gives the seat back; harmless when not seated. */
void admission_leave(struct admission *admission, struct admission_seat *seat);

/* Streams at a time for a seated connection: by stake and the RTT measured at admission. */
uint64_t admission_streams(const struct admission *admission, const struct admission_seat *seat,
                           uint64_t rtt_ns);

#endif
