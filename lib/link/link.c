/* Sending: from the call to the packet, or to the waiting. */
#include "link/link.h"

#include <errno.h>
#include <string.h>

#include <solsend/tx.h>

#include "base/clock.h"
#include "base/detail.h"
#include "link/shadow.h"
#include "tx/inspect.h"

enum {
    RETRY_DATAGRAMS_MAX = 4, /* between a blocked send and its one retry */
    BURST_MAX = 64
};

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
int link_send_waiting(struct solsend_link *link, uint64_t now)
{
    if (now >= link->next_deadline_ns) {
        link_expire_late(link, SLAB_KEPT, now); /* the last poll may be long ago */
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
            link_withdraw(link, index, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_TX_TOO_LARGE, now);
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
void link_send_waiting_udp(struct solsend_link *link, uint64_t now)
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
    link_send_waiting_udp(link, now);
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
        link_read(link, RETRY_DATAGRAMS_MAX);
        link_report_progress(link, now);
        rc = link_send_waiting(link, clock_now());
    }
    if (e->state == SLAB_WAITING) {
        mark_waiting(link, index, rc);
    }
    link_notice_death(link, now);
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
        link_expire_late(link, SLAB_KEPT, now);
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
    link->warmed_ns = now;
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
    link->warmed_ns = now;
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
    link_withdraw(link, index, SOLSEND_EVENT_CANCELLED, SOLSEND_ERR_CANCELLED, clock_now());
    return 0;
}
