#include "link/link.h"

#include <errno.h>
#include <string.h>

#include <solsend/tx.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/log.h"
#include "link/shadow.h"
#include "tx/inspect.h"

enum {
    POLL_DATAGRAMS_MAX = 16,
    RETRY_DATAGRAMS_MAX = 4, /* between a blocked send and its one retry */
    DATAGRAM_BYTES = 2048,
    CACHE_LINE = 64,
    BURST_MAX = 64
};

static const uint64_t poll_gap_ns = CLOCK_NS_PER_MS;
static const uint64_t kept_retry_ns = 50 * CLOCK_NS_PER_US;

/* ---- ends and notices ------------------------------------------------------------------------ */

void link_notify(struct solsend_link *link, uint32_t kind, uint64_t value, uint64_t now)
{
    struct link_notice *n = &link->notice[kind - SOLSEND_EVENT_LINK_CONNECTED];
    n->t_ns = now;
    n->value = value;
    link->notices |= 1u << (kind - SOLSEND_EVENT_LINK_CONNECTED);
    if (kind == SOLSEND_EVENT_LINK_PARKED) {
        /* drained in the order of kinds: an older CREDIT would seem to be the newer one */
        link->notices &= ~(1u << (SOLSEND_EVENT_LINK_CREDIT - SOLSEND_EVENT_LINK_CONNECTED));
    }
}

/* An entry leaves the states that the link counts; what is kept of it is not sent any more. */
static void leave_state(struct solsend_link *link, struct slab_entry *e, uint32_t index)
{
    if (link->box.used != 0) {
        outbox_forget(&link->box, e);
    }
    if (e->state == SLAB_WAITING) {
        slab_unwait(&link->slab, index);
    } else if (e->state == SLAB_KEPT) {
        link->kept--;
    } else if (e->state == SLAB_FLYING && e->large) {
        link->large_flying--;
    }
}

uint32_t link_end(struct solsend_link *link, int code, uint64_t peer_code, const char *text,
                  uint64_t now)
{
    if (link->end_code != 0) {
        return 0;
    }
    link->end_code = code;
    link->end_peer_code = peer_code;
    strncpy(link->end_text, text, sizeof link->end_text - 1);
    uint32_t ended = 0;
    while (link->slab.open_head != SLOTS_NONE) {
        uint32_t index = link->slab.open_head;
        struct slab_entry *e = slab_entry(&link->slab, index);
        leave_state(link, e, index);
        e->peer_code = peer_code;
        e->value = now - e->call_ns;
        slab_end(&link->slab, index, SOLSEND_EVENT_CLOSED,
                 code == SOLSEND_ERR_CLOSED ? SOLSEND_ERR_ABORTED : code, now);
        ended++;
    }
    link->counts.closed += ended;
    struct link_notice *n = &link->notice[SOLSEND_EVENT_LINK_CLOSED - SOLSEND_EVENT_LINK_CONNECTED];
    n->code = code;
    n->peer_code = peer_code;
    link_notify(link, SOLSEND_EVENT_LINK_CLOSED, ended, now);
    return ended;
}

static void notice_death(struct solsend_link *link, uint64_t now)
{
    if (link->quic != NULL && quic_is_dead(link->quic) && link->end_code == 0) {
        link_end(link, link->quic->end_code, link->quic->peer_code, link->quic->end_text, now);
    }
}

/* ---- one transaction's states ---------------------------------------------------------------- */

static inline void set_flying(struct solsend_link *link, struct slab_entry *e)
{
    e->state = SLAB_FLYING;
    link->counts.early_sent += e->flight.early;
    link->large_flying += e->large;
    if (__builtin_expect(e->flight.packets > 1, 0) &&
        (e->flight.bytes <= SOLSEND_TX_BYTES_MAX ||
         e->flight.packets > 1 + e->flight.bytes / SOLSEND_TX_BYTES_MAX)) {
        link->counts.fragmented++;
    }
}

/* Every byte is with the socket, at `now`. */
static inline void mark_written(struct solsend_link *link, struct slab_entry *e, uint64_t now)
{
    set_flying(link, e);
    if (__builtin_expect(e->written_ns != 0, 0)) {
        return; /* once more, after its repeat was cut */
    }
    e->written_ns = now;
    link->counts.written++;
    if (e->waited) {
        histogram_record(&link->hops[SOLSEND_HOP_CREDIT], now - e->call_ns);
        slab_tell_written(&link->slab, slab_index(&link->slab, e));
    }
}

