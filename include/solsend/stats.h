/**
 * Latency histograms and the clock they are fed with.
 *
 * A histogram is log-linear: from 1 ns to 60 s no bucket is wider than 1/32 of its value, so an
 * answer is at most 1.6 % off; about 8 KB, no allocation after open. Larger values are kept in the
 * last bucket and as the exact maximum.
 *
 * Threads: one writer. Another thread may read while it writes; it then sees a moment of the past.
 * Blocks: never.
 */
#ifndef SOLSEND_STATS_H
#define SOLSEND_STATS_H

#include <solsend/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Nanoseconds of CLOCK_MONOTONIC: the library's only clock for deadlines and stamps. */
SOLSEND_API uint64_t solsend_now_ns(void);

typedef struct solsend_histogram solsend_histogram;

/** What people ask of a histogram. Frozen at 72 bytes; all members are ns except `count`. */
typedef struct solsend_summary {
    uint64_t count;
    uint64_t min;
    uint64_t p50;
    uint64_t p90;
    uint64_t p99;
    uint64_t p999;
    uint64_t max;
    uint64_t mean;
    uint64_t sd; /* standard deviation */
} solsend_summary;

/** Allocates an empty histogram. Returns 0 or MEMORY. */
SOLSEND_API int solsend_histogram_open(solsend_histogram **out);

/** Frees it; null is allowed. */
SOLSEND_API void solsend_histogram_close(solsend_histogram *histogram);

/** Adds one value. Costs a few nanoseconds. */
SOLSEND_API void solsend_histogram_record(solsend_histogram *histogram, uint64_t ns);

/** Adds every value of `source` to `target`. */
SOLSEND_API void solsend_histogram_merge(solsend_histogram *target,
                                         const solsend_histogram *source);

/** Forgets every value. */
SOLSEND_API void solsend_histogram_reset(solsend_histogram *histogram);

/**
 * The value below which `quantile` of all values lie, ns; 0 when empty. `quantile` is clamped to
 * 0…1. The answer is the middle of its bucket, limited to the exact minimum and maximum; the lowest
 * and the highest value themselves are answered exactly.
 */
SOLSEND_API uint64_t solsend_histogram_quantile(const solsend_histogram *histogram,
                                                double quantile);

/** Fills `out`. All zero when empty. */
SOLSEND_API void solsend_histogram_summary(const solsend_histogram *histogram,
                                           solsend_summary *out);

/**
 * Bucket by bucket, for export and plots: the first bucket with a value at or after `*index`.
 * Sets `*low_ns`, `*high_ns` (exclusive) and `*count`, moves `*index` past it. Start with
 * `*index` = 0. Returns 1, or 0 when there are no more.
 */
SOLSEND_API int solsend_histogram_next(const solsend_histogram *histogram, uint32_t *index,
                                       uint64_t *low_ns, uint64_t *high_ns, uint64_t *count);

#ifdef __cplusplus
}
#endif
#endif
