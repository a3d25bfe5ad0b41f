#include "bench/samples.h"

#include <math.h>
#include <stdlib.h>

static int samples_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int samples_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void samples_sort(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, samples_compare);
}

uint64_t samples_at(const uint64_t *sorted, size_t count, double q)
{
    size_t rank;
    if (count == 0) {
        return 0;
    }
    rank = (size_t)ceil(q * (double)count);
    return sorted[rank == 0 ? 0 : rank > count ? count - 1 : rank - 1];
}

void samples_quantiles(struct quantiles *out, const uint64_t *sorted, size_t count)
{
    out->count = count;
    out->p50 = samples_at(sorted, count, 0.5);
    out->p90 = samples_at(sorted, count, 0.9);
    out->p99 = samples_at(sorted, count, 0.99);
    out->p999 = samples_at(sorted, count, 0.999);
    out->max = samples_at(sorted, count, 1);
}

/* Two passes: the sums of squares of ns would lose digits in one. */
static double samples_deviation(const uint64_t *values, size_t count, double *mean_out)
{
    double sum = 0, squares = 0, mean;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
    }
    mean = count == 0 ? 0 : sum / (double)count;
    for (size_t i = 0; i < count; i++) {
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    }
    if (mean_out != NULL) {
        *mean_out = mean;
    }
    return count < 2 ? 0 : sqrt(squares / (double)(count - 1));
}

/*
 * In sorted order the values furthest from the median are at the two ends: trims `worst` of them,
 * each time the further one.
 */
static double samples_without(const uint64_t *sorted, size_t count, uint64_t median, size_t worst)
{
    size_t low = 0, high = count;
    while (worst-- > 0 && high - low > 2) {
        if (sorted[high - 1] - median >= median - sorted[low]) {
            high--;
        } else {
            low++;
        }
    }
    return samples_deviation(sorted + low, high - low, NULL);
}

void samples_spread(struct spread *out, uint64_t *values, uint64_t *scratch, size_t count)
{
    uint64_t median;
    samples_sort(values, count);
    median = samples_at(values, count, 0.5);
    out->count = count;
    out->sd = samples_deviation(values, count, &out->mean);
    out->max = samples_at(values, count, 1);
    out->without_1 = samples_without(values, count, median, 1);
    out->without_5 = samples_without(values, count, median, 5);
    out->without_10 = samples_without(values, count, median, 10);
    for (size_t i = 0; i < count; i++) {
        scratch[i] = values[i] > median ? values[i] - median : median - values[i];
    }
    samples_sort(scratch, count);
    out->mad = 1.4826 * (double)samples_at(scratch, count, 0.5);
}

double samples_median(double *values, size_t count)
{
    if (count == 0) {
        return NAN;
    }
    qsort(values, count, sizeof *values, samples_compare_doubles);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
