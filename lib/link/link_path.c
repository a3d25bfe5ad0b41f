/* Watching what the path carries, while the link is up. */
#include "link/link.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"

static const uint64_t check_every_ns = CLOCK_NS_PER_MS;
static const uint64_t ping_after_ns = 2 * CLOCK_NS_PER_MS;
static const uint64_t raise_after_ns = 600 * CLOCK_NS_PER_S; /* RFC 8899, PMTU_RAISE_TIMER */

enum {
    PROOF_TIMEOUTS =
        3,            /* probe timeouts without an ACK for a large packet, while small ones pass */
    PROOF_EXPIRED = 3 /* or so many large transactions in a row that expired so */
};

/* The kernel heard of a smaller path, from a router or by EMSGSIZE. */
static void learn(struct solsend_link *link)
{
    if (link->box.path_news) {
        link->box.path_news = 0;
        uint32_t known = endpoint_path_payload(&link->endpoint);
        if (known != 0) {
            quic_lower_payload(link->quic, known);
        }
    }
}

static void tell(struct solsend_link *link, uint64_t now)
{
    link->payload_seen = link->quic->payload;
    link_notify(link, SOLSEND_EVENT_LINK_PATH, link->payload_seen, now);
}

void link_path_on_error(struct solsend_link *link, int error)
{
    link->box.counts.icmp++;
    link->box.last_errno = error;
    if (error == EMSGSIZE && link->quic != NULL) {
        link->box.path_news = 1;
        learn(link);
    }
}

void link_path_report(struct solsend_link *link, uint64_t now)
{
    learn(link);
    if (link->quic->payload >= link->payload_seen) {
        return;
    }
    tell(link, now);
    log_line(&link->log, SOLSEND_LOG_WARN, "the path carries less: payload cap now %u bytes",
             link->payload_seen);
}

static uint64_t rtt_min(const struct quic *q)
{
    ngtcp2_conn_info info;
    ngtcp2_conn_get_conn_info(q->conn, &info);
    return info.min_rtt == UINT64_MAX ? 0 : info.min_rtt;
}

static void set_probing(struct solsend_link *link, uint64_t since)
{
    link->path_probe_ns = since;
    quic_ping_after(link->quic, since != 0 ? ping_after_ns : link->quic->keep_alive_ns);
}

static void take_for_black_hole(struct solsend_link *link, uint64_t now)
{
    link->path_raise_ns = now + raise_after_ns;
    link->path_raise_to = link->quic->payload;
    link->large_silent = 0;
    quic_lower_payload(link->quic, QUIC_PAYLOAD_MIN);
    tell(link, now);
    log_line(&link->log, SOLSEND_LOG_WARN,
             "the path loses large packets silently: payload cap now %u bytes", link->payload_seen);
}

/* The oldest large transaction that waits for its ACK; null if there is none. */
static const struct slab_entry *oldest_large(struct solsend_link *link)
{
    for (uint32_t i = link->slab.open_head; i != SLOTS_NONE;) {
        const struct slab_entry *e = slab_entry(&link->slab, i);
        if (e->state == SLAB_FLYING && e->large && e->written_ns != 0) {
            return e;
        }
        i = e->open_next;
    }
    return NULL;
}

/* Large ones got through at about its time: what became of this one is not the path's size. */
static int is_in_company(const struct solsend_link *link, const struct slab_entry *e)
{
    return e->written_ns <= link->large_through_ns + ngtcp2_conn_get_pto(link->quic->conn);
}

/*
 * A path whose ICMP is filtered loses large packets without a word, and the probes that repeat them
 * with them; a peer that pauses looks the same. So once a large packet is late, PINGs go out beside
 * it: if the peer answers those but still not the large one, the path is at fault.
 */
void link_path_check(struct solsend_link *link, uint64_t now)
{
    struct quic *q = link->quic;
    if (link->path_raise_ns != 0 && now >= link->path_raise_ns) {
        link->path_raise_ns = 0;
        quic_set_payload(q, link->path_raise_to);
        tell(link, now);
    }
    if (now < link->path_check_ns || (link->large_flying == 0 && link->path_probe_ns == 0)) {
        return;
    }
    link->path_check_ns = now + check_every_ns;
    const struct slab_entry *e = oldest_large(link);
    uint64_t timeout = ngtcp2_conn_get_pto(q->conn);
    uint64_t late = e != NULL ? now - e->written_ns : 0;
    if (late <= timeout || q->payload <= QUIC_PAYLOAD_MIN) {
        if (link->path_probe_ns != 0) {
            set_probing(link, 0);
        }
        return;
    }
    if (link->path_probe_ns == 0) {
        set_probing(link, now);
    } else if (late > PROOF_TIMEOUTS * timeout && !is_in_company(link, e) &&
               q->heard_ns > link->path_probe_ns + ping_after_ns + rtt_min(q)) {
        take_for_black_hole(link, now);
        set_probing(link, 0);
    }
}

void link_path_acked(struct solsend_link *link, const struct slab_entry *e)
{
    link->large_silent = 0;
    if (e->flight.packets == 1 && e->written_ns > link->large_through_ns) {
        link->large_through_ns = e->written_ns;
    }
}

void link_path_expired(struct solsend_link *link, const struct slab_entry *e, uint64_t now)
{
    /* what was heard after its packet's round trip shows that the peer lives and hears us */
    if (e->written_ns == 0 || link->quic->payload <= QUIC_PAYLOAD_MIN || is_in_company(link, e) ||
        link->quic->heard_ns <= e->written_ns + rtt_min(link->quic)) {
        return;
    }
    if (++link->large_silent >= PROOF_EXPIRED) {
        take_for_black_hole(link, now);
    }
}
