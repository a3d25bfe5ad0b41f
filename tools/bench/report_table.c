#include "bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const report_table_order[] = {"quic", "udp", "raw"};

enum { REPORT_TABLE_TRANSPORTS = sizeof report_table_order / sizeof *report_table_order };

/* Microseconds in nine columns, n/a where it was not measured. */
static void report_table_us(FILE *out, double ns, int known)
{
    if (!known || !isfinite(ns)) {
        fprintf(out, "%9s", "n/a");
    } else if (ns < 99999500) {
        fprintf(out, "%9.2f", ns / 1000);
    } else {
        fprintf(out, "%9.0f", ns / 1000);
    }
}

static void report_table_quantiles(FILE *out, const char *name, const struct quantiles *q)
{
    int known = q->count > 0;
    fprintf(out, "  %-40s", name);
    report_table_us(out, (double)q->p50, known);
    report_table_us(out, (double)q->p90, known);
    report_table_us(out, (double)q->p99, known);
    report_table_us(out, (double)q->p999, known);
    report_table_us(out, (double)q->max, known);
    putc('\n', out);
}

static void report_table_latency(FILE *out, const struct run *runs, const uint32_t *rounds)
{
    fprintf(out, "\n%-42s%9s%9s%9s%9s%9s\n", "latency, us", "p50", "p90", "p99", "p99.9", "max");
    for (int i = 0; i < REPORT_TABLE_TRANSPORTS; i++) {
        char name[64];
        if (rounds[i] == 0) {
            continue;
        }
        snprintf(name, sizeof name, "%-5.15scall to return", runs[i].transport);
        report_table_quantiles(out, name, &runs[i].send_ns);
        report_table_quantiles(out, "     from the intended instant", &runs[i].intended_ns);
        report_table_quantiles(out, "     one way, call to peer's callback", &runs[i].one_way_ns);
    }
}

static void report_table_intersend(FILE *out, const struct run *runs, const uint32_t *rounds,
                                   double target_ns)
{
    fprintf(out, "\ninter-send, us (target %.2f)\n", target_ns / 1000);
    fprintf(out, "  %-5s%9s%9s%9s%9s%9s%9s%9s%9s%9s\n", "", "mean", "sd", "MADx1.48", "sd w/o 1",
            "w/o 5", "w/o 10", "max", "lag p50", "lag p99");
    for (int i = 0; i < REPORT_TABLE_TRANSPORTS; i++) {
        const struct spread *s = &runs[i].intersend_ns;
        if (rounds[i] == 0) {
            continue;
        }
        fprintf(out, "  %-5s", runs[i].transport);
        report_table_us(out, s->mean, s->count > 0);
        report_table_us(out, s->sd, s->count > 0);
        report_table_us(out, s->mad, s->count > 0);
        report_table_us(out, s->without_1, s->count > 0);
        report_table_us(out, s->without_5, s->count > 0);
        report_table_us(out, s->without_10, s->count > 0);
        report_table_us(out, (double)s->max, s->count > 0);
        report_table_us(out, (double)runs[i].lag_ns.p50, runs[i].lag_ns.count > 0);
        report_table_us(out, (double)runs[i].lag_ns.p99, runs[i].lag_ns.count > 0);
        putc('\n', out);
    }
}

/* One hop of quic beside udp: p50 and p99 of each. */
static void report_table_hop(FILE *out, const char *name, const uint64_t (*values)[2],
                             const int *known)
{
    fprintf(out, "  %-44s", name);
    for (int i = 0; i < 2; i++) {
        report_table_us(out, (double)values[i][0], known[i]);
        report_table_us(out, (double)values[i][1], known[i]);
        fputs("    ", out);
    }
    putc('\n', out);
}

