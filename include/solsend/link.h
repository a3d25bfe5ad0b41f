/**
 * Links: one UDP or QUIC connection to one address, driven by the caller.
 *
 * A link is the smallest thing that can send. It starts no thread and reconnects never: it does
 * its work inside solsend_link_send and solsend_link_poll, and when it ends it says how. Policy
 * (who leads, when to redial, several lanes) is built on top.
 *
 *     solsend_link_options o;
 *     solsend_link_options_init(&o, sizeof o);
 *     o.identity = key;
 *     rc = solsend_link_open(&link, "quic://203.0.113.7:8009", &o, &detail);
 *     rc = solsend_link_wait_admitted(link, 2000);
 *     rc = solsend_link_send(link, &s, &ticket);   // 1: on the wire at return
 *     rc = solsend_link_poll(link);                // ACKs, timers, credit
 *     n  = solsend_link_drain(link, events, 64);
 *     rc = solsend_link_close(link, 200);
 *
 * Threads: one call at a time on a link; which thread makes it does not matter. Different links
 * may be used by different threads at the same time.
 * Memory: everything is allocated by open, ngtcp2's own needs included; once the handshake is done
 * sending, polling and draining allocate nothing.
 * Fork: in a child every call on a parent's link returns FORKED.
 */
#ifndef SOLSEND_LINK_H
#define SOLSEND_LINK_H

#include <solsend/event.h>
#include <solsend/host.h>
#include <solsend/key.h>
#include <solsend/log.h>
#include <solsend/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct solsend_link solsend_link;
typedef struct solsend_shadow solsend_shadow;

/** Congestion control. There is no reno: it never leaves the first window (RFC 9002 section 7). */
enum { SOLSEND_CONGESTION_CUBIC = 0, SOLSEND_CONGESTION_BBR = 1 };

/** The client certificate. Leaders demand one; NONE is for peers that do not. */
enum { SOLSEND_CERTIFICATE_NONE = 0, SOLSEND_CERTIFICATE_IDENTITY = 1 };

/**
 * How to open a link. Size-first; solsend_link_options_init writes the defaults named below, and
 * zero is a value like any other. Strings and keys are used during open only, except `identity`
 * and `shadow`, which must outlive the link.
 */
typedef struct solsend_link_options {
    uint32_t size;
    uint32_t slots;                /* open transactions at a time, 1…65536; default 256 */
    const solsend_key *identity;   /* null (default): an ephemeral key, warned about once */
    solsend_shadow *shadow;        /* keeps the path hot while idle; null (default): nothing does */
    const solsend_log_sink *log;   /* copied; null (default): silent */
    const char *bind;              /* local address without port; null (default): the kernel's */
    const uint8_t *expected_key;   /* 32 bytes: the peer's key; null (default): any */
    uint32_t port_min;             /* local UDP ports to try, 1…65535 */
    uint32_t port_max;             /* at least port_min; both 0 (default): ephemeral */
    uint32_t certificate;          /* SOLSEND_CERTIFICATE_…; default IDENTITY */
    uint32_t congestion;           /* SOLSEND_CONGESTION_…; default CUBIC */
    uint32_t first_flight_bytes;   /* 2944…65527; default 32768. The initial congestion window is
                                      twice this: 54 full transactions at once, 106 at 65527. It
                                      raises the minimum window too: congestion control is then
                                      nearly off for a sender of small bursts */
    uint32_t payload_bytes_max;    /* UDP payload cap, 1200…1472; default 1472, less where the
                                      kernel knows a smaller path */
    uint32_t handshake_timeout_ms; /* default 1000; raised to 6 x known_rtt_us */
    uint32_t known_rtt_us;         /* last RTT of this peer; default 0: unknown (then 100 ms) */
    uint32_t idle_timeout_ms;      /* ours; the smaller of both ends' counts. Default 30000 */
    uint32_t keep_alive;           /* 1 (default): PING often enough to stay; 0: never */
    uint32_t keep_hot_us;          /* with a shadow: longest time without a warm send; default 500.
                                      A thread that spins can afford it; one that sleeps is woken
                                      that often, 5000 then costs it less */
    uint32_t send_buffer_bytes;    /* SO_SNDBUF wanted; default 4 MiB */
    uint32_t receive_buffer_bytes; /* SO_RCVBUF wanted; default 4 MiB */
    uint32_t busy_poll_us;         /* SO_BUSY_POLL; default 0: off */
    uint32_t socket_priority;      /* SO_PRIORITY 0…7; default 0 */
    uint32_t segment_bursts;       /* 1 (default): GSO for bursts of 4 or more; 0: never */
    uint32_t early_data;           /* 1: send in 0-RTT when a ticket is known. Default 0 */
    uint32_t strict;               /* 1: a host step that falls short, or a foreign peer key, is an
                                      error. Default 0 */
    uint32_t stamp_every;          /* kernel TX stamps on one of so many packets; default 0: off */
    uint32_t huge_pages;           /* 1: slots in huge pages if there are any. Default 0 */
} solsend_link_options;

