#include "tx/key_pool.h"

#include <pthread.h>
#include <stdlib.h>

#include <sodium.h>

#include <solsend/error.h>

#include "base/fork.h"
#include "host/memory.h"

/* One 4 KiB page; on hosts with larger pages the rest of it stays unused. */
enum { PAGE_SLOTS = 64 };

struct key_pool_page {
    struct host_arena arena;
    uint64_t used; /* a bit a slot */
    struct key_pool_page *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct key_pool_page *pages;
static uint64_t pages_epoch;

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child of a process whose other thread was in here must find the lock open. */
static void register_fork(void)
{
    pthread_atfork(take_lock, give_lock, give_lock);
}

/*
 * In a child the pages belong to the parent's keys. They stay mapped, all zero: a handle that is
 * used by mistake must not find another key's secret there, nor a hole.
 */
static void forget_foreign_pages(uint64_t epoch)
{
    if (pages_epoch == epoch) {
        return;
    }
    pages_epoch = epoch;
    while (pages != NULL) {
        struct key_pool_page *next = pages->next;
        free(pages);
        pages = next;
    }
}

static struct key_pool_page *page_with_room(void)
{
    for (struct key_pool_page *page = pages; page != NULL; page = page->next) {
        if (page->used != UINT64_MAX) {
            return page;
        }
    }
    struct key_pool_page *page = calloc(1, sizeof *page);
    if (page == NULL) {
        return NULL;
    }
    if (host_arena_open(&page->arena, (size_t)PAGE_SLOTS * KEY_POOL_SECRET_BYTES,
                        HOST_ARENA_LOCK | HOST_ARENA_SECRET, NULL, 0, NULL) != 0) {
        free(page);
        return NULL;
    }
    page->next = pages;
    pages = page;
    return page;
}

int key_pool_take(struct key_pool_slot *slot)
{
    pthread_once(&once, register_fork);
    uint64_t epoch = fork_epoch();
    take_lock();
    forget_foreign_pages(epoch);
    struct key_pool_page *page = page_with_room();
    if (page != NULL) {
        int index = __builtin_ctzll(~page->used);
        page->used |= UINT64_C(1) << index;
        slot->page = page;
        slot->secret = page->arena.base + (size_t)index * KEY_POOL_SECRET_BYTES;
    }
    give_lock();
    return page != NULL ? 0 : SOLSEND_ERR_MEMORY;
}

static void drop_page(struct key_pool_page *page)
{
    struct key_pool_page **at = &pages;
    while (*at != page) {
        at = &(*at)->next;
    }
    *at = page->next;
    host_arena_close(&page->arena);
    free(page);
}

void key_pool_give(struct key_pool_slot *slot)
{
    struct key_pool_page *page = slot->page;
    size_t index = (size_t)(slot->secret - page->arena.base) / KEY_POOL_SECRET_BYTES;
    sodium_memzero(slot->secret, KEY_POOL_SECRET_BYTES);
    take_lock();
    page->used &= ~(UINT64_C(1) << index);
    if (page->used == 0) {
        drop_page(page);
    }
    give_lock();
    slot->secret = NULL;
    slot->page = NULL;
}

int key_pool_is_locked(const struct key_pool_slot *slot)
{
    return slot->page->arena.locked_bytes == slot->page->arena.bytes;
}
