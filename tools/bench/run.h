/* One run: warm up, send `count` transactions by one sender in an open loop, add up. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <stdint.h>

#include <solsend/link.h>

#include "bench/contamination.h"
#include "bench/pace.h"
#include "bench/receiver.h"
#include "bench/samples.h"
#include "bench/sender.h"
#include "bench/wires.h"

/* How finely a curve is kept for the plot: quantiles at run_curve_quantile(0…). */
#define RUN_CURVE_POINTS 97
/* Inter-send histogram: this many bins over 0…2T, and one beyond. */
#define RUN_BINS 201

/* What a transaction takes; NAN: not known. */
struct packets {
    double per_tx, calls_per_tx; /* inside the send calls, a transaction written there */
    double control_per_tx, control_calls_per_tx; /* beside them, a transaction of the run: ACKs… */
    double receive_calls_per_tx;
    double at_once; /* share of the transactions that were written at return */
};

/* Between two counts of one sender, over `count` transactions. */
void run_packets(struct packets *out, const struct sender_counts *before,
                 const struct sender_counts *after, uint64_t count);

struct run_config {
    struct pace pace;
    const struct wires *wires; /* warm_up wires, then the measured ones */
    uint32_t warm_up;
    uint32_t count;
    uint32_t round;
    int cpu; /* of the calling thread, -1: not pinned */
};

struct run {
    char transport[16];
    uint32_t bytes;
    uint32_t round;
    uint64_t count;   /* transactions that the loop sent */
    int64_t accepted; /* of them, seen whole by the receiver; -1: it is on another host */
    int64_t acked;    /* -1: the transport has no ACKs */
    int64_t written;
    int64_t open;  /* without a terminal state at the end */
    int64_t ended; /* ended otherwise than acknowledged */
    uint64_t waited, refused, dead;
    struct quantiles send_ns;     /* call to return */
    struct quantiles intended_ns; /* the instant it belongs to, to return */
    struct quantiles lag_ns;      /* the instant it belongs to, to call */
    struct quantiles one_way_ns;  /* call to the receiver's callback */
    struct quantiles received_ns; /* call to the receiver's recv() */
    struct quantiles callback_ns; /* the receiver's recv() to its callback */
    struct spread intersend_ns;
    double duration_s;   /* first call to last return */
    int64_t allocations; /* on this thread during the loop; -1: not counted */
    struct packets packets;
    struct contamination contamination;
    solsend_summary hop[SOLSEND_HOP_COUNT]; /* count 0: not measured */
    uint64_t send_curve[RUN_CURVE_POINTS], intended_curve[RUN_CURVE_POINTS];
    uint64_t intersend_bins[RUN_BINS];
};

/* The quantile of a curve's point: evenly spaced in -log10(1 - q), 0 to 0.9999. */
double run_curve_quantile(uint32_t point);

/*
 * `receiver` is null when the other end stands on another host. Returns 0, or the code by which
 * the sender ended; `out` is filled either way. Prints nothing.
 */
int run_once(struct run *out, const struct run_config *config, struct sender *sender,
             const struct receiver *receiver, struct pace_stamps *stamps);

#endif