/* Why the first of the waiting cannot leave; the others stand behind it. */
static void note_block(struct solsend_link *link, int block)
{
    link->block = block;
    if (block == QUIC_NO_CREDIT && !link->parked) {
        link->parked = 1;
        link_notify(link, SOLSEND_EVENT_LINK_PARKED, link->slab.wait_count, clock_now());
    }
}

/* It stays among the waiting, for the first time because of `block`. */
static void mark_waiting(struct solsend_link *link, uint32_t index, int block)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    if (!e->waited && block >= QUIC_NO_SPACE) {
        link->counts.waited[QUIC_NOT_UP - block]++;
    }
    e->waited = 1;
    note_block(link, block);
}

void link_on_acked(void *owner, struct quic_flight *flight, uint64_t now)
{
    struct solsend_link *link = owner;
    struct slab_entry *e = (struct slab_entry *)(void *)flight;
    uint32_t index = slab_index(&link->slab, e);
    leave_state(link, e, index);
    if (e->written_ns == 0) {
        /* the kernel refused its packet; a repeat got through, nobody knows when */
        e->written_ns = now;
        link->counts.written++;
    } else {
        e->value = now - e->written_ns;
        histogram_record(&link->hops[SOLSEND_HOP_ACK], e->value);
    }
    if (e->large) {
        link_path_acked(link, e);
    }
    link->counts.acked++;
    slab_end(&link->slab, index, SOLSEND_EVENT_ACKED, 0, now);
}

void link_on_stopped(void *owner, struct quic_flight *flight, uint64_t peer_code, uint64_t now)
{
    struct solsend_link *link = owner;
    struct slab_entry *e = (struct slab_entry *)(void *)flight;
    uint32_t index = slab_index(&link->slab, e);
    leave_state(link, e, index);
    link->counts.stopped++;
    e->peer_code = peer_code;
    e->value = now - e->call_ns;
    slab_end(&link->slab, index, SOLSEND_EVENT_STOPPED, SOLSEND_ERR_STOPPED, now);
}

void link_on_cut(void *owner, int64_t stream_id)
{
    struct solsend_link *link = owner;
    uint32_t index = link->slab.open_head;
    while (index != SLOTS_NONE && slab_entry(&link->slab, index)->flight.stream_id != stream_id) {
        index = slab_entry(&link->slab, index)->open_next;
    }
    struct slab_entry *e = index != SLOTS_NONE ? slab_entry(&link->slab, index) : NULL;
    if (e == NULL || e->state != SLAB_FLYING ||
        e->flight.bytes + QUIC_STREAM_OVERHEAD > link->quic->payload) {
        return;
    }
    leave_state(link, e, index);
    quic_abandon(link->quic, &e->flight);
    e->flight.offset = e->flight.packets = 0;
    slab_wait(&link->slab, index);
    link->next_deadline_ns = 0; /* poll is due */
}

void link_on_early_refused(void *owner, uint64_t now)
{
    (void)now;
    struct solsend_link *link = owner;
    for (uint32_t i = link->slab.open_head; i != SLOTS_NONE;) {
        struct slab_entry *e = slab_entry(&link->slab, i);
        uint32_t following = e->open_next;
        if (e->flight.early) {
            leave_state(link, e, i);
            link->counts.written -= e->written_ns != 0;
            e->written_ns = 0;
            e->waited = 1;
            e->flight.stream_id = -1;
            e->flight.offset = e->flight.packets = e->flight.early = 0;
            slab_wait(&link->slab, i);
            link->counts.early_refused++;
        }
        i = following;
    }
}

/* Takes it off the connection and ends it with a code of ours. */
static void withdraw(struct solsend_link *link, uint32_t index, uint32_t kind, int code,
                     uint64_t now)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    leave_state(link, e, index);
    if (link->quic != NULL) {
        quic_abandon(link->quic, &e->flight);
    }
    e->value = now - e->call_ns;
    slab_end(&link->slab, index, kind, code, now);
}

