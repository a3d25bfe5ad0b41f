/*
 * One way to send, behind one small table, so that the same loop measures all of them: the
 * library's links, the raw socket that is the floor, and whatever a test adds.
 */
#ifndef BENCH_SENDER_H
#define BENCH_SENDER_H

#include <stddef.h>
#include <stdint.h>

#include <solsend/link.h>

/* What a sender says of itself; a number it cannot know is -1. */
struct sender_counts {
    int64_t accepted; /* send calls that took the transaction */
    int64_t written;
    int64_t acked;
    int64_t ended;      /* terminal without an ACK: expired, closed, stopped, cancelled */
    int64_t open;       /* no terminal state yet */
    int64_t at_once;    /* written before the send call returned */
    int64_t datagrams;  /* sent, control packets included */
    int64_t send_calls; /* system calls that send */
    /* Of those, while tending: ACKs, PINGs, and transactions that had waited. */
    int64_t tended_datagrams, tended_calls, tended_written;
    int64_t receive_calls; /* system calls that receive */
};

struct sender;

struct sender_table {
    const char *transport; /* "quic", "udp", "raw", … */
    /* 1: on the wire at return; 0: accepted and waiting; less: refused, an error code. */
    int (*send)(struct sender *s, const uint8_t *wire, uint32_t bytes);
    /* What is due besides sending: ACKs, timers, events. Returns 0, or the code of its end. */
    int (*tend)(struct sender *s);
    /* The socket, and until when tend may rest if nothing arrives there. */
    int (*fd)(const struct sender *s);
    uint64_t (*timeout_ns)(const struct sender *s);
    /* Waits until nothing is open any more, at most `ms`. */
    void (*flush)(struct sender *s, uint32_t ms);
    void (*counts)(struct sender *s, struct sender_counts *out);
    void (*close)(struct sender *s);
};

struct sender {
    const struct sender_table *table;
};

/* A connected socket to `address` ("HOST:PORT", numeric or a name) and plain send(). */
int sender_raw_open(struct sender **out, const char *address, char *why, size_t why_bytes);

/* A link, opened and admitted. `transport` names it in the reports. */
int sender_link_open(struct sender **out, const char *transport, const char *uri,
                     const solsend_link_options *options, char *why, size_t why_bytes);

/* The link of a link sender, for its hops and steps; null for any other. */
solsend_link *sender_link_of(struct sender *s);

#endif
