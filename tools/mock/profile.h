/* What each kind of leader does, as data. */
#ifndef MOCK_PROFILE_H
#define MOCK_PROFILE_H

#include <stdint.h>

enum profile_certificate {
    PROFILE_CERTIFICATE_ANY,   /* mandatory; one Ed25519 leaf gives the key, else anonymous */
    PROFILE_CERTIFICATE_EXACT, /* mandatory; the 249 bytes compared, only the key may differ */
    PROFILE_CERTIFICATE_NONE,  /* not asked for; only by fault */
};

struct profile {
    const char *name;
    int quic;                    /* 0: plain UDP, everything below is unused */
    uint32_t stream_bytes;       /* largest transaction, and initial_max_stream_data_uni */
    uint32_t tx_bytes_min;       /* shorter ones are dropped */
    uint64_t streams_initial;    /* initial_max_streams_uni */
    uint64_t data_initial;       /* initial_max_data */
    uint64_t idle_ns;            /* max_idle_timeout */
    uint64_t handshake_ns;       /* time for the handshake */
    uint64_t chunk_ns;           /* longest wait for the next part of the stream being read */
    uint64_t retry_ttl_ns;       /* life of a Retry token; 0: no Retry */
    uint64_t ack_hold_ns;        /* ACKs are held back so long; 0: as ngtcp2 does */
    uint32_t ack_hold_bytes;     /* … or until so many stream bytes came */
    uint32_t max_ack_delay_ms;   /* transport parameter */
    uint32_t ack_delay_exponent; /* transport parameter */
    int admits;                  /* per-IP and per-key limits, credit after admission */
    int throttles;               /* 100 ms windows */
    int reads_in_order;          /* one stream at a time in order of stream IDs; else each alone */
    int hello_ordered;           /* ClientHello CRYPTO frames must come in order */
    int gaps_refused;            /* a fragment beyond what is held is not acknowledged */
    int answers_unknown;         /* stateless reset for unknown connections, version negotiation */
    int tickets;                 /* session tickets, and as many NEW_TOKEN tokens */
    int issues_cids;             /* spare connection IDs after the handshake */
    int port_may_change;         /* packets from the same IP with another port are taken */
    int lingers;                 /* repeats its CONNECTION_CLOSE for three PTO */
    enum profile_certificate certificate;
    const char *priority; /* of GnuTLS */
};

/* Null if there is none of that name. */
const struct profile *profile_find(const char *name);

/* "agave-4.0, agave-4.3, …" for messages. */
const char *profile_names(void);

#endif
