#include "link/slab.h"

#include <string.h>

static uint64_t round_up(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}

uint64_t slab_bytes(uint32_t count)
{
    return round_up((uint64_t)count * SLAB_WIRE_BYTES) +
           round_up((uint64_t)count * sizeof(struct slab_entry)) + round_up(slots_bytes(count));
}

void slab_open(struct slab *slab, uint32_t count, uint8_t *memory)
{
    slab->wires = memory;
    memory += round_up((uint64_t)count * SLAB_WIRE_BYTES);
    slab->entries = (struct slab_entry *)(void *)memory;
    memory += round_up((uint64_t)count * sizeof(struct slab_entry));
    slots_open(&slab->slots, count, memory);
    slab->open_head = slab->open_tail = SLOTS_NONE;
    slab->wait_head = SLOTS_NONE;
    slab->event_head = slab->event_tail = SLOTS_NONE;
    slab->open_count = slab->wait_count = 0;
}

static void leave_open(struct slab *slab, uint32_t index)
{
    struct slab_entry *e = &slab->entries[index];
    if (e->open_prev != SLOTS_NONE) {
        slab->entries[e->open_prev].open_next = e->open_next;
    } else {
        slab->open_head = e->open_next;
    }
    if (e->open_next != SLOTS_NONE) {
        slab->entries[e->open_next].open_prev = e->open_prev;
    } else {
        slab->open_tail = e->open_prev;
    }
    slab->open_count--;
}

void slab_wait(struct slab *slab, uint32_t index)
{
    struct slab_entry *e = &slab->entries[index];
    uint32_t *at = &slab->wait_head;
    while (*at != SLOTS_NONE && slab->entries[*at].priority > e->priority) {
        at = &slab->entries[*at].wait_next;
    }
    e->wait_next = *at;
    *at = index;
    e->state = SLAB_WAITING;
    slab->wait_count++;
}

void slab_unwait(struct slab *slab, uint32_t index)
{
    uint32_t *at = &slab->wait_head;
    while (*at != SLOTS_NONE && *at != index) {
        at = &slab->entries[*at].wait_next;
    }
    if (*at == index) {
        *at = slab->entries[index].wait_next;
        slab->wait_count--;
    }
}

static void queue_event(struct slab *slab, uint32_t index)
{
    struct slab_entry *e = &slab->entries[index];
    if (e->has_event) {
        return;
    }
    e->has_event = 1;
    e->event_next = SLOTS_NONE;
    if (slab->event_tail != SLOTS_NONE) {
        slab->entries[slab->event_tail].event_next = index;
    } else {
        slab->event_head = index;
    }
    slab->event_tail = index;
}

void slab_tell_written(struct slab *slab, uint32_t index)
{
    struct slab_entry *e = &slab->entries[index];
    if (!e->quiet) {
        e->tell = 1;
        queue_event(slab, index);
    }
}

void slab_end(struct slab *slab, uint32_t index, uint32_t kind, int code, uint64_t now)
{
    struct slab_entry *e = &slab->entries[index];
    leave_open(slab, index);
    e->state = SLAB_ENDED;
    e->kind = (uint8_t)kind;
    e->code = code;
    e->ended_ns = now;
    if (e->quiet && code == 0) {
        slots_give(&slab->slots, index);
        return;
    }
    queue_event(slab, index);
}

static void fill(solsend_event *out, const struct slab *slab, uint32_t index, uint32_t kind)
{
    const struct slab_entry *e = &slab->entries[index];
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->ticket = slots_ticket(&slab->slots, index);
    out->user = e->user;
    if (kind == SOLSEND_EVENT_WRITTEN) {
        out->t_ns = e->written_ns;
        out->value = e->written_ns - e->call_ns;
    } else {
        out->t_ns = e->ended_ns;
        out->code = e->code;
        out->peer_code = e->peer_code;
        out->value = e->value;
    }
}

int slab_drain(struct slab *slab, solsend_event *event)
{
    uint32_t index = slab->event_head;
    if (index == SLOTS_NONE) {
        return 0;
    }
    struct slab_entry *e = &slab->entries[index];
    int written_first = e->tell && e->kind != SOLSEND_EVENT_WRITTEN;
    fill(event, slab, index, written_first ? SOLSEND_EVENT_WRITTEN : e->kind);
    e->tell = 0;
    if (written_first && e->kind != 0) {
        return 1; /* its end is drained next */
    }
    slab->event_head = e->event_next;
    if (slab->event_head == SLOTS_NONE) {
        slab->event_tail = SLOTS_NONE;
    }
    e->has_event = 0;
    if (e->kind != 0) {
        slots_give(&slab->slots, index);
    }
    return 1;
}
