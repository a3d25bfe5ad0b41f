/* `solsend bench`: prepares everything, makes the rounds, reports. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <solsend/solsend.h>

#include "bench/options.h"
#include "bench/order.h"
#include "bench/place.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "bench/run.h"

struct command {
    struct options options;
    solsend_key *key;
    solsend_shadow *shadow;
    struct wires wires;
    struct pace_stamps stamps;
    struct place place;
    struct report report;
    uint64_t order;
    char why[400];
};

enum command_kind { COMMAND_QUIC, COMMAND_UDP, COMMAND_RAW };

static int command_key(struct command *c)
{
    solsend_detail detail = {0};
    uint8_t public_key[32];
    int rc = c->options.key == NULL ? solsend_key_random(&c->key)
                                    : solsend_key_open(&c->key, c->options.key, &detail);
    if (rc != 0) {
        snprintf(c->why, sizeof c->why, "--key: %s",
                 detail.text[0] != 0 ? detail.text : solsend_error_text(rc));
        return rc;
    }
    rc = solsend_key_public(c->key, public_key);
    if (rc == 0) {
        rc = solsend_base58_encode(c->report.identity, sizeof c->report.identity, public_key,
                                   sizeof public_key);
    }
    return rc < 0 ? rc : 0;
}

static int command_place(struct command *c)
{
    const struct options *o = &c->options;
    solsend_host_options h;
    solsend_host_options_init(&h, sizeof h);
    h.steps |= 1u << SOLSEND_STEP_CPU_LATENCY | 1u << SOLSEND_STEP_POLICY;
    if (o->cpu == OPTIONS_CPU_NONE) {
        h.steps &= ~(1u << SOLSEND_STEP_PIN);
    }
    h.cpu = o->cpu >= 0 ? o->cpu : SOLSEND_CPU_AUTO;
    h.flags = (o->strict ? SOLSEND_HOST_STRICT : 0) | (o->force ? SOLSEND_HOST_FORCE : 0) |
              (o->wait == PACE_SPIN ? SOLSEND_HOST_SPINS : 0);
    h.policy = o->fifo != 0 ? SOLSEND_POLICY_FIFO : SOLSEND_POLICY_OTHER;
    h.priority = (uint32_t)o->fifo;
    if (o->nice != INT32_MAX) {
        h.nice = o->nice;
    }
    return place_open(&c->place, &h, o->peer_cpu, c->why, sizeof c->why);
}

static int command_shadow(struct command *c)
{
    solsend_detail detail = {0};
    int rc;
    if (!c->options.keep_hot) {
        return 0;
    }
    rc = solsend_shadow_open(&c->shadow, NULL, &detail);
    if (rc == 0) {
        rc = solsend_shadow_touch(c->shadow);
    }
    if (rc != 0) {
        snprintf(c->why, sizeof c->why, "shadow: %s",
                 detail.text[0] != 0 ? detail.text : solsend_error_text(rc));
    }
    return rc;
}

static int command_wires(struct command *c)
{
    const struct options *o = &c->options;
    uint32_t longest = o->count > o->warm_up ? o->count : o->warm_up;
    int rc;
    progress_begin("signing");
    rc = wires_open(&c->wires, c->key, o->bytes, o->count + o->warm_up, progress_show, c->why,
                    sizeof c->why);
    progress_end();
    if (rc == 0 && pace_stamps_open(&c->stamps, longest) != 0) {
        snprintf(c->why, sizeof c->why, "out of memory");
        rc = SOLSEND_ERR_MEMORY;
    }
    return rc;
}

/* Everything that costs time or memory, before any clock starts. */
static int command_prepare(struct command *c)
{
    uint32_t kinds = 1 + ((c->options.transports & OPTIONS_QUIC) != 0) +
                     ((c->options.transports & OPTIONS_UDP) != 0);
    int rc = command_key(c);
    c->report.runs = calloc((size_t)c->options.rounds * kinds, sizeof *c->report.runs);
    if (rc == 0 && c->report.runs == NULL) {
        rc = SOLSEND_ERR_MEMORY;
    }
    if (rc == 0) {
        rc = command_wires(c);
    }
    if (rc == 0) {
        rc = command_place(c);
    }
    if (rc == 0) {
        rc = command_shadow(c);
    }
    if (rc != 0 && c->why[0] == 0) {
        snprintf(c->why, sizeof c->why, "%s", solsend_error_text(rc));
    }
    c->report.options = &c->options;
    c->report.cpu = c->place.cpu;
    c->report.peer_cpu = c->place.peer_cpu;
    c->report.started = (int64_t)time(NULL);
    c->report.step_count = c->place.step_count;
    memcpy(c->report.steps, c->place.steps, sizeof c->place.steps);
    c->order = c->options.seed;
    return rc;
}

static int command_link(struct command *c, struct sender **out, enum command_kind kind,
                        const char *uri)
{
    solsend_link_options o;
    solsend_link_options_init(&o, sizeof o);
    o.identity = c->key;
    o.shadow = c->shadow;
    o.stamp_every = c->options.stamps;
    o.slots = 4096;
    o.strict = (uint32_t)c->options.strict;
    return sender_link_open(out, kind == COMMAND_QUIC ? "quic" : "udp", uri, &o, c->why,
                            sizeof c->why);
}

/* The socket's steps are those of the first link; they do not change between runs. */
static void command_steps(struct command *c, struct sender *sender)
{
    solsend_link *link = sender_link_of(sender);
    uint32_t room = REPORT_STEPS_MAX - c->report.step_count;
    int n;
    if (link == NULL || c->report.step_count != c->place.step_count) {
        return;
    }
    n = solsend_link_steps(link, c->report.steps + c->report.step_count, room);
    if (n > 0) {
        c->report.step_count += (uint32_t)n < room ? (uint32_t)n : room;
    }
}

