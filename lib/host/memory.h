/*
 * Arenas: memory that is all there before the first send. Every page is touched at open, and only
 * the arena itself is locked: mlockall, and MCL_FUTURE above all, would make the host program's
 * own later allocations fail under a small RLIMIT_MEMLOCK.
 */
#ifndef HOST_MEMORY_H
#define HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <solsend/host.h>

enum {
    HOST_ARENA_LOCK = 1,
    HOST_ARENA_HUGE = 2,
    HOST_ARENA_SECRET = 4 /* zero in a forked child, not in core dumps, wiped at close */
};

struct host_arena {
    uint8_t *base;       /* zeroed; aligned to a page */
    size_t bytes;        /* as asked, rounded up to whole pages */
    size_t locked_bytes; /* from base on: cannot leave memory */
    uint32_t flags;      /* HOST_ARENA_… as asked */
    uint32_t huge;       /* 1: really in huge pages */
};

/*
 * Maps at least `bytes` and touches every page. LOCK writes one step, HUGE another, into `steps`
 * (null: none) from its start, at most `max_steps`; `*step_count` (may be null) is how many. A lock
 * that is refused or cut short and huge pages that are not there are no errors: the step says so.
 * Returns 0, USAGE (no bytes) or MEMORY; then the arena is zeroed and may be closed.
 */
int host_arena_open(struct host_arena *arena, size_t bytes, uint32_t flags, solsend_step *steps,
                    uint32_t max_steps, uint32_t *step_count);

/* Wipes a SECRET arena and unmaps. A zeroed or closed arena is allowed. */
void host_arena_close(struct host_arena *arena);

#endif
