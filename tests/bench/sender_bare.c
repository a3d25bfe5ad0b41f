#include "sender_bare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bare.h"
#include "base/clock.h"

struct sender_bare {
    struct sender base;
    struct bare *bare;
    uint64_t written;
};

static int sender_bare_send(struct sender *s, const uint8_t *wire, uint32_t bytes)
{
    struct sender_bare *b = (struct sender_bare *)s;
    int rc = bare_send(b->bare, wire, bytes);
    if (rc == 1) {
        b->written++;
        return 1;
    }
    return rc == 0 ? SOLSEND_ERR_AGAIN : SOLSEND_ERR_CLOSED;
}

static int sender_bare_tend(struct sender *s)
{
    return bare_poll(((struct sender_bare *)s)->bare) == 0 ? 0 : SOLSEND_ERR_CLOSED;
}

static int sender_bare_fd(const struct sender *s)
{
    return bare_fd(((const struct sender_bare *)s)->bare);
}

static uint64_t sender_bare_timeout(const struct sender *s)
{
    (void)s;
    return clock_now() + CLOCK_NS_PER_MS;
}

static void sender_bare_flush(struct sender *s, uint32_t ms)
{
    struct sender_bare *b = (struct sender_bare *)s;
    uint64_t end = clock_now() + ms * CLOCK_NS_PER_MS, acked, ignored;
    do {
        bare_counts(b->bare, &acked, &ignored, &ignored);
    } while (acked < b->written && clock_now() < end && sender_bare_tend(s) == 0);
}

static void sender_bare_counts(struct sender *s, struct sender_counts *out)
{
    struct sender_bare *b = (struct sender_bare *)s;
    uint64_t acked, datagrams, calls;
    bare_counts(b->bare, &acked, &datagrams, &calls);
    memset(out, 0, sizeof *out);
    out->accepted = out->written = (int64_t)b->written;
    out->acked = (int64_t)acked;
    out->open = (int64_t)(b->written - acked);
    out->datagrams = (int64_t)datagrams;
    out->send_calls = (int64_t)calls;
    out->at_once = (int64_t)b->written;
    out->receive_calls = out->tended_datagrams = out->tended_calls = out->tended_written = -1;
}

static void sender_bare_close(struct sender *s)
{
    bare_close(((struct sender_bare *)s)->bare);
    free(s);
}

static const struct sender_table sender_bare_table = {
    .transport = "bare",
    .send = sender_bare_send,
    .tend = sender_bare_tend,
    .fd = sender_bare_fd,
    .timeout_ns = sender_bare_timeout,
    .flush = sender_bare_flush,
    .counts = sender_bare_counts,
    .close = sender_bare_close,
};

int sender_bare_open(struct sender **out, uint16_t port, const uint8_t secret[32],
                     const uint8_t public_key[32], uint32_t first_flight_bytes, char *why,
                     size_t why_bytes)
{
    struct sender_bare *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b == NULL) {
        snprintf(why, why_bytes, "out of memory");
        return -1;
    }
    b->base.table = &sender_bare_table;
    b->bare = bare_open(port, secret, public_key, first_flight_bytes, why, why_bytes);
    if (b->bare == NULL) {
        free(b);
        return -1;
    }
    *out = &b->base;
    return 0;
}