static void report_table_hops(FILE *out, const struct run *runs)
{
    static const struct {
        uint32_t hop;
        const char *name;
    } hops[] = {
        {SOLSEND_HOP_ENCODE, "encode: frame, AEAD, header protection"},
        {SOLSEND_HOP_SYSCALL, "send() entered to returned"},
        {SOLSEND_HOP_SCHED, "  entered to queueing discipline (kernel)"},
        {SOLSEND_HOP_SND, "  entered to device (kernel)"},
        {SOLSEND_HOP_ACK, "written to ACK read"},
    };
    uint64_t values[2][2];
    int known[2];
    fprintf(out, "\n%-46s%9s%9s    %9s%9s\n", "where it goes, us (sampled)", "quic p50", "p99",
            "udp p50", "p99");
    for (size_t h = 0; h < sizeof hops / sizeof *hops; h++) {
        for (int i = 0; i < 2; i++) {
            const solsend_summary *s = &runs[i].hop[hops[h].hop];
            known[i] = s->count > 0;
            values[i][0] = s->p50;
            values[i][1] = s->p99;
        }
        report_table_hop(out, hops[h].name, values, known);
    }
    for (int peer = 0; peer < 2; peer++) {
        for (int i = 0; i < 2; i++) {
            const struct quantiles *q = peer ? &runs[i].callback_ns : &runs[i].received_ns;
            known[i] = q->count > 0;
            values[i][0] = q->p50;
            values[i][1] = q->p99;
        }
        report_table_hop(
            out, peer ? "peer's recv() returned to its callback" : "call to peer's recv() returned",
            values, known);
    }
}

static void report_table_number(FILE *out, int width, int64_t value)
{
    if (value < 0) {
        fprintf(out, "%*s", width, "n/a");
    } else {
        fprintf(out, "%*" PRId64, width, value);
    }
}

static void report_table_ratio(FILE *out, int width, double value)
{
    if (isfinite(value)) {
        fprintf(out, "%*.4f", width, value);
    } else {
        fprintf(out, "%*s", width, "n/a");
    }
}

static void report_table_counts(FILE *out, const struct run *runs, const uint32_t *rounds)
{
    fprintf(out, "\n%-7s%8s%9s%8s%9s%10s%13s%11s%12s%8s\n", "counts", "sent", "written", "acked",
            "accepted", "not acked", "not accepted", "packets/tx", "syscalls/tx", "allocs");
    for (int i = 0; i < REPORT_TABLE_TRANSPORTS; i++) {
        const struct run *r = &runs[i];
        if (rounds[i] == 0) {
            continue;
        }
        fprintf(out, "  %-5s%8" PRIu64, r->transport, r->count);
        report_table_number(out, 9, r->written);
        report_table_number(out, 8, r->acked);
        report_table_number(out, 9, r->accepted);
        report_table_number(out, 10, r->acked < 0 ? -1 : (int64_t)r->count - r->acked);
        report_table_number(out, 13, r->accepted < 0 ? -1 : (int64_t)r->count - r->accepted);
        report_table_ratio(out, 11, r->packets.per_tx);
        report_table_ratio(out, 12, r->packets.calls_per_tx);
        report_table_number(out, 8, r->allocations);
        putc('\n', out);
    }
}

static void report_table_contamination(FILE *out, const struct run *runs, const uint32_t *rounds)
{
    fprintf(out, "\n%-14s%10s%10s%8s%8s%12s%10s%10s%10s\n", "contamination", "invol.sw", "vol.sw",
            "minflt", "majflt", "runq ms", "steal ms", "throttled", "dropped");
    for (int i = 0; i < REPORT_TABLE_TRANSPORTS; i++) {
        const struct contamination *c = &runs[i].contamination;
        if (rounds[i] == 0) {
            continue;
        }
        fprintf(out, "  %-12s", runs[i].transport);
        report_table_number(out, 10, c->involuntary_switches);
        report_table_number(out, 10, c->voluntary_switches);
        report_table_number(out, 8, c->minor_faults);
        report_table_number(out, 8, c->major_faults);
        if (c->runqueue_wait_ns < 0) {
            fprintf(out, "%12s", "n/a");
        } else {
            fprintf(out, "%12.3f", (double)c->runqueue_wait_ns / 1e6);
        }
        report_table_number(out, 10, c->steal_ms);
        report_table_number(out, 10, c->throttled_periods);
        report_table_number(out, 10, c->softnet_dropped);
        putc('\n', out);
    }
}

