/*
 * A ring of fixed-size records from exactly one producer thread to exactly one consumer thread.
 * Lock-free and wait-free; never allocates after open; full and empty are ordinary answers.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define RING_LINE 64

struct ring {
    uint8_t *records;
    uint32_t record_bytes;
    uint32_t mask;
    /* Each side keeps its own index and a cached copy of the other's on a line of its own. */
    _Alignas(RING_LINE) _Atomic uint32_t head; /* next to write; the producer's */
    uint32_t tail_seen;
    _Alignas(RING_LINE) _Atomic uint32_t tail; /* next to read; the consumer's */
    uint32_t head_seen;
};

/* `capacity` is rounded up to a power of two. Returns 0, USAGE or MEMORY. */
int ring_open(struct ring *ring, uint32_t capacity, uint32_t record_bytes);
void ring_close(struct ring *ring);

/* Producer: copies a record in. Returns 1, or 0 when full. */
static inline int ring_push(struct ring *ring, const void *record)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - ring->tail_seen > ring->mask) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->tail_seen > ring->mask) {
            return 0;
        }
    }
    memcpy(ring->records + (size_t)(head & ring->mask) * ring->record_bytes, record,
           ring->record_bytes);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return 1;
}

/* Consumer: copies the oldest record out. Returns 1, or 0 when empty. */
static inline int ring_pop(struct ring *ring, void *record)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail == ring->head_seen) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail == ring->head_seen) {
            return 0;
        }
    }
    memcpy(record, ring->records + (size_t)(tail & ring->mask) * ring->record_bytes,
           ring->record_bytes);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return 1;
}

#endif
