#include "link/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <solsend/tx.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/log.h"
#include "link/shadow.h"
#include "link/uri.h"
#include "tx/key.h"

enum {
    BUFFER_BYTES_DEFAULT = 4 << 20,
    RTT_UNKNOWN_US = 100000, /* the first probe then leaves after 300 ms: within the 1 s that
                                Firedancer's Retry tokens live */
    FIRST_FLIGHT_MIN = 2 * QUIC_PAYLOAD_MAX,
    FIRST_FLIGHT_MAX = 65527 /* RFC 9000 section 18.2 */
};

int solsend_link_options_init(solsend_link_options *options, uint32_t size)
{
    solsend_link_options o = {
        .size = sizeof o,
        .slots = 256,
        .certificate = SOLSEND_CERTIFICATE_IDENTITY,
        .congestion = SOLSEND_CONGESTION_CUBIC,
        .first_flight_bytes = 32768,
        .payload_bytes_max = QUIC_PAYLOAD_MAX,
        .handshake_timeout_ms = 1000,
        .idle_timeout_ms = 30000,
        .keep_alive = 1,
        .keep_hot_us = 500,
        .send_buffer_bytes = BUFFER_BYTES_DEFAULT,
        .receive_buffer_bytes = BUFFER_BYTES_DEFAULT,
        .segment_bursts = 1,
    };
    return options_write(options, size, &o, sizeof o);
}

int solsend_send_init(solsend_send *send, uint32_t size)
{
    solsend_send s = {.size = sizeof s, .deadline_ns = UINT64_MAX};
    return options_write(send, size, &s, sizeof s);
}

/* ---- options --------------------------------------------------------------------------------- */

