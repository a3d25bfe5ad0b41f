/*
 * A warm send against the bare loop and the raw socket: the cost of the call, the shape of its
 * tail, and the way to the receiver's callback.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/order.h"
#include "suite.h"

#define ROW_SEND_ROUNDS 40
#define ROW_SEND_COUNT  4000
#define ROW_SEND_WARM   200
#define ROW_SEND_SPACING                                                                           \
    20000 /* ns between two sends: the path stays warm, ACKs are read between */

enum row_send_kind { ROW_SEND_OURS, ROW_SEND_BARE, ROW_SEND_RAW, ROW_SEND_KINDS };

struct row_send_block {
    struct quantiles send, one_way;
    double waited; /* share of the sends that were accepted but not written by the call */
};

struct row_send_size {
    uint32_t bytes;
    struct sender *senders[ROW_SEND_KINDS];
    struct row_send_block *blocks[ROW_SEND_KINDS]; /* one a round */
};

struct row_send_all {
    struct receiver quic, udp;
    struct row_send_size sizes[2];
    uint32_t rounds, count;
};

static void row_send_close(struct row_send_all *a)
{
    for (int z = 0; z < 2; z++) {
        for (int k = 0; k < ROW_SEND_KINDS; k++) {
            suite_close(a->sizes[z].senders[k]);
            free(a->sizes[z].blocks[k]);
        }
    }
    receiver_close(&a->quic);
    receiver_close(&a->udp);
}

static int row_send_open(struct suite *s, struct row_send_all *a)
{
    if (suite_receiver(s, &a->quic, "agave-4.3", NULL) != 0 ||
        suite_receiver(s, &a->udp, "udp", NULL) != 0) {
        return -1;
    }
    a->sizes[0].bytes = 250;
    a->sizes[1].bytes = 1232;
    for (int z = 0; z < 2; z++) {
        struct row_send_size *size = &a->sizes[z];
        size->senders[ROW_SEND_OURS] = suite_link(s, &a->quic, NULL);
        size->senders[ROW_SEND_BARE] = suite_bare(s, &a->quic, 32768);
        size->senders[ROW_SEND_RAW] = suite_raw(s, &a->udp);
        for (int k = 0; k < ROW_SEND_KINDS; k++) {
            size->blocks[k] = calloc(a->rounds, sizeof *size->blocks[k]);
            if (size->senders[k] == NULL || size->blocks[k] == NULL ||
                suite_warm(s, size->senders[k]) != 0) {
                return -1;
            }
        }
    }
    receiver_stop(&a->quic);
    receiver_stop(&a->udp);
    return 0;
}

static int row_send_block(struct suite *s, struct row_send_all *a, struct row_send_size *size,
                          int kind, uint32_t round)
{
    struct receiver *receiver = kind == ROW_SEND_RAW ? &a->udp : &a->quic;
    const struct wires *wires = suite_wires(s, size->bytes);
    struct run_config config = {.pace = {.interval_ns = ROW_SEND_SPACING},
                                .wires = wires,
                                .warm_up = ROW_SEND_WARM,
                                .count = a->count,
                                .cpu = s->cpu};
    static struct run run;
    int rc;
    mock_forget(receiver->mock);
    if (receiver_start(receiver) != 0) {
        suite_fail(s, "the receiver's thread did not start");
        return -1;
    }
    rc = run_once(&run, &config, size->senders[kind], receiver, &s->stamps);
    receiver_stop(receiver);
    if (rc != 0) {
        suite_fail(s, "%s, %u bytes: %s", run.transport, size->bytes, solsend_error_text(rc));
        return -1;
    }
    size->blocks[kind][round] = (struct row_send_block){run.send_ns, run.one_way_ns,
                                                        (double)run.waited / (double)run.count};
    if (kind == ROW_SEND_OURS) {
        if (run.acked != (int64_t)run.count || run.accepted != (int64_t)run.count) {
            suite_fail(s, "sent %llu, acked %lld, accepted by the mock %lld",
                       (unsigned long long)run.count, (long long)run.acked,
                       (long long)run.accepted);
        }
        /* sends that had to wait are held by ngtcp2, whose pools may then grow */
        if (run.allocations > 0 && run.waited == 0) {
            suite_fail(s, "%lld allocations on the sending thread in %u sends",
                       (long long)run.allocations, a->count);
        }
    }
    return 0;
}

