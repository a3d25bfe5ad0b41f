/* Where the two ends run, and what the host grants the measuring thread. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include <stdint.h>

#include <solsend/host.h>

struct place {
    int cpu;      /* the calling thread's, once pinned; -1: not pinned */
    int peer_cpu; /* for the receiver; -1: there is no other */
    solsend_step steps[8];
    uint32_t step_count;
    solsend_cpu_latency *latency;
};

/*
 * Pins and tunes the calling thread as `options` say, then chooses a CPU for the receiver: `peer`,
 * or with -1 one that is allowed, not the sender's and not its hyper-thread; -2 for none. Returns
 * 0, or the code of a step that strictness turned into an error, with one line in `why`.
 */
int place_open(struct place *p, const solsend_host_options *options, int peer, char *why,
               size_t why_bytes);

void place_close(struct place *p);

#endif
