#include "mock/connection.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_PARTS 256u
#define APART_PARTS 256u /* streams in several fragments at a time; the oldest gives way */

/* ---- memory -----------------------------------------------------------------------------------
 */

static struct server_block *block_take(struct server *s)
{
    struct server_block *block = s->blocks;
    if (block != NULL) {
        s->blocks = block->next;
        return block;
    }
    return malloc(sizeof *block);
}

static void part_clear(struct server *s, struct reassembly_part *part)
{
    if (part->block != NULL) {
        part->block->next = s->blocks;
        s->blocks = part->block;
    }
    memset(part, 0, sizeof *part);
}

static void part_append(struct server *s, struct reassembly_part *part, const uint8_t *data,
                        size_t bytes, int fin, uint64_t received_ns)
{
    if (part->block == NULL) {
        part->block = block_take(s);
    }
    if (part->block != NULL && bytes > 0 && part->bytes < SERVER_BLOCK_BYTES) {
        size_t room = SERVER_BLOCK_BYTES - part->bytes;
        memcpy(part->block->data + part->bytes, data, bytes < room ? bytes : room);
    }
    part->bytes += (uint32_t)bytes;
    part->frames++;
    part->received_ns = received_ns;
    part->state = fin ? REASSEMBLY_WHOLE : REASSEMBLY_PART;
}

void reassembly_close(struct connection *c)
{
    struct reassembly *r = &c->reassembly;
    for (uint32_t i = 0; r->parts != NULL && i <= r->mask; i++) {
        part_clear(c->server, &r->parts[i]);
    }
    free(r->parts);
    memset(r, 0, sizeof *r);
}

static uint64_t stream_limit(const struct server *s)
{
    return s->fault->stream_bytes == FAULT_DEFAULT ? s->profile->stream_bytes
                                                   : s->fault->stream_bytes;
}

/* ---- each stream on its own -------------------------------------------------------------------
 */

static struct reassembly_part *apart_find(const struct reassembly *r, uint64_t ordinal)
{
    for (uint32_t i = 1; r->parts != NULL && i <= APART_PARTS; i++) {
        struct reassembly_part *part = &r->parts[(r->apart_next - i) & r->mask];
        if (part->ordinal == ordinal + 1) {
            return part;
        }
    }
    return NULL;
}

static struct reassembly_part *apart_add(struct connection *c, uint64_t ordinal)
{
    struct reassembly *r = &c->reassembly;
    if (r->parts == NULL) {
        r->parts = calloc(APART_PARTS, sizeof *r->parts);
        r->mask = APART_PARTS - 1;
        if (r->parts == NULL) {
            return NULL;
        }
    }
    struct reassembly_part *part = &r->parts[r->apart_next++ & r->mask];
    part_clear(c->server, part);
    part->ordinal = ordinal + 1;
    return part;
}

int reassembly_gap(const struct connection *c, uint64_t ordinal, uint64_t offset)
{
    const struct reassembly *r = &c->reassembly;
    const struct reassembly_part *part = NULL;
    if (offset == 0) {
        return 0;
    }
    if (!c->server->profile->reads_in_order) {
        part = apart_find(r, ordinal);
    } else if (ordinal < r->next) {
        return 0;
    } else if (ordinal < r->opened && r->parts != NULL) {
        part = &r->parts[ordinal & r->mask];
    }
    return part == NULL || (part->state <= REASSEMBLY_PART && offset > part->bytes);
}

static void apart_data(struct connection *c, uint64_t ordinal, uint64_t offset, const uint8_t *data,
                       size_t bytes, int fin)
{
    if (offset == 0 && fin) {
        connection_transaction(c, data, bytes, 1, c->received_ns);
        connection_stream_over(c, c->received_ns);
        return;
    }
    struct reassembly_part *part = apart_find(&c->reassembly, ordinal);
    if (part == NULL && offset == 0) {
        part = apart_add(c, ordinal);
    }
    if (part == NULL || part->state > REASSEMBLY_PART || offset != part->bytes) {
        return; /* evicted, or over */
    }
    part_append(c->server, part, data, bytes, fin, c->received_ns);
    if (fin) {
        if (part->block != NULL && part->bytes <= SERVER_BLOCK_BYTES) {
            connection_transaction(c, part->block->data, part->bytes, part->frames,
                                   part->received_ns);
        }
        connection_stream_over(c, c->received_ns);
    }
}

/* ---- one stream at a time ---------------------------------------------------------------------
 */

static int in_order_reserve(struct reassembly *r)
{
    uint64_t span = r->opened - r->next;
    if (r->parts != NULL && span <= r->mask) {
        return 0;
    }
    uint32_t count = r->parts == NULL ? FIRST_PARTS : (r->mask + 1) * 2;
    while (count <= span) {
        count *= 2;
    }
    struct reassembly_part *parts = calloc(count, sizeof *parts);
    if (parts == NULL) {
        return -1;
    }
    for (uint32_t i = 0; r->parts != NULL && i <= r->mask; i++) {
        uint64_t ordinal = r->next + i;
        parts[ordinal & (count - 1)] = r->parts[ordinal & r->mask];
    }
    free(r->parts);
    r->parts = parts;
    r->mask = count - 1;
    return 0;
}

