#include "bench/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/allocations.h"

#define RUN_FLUSH_MS 5000

double run_curve_quantile(uint32_t point)
{
    return 1 - pow(10, -4.0 * point / (RUN_CURVE_POINTS - 1));
}

/* Two arrays as long as the run, for differences and for sorting. */
struct run_scratch {
    uint64_t *a, *b;
};

static int run_scratch_open(struct run_scratch *s, uint32_t count)
{
    s->a = malloc(count * sizeof *s->a);
    s->b = malloc(count * sizeof *s->b);
    return s->a == NULL || s->b == NULL ? SOLSEND_ERR_MEMORY : 0;
}

static void run_scratch_close(struct run_scratch *s)
{
    free(s->a);
    free(s->b);
}

static void run_curve(uint64_t *out, const uint64_t *sorted, size_t count)
{
    for (uint32_t i = 0; i < RUN_CURVE_POINTS; i++) {
        out[i] = samples_at(sorted, count, run_curve_quantile(i));
    }
}

static void run_latencies(struct run *out, const struct pace *pace,
                          const struct pace_stamps *stamps, uint64_t *values)
{
    size_t n = (size_t)out->count;
    for (size_t i = 0; i < n; i++) {
        values[i] = stamps->end[i] - stamps->start[i];
    }
    samples_sort(values, n);
    samples_quantiles(&out->send_ns, values, n);
    run_curve(out->send_curve, values, n);
    for (size_t i = 0; i < n; i++) {
        values[i] = stamps->end[i] - (stamps->t0 + i * pace->interval_ns);
    }
    samples_sort(values, n);
    samples_quantiles(&out->intended_ns, values, n);
    run_curve(out->intended_curve, values, n);
    for (size_t i = 0; i < n; i++) {
        values[i] = stamps->start[i] - (stamps->t0 + i * pace->interval_ns);
    }
    samples_sort(values, n);
    samples_quantiles(&out->lag_ns, values, n);
}

static void run_intersend(struct run *out, const struct pace *pace,
                          const struct pace_stamps *stamps, struct run_scratch *s)
{
    size_t n = out->count < 2 ? 0 : (size_t)out->count - 1;
    for (size_t i = 0; i < n; i++) {
        s->a[i] = stamps->start[i + 1] - stamps->start[i];
    }
    if (n == 0) {
        return;
    }
    samples_spread(&out->intersend_ns, s->a, s->b, n);
    for (size_t i = 0; i < n && pace->interval_ns != 0; i++) {
        uint64_t bin = s->a[i] * (RUN_BINS - 1) / (2 * pace->interval_ns);
        out->intersend_bins[bin < RUN_BINS - 1 ? bin : RUN_BINS - 1]++;
    }
}

/* Differences of stamps where the receiver has seen the transaction. */
static size_t run_difference(uint64_t *out, const uint64_t *later, const uint64_t *sooner, size_t n)
{
    size_t have = 0;
    for (size_t i = 0; i < n; i++) {
        if (later[i] != UINT64_MAX && sooner[i] != UINT64_MAX) {
            out[have++] = later[i] > sooner[i] ? later[i] - sooner[i] : 0;
        }
    }
    samples_sort(out, have);
    return have;
}

static int run_arrivals(struct run *out, const struct run_config *config,
                        const struct receiver *receiver, const struct pace_stamps *stamps,
                        uint64_t *values)
{
    size_t n = (size_t)out->count;
    struct run_scratch s;
    int rc = run_scratch_open(&s, (uint32_t)n);
    if (rc == 0) {
        out->accepted =
            receiver_match(receiver, config->wires, config->warm_up, (uint32_t)n, s.a, s.b);
        rc = out->accepted < 0 ? SOLSEND_ERR_MEMORY : 0;
    }
    if (rc == 0) {
        samples_quantiles(&out->one_way_ns, values, run_difference(values, s.b, stamps->start, n));
        samples_quantiles(&out->received_ns, values, run_difference(values, s.a, stamps->start, n));
        samples_quantiles(&out->callback_ns, values, run_difference(values, s.b, s.a, n));
    }
    run_scratch_close(&s);
    return rc;
}

static int64_t run_delta(int64_t after, int64_t before)
{
    return after < 0 || before < 0 ? -1 : after - before;
}

static double run_share(int64_t part, int64_t count)
{
    return part < 0 || count <= 0 ? NAN : (double)part / (double)count;
}