static int row_send_rounds(struct suite *s, struct row_send_all *a)
{
    for (uint32_t round = 0; round < a->rounds; round++) {
        uint32_t blocks[2 * ROW_SEND_KINDS];
        for (uint32_t i = 0; i < 2 * ROW_SEND_KINDS; i++) {
            blocks[i] = i;
        }
        order_shuffle(&s->order, blocks, 2 * ROW_SEND_KINDS);
        for (uint32_t i = 0; i < 2 * ROW_SEND_KINDS; i++) {
            struct row_send_size *size = &a->sizes[blocks[i] / ROW_SEND_KINDS];
            if (row_send_block(s, a, size, (int)(blocks[i] % ROW_SEND_KINDS), round) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

/*
 * NAN where more than one send in a hundred had to wait: the receiver was kept from its CPU and
 * granted no credit, and a call that only queues is quick.
 */
static double row_send_p50(const struct row_send_block *b)
{
    return b->waited <= 0.01 ? (double)b->send.p50 : NAN;
}

static double row_send_tail(const struct row_send_block *b)
{
    return (double)b->send.p99 / row_send_p50(b);
}

/*
 * NAN where the receiver did not run: when half the transactions waited ten sends long for it, its
 * CPU was somebody else's, and the number would be the scheduler's.
 */
static double row_send_one_way(const struct row_send_block *b)
{
    int ran = b->one_way.count != 0 && (double)b->one_way.p50 <= 10 * row_send_p50(b);
    return ran ? (double)b->one_way.p50 : NAN;
}

/*
 * The median over rounds of what `of` sees in one kind's block, over another kind's; rounds in
 * which it sees nothing are left out.
 */
static double row_send_ratio(const struct row_send_all *a, const struct row_send_size *size,
                             double (*of)(const struct row_send_block *), int kind, int over,
                             char *spread, size_t spread_bytes)
{
    double ratios[ROW_SEND_ROUNDS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->rounds; i++) {
        double ratio = of(&size->blocks[kind][i]);
        if (over >= 0) {
            ratio /= of(&size->blocks[over][i]);
        }
        if (isfinite(ratio)) {
            ratios[n++] = ratio;
        }
    }
    return suite_median(ratios, n, spread, spread_bytes);
}

/*
 * A link that sees large packets unanswered takes its path for a small one and sends two packets a
 * transaction from then on. Here it means that the receiver was kept from running for long.
 */
static void row_send_cap(const struct row_send_size *size, char *out, size_t out_bytes)
{
    solsend_link_info info = {.size = sizeof info};
    out[0] = 0;
    if (solsend_link_info_get(sender_link_of(size->senders[ROW_SEND_OURS]), &info) == 0 &&
        info.payload_bytes < size->bytes + 40) {
        snprintf(out, out_bytes, "payload cap fell to %u; ", info.payload_bytes);
    }
}

static void row_send_report(struct suite *s, const struct row_send_all *a,
                            const struct row_send_size *size)
{
    char name[100], spread[100], cap[40];
    double *ns = s->send_ns[size->bytes == 250 ? 0 : 1], ours, bare, raw, ratio;
    for (int kind = 0; kind < ROW_SEND_KINDS; kind++) {
        ns[kind] = row_send_ratio(a, size, row_send_p50, kind, -1, NULL, 0);
    }
    ours = ns[ROW_SEND_OURS];
    bare = ns[ROW_SEND_BARE];
    raw = ns[ROW_SEND_RAW];
    row_send_cap(size, cap, sizeof cap);
    ratio =
        row_send_ratio(a, size, row_send_p50, ROW_SEND_OURS, ROW_SEND_BARE, spread, sizeof spread);
    snprintf(name, sizeof name, "send on a warm QUIC link over bare, %u B", size->bytes);
    suite_row(s, name, ratio, 1.05, 1.15, "p50 %.0f over %.0f ns; %s%s", ours, bare, cap, spread);
    ratio =
        row_send_ratio(a, size, row_send_p50, ROW_SEND_OURS, ROW_SEND_RAW, spread, sizeof spread);
    snprintf(name, sizeof name, "send on a warm QUIC link over raw, %u B", size->bytes);
    suite_row(s, name, ratio, NAN, NAN, "p50 %.0f over %.0f ns; %s", ours, raw, spread);
    ratio =
        row_send_ratio(a, size, row_send_tail, ROW_SEND_OURS, ROW_SEND_RAW, spread, sizeof spread);
    snprintf(name, sizeof name, "p99/p50 of our send over raw's own p99/p50, %u B", size->bytes);
    suite_row(s, name, ratio, 1.1, 1.5, "%.2f over %.2f; %s",
              row_send_ratio(a, size, row_send_tail, ROW_SEND_OURS, -1, NULL, 0),
              row_send_ratio(a, size, row_send_tail, ROW_SEND_RAW, -1, NULL, 0), spread);
    ours = row_send_ratio(a, size, row_send_one_way, ROW_SEND_OURS, -1, NULL, 0);
    raw = row_send_ratio(a, size, row_send_one_way, ROW_SEND_RAW, -1, NULL, 0);
    ratio = row_send_ratio(a, size, row_send_one_way, ROW_SEND_OURS, ROW_SEND_RAW, spread,
                           sizeof spread);
    snprintf(name, sizeof name, "call to the peer's receive callback over raw's, %u B",
             size->bytes);
    if (isnan(ratio)) {
        suite_row_missing(s, name, 1.3, 1.5, "the receiver's CPU was busy with something else");
        return;
    }
    suite_row(s, name, ratio, 1.3, 1.5, "p50 %.0f over %.0f ns (bare %.0f); %s", ours, raw,
              row_send_ratio(a, size, row_send_one_way, ROW_SEND_BARE, -1, NULL, 0), spread);
}

void row_send(struct suite *s)
{
    struct row_send_all a = {.rounds = s->quick ? 3 : ROW_SEND_ROUNDS,
                             .count = s->quick ? 500 : ROW_SEND_COUNT};
    if (row_send_open(s, &a) == 0 && row_send_rounds(s, &a) == 0) {
        row_send_report(s, &a, &a.sizes[0]);
        row_send_report(s, &a, &a.sizes[1]);
    }
    row_send_close(&a);
}
