/*
 * The memory that ngtcp2 takes for one connection: carved from a preallocated region and kept in
 * lists by size when freed, so that a warm connection never calls malloc. When the region is used
 * up it falls back to malloc, which is counted and never a failure by itself.
 */
#ifndef LINK_POOL_H
#define LINK_POOL_H

#include <ngtcp2/ngtcp2.h>
#include <stddef.h>
#include <stdint.h>

/* Under AddressSanitizer every block comes from malloc, so that it is watched. */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_WATCHED 1
#endif
#endif
#ifndef POOL_WATCHED
#define POOL_WATCHED 0
#endif

enum { POOL_CLASSES = 49 }; /* four sizes an octave, 16 bytes to 64 KiB */

struct pool {
    ngtcp2_mem mem; /* hand its address to ngtcp2 */
    uint8_t *base;
    size_t bytes;
    size_t carved;      /* bytes of the region given out at least once */
    size_t in_use;      /* bytes given out now, region and malloc, heads included */
    uint64_t overflows; /* allocations that went to malloc */
    void *free[POOL_CLASSES];
};

/* How large a region a connection with so many open transactions wants. */
size_t pool_bytes(uint32_t transactions);

/* Lays a pool over `bytes` bytes at `base`, 16-byte aligned; both stay the caller's. */
void pool_open(struct pool *pool, uint8_t *base, size_t bytes);

/*
 * Reads what was ever given out, the first part line by line and the rest a byte a page: contents
 * and address translations stay at hand.
 */
void pool_warm(const struct pool *pool);

#endif
