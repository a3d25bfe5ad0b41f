#include "link/tickets.h"

#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "host/memory.h"

enum { TICKETS_MAX = 16 };

static struct {
    pthread_mutex_t lock;
    struct host_arena arena;
    struct ticket *tickets; /* null until the first put */
    uint32_t next;          /* the oldest: replaced next */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&cache.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&cache.lock);
}

/* In a forked child the arena is all zero: an empty cache. Returns 0 when there is no memory. */
static int prepare(void)
{
    if (cache.tickets != NULL) {
        return 1;
    }
    if (host_arena_open(&cache.arena, TICKETS_MAX * sizeof *cache.tickets, HOST_ARENA_SECRET, NULL,
                        0, NULL) < 0) {
        return 0;
    }
    /* a fork while another thread holds the lock would leave it held in the child for ever */
    pthread_atfork(lock, unlock, unlock);
    cache.tickets = (struct ticket *)(void *)cache.arena.base;
    return 1;
}

static struct ticket *find(const char *name)
{
    for (uint32_t i = 0; cache.tickets != NULL && i < TICKETS_MAX; i++) {
        if (strcmp(cache.tickets[i].name, name) == 0) {
            return &cache.tickets[i];
        }
    }
    return NULL;
}

void tickets_put(const struct ticket *ticket)
{
    lock();
    if (prepare()) {
        struct ticket *t = find(ticket->name);
        if (t == NULL) {
            t = &cache.tickets[cache.next++ % TICKETS_MAX];
        }
        *t = *ticket;
    }
    unlock();
}

int tickets_get(struct ticket *out, const char *name)
{
    lock();
    const struct ticket *t = find(name);
    if (t != NULL) {
        *out = *t;
    }
    unlock();
    return t != NULL;
}

void tickets_drop(const char *name)
{
    lock();
    struct ticket *t = find(name);
    if (t != NULL) {
        sodium_memzero(t, sizeof *t);
    }
    unlock();
}