static int command_receiver(struct command *c, struct receiver *receiver, enum command_kind kind)
{
    struct receiver_config config = {
        .profile = kind == COMMAND_QUIC ? c->options.profile : "udp",
        .identity = c->key,
        .cpu = c->place.peer_cpu,
        .arrivals = c->wires.count + 1024,
        .seed = c->options.seed,
    };
    return receiver_open(receiver, &config, c->why, sizeof c->why) != 0 ? SOLSEND_ERR_INTERNAL : 0;
}

static int command_open_sender(struct command *c, struct sender **out, enum command_kind kind,
                               const struct receiver *receiver)
{
    const struct options *o = &c->options;
    const char *remote = kind == COMMAND_QUIC || o->peer_udp == NULL ? o->peer_quic : o->peer_udp;
    char uri[300];
    if (kind == COMMAND_RAW) {
        return sender_raw_open(out, receiver != NULL ? receiver->address : remote, c->why,
                               sizeof c->why);
    }
    snprintf(uri, sizeof uri, "%s://%s", kind == COMMAND_QUIC ? "quic" : "udp",
             receiver != NULL ? receiver->address : remote);
    return command_link(c, out, kind, uri);
}

static int command_run(struct command *c, enum command_kind kind, uint32_t round)
{
    const struct options *o = &c->options;
    static const char *const names[] = {"quic", "udp", "raw"};
    struct run_config config = {
        .pace = {.interval_ns = (uint64_t)(1e9 / o->rate),
                 .wait = o->wait,
                 .progress = progress_show},
        .wires = &c->wires,
        .warm_up = o->warm_up,
        .count = o->count,
        .round = round,
        .cpu = c->place.cpu,
    };
    struct receiver receiver, *local = NULL;
    struct sender *sender = NULL;
    int rc = 0;
    progress_begin("%s, round %u of %u", names[kind], round + 1, o->rounds);
    if (o->peer_quic == NULL && o->peer_udp == NULL) {
        rc = command_receiver(c, &receiver, kind);
        local = rc == 0 ? &receiver : NULL;
    }
    if (rc == 0) {
        rc = command_open_sender(c, &sender, kind, local);
    }
    if (rc == 0) {
        command_steps(c, sender);
        rc = run_once(&c->report.runs[c->report.run_count++], &config, sender, local, &c->stamps);
        if (rc != 0) {
            snprintf(c->why, sizeof c->why, "%s: %s", names[kind], solsend_error_text(rc));
        }
    }
    progress_end();
    if (sender != NULL) {
        sender->table->close(sender);
    }
    if (local != NULL) {
        receiver_close(local);
    }
    return rc;
}

static int command_rounds(struct command *c)
{
    int rc = 0;
    for (uint32_t round = 0; rc == 0 && round < c->options.rounds; round++) {
        uint32_t kinds[3], count = 0;
        if ((c->options.transports & OPTIONS_QUIC) != 0) {
            kinds[count++] = COMMAND_QUIC;
        }
        if ((c->options.transports & OPTIONS_UDP) != 0) {
            kinds[count++] = COMMAND_UDP;
        }
        kinds[count++] = COMMAND_RAW;
        order_shuffle(&c->order, kinds, count);
        for (uint32_t i = 0; rc == 0 && i < count; i++) {
            rc = command_run(c, (enum command_kind)kinds[i], round);
        }
    }
    return rc;
}

static int command_write(struct command *c, const char *path,
                         int (*write_to)(const struct report *, FILE *))
{
    int to_stdout = strcmp(path, "-") == 0, rc;
    FILE *f = to_stdout ? stdout : fopen(path, "we");
    if (f == NULL) {
        snprintf(c->why, sizeof c->why, "%s: %s", path, strerror(errno));
        return -1;
    }
    rc = write_to(&c->report, f);
    if (!to_stdout && fclose(f) != 0) {
        rc = -1;
    }
    if (rc != 0) {
        snprintf(c->why, sizeof c->why, "%s: %s", path, strerror(errno));
    }
    return rc;
}

static int command_report(struct command *c)
{
    int json_to_stdout = c->options.json != NULL && strcmp(c->options.json, "-") == 0, rc = 0;
    if (!json_to_stdout) {
        report_table(&c->report, stdout);
    }
    if (c->options.json != NULL) {
        rc = command_write(c, c->options.json, report_json);
    }
    if (c->options.plot != NULL && rc == 0) {
        rc = command_write(c, c->options.plot, report_plot);
    }
    return rc;
}

static void command_close(struct command *c)
{
    solsend_shadow_close(c->shadow);
    place_close(&c->place);
    pace_stamps_close(&c->stamps);
    wires_close(&c->wires);
    solsend_key_close(c->key);
    free(c->report.runs);
}

int bench_command(int argc, char **argv)
{
    static struct command c;
    int rc = options_parse(&c.options, argc, argv);
    if (rc != 0) {
        return rc == 1 ? 0 : rc;
    }
    progress_enable(!c.options.quiet);
    rc = command_prepare(&c);
    if (rc == 0) {
        rc = command_rounds(&c);
    }
    if (rc == 0) {
        rc = command_report(&c);
    }
    if (rc != 0) {
        fprintf(stderr, "solsend bench: %s\n", c.why);
    }
    command_close(&c);
    return rc != 0;
}
