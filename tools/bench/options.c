#include "bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <solsend/tx.h>

#include "base/clock.h"
#include "bench/order.h"

static const char options_help[] =
    "Usage: solsend bench [options]\n"
    "\n"
    "Sends signed transactions in an open loop from a pinned, warmed thread to a mock leader on\n"
    "another CPU, in rounds interleaved with plain UDP send() in random order, and shows how long\n"
    "each took, how evenly they left and where the time went. See docs/benchmarks.md.\n"
    "\n"
    "What is sent\n"
    "  --transport quic|udp|both  default both\n"
    "  --bytes N                  size of each transaction, for example 250 or 1232; default 250\n"
    "  --count N                  transactions in a run; default 50000\n"
    "  --rate N                   per second; default 20000\n"
    "  --rounds N                 runs of each transport; default 3\n"
    "  --warm-up N                sends before the clock starts in each run; default 500\n"
    "  --wait spin|sleep          between two sends; default spin\n"
    "  --keep-hot, --no-keep-hot  a shadow connection warms the path while idle; default on\n"
    "  --stamps N                 kernel stamps on one of N packets, 0 for none; default 128\n"
    "  --key SOURCE               identity: a key file or env:NAME; default a fresh key\n"
    "\n"
    "Where it runs\n"
    "  --cpu N|auto|none          the sender's CPU; default auto\n"
    "  --peer-cpu N|auto          the receiver's CPU; default auto: another one\n"
    "  --policy other|fifo:PRIO   scheduling of the sender; default other\n"
    "  --nice N                   nice value of the sender; default -20\n"
    "  --force                    allow fifo for a spinning sender on a CPU that is not isolated\n"
    "  --strict                   fail when the host grants less than was asked for\n"
    "\n"
    "The receiver\n"
    "  --profile agave-4.3|agave-4.0|firedancer   default agave-4.3\n"
    "  --peer [quic://|udp://]HOST:PORT           a `solsend mock` on another host; may be given\n"
    "                             once for each transport; then nothing is known of arrivals\n"
    "\n"
    "Results\n"
    "  --json FILE                every number, - for standard output\n"
    "  --plot FILE.svg            percentiles and inter-send times\n"
    "  --seed N                   of the order of rounds; default from the clock\n"
    "  --quiet                    no progress\n";

enum {
    OPTIONS_TRANSPORT = 256,
    OPTIONS_BYTES,
    OPTIONS_COUNT,
    OPTIONS_RATE,
    OPTIONS_ROUNDS,
    OPTIONS_WARM_UP,
    OPTIONS_WAIT,
    OPTIONS_KEEP_HOT,
    OPTIONS_NO_KEEP_HOT,
    OPTIONS_STAMPS,
    OPTIONS_KEY,
    OPTIONS_CPU,
    OPTIONS_PEER_CPU,
    OPTIONS_POLICY,
    OPTIONS_NICE,
    OPTIONS_FORCE,
    OPTIONS_STRICT,
    OPTIONS_PROFILE,
    OPTIONS_PEER,
    OPTIONS_JSON,
    OPTIONS_PLOT,
    OPTIONS_SEED,
    OPTIONS_QUIET,
    OPTIONS_HELP
};

static const struct option options_long[] = {
    {"transport", required_argument, NULL, OPTIONS_TRANSPORT},
    {"bytes", required_argument, NULL, OPTIONS_BYTES},
    {"count", required_argument, NULL, OPTIONS_COUNT},
    {"rate", required_argument, NULL, OPTIONS_RATE},
    {"rounds", required_argument, NULL, OPTIONS_ROUNDS},
    {"warm-up", required_argument, NULL, OPTIONS_WARM_UP},
    {"wait", required_argument, NULL, OPTIONS_WAIT},
    {"keep-hot", no_argument, NULL, OPTIONS_KEEP_HOT},
    {"no-keep-hot", no_argument, NULL, OPTIONS_NO_KEEP_HOT},
    {"stamps", required_argument, NULL, OPTIONS_STAMPS},
    {"key", required_argument, NULL, OPTIONS_KEY},
    {"cpu", required_argument, NULL, OPTIONS_CPU},
    {"peer-cpu", required_argument, NULL, OPTIONS_PEER_CPU},
    {"policy", required_argument, NULL, OPTIONS_POLICY},
    {"nice", required_argument, NULL, OPTIONS_NICE},
    {"force", no_argument, NULL, OPTIONS_FORCE},
    {"strict", no_argument, NULL, OPTIONS_STRICT},
    {"profile", required_argument, NULL, OPTIONS_PROFILE},
    {"peer", required_argument, NULL, OPTIONS_PEER},
    {"json", required_argument, NULL, OPTIONS_JSON},
    {"plot", required_argument, NULL, OPTIONS_PLOT},
    {"seed", required_argument, NULL, OPTIONS_SEED},
    {"quiet", no_argument, NULL, OPTIONS_QUIET},
    {"help", no_argument, NULL, OPTIONS_HELP},
    {NULL, 0, NULL, 0},
};

