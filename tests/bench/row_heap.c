/* What one more warm connection costs in heap; the library's own arena stands beside it. */
#include <string.h>

#include "bench/allocations.h"
#include "suite.h"

#define ROW_HEAP_LINKS 50
#define ROW_HEAP_SENDS 16

static const char row_heap_name[] = "heap per warm connection, KB";

struct row_heap {
    solsend_key *keys[ROW_HEAP_LINKS]; /* one each: leaders limit connections per key */
    solsend_link *links[ROW_HEAP_LINKS];
};

/* Bytes of the arena that the link locked or wanted locked. */
static int64_t row_heap_arena(const solsend_link *link)
{
    solsend_step steps[16];
    int n = solsend_link_steps(link, steps, 16);
    for (int i = 0; i < n && i < 16; i++) {
        if (steps[i].step == SOLSEND_STEP_LOCK) {
            return steps[i].wanted;
        }
    }
    return -1;
}

/* Every key gets a stake: a leader takes only a few connections from the unstaked of one address.
 */
static int row_heap_keys(struct suite *s, struct row_heap *h, const struct receiver *r)
{
    for (uint32_t i = 0; i < ROW_HEAP_LINKS; i++) {
        uint8_t public_key[32];
        if (solsend_key_random(&h->keys[i]) != 0 ||
            solsend_key_public(h->keys[i], public_key) != 0) {
            suite_fail(s, "heap: no key");
            return -1;
        }
        mock_stake(r->mock, public_key, 1000000000000);
    }
    return 0;
}

/* Warm is: it has sent, and its ACKs have come. */
static int row_heap_warm(struct suite *s, solsend_link *link, uint32_t first)
{
    solsend_event events[ROW_HEAP_SENDS];
    solsend_send send;
    int rc = 0;
    solsend_send_init(&send, sizeof send);
    for (uint32_t i = 0; rc >= 0 && i < ROW_HEAP_SENDS; i++) {
        send.wire = wires_at(&s->large, first + i);
        send.wire_bytes = s->large.bytes;
        rc = solsend_link_send(link, &send, NULL);
    }
    if (rc >= 0) {
        rc = solsend_link_flush(link, 2000);
    }
    while (solsend_link_drain(link, events, ROW_HEAP_SENDS) > 0) {
    }
    if (rc != 0) {
        suite_fail(s, "heap: %s", rc < 0 ? solsend_error_text(rc) : "not all was acknowledged");
    }
    return rc;
}

static int row_heap_links(struct suite *s, struct row_heap *h, const struct receiver *r)
{
    solsend_link_options o;
    solsend_link_options_init(&o, sizeof o);
    for (uint32_t i = 0; i < ROW_HEAP_LINKS; i++) {
        solsend_detail detail = {0};
        int rc;
        o.identity = h->keys[i];
        rc = solsend_link_open(&h->links[i], r->uri, &o, &detail);
        if (rc == 0) {
            rc = solsend_link_wait_admitted(h->links[i], 3000);
        }
        if (rc != 0) {
            suite_fail(s, "heap: link %u: %s %s", i, solsend_error_text(rc), detail.text);
            return -1;
        }
        if (row_heap_warm(s, h->links[i], i * ROW_HEAP_SENDS) != 0) {
            return -1;
        }
    }
    return 0;
}

void row_heap(struct suite *s)
{
    static struct row_heap h;
    struct receiver r;
    int64_t before, after;
    if (!allocations_available()) {
        suite_row_missing(s, row_heap_name, 50, 60, "a sanitizer owns malloc");
        return;
    }
    if (suite_receiver(s, &r, "agave-4.3", NULL) != 0) {
        return;
    }
    if (row_heap_keys(s, &h, &r) == 0) {
        before = allocations_live_bytes();
        if (row_heap_links(s, &h, &r) == 0) {
            after = allocations_live_bytes();
            suite_row(s, row_heap_name, (double)(after - before) / ROW_HEAP_LINKS / 1000, 50, 60,
                      "%d links; beside it an arena of %.0f KB for 256 slots", ROW_HEAP_LINKS,
                      (double)row_heap_arena(h.links[0]) / 1000);
        }
    }
    for (uint32_t i = 0; i < ROW_HEAP_LINKS; i++) {
        solsend_link_close(h.links[i], 0);
        solsend_key_close(h.keys[i]);
    }
    memset(&h, 0, sizeof h);
    receiver_close(&r);
}