/** Writes the defaults. `size` is sizeof(solsend_link_options). Returns 0 or BAD_SIZE. */
SOLSEND_API int solsend_link_options_init(solsend_link_options *options, uint32_t size);

/**
 * Opens a link and starts its handshake; does not wait for it.
 *
 * `uri` is quic://HOST:PORT[?alpn=NAME&sni=NAME] or udp://HOST:PORT; HOST is a name, an IPv4
 * address or an IPv6 address in brackets; ALPN defaults to solana-tpu. `options` null means the
 * defaults. `*out` is null on failure.
 *
 * Returns 0 or BAD_URI, BAD_OPTION, BAD_SIZE, UNKNOWN_OPTION, RESOLVE, NO_ROUTE_FAMILY,
 * BAD_ADDRESS, NO_ADDRESS, NO_PORT, PORT_IN_USE, NO_FILES, UNREACHABLE, PATH_TOO_SMALL, TLS_POLICY,
 * LIBRARY, MEMORY, FORKED (the identity's owner is the parent), PRIVILEGE (a low port); and, when
 * strict, CLAMPED, PRIVILEGE, NOT_SUPPORTED. Blocks: for DNS when HOST is a name, else never.
 */
SOLSEND_API int solsend_link_open(solsend_link **out, const char *uri,
                                  const solsend_link_options *options, solsend_detail *detail);

/** One transaction to send. Size-first. */
typedef struct solsend_send {
    uint32_t size;
    uint32_t wire_bytes;  /* length of wire */
    const uint8_t *wire;  /* the signed transaction; copied before return */
    uint64_t deadline_ns; /* after it, neither sent nor repeated; default UINT64_MAX */
    uint64_t user;        /* comes back in the events; default 0 */
    uint32_t priority;    /* among those that wait: higher first, then newest; default 0 */
    uint32_t quiet;       /* 1: no events unless it fails; its slot frees itself. Default 0 */
} solsend_send;

/** Writes the defaults. Returns 0 or BAD_SIZE. */
SOLSEND_API int solsend_send_init(solsend_send *send, uint32_t size);

/**
 * Sends one transaction as one QUIC stream in one packet, or as one datagram.
 *
 * Returns 1 when the socket took the whole of it before return; 0 when it was accepted and waits
 * (for the handshake, stream credit, a window or the socket), then WRITTEN or a terminal event
 * follows; or FULL, CLOSED, FORKED, TX_EMPTY, TX_TOO_LARGE, TX_EXPIRED, USAGE, BAD_SIZE,
 * UNKNOWN_OPTION: nothing was kept.
 * `*ticket` (may be null) names it until its terminal event is drained; never 0.
 * Blocks: never.
 */
SOLSEND_API int solsend_link_send(solsend_link *link, const solsend_send *send, uint64_t *ticket);

/**
 * Sends `count` (1…64) transactions at once; four or more of equal length leave in one syscall
 * where the kernel can. `tickets` (may be null) and `results` (may be null) receive one entry each,
 * results as of solsend_link_send. All elements are as long as the first one's `size` says.
 * Returns how many were accepted, or CLOSED, FORKED, USAGE, BAD_SIZE.
 */
SOLSEND_API int solsend_link_send_burst(solsend_link *link, const solsend_send *sends,
                                        uint32_t count, uint64_t *tickets, int32_t *results);

/**
 * Takes a transaction back: one that waits never leaves; one on the wire is no longer repeated.
 * Its terminal event is CANCELLED. Returns 0 or NO_SUCH_TICKET, CLOSED, FORKED.
 */
SOLSEND_API int solsend_link_cancel(solsend_link *link, uint64_t ticket);

/**
 * Does what is due: incoming packets (at most 16), timers, waiting transactions, deadlines, warm
 * sends. Call it when the fd is readable, when solsend_link_next_timeout_ns has come, or in a
 * loop; with keep-hot or deadlines at least once a millisecond.
 *
 * Returns how many datagrams were read, or the code by which the link ended (then events may
 * still be drained), or FORKED. Blocks: never.
 */
SOLSEND_API int solsend_link_poll(solsend_link *link);

/** Takes up to `max` events. Returns how many, or FORKED. Works after the link ended. */
SOLSEND_API int solsend_link_drain(solsend_link *link, solsend_event *events, uint32_t max);

