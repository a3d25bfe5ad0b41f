/*
 * The performance suite: each row is a ratio inside one run, or a count. Ours, the bare loop and
 * the raw socket take turns in random order, and a row's number is the median over the rounds.
 */
#include "suite.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <solsend/solsend.h>

#include "base/clock.h"
#include "bench/json.h"
#include "bench/order.h"
#include "bench/place.h"
#include "sender_bare.h"

static const char suite_help[] =
    "Usage: suite [--json FILE] [--only GROUP] [--seed N] [--check] [--quick] [--budget]\n"
    "\n"
    "Runs the performance suite and prints a line for each row: target, must, measured, whether\n"
    "the must holds. See docs/benchmarks.md.\n"
    "\n"
    "  --json FILE   the rows as JSON, - for standard output\n"
    "  --only GROUP  one group: send instructions idle flight million throughput heap loss\n"
    "  --seed N      of the order of rounds\n"
    "  --check       exit status 1 when a must does not hold\n"
    "  --quick       a smoke run: only lost or unaccounted transactions and allocations fail it\n"
    "  --budget      where the instructions and nanoseconds of a send go, instead of the rows\n";

struct suite_group {
    const char *name;
    void (*run)(struct suite *s);
    int needs_time; /* left out of smoke runs */
};

static const struct suite_group suite_groups[] = {
    {"send", row_send, 0},       {"instructions", row_instructions, 1},
    {"idle", row_idle, 1},       {"flight", row_flight, 0},
    {"million", row_million, 0}, {"throughput", row_throughput, 0},
    {"heap", row_heap, 0},       {"loss", row_loss, 0},
};

struct suite_options {
    const char *json, *only;
    int check;
};

static FILE *suite_out;

static int suite_holds(const struct suite_row *row)
{
    if (isnan(row->must)) {
        return 1;
    }
    /* a must below its target is a number that should be large */
    return isfinite(row->measured) &&
           (row->must < row->target ? row->measured >= row->must : row->measured <= row->must);
}

static void suite_number(char *out, size_t bytes, double value)
{
    if (!isfinite(value)) {
        snprintf(out, bytes, "-");
    } else if (fabs(value) >= 1000) {
        snprintf(out, bytes, "%.0f", value);
    } else {
        snprintf(out, bytes, "%.3g", value);
    }
}

static void suite_print(const struct suite_row *row)
{
    char target[16], must[16], measured[16];
    suite_number(target, sizeof target, row->target);
    suite_number(must, sizeof must, row->must);
    suite_number(measured, sizeof measured, row->measured);
    fprintf(suite_out, "%-62s %7s %7s %9s  %-5s %s\n", row->name, target, must, measured,
            isnan(row->must)   ? "shown"
            : suite_holds(row) ? "yes"
                               : "NO",
            row->note);
    fflush(suite_out);
}

void suite_row(struct suite *s, const char *name, double measured, double target, double must,
               const char *note, ...)
{
    struct suite_row *row = &s->rows[s->row_count];
    va_list arguments;
    if (s->row_count == SUITE_ROWS_MAX) {
        suite_fail(s, "more rows than SUITE_ROWS_MAX");
        return;
    }
    s->row_count++;
    snprintf(row->name, sizeof row->name, "%s", name);
    row->measured = measured;
    row->target = target;
    row->must = must;
    va_start(arguments, note);
    vsnprintf(row->note, sizeof row->note, note, arguments);
    va_end(arguments);
    suite_print(row);
}

void suite_row_missing(struct suite *s, const char *name, double target, double must,
                       const char *why)
{
    suite_row(s, name, NAN, target, must, "not measured: %s", why);
}

