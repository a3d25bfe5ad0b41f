#include "mock/cidmap.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ENTRIES 256u

static uint32_t home(const struct cidmap *map, const uint8_t *cid, size_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ cid[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(h >> 24) & map->mask;
}

static struct cidmap_entry *find(const struct cidmap *map, const uint8_t *cid, size_t bytes)
{
    uint32_t at = home(map, cid, bytes);
    for (;;) {
        struct cidmap_entry *e = &map->entries[at];
        if (e->value == NULL || (e->bytes == bytes && memcmp(e->cid, cid, bytes) == 0)) {
            return e;
        }
        at = (at + 1) & map->mask;
    }
}

int cidmap_open(struct cidmap *map)
{
    map->entries = calloc(FIRST_ENTRIES, sizeof *map->entries);
    map->mask = FIRST_ENTRIES - 1;
    map->used = 0;
    return map->entries == NULL ? -1 : 0;
}

void cidmap_close(struct cidmap *map)
{
    free(map->entries);
    memset(map, 0, sizeof *map);
}

static int grow(struct cidmap *map)
{
    struct cidmap bigger = {.mask = map->mask * 2 + 1, .used = map->used};
    bigger.entries = calloc((size_t)bigger.mask + 1, sizeof *bigger.entries);
    if (bigger.entries == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i <= map->mask; i++) {
        const struct cidmap_entry *e = &map->entries[i];
        if (e->value != NULL) {
            *find(&bigger, e->cid, e->bytes) = *e;
        }
    }
    free(map->entries);
    *map = bigger;
    return 0;
}

int cidmap_put(struct cidmap *map, const uint8_t *cid, size_t bytes, void *value)
{
    if (bytes > CIDMAP_CID_BYTES) {
        return -1;
    }
    if (map->used >= map->mask / 2 && grow(map) != 0) {
        return -1;
    }
    struct cidmap_entry *e = find(map, cid, bytes);
    if (e->value == NULL) {
        map->used++;
        e->bytes = (uint8_t)bytes;
        memcpy(e->cid, cid, bytes);
    }
    e->value = value;
    return 0;
}

void *cidmap_get(const struct cidmap *map, const uint8_t *cid, size_t bytes)
{
    return bytes > CIDMAP_CID_BYTES ? NULL : find(map, cid, bytes)->value;
}

void cidmap_remove(struct cidmap *map, const uint8_t *cid, size_t bytes)
{
    if (bytes > CIDMAP_CID_BYTES) {
        return;
    }
    struct cidmap_entry *e = find(map, cid, bytes);
    if (e->value == NULL) {
        return;
    }
    /* Close the hole: every later entry of the run that may stand earlier moves up. */
    uint32_t hole = (uint32_t)(e - map->entries);
    uint32_t at = hole;
    for (;;) {
        at = (at + 1) & map->mask;
        const struct cidmap_entry *later = &map->entries[at];
        if (later->value == NULL) {
            break;
        }
        uint32_t from_home = (at - home(map, later->cid, later->bytes)) & map->mask;
        if (from_home >= ((at - hole) & map->mask)) {
            map->entries[hole] = *later;
            hole = at;
        }
    }
    memset(&map->entries[hole], 0, sizeof map->entries[hole]);
    map->used--;
}
