/*
 * What else happened to the measuring thread and its CPU: a run whose numbers were made by the
 * scheduler, the hypervisor or a quota must be seen as one.
 */
#ifndef BENCH_CONTAMINATION_H
#define BENCH_CONTAMINATION_H

#include <stdint.h>

/* Each is -1 where this host does not let us read it. */
struct contamination {
    int64_t involuntary_switches;
    int64_t voluntary_switches;
    int64_t minor_faults;
    int64_t major_faults;
    int64_t runqueue_wait_ns;  /* ready to run, but not running */
    int64_t steal_ms;          /* the hypervisor ran somebody else on this CPU */
    int64_t throttled_periods; /* of the cgroup's CPU quota */
    int64_t throttled_ns;
    int64_t softnet_dropped; /* packets dropped before the socket, all CPUs */
};

/*
 * Each reads its half: the host's counters for `cpu` (-1: not pinned), and the calling thread's.
 * Reading takes faults of its own, so read the host first before a run and last after it.
 */
void contamination_read_host(struct contamination *out, int cpu);
void contamination_read_thread(struct contamination *out);

/* `after` becomes the difference; what is unknown in either stays -1. */
void contamination_since(struct contamination *after, const struct contamination *before);

/* 1 if a reader should distrust the tail of this run: throttled, stolen or preempted for long. */
int contamination_is_bad(const struct contamination *c, uint64_t run_ns);

#endif
