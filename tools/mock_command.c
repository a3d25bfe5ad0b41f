/* `solsend mock`: the mock leader as a program, here or on another host. */
#include "command.h"

#include "mock/fault.h"
#include "mock/mock.h"
#include "mock/profile.h"
#include "mock/script.h"

#include <solsend/key.h>

#include "base/clock.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIST_BYTES       4096u
#define ARRIVALS_DEFAULT (1u << 20)
#define DURATION_MAX     1e9

static const char mock_help[] =
    "Usage: solsend mock [options]\n"
    "\n"
    "Stands in for a leader's TPU: a real QUIC server (or a UDP sink) that admits, throttles and\n"
    "closes as leaders do, and misbehaves on request. See docs/mock.md.\n"
    "\n"
    "  --listen ADDR:PORT    where to listen; default 127.0.0.1:8009; IPv6 as [::1]:8009; port 0:\n"
    "                        any. 0.0.0.0:8009 lets other hosts in: there is no access control\n"
    "  --profile NAME        agave-4.3 (default), agave-4.0, firedancer or udp\n"
    "  --fault NAME=VALUE    a fault; may be repeated, or a list with commas\n"
    "  --script TEXT         faults over time: \"@500ms grant=never; @1s grant=20\"\n"
    "  --stake KEY=LAMPORTS  gives a key stake; may be repeated, or file:PATH\n"
    "  --cpu N               pins the server's thread\n"
    "  --spin                polls instead of sleeping; wants a CPU of its own\n"
    "  --arrivals N          transactions remembered with their signatures; default 1048576\n"
    "  --duration SECONDS    ends by itself; default: until SIGINT or SIGTERM\n"
    "  --json FILE           the report at the end; - for standard output\n"
    "  --seed N              of identity, losses and evictions; default 0\n"
    "  --quiet               no live line\n"
    "\n"
    "Faults: ";

struct mock_options {
    mock_config config;
    char faults[LIST_BYTES];
    char stakes[LIST_BYTES];
    const char *json;
    double duration_s; /* 0: until a signal */
    int quiet;
};

enum {
    OPTION_LISTEN = 256,
    OPTION_PROFILE,
    OPTION_FAULT,
    OPTION_SCRIPT,
    OPTION_STAKE,
    OPTION_CPU,
    OPTION_SPIN,
    OPTION_ARRIVALS,
    OPTION_DURATION,
    OPTION_JSON,
    OPTION_SEED,
    OPTION_QUIET,
    OPTION_HELP
};

static const struct option mock_long[] = {
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"profile", required_argument, NULL, OPTION_PROFILE},
    {"fault", required_argument, NULL, OPTION_FAULT},
    {"script", required_argument, NULL, OPTION_SCRIPT},
    {"stake", required_argument, NULL, OPTION_STAKE},
    {"cpu", required_argument, NULL, OPTION_CPU},
    {"spin", no_argument, NULL, OPTION_SPIN},
    {"arrivals", required_argument, NULL, OPTION_ARRIVALS},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"json", required_argument, NULL, OPTION_JSON},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int wrong(const char *name, const char *value, const char *expected)
{
    fprintf(stderr, "solsend mock: --%s %s: expected %s\n", name, value, expected);
    return 2;
}

static int number(uint64_t *out, const char *text, uint64_t high)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > high) {
        return -1;
    }
    *out = value;
    return 0;
}

/* Appends to a list with commas. */
static int append(char list[LIST_BYTES], const char *name, const char *item)
{
    size_t used = strlen(list);
    if (used + strlen(item) + 2 > LIST_BYTES) {
        return wrong(name, item, "fewer of them");
    }
    snprintf(list + used, LIST_BYTES - used, "%s%s", used == 0 ? "" : ",", item);
    return 0;
}

