/*
 * What the mock does wrong, or differently: the values and their parser, which serves the command
 * line, the tests and the script.
 */
#ifndef MOCK_FAULT_H
#define MOCK_FAULT_H

#include <stddef.h>
#include <stdint.h>

#define FAULT_DEFAULT UINT64_MAX /* as the profile has it */
#define FAULT_ALL     UINT64_MAX /* ignore_initials: every one */

enum { FAULT_ACK_NORMAL, FAULT_ACK_NEVER, FAULT_ACK_DELAY };
enum { FAULT_GRANT_NORMAL, FAULT_GRANT_NEVER, FAULT_GRANT_WINDOW, FAULT_GRANT_TOTAL };
enum {
    FAULT_CLOSE_NEVER,
    FAULT_CLOSE_HELLO,
    FAULT_CLOSE_HANDSHAKE,
    FAULT_CLOSE_IDLE,
    FAULT_CLOSE_AFTER,
    FAULT_CLOSE_STREAM
};

struct fault {
    /* The way between: see netem.h. */
    uint64_t rtt_ns;
    double loss_in, loss_out, reorder, duplicate;
    uint64_t mtu; /* bytes of UDP payload; 0: no limit */
    /* Acknowledgements and credit. */
    uint64_t ack, ack_hold_ns;
    uint64_t discard;
    uint64_t grant, grant_streams, grant_delay_ns, streams_initial;
    uint64_t throttle_off;
    /* Ends. */
    uint64_t close_when, close_code, close_arg; /* arg: streams or ns */
    uint64_t refuse;
    uint64_t ignore_initials; /* how many more, or FAULT_ALL */
    uint64_t reset_stream;    /* 0: never */
    uint64_t idle_ns;
    /* TLS and versions. */
    uint64_t key_foreign;
    char alpn[32];
    uint64_t version_negotiation;
    uint64_t certificate, retry, retry_ttl_ns, hello_ordered, early_data;
    /* Inside a connection. */
    uint64_t key_update; /* every so many packets; 0: never */
    uint64_t drop_1rtt;
    uint64_t stop_sending; /* every so many streams; 0: never */
    uint64_t stop_code;    /* with this application error code */
    uint64_t ping_every_ns;
    uint64_t max_data_every_ns;
    uint64_t gaps_refused;
    uint64_t verify;
    /* Limits. */
    uint64_t conn_per_min, max_unstaked, max_staked, per_ip, per_key, max_connections;
    uint64_t stream_bytes;
};

/* No fault at all. */
void fault_init(struct fault *fault);

/*
 * Applies "name=value,name=value" on top of what `fault` holds. Returns 0, or -1 with one line in
 * `why` that names the bad item; then `fault` is unchanged.
 */
int fault_parse(struct fault *fault, const char *text, char *why, size_t why_bytes);

/* Names of all faults, separated by spaces, for the help text. */
void fault_names(char *out, size_t out_bytes);

#endif
