/*
 * The open transactions of one link: one entry a ticket, taken at the call and given back when its
 * terminal event was drained, so that events cannot overflow. Everything lies in one arena.
 */
#ifndef LINK_SLAB_H
#define LINK_SLAB_H

#include <stdint.h>

#include <solsend/event.h>

#include "base/slots.h"
#include "host/memory.h"
#include "link/quic.h"

enum { SLAB_WIRE_BYTES = 4096, SLAB_COUNT_MAX = 65536 };

enum slab_state {
    SLAB_WAITING, /* accepted, not on the wire */
    SLAB_KEPT,    /* encrypted, its last packet waits for the socket */
    SLAB_FLYING,  /* on the wire, or repeated until it is */
    SLAB_ENDED    /* terminal event queued */
};

struct slab_entry {
    struct quic_flight flight; /* first: a flight's address is its entry's */
    uint64_t user;
    uint64_t deadline_ns;
    uint64_t call_ns;
    uint64_t written_ns; /* 0: not yet */
    uint64_t ended_ns;
    uint64_t peer_code;
    uint64_t value;
    uint32_t priority;
    uint32_t open_next, open_prev; /* all that have no terminal state, oldest first */
    uint32_t wait_next;            /* those that wait, the next to go first */
    uint32_t event_next;           /* those with events to drain */
    int32_t code;
    uint8_t state;
    uint8_t kind;      /* terminal event's kind, 0: none yet */
    uint8_t tell;      /* a WRITTEN event is due */
    uint8_t has_event; /* stands in the event list */
    uint8_t quiet;
    uint8_t waited; /* returned 0 from the call: WRITTEN is worth an event */
    uint8_t large;  /* its packet is larger than the smallest allowed one */
};

struct slab {
    struct slots slots;
    struct slab_entry *entries;
    uint8_t *wires;
    uint32_t open_head, open_tail, open_count;
    uint32_t wait_head, wait_count;
    uint32_t event_head, event_tail;
};

uint64_t slab_bytes(uint32_t count);
void slab_open(struct slab *slab, uint32_t count, uint8_t *memory);

/* Takes an entry and puts it at the end of the open list. SLOTS_NONE when full. */
static inline uint32_t slab_take(struct slab *slab)
{
    uint32_t index = slots_take(&slab->slots);
    if (index == SLOTS_NONE) {
        return SLOTS_NONE;
    }
    struct slab_entry *e = &slab->entries[index];
    /* member by member: clearing all of it would cost more than the rest of a send's bookkeeping */
    e->flight.stream_id = -1;
    e->flight.offset = e->flight.packets = e->flight.early = 0;
    e->written_ns = 0;
    e->peer_code = e->value = 0;
    e->code = 0;
    e->state = SLAB_WAITING;
    e->kind = e->tell = e->has_event = e->waited = 0;
    e->open_prev = slab->open_tail;
    e->open_next = SLOTS_NONE;
    if (slab->open_tail != SLOTS_NONE) {
        slab->entries[slab->open_tail].open_next = index;
    } else {
        slab->open_head = index;
    }
    slab->open_tail = index;
    slab->open_count++;
    return index;
}

static inline struct slab_entry *slab_entry(struct slab *slab, uint32_t index)
{
    return &slab->entries[index];
}

static inline uint32_t slab_index(const struct slab *slab, const struct slab_entry *entry)
{
    return (uint32_t)(entry - slab->entries);
}

static inline uint8_t *slab_wire(struct slab *slab, uint32_t index)
{
    return slab->wires + (uint64_t)index * SLAB_WIRE_BYTES;
}

/* Puts an entry among the waiting: higher priority first, then newest. */
void slab_wait(struct slab *slab, uint32_t index);

/* Takes an entry out of the waiting, wherever it stands. */
void slab_unwait(struct slab *slab, uint32_t index);

/* A WRITTEN event for this entry. */
void slab_tell_written(struct slab *slab, uint32_t index);

/* Its end: out of every list but the events'. A quiet success is given back at once. */
void slab_end(struct slab *slab, uint32_t index, uint32_t kind, int code, uint64_t now);

/* Drains one event. Returns 1 or 0. */
int slab_drain(struct slab *slab, solsend_event *event);

#endif