/** The socket, to wait for readability; never read, write or close it. */
SOLSEND_API int solsend_link_fd(const solsend_link *link);

/** When poll is due next at the latest, ns of solsend_now_ns(); UINT64_MAX: never. */
SOLSEND_API uint64_t solsend_link_next_timeout_ns(const solsend_link *link);

/**
 * Polls until the peer admits us (it granted stream credit and confirmed the handshake), the link
 * ends or `timeout_ms` passes. Returns 0, the link's end code, or NOT_READY. At once 0 on UDP.
 * Blocks: up to `timeout_ms`.
 */
SOLSEND_API int solsend_link_wait_admitted(solsend_link *link, uint32_t timeout_ms);

/**
 * Polls until no transaction is open, the link ends or `timeout_ms` passes. Returns how many are
 * still open, or FORKED. Blocks: up to `timeout_ms`.
 */
SOLSEND_API int solsend_link_flush(solsend_link *link, uint32_t timeout_ms);

/**
 * Flushes for up to `flush_ms`, then ends the connection (CONNECTION_CLOSE 0). Every transaction
 * that was still open gets its terminal event CLOSED with code ABORTED; drain works, send returns
 * CLOSED. Returns how many were aborted, or FORKED. Idempotent.
 */
SOLSEND_API int solsend_link_finish(solsend_link *link, uint32_t flush_ms);

/** solsend_link_finish, then frees everything. Null is allowed. Returns the number aborted. */
SOLSEND_API int solsend_link_close(solsend_link *link, uint32_t flush_ms);

/** `solsend_link_info.state`. */
enum {
    SOLSEND_LINK_CONNECTING = 0,
    SOLSEND_LINK_CONNECTED = 1, /* handshake done, no stream credit yet */
    SOLSEND_LINK_ADMITTED = 2,
    SOLSEND_LINK_ENDED = 3
};

/** A link as it is now. Size-first; the library writes at most `size` bytes. */
typedef struct solsend_link_info {
    uint32_t size;
    uint32_t state;   /* SOLSEND_LINK_… */
    int32_t end_code; /* once ENDED: how; else 0 */
    uint32_t local_port;
    uint64_t end_peer_code; /* the peer's QUIC error or close code */
    uint64_t connected_ns;  /* open to handshake done; 0: not yet */
    uint64_t admitted_ns;   /* open to the first stream credit; 0: not yet */
    uint64_t rtt_ns;        /* smoothed; 0: not measured */
    uint64_t rtt_min_ns;
    uint64_t streams_granted; /* by the peer, in all */
    uint64_t streams_left;
    uint64_t window_left_bytes; /* congestion window less bytes in flight */
    uint64_t window_bytes;
    uint32_t payload_bytes;   /* UDP payload cap in force */
    uint32_t tx_bytes_max;    /* largest transaction the peer's streams take; 0: not known yet */
    uint32_t idle_timeout_ms; /* the smaller of both ends'; 0: not known yet */
    uint32_t keep_alive_ms;   /* interval between PINGs when idle; 0: none */
    uint32_t open;            /* transactions without a terminal state */
    uint32_t waiting;         /* of those, not on the wire yet */
    uint8_t peer_key[32];     /* from the peer's certificate; zero: not known */
    uint8_t identity[32];     /* our public key; zero on UDP */
} solsend_link_info;

/** Fills `info`, whose `size` the caller has set. Returns 0, BAD_SIZE or FORKED. */
SOLSEND_API int solsend_link_info_get(const solsend_link *link, solsend_link_info *info);

/** What a link has done since open. Size-first; the library writes at most `size` bytes. */
typedef struct solsend_link_stats {
    uint32_t size;
    uint32_t reserved;
    uint64_t accepted; /* send calls that returned 0 or 1 */
    uint64_t refused;  /* send calls that failed */
    uint64_t written;  /* transactions whose last byte the socket took */
    uint64_t acked;
    uint64_t expired; /* all codes together */
    uint64_t closed;  /* ended by the end of the link */
    uint64_t stopped;
    uint64_t cancelled;
    uint64_t fragmented;       /* transactions that needed more packets than their size asks for */
    uint64_t waited_admission; /* transactions that waited, by reason */
    uint64_t waited_credit;
    uint64_t waited_window;
    uint64_t waited_socket;
    uint64_t datagrams_sent;
    uint64_t datagrams_received;
    uint64_t bytes_sent;
    uint64_t send_calls;       /* send and sendmsg system calls */
    uint64_t receive_calls;    /* recv system calls */
    uint64_t segmented_sends;  /* GSO sends */
    uint64_t segment_failures; /* GSO sends the kernel refused (then sent one by one) */
    uint64_t socket_full;      /* EAGAIN, ENOBUFS: packet kept and sent later */
    uint64_t icmp_errors;      /* ECONNREFUSED, EHOSTUNREACH… reported by send: sent again */
    uint64_t too_big;          /* EMSGSIZE */
    uint64_t netfilter_drops;  /* EPERM */
    uint64_t send_failures;    /* any other errno: counted as lost */
    uint64_t retries_seen;     /* Retry packets */
    uint64_t key_updates;
    uint64_t key_mismatches;
    uint64_t warm_sends;
    uint64_t stamps_missing;     /* kernel stamps asked for that never came */
    uint64_t poll_gaps;          /* polls later than 1 ms after the one before, with work open */
    uint64_t early_data_sent;    /* transactions that left in 0-RTT */
    uint64_t early_data_refused; /* of those, sent again in 1-RTT */
} solsend_link_stats;