void run_packets(struct packets *out, const struct sender_counts *before,
                 const struct sender_counts *after, uint64_t count)
{
    int64_t n = (int64_t)count;
    int64_t tended = run_delta(after->tended_datagrams, before->tended_datagrams);
    int64_t tended_calls = run_delta(after->tended_calls, before->tended_calls);
    int64_t tended_written = run_delta(after->tended_written, before->tended_written);
    int64_t written = run_delta(after->written, before->written) - tended_written;
    out->per_tx = out->calls_per_tx = NAN;
    if (tended >= 0 && tended_calls >= 0 && tended_written >= 0) {
        out->per_tx = run_share(run_delta(after->datagrams, before->datagrams) - tended, written);
        out->calls_per_tx =
            run_share(run_delta(after->send_calls, before->send_calls) - tended_calls, written);
    }
    /* a packet sent while tending that brought no transaction's end was for control */
    out->control_per_tx = run_share(tended < tended_written ? 0 : tended - tended_written, n);
    out->control_calls_per_tx =
        run_share(tended_calls < tended_written ? 0 : tended_calls - tended_written, n);
    out->receive_calls_per_tx =
        run_share(run_delta(after->receive_calls, before->receive_calls), n);
    out->at_once = run_share(run_delta(after->at_once, before->at_once), n);
}

/* `end` was read when the last send returned, `final` after the flush. */
static void run_counts(struct run *out, const struct sender_counts *before,
                       const struct sender_counts *end, const struct sender_counts *final)
{
    out->written = run_delta(final->written, before->written);
    out->acked = run_delta(final->acked, before->acked);
    out->ended = run_delta(final->ended, before->ended);
    out->open = final->open;
    run_packets(&out->packets, before, end, out->count);
}

static void run_hops(struct run *out, struct sender *sender)
{
    solsend_link *link = sender_link_of(sender);
    for (uint32_t hop = 0; link != NULL && hop < SOLSEND_HOP_COUNT; hop++) {
        if (solsend_link_hop(link, hop, &out->hop[hop]) != 0) {
            out->hop[hop].count = 0;
        }
    }
}

int run_once(struct run *out, const struct run_config *config, struct sender *sender,
             const struct receiver *receiver, struct pace_stamps *stamps)
{
    struct contamination before;
    struct sender_counts counts[3];
    struct run_scratch scratch = {0};
    uint64_t allocations;
    int rc, ended;
    memset(out, 0, sizeof *out);
    snprintf(out->transport, sizeof out->transport, "%s", sender->table->transport);
    out->bytes = config->wires->bytes;
    out->round = config->round;
    out->accepted = -1;
    rc = run_scratch_open(&scratch, config->count);
    if (rc == 0 && config->warm_up != 0) {
        struct pace pace = config->pace;
        pace.progress = NULL;
        rc = pace_run(&pace, sender, config->wires, 0, config->warm_up, stamps);
        sender->table->flush(sender, RUN_FLUSH_MS);
    }
    if (rc != 0) {
        run_scratch_close(&scratch);
        return rc;
    }
    contamination_read_host(&before, config->cpu);
    contamination_read_thread(&before);
    sender->table->counts(sender, &counts[0]);
    stamps->waited = stamps->refused = stamps->dead = 0;
    allocations = allocations_count();
    ended = pace_run(&config->pace, sender, config->wires, config->warm_up, config->count, stamps);
    allocations = allocations_count() - allocations;
    contamination_read_thread(&out->contamination);
    sender->table->counts(sender, &counts[1]);
    contamination_read_host(&out->contamination, config->cpu);
    contamination_since(&out->contamination, &before);
    sender->table->flush(sender, RUN_FLUSH_MS);
    sender->table->counts(sender, &counts[2]);
    out->allocations = allocations_available() ? (int64_t)allocations : -1;
    out->waited = stamps->waited;
    out->refused = stamps->refused;
    out->dead = stamps->dead;
    out->count = config->count - stamps->dead;
    run_counts(out, &counts[0], &counts[1], &counts[2]);
    if (out->count > 0) {
        out->duration_s = (double)(stamps->end[out->count - 1] - stamps->start[0]) / 1e9;
        run_latencies(out, &config->pace, stamps, scratch.a);
        run_intersend(out, &config->pace, stamps, &scratch);
        run_hops(out, sender);
    }
    if (receiver != NULL && out->count > 0) {
        mock_wait_accepted(receiver->mock, config->warm_up + out->count, 500);
        rc = run_arrivals(out, config, receiver, stamps, scratch.a);
    }
    run_scratch_close(&scratch);
    return ended != 0 ? ended : rc;
}
