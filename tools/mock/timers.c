#include "mock/timers.h"

#include <stdlib.h>
#include <string.h>

void timers_open(struct timers *timers)
{
    memset(timers, 0, sizeof *timers);
}

void timers_close(struct timers *timers)
{
    free(timers->heap);
    memset(timers, 0, sizeof *timers);
}

void timers_init(struct timer *timer, void *owner)
{
    timer->due_ns = TIMERS_NEVER;
    timer->at = 0;
    timer->owner = owner;
}

static void place(struct timers *t, uint32_t at, struct timer *timer)
{
    t->heap[at] = timer;
    timer->at = at;
}

static void up(struct timers *t, uint32_t at)
{
    struct timer *timer = t->heap[at];
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (t->heap[parent]->due_ns <= timer->due_ns) {
            break;
        }
        place(t, at, t->heap[parent]);
        at = parent;
    }
    place(t, at, timer);
}

static void down(struct timers *t, uint32_t at)
{
    struct timer *timer = t->heap[at];
    for (;;) {
        uint32_t child = at * 2 + 1;
        if (child >= t->count) {
            break;
        }
        if (child + 1 < t->count && t->heap[child + 1]->due_ns < t->heap[child]->due_ns) {
            child++;
        }
        if (timer->due_ns <= t->heap[child]->due_ns) {
            break;
        }
        place(t, at, t->heap[child]);
        at = child;
    }
    place(t, at, timer);
}

static void take_out(struct timers *t, struct timer *timer)
{
    uint32_t at = timer->at;
    struct timer *last = t->heap[--t->count];
    timer->due_ns = TIMERS_NEVER;
    if (last != timer) {
        place(t, at, last);
        up(t, at);
        down(t, last->at);
    }
}

static int reserve(struct timers *t)
{
    if (t->count < t->capacity) {
        return 0;
    }
    uint32_t capacity = t->capacity == 0 ? 64 : t->capacity * 2;
    struct timer **heap = realloc(t->heap, capacity * sizeof *heap);
    if (heap == NULL) {
        return -1;
    }
    t->heap = heap;
    t->capacity = capacity;
    return 0;
}

int timers_set(struct timers *timers, struct timer *timer, uint64_t due_ns)
{
    if (timer->due_ns == due_ns) {
        return 0;
    }
    if (due_ns == TIMERS_NEVER) {
        take_out(timers, timer);
        return 0;
    }
    if (timer->due_ns == TIMERS_NEVER) {
        if (reserve(timers) != 0) {
            return -1;
        }
        timer->due_ns = due_ns;
        place(timers, timers->count++, timer);
        up(timers, timer->at);
        return 0;
    }
    timer->due_ns = due_ns;
    up(timers, timer->at);
    down(timers, timer->at);
    return 0;
}

uint64_t timers_next(const struct timers *timers)
{
    return timers->count == 0 ? TIMERS_NEVER : timers->heap[0]->due_ns;
}

void *timers_pop(struct timers *timers, uint64_t now_ns)
{
    if (timers->count == 0 || timers->heap[0]->due_ns > now_ns) {
        return NULL;
    }
    struct timer *timer = timers->heap[0];
    take_out(timers, timer);
    return timer->owner;
}
