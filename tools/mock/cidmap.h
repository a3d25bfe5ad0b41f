/* Connection IDs to connections: open addressing with linear probing, grows, no tombstones. */
#ifndef MOCK_CIDMAP_H
#define MOCK_CIDMAP_H

#include <stddef.h>
#include <stdint.h>

#define CIDMAP_CID_BYTES 20

struct cidmap_entry {
    void *value; /* null: empty */
    uint8_t bytes;
    uint8_t cid[CIDMAP_CID_BYTES];
};

struct cidmap {
    struct cidmap_entry *entries;
    uint32_t mask;
    uint32_t used;
};

int cidmap_open(struct cidmap *map);
void cidmap_close(struct cidmap *map);

/* `value` is not null. Replaces an older one. Returns 0 or -1 (no memory or a bad length). */
int cidmap_put(struct cidmap *map, const uint8_t *cid, size_t bytes, void *value);
void *cidmap_get(const struct cidmap *map, const uint8_t *cid, size_t bytes);
void cidmap_remove(struct cidmap *map, const uint8_t *cid, size_t bytes);

#endif
