/*
 * What arrived: counters, the array of arrivals and the set of signatures. One writer (the server
 * thread); any number of readers without a lock.
 */
#ifndef MOCK_TALLY_H
#define MOCK_TALLY_H

#include "mock/mock.h"

#include <stdatomic.h>

#define TALLY_CELLS (sizeof(mock_counts) / sizeof(uint64_t))

/* Sixteen bytes, so that a look-up touches one cache line. */
struct tally_entry {
    _Atomic uint64_t head; /* signature bytes 0…7; 0: empty. Published last */
    _Atomic uint64_t rest; /* signature bytes 8…13, and in the lowest 16 bits the copies */
};

struct tally {
    mock_arrival *arrivals;
    struct tally_entry *set;
    uint32_t arrivals_max;
    uint32_t set_mask;
    uint32_t set_max;
    uint32_t set_used;
    _Atomic uint32_t arrivals_count;
    _Atomic uint64_t cells[TALLY_CELLS]; /* mock_counts, member by member */
};

/* Everything is allocated and touched here, so that no arrival pays a page fault. 0 or -1. */
int tally_open(struct tally *tally, uint32_t arrivals_max);
void tally_close(struct tally *tally);

/* Where the first signature of a wire transaction is, or null if these bytes are none. */
const uint8_t *tally_signature(const uint8_t *wire, size_t bytes);

/* Counts and records a whole transaction, or counts it as malformed. Returns 1 or 0. */
int tally_accept(struct tally *tally, const uint8_t *wire, size_t bytes, uint32_t frames,
                 uint64_t received_ns, uint64_t accepted_ns);

int tally_saw(const struct tally *tally, const uint8_t signature[64]);
void tally_counts(const struct tally *tally, mock_counts *out);
void tally_forget(struct tally *tally);

static inline void tally_cell_add(struct tally *tally, size_t cell, uint64_t n)
{
    uint64_t now = atomic_load_explicit(&tally->cells[cell], memory_order_relaxed);
    atomic_store_explicit(&tally->cells[cell], now + n, memory_order_release);
}

#define TALLY_CELL(member)          (offsetof(mock_counts, member) / sizeof(uint64_t))
#define TALLY_ADD(tally, member, n) tally_cell_add((tally), TALLY_CELL(member), (n))
#define TALLY_GET(tally, member)                                                                   \
    atomic_load_explicit(&(tally)->cells[TALLY_CELL(member)], memory_order_acquire)

#endif