/** Fills `stats`, whose `size` the caller has set. Returns 0, BAD_SIZE or FORKED. */
SOLSEND_API int solsend_link_stats_get(const solsend_link *link, solsend_link_stats *stats);

/** Where a transaction's time goes on a link. Each is a histogram of its own. */
enum {
    SOLSEND_HOP_CALL = 0,    /* send called -> returned, written at once */
    SOLSEND_HOP_ENCODE = 1,  /* frame, AEAD, header protection; sampled with the kernel stamps */
    SOLSEND_HOP_SYSCALL = 2, /* send() entered -> returned; sampled with the kernel stamps */
    SOLSEND_HOP_SCHED = 3,  /* send() entered -> handed to the queueing discipline (kernel stamp) */
    SOLSEND_HOP_SND = 4,    /* send() entered -> handed to the device (kernel stamp) */
    SOLSEND_HOP_CREDIT = 5, /* waited for admission, credit, window or socket */
    SOLSEND_HOP_ACK = 6,    /* written -> acknowledged */
    SOLSEND_HOP_COUNT = 7
};

/** "call", "encode", …; "?" if unknown. */
SOLSEND_API const char *solsend_hop_name(uint32_t hop);

/** Summary of one hop; count 0 means not measured. Returns 0, USAGE or FORKED. */
SOLSEND_API int solsend_link_hop(const solsend_link *link, uint32_t hop, solsend_summary *out);

/** What the host gave the socket and slots: up to `max` steps. Returns how many there are. */
SOLSEND_API int solsend_link_steps(const solsend_link *link, solsend_step *steps, uint32_t max);

/** Copies one line on the link's state or end, zero-terminated. Returns its length. */
SOLSEND_API int solsend_link_text(const solsend_link *link, char *out, uint32_t out_bytes);

/* ---- warm-up --------------------------------------------------------------------------------- */

/** Where a shadow's packets go. What each of them warms is measured by `solsend bench`. */
enum {
    SOLSEND_SHADOW_LOOPBACK = 0, /* a socket of its own on 127.0.0.1: code, TLS state, syscall */
    SOLSEND_SHADOW_SINK = 1,     /* a UDP address of the user's: the real route and device too */
    SOLSEND_SHADOW_TTL = 2       /* towards `address`, with a TTL that ends on the first hop */
};

/** Options of a shadow. Size-first. */
typedef struct solsend_shadow_options {
    uint32_t size;
    uint32_t target;     /* SOLSEND_SHADOW_…; default LOOPBACK */
    const char *address; /* HOST:PORT for SINK and TTL; null (default) for LOOPBACK */
    uint32_t bytes;      /* size of the transaction in each packet, 1…1232; default 1232 */
    uint32_t reserved;
} solsend_shadow_options;

/** Writes the defaults. Returns 0 or BAD_SIZE. */
SOLSEND_API int solsend_shadow_options_init(solsend_shadow_options *options, uint32_t size);

/**
 * Opens a QUIC connection both of whose ends live here: the client half is encoded, encrypted and
 * sent by the very code of a real link, and the server half acknowledges it in memory. One per
 * sending thread serves all its links. Errors as of solsend_link_open. Blocks: about 2 ms.
 */
SOLSEND_API int solsend_shadow_open(solsend_shadow **out, const solsend_shadow_options *options,
                                    solsend_detail *detail);

/** Sends one real packet on it. Returns 0 or a code. Call it once before the first send. */
SOLSEND_API int solsend_shadow_touch(solsend_shadow *shadow);

/** Frees it, after every link that uses it. Null is allowed. */
SOLSEND_API void solsend_shadow_close(solsend_shadow *shadow);

#ifdef __cplusplus
}
#endif
#endif