/* Passes the throttle for the stream at hand, or goes to sleep. Returns 1 or 0. */
static int begin(struct connection *c, uint64_t now_ns)
{
    struct reassembly *r = &c->reassembly;
    struct server *s = c->server;
    struct admission_peer *peer = c->seat.peer;
    int throttles = s->profile->throttles && !s->fault->throttle_off && peer != NULL;
    if (r->asleep && now_ns < r->wake_ns) {
        return 0;
    }
    if (throttles) {
        uint64_t quota = throttle_quota(&s->admission.load, peer->staked ? peer->stake : 0,
                                        s->admission.stake_total);
        /* Agave looks once before it sleeps and not again after. */
        uint64_t wait = r->asleep ? 0 : throttle_wait(&peer->window, quota, now_ns);
        if (wait != 0) {
            TALLY_ADD(s->tally, throttle_waits, 1);
            r->asleep = 1;
            r->wake_ns = now_ns + wait;
            return 0;
        }
        throttle_read(&peer->window, &s->admission.load, peer->staked, now_ns);
    }
    r->asleep = 0;
    r->reading = 1;
    r->wake_ns = now_ns + s->profile->chunk_ns;
    return 1;
}

static void finish(struct connection *c, uint64_t now_ns)
{
    struct reassembly *r = &c->reassembly;
    if (r->parts != NULL) {
        part_clear(c->server, &r->parts[r->next & r->mask]);
    }
    r->next++;
    r->reading = 0;
    connection_stream_over(c, now_ns);
}

/* Takes a whole stream, or dooms the connection. */
static void whole(struct connection *c, const uint8_t *data, uint64_t bytes, uint32_t frames,
                  uint64_t received_ns)
{
    if (bytes == 0 || bytes > stream_limit(c->server)) {
        connection_doom(c, 5, "invalid_stream");
        return;
    }
    connection_transaction(c, data, bytes, frames, received_ns);
}

/* Reads what there is of the current stream. Returns 1 when the next one is due. */
static int step(struct connection *c, uint64_t now_ns)
{
    struct reassembly *r = &c->reassembly;
    struct reassembly_part *part = &r->parts[r->next & r->mask];
    uint32_t fresh = part->bytes - part->read;
    if (fresh > 0) {
        connection_consumed(c, r->next, fresh, part->state == REASSEMBLY_PART);
        part->read = part->bytes;
        r->wake_ns = now_ns + c->server->profile->chunk_ns;
    }
    if (part->state == REASSEMBLY_WHOLE) {
        whole(c, part->block == NULL ? NULL : part->block->data, part->bytes, part->frames,
              part->received_ns);
    } else if (part->bytes > stream_limit(c->server)) {
        connection_doom(c, 5, "invalid_stream");
    } else if (part->state != REASSEMBLY_GONE) {
        if (now_ns < r->wake_ns) {
            return 0;
        }
        TALLY_ADD(c->server->tally, chunk_timeouts, 1);
        connection_stop_stream(c, r->next, 0);
    }
    if (c->doom == CONNECTION_NO_DOOM) {
        finish(c, now_ns);
    }
    return 1;
}

void reassembly_run(struct connection *c, uint64_t now_ns)
{
    struct reassembly *r = &c->reassembly;
    while (c->doom == CONNECTION_NO_DOOM && r->next < r->opened &&
           (r->reading || begin(c, now_ns)) && step(c, now_ns)) {
    }
}

static void in_order_data(struct connection *c, uint64_t ordinal, uint64_t offset,
                          const uint8_t *data, size_t bytes, int fin, uint64_t now_ns)
{
    struct reassembly *r = &c->reassembly;
    if (ordinal < r->next) { /* given up before it came */
        connection_consumed(c, ordinal, bytes, 0);
        connection_stop_stream(c, ordinal, 0);
        return;
    }
    if (ordinal >= r->opened) {
        r->opened = ordinal + 1;
    }
    /* The common case: the stream at hand, whole, in one frame. Nothing is copied. */
    if (ordinal == r->next && offset == 0 && fin && !r->reading && begin(c, now_ns)) {
        connection_consumed(c, ordinal, bytes, 0);
        whole(c, data, bytes, 1, c->received_ns);
        finish(c, now_ns);
    } else if (in_order_reserve(r) != 0) {
        connection_doom(c, 1, "dropped");
    } else if (r->parts[ordinal & r->mask].state <= REASSEMBLY_PART) {
        part_append(c->server, &r->parts[ordinal & r->mask], data, bytes, fin, c->received_ns);
    }
    reassembly_run(c, now_ns);
}

void reassembly_data(struct connection *c, uint64_t ordinal, uint64_t offset, const uint8_t *data,
                     size_t bytes, int fin, uint64_t now_ns)
{
    if (c->server->profile->reads_in_order) {
        in_order_data(c, ordinal, offset, data, bytes, fin, now_ns);
    } else {
        apart_data(c, ordinal, offset, data, bytes, fin);
    }
}

void reassembly_gone(struct connection *c, uint64_t ordinal, uint64_t now_ns)
{
    struct reassembly *r = &c->reassembly;
    if (!c->server->profile->reads_in_order) {
        struct reassembly_part *part = apart_find(r, ordinal);
        if (part != NULL) {
            part->state = REASSEMBLY_GONE;
        }
        return;
    }
    if (ordinal < r->next) {
        return;
    }
    if (ordinal >= r->opened) {
        r->opened = ordinal + 1;
    }
    if (in_order_reserve(r) == 0) {
        r->parts[ordinal & r->mask].state = REASSEMBLY_GONE;
    }
    reassembly_run(c, now_ns);
}

uint64_t reassembly_next(const struct connection *c)
{
    const struct reassembly *r = &c->reassembly;
    return r->next < r->opened && (r->asleep || r->reading) ? r->wake_ns : UINT64_MAX;
}