static int options_wrong(const char *name, const char *value, const char *expected)
{
    fprintf(stderr, "solsend bench: --%s %s: expected %s\n", name, value, expected);
    return 2;
}

static int options_number(int64_t *out, const char *text, int64_t low, int64_t high)
{
    char *end;
    long long value;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (*text == 0 || *end != 0 || errno != 0 || value < low || value > high) {
        return -1;
    }
    *out = value;
    return 0;
}

static int options_unsigned(uint32_t *out, const char *name, const char *text, uint32_t low,
                            uint32_t high)
{
    char expected[64];
    int64_t value;
    if (options_number(&value, text, low, high) != 0) {
        snprintf(expected, sizeof expected, "a number from %u to %u", low, high);
        return options_wrong(name, text, expected);
    }
    *out = (uint32_t)value;
    return 0;
}

/* One of the words, separated by '|' in `words`; its index goes to `out`. */
static int options_word(int *out, const char *name, const char *text, const char *words)
{
    size_t bytes = strlen(text);
    int index = 0;
    for (const char *at = words; bytes != 0; index++) {
        size_t n = strcspn(at, "|");
        if (n == bytes && memcmp(at, text, n) == 0) {
            *out = index;
            return 0;
        }
        if (at[n] == 0) {
            break;
        }
        at += n + 1;
    }
    return options_wrong(name, text, words);
}

static int options_cpu(int *out, const char *name, const char *text, int may_be_none)
{
    int64_t value;
    if (strcmp(text, "auto") == 0) {
        *out = OPTIONS_CPU_AUTO;
    } else if (may_be_none && strcmp(text, "none") == 0) {
        *out = OPTIONS_CPU_NONE;
    } else if (options_number(&value, text, 0, 65535) == 0) {
        *out = (int)value;
    } else {
        return options_wrong(name, text,
                             may_be_none ? "a CPU number, auto or none" : "a CPU number or auto");
    }
    return 0;
}

static int options_rate(double *out, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (*text == 0 || *end != 0 || !isfinite(value) || value < 0.1 || value > 1e7) {
        return options_wrong("rate", text, "transactions per second, 0.1 to 10000000");
    }
    *out = value;
    return 0;
}

static int options_policy(struct options *o, const char *text)
{
    int64_t priority;
    if (strcmp(text, "other") == 0) {
        o->fifo = 0;
    } else if (strncmp(text, "fifo:", 5) == 0 && options_number(&priority, text + 5, 1, 99) == 0) {
        o->fifo = (int)priority;
    } else {
        return options_wrong("policy", text, "other or fifo:1 to fifo:99");
    }
    return 0;
}

static int options_bytes(struct options *o, const char *text)
{
    int rc = options_unsigned(&o->bytes, "bytes", text, 1, SOLSEND_TX_BYTES_MAX);
    if (rc == 0 && solsend_transfer_memo_bytes(o->bytes) < 0) {
        return options_wrong("bytes", text, "a size that a signed transfer with a memo can have");
    }
    return rc;
}

static int options_peer(struct options *o, const char *text, const char **plain)
{
    const char *address = text;
    const char **into = plain;
    if (strncmp(text, "quic://", 7) == 0) {
        into = &o->peer_quic;
        address = text + 7;
    } else if (strncmp(text, "udp://", 6) == 0) {
        into = &o->peer_udp;
        address = text + 6;
    }
    if (strrchr(address, ':') == NULL || address[0] == ':' || strlen(address) > 255) {
        return options_wrong("peer", text, "[quic://|udp://]HOST:PORT");
    }
    *into = address;
    return 0;
}

static int options_seed(uint64_t *out, const char *text)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return *text == 0 || *text == '-' || *end != 0 || errno != 0
               ? options_wrong("seed", text, "a number")
               : 0;
}

static void options_defaults(struct options *o)
{
    uint64_t seed = clock_now();
    memset(o, 0, sizeof *o);
    o->transports = OPTIONS_QUIC | OPTIONS_UDP;
    o->bytes = 250;
    o->count = 50000;
    o->warm_up = 500;
    o->rounds = 3;
    o->stamps = 128;
    o->rate = 20000;
    o->cpu = o->peer_cpu = OPTIONS_CPU_AUTO;
    o->nice = INT32_MAX;
    o->profile = "agave-4.3";
    o->keep_hot = 1;
    o->seed = order_next(&seed) % 1000000;
}

