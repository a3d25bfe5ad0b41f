/* Watching what the path carries, while the link is up. */
#include "link/link.h"

#include "base/clock.h"
#include "base/log.h"

static const uint64_t path_check_every_ns = CLOCK_NS_PER_MS;
static const uint64_t trial_min_ns = 20 * CLOCK_NS_PER_MS;

void link_path_report(struct solsend_link *link, uint64_t now)
{
    if (link->payload_trial != 0 || link->quic->payload >= link->payload_seen) {
        return;
    }
    uint32_t known = endpoint_path_payload(&link->endpoint);
    if (known != 0) {
        quic_lower_payload(link->quic, known);
    }
    link->payload_seen = link->quic->payload;
    link_notify(link, SOLSEND_EVENT_LINK_PATH, link->payload_seen, now);
    log_line(&link->log, SOLSEND_LOG_WARN, "the path carries less: payload cap now %u bytes",
             link->payload_seen);
}

/*
 * A path whose ICMP is filtered loses large packets without a word. When a large packet is
 * unacknowledged after three probe timeouts, packets are made small for a trial: if the
 * transaction then gets through, the path is at fault and the cap stays.
 */
void link_path_check(struct solsend_link *link, uint64_t now)
{
    struct quic *q = link->quic;
    if (link->large_flying == 0 || now < link->path_check_ns || q->connected_ns == 0) {
        if (link->large_flying == 0 && link->payload_trial != 0) {
            q->payload = link->payload_trial; /* nobody answered at all: no proof */
            link->payload_trial = 0;
        }
        return;
    }
    link->path_check_ns = now + path_check_every_ns;
    if (link->payload_trial != 0 || q->payload <= QUIC_PAYLOAD_MIN) {
        return;
    }
    uint64_t limit = 3 * ngtcp2_conn_get_pto(q->conn);
    if (limit < trial_min_ns) {
        limit = trial_min_ns;
    }
    for (uint32_t i = link->slab.open_head; i != SLOTS_NONE;) {
        const struct slab_entry *e = slab_entry(&link->slab, i);
        if (e->state == SLAB_FLYING && e->large && e->written_ns != 0) {
            if (now - e->written_ns > limit) {
                link->payload_trial = q->payload;
                link->trial_ns = now;
                quic_lower_payload(q, QUIC_PAYLOAD_MIN);
            }
            return;
        }
        i = e->open_next;
    }
}