static int option(struct mock_options *o, int which, const char *value)
{
    uint64_t n;
    char *end;
    switch (which) {
    case OPTION_LISTEN:
        o->config.listen = value;
        return 0;
    case OPTION_PROFILE:
        o->config.profile = value;
        return profile_find(value) != NULL ? 0 : wrong("profile", value, profile_names());
    case OPTION_FAULT:
        return append(o->faults, "fault", value);
    case OPTION_SCRIPT:
        o->config.script = value;
        return 0;
    case OPTION_STAKE:
        return append(o->stakes, "stake", value);
    case OPTION_CPU:
        if (number(&n, value, 65535) != 0) {
            return wrong("cpu", value, "a CPU number");
        }
        o->config.cpu = (int)n;
        return 0;
    case OPTION_SPIN:
        o->config.spin = 1;
        return 0;
    case OPTION_ARRIVALS:
        if (number(&n, value, 100000000) != 0) {
            return wrong("arrivals", value, "a number from 0 to 100000000");
        }
        o->config.arrivals_max = (uint32_t)n;
        return 0;
    case OPTION_DURATION:
        o->duration_s = strtod(value, &end);
        return *value != '\0' && *end == '\0' && o->duration_s > 0 && o->duration_s < DURATION_MAX
                   ? 0
                   : wrong("duration", value, "seconds");
    case OPTION_JSON:
        o->json = value;
        return 0;
    case OPTION_SEED:
        return number(&o->config.seed, value, UINT64_MAX) == 0 ? 0
                                                               : wrong("seed", value, "a number");
    default:
        o->quiet = 1;
        return 0;
    }
}

static void help(void)
{
    char names[1024];
    fault_names(names, sizeof names);
    size_t column = strlen("Faults: ");
    fputs(mock_help, stdout);
    for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
        if (column + strlen(name) > 92) {
            fputs("\n        ", stdout);
            column = 8;
        }
        column += (size_t)printf("%s ", name);
    }
    putchar('\n');
}

/* What mock_open would refuse as well, but as wrong usage. */
static int texts_check(const struct mock_options *o)
{
    char why[256];
    struct fault fault;
    struct script script;
    fault_init(&fault);
    if (fault_parse(&fault, o->faults, why, sizeof why) != 0 ||
        script_open(&script, o->config.script, why, sizeof why) != 0) {
        fprintf(stderr, "solsend mock: %s\n", why);
        return -1;
    }
    script_close(&script);
    return 0;
}

/* Returns 0 to go on, else 1 + the exit status. */
static int options_read(struct mock_options *o, int argc, char **argv)
{
    int which;
    optind = 1;
    opterr = 0;
    while ((which = getopt_long(argc, argv, ":", mock_long, NULL)) != -1) {
        if (which == OPTION_HELP) {
            help();
            return 1 + 0;
        }
        if (which == '?' || which == ':') {
            fprintf(stderr, "solsend mock: %s %s; see solsend mock --help\n", argv[optind - 1],
                    which == '?' ? "is not an option" : "needs a value");
            return 1 + 2;
        }
        if (option(o, which, optarg) != 0) {
            return 1 + 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "solsend mock: unexpected argument \"%s\"\n", argv[optind]);
        return 1 + 2;
    }
    o->config.faults = o->faults;
    o->config.stakes = o->stakes[0] == '\0' ? NULL : o->stakes;
    return texts_check(o) == 0 ? 0 : 1 + 2;
}

/* ---- running ----------------------------------------------------------------------------------
 */

/* Fits 80 columns until the counts are very large. */
static void live_line(const mock_counts *now, const mock_counts *before, double seconds)
{
    fprintf(stderr,
            "\r%7.0f tx/s  accepted %" PRIu64 "  connections %" PRIu64 "  admitted %" PRIu64
            "  refused %" PRIu64 "\033[K",
            (double)(now->accepted - before->accepted) / seconds, now->accepted, now->connections,
            now->admitted, now->refused + now->initials_ignored);
}

/* Waits for SIGINT, SIGTERM or the end of the duration, with a line a second on a terminal. */
static void run(const mock *m, const struct mock_options *o, const sigset_t *ends)
{
    int shows = !o->quiet && isatty(STDERR_FILENO);
    uint64_t last = clock_now();
    uint64_t until =
        o->duration_s == 0 ? UINT64_MAX : last + (uint64_t)(o->duration_s * CLOCK_NS_PER_S);
    mock_counts before = {0};
    while (last < until) {
        uint64_t nap = until - last < CLOCK_NS_PER_S ? until - last : CLOCK_NS_PER_S;
        struct timespec timeout = {(time_t)(nap / CLOCK_NS_PER_S), (long)(nap % CLOCK_NS_PER_S)};
        if (sigtimedwait(ends, NULL, &timeout) > 0) {
            break;
        }
        uint64_t now = clock_now();
        if (shows) {
            mock_counts counts;
            mock_counts_get(m, &counts);
            live_line(&counts, &before, (double)(now - last) / CLOCK_NS_PER_S);
            before = counts;
        }
        last = now;
    }
    if (shows) {
        fputs("\r\033[K", stderr);
    }
}

