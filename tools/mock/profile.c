#include "mock/profile.h"

#include <stddef.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

#define TLS13 "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-X25519:%DISABLE_TLS13_COMPAT_MODE"

/* The two Agave profiles differ only in the size of a stream. */
#define AGAVE(profile_name, bytes)                                                                 \
    {                                                                                              \
        .name = (profile_name), .quic = 1, .stream_bytes = (bytes), .tx_bytes_min = 1,             \
        .streams_initial = 0, .data_initial = 8u << 20, .idle_ns = 30 * S, .handshake_ns = 2 * S,  \
        .chunk_ns = 2 * S, .max_ack_delay_ms = 25, .ack_delay_exponent = 3, .admits = 1,           \
        .throttles = 1, .reads_in_order = 1, .answers_unknown = 1, .tickets = 2, .issues_cids = 1, \
        .lingers = 1, .certificate = PROFILE_CERTIFICATE_ANY,                                      \
        .priority = TLS13 ":-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305",             \
    }

static const struct profile profiles[] = {
    AGAVE("agave-4.0", 1232),
    AGAVE("agave-4.3", 4096),
    {
        .name = "firedancer",
        .quic = 1,
        .stream_bytes = 4096,
        .tx_bytes_min = 134,
        .streams_initial = UINT64_C(1) << 60,
        .data_initial = (UINT64_C(1) << 62) - 1,
        .idle_ns = 10 * S,
        .handshake_ns = 3 * S,
        .retry_ttl_ns = 1 * S,
        .ack_hold_ns = 10 * MS,
        .ack_hold_bytes = 64 * 1024,
        .max_ack_delay_ms = 20,
        .ack_delay_exponent = 0,
        .hello_ordered = 1,
        .gaps_refused = 1,
        .port_may_change = 1,
        .certificate = PROFILE_CERTIFICATE_EXACT,
        .priority = TLS13 ":-CIPHER-ALL:+AES-128-GCM:-SIGN-ALL:+SIGN-EDDSA-ED25519",
    },
    {.name = "udp", .quic = 0},
};

const struct profile *profile_find(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            return &profiles[i];
        }
    }
    return NULL;
}

const char *profile_names(void)
{
    return "agave-4.0, agave-4.3, firedancer, udp";
}
