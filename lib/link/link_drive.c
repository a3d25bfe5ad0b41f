/* Driving a link: reading, timers, what waits, warm sends, events. */
#include "link/link.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "link/shadow.h"

enum { POLL_DATAGRAMS_MAX = 16, DATAGRAM_BYTES = 2048, CACHE_LINE = 64 };

static const uint64_t poll_gap_ns = CLOCK_NS_PER_MS;
static const uint64_t kept_retry_ns = 50 * CLOCK_NS_PER_US;

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
int link_read(struct solsend_link *link, int max)
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
void link_report_progress(struct solsend_link *link, uint64_t now)
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

/* Reads a byte of every cache line: a prefetch would give up where the translation is cold. */
static void touch(const void *memory, size_t bytes)
{
    const volatile uint8_t *p = memory;
    for (size_t i = 0; i < bytes; i += CACHE_LINE) {
        (void)p[i];
    }
}

/*
 * The shadow keeps code and the common way of packets hot; this link's own memory is looked after
 * here: the slot and the packet buffer that the next send will take, the histogram it records in,
 * its socket and route, its connection and keys.
 */
static void warm_own(struct solsend_link *link, uint64_t now)
{
    uint32_t next = link->slab.slots.free_head;
    if (next != SLOTS_NONE) {
        touch(slab_wire(&link->slab, next), SOLSEND_TX_BYTES_MAX);
        touch(slab_entry(&link->slab, next), sizeof(struct slab_entry));
    }
    touch(link, sizeof *link);
    touch(link->box.buffer, QUIC_PAYLOAD_MAX);
    touch(&link->hops[SOLSEND_HOP_CALL], sizeof *link->hops);
    pool_warm(&link->pool);
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
    int got = link_read(link, POLL_DATAGRAMS_MAX);
    if (got > 0) {
        now = clock_now();
    }
    if (now >= link->next_deadline_ns) {
        link_expire_late(link, SLAB_FLYING,
                         now); /* after the ACKs, before anything is sent or repeated */
    }
    if (outbox_is_blocked(&link->box)) {
        outbox_flush(&link->box);
    }
    if (link->quic != NULL) {
        judge_silence(link);
        link_report_progress(link, now);
        quic_tick(link->quic, now);
        link_path_report(link, now);
        link_path_check(link, now);
    }
    if (link->slab.wait_head != SLOTS_NONE) {
        if (link->quic != NULL) {
            link_send_waiting(link, now);
        } else {
            link_send_waiting_udp(link, now);
        }
    }
    if (link->quic != NULL && link->quic->owes) {
        quic_tick(link->quic, now); /* resets of what expired in between */
    }
    link_notice_death(link, now);
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
