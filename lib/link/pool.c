#include "link/pool.h"

#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 16,
    FIRST_SHIFT = 4, /* the smallest class holds 16 bytes */
    STEPS = 4,       /* classes an octave */
    FROM_MALLOC = 0xffff,
    PAGE_BYTES = 4096,
    CACHE_LINE = 64,
    WARM_BYTES = 128 * 1024,      /* read line by line: the connection and its first objects */
    CONNECTION_BYTES = 96 * 1024, /* what ngtcp2 takes for a connection without transactions */
    TRANSACTION_BYTES = 1024      /* and for each that is open: stream, frame, packet record */
};

/* Stands before every block; a multiple of the alignment. */
struct head {
    uint64_t bytes; /* of the block, without this head */
    uint64_t class; /* index of its list, or FROM_MALLOC */
};

_Static_assert(sizeof(struct head) == ALIGN, "blocks stay aligned");

static uint64_t class_bytes(unsigned class)
{
    uint64_t octave = UINT64_C(1) << (class / STEPS + FIRST_SHIFT);
    uint64_t bytes = octave + octave / STEPS * (class % STEPS);
    return (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

/* The smallest class that holds `bytes`, or POOL_CLASSES. */
static unsigned class_of(uint64_t bytes)
{
    if (bytes <= (1u << FIRST_SHIFT)) {
        return 0;
    }
    unsigned octave = 63 - (unsigned)__builtin_clzll(bytes) - FIRST_SHIFT;
    unsigned class = octave * STEPS;
    while (class < POOL_CLASSES && class_bytes(class) < bytes) {
        class ++;
    }
    return class;
}

static struct head *take_from_malloc(struct pool *pool, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    struct head *head = malloc(sizeof *head + bytes);
    if (head != NULL) {
        head->bytes = bytes;
        head->class = FROM_MALLOC;
        pool->overflows++;
    }
    return head;
}

static struct head *take(struct pool *pool, size_t bytes)
{
    unsigned class = class_of(bytes);
    if (class >= POOL_CLASSES) {
        return take_from_malloc(pool, bytes);
    }
    struct head *head = pool->free[class];
    if (head != NULL) {
        memcpy(&pool->free[class], head + 1, sizeof(void *));
        return head;
    }
    size_t need = sizeof *head + class_bytes(class);
    if (need > pool->bytes - pool->carved) {
        return take_from_malloc(pool, bytes);
    }
    head = (struct head *)(void *)(pool->base + pool->carved);
    pool->carved += need;
    head->bytes = need - sizeof *head;
    head->class = class;
    return head;
}

static void *on_malloc(size_t bytes, void *user)
{
    struct pool *pool = user;
    struct head *head = take(pool, bytes);
    if (head == NULL) {
        return NULL;
    }
    pool->in_use += sizeof *head + head->bytes;
    return head + 1;
}

static void on_free(void *block, void *user)
{
    struct pool *pool = user;
    if (block == NULL) {
        return;
    }
    struct head *head = (struct head *)block - 1;
    pool->in_use -= sizeof *head + head->bytes;
    if (head->class == FROM_MALLOC) {
        free(head);
        return;
    }
    memcpy(block, &pool->free[head->class], sizeof(void *));
    pool->free[head->class] = head;
}

static void *on_calloc(size_t count, size_t bytes, void *user)
{
    if (bytes != 0 && count > SIZE_MAX / bytes) {
        return NULL;
    }
    void *block = on_malloc(count * bytes, user);
    if (block != NULL) {
        memset(block, 0, count * bytes);
    }
    return block;
}

static void *on_realloc(void *block, size_t bytes, void *user)
{
    if (block == NULL) {
        return on_malloc(bytes, user);
    }
    const struct head *head = (struct head *)block - 1;
    if (head->bytes >= bytes) {
        return block;
    }
    void *larger = on_malloc(bytes, user);
    if (larger != NULL) {
        memcpy(larger, block, (size_t)head->bytes);
        on_free(block, user);
    }
    return larger;
}

size_t pool_bytes(uint32_t transactions)
{
    return CONNECTION_BYTES + (size_t)transactions * TRANSACTION_BYTES;
}

void pool_open(struct pool *pool, uint8_t *base, size_t bytes)
{
    memset(pool, 0, sizeof *pool);
    pool->base = base;
    pool->bytes = POOL_WATCHED ? 0 : bytes;
    pool->mem.user_data = pool;
    pool->mem.malloc = on_malloc;
    pool->mem.free = on_free;
    pool->mem.calloc = on_calloc;
    pool->mem.realloc = on_realloc;
}

void pool_warm(const struct pool *pool)
{
    const volatile uint8_t *base = pool->base;
    for (size_t i = 0; i < pool->carved; i += i < WARM_BYTES ? CACHE_LINE : PAGE_BYTES) {
        (void)base[i];
    }
}
