#include "mock/fault.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS   1e6
#define ITEM_BYTES  128
#define MS_MAX      3600000.0
#define STREAMS_MAX 1000000u

enum kind {
    NUMBER,      /* uint64_t */
    PROBABILITY, /* double, 0 to 1 */
    LOSS,        /* both ways at once */
    MILLISECONDS,
    FLAG,
    SPECIAL,
};

struct entry {
    const char *name;
    enum kind kind;
    size_t offset;
    double min, max; /* NUMBER */
    int (*read)(struct fault *fault, const char *value);
};

static int number(const char *text, double min, double max, double *out)
{
    char *end;
    if (*text == '\0' || *text == ' ') {
        return -1;
    }
    errno = 0;
    double value = strtod(text, &end);
    if (*end != '\0' || errno != 0 || !isfinite(value) || value < min || value > max) {
        return -1;
    }
    *out = value;
    return 0;
}

static int count(const char *text, double min, double max, uint64_t *out)
{
    double value;
    if (number(text, min, max, &value) != 0 || value != floor(value)) {
        return -1;
    }
    *out = (uint64_t)value;
    return 0;
}

static int milliseconds(const char *text, uint64_t *out)
{
    double value;
    if (number(text, 0, MS_MAX, &value) != 0) {
        return -1;
    }
    *out = (uint64_t)(value * NS_PER_MS);
    return 0;
}

/* The rest of `text` after `prefix`, or null. */
static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

static int read_ack(struct fault *fault, const char *value)
{
    const char *rest = after(value, "delay:");
    if (rest != NULL) {
        fault->ack = FAULT_ACK_DELAY;
        return milliseconds(rest, &fault->ack_hold_ns);
    }
    fault->ack = strcmp(value, "never") == 0 ? FAULT_ACK_NEVER : FAULT_ACK_NORMAL;
    return fault->ack == FAULT_ACK_NORMAL && strcmp(value, "normal") != 0 ? -1 : 0;
}

static int read_grant(struct fault *fault, const char *value)
{
    if (strcmp(value, "normal") == 0 || strcmp(value, "never") == 0) {
        fault->grant = value[1] == 'o' ? FAULT_GRANT_NORMAL : FAULT_GRANT_NEVER;
        return 0;
    }
    const char *total = after(value, "total:");
    fault->grant = total != NULL ? FAULT_GRANT_TOTAL : FAULT_GRANT_WINDOW;
    return count(total != NULL ? total : value, 0, STREAMS_MAX, &fault->grant_streams);
}

static int close_moment(struct fault *fault, const char *moment)
{
    const char *rest;
    if (strcmp(moment, "hello") == 0 || strcmp(moment, "handshake") == 0) {
        fault->close_when = moment[1] == 'e' ? FAULT_CLOSE_HELLO : FAULT_CLOSE_HANDSHAKE;
        return 0;
    }
    if ((rest = after(moment, "idle:")) != NULL) {
        fault->close_when = FAULT_CLOSE_IDLE;
        return milliseconds(rest, &fault->close_arg);
    }
    if ((rest = after(moment, "after:")) != NULL) {
        fault->close_when = FAULT_CLOSE_AFTER;
        return milliseconds(rest, &fault->close_arg);
    }
    if ((rest = after(moment, "stream:")) != NULL) {
        fault->close_when = FAULT_CLOSE_STREAM;
        return count(rest, 1, 1e15, &fault->close_arg);
    }
    return -1;
}

static int read_close(struct fault *fault, const char *value)
{
    char code[24];
    const char *at = strchr(value, '@');
    if (strcmp(value, "never") == 0) {
        fault->close_when = FAULT_CLOSE_NEVER;
        return 0;
    }
    if (at == NULL || (size_t)(at - value) >= sizeof code) {
        return -1;
    }
    memcpy(code, value, (size_t)(at - value));
    code[at - value] = '\0';
    return count(code, 0, 4e18, &fault->close_code) != 0 ? -1 : close_moment(fault, at + 1);
}

static int read_ignore(struct fault *fault, const char *value)
{
    const char *first = after(value, "first:");
    if (first != NULL) {
        return count(first, 0, 1e15, &fault->ignore_initials);
    }
    if (strcmp(value, "all") == 0 || strcmp(value, "1") == 0) {
        fault->ignore_initials = FAULT_ALL;
        return 0;
    }
    return count(value, 0, 1e15, &fault->ignore_initials);
}