static int check_options(const solsend_link_options *o, solsend_detail *detail)
{
    const struct {
        const char *name;
        uint32_t value, low, high;
    } ranges[] = {
        {"slots", o->slots, 1, SLAB_COUNT_MAX},
        {"port_min", o->port_min, o->port_max != 0 ? 1 : 0, UINT16_MAX},
        {"port_max", o->port_max, o->port_min, UINT16_MAX},
        {"certificate", o->certificate, SOLSEND_CERTIFICATE_NONE, SOLSEND_CERTIFICATE_IDENTITY},
        {"congestion", o->congestion, SOLSEND_CONGESTION_CUBIC, SOLSEND_CONGESTION_BBR},
        {"first_flight_bytes", o->first_flight_bytes, FIRST_FLIGHT_MIN, FIRST_FLIGHT_MAX},
        {"payload_bytes_max", o->payload_bytes_max, QUIC_PAYLOAD_MIN, QUIC_PAYLOAD_MAX},
        {"handshake_timeout_ms", o->handshake_timeout_ms, 1, 60000},
        {"known_rtt_us", o->known_rtt_us, 0, 10000000},
        {"idle_timeout_ms", o->idle_timeout_ms, 0, 600000},
        {"keep_alive", o->keep_alive, 0, 1},
        {"keep_hot_us", o->keep_hot_us, 0, 60000000},
        {"send_buffer_bytes", o->send_buffer_bytes, 0, INT32_MAX},
        {"receive_buffer_bytes", o->receive_buffer_bytes, 0, INT32_MAX},
        {"busy_poll_us", o->busy_poll_us, 0, 1000000},
        {"socket_priority", o->socket_priority, 0, 7},
        {"segment_bursts", o->segment_bursts, 0, 1},
        {"early_data", o->early_data, 0, 1},
        {"strict", o->strict, 0, 1},
        {"stamp_every", o->stamp_every, 0, 1000000},
        {"huge_pages", o->huge_pages, 0, 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high) {
            return detail_set(detail, SOLSEND_ERR_BAD_OPTION, SOLSEND_NO_OFFSET,
                              "%s is %u, allowed are %u to %u", ranges[i].name, ranges[i].value,
                              ranges[i].low, ranges[i].high);
        }
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Under strict a host step that fell short ends the opening. */
static int check_steps(const struct solsend_link *link, const solsend_link_options *o,
                       solsend_detail *detail)
{
    for (uint32_t i = 0; o->strict && i < link->step_count; i++) {
        const solsend_step *s = &link->steps[i];
        if (s->code < 0) {
            return detail_set(detail, s->code, SOLSEND_NO_OFFSET, "%s: wanted %lld, got %lld: %s",
                              s->name, (long long)s->wanted, (long long)s->got, s->why);
        }
    }
    return 0;
}

/* One arena: histograms, slots, the outbox's buffer and, for QUIC, what ngtcp2 will need. */
static int open_memory(struct solsend_link *link, const struct uri *uri,
                       const solsend_link_options *o, solsend_detail *detail)
{
    uint64_t hops = (uint64_t)SOLSEND_HOP_COUNT * sizeof *link->hops;
    uint64_t slab = slab_bytes(o->slots);
    uint64_t pool = uri->scheme == URI_QUIC ? pool_bytes(o->slots) : 0;
    uint64_t bytes = hops + slab + pool + OUTBOX_BYTES;
    uint32_t flags = HOST_ARENA_LOCK | (o->huge_pages ? HOST_ARENA_HUGE : 0);
    int rc =
        host_arena_open(&link->arena, bytes, flags, link->steps, LINK_STEPS_MAX, &link->step_count);
    if (rc < 0) {
        return detail_set(detail, rc, SOLSEND_NO_OFFSET, "slots is %u: %llu bytes", o->slots,
                          (unsigned long long)bytes);
    }
    uint8_t *p = link->arena.base;
    link->hops = (struct solsend_histogram *)(void *)p;
    p += hops;
    slab_open(&link->slab, o->slots, p);
    p += slab;
    pool_open(&link->pool, p, pool);
    link->box.buffer = p + pool;
    return 0;
}

static int open_socket(struct solsend_link *link, const struct uri *uri,
                       const solsend_link_options *o, solsend_detail *detail)
{
    struct endpoint_wishes wishes = {
        .host = uri->host,
        .bind = o->bind,
        .port = uri->port,
        .port_min = (uint16_t)o->port_min,
        .port_max = (uint16_t)o->port_max,
    };
    int rc = endpoint_open(&link->endpoint, &wishes, detail);
    if (rc < 0) {
        return rc;
    }
    struct host_socket_wishes tune = {o->send_buffer_bytes, o->receive_buffer_bytes,
                                      o->busy_poll_us, o->socket_priority};
    link->step_count += host_socket_tune(link->endpoint.fd, &tune, link->steps + link->step_count,
                                         LINK_STEPS_MAX - link->step_count);
    if (o->stamp_every != 0 && stamps_open(&link->stamps, link->endpoint.fd) == 0) {
        link->stamp_every = o->stamp_every;
    }
    outbox_open(&link->box, link->endpoint.fd, link->box.buffer, o->segment_bursts != 0);
    link->box.settled = link_on_settled;
    link->box.user = link;
    return 0;
}

/* "<ip>.<port>.sol", one name a server, as Agave's clients send (socket_addr_to_quic_server_name).
 * IPv6 has no form of it that is a host name; its colons become dashes. */
static void make_sni(char *out, size_t out_bytes, const union endpoint_address *remote)
{
    char text[64];
    char *host = text;
    endpoint_address_text(remote, text, sizeof text);
    char *colon = strrchr(text, ':');
    *colon = 0;
    if (*host == '[') {
        host++;
        host[strlen(host) - 1] = 0;
        for (char *p = host; *p != 0; p++) {
            *p = *p == ':' ? '-' : *p;
        }
    }
    snprintf(out, out_bytes, "%s.%s.sol", host, colon + 1);
}

/* A ticket belongs to one server, one identity of ours and one protocol. */
static void make_ticket_name(char *out, size_t out_bytes, const struct solsend_link *link,
                             const char *alpn)
{
    char peer[64], key[48] = "";
    endpoint_address_text(&link->endpoint.remote, peer, sizeof peer);
    if (link->identity != NULL) {
        solsend_base58_encode(key, sizeof key, key_public(link->identity), SOLSEND_KEY_BYTES);
    }
    snprintf(out, out_bytes, "%s %s %.40s", peer, key, alpn);
}

static int choose_identity(struct solsend_link *link, const solsend_link_options *o,
                           solsend_detail *detail)
{
    link->identity = o->identity;
    if (o->certificate == SOLSEND_CERTIFICATE_NONE || o->identity != NULL) {
        if (o->identity != NULL && key_is_foreign(o->identity)) {
            return detail_set(detail, SOLSEND_ERR_FORKED, SOLSEND_NO_OFFSET,
                              "identity was opened by the parent process");
        }
        return 0;
    }
    int rc = solsend_key_random(&link->ephemeral);
    if (rc < 0) {
        return detail_set(detail, rc, SOLSEND_NO_OFFSET, "ephemeral identity");
    }
    link->identity = link->ephemeral;
    log_line(&link->log, SOLSEND_LOG_WARN,
             "no identity given: an ephemeral key is used, leaders treat it as unstaked");
    return 0;
}

static int open_connection(struct solsend_link *link, const struct uri *uri,
                           const solsend_link_options *o, solsend_detail *detail)
{
    uint32_t path = endpoint_path_payload(&link->endpoint);
    uint32_t payload = o->payload_bytes_max;
    if (path != 0 && path < payload) {
        payload = path;
    }
    if (payload < QUIC_PAYLOAD_MIN) {
        return detail_set(detail, SOLSEND_ERR_PATH_TOO_SMALL, SOLSEND_NO_OFFSET,
                          "the path carries %u bytes of UDP payload, QUIC needs %d", payload,
                          QUIC_PAYLOAD_MIN);
    }
    int rc = choose_identity(link, o, detail);
    if (rc < 0) {
        return rc;
    }
    char sni[URI_NAME_BYTES];
    if (uri->sni[0] != 0) {
        memcpy(sni, uri->sni, sizeof sni);
    } else {
        make_sni(sni, sizeof sni, &link->endpoint.remote);
    }
    uint64_t rtt_us = o->known_rtt_us != 0 ? o->known_rtt_us : RTT_UNKNOWN_US;
    uint64_t handshake_ns = o->handshake_timeout_ms * CLOCK_NS_PER_MS;
    if (handshake_ns < 6 * o->known_rtt_us * CLOCK_NS_PER_US) {
        handshake_ns = 6 * o->known_rtt_us * CLOCK_NS_PER_US;
    }
    char name[TICKETS_NAME_BYTES];
    make_ticket_name(name, sizeof name, link, uri->alpn);
    struct quic_config config = {
        .identity = o->certificate == SOLSEND_CERTIFICATE_NONE ? NULL : link->identity,
        .alpn = uri->alpn[0] != 0 ? uri->alpn : TLS_ALPN_DEFAULT,
        .sni = sni,
        .expected_key = o->expected_key,
        .log = &link->log,
        .sink = {link, link_on_acked, link_on_stopped, link_on_cut, link_on_early_refused},
        .congestion =
            o->congestion == SOLSEND_CONGESTION_BBR ? NGTCP2_CC_ALGO_BBR : NGTCP2_CC_ALGO_CUBIC,
        .first_flight_bytes = o->first_flight_bytes,
        .payload_bytes_max = payload,
        .handshake_timeout_ns = handshake_ns,
        .initial_rtt_ns = rtt_us * CLOCK_NS_PER_US,
        .idle_timeout_ns = o->idle_timeout_ms * CLOCK_NS_PER_MS,
        .keep_alive = o->keep_alive != 0,
        .strict_key = o->strict != 0,
        .pool = &link->pool,
        .ticket_name = o->early_data ? name : NULL,
    };
    rc = quic_open(&link->quic, &config, &link->endpoint, &link->box, clock_now(), detail);
    if (rc < 0) {
        return rc;
    }
    link->payload_seen = payload;
    if (payload < LINK_TX_PAYLOAD) {
        link_notify(link, SOLSEND_EVENT_LINK_PATH, payload, clock_now());
        log_line(&link->log, SOLSEND_LOG_WARN,
                 "the path carries %u bytes: full transactions need two packets", payload);
    }
    return 0;
}

/* What a datagram can hold on this path; leaders' UDP ports never took more than one packet. */
static uint32_t udp_tx_max(const struct solsend_link *link)
{
    uint32_t path = endpoint_path_payload(&link->endpoint);
    if (path == 0) {
        path = QUIC_PAYLOAD_MAX;
    }
    return path < SLAB_WIRE_BYTES ? path : SLAB_WIRE_BYTES;
}

static void free_link(struct solsend_link *link)
{
    quic_close(link->quic);
    endpoint_close(&link->endpoint);
    host_arena_close(&link->arena);
    solsend_key_close(link->ephemeral);
    free(link);
}

static int open_parts(struct solsend_link *link, const struct uri *uri,
                      const solsend_link_options *o, solsend_detail *detail)
{
    int rc = open_memory(link, uri, o, detail);
    if (rc == 0) {
        rc = open_socket(link, uri, o, detail);
    }
    if (rc == 0) {
        rc = check_steps(link, o, detail);
    }
    if (rc < 0) {
        return rc;
    }
    if (uri->scheme == URI_UDP) {
        link->tx_bytes_max = udp_tx_max(link);
        return 0;
    }
    link->tx_bytes_max = SLAB_WIRE_BYTES; /* until the peer's limit is known */
    rc = open_connection(link, uri, o, detail);
    if (rc == 0) {
        quic_tick(link->quic, clock_now()); /* the ClientHello leaves now */
    }
    return rc;
}

int solsend_link_open(solsend_link **out, const char *uri_text, const solsend_link_options *options,
                      solsend_detail *detail)
{
    if (out == NULL || uri_text == NULL) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET, "%s is null",
                          out == NULL ? "out" : "uri");
    }
    *out = NULL;
    solsend_link_options o;
    solsend_link_options_init(&o, sizeof o);
    int rc = 0;
    if (options != NULL) {
        rc = options_read(&o, sizeof o, options, "solsend_link_options", detail);
    }
    struct uri uri;
    if (rc == 0) {
        rc = check_options(&o, detail);
    }
    if (rc == 0) {
        rc = uri_parse(&uri, uri_text, detail);
    }
    if (rc < 0) {
        return rc;
    }
    struct solsend_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return detail_set(detail, SOLSEND_ERR_MEMORY, SOLSEND_NO_OFFSET, "link");
    }
    link->epoch = fork_epoch();
    link->endpoint.fd = -1;
    link->next_deadline_ns = UINT64_MAX;
    link->opened_ns = link->last_poll_ns = clock_now();
    link->shadow = o.shadow;
    link->keep_hot_ns = o.shadow != NULL ? o.keep_hot_us * CLOCK_NS_PER_US : 0;
    if (o.log != NULL) {
        link->log = *o.log;
    }
    rc = open_parts(link, &uri, &o, detail);
    if (rc < 0) {
        free_link(link);
        return rc;
    }
    *out = link;
    return 0;
}

/* ---- closing --------------------------------------------------------------------------------- */

int solsend_link_finish(solsend_link *link, uint32_t flush_ms)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    if (link->end_code != 0) {
        return 0;
    }
    if (flush_ms != 0) {
        solsend_link_flush(link, flush_ms);
    }
    if (link->end_code != 0) {
        return 0;
    }
    uint64_t now = clock_now();
    if (link->quic != NULL) {
        quic_say_goodbye(link->quic, now);
    }
    return (int)link_end(link, SOLSEND_ERR_CLOSED, 0, "closed by us", now);
}

int solsend_link_close(solsend_link *link, uint32_t flush_ms)
{
    if (link == NULL) {
        return 0;
    }
    int rc = solsend_link_finish(link, flush_ms);
    if (rc == SOLSEND_ERR_FORKED) {
        return rc; /* the parent's memory and socket: not ours to touch */
    }
    free_link(link);
    return rc;
}