/* What an open transaction lacked when it was last tried. */
static int expiry_code(const struct solsend_link *link, const struct slab_entry *e)
{
    if (e->state == SLAB_FLYING || e->written_ns != 0) {
        return SOLSEND_ERR_NOT_ACKED;
    }
    if (e->state == SLAB_KEPT || outbox_is_blocked(&link->box)) {
        return SOLSEND_ERR_NO_BUFFER;
    }
    switch (link->block) {
    case QUIC_NOT_UP:
        return SOLSEND_ERR_NO_ADMISSION;
    case QUIC_NO_CREDIT:
        return SOLSEND_ERR_NO_CREDIT;
    case QUIC_NO_SPACE:
        return SOLSEND_ERR_NO_BUFFER;
    default:
        return SOLSEND_ERR_NO_WINDOW;
    }
}

/*
 * Called when the earliest deadline has come: one walk ends the late in the states up to `last` and
 * finds the next. What flies is judged only after the ACKs were read.
 */
static void expire_late(struct solsend_link *link, enum slab_state last, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    uint32_t index = link->slab.open_head;
    while (index != SLOTS_NONE) {
        struct slab_entry *e = slab_entry(&link->slab, index);
        uint32_t following = e->open_next;
        if (e->deadline_ns <= now && e->state <= last) {
            link->counts.expired++;
            if (e->large && e->state == SLAB_FLYING) {
                link_path_expired(link, e, now);
            }
            withdraw(link, index, SOLSEND_EVENT_EXPIRED, expiry_code(link, e), now);
        } else if (e->deadline_ns < next) {
            next = e->deadline_ns;
        }
        index = following;
    }
    link->next_deadline_ns = next;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Before the peer's first packet an ICMP error is the answer; later it is only counted. */
static void judge_silence(struct solsend_link *link)
{
    struct quic *q = link->quic;
    if (link->box.counts.icmp == 0 || q->connected_ns != 0 || q->heard_ns != 0) {
        return;
    }
    int refused = link->box.last_errno == ECONNREFUSED;
    quic_fail(q, refused ? SOLSEND_ERR_PORT_UNREACHABLE : SOLSEND_ERR_UNREACHABLE,
              strerror(link->box.last_errno));
}

/* Reads up to `max` datagrams into the connection. Returns how many. */
static int read_datagrams(struct solsend_link *link, int max)
{
    uint8_t data[DATAGRAM_BYTES];
    int got = 0;
    while (got < max) {
        link->counts.receive_calls++;
        ssize_t n = recv(link->endpoint.fd, data, sizeof data, MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                link_path_on_error(link, errno);
            }
            break;
        }
        got++;
        link->counts.datagrams_received++;
        if (link->quic != NULL) {
            quic_read(link->quic, data, (size_t)n, clock_now());
            if (quic_is_dead(link->quic)) {
                break;
            }
        }
    }
    return got;
}

