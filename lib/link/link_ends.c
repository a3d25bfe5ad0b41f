/* How transactions and links end, and what is told of it. */
#include "link/link.h"

#include <string.h>

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
void link_leave_state(struct solsend_link *link, struct slab_entry *e, uint32_t index)
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
        link_leave_state(link, e, index);
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

void link_notice_death(struct solsend_link *link, uint64_t now)
{
    if (link->quic != NULL && quic_is_dead(link->quic) && link->end_code == 0) {
        link_end(link, link->quic->end_code, link->quic->peer_code, link->quic->end_text, now);
    }
}

void link_on_acked(void *owner, struct quic_flight *flight, uint64_t now)
{
    struct solsend_link *link = owner;
    struct slab_entry *e = (struct slab_entry *)(void *)flight;
    uint32_t index = slab_index(&link->slab, e);
    link_leave_state(link, e, index);
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
    link_leave_state(link, e, index);
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
    link_leave_state(link, e, index);
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
            link_leave_state(link, e, i);
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
void link_withdraw(struct solsend_link *link, uint32_t index, uint32_t kind, int code, uint64_t now)
{
    struct slab_entry *e = slab_entry(&link->slab, index);
    link_leave_state(link, e, index);
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
void link_expire_late(struct solsend_link *link, enum slab_state last, uint64_t now)
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
            link_withdraw(link, index, SOLSEND_EVENT_EXPIRED, expiry_code(link, e), now);
        } else if (e->deadline_ns < next) {
            next = e->deadline_ns;
        }
        index = following;
    }
    link->next_deadline_ns = next;
}
