#include "bench/report.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define REPORT_ROUNDS_MAX 1000

static const struct run *report_runs[REPORT_ROUNDS_MAX];
static double report_values[REPORT_ROUNDS_MAX];

static uint32_t report_select(const struct report *r, const char *transport)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->run_count && n < REPORT_ROUNDS_MAX; i++) {
        if (strcmp(r->runs[i].transport, transport) == 0) {
            report_runs[n++] = &r->runs[i];
        }
    }
    return n;
}

/* The median of the u64 (or double) that lies `at` bytes into each selected run. */
static uint64_t report_median_u64(uint32_t n, size_t at)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t value;
        memcpy(&value, (const char *)report_runs[i] + at, sizeof value);
        report_values[i] = (double)value;
    }
    return (uint64_t)llround(samples_median(report_values, n));
}

static double report_median_double(uint32_t n, size_t at)
{
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&report_values[i], (const char *)report_runs[i] + at, sizeof(double));
    }
    return samples_median(report_values, n);
}

static void report_quantiles(struct quantiles *out, uint32_t n, size_t at)
{
    out->count = report_median_u64(n, at + offsetof(struct quantiles, count));
    out->p50 = report_median_u64(n, at + offsetof(struct quantiles, p50));
    out->p90 = report_median_u64(n, at + offsetof(struct quantiles, p90));
    out->p99 = report_median_u64(n, at + offsetof(struct quantiles, p99));
    out->p999 = report_median_u64(n, at + offsetof(struct quantiles, p999));
    out->max = report_median_u64(n, at + offsetof(struct quantiles, max));
}

static void report_spread(struct spread *out, uint32_t n, size_t at)
{
    out->count = report_median_u64(n, at + offsetof(struct spread, count));
    out->mean = report_median_double(n, at + offsetof(struct spread, mean));
    out->sd = report_median_double(n, at + offsetof(struct spread, sd));
    out->mad = report_median_double(n, at + offsetof(struct spread, mad));
    out->without_1 = report_median_double(n, at + offsetof(struct spread, without_1));
    out->without_5 = report_median_double(n, at + offsetof(struct spread, without_5));
    out->without_10 = report_median_double(n, at + offsetof(struct spread, without_10));
    out->max = report_median_u64(n, at + offsetof(struct spread, max));
}

static void report_packets(struct packets *out, uint32_t n, size_t at)
{
    out->per_tx = report_median_double(n, at + offsetof(struct packets, per_tx));
    out->calls_per_tx = report_median_double(n, at + offsetof(struct packets, calls_per_tx));
    out->control_per_tx = report_median_double(n, at + offsetof(struct packets, control_per_tx));
    out->at_once = report_median_double(n, at + offsetof(struct packets, at_once));
}

static void report_hop(solsend_summary *out, uint32_t n, size_t at)
{
    out->count = report_median_u64(n, at + offsetof(solsend_summary, count));
    out->p50 = report_median_u64(n, at + offsetof(solsend_summary, p50));
    out->p90 = report_median_u64(n, at + offsetof(solsend_summary, p90));
    out->p99 = report_median_u64(n, at + offsetof(solsend_summary, p99));
    out->p999 = report_median_u64(n, at + offsetof(solsend_summary, p999));
    out->max = report_median_u64(n, at + offsetof(solsend_summary, max));
}

/* A count is the sum of the runs', or unknown when one of them is. */
static int64_t report_sum(uint32_t n, size_t at)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t value;
        memcpy(&value, (const char *)report_runs[i] + at, sizeof value);
        if (value < 0) {
            return -1;
        }
        sum += value;
    }
    return sum;
}

static void report_sums(struct run *out, uint32_t n)
{
    int64_t *c = (int64_t *)&out->contamination;
    out->count = (uint64_t)report_sum(n, offsetof(struct run, count));
    out->accepted = report_sum(n, offsetof(struct run, accepted));
    out->acked = report_sum(n, offsetof(struct run, acked));
    out->written = report_sum(n, offsetof(struct run, written));
    out->open = report_sum(n, offsetof(struct run, open));
    out->ended = report_sum(n, offsetof(struct run, ended));
    out->waited = (uint64_t)report_sum(n, offsetof(struct run, waited));
    out->refused = (uint64_t)report_sum(n, offsetof(struct run, refused));
    out->dead = (uint64_t)report_sum(n, offsetof(struct run, dead));
    out->allocations = report_sum(n, offsetof(struct run, allocations));
    for (size_t i = 0; i < sizeof out->contamination / sizeof *c; i++) {
        c[i] = report_sum(n, offsetof(struct run, contamination) + i * sizeof *c);
    }
}

uint32_t report_median(const struct report *r, const char *transport, struct run *out)
{
    uint32_t n = report_select(r, transport);
    memset(out, 0, sizeof *out);
    if (n == 0) {
        return 0;
    }
    memcpy(out->transport, report_runs[0]->transport, sizeof out->transport);
    out->bytes = report_runs[0]->bytes;
    report_sums(out, n);
    report_quantiles(&out->send_ns, n, offsetof(struct run, send_ns));
    report_quantiles(&out->intended_ns, n, offsetof(struct run, intended_ns));
    report_quantiles(&out->lag_ns, n, offsetof(struct run, lag_ns));
    report_quantiles(&out->one_way_ns, n, offsetof(struct run, one_way_ns));
    report_quantiles(&out->received_ns, n, offsetof(struct run, received_ns));
    report_quantiles(&out->callback_ns, n, offsetof(struct run, callback_ns));
    report_spread(&out->intersend_ns, n, offsetof(struct run, intersend_ns));
    out->duration_s = report_median_double(n, offsetof(struct run, duration_s));
    report_packets(&out->packets, n, offsetof(struct run, packets));
    for (size_t hop = 0; hop < SOLSEND_HOP_COUNT; hop++) {
        report_hop(&out->hop[hop], n, offsetof(struct run, hop) + hop * sizeof(solsend_summary));
    }
    for (size_t i = 0; i < RUN_CURVE_POINTS; i++) {
        out->send_curve[i] =
            report_median_u64(n, offsetof(struct run, send_curve) + i * sizeof(uint64_t));
        out->intended_curve[i] =
            report_median_u64(n, offsetof(struct run, intended_curve) + i * sizeof(uint64_t));
    }
    for (size_t i = 0; i < RUN_BINS; i++) {
        out->intersend_bins[i] =
            (uint64_t)report_sum(n, offsetof(struct run, intersend_bins) + i * sizeof(uint64_t));
    }
    return n;
}
