/* What a link tells about itself: state, counters, hops, host steps. */
#include "link/link.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "tx/key.h"

static uint32_t state_of(const struct solsend_link *link)
{
    if (link->end_code != 0) {
        return SOLSEND_LINK_ENDED;
    }
    if (link->quic == NULL || link->quic->admitted_ns != 0) {
        return SOLSEND_LINK_ADMITTED;
    }
    return link->quic->connected_ns != 0 ? SOLSEND_LINK_CONNECTED : SOLSEND_LINK_CONNECTING;
}

static void fill_connection(solsend_link_info *info, const struct solsend_link *link)
{
    const struct quic *q = link->quic;
    info->connected_ns = q->connected_ns != 0 ? q->connected_ns - q->opened_ns : 0;
    info->admitted_ns = q->admitted_ns != 0 ? q->admitted_ns - q->opened_ns : 0;
    info->streams_granted = q->streams_granted;
    info->streams_left = quic_streams_left(q);
    info->payload_bytes = q->payload;
    info->idle_timeout_ms = q->connected_ns != 0 ? (uint32_t)(q->idle_ns / CLOCK_NS_PER_MS) : 0;
    info->keep_alive_ms = (uint32_t)(q->keep_alive_ns / CLOCK_NS_PER_MS);
    memcpy(info->peer_key, q->peer_key, sizeof info->peer_key);
    if (link->identity != NULL) {
        memcpy(info->identity, key_public(link->identity), sizeof info->identity);
    }
    if (q->connected_ns != 0) {
        ngtcp2_conn_info c;
        ngtcp2_conn_get_conn_info(q->conn, &c);
        info->tx_bytes_max = link->tx_bytes_max;
        info->window_bytes = c.cwnd;
        info->window_left_bytes = quic_window_left(q);
        if (c.min_rtt != UINT64_MAX) {
            info->rtt_ns = c.smoothed_rtt;
            info->rtt_min_ns = c.min_rtt;
        }
    }
}

int solsend_link_info_get(const solsend_link *link, solsend_link_info *info)
{
    solsend_link_info out = {.size = sizeof out};
    uint32_t size = info->size;
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    out.state = state_of(link);
    out.end_code = link->end_code;
    out.end_peer_code = link->end_peer_code;
    out.local_port = endpoint_address_port(&link->endpoint.local);
    out.open = link->slab.open_count;
    out.waiting = link->slab.wait_count + link->kept;
    if (link->quic != NULL) {
        fill_connection(&out, link);
    } else {
        out.payload_bytes = out.tx_bytes_max = link->tx_bytes_max;
    }
    return options_write(info, size, &out, sizeof out);
}

int solsend_link_stats_get(const solsend_link *link, solsend_link_stats *stats)
{
    uint32_t size = stats->size;
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    const struct link_counts *c = &link->counts;
    const struct outbox_counts *b = &link->box.counts;
    solsend_link_stats out = {
        .size = sizeof out,
        .accepted = c->accepted,
        .refused = c->refused,
        .written = c->written,
        .acked = c->acked,
        .expired = c->expired,
        .closed = c->closed,
        .stopped = c->stopped,
        .cancelled = c->cancelled,
        .fragmented = c->fragmented,
        .waited_admission = c->waited[0],
        .waited_credit = c->waited[1],
        .waited_window = c->waited[2],
        .waited_socket = c->waited[3],
        .datagrams_sent = b->datagrams,
        .datagrams_received = c->datagrams_received,
        .bytes_sent = b->bytes,
        .send_calls = b->calls,
        .receive_calls = c->receive_calls,
        .segmented_sends = b->segmented,
        .segment_failures = b->segment_failures,
        .socket_full = b->full,
        .icmp_errors = b->icmp,
        .too_big = b->too_big,
        .netfilter_drops = b->netfilter,
        .send_failures = b->failures,
        .warm_sends = c->warm_sends,
        .stamps_missing = link->stamps.missing,
        .poll_gaps = c->poll_gaps,
        .early_data_sent = c->early_sent,
        .early_data_refused = c->early_refused,
    };
    if (link->quic != NULL) {
        out.retries_seen = link->quic->retries;
        out.key_updates = link->quic->keys_made != 0 ? link->quic->keys_made - 1 : 0;
        out.key_mismatches = link->quic->key_mismatch;
    }
    return options_write(stats, size, &out, sizeof out);
}

const char *solsend_hop_name(uint32_t hop)
{
    static const char *const names[SOLSEND_HOP_COUNT] = {"call", "encode", "syscall", "sched",
                                                         "snd",  "credit", "ack"};
    return hop < SOLSEND_HOP_COUNT ? names[hop] : "?";
}

int solsend_link_hop(const solsend_link *link, uint32_t hop, solsend_summary *out)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    if (hop >= SOLSEND_HOP_COUNT || out == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    solsend_histogram_summary(&link->hops[hop], out);
    return 0;
}

int solsend_link_steps(const solsend_link *link, solsend_step *steps, uint32_t max)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    uint32_t n = link->step_count < max ? link->step_count : max;
    if (n > 0) {
        memcpy(steps, link->steps, n * sizeof *steps);
    }
    return (int)link->step_count;
}

int solsend_link_fd(const solsend_link *link)
{
    return fork_is_foreign(link->epoch) ? SOLSEND_ERR_FORKED : link->endpoint.fd;
}

int solsend_link_text(const solsend_link *link, char *out, uint32_t out_bytes)
{
    static const char *const states[] = {"connecting", "connected", "admitted", "ended"};
    char peer[64];
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    if (out == NULL || out_bytes == 0) {
        return SOLSEND_ERR_USAGE;
    }
    endpoint_address_text(&link->endpoint.remote, peer, sizeof peer);
    int n;
    if (link->end_code != 0) {
        n = snprintf(out, out_bytes, "%s: ended: %s (%s)", peer, solsend_error_text(link->end_code),
                     link->end_text);
    } else {
        n = snprintf(out, out_bytes, "%s: %s, %u open, %u waiting", peer, states[state_of(link)],
                     link->slab.open_count, link->slab.wait_count);
    }
    return n < (int)out_bytes ? n : (int)out_bytes - 1;
}
