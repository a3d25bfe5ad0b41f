/*
 * The open loop. Send i belongs to the instant t0 + i x T whatever became of the ones before it: it
 * is never skipped, and sent at once when it is late. Between two instants the sender is tended,
 * but not so close to the next one that tending would delay it.
 */
#ifndef BENCH_PACE_H
#define BENCH_PACE_H

#include <stdint.h>

#include "bench/sender.h"
#include "bench/wires.h"

enum { PACE_SPIN = 0, PACE_SLEEP = 1 };

struct pace {
    uint64_t interval_ns; /* T; 0: back to back */
    int wait;             /* PACE_… */
    /* Called now and then between sends with how many have left, never close to one. */
    void (*progress)(uint32_t done, uint32_t count);
};

/* Stamps of each send, `count` long, written to before the loop so that no page is new to it. */
struct pace_stamps {
    uint64_t *start; /* the last clock read before the call */
    uint64_t *end;   /* the first one after it */
    uint64_t t0;
    uint64_t waited;  /* calls that accepted but could not write at once */
    uint64_t refused; /* calls that had to be repeated: no slot, no buffer */
    uint64_t dead;    /* sends that no repetition could place: the sender has ended */
};

/* Returns 0 or SOLSEND_ERR_MEMORY. */
int pace_stamps_open(struct pace_stamps *stamps, uint32_t count);
void pace_stamps_close(struct pace_stamps *stamps);

/* Sends wires first…first+count-1. Returns 0, or the code by which the sender ended. */
int pace_run(const struct pace *pace, struct sender *sender, const struct wires *wires,
             uint32_t first, uint32_t count, struct pace_stamps *stamps);

#endif
