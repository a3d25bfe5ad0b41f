#include "bench/report.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <solsend/solsend.h>

#include "bench/json.h"

static void report_json_quantiles(struct json *j, const char *name, const struct quantiles *q)
{
    if (q->count == 0) {
        json_null(j, name);
        return;
    }
    json_open_object(j, name);
    json_unsigned(j, "p50", q->p50);
    json_unsigned(j, "p90", q->p90);
    json_unsigned(j, "p99", q->p99);
    json_unsigned(j, "p999", q->p999);
    json_unsigned(j, "max", q->max);
    json_close_object(j);
}

static void report_json_spread(struct json *j, const char *name, const struct spread *s)
{
    if (s->count == 0) {
        json_null(j, name);
        return;
    }
    json_open_object(j, name);
    json_double(j, "mean", s->mean);
    json_double(j, "sd", s->sd);
    json_double(j, "mad", s->mad);
    json_double(j, "sd_without_worst_1", s->without_1);
    json_double(j, "sd_without_worst_5", s->without_5);
    json_double(j, "sd_without_worst_10", s->without_10);
    json_unsigned(j, "max", s->max);
    json_close_object(j);
}

static void report_json_contamination(struct json *j, const struct run *r)
{
    const struct contamination *c = &r->contamination;
    json_open_object(j, "contamination");
    json_known(j, "involuntary_switches", c->involuntary_switches);
    json_known(j, "voluntary_switches", c->voluntary_switches);
    json_known(j, "minor_faults", c->minor_faults);
    json_known(j, "major_faults", c->major_faults);
    json_known(j, "runqueue_wait_ns", c->runqueue_wait_ns);
    json_known(j, "steal_ms", c->steal_ms);
    json_known(j, "throttled_periods", c->throttled_periods);
    json_known(j, "throttled_ns", c->throttled_ns);
    json_known(j, "softnet_dropped", c->softnet_dropped);
    json_bool(j, "disturbed", contamination_is_bad(c, (uint64_t)(r->duration_s * 1e9)));
    json_close_object(j);
}

static void report_json_hops(struct json *j, const struct run *r)
{
    json_open_object(j, "hops");
    for (uint32_t hop = 0; hop < SOLSEND_HOP_COUNT; hop++) {
        const solsend_summary *s = &r->hop[hop];
        struct quantiles q = {s->count, s->p50, s->p90, s->p99, s->p999, s->max};
        report_json_quantiles(j, solsend_hop_name(hop), &q);
    }
    report_json_quantiles(j, "peer_received", &r->received_ns);
    report_json_quantiles(j, "peer_callback", &r->callback_ns);
    json_close_object(j);
}

static void report_json_run(struct json *j, const struct report *report, const struct run *r)
{
    json_open_object(j, NULL);
    json_text(j, "transport", r->transport);
    json_unsigned(j, "round", r->round);
    json_unsigned(j, "bytes", r->bytes);
    json_text(j, "drive", "inline");
    json_text(j, "wait", report->options->wait == PACE_SPIN ? "spin" : "sleep");
    json_unsigned(j, "count", r->count);
    json_known(j, "written", r->written);
    json_known(j, "acked", r->acked);
    json_known(j, "accepted", r->accepted);
    json_known(j, "lost_acked", r->acked < 0 ? -1 : (int64_t)r->count - r->acked);
    json_known(j, "lost_accepted", r->accepted < 0 ? -1 : (int64_t)r->count - r->accepted);
    json_known(j, "unaccounted", r->open);
    json_known(j, "ended_otherwise", r->ended);
    json_unsigned(j, "waited", r->waited);
    json_unsigned(j, "refused", r->refused);
    json_double(j, "rate", r->duration_s > 0 ? (double)(r->count - 1) / r->duration_s : NAN);
    report_json_quantiles(j, "send_ns", &r->send_ns);
    report_json_quantiles(j, "intended_ns", &r->intended_ns);
    report_json_quantiles(j, "one_way_ns", &r->one_way_ns);
    report_json_quantiles(j, "lag_ns", &r->lag_ns);
    report_json_spread(j, "intersend_ns", &r->intersend_ns);
    report_json_hops(j, r);
    json_known(j, "allocations_hot_thread", r->allocations);
    json_double(j, "packets_per_tx", r->packets.per_tx);
    json_double(j, "syscalls_per_tx", r->packets.calls_per_tx);
    json_double(j, "control_packets_per_tx", r->packets.control_per_tx);
    json_double(j, "receive_calls_per_tx", r->packets.receive_calls_per_tx);
    json_double(j, "written_at_return", r->packets.at_once);
    report_json_contamination(j, r);
    json_close_object(j);
}