/* Breaks a text between words into lines of the screen's width, indented after the first. */
static void report_table_wrap(FILE *out, const char *text)
{
    int width = 98;
    while ((int)strlen(text) > width) {
        int n = width;
        while (n > 0 && text[n] != ' ') {
            n--;
        }
        n = n > 0 ? n : width;
        fprintf(out, "%.*s\n    ", n, text);
        text += n + (text[n] == ' ');
        width = 94;
    }
    fprintf(out, "%s\n", text);
}

static void report_table_got(char *out, size_t bytes, const solsend_step *s)
{
    if (s->step == SOLSEND_STEP_POLICY && s->got / 100 == SOLSEND_POLICY_FIFO) {
        snprintf(out, bytes, "%s fifo:%" PRId64, s->name, s->got % 100);
    } else if (s->step == SOLSEND_STEP_POLICY && s->got == SOLSEND_POLICY_OTHER) {
        snprintf(out, bytes, "%s other", s->name);
    } else {
        snprintf(out, bytes, "%s %" PRId64, s->name, s->got);
    }
}

/* All that was granted in one list, then each shortfall on its own. */
static void report_table_host(FILE *out, const struct report *r)
{
    char text[REPORT_STEPS_MAX * 48] = "host:";
    const char *separator = " ";
    for (uint32_t i = 0; i < r->step_count; i++) {
        char got[48];
        size_t used = strlen(text);
        if (r->steps[i].code == 0) {
            report_table_got(got, sizeof got, &r->steps[i]);
            snprintf(text + used, sizeof text - used, "%s%s", separator, got);
            separator = ", ";
        }
    }
    putc('\n', out);
    report_table_wrap(out, text);
    for (uint32_t i = 0; i < r->step_count; i++) {
        const solsend_step *s = &r->steps[i];
        if (s->code != 0) {
            snprintf(text, sizeof text, "  not granted: %s: %s", s->name,
                     s->why[0] != 0 ? s->why : solsend_error_text(s->code));
            report_table_wrap(out, text);
        }
    }
}

static void report_table_title(FILE *out, const struct report *r)
{
    const struct options *o = r->options;
    char cpu[16] = "any", peer[16] = "any";
    if (r->cpu >= 0) {
        snprintf(cpu, sizeof cpu, "%d", r->cpu);
    }
    if (r->peer_cpu >= 0) {
        snprintf(peer, sizeof peer, "%d", r->peer_cpu);
    }
    fprintf(out,
            "%u transactions of %u bytes at %.0f/s, rounds: %u (every figure is their median), "
            "seed %" PRIu64 "\n",
            o->count, o->bytes, o->rate, o->rounds, o->seed);
    fprintf(out, "sender on cpu %s, %s%s; ", cpu, o->wait == PACE_SPIN ? "spinning" : "sleeping",
            o->keep_hot ? ", kept hot" : "");
    if (o->peer_quic != NULL || o->peer_udp != NULL) {
        fprintf(out, "receiver on %s\n", o->peer_quic != NULL ? o->peer_quic : o->peer_udp);
    } else {
        fprintf(out, "receiver on cpu %s, spinning: mock %s\n", peer, o->profile);
    }
}

void report_table(const struct report *r, FILE *out)
{
    static struct run runs[REPORT_TABLE_TRANSPORTS];
    uint32_t rounds[REPORT_TABLE_TRANSPORTS], bad = 0;
    for (int i = 0; i < REPORT_TABLE_TRANSPORTS; i++) {
        rounds[i] = report_median(r, report_table_order[i], &runs[i]);
    }
    report_table_title(out, r);
    report_table_latency(out, runs, rounds);
    report_table_intersend(out, runs, rounds, 1e9 / r->options->rate);
    report_table_hops(out, runs);
    report_table_counts(out, runs, rounds);
    report_table_contamination(out, runs, rounds);
    for (uint32_t i = 0; i < r->run_count; i++) {
        bad += (uint32_t)contamination_is_bad(&r->runs[i].contamination,
                                              (uint64_t)(r->runs[i].duration_s * 1e9));
    }
    if (bad != 0) {
        fprintf(out,
                "  %u of %u runs were disturbed (preempted, stolen or throttled): distrust "
                "their tails\n",
                bad, r->run_count);
    }
    report_table_host(out, r);
}