static int read_key(struct fault *fault, const char *value)
{
    fault->key_foreign = strcmp(value, "foreign") == 0;
    return fault->key_foreign || strcmp(value, "own") == 0 ? 0 : -1;
}

static int read_alpn(struct fault *fault, const char *value)
{
    size_t n = strlen(value);
    if (n == 0 || n >= sizeof fault->alpn) {
        return -1;
    }
    memcpy(fault->alpn, value, n + 1);
    return 0;
}

static int read_reset(struct fault *fault, const char *value)
{
    const char *rest = after(value, "stateless@stream:");
    if (strcmp(value, "never") == 0) {
        fault->reset_stream = 0;
        return 0;
    }
    return rest == NULL ? -1 : count(rest, 1, 1e15, &fault->reset_stream);
}

static int read_throttle(struct fault *fault, const char *value)
{
    fault->throttle_off = strcmp(value, "off") == 0;
    return fault->throttle_off || strcmp(value, "on") == 0 ? 0 : -1;
}

static int read_certificate(struct fault *fault, const char *value)
{
    static const char *const names[] = {"any", "exact", "none"}; /* as profile_certificate */
    for (uint64_t i = 0; i < 3; i++) {
        if (strcmp(value, names[i]) == 0) {
            fault->certificate = i;
            return 0;
        }
    }
    return -1;
}

#define AT(member) offsetof(struct fault, member)

static const struct entry entries[] = {
    {"rtt_ms", MILLISECONDS, AT(rtt_ns), 0, 0, NULL},
    {"loss", LOSS, 0, 0, 0, NULL},
    {"loss_in", PROBABILITY, AT(loss_in), 0, 0, NULL},
    {"loss_out", PROBABILITY, AT(loss_out), 0, 0, NULL},
    {"reorder", PROBABILITY, AT(reorder), 0, 0, NULL},
    {"duplicate", PROBABILITY, AT(duplicate), 0, 0, NULL},
    {"mtu", NUMBER, AT(mtu), 0, 65535, NULL},
    {"ack", SPECIAL, 0, 0, 0, read_ack},
    {"discard", FLAG, AT(discard), 0, 0, NULL},
    {"grant", SPECIAL, 0, 0, 0, read_grant},
    {"initial_streams", NUMBER, AT(streams_initial), 0, STREAMS_MAX, NULL},
    {"grant_delay_ms", MILLISECONDS, AT(grant_delay_ns), 0, 0, NULL},
    {"throttle", SPECIAL, 0, 0, 0, read_throttle},
    {"close", SPECIAL, 0, 0, 0, read_close},
    {"refuse", FLAG, AT(refuse), 0, 0, NULL},
    {"ignore_initials", SPECIAL, 0, 0, 0, read_ignore},
    {"reset", SPECIAL, 0, 0, 0, read_reset},
    {"idle_ms", MILLISECONDS, AT(idle_ns), 0, 0, NULL},
    {"key", SPECIAL, 0, 0, 0, read_key},
    {"alpn", SPECIAL, 0, 0, 0, read_alpn},
    {"version_negotiation", FLAG, AT(version_negotiation), 0, 0, NULL},
    {"cert", SPECIAL, 0, 0, 0, read_certificate},
    {"retry", FLAG, AT(retry), 0, 0, NULL},
    {"retry_ttl_ms", MILLISECONDS, AT(retry_ttl_ns), 0, 0, NULL},
    {"ordered", FLAG, AT(hello_ordered), 0, 0, NULL},
    {"early_data", FLAG, AT(early_data), 0, 0, NULL},
    {"key_update", NUMBER, AT(key_update), 0, 1e15, NULL},
    {"drop_1rtt", FLAG, AT(drop_1rtt), 0, 0, NULL},
    {"stop_sending", NUMBER, AT(stop_sending), 0, 1e15, NULL},
    {"stop_code", NUMBER, AT(stop_code), 0, 1e15, NULL},
    {"ping_every_ms", MILLISECONDS, AT(ping_every_ns), 0, 0, NULL},
    {"max_data_every_ms", MILLISECONDS, AT(max_data_every_ns), 0, 0, NULL},
    {"gaps_refused", FLAG, AT(gaps_refused), 0, 0, NULL},
    {"verify", FLAG, AT(verify), 0, 0, NULL},
    {"conn_per_min", NUMBER, AT(conn_per_min), 0, 1e9, NULL},
    {"max_unstaked", NUMBER, AT(max_unstaked), 1, 1e6, NULL},
    {"max_staked", NUMBER, AT(max_staked), 1, 1e6, NULL},
    {"per_ip", NUMBER, AT(per_ip), 0, 1e6, NULL},
    {"per_key", NUMBER, AT(per_key), 0, 1e6, NULL},
    {"max_connections", NUMBER, AT(max_connections), 0, 1e6, NULL},
    {"stream_bytes", NUMBER, AT(stream_bytes), 1, 4096, NULL},
};

