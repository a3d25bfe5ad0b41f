/*
 * The mechanics of one QUIC client connection: bytes in, bytes out, one stream a transaction. No
 * policy: it never redials, never chooses a deadline, never decides what to send.
 *
 * The owner keeps the transactions (struct quic_flight, and the bytes they point at) until told
 * that ngtcp2 needs them no more. Nothing here reads a clock except through `now` arguments, which
 * must never go backwards on one connection: ngtcp2 aborts the process if they do.
 */
#ifndef LINK_QUIC_H
#define LINK_QUIC_H

#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdint.h>

#include <solsend/key.h>
#include <solsend/log.h>

#include "base/random.h"
#include "link/endpoint.h"
#include "link/outbox.h"
#include "link/pool.h"
#include "link/seal.h"
#include "link/tickets.h"
#include "link/tls.h"
#include "link/tls_guard.h"

enum {
    QUIC_PAYLOAD_MIN = 1200,       /* RFC 9000 section 14 */
    QUIC_PAYLOAD_MAX = 1472,       /* Ethernet less IPv4 and UDP; what both leaders advertise */
    QUIC_HANDSHAKE_PAYLOAD = 1200, /* newer ngtcp2 pads Initials to the buffer it is given */
    QUIC_STREAM_OVERHEAD = 48      /* short header, STREAM frame head and AEAD tag, at the most */
};

/* One transaction on one connection. */
struct quic_flight {
    int64_t stream_id; /* -1: none open */
    const uint8_t *wire;
    uint32_t bytes;
    uint32_t offset;  /* bytes put into packets so far */
    uint32_t packets; /* packets that took part of it */
    uint32_t early;   /* 1: its packets left in 0-RTT */
};

/* Why a flight could not be written now. */
enum quic_block {
    QUIC_WRITTEN = 1,    /* every byte is with the socket */
    QUIC_KEPT = 2,       /* encrypted; the last packet waits in the outbox */
    QUIC_LOST = 3,       /* encrypted; the kernel refused a packet, loss recovery repeats it */
    QUIC_NOT_UP = -1,    /* no 1-RTT keys yet */
    QUIC_NO_CREDIT = -2, /* no stream credit (MAX_STREAMS) */
    QUIC_NO_WINDOW = -3, /* congestion or flow window shut */
    QUIC_NO_SPACE = -4,  /* the socket is full */
    QUIC_DEAD = -5       /* the connection ended while writing */
};

struct quic_sink {
    void *owner;
    /* every byte was acknowledged; the flight is not used after this call */
    void (*acked)(void *owner, struct quic_flight *flight, uint64_t now);
    /* the peer stopped the stream (STOP_SENDING); not used after this call */
    void (*stopped)(void *owner, struct quic_flight *flight, uint64_t peer_code, uint64_t now);
    /* a packet ends within this stream; whoever gives it up now spares the peer its rest */
    void (*cut)(void *owner, int64_t stream_id);
    /* the peer refused 0-RTT: every flight with `early` set is as if never written */
    void (*early_refused)(void *owner, uint64_t now);
};

struct quic_config {
    const solsend_key *identity; /* null: no certificate */
    const char *alpn;
    const char *sni;
    const uint8_t *expected_key; /* null: any */
    const solsend_log_sink *log;
    struct quic_sink sink;
    ngtcp2_cc_algo congestion;
    uint32_t first_flight_bytes;
    uint32_t payload_bytes_max;
    uint64_t handshake_timeout_ns;
    uint64_t initial_rtt_ns;
    uint64_t idle_timeout_ns;
    int keep_alive;
    int strict_key;
    struct pool *pool;       /* ngtcp2's memory; outlives the connection */
    const char *ticket_name; /* null: no 0-RTT; else under what name tickets are kept */
};