/* What the connection learnt becomes link events. */
static void report_progress(struct solsend_link *link, uint64_t now)
{
    struct quic *q = link->quic;
    if (q->connected_ns != 0 && !(link->connected_told & 1)) {
        link->connected_told |= 1;
        if (q->stream_bytes_max < SLAB_WIRE_BYTES) {
            link->tx_bytes_max = (uint32_t)q->stream_bytes_max;
        }
        link_notify(link, SOLSEND_EVENT_LINK_CONNECTED, q->connected_ns - q->opened_ns, now);
        if (q->key_mismatch) {
            link_notify(link, SOLSEND_EVENT_LINK_KEY, 0, now);
        }
    }
    if (q->admitted_ns != 0 && !(link->connected_told & 2)) {
        link->connected_told |= 2;
        link_notify(link, SOLSEND_EVENT_LINK_ADMITTED, q->streams_granted, now);
    }
    if (link->parked && quic_streams_left(q) > 0) {
        link->parked = 0;
        link_notify(link, SOLSEND_EVENT_LINK_CREDIT, quic_streams_left(q), now);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A datagram without a connection ended for good. */
static void end_datagram(struct solsend_link *link, uint32_t index, enum outbox_result r,
                         uint64_t now)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    if (r == OUTBOX_SENT) {
        slab_tell_written(&link->slab, index);
        slab_end(&link->slab, index, SOLSEND_EVENT_WRITTEN, 0, now);
        return;
    }
    int code = SOLSEND_ERR_UNREACHABLE;
    if (r == OUTBOX_BIG) {
        code = SOLSEND_ERR_PATH_TOO_SMALL;
    } else if (link->box.last_errno == EPERM) {
        code = SOLSEND_ERR_NETFILTER;
    } else if (link->box.last_errno == ECONNREFUSED) {
        code = SOLSEND_ERR_PORT_UNREACHABLE;
    }
    e->value = now - e->call_ns;
    link->counts.closed++;
    slab_end(&link->slab, index, SOLSEND_EVENT_CLOSED, code, now);
}

void link_on_settled(void *user, const void *owner, enum outbox_result result, uint32_t bytes)
{
    struct solsend_link *link = user;
    struct slab_entry *e = (struct slab_entry *)(uintptr_t)owner;
    uint32_t index = slab_index(&link->slab, e);
    if (result == OUTBOX_BIG && link->quic != NULL) {
        quic_lower_payload(link->quic, bytes - 1);
    }
    if (e->state != SLAB_KEPT ||
        (result == OUTBOX_SENT && e->flight.packets > 1 && outbox_holds(&link->box, owner))) {
        return; /* a part of it; the rest is not written yet */
    }
    uint64_t now = link->box.settled_ns;
    link->kept--;
    if (result == OUTBOX_SENT) {
        mark_written(link, e, now);
    } else {
        set_flying(link, e);
    }
    if (link->quic == NULL) {
        end_datagram(link, index, result, now);
    }
}

/* Its packet waits in the outbox: for the socket, or in a burst only for the others. */
static void mark_kept(struct solsend_link *link, struct slab_entry *e)
{
    e->state = SLAB_KEPT;
    link->kept++;
    if (!link->box.gathering && !e->waited) {
        e->waited = 1;
        link->counts.waited[QUIC_NOT_UP - QUIC_NO_SPACE]++;
    }
}

/* It did not go straight to the socket. */
static __attribute__((noinline)) void set_unwritten(struct solsend_link *link, struct slab_entry *e,
                                                    int rc, uint64_t now)
{
    if (rc == QUIC_KEPT) {
        mark_kept(link, e);
    } else if (rc == QUIC_LOST) {
        set_flying(link, e);
        link_path_report(link, now);
    }
}

/* Tries one accepted entry. Returns an enum quic_block value; the entry's state is set. */
static inline int transmit(struct solsend_link *link, struct slab_entry *e, uint64_t now)
{
    int rc = quic_write(link->quic, &e->flight, now);
    if (__builtin_expect(rc == QUIC_WRITTEN, 1)) {
        mark_written(link, e, clock_now());
    } else {
        set_unwritten(link, e, rc, now);
    }
    return rc;
}

/* The waiting go in their order until one is blocked. Returns why, or QUIC_WRITTEN. */
static int send_waiting(struct solsend_link *link, uint64_t now)
{
    if (now >= link->next_deadline_ns) {
        expire_late(link, SLAB_KEPT, now); /* the last poll may be long ago */
    }
    while (link->slab.wait_head != SLOTS_NONE) {
        uint32_t index = link->slab.wait_head;
        if (link->quic->partial != NULL) {
            /* a begun transaction stands before all others, whatever its priority */
            index = slab_index(&link->slab, (struct slab_entry *)(void *)link->quic->partial);
        }
        struct slab_entry *e = slab_entry(&link->slab, index);
        if (e->flight.bytes > link->tx_bytes_max) {
            /* accepted before the peer's limit was known */
            link->counts.expired++;
            withdraw(link, index, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_TX_TOO_LARGE, now);
            continue;
        }
        slab_unwait(&link->slab, index);
        int rc = transmit(link, e, now);
        if (rc < 0) {
            slab_wait(&link->slab, index);
            note_block(link, rc);
            return rc;
        }
    }
    return QUIC_WRITTEN;
}

static inline void choose_sample(struct solsend_link *link)
{
    if (link->stamp_every != 0 && ++link->since_stamp >= link->stamp_every) {
        link->since_stamp = 0;
        link->box.sample = 1;
        link->box.enter_ns = 0;
    }
}

/* A sampled send took its own stamps, unless it had to wait; the kernel's follow later. */
static void record_sample(struct solsend_link *link, uint64_t start)
{
    struct outbox *box = &link->box;
    if (box->enter_ns >= start && box->sample == 0) {
        histogram_record(&link->hops[SOLSEND_HOP_ENCODE], box->enter_ns - start);
        histogram_record(&link->hops[SOLSEND_HOP_SYSCALL], box->leave_ns - box->enter_ns);
        stamps_sent(&link->stamps, box->enter_ns);
    }
    box->sample = 0;
    box->enter_ns = 0;
}

/* A struct of an older or newer caller, in our layout. */
static __attribute__((noinline)) int read_send(solsend_send *ours, const void *theirs)
{
    solsend_send_init(ours, sizeof *ours);
    return options_read(ours, sizeof *ours, theirs, "solsend_send", NULL);
}

/* Finds number `i` of an array whose elements are as long as the first one says. */
static int find_send(const solsend_send **found, solsend_send *copy, const solsend_send *sends,
                     uint32_t i)
{
    const uint8_t *at = (const uint8_t *)sends + (size_t)i * sends->size;
    if (memcmp(at, &sends->size, sizeof sends->size) != 0) {
        return SOLSEND_ERR_BAD_SIZE;
    }
    if (sends->size == sizeof *copy) {
        *found = &sends[i];
        return 0;
    }
    *found = copy;
    return read_send(copy, at);
}

/* The checks of a send call; 0 or the code that refuses it. */
static inline int check_send(const struct solsend_link *link, const solsend_send *send,
                             uint64_t now)
{
    if (link->end_code != 0) {
        return SOLSEND_ERR_CLOSED;
    }
    if (__builtin_expect(send->wire == NULL, 0)) {
        return send->wire_bytes == 0 ? SOLSEND_ERR_TX_EMPTY : SOLSEND_ERR_USAGE;
    }
    int rc = inspect_size(send->wire, send->wire_bytes);
    if (rc < 0) {
        return rc;
    }
    if (send->wire_bytes > link->tx_bytes_max) {
        return SOLSEND_ERR_TX_TOO_LARGE;
    }
    return send->deadline_ns > now ? 0 : SOLSEND_ERR_TX_EXPIRED;
}

/* Takes an entry for a checked send. SLOTS_NONE when full. */
static inline uint32_t take_entry(struct solsend_link *link, const solsend_send *send, uint64_t now)
{
    uint32_t index = slab_take(&link->slab);
    if (index == SLOTS_NONE) {
        return SLOTS_NONE;
    }
    struct slab_entry *e = slab_entry(&link->slab, index);
    uint8_t *wire = slab_wire(&link->slab, index);
    memcpy(wire, send->wire, send->wire_bytes);
    e->flight.wire = wire;
    e->flight.bytes = send->wire_bytes;
    e->user = send->user;
    e->deadline_ns = send->deadline_ns;
    e->priority = send->priority;
    e->quiet = send->quiet != 0;
    e->large = send->wire_bytes > QUIC_PAYLOAD_MIN - QUIC_STREAM_OVERHEAD;
    e->call_ns = now;
    if (send->deadline_ns < link->next_deadline_ns) {
        link->next_deadline_ns = send->deadline_ns;
    }
    link->counts.accepted++;
    return index;
}

/* Copies a datagram out. There is no retransmission: what became of it is its end. */
static int put_udp(struct solsend_link *link, uint32_t index, uint64_t now)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    uint8_t *space = outbox_space(&link->box, e->flight.bytes);
    if (space == NULL) {
        slab_wait(&link->slab, index);
        mark_waiting(link, index, QUIC_NO_SPACE);
        return 0;
    }
    memcpy(space, e->flight.wire, e->flight.bytes);
    enum outbox_result r = outbox_push(&link->box, e->flight.bytes);
    if (r == OUTBOX_KEPT) {
        outbox_claim(&link->box, e);
        mark_kept(link, e);
        return 0;
    }
    uint64_t end = clock_now();
    int at_once = r == OUTBOX_SENT && !e->waited;
    if (r == OUTBOX_SENT) {
        mark_written(link, e, end);
    }
    if (at_once) {
        histogram_record(&link->hops[SOLSEND_HOP_CALL], end - now);
    }
    end_datagram(link, index, r, end);
    return at_once;
}

