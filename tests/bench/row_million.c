/*
 * A million sends: what the sending thread allocates, how many packets and system calls each costs,
 * and, with loss on the way, whether every one of them is accounted for and arrives.
 */
#include <math.h>

#include "base/clock.h"
#include "bench/allocations.h"
#include "suite.h"

#define ROW_MILLION_COUNT   1000000u
#define ROW_MILLION_QUICK   20000u
#define ROW_MILLION_SPACING 8000
#define ROW_LOSS_SPACING    10000
/* One, and half a percent for a send that first had to make room: an ACK or a repeat goes out. */
#define ROW_MILLION_ONE 1.005

struct row_million_result {
    uint64_t count;       /* sends made */
    uint64_t allocations; /* inside the sending loop */
    uint64_t arrived;     /* whole transactions the mock accepted */
    uint64_t datagrams;   /* that the mock received, handshake and all else of the link excluded */
    struct sender_counts before, end, final;
};

static int row_million_run(struct suite *s, const struct receiver *r, struct sender *sender,
                           uint64_t spacing_ns, struct row_million_result *out)
{
    struct pace pace = {.interval_ns = spacing_ns};
    uint64_t count = s->quick ? ROW_MILLION_QUICK : ROW_MILLION_COUNT;
    mock_counts counts;
    int rc = suite_warm(s, sender);
    mock_forget(r->mock);
    sender->table->counts(sender, &out->before);
    out->count = out->allocations = 0;
    while (rc == 0 && out->count < count) {
        uint64_t allocations = allocations_count();
        rc = pace_run(&pace, sender, &s->small, 0, SUITE_WIRES, &s->stamps);
        out->allocations += allocations_count() - allocations;
        out->count += SUITE_WIRES - s->stamps.dead;
    }
    sender->table->counts(sender, &out->end);
    mock_counts_get(r->mock, &counts);
    out->datagrams = counts.datagrams;
    sender->table->flush(sender, 20000);
    sender->table->counts(sender, &out->final);
    out->arrived = mock_wait_accepted(r->mock, out->count, 2000);
    if (rc != 0) {
        suite_fail(s, "after %llu sends: %s", (unsigned long long)out->count,
                   solsend_error_text(rc));
    }
    return rc;
}

/* Sends that the mock never got, and sends that have no terminal state. */
static uint64_t row_million_lost(struct suite *s, const struct row_million_result *m)
{
    uint64_t accepted = (uint64_t)(m->final.accepted - m->before.accepted);
    uint64_t ended = (uint64_t)(m->final.acked - m->before.acked);
    uint64_t lost = m->count > m->arrived ? m->count - m->arrived : 0;
    uint64_t unaccounted = accepted > ended ? accepted - ended : 0;
    if (accepted != m->count) {
        suite_fail(s, "%llu sends were made, the link counts %llu", (unsigned long long)m->count,
                   (unsigned long long)accepted);
    }
    if (lost + unaccounted != 0) {
        suite_fail(s, "of %llu sends %llu were not accepted by the mock, %llu not acknowledged",
                   (unsigned long long)m->count, (unsigned long long)lost,
                   (unsigned long long)unaccounted);
    }
    return lost + unaccounted;
}

static void row_million_report(struct suite *s, const struct row_million_result *m)
{
    double n = (double)m->count;
    struct packets p;
    run_packets(&p, &m->before, &m->end, m->count);
    row_million_lost(s, m);
    if (!allocations_available()) {
        suite_row_missing(s, "allocations on the hot thread over 1 M sends", 0, 0,
                          "a sanitizer owns malloc");
    } else {
        suite_row(s, "allocations on the hot thread over 1 M sends", (double)m->allocations, 0, 0,
                  "%.0f sends, %.4f of them written at return", n, p.at_once);
        /* sends that had to wait are held by ngtcp2, whose pools may then grow */
        if (m->allocations > 0 && p.at_once == 1) {
            suite_fail(s, "%llu allocations in %.0f sends", (unsigned long long)m->allocations, n);
        }
    }
    suite_row(s, "packets per transaction over 1 M sends", p.per_tx, 1, ROW_MILLION_ONE,
              "beside them %.4f control packets; the mock saw %.4f in all", p.control_per_tx,
              (double)m->datagrams / n);
    suite_row(s, "send system calls per transaction over 1 M sends", p.calls_per_tx, 1,
              ROW_MILLION_ONE, "beside them %.4f for control packets, %.2f that receive",
              p.control_calls_per_tx, p.receive_calls_per_tx);
}

void row_million(struct suite *s)
{
    struct row_million_result m;
    struct receiver r;
    struct sender *sender;
    if (suite_receiver(s, &r, "agave-4.3", NULL) != 0) {
        return;
    }
    sender = suite_link(s, &r, NULL);
    if (sender != NULL && row_million_run(s, &r, sender, ROW_MILLION_SPACING, &m) == 0) {
        row_million_report(s, &m);
    }
    suite_close(sender);
    receiver_close(&r);
}

void row_loss(struct suite *s)
{
    struct row_million_result m;
    solsend_link_options o;
    struct receiver r;
    struct sender *sender;
    char why[200];
    suite_link_options(s, &o);
    o.slots = 16384;
    if (suite_receiver(s, &r, "agave-4.3", NULL) != 0) {
        return;
    }
    sender = suite_link(s, &r, &o);
    if (sender != NULL && mock_fault(r.mock, "loss=0.01", why, sizeof why) != 0) {
        suite_fail(s, "loss: %s", why);
    } else if (sender != NULL && row_million_run(s, &r, sender, ROW_LOSS_SPACING, &m) == 0) {
        mock_counts counts;
        uint64_t lost = row_million_lost(s, &m);
        mock_counts_get(r.mock, &counts);
        suite_row(s, "sends lost or unaccounted in 1 M at 1 % loss", (double)lost, 0, 0,
                  "%.0f sends, %llu + %llu datagrams dropped on the way there and back",
                  (double)m.count, (unsigned long long)counts.dropped_in,
                  (unsigned long long)counts.dropped_out);
    }
    suite_close(sender);
    receiver_close(&r);
}
