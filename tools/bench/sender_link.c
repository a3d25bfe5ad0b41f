#include "bench/sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENDER_LINK_EVENTS 64

struct sender_link {
    struct sender base;
    struct sender_table table; /* a copy that carries the transport's name */
    char transport[16];
    solsend_link *link;
    solsend_send send;
    int end;
    int64_t at_once, tended_datagrams, tended_calls, tended_written;
    solsend_event events[SENDER_LINK_EVENTS];
};

static int sender_link_send(struct sender *s, const uint8_t *wire, uint32_t bytes)
{
    struct sender_link *l = (struct sender_link *)s;
    uint64_t ticket;
    int rc;
    l->send.wire = wire;
    l->send.wire_bytes = bytes;
    rc = solsend_link_send(l->link, &l->send, &ticket);
    l->at_once += rc == 1;
    return rc;
}

/* What a poll sends is counted apart from what the send calls send. */
static int sender_link_poll(struct sender_link *l)
{
    solsend_link_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    int rc;
    solsend_link_stats_get(l->link, &before);
    rc = solsend_link_poll(l->link);
    solsend_link_stats_get(l->link, &after);
    l->tended_datagrams += (int64_t)(after.datagrams_sent - before.datagrams_sent);
    l->tended_calls += (int64_t)(after.send_calls - before.send_calls);
    l->tended_written += (int64_t)(after.written - before.written);
    return rc;
}

static int sender_link_tend(struct sender *s)
{
    struct sender_link *l = (struct sender_link *)s;
    int rc = sender_link_poll(l);
    while (solsend_link_drain(l->link, l->events, SENDER_LINK_EVENTS) == SENDER_LINK_EVENTS) {
    }
    if (rc < 0) {
        l->end = rc;
    }
    return l->end;
}

static int sender_link_fd(const struct sender *s)
{
    return solsend_link_fd(((const struct sender_link *)s)->link);
}

static uint64_t sender_link_timeout(const struct sender *s)
{
    return solsend_link_next_timeout_ns(((const struct sender_link *)s)->link);
}

static void sender_link_flush(struct sender *s, uint32_t ms)
{
    struct sender_link *l = (struct sender_link *)s;
    uint64_t end = solsend_now_ns() + (uint64_t)ms * 1000000;
    /* In slices: the terminal states of what is flushed must be drained to free their slots. */
    do {
        int open = solsend_link_flush(l->link, 20);
        sender_link_tend(s);
        if (open <= 0 || l->end != 0) {
            break;
        }
    } while (solsend_now_ns() < end);
}

static void sender_link_counts(struct sender *s, struct sender_counts *out)
{
    struct sender_link *l = (struct sender_link *)s;
    solsend_link_stats stats = {.size = sizeof stats};
    solsend_link_info info = {.size = sizeof info};
    memset(out, 0xff, sizeof *out);
    if (solsend_link_stats_get(l->link, &stats) != 0 ||
        solsend_link_info_get(l->link, &info) != 0) {
        return;
    }
    out->accepted = (int64_t)stats.accepted;
    out->written = (int64_t)stats.written;
    out->acked = strcmp(l->transport, "udp") == 0 ? -1 : (int64_t)stats.acked;
    out->ended = (int64_t)(stats.expired + stats.closed + stats.stopped + stats.cancelled);
    out->open = info.open;
    out->at_once = l->at_once;
    out->tended_datagrams = l->tended_datagrams;
    out->tended_calls = l->tended_calls;
    out->tended_written = l->tended_written;
    out->datagrams = (int64_t)stats.datagrams_sent;
    out->send_calls = (int64_t)stats.send_calls;
    out->receive_calls = (int64_t)stats.receive_calls;
}

static void sender_link_close(struct sender *s)
{
    struct sender_link *l = (struct sender_link *)s;
    solsend_link_close(l->link, 0);
    free(l);
}

static const struct sender_table sender_link_table = {
    .send = sender_link_send,
    .tend = sender_link_tend,
    .fd = sender_link_fd,
    .timeout_ns = sender_link_timeout,
    .flush = sender_link_flush,
    .counts = sender_link_counts,
    .close = sender_link_close,
};

solsend_link *sender_link_of(struct sender *s)
{
    return s->table->send == sender_link_send ? ((struct sender_link *)s)->link : NULL;
}

int sender_link_open(struct sender **out, const char *transport, const char *uri,
                     const solsend_link_options *options, char *why, size_t why_bytes)
{
    solsend_detail detail = {0};
    struct sender_link *l = calloc(1, sizeof *l);
    int rc;
    *out = NULL;
    if (l == NULL) {
        snprintf(why, why_bytes, "out of memory");
        return SOLSEND_ERR_MEMORY;
    }
    snprintf(l->transport, sizeof l->transport, "%s", transport);
    l->table = sender_link_table;
    l->table.transport = l->transport;
    l->base.table = &l->table;
    solsend_send_init(&l->send, sizeof l->send);
    rc = solsend_link_open(&l->link, uri, options, &detail);
    if (rc != 0) {
        snprintf(why, why_bytes, "%s: %s", uri,
                 detail.text[0] != 0 ? detail.text : solsend_error_text(rc));
        free(l);
        return rc;
    }
    rc = solsend_link_wait_admitted(l->link, 5000);
    if (rc != 0) {
        char text[200];
        solsend_link_text(l->link, text, sizeof text);
        snprintf(why, why_bytes, "%s: %s (%s)", uri, solsend_error_text(rc), text);
        sender_link_close(&l->base);
        return rc;
    }
    *out = &l->base;
    return 0;
}