struct quic {
    ngtcp2_conn *conn;
    ngtcp2_crypto_conn_ref conn_ref;
    struct tls tls;
    struct tls_guard guard;
    struct outbox *box;
    struct random_state random;
    struct seal_key seal_key; /* of the newest control packet */
    struct quic_sink sink;
    solsend_log_sink log;
    ngtcp2_path path;
    struct quic_flight *partial; /* begun, not wholly written: must go on before any other */
    uint64_t now;                /* of the call in progress, for callbacks */
    uint64_t last_now;
    uint64_t opened_ns;
    uint64_t connected_ns; /* 0: handshake not done */
    uint64_t admitted_ns;  /* 0: no credit seen yet */
    uint64_t streams_granted;
    uint64_t keep_alive_ns;
    uint64_t idle_ns;
    uint64_t stream_bytes_max; /* peer's limit for one stream; 0: not known yet */
    uint64_t peer_code;
    uint64_t heard_ns;    /* newest packet that was ours */
    uint32_t payload;     /* cap in force */
    uint32_t roomy_bytes; /* transactions up to here leave room for an ACK beside them */
    uint32_t confirmed;
    uint32_t retries;
    uint32_t keys_made; /* ngtcp2 makes the next keys ahead: the first are not an update yet */
    uint32_t key_mismatch;
    uint32_t owes;    /* something was read or changed since the last quic_write_control */
    int32_t end_code; /* 0 while it lives */
    uint8_t expected_key[32];
    uint8_t peer_key[32];
    uint8_t has_expected_key;
    uint8_t strict_key;
    uint8_t keep_alive;
    uint8_t restarts; /* what would be repeated in two packets rather starts anew */
    uint8_t early;    /* 0-RTT is possible until the handshake is done */
    char end_text[96];
    char ticket_name[TICKETS_NAME_BYTES]; /* empty: no tickets */
};

/*
 * Starts a connection on a connected socket; its first packet leaves in the first quic_tick. The
 * endpoint and the outbox outlive it. Returns 0 or a code of tls_open, MEMORY, INTERNAL.
 */
int quic_open(struct quic **out, const struct quic_config *config, const struct endpoint *endpoint,
              struct outbox *box, uint64_t now, solsend_detail *detail);

/* Frees it without a word to the peer. Flights are not reported. */
void quic_close(struct quic *quic);

/* Writes CONNECTION_CLOSE 0 and ends it locally; no more calls but quic_close. */
void quic_say_goodbye(struct quic *quic, uint64_t now);

/* 1 once the connection ended; end_code and peer_code then say how. */
static inline int quic_is_dead(const struct quic *quic)
{
    return quic->end_code != 0;
}

/*
 * Tries to write a flight: opens its stream if it has none, then packets until it is done or
 * blocked. Returns an enum quic_block value.
 */
int quic_write(struct quic *quic, struct quic_flight *flight, uint64_t now);

/* Takes one datagram in. The connection may be dead afterwards. */
void quic_read(struct quic *quic, const uint8_t *data, size_t bytes, uint64_t now);

/* Timers, and packets that are due without new stream data: ACKs, handshake, retransmissions. */
void quic_tick(struct quic *quic, uint64_t now);

/* Walks the way of a packet without sending one: connection and keys stay in caches. */
void quic_warm(struct quic *quic, uint64_t now);

/* When quic_tick is due at the latest, ns; UINT64_MAX when dead. */
uint64_t quic_expiry(const struct quic *quic);

/* Ends a flight's stream: its bytes are not repeated and no longer needed (RESET_STREAM). */
void quic_abandon(struct quic *quic, struct quic_flight *flight);

/* From now on a PING leaves after so long without a packet, ns; 0: never. */
void quic_ping_after(struct quic *quic, uint64_t ns);

/* Sets the payload cap, QUIC_PAYLOAD_MIN to QUIC_PAYLOAD_MAX. */
void quic_set_payload(struct quic *quic, uint32_t payload);

/* Lowers the payload cap, never under QUIC_PAYLOAD_MIN. Returns 1 if it changed. */
int quic_lower_payload(struct quic *quic, uint32_t payload);

uint64_t quic_streams_left(const struct quic *quic);
uint64_t quic_window_left(const struct quic *quic);

/* Ends it with a code of ours; the peer is not told. */
void quic_fail(struct quic *quic, int code, const char *text);

#endif