#define ENTRIES (sizeof entries / sizeof entries[0])

void fault_init(struct fault *fault)
{
    memset(fault, 0, sizeof *fault);
    fault->idle_ns = FAULT_DEFAULT;
    fault->certificate = FAULT_DEFAULT;
    fault->retry = FAULT_DEFAULT;
    fault->retry_ttl_ns = FAULT_DEFAULT;
    fault->hello_ordered = FAULT_DEFAULT;
    fault->gaps_refused = FAULT_DEFAULT;
    fault->streams_initial = FAULT_DEFAULT;
    fault->conn_per_min = FAULT_DEFAULT;
    fault->max_unstaked = FAULT_DEFAULT;
    fault->max_staked = FAULT_DEFAULT;
    fault->per_ip = FAULT_DEFAULT;
    fault->per_key = FAULT_DEFAULT;
    fault->max_connections = FAULT_DEFAULT;
    fault->stream_bytes = FAULT_DEFAULT;
    memcpy(fault->alpn, "solana-tpu", sizeof "solana-tpu");
}

static int apply(struct fault *fault, const struct entry *entry, const char *value)
{
    uint64_t *integer = (uint64_t *)((char *)fault + entry->offset);
    double *real = (double *)((char *)fault + entry->offset);
    switch (entry->kind) {
    case NUMBER:
        return count(value, entry->min, entry->max, integer);
    case FLAG:
        return count(value, 0, 1, integer);
    case PROBABILITY:
        return number(value, 0, 1, real);
    case LOSS:
        return number(value, 0, 1, &fault->loss_in) | number(value, 0, 1, &fault->loss_out);
    case MILLISECONDS:
        return milliseconds(value, integer);
    case SPECIAL:
        break;
    }
    return entry->read(fault, value);
}

static int item(struct fault *fault, char *text, char *why, size_t why_bytes)
{
    char *equals = strchr(text, '=');
    if (equals == NULL) {
        snprintf(why, why_bytes, "\"%s\": a fault is name=value", text);
        return -1;
    }
    *equals = '\0';
    for (size_t i = 0; i < ENTRIES; i++) {
        if (strcmp(entries[i].name, text) == 0) {
            if (apply(fault, &entries[i], equals + 1) == 0) {
                return 0;
            }
            snprintf(why, why_bytes, "fault %s cannot be \"%s\"", text, equals + 1);
            return -1;
        }
    }
    snprintf(why, why_bytes, "there is no fault \"%s\"", text);
    return -1;
}

/* Copies [from, to) without the blanks around it. Returns its length or -1 when too long. */
static int trimmed(char *out, size_t out_bytes, const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t' || *from == '\n')) {
        from++;
    }
    while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\n')) {
        to--;
    }
    if ((size_t)(to - from) >= out_bytes) {
        return -1;
    }
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    return (int)(to - from);
}

int fault_parse(struct fault *fault, const char *text, char *why, size_t why_bytes)
{
    struct fault changed = *fault;
    while (*text != '\0') {
        char buffer[ITEM_BYTES];
        const char *end = text + strcspn(text, ",");
        int length = trimmed(buffer, sizeof buffer, text, end);
        if (length < 0) {
            snprintf(why, why_bytes, "fault \"%.20s…\" is too long", text);
            return -1;
        }
        if (length > 0 && item(&changed, buffer, why, why_bytes) != 0) {
            return -1;
        }
        text = *end == '\0' ? end : end + 1;
    }
    *fault = changed;
    return 0;
}

void fault_names(char *out, size_t out_bytes)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ENTRIES && at < out_bytes; i++) {
        int n = snprintf(out + at, out_bytes - at, "%s%s", i == 0 ? "" : " ", entries[i].name);
        at += n > 0 ? (size_t)n : 0;
    }
}
