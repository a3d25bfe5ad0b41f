/*
 * The other end: a mock leader in a thread of this process, spinning on a CPU of its own, so that
 * one clock serves both ends and no wake-up of the receiver lands in the sender's system call.
 */
#ifndef BENCH_RECEIVER_H
#define BENCH_RECEIVER_H

#include <stdint.h>

#include <solsend/key.h>

#include "bench/wires.h"
#include "mock/mock.h"

struct receiver {
    mock *mock;
    int udp;
    int running;
    char uri[96];
    char address[80]; /* HOST:PORT */
};

struct receiver_config {
    const char *profile;         /* of mock.h */
    const char *faults;          /* added to those that keep limits from disturbing; null: none */
    const solsend_key *identity; /* gets all the stake; null: nobody is staked */
    int cpu;                     /* -1: not pinned */
    uint32_t arrivals;           /* kept with stamps */
    uint64_t seed;
};

/* Opens and starts it. Returns 0, or -1 with one line in `why`. */
int receiver_open(struct receiver *r, const struct receiver_config *config, char *why,
                  size_t why_bytes);

/* Rest and go on: connections stay, nothing spins in between. */
int receiver_start(struct receiver *r);
void receiver_stop(struct receiver *r);

void receiver_close(struct receiver *r);

/*
 * When wires first…first+count-1 arrived: `received` gets the instant the last packet was read,
 * `accepted` the one at which the whole transaction was there; UINT64_MAX where it never came.
 * Returns how many came, or -1 without memory.
 */
int64_t receiver_match(const struct receiver *r, const struct wires *wires, uint32_t first,
                       uint32_t count, uint64_t *received, uint64_t *accepted);

#endif