void suite_fail(struct suite *s, const char *format, ...)
{
    va_list arguments;
    s->failures++;
    fputs("suite: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    putc('\n', stderr);
}

const struct wires *suite_wires(const struct suite *s, uint32_t bytes)
{
    return bytes == s->small.bytes ? &s->small : &s->large;
}

int suite_receiver(struct suite *s, struct receiver *r, const char *profile, const char *faults)
{
    struct receiver_config config = {.profile = profile,
                                     .faults = faults,
                                     .identity = s->key,
                                     .cpu = s->peer_cpu,
                                     .arrivals = 2 * SUITE_WIRES,
                                     .seed = s->seed};
    char why[300];
    if (receiver_open(r, &config, why, sizeof why) != 0) {
        suite_fail(s, "mock %s: %s", profile, why);
        return -1;
    }
    return 0;
}

struct sender *suite_raw(struct suite *s, const struct receiver *r)
{
    struct sender *sender;
    char why[300];
    if (sender_raw_open(&sender, r->address, why, sizeof why) != 0) {
        suite_fail(s, "%s", why);
    }
    return sender;
}

struct sender *suite_bare(struct suite *s, const struct receiver *r, uint32_t first_flight_bytes)
{
    struct sender *sender;
    char why[300];
    if (sender_bare_open(&sender, mock_port(r->mock), s->secret, s->public_key, first_flight_bytes,
                         why, sizeof why) != 0) {
        suite_fail(s, "%s", why);
    }
    return sender;
}

void suite_link_options(struct suite *s, solsend_link_options *options)
{
    solsend_link_options_init(options, sizeof *options);
    options->identity = s->key;
    options->slots = SUITE_SLOTS;
}

struct sender *suite_link(struct suite *s, const struct receiver *r,
                          const solsend_link_options *options)
{
    solsend_link_options defaults;
    struct sender *sender;
    char why[400];
    if (options == NULL) {
        suite_link_options(s, &defaults);
        options = &defaults;
    }
    if (sender_link_open(&sender, r->udp ? "udp" : "quic", r->uri, options, why, sizeof why) != 0) {
        suite_fail(s, "%s", why);
    }
    return sender;
}

int suite_warm(struct suite *s, struct sender *sender)
{
    struct pace pace = {.interval_ns = 0};
    int rc = pace_run(&pace, sender, &s->small, 0, 4 * SUITE_SLOTS, &s->stamps);
    sender->table->flush(sender, 5000);
    return rc;
}

void suite_close(struct sender *sender)
{
    if (sender != NULL) {
        sender->table->close(sender);
    }
}

double suite_median(double *values, uint32_t count, char *spread, size_t spread_bytes)
{
    double median = samples_median(values, count);
    if (spread != NULL) {
        if (count < 4) {
            snprintf(spread, spread_bytes, "%u rounds", count);
        } else {
            snprintf(spread, spread_bytes, "half of %u rounds within %.3g to %.3g", count,
                     values[count / 4], values[count - 1 - count / 4]);
        }
    }
    return median;
}

static int suite_parse(struct suite *s, struct suite_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"json", required_argument, NULL, 'j'}, {"only", required_argument, NULL, 'o'},
        {"seed", required_argument, NULL, 's'}, {"check", no_argument, NULL, 'c'},
        {"quick", no_argument, NULL, 'q'},      {"budget", no_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
    int option;
    char *end;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            o->json = optarg;
            break;
        case 'o':
            o->only = optarg;
            break;
        case 's':
            s->seed = strtoull(optarg, &end, 0);
            if (*optarg == 0 || *end != 0) {
                fprintf(stderr, "suite: --seed %s: expected a number\n", optarg);
                return 2;
            }
            break;
        case 'c':
            o->check = 1;
            break;
        case 'q':
            s->quick = 1;
            break;
        case 'b':
            s->budget = 1;
            break;
        case 'h':
            fputs(suite_help, stdout);
            return 1;
        default:
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "suite: unexpected argument \"%s\"\n", argv[optind]);
        return 2;
    }
    return 0;
}

/* A fixed identity: the mock is the only one that ever sees it, and every run is alike. */
static int suite_identity(struct suite *s)
{
    uint64_t state = s->seed;
    for (int i = 0; i < 32; i += 8) {
        uint64_t word = order_next(&state);
        memcpy(s->secret + i, &word, sizeof word);
    }
    return solsend_key_from_seed(&s->key, s->secret) != 0 ||
                   solsend_key_public(s->key, s->public_key) != 0
               ? -1
               : 0;
}

