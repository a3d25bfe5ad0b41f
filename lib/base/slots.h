/*
 * Numbering of preallocated slots: which are free, and which generation each is in, so that a
 * ticket of a slot's earlier life is known to be stale. The slots themselves are the caller's
 * arrays, indexed 0…count-1.
 */
#ifndef BASE_SLOTS_H
#define BASE_SLOTS_H

#include <stdint.h>

#define SLOTS_NONE UINT32_MAX

struct slots {
    uint32_t *next;       /* free list; a slot in use points at itself */
    uint32_t *generation; /* starts at 1 */
    uint32_t count;
    uint32_t used;
    uint32_t free_head;
};

/* Bytes of memory that slots_open needs for `count` slots. */
uint64_t slots_bytes(uint32_t count);

/* Lays the tables out in `memory` (slots_bytes long, 8-byte aligned, owned by the caller). */
void slots_open(struct slots *slots, uint32_t count, void *memory);

/* Takes a slot, the most recently freed first: its memory is the warmest. SLOTS_NONE when full. */
static inline uint32_t slots_take(struct slots *slots)
{
    uint32_t index = slots->free_head;
    if (index != SLOTS_NONE) {
        slots->free_head = slots->next[index];
        slots->next[index] = index; /* points at itself: in use */
        slots->used++;
    }
    return index;
}

/* Gives a taken slot back; its tickets become stale. */
static inline void slots_give(struct slots *slots, uint32_t index)
{
    slots->generation[index]++;
    if (slots->generation[index] == 0) {
        slots->generation[index] = 1;
    }
    slots->next[index] = slots->free_head;
    slots->free_head = index;
    slots->used--;
}

/* The ticket of a taken slot: never 0. */
static inline uint64_t slots_ticket(const struct slots *slots, uint32_t index)
{
    return (uint64_t)slots->generation[index] << 32 | index;
}

/* The slot of a ticket, or SLOTS_NONE if it is stale, free or never was. */
static inline uint32_t slots_find(const struct slots *slots, uint64_t ticket)
{
    uint32_t index = (uint32_t)ticket;
    if (index >= slots->count || slots->generation[index] != (uint32_t)(ticket >> 32) ||
        slots->next[index] != index) {
        return SLOTS_NONE;
    }
    return index;
}

#endif