static int options_one(struct options *o, int option, const char *text, const char **plain_peer)
{
    int64_t value;
    int word, rc;
    switch (option) {
    case OPTIONS_TRANSPORT:
        rc = options_word(&word, "transport", text, "quic|udp|both");
        o->transports = rc == 0 ? word + 1 : o->transports;
        return rc;
    case OPTIONS_BYTES:
        return options_bytes(o, text);
    case OPTIONS_COUNT:
        return options_unsigned(&o->count, "count", text, 2, 10000000);
    case OPTIONS_RATE:
        return options_rate(&o->rate, text);
    case OPTIONS_ROUNDS:
        return options_unsigned(&o->rounds, "rounds", text, 1, 1000);
    case OPTIONS_WARM_UP:
        return options_unsigned(&o->warm_up, "warm-up", text, 0, 1000000);
    case OPTIONS_WAIT:
        return options_word(&o->wait, "wait", text, "spin|sleep");
    case OPTIONS_KEEP_HOT:
    case OPTIONS_NO_KEEP_HOT:
        o->keep_hot = option == OPTIONS_KEEP_HOT;
        return 0;
    case OPTIONS_STAMPS:
        return options_unsigned(&o->stamps, "stamps", text, 0, 1000000);
    case OPTIONS_KEY:
        o->key = text;
        return 0;
    case OPTIONS_CPU:
        return options_cpu(&o->cpu, "cpu", text, 1);
    case OPTIONS_PEER_CPU:
        return options_cpu(&o->peer_cpu, "peer-cpu", text, 0);
    case OPTIONS_POLICY:
        return options_policy(o, text);
    case OPTIONS_NICE:
        if (options_number(&value, text, -20, 19) != 0) {
            return options_wrong("nice", text, "a number from -20 to 19");
        }
        o->nice = (int)value;
        return 0;
    case OPTIONS_FORCE:
        o->force = 1;
        return 0;
    case OPTIONS_STRICT:
        o->strict = 1;
        return 0;
    case OPTIONS_PROFILE:
        o->profile = text;
        return options_word(&word, "profile", text, "agave-4.3|agave-4.0|firedancer");
    case OPTIONS_PEER:
        return options_peer(o, text, plain_peer);
    case OPTIONS_JSON:
        o->json = text;
        return 0;
    case OPTIONS_PLOT:
        o->plot = text;
        return 0;
    case OPTIONS_SEED:
        return options_seed(&o->seed, text);
    default: /* OPTIONS_QUIET */
        o->quiet = 1;
        return 0;
    }
}

/* A peer without a scheme is the one transport's that was asked for. */
static int options_finish(struct options *o, const char *plain_peer)
{
    int remote;
    if (plain_peer != NULL) {
        if (o->transports == (OPTIONS_QUIC | OPTIONS_UDP)) {
            return options_wrong("peer", plain_peer,
                                 "quic:// or udp:// before it, or one --transport");
        }
        *(o->transports == OPTIONS_QUIC ? &o->peer_quic : &o->peer_udp) = plain_peer;
    }
    remote = o->peer_quic != NULL || o->peer_udp != NULL;
    if (remote && (((o->transports & OPTIONS_QUIC) != 0 && o->peer_quic == NULL) ||
                   ((o->transports & OPTIONS_UDP) != 0 && o->peer_udp == NULL))) {
        fprintf(stderr, "solsend bench: --peer: give one for each transport that is measured\n");
        return 2;
    }
    return 0;
}

int options_parse(struct options *out, int argc, char **argv)
{
    const char *plain_peer = NULL;
    int option, rc = 0;
    options_defaults(out);
    opterr = 0;
    optind = 1;
    while (rc == 0 && (option = getopt_long(argc, argv, ":h", options_long, NULL)) != -1) {
        if (option == OPTIONS_HELP || option == 'h') {
            fputs(options_help, stdout);
            return 1;
        }
        if (option == ':') {
            fprintf(stderr, "solsend bench: %s needs a value\n", argv[optind - 1]);
            return 2;
        }
        if (option == '?') {
            fprintf(stderr, "solsend bench: unknown option %s (see solsend bench --help)\n",
                    argv[optind - 1]);
            return 2;
        }
        rc = options_one(out, option, optarg, &plain_peer);
    }
    if (rc == 0 && optind < argc) {
        fprintf(stderr, "solsend bench: unexpected argument \"%s\"\n", argv[optind]);
        return 2;
    }
    return rc != 0 ? rc : options_finish(out, plain_peer);
}
