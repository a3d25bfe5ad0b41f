/* The inside of a link, shared by link.c (sending and driving) and link_open.c (its life). */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <solsend/link.h>
#include <solsend/tx.h>

#include "base/fork.h"
#include "host/memory.h"
#include "host/socket.h"
#include "link/endpoint.h"
#include "link/outbox.h"
#include "link/quic.h"
#include "link/slab.h"
#include "link/stamps.h"
#include "stats/histogram.h"

enum {
    LINK_STEPS_MAX = 8,
    LINK_NOTICES = SOLSEND_EVENT_LINK_KEY - SOLSEND_EVENT_LINK_CONNECTED + 1,
    LINK_TX_PAYLOAD = SOLSEND_TX_BYTES_MAX + QUIC_STREAM_OVERHEAD
};

/* What a link counts itself; the rest lives in its outbox and connection. */
struct link_counts {
    uint64_t accepted;
    uint64_t refused;
    uint64_t written;
    uint64_t acked;
    uint64_t expired;
    uint64_t closed;
    uint64_t stopped;
    uint64_t cancelled;
    uint64_t fragmented;
    uint64_t waited[4]; /* by quic_block: NOT_UP, NO_CREDIT, NO_WINDOW, NO_SPACE */
    uint64_t datagrams_received;
    uint64_t receive_calls;
    uint64_t warm_sends;
    uint64_t poll_gaps;
    uint64_t early_sent;
    uint64_t early_refused;
};

/* Link events, coalesced: the newest of each kind. */
struct link_notice {
    uint64_t t_ns;
    uint64_t value;
    uint64_t peer_code;
    int32_t code;
};

struct solsend_link {
    uint64_t epoch;
    struct quic *quic; /* null on UDP */
    struct outbox box;
    struct slab slab;
    uint64_t next_deadline_ns; /* no open transaction's deadline is earlier */
    uint64_t last_poll_ns;
    uint64_t opened_ns;
    struct solsend_histogram *hops; /* SOLSEND_HOP_COUNT of them */
    struct link_counts counts;
    uint32_t tx_bytes_max; /* what a send may be long now */
    uint32_t kept;         /* entries in state SLAB_KEPT */
    uint32_t stamp_every;
    uint32_t since_stamp;
    int32_t end_code; /* 0 while it lives */
    uint32_t parked;
    int32_t block;          /* enum quic_block: why the first of the waiting still waits */
    uint32_t payload_seen;  /* the payload cap that was last reported */
    uint32_t path_raise_to; /* the cap to try again at path_raise_ns */
    uint64_t path_raise_ns; /* 0: the cap was not lowered for a black hole */
    uint64_t path_check_ns;
    uint64_t path_probe_ns;    /* since when PINGs ask whether the peer lives; 0: they do not */
    uint64_t large_through_ns; /* the newest large packet that was acknowledged: when it left */
    uint32_t large_flying;     /* entries with packets above the smallest allowed size */
    uint32_t large_silent;     /* of those, expired in a row while the peer was heard */
    uint32_t notices;          /* bits of kinds to drain, from LINK_CONNECTED on */
    struct link_notice notice[LINK_NOTICES];
    struct solsend_shadow *shadow;
    uint64_t keep_hot_ns;
    uint64_t warmed_ns; /* when this link's own memory was last in use or kept warm */
    struct endpoint endpoint;
    struct host_arena arena;
    struct pool pool;
    struct stamps stamps;
    solsend_log_sink log;
    solsend_key *ephemeral; /* ours when no identity was given */
    const solsend_key *identity;
    uint64_t end_peer_code;
    uint32_t step_count;
    uint32_t connected_told;
    solsend_step steps[LINK_STEPS_MAX];
    char end_text[128];
};

/* Ends the link: every open transaction becomes CLOSED with `code`. Returns how many. */
uint32_t link_end(struct solsend_link *link, int code, uint64_t peer_code, const char *text,
                  uint64_t now);

/* Queues a link event. */
void link_notify(struct solsend_link *link, uint32_t kind, uint64_t value, uint64_t now);

/* The connection's word that a transaction was acknowledged or stopped; owner is the link. */
void link_on_acked(void *owner, struct quic_flight *flight, uint64_t now);
void link_on_stopped(void *owner, struct quic_flight *flight, uint64_t peer_code, uint64_t now);

/* recv reported the ICMP error of an earlier packet. */
void link_path_on_error(struct solsend_link *link, int error);

/* Tells of a smaller cap than the one last reported, learnt from EMSGSIZE or the peer. */
void link_path_report(struct solsend_link *link, uint64_t now);

/* Looks for a path that loses large packets silently. */
void link_path_check(struct solsend_link *link, uint64_t now);

/* A large transaction was acknowledged. */
void link_path_acked(struct solsend_link *link, const struct slab_entry *e);

/* A large transaction on the wire expired unacknowledged: evidence for the same. */
void link_path_expired(struct solsend_link *link, const struct slab_entry *e, uint64_t now);

/* The outbox's word on a kept packet of a transaction; user is the link. */
void link_on_settled(void *user, const void *owner, enum outbox_result result, uint32_t bytes);

/* A repeat was cut in two: if one packet could hold it whole, it starts anew. See repeat.h. */
void link_on_cut(void *owner, int64_t stream_id);

/* The peer refused 0-RTT: what left in it waits again. */
void link_on_early_refused(void *owner, uint64_t now);

/* ---- between the files of a link --------------------------------------------------------------
 */

/* An entry leaves the states that the link counts; what is kept of it is not sent any more. */
void link_leave_state(struct solsend_link *link, struct slab_entry *e, uint32_t index);

/* Takes an entry off the connection and ends it with a code of ours. */
void link_withdraw(struct solsend_link *link, uint32_t index, uint32_t kind, int code,
                   uint64_t now);

/* Ends what is past its deadline in the states up to `last`, and finds the next deadline. */
void link_expire_late(struct solsend_link *link, enum slab_state last, uint64_t now);

/* A connection that ended takes the link with it. */
void link_notice_death(struct solsend_link *link, uint64_t now);

/* Reads up to `max` datagrams into the connection. Returns how many. */
int link_read(struct solsend_link *link, int max);

/* What the connection learnt becomes link events. */
void link_report_progress(struct solsend_link *link, uint64_t now);

/* The waiting go in their order until one is blocked. Returns why, or QUIC_WRITTEN. */
int link_send_waiting(struct solsend_link *link, uint64_t now);
void link_send_waiting_udp(struct solsend_link *link, uint64_t now);

#endif
