/*
 * The log-linear histogram behind solsend_histogram, complete so that a link can keep its own in
 * an arena, and recording inline because it happens on the send path.
 *
 * All-zero memory is a valid empty histogram. It holds no pointer, so it may be copied or mapped
 * by another process.
 *
 * One writer, any readers: every word is an atomic that only the writer stores to, so nothing is
 * locked. The totals change together under a sequence number (odd while they change), the buckets
 * one by one before them.
 */
#ifndef STATS_HISTOGRAM_H
#define STATS_HISTOGRAM_H

#include <stdatomic.h>

#include <solsend/stats.h>

enum {
    HISTOGRAM_SUB_BITS = 5,  /* 32 buckets an octave: none is wider than 1/32 of its lower end */
    HISTOGRAM_TOP_BITS = 36, /* values from 2^36 ns, 68.7 s, on share the last bucket */
    HISTOGRAM_BUCKETS = (HISTOGRAM_TOP_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
    HISTOGRAM_COUNTS = HISTOGRAM_BUCKETS + 1
};

struct solsend_histogram {
    _Alignas(64) _Atomic uint64_t sequence;
    _Atomic uint64_t count;
    _Atomic uint64_t sum[2];     /* 128 bits, low word first */
    _Atomic uint64_t squares[2]; /* of every value squared; saturates at all ones */
    _Atomic uint64_t min_not;    /* complement of the minimum: zero is then "none yet" */
    _Atomic uint64_t max;
    _Atomic uint64_t counts[HISTOGRAM_COUNTS];
};

_Static_assert(offsetof(struct solsend_histogram, counts) == 64, "totals fill one cache line");

/* Bytes and alignment to reserve for one histogram. */
#define HISTOGRAM_BYTES ((uint32_t)sizeof(struct solsend_histogram))
#define HISTOGRAM_ALIGN ((uint32_t) _Alignof(struct solsend_histogram))

/* Empties it; for memory that is not known to be zero. */
void histogram_init(struct solsend_histogram *histogram);

static inline uint64_t histogram_get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Release, so that whoever sees the value also sees the odd sequence number before it. */
static inline void histogram_put(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* Which of HISTOGRAM_COUNTS counters a value belongs to. */
static inline uint32_t histogram_index(uint64_t ns)
{
    if (ns >> HISTOGRAM_TOP_BITS != 0) {
        return HISTOGRAM_BUCKETS;
    }
    /* below 2 x 32 every value has its own bucket; from there each octave doubles the width */
    uint32_t shift = 63 - HISTOGRAM_SUB_BITS -
                     (uint32_t)__builtin_clzll(ns | (UINT64_C(1) << HISTOGRAM_SUB_BITS));
    return (shift << HISTOGRAM_SUB_BITS) + (uint32_t)(ns >> shift);
}

/* Adds one value. */
static inline void histogram_record(struct solsend_histogram *histogram, uint64_t ns)
{
    struct solsend_histogram *h = histogram;
    uint64_t sequence = histogram_get(&h->sequence);
    atomic_store_explicit(&h->sequence, sequence + 1, memory_order_relaxed);

    _Atomic uint64_t *counter = &h->counts[histogram_index(ns)];
    histogram_put(counter, histogram_get(counter) + 1);

    uint64_t sum = histogram_get(&h->sum[0]);
    uint64_t carry = sum + ns < sum;
    histogram_put(&h->sum[0], sum + ns);
    if (__builtin_expect(carry != 0, 0)) {
        histogram_put(&h->sum[1], histogram_get(&h->sum[1]) + 1);
    }

    unsigned __int128 squares =
        (unsigned __int128)histogram_get(&h->squares[1]) << 64 | histogram_get(&h->squares[0]);
    if (__builtin_add_overflow(squares, (unsigned __int128)ns * ns, &squares)) {
        squares = ~(unsigned __int128)0;
    }
    histogram_put(&h->squares[0], (uint64_t)squares);
    histogram_put(&h->squares[1], (uint64_t)(squares >> 64));

    if (~ns > histogram_get(&h->min_not)) {
        histogram_put(&h->min_not, ~ns);
    }
    if (ns > histogram_get(&h->max)) {
        histogram_put(&h->max, ns);
    }
    histogram_put(&h->count, histogram_get(&h->count) + 1);
    histogram_put(&h->sequence, sequence + 2);
}

#endif