/* The waiting go in their order while there is room. */
static void send_waiting_udp(struct solsend_link *link, uint64_t now)
{
    while (link->slab.wait_head != SLOTS_NONE) {
        uint32_t index = link->slab.wait_head;
        if (outbox_space(&link->box, slab_entry(&link->slab, index)->flight.bytes) == NULL) {
            return;
        }
        slab_unwait(&link->slab, index);
        put_udp(link, index, now);
    }
}

static int send_udp(struct solsend_link *link, uint32_t index, uint64_t now)
{
    if (link->slab.wait_head == SLOTS_NONE) {
        return put_udp(link, index, now);
    }
    /* among those that wait its priority decides */
    struct slab_entry *e = slab_entry(&link->slab, index);
    slab_wait(&link->slab, index);
    send_waiting_udp(link, now);
    if (e->state == SLAB_WAITING) {
        mark_waiting(link, index, QUIC_NO_SPACE);
    }
    return e->state == SLAB_ENDED && e->written_ns != 0 && !e->waited;
}

/* It could not leave at once, because of `rc`: let what has arrived help, else let it wait. */
static __attribute__((noinline)) int send_later(struct solsend_link *link, uint32_t index, int rc,
                                                uint64_t now)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    if (rc > 0) {
        return 0;
    }
    /* among those that wait its priority decides; only credit and windows come by reading */
    slab_wait(&link->slab, index);
    if (rc == QUIC_NO_CREDIT || rc == QUIC_NO_WINDOW) {
        read_datagrams(link, RETRY_DATAGRAMS_MAX);
        report_progress(link, now);
        rc = send_waiting(link, clock_now());
    }
    if (e->state == SLAB_WAITING) {
        mark_waiting(link, index, rc);
    }
    notice_death(link, now);
    if (e->state != SLAB_FLYING || e->written_ns == 0 || e->waited) {
        return 0;
    }
    histogram_record(&link->hops[SOLSEND_HOP_CALL], e->written_ns - now);
    return 1;
}

