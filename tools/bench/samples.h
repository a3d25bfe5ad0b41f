/*
 * Exact statistics over kept samples: quantiles by rank, and the spread of inter-send times in the
 * forms that tell one long stall from a wide distribution.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct quantiles {
    uint64_t count; /* 0: not measured */
    uint64_t p50, p90, p99, p999, max;
};

struct spread {
    uint64_t count;
    double mean, sd;
    double mad; /* median absolute deviation x 1.4826: the sd of a normal distribution as wide */
    double without_1, without_5, without_10; /* sd without the samples furthest from the median */
    uint64_t max;
};

/* Sorts ascending, in place. */
void samples_sort(uint64_t *values, size_t count);

/* The value at `q` (0…1) of sorted values, by nearest rank; 0 when there are none. */
uint64_t samples_at(const uint64_t *sorted, size_t count, double q);

/* Of sorted values. */
void samples_quantiles(struct quantiles *out, const uint64_t *sorted, size_t count);

/* Of values in any order; `scratch` holds as many. `values` are sorted on return. */
void samples_spread(struct spread *out, uint64_t *values, uint64_t *scratch, size_t count);

/* Median of a handful of numbers (sorted in place); NAN when there are none. */
double samples_median(double *values, size_t count);

#endif
