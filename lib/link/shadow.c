#include "link/shadow.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/random.h"
#include "link/link.h"
#include "link/uri.h"

enum { SLOTS = 32, HANDSHAKE_MS = 2000, DRAIN_MAX = 16 };

int solsend_shadow_options_init(solsend_shadow_options *options, uint32_t size)
{
    solsend_shadow_options o = {
        .size = sizeof o, .target = SOLSEND_SHADOW_LOOPBACK, .bytes = SHADOW_BYTES_MAX};
    return options_write(options, size, &o, sizeof o);
}

static int check_options(const solsend_shadow_options *o, solsend_detail *detail)
{
    if (o->target > SOLSEND_SHADOW_TTL) {
        return detail_set(detail, SOLSEND_ERR_BAD_OPTION, SOLSEND_NO_OFFSET,
                          "target %u is no SOLSEND_SHADOW_ value", o->target);
    }
    if (o->bytes == 0 || o->bytes > SHADOW_BYTES_MAX) {
        return detail_set(detail, SOLSEND_ERR_BAD_OPTION, SOLSEND_NO_OFFSET,
                          "bytes is %u, allowed are 1 to %d", o->bytes, SHADOW_BYTES_MAX);
    }
    if ((o->target == SOLSEND_SHADOW_LOOPBACK) != (o->address == NULL)) {
        return detail_set(detail, SOLSEND_ERR_BAD_OPTION, SOLSEND_NO_OFFSET,
                          "address goes with the targets SINK and TTL, and only with them");
    }
    return 0;
}

/* SINK and TTL: a socket of the real route. */
static int open_target(struct solsend_shadow *s, const solsend_shadow_options *o,
                       solsend_detail *detail)
{
    struct uri uri;
    int rc = uri_parse_authority(&uri, o->address, detail);
    if (rc < 0) {
        return rc;
    }
    struct endpoint_wishes wishes = {.host = uri.host, .port = uri.port};
    rc = endpoint_open(&s->target, &wishes, detail);
    if (rc == 0 && o->target == SOLSEND_SHADOW_TTL) {
        int hops = 1;
        int v6 = s->target.remote.any.sa_family == AF_INET6;
        rc = v6 ? setsockopt(s->target.fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops)
                : setsockopt(s->target.fd, IPPROTO_IP, IP_TTL, &hops, sizeof hops);
        if (rc < 0) {
            return detail_set(detail, SOLSEND_ERR_NOT_SUPPORTED, SOLSEND_NO_OFFSET, "TTL of 1");
        }
    }
    return rc;
}

static int open_client(struct solsend_shadow *s, solsend_detail *detail)
{
    char uri[64];
    solsend_link_options o;
    snprintf(uri, sizeof uri, "quic://127.0.0.1:%u", shadow_server_port(s->server));
    solsend_link_options_init(&o, sizeof o);
    o.slots = SLOTS;
    o.idle_timeout_ms = 0;
    o.keep_alive = 0;
    o.send_buffer_bytes = o.receive_buffer_bytes = 0;
    return solsend_link_open(&s->link, uri, &o, detail);
}

/* Both halves in turn until the client is admitted. */
static int shake_hands(struct solsend_shadow *s, solsend_detail *detail)
{
    uint64_t until = clock_now() + HANDSHAKE_MS * CLOCK_NS_PER_MS;
    int rc = 0;
    while (rc >= 0 && clock_now() < until) {
        rc = solsend_link_poll(s->link);
        if (rc >= 0) {
            rc = shadow_server_pump(s->server);
        }
        solsend_link_info info = {.size = sizeof info};
        solsend_link_info_get(s->link, &info);
        if (info.state == SOLSEND_LINK_ADMITTED && s->link->quic->confirmed) {
            return 0;
        }
    }
    return detail_set(detail, rc < 0 ? rc : SOLSEND_ERR_HANDSHAKE_TIMEOUT, SOLSEND_NO_OFFSET,
                      "the shadow's handshake with itself failed");
}

/* MSG_PROBE is Linux's own: on a kernel that sends all the same it must never meet a leader. */
static uint32_t try_probe(struct solsend_shadow *s)
{
    return outbox_probe(&s->link->box) && !shadow_server_hears(s->server);
}

int solsend_shadow_open(solsend_shadow **out, const solsend_shadow_options *options,
                        solsend_detail *detail)
{
    if (out == NULL) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET, "out is null");
    }
    *out = NULL;
    solsend_shadow_options o;
    solsend_shadow_options_init(&o, sizeof o);
    int rc = 0;
    if (options != NULL) {
        rc = options_read(&o, sizeof o, options, "solsend_shadow_options", detail);
    }
    if (rc == 0) {
        rc = check_options(&o, detail);
    }
    if (rc < 0) {
        return rc;
    }
    struct solsend_shadow *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return detail_set(detail, SOLSEND_ERR_MEMORY, SOLSEND_NO_OFFSET, "shadow");
    }
    struct random_state random;
    s->target.fd = -1;
    s->bytes = o.bytes;
    rc = random_open(&random);
    if (rc == 0) {
        random_fill(&random, s->wire, sizeof s->wire);
        s->wire[0] = 1; /* one signature: a legacy transaction's first byte */
        rc = o.target == SOLSEND_SHADOW_LOOPBACK ? 0 : open_target(s, &o, detail);
    }
    if (rc == 0) {
        rc = shadow_server_open(&s->server, detail);
    }
    if (rc == 0) {
        rc = open_client(s, detail);
    }
    if (rc == 0) {
        rc = shake_hands(s, detail);
    }
    if (rc < 0) {
        solsend_shadow_close(s);
        return rc;
    }
    s->probes = try_probe(s);
    if (s->target.fd >= 0) {
        s->link->box.fd = s->target.fd; /* from here on its packets take the real route */
    }
    *out = s;
    return 0;
}

int solsend_shadow_touch(solsend_shadow *shadow)
{
    solsend_event events[DRAIN_MAX];
    shadow->last_ns = clock_now(); /* also when it fails: a dead one is not tried all the time */
    int rc = solsend_link_poll(shadow->link);
    if (rc < 0) {
        return rc;
    }
    while (solsend_link_drain(shadow->link, events, DRAIN_MAX) == DRAIN_MAX) {
    }
    solsend_send send;
    solsend_send_init(&send, sizeof send);
    send.wire = shadow->wire;
    send.wire_bytes = shadow->bytes;
    send.quiet = 1;
    uint64_t sent_before = shadow->link->box.counts.bytes;
    rc = solsend_link_send(shadow->link, &send, NULL);
    if (rc == SOLSEND_ERR_FULL) {
        rc = 0; /* acknowledgements lag: nothing is lost by a touch that sends nothing */
    }
    if (rc == 1 && shadow->target.fd >= 0) {
        /* the bytes went out on the route; the server half gets its copy in memory */
        rc = shadow_server_feed(shadow->server, shadow->link->box.buffer,
                                (uint32_t)(shadow->link->box.counts.bytes - sent_before));
    }
    shadow->last_ns = clock_now();
    if (rc >= 0) {
        rc = shadow_server_pump(shadow->server);
    }
    return rc < 0 ? rc : 0;
}

void solsend_shadow_close(solsend_shadow *shadow)
{
    if (shadow == NULL) {
        return;
    }
    solsend_link_close(shadow->link, 0);
    shadow_server_close(shadow->server);
    endpoint_close(&shadow->target);
    free(shadow);
}