static inline int send_quic(struct solsend_link *link, uint32_t index, uint64_t now)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    int alone = link->slab.wait_head == SLOTS_NONE;
    int rc = alone ? transmit(link, e, now) : QUIC_NO_CREDIT;
    if (__builtin_expect(rc != QUIC_WRITTEN, 0)) {
        return send_later(link, index, rc, now);
    }
    histogram_record(&link->hops[SOLSEND_HOP_CALL], e->written_ns - now);
    return 1;
}

/* Before anything new: what is kept goes out, unless its time is over. */
static __attribute__((noinline)) void unblock(struct solsend_link *link, uint64_t now)
{
    if (now >= link->next_deadline_ns) {
        expire_late(link, SLAB_KEPT, now);
    }
    outbox_flush(&link->box);
}

int solsend_link_send(solsend_link *link, const solsend_send *send, uint64_t *ticket)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    uint64_t now = clock_now();
    solsend_send copy;
    int rc = 0;
    if (__builtin_expect(send->size != sizeof *send, 0)) {
        rc = read_send(&copy, send);
        send = &copy;
    }
    if (rc == 0) {
        rc = check_send(link, send, now);
    }
    if (rc < 0) {
        link->counts.refused++;
        return rc;
    }
    uint32_t index = take_entry(link, send, now);
    if (index == SLOTS_NONE) {
        link->counts.refused++;
        return SOLSEND_ERR_FULL;
    }
    if (ticket != NULL) {
        *ticket = slots_ticket(&link->slab.slots, index);
    }
    choose_sample(link);
    if (outbox_is_blocked(&link->box)) {
        unblock(link, now);
    }
    rc = link->quic != NULL ? send_quic(link, index, now) : send_udp(link, index, now);
    if (link->stamp_every != 0) {
        record_sample(link, now);
    }
    shadow_seen(link->shadow, now);
    return rc;
}

