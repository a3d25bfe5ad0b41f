/*
 * Where secrets live: pages that are locked, left out of core dumps, wiped in a forked child, each
 * shared by many keys. A page for every key would use up a small RLIMIT_MEMLOCK after a few.
 */
#ifndef TX_KEY_POOL_H
#define TX_KEY_POOL_H

#include <stdint.h>

enum { KEY_POOL_SECRET_BYTES = 64 };

struct key_pool_page;

struct key_pool_slot {
    uint8_t *secret; /* KEY_POOL_SECRET_BYTES, zeroed */
    struct key_pool_page *page;
};

/* Takes a slot. Returns 0 or MEMORY. Threads: any. */
int key_pool_take(struct key_pool_slot *slot);

/* Wipes the slot and gives it back. Only in the process that took it. Threads: any. */
void key_pool_give(struct key_pool_slot *slot);

/* 1 if the slot's page cannot leave memory. */
int key_pool_is_locked(const struct key_pool_slot *slot);

#endif
