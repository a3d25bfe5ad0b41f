/* Deadlines in a binary heap; a timer is embedded in what it wakes. */
#ifndef MOCK_TIMERS_H
#define MOCK_TIMERS_H

#include <stdint.h>

#define TIMERS_NEVER UINT64_MAX

struct timer {
    uint64_t due_ns; /* TIMERS_NEVER: not in the heap */
    uint32_t at;
    void *owner;
};

struct timers {
    struct timer **heap;
    uint32_t count;
    uint32_t capacity;
};

void timers_open(struct timers *timers);
void timers_close(struct timers *timers);

/* Before the first timers_set. */
void timers_init(struct timer *timer, void *owner);

/* Moves a timer; TIMERS_NEVER takes it out. Returns 0 or -1 (no memory). */
int timers_set(struct timers *timers, struct timer *timer, uint64_t due_ns);

/* When the earliest is due, or TIMERS_NEVER. */
uint64_t timers_next(const struct timers *timers);

/* Takes the earliest out if it is due. Returns its owner or null. */
void *timers_pop(struct timers *timers, uint64_t now_ns);

#endif