/* After the flush: written by now, or kept because the socket is full. Returns 1 if written. */
static int settle_burst(struct solsend_link *link, uint64_t ticket)
{
    uint32_t index = slots_find(&link->slab.slots, ticket);
    if (index == SLOTS_NONE) {
        return 1; /* a quiet one that was written has given its slot back */
    }
    struct slab_entry *e = slab_entry(&link->slab, index);
    if (e->state == SLAB_KEPT) {
        link->kept--;
        mark_kept(link, e);
    }
    return e->written_ns != 0 && !e->waited;
}

int solsend_link_send_burst(solsend_link *link, const solsend_send *sends, uint32_t count,
                            uint64_t *tickets, int32_t *results)
{
    uint64_t own[BURST_MAX];
    uint32_t accepted = 0;
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    if (link->end_code != 0) {
        return SOLSEND_ERR_CLOSED;
    }
    if (count == 0 || count > BURST_MAX) {
        return SOLSEND_ERR_USAGE;
    }
    solsend_send copy;
    if (sends->size != sizeof *sends && read_send(&copy, sends) == SOLSEND_ERR_BAD_SIZE) {
        return SOLSEND_ERR_BAD_SIZE; /* where the second one stands is not known */
    }
    uint64_t now = clock_now();
    if (outbox_is_blocked(&link->box)) {
        unblock(link, now);
    }
    outbox_gather(&link->box);
    for (uint32_t i = 0; i < count; i++) {
        if (link->box.gathering && !outbox_has_room(&link->box)) {
            outbox_flush(&link->box);
            outbox_gather(&link->box);
        }
        const solsend_send *send;
        int rc = find_send(&send, &copy, sends, i);
        if (rc == 0) {
            rc = check_send(link, send, now);
        }
        uint32_t index = rc < 0 ? SLOTS_NONE : take_entry(link, send, now);
        if (rc == 0 && index == SLOTS_NONE) {
            rc = SOLSEND_ERR_FULL;
        }
        own[i] = 0;
        if (rc < 0) {
            link->counts.refused++;
        } else {
            accepted++;
            own[i] = slots_ticket(&link->slab.slots, index);
            if (tickets != NULL) {
                tickets[i] = own[i];
            }
            rc = link->quic != NULL ? send_quic(link, index, now) : send_udp(link, index, now);
        }
        if (results != NULL) {
            results[i] = rc;
        }
    }
    if (link->box.gathering) {
        outbox_flush(&link->box);
    }
    for (uint32_t i = 0; i < count; i++) {
        int written = own[i] != 0 && settle_burst(link, own[i]);
        if (results != NULL && results[i] == 0) {
            results[i] = written;
        }
    }
    shadow_seen(link->shadow, now);
    return (int)accepted;
}

int solsend_link_cancel(solsend_link *link, uint64_t ticket)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    if (link->end_code != 0) {
        return SOLSEND_ERR_CLOSED;
    }
    uint32_t index = slots_find(&link->slab.slots, ticket);
    if (index == SLOTS_NONE || slab_entry(&link->slab, index)->state == SLAB_ENDED) {
        return SOLSEND_ERR_NO_SUCH_TICKET;
    }
    link->counts.cancelled++;
    withdraw(link, index, SOLSEND_EVENT_CANCELLED, SOLSEND_ERR_CANCELLED, clock_now());
    return 0;
}

/* ---- driving --------------------------------------------------------------------------------- */

/*
 * The shadow keeps code and the common way of packets hot; this link's own memory is looked after
 * here: its socket and route, its connection and keys, the slot that the next send will take.
 */
static void warm_own(struct solsend_link *link, uint64_t now)
{
    uint32_t next = link->slab.slots.free_head;
    if (next != SLOTS_NONE) {
        const uint8_t *wire = slab_wire(&link->slab, next);
        for (uint32_t i = 0; i < SOLSEND_TX_BYTES_MAX; i += CACHE_LINE) {
            __builtin_prefetch(wire + i, 1);
        }
        __builtin_prefetch(slab_entry(&link->slab, next), 1);
        __builtin_prefetch((uint8_t *)slab_entry(&link->slab, next) + CACHE_LINE, 1);
    }
    if (link->shadow->probes && !outbox_is_blocked(&link->box)) {
        outbox_probe(&link->box);
    }
    if (link->quic != NULL) {
        quic_warm(link->quic, now);
    }
}

