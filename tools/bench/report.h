/* What `solsend bench` has to tell, and the three ways it tells it. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include <solsend/host.h>

#include "bench/options.h"
#include "bench/run.h"

#define REPORT_STEPS_MAX 32

struct report {
    const struct options *options;
    struct run *runs; /* in the order they were made, raw ones among them */
    uint32_t run_count;
    solsend_step steps[REPORT_STEPS_MAX]; /* of the thread, then of a link's socket */
    uint32_t step_count;
    int cpu, peer_cpu; /* -1: not pinned */
    char identity[48]; /* base58 */
    int64_t started;   /* seconds since 1970 */
};

/*
 * A run whose every number is the median of that number over the transport's runs; counts are
 * sums. Returns how many runs there are.
 */
uint32_t report_median(const struct report *r, const char *transport, struct run *out);

/* One screen of text, 100 columns. */
void report_table(const struct report *r, FILE *out);

/* Every run as JSON. Returns 0, or -1 when writing failed. */
int report_json(const struct report *r, FILE *out);

/* An SVG with percentile curves and inter-send histograms. Returns 0, or -1. */
int report_plot(const struct report *r, FILE *out);

#endif