static int suite_prepare(struct suite *s, struct place *place)
{
    solsend_host_options host;
    char why[400] = "out of memory";
    ssize_t n = readlink("/proc/self/exe", s->programs, sizeof s->programs - 1);
    if (n > 0) {
        s->programs[n] = 0;
        dirname(s->programs);
    }
    s->order = s->seed;
    if (suite_identity(s) != 0 ||
        wires_open(&s->small, s->key, 250, SUITE_WIRES, NULL, why, sizeof why) != 0 ||
        wires_open(&s->large, s->key, 1232, SUITE_WIRES, NULL, why, sizeof why) != 0 ||
        pace_stamps_open(&s->stamps, SUITE_WIRES) != 0) {
        fprintf(stderr, "suite: %s\n", why);
        return -1;
    }
    solsend_host_options_init(&host, sizeof host);
    if (place_open(place, &host, -1, why, sizeof why) != 0) {
        fprintf(stderr, "suite: %s\n", why);
        return -1;
    }
    s->cpu = place->cpu;
    s->peer_cpu = place->peer_cpu;
    return 0;
}

static void suite_release(struct suite *s, struct place *place)
{
    place_close(place);
    pace_stamps_close(&s->stamps);
    wires_close(&s->small);
    wires_close(&s->large);
    solsend_key_close(s->key);
}

static int suite_write(const struct suite *s, const char *path)
{
    struct json j;
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    int rc;
    if (f == NULL) {
        fprintf(stderr, "suite: %s: %s\n", path, strerror(errno));
        return 1;
    }
    json_start(&j, f);
    json_open_object(&j, NULL);
    json_unsigned(&j, "format", 1);
    json_text(&j, "build", solsend_build_info());
    json_unsigned(&j, "seed", s->seed);
    json_known(&j, "cpu", s->cpu);
    json_known(&j, "peer_cpu", s->peer_cpu);
    json_bool(&j, "quick", s->quick);
    json_open_array(&j, "rows");
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct suite_row *row = &s->rows[i];
        json_open_object(&j, NULL);
        json_text(&j, "row", row->name);
        json_double(&j, "measured", row->measured);
        json_double(&j, "target", row->target);
        json_double(&j, "must", row->must);
        if (isnan(row->must)) {
            json_null(&j, "holds");
        } else {
            json_bool(&j, "holds", suite_holds(row));
        }
        json_text(&j, "note", row->note);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_close_object(&j);
    rc = json_end(&j) != 0;
    if (f != stdout && fclose(f) != 0) {
        rc = 1;
    }
    return rc;
}

static int suite_run(struct suite *s, const struct suite_options *o)
{
    uint32_t ran = 0, missed = 0;
    fprintf(suite_out, "%-62s %7s %7s %9s  %-5s\n", "row", "target", "must", "measured", "holds");
    for (size_t i = 0; i < sizeof suite_groups / sizeof *suite_groups; i++) {
        const struct suite_group *group = &suite_groups[i];
        if (o->only != NULL ? strcmp(o->only, group->name) != 0 : s->quick && group->needs_time) {
            continue;
        }
        group->run(s);
        ran++;
    }
    if (ran == 0) {
        fprintf(stderr, "suite: --only %s: no such group\n", o->only);
        return 2;
    }
    for (uint32_t i = 0; i < s->row_count; i++) {
        missed += !suite_holds(&s->rows[i]);
    }
    fprintf(suite_out, "%u rows, %u below their must, seed %llu, sender cpu %d, receiver cpu %d\n",
            s->row_count, missed, (unsigned long long)s->seed, s->cpu, s->peer_cpu);
    if (o->json != NULL && suite_write(s, o->json) != 0) {
        return 1;
    }
    return s->failures != 0 || (o->check && missed != 0);
}

int main(int argc, char **argv)
{
    static struct suite s;
    struct suite_options o = {0};
    struct place place = {0};
    uint64_t now = clock_now();
    int rc;
    s.seed = order_next(&now) % 1000000;
    rc = suite_parse(&s, &o, argc, argv);
    if (rc != 0) {
        return rc == 1 ? 0 : rc;
    }
    suite_out = o.json != NULL && strcmp(o.json, "-") == 0 ? stderr : stdout;
    rc = suite_prepare(&s, &place) != 0;
    if (rc == 0 && s.budget) {
        budget_print(&s, stdout);
        rc = s.failures != 0;
    } else if (rc == 0) {
        rc = suite_run(&s, &o);
    }
    suite_release(&s, &place);
    return rc;
}