static void keep_hot(struct solsend_link *link, uint64_t now)
{
    if (shadow_due(link->shadow, link->keep_hot_ns) <= now) {
        link->counts.warm_sends += solsend_shadow_touch(link->shadow) == 0;
    }
    if (now - link->warmed_ns >= link->keep_hot_ns) {
        link->warmed_ns = now;
        warm_own(link, now);
    }
}

int solsend_link_poll(solsend_link *link)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    uint64_t now = clock_now();
    if (link->end_code != 0) {
        return link->end_code;
    }
    if (link->slab.open_count != 0 && now - link->last_poll_ns > poll_gap_ns) {
        link->counts.poll_gaps++;
    }
    link->last_poll_ns = now;
    int got = read_datagrams(link, POLL_DATAGRAMS_MAX);
    if (got > 0) {
        now = clock_now();
    }
    if (now >= link->next_deadline_ns) {
        expire_late(link, SLAB_FLYING,
                    now); /* after the ACKs, before anything is sent or repeated */
    }
    if (outbox_is_blocked(&link->box)) {
        outbox_flush(&link->box);
    }
    if (link->quic != NULL) {
        judge_silence(link);
        report_progress(link, now);
        quic_tick(link->quic, now);
        link_path_report(link, now);
        link_path_check(link, now);
    }
    if (link->slab.wait_head != SLOTS_NONE) {
        if (link->quic != NULL) {
            send_waiting(link, now);
        } else {
            send_waiting_udp(link, now);
        }
    }
    if (link->quic != NULL && link->quic->owes) {
        quic_tick(link->quic, now); /* resets of what expired in between */
    }
    notice_death(link, now);
    if (link->stamp_every != 0) {
        stamps_collect(&link->stamps, link->endpoint.fd, &link->hops[SOLSEND_HOP_SCHED],
                       &link->hops[SOLSEND_HOP_SND], now);
    }
    if (link->keep_hot_ns != 0) {
        keep_hot(link, now);
    }
    return link->end_code != 0 ? link->end_code : got;
}

static uint32_t take_notice(struct solsend_link *link, uint32_t wanted, solsend_event *event)
{
    uint32_t i = (uint32_t)__builtin_ctz(wanted);
    const struct link_notice *n = &link->notice[i];
    link->notices &= ~(1u << i);
    memset(event, 0, sizeof *event);
    event->kind = SOLSEND_EVENT_LINK_CONNECTED + i;
    event->code = n->code;
    event->peer_code = n->peer_code;
    event->t_ns = n->t_ns;
    event->value = n->value;
    return 1;
}

int solsend_link_drain(solsend_link *link, solsend_event *events, uint32_t max)
{
    static const uint32_t closed = 1u << (SOLSEND_EVENT_LINK_CLOSED - SOLSEND_EVENT_LINK_CONNECTED);
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    uint32_t n = 0;
    while (n < max && (link->notices & ~closed) != 0) {
        n += take_notice(link, link->notices & ~closed, &events[n]);
    }
    while (n < max && slab_drain(&link->slab, &events[n])) {
        n++;
    }
    if (n < max && (link->notices & closed) != 0) {
        n += take_notice(link, closed, &events[n]);
    }
    return (int)n;
}

uint64_t solsend_link_next_timeout_ns(const solsend_link *link)
{
    if (fork_is_foreign(link->epoch) || link->end_code != 0) {
        return UINT64_MAX;
    }
    uint64_t next = link->next_deadline_ns;
    if (link->quic != NULL) {
        int owes =
            link->quic->owes && !outbox_is_blocked(&link->box) && quic_window_left(link->quic) > 0;
        uint64_t expiry = owes ? 0 : quic_expiry(link->quic);
        next = expiry < next ? expiry : next;
    }
    if (link->keep_hot_ns != 0) {
        uint64_t due = shadow_due(link->shadow, link->keep_hot_ns);
        next = due < next ? due : next;
    }
    if (outbox_is_blocked(&link->box)) {
        uint64_t retry = link->last_poll_ns + kept_retry_ns;
        next = retry < next ? retry : next;
    }
    return next;
}
