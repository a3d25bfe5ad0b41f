/*
 * The mock cluster's TPU: a UDP or QUIC server that behaves as real leaders do, in a thread of its
 * own. Linked by the tests and by the `solsend` program; not part of the library.
 *
 * Threads: open, start, stop and close from one thread; everything else from any thread at any
 * time between open and close.
 */
#ifndef MOCK_H
#define MOCK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mock mock;

typedef struct mock_config {
    const char *profile;   /* "agave-4.0", "agave-4.3", "firedancer" or "udp" */
    const char *listen;    /* "127.0.0.1:0", "[::1]:0", … port 0: the kernel's choice */
    const char *faults;    /* "name=value,name=value"; null: none. See docs/mock.md */
    const char *script;    /* "@500ms name=value; @1s name=value"; null: none */
    const char *stakes;    /* "PUBKEY=LAMPORTS,…" or "file:PATH"; null: everybody is unstaked */
    int cpu;               /* pin the thread to it; -1: not pinned */
    int spin;              /* 1: busy-poll, 0: sleep in epoll */
    uint32_t arrivals_max; /* arrivals kept with their stamps; later ones are only counted */
    uint64_t seed;         /* of the faults' randomness: the same seed, the same losses */
} mock_config;

/* One accepted transaction. */
typedef struct mock_arrival {
    uint64_t signature_head; /* first 8 bytes of the first signature, as in memory */
    uint64_t received_ns;    /* CLOCK_MONOTONIC: recv() returned with its last packet */
    uint64_t accepted_ns;    /* the receive callback had the whole transaction */
    uint32_t bytes;
    uint16_t frames; /* STREAM frames it came in; 1 on UDP */
    uint16_t copies; /* times the same signature was accepted so far, this one included */
} mock_arrival;

typedef struct mock_counts {
    uint64_t datagrams, bytes;
    uint64_t initials, initials_ignored, retries_sent, tokens_refused;
    uint64_t connections, admitted, staked, refused, closed_by_peer, evicted;
    uint64_t streams, stream_frames, streams_split; /* split: more than one STREAM frame */
    uint64_t accepted;  /* whole transactions kept, duplicates included */
    uint64_t distinct;  /* of those, with a new signature */
    uint64_t discarded; /* acked, then thrown away (fault or full) */
    uint64_t malformed; /* whole streams that are no transaction */
    uint64_t gaps;      /* fragments refused by gap-intolerant reassembly */
    uint64_t chunk_timeouts;
    uint64_t throttle_waits; /* 100 ms windows in which a peer was read late */
    uint64_t pings;
    uint64_t key_updates;
    uint64_t dropped_in, dropped_out; /* by the loss and MTU faults */
    uint64_t hello_disordered;        /* ClientHello CRYPTO frames out of order */
    uint64_t certificates_refused;
    uint64_t max_datagram; /* largest UDP payload received */
    uint64_t grants;       /* MAX_STREAMS raises */
    uint64_t socket_drops; /* datagrams the kernel threw away: the receive buffer was full */
} mock_counts;

/* Binds. Returns 0, or -1 with one line in `why`. */
int mock_open(mock **out, const mock_config *config, char *why, size_t why_bytes);

/* Starts and stops its thread. Returns 0 or -1. */
int mock_start(mock *m);
void mock_stop(mock *m);

/* Stops if running, frees. Null is allowed. */
void mock_close(mock *m);

/* The bound address. */
uint16_t mock_port(const mock *m);
/* Writes "udp://127.0.0.1:1234" or "quic://…", zero-terminated. */
void mock_uri(const mock *m, char *out, size_t out_bytes);

/* The server's identity key (32 bytes), as its certificate shows it. */
void mock_identity(const mock *m, uint8_t out[32]);

/* Adds or changes faults while it runs, same syntax as mock_config.faults. 0, or -1 with `why`. */
int mock_fault(mock *m, const char *faults, char *why, size_t why_bytes);

/* Sets one peer's stake while it runs; total stake is the sum of all. */
void mock_stake(mock *m, const uint8_t public_key[32], uint64_t lamports);

/* A moment's counts. */
void mock_counts_get(const mock *m, mock_counts *out);

/* Waits until `accepted` reaches `count` or `timeout_ms` passes. Returns accepted. */
uint64_t mock_wait_accepted(const mock *m, uint64_t count, uint32_t timeout_ms);

/*
 * The arrivals so far, in order: `*out` points at an array that only grows and stays valid until
 * close. Returns how many.
 */
size_t mock_arrivals(const mock *m, const mock_arrival **out);

/* Forgets arrivals, signatures and counts, keeps connections. */
void mock_forget(mock *m);

/* 1 if a transaction with this first signature (64 bytes) was accepted. */
int mock_saw(const mock *m, const uint8_t signature[64]);

/* The source address of the newest datagram, "127.0.0.1:4711". */
void mock_last_peer(const mock *m, char *out, size_t out_bytes);

/*
 * Copies the newest connection attempt's ClientHello (a TLS handshake message with its header), at
 * most `max` bytes. Returns its length; 0: none yet.
 */
size_t mock_hello(const mock *m, uint8_t *out, size_t max);

/* Handles one datagram as if it had arrived from 127.0.0.1:9; for the fuzz target. Not started. */
void mock_feed(mock *m, const uint8_t *data, size_t bytes);

/* One JSON object with profile, address, counts and per-connection rows. */
void mock_report(const mock *m, FILE *out);

#endif