static void report_json_runs(struct json *j, const struct report *r, const char *name, int raw)
{
    json_open_array(j, name);
    for (uint32_t i = 0; i < r->run_count; i++) {
        if ((strcmp(r->runs[i].transport, "raw") == 0) == raw) {
            report_json_run(j, r, &r->runs[i]);
        }
    }
    json_close_array(j);
}

/* The worst of the measured runs: what holds for it holds for all. */
static void report_json_worst(struct json *j, const struct report *r)
{
    int64_t allocations = 0;
    double packets = 0, syscalls = 0;
    for (uint32_t i = 0; i < r->run_count; i++) {
        const struct run *run = &r->runs[i];
        if (strcmp(run->transport, "raw") == 0) {
            continue;
        }
        allocations = run->allocations < 0 || allocations < 0 ? -1
                      : run->allocations > allocations        ? run->allocations
                                                              : allocations;
        packets = isnan(run->packets.per_tx) ? NAN : fmax(packets, run->packets.per_tx);
        syscalls =
            isnan(run->packets.calls_per_tx) ? NAN : fmax(syscalls, run->packets.calls_per_tx);
    }
    json_known(j, "allocations_hot_thread", allocations);
    json_double(j, "packets_per_tx", packets);
    json_double(j, "syscalls_per_tx", syscalls);
}

static void report_json_machine(struct json *j)
{
    struct utsname name;
    char line[256], model[200] = "";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f != NULL && model[0] == 0 && fgets(line, sizeof line, f) != NULL) {
        sscanf(line, "model name : %199[^\n]", model);
    }
    if (f != NULL) {
        fclose(f);
    }
    json_open_object(j, "machine");
    json_text(j, "cpu", model[0] != 0 ? model : NULL);
    json_integer(j, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    json_text(j, "kernel", uname(&name) == 0 ? name.release : NULL);
    json_text(j, "architecture", uname(&name) == 0 ? name.machine : NULL);
    json_close_object(j);
}

static void report_json_options(struct json *j, const struct report *r)
{
    const struct options *o = r->options;
    json_open_object(j, "options");
    json_unsigned(j, "bytes", o->bytes);
    json_unsigned(j, "count", o->count);
    json_double(j, "rate", o->rate);
    json_unsigned(j, "rounds", o->rounds);
    json_unsigned(j, "warm_up", o->warm_up);
    json_unsigned(j, "stamps", o->stamps);
    json_known(j, "cpu", r->cpu);
    json_known(j, "peer_cpu", r->peer_cpu);
    json_unsigned(j, "fifo", (uint64_t)o->fifo);
    json_bool(j, "keep_hot", o->keep_hot);
    json_text(j, "wait", o->wait == PACE_SPIN ? "spin" : "sleep");
    json_text(j, "profile", o->profile);
    json_text(j, "peer_quic", o->peer_quic);
    json_text(j, "peer_udp", o->peer_udp);
    json_text(j, "identity", r->identity);
    json_unsigned(j, "seed", o->seed);
    json_close_object(j);
}

static void report_json_steps(struct json *j, const struct report *r)
{
    json_open_array(j, "host");
    for (uint32_t i = 0; i < r->step_count; i++) {
        const solsend_step *s = &r->steps[i];
        json_open_object(j, NULL);
        json_text(j, "step", s->name);
        json_text(j, "code", s->code == 0 ? "OK" : solsend_error_name(s->code));
        json_integer(j, "wanted", s->wanted);
        json_integer(j, "got", s->got);
        json_text(j, "why", s->why[0] != 0 ? s->why : NULL);
        json_text(j, "cost", s->cost[0] != 0 ? s->cost : NULL);
        json_text(j, "fix", s->fix[0] != 0 ? s->fix : NULL);
        json_close_object(j);
    }
    json_close_array(j);
}

int report_json(const struct report *r, FILE *out)
{
    struct json j;
    json_start(&j, out);
    json_open_object(&j, NULL);
    json_unsigned(&j, "format", 1);
    json_text(&j, "program", "solsend bench");
    json_text(&j, "build", solsend_build_info());
    json_integer(&j, "started", r->started);
    report_json_machine(&j);
    report_json_options(&j, r);
    report_json_steps(&j, r);
    report_json_worst(&j, r);
    report_json_runs(&j, r, "runs", 0);
    report_json_runs(&j, r, "floor", 1);
    json_close_object(&j);
    return json_end(&j);
}
