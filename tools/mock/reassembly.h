/*
 * From stream bytes to whole transactions. Agave reads one stream at a time in order of their IDs;
 * Firedancer takes each on its own, but only in-order fragments.
 */
#ifndef MOCK_REASSEMBLY_H
#define MOCK_REASSEMBLY_H

#include <stddef.h>
#include <stdint.h>

struct connection;
struct server_block;

enum reassembly_state {
    REASSEMBLY_EMPTY,
    REASSEMBLY_PART,  /* some bytes came */
    REASSEMBLY_WHOLE, /* FIN came */
    REASSEMBLY_GONE,  /* reset by the peer, or stopped by us */
};

struct reassembly_part {
    struct server_block *block; /* null: no bytes */
    uint64_t received_ns;       /* newest bytes */
    uint64_t ordinal;           /* apart mode: 1 + stream ordinal; 0: free */
    uint32_t bytes;             /* held; more than a block: cut, but counted */
    uint32_t read;              /* of them, consumed by the reader */
    uint32_t frames;
    enum reassembly_state state;
};

struct reassembly {
    /* In order. */
    uint64_t next;                 /* stream ordinal that is being read, or will be */
    uint64_t opened;               /* one past the highest seen */
    int reading;                   /* `next` passed the throttle */
    int asleep;                    /* throttled until wake_ns */
    uint64_t wake_ns;              /* asleep: end of the window; reading: end of patience */
    struct reassembly_part *parts; /* in order: by ordinal & mask; apart: a ring */
    uint32_t mask;
    uint32_t apart_next;
};

/* Stream bytes in order, as ngtcp2 delivers them. */
void reassembly_data(struct connection *c, uint64_t ordinal, uint64_t offset, const uint8_t *data,
                     size_t bytes, int fin, uint64_t now_ns);

/* The peer reset a stream, or we stopped it. */
void reassembly_gone(struct connection *c, uint64_t ordinal, uint64_t now_ns);

/* Reads on, if it may. */
void reassembly_run(struct connection *c, uint64_t now_ns);

/* When reassembly_run is to be called at the latest, or UINT64_MAX. */
uint64_t reassembly_next(const struct connection *c);

/* 1 if a fragment at `offset` would leave a gap in its stream. */
int reassembly_gap(const struct connection *c, uint64_t ordinal, uint64_t offset);

void reassembly_close(struct connection *c);

#endif