static void summary_line(FILE *out, const char *name, uint64_t value, const char *about)
{
    if (value != 0) {
        fprintf(out, "  %-20s %12" PRIu64 "  %s\n", name, value, about);
    }
}

static void summary(const mock *m, FILE *out)
{
    mock_counts c;
    mock_counts_get(m, &c);
    fprintf(out,
            "accepted %" PRIu64 " transactions (%" PRIu64 " distinct) in %" PRIu64
            " datagrams, %" PRIu64 " bytes\n",
            c.accepted, c.distinct, c.datagrams, c.bytes);
    summary_line(out, "connections", c.connections, "completed handshakes");
    summary_line(out, "admitted", c.admitted, "of them, with credit");
    summary_line(out, "staked", c.staked, "of them, as staked");
    summary_line(out, "refused", c.refused, "closed at the door, or CONNECTION_REFUSED");
    summary_line(out, "initials ignored", c.initials_ignored, "over the connection rate, or fault");
    summary_line(out, "evicted", c.evicted, "for a newcomer");
    summary_line(out, "retries sent", c.retries_sent, "");
    summary_line(out, "tokens refused", c.tokens_refused, "older than allowed, or not ours");
    summary_line(out, "certificates refused", c.certificates_refused, "");
    summary_line(out, "hello disordered", c.hello_disordered, "ClientHello frames out of order");
    summary_line(out, "streams split", c.streams_split, "transactions in several STREAM frames");
    summary_line(out, "gaps", c.gaps, "fragments out of order, refused");
    summary_line(out, "malformed", c.malformed, "whole streams that are no transaction");
    summary_line(out, "discarded", c.discarded, "acknowledged, then thrown away");
    summary_line(out, "chunk timeouts", c.chunk_timeouts, "streams given up half read");
    summary_line(out, "throttle waits", c.throttle_waits, "windows in which a peer was read late");
    summary_line(out, "socket drops", c.socket_drops, "by the kernel: the receive buffer was full");
    summary_line(out, "dropped on the way in", c.dropped_in, "by loss or size");
    summary_line(out, "dropped on the way out", c.dropped_out, "by loss or size");
}

static int write_report(const mock *m, const char *path)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (out == NULL) {
        fprintf(stderr, "solsend mock: %s: %s\n", path, strerror(errno));
        return 1;
    }
    mock_report(m, out);
    int failed = ferror(out) != 0;
    failed |= (out == stdout ? fflush(out) : fclose(out)) != 0;
    if (failed) {
        fprintf(stderr, "solsend mock: %s: %s\n", path, strerror(errno));
    }
    return failed;
}

static int serve(mock *m, const struct mock_options *o)
{
    char uri[128];
    char identity[64];
    uint8_t key[32];
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    if (mock_start(m) != 0) {
        fprintf(stderr, "solsend mock: the thread cannot start%s\n",
                o->config.cpu >= 0 ? " on this CPU" : "");
        sigprocmask(SIG_SETMASK, &before, NULL);
        return 1;
    }
    mock_uri(m, uri, sizeof uri);
    mock_identity(m, key);
    (void)solsend_base58_encode(identity, sizeof identity, key, sizeof key);
    printf("%s profile %s identity %s\n", uri, o->config.profile, identity);
    fflush(stdout);
    run(m, o, &ends);
    mock_stop(m);
    summary(m, o->json != NULL && strcmp(o->json, "-") == 0 ? stderr : stdout);
    int rc = o->json == NULL ? 0 : write_report(m, o->json);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int mock_command(int argc, char **argv)
{
    struct mock_options o = {
        .config = {.profile = "agave-4.3",
                   .listen = "127.0.0.1:8009",
                   .cpu = -1,
                   .arrivals_max = ARRIVALS_DEFAULT},
    };
    mock *m;
    char why[256] = "";
    int rc = options_read(&o, argc, argv);
    if (rc != 0) {
        return rc - 1;
    }
    if (mock_open(&m, &o.config, why, sizeof why) != 0) {
        fprintf(stderr, "solsend mock: %s\n", why);
        return 1;
    }
    rc = serve(m, &o);
    mock_close(m);
    return rc;
}
