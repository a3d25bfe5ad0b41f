#include "base/fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

/* Until the first call there is no handle, and no epoch equals this zero. */
static uint64_t before_first;
volatile const uint64_t *fork_epoch_word = &before_first;

static volatile uint64_t *page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A fork while another thread holds the lock would leave it held in the child for ever. */
static void take(void)
{
    pthread_mutex_lock(&lock);
}

static void give(void)
{
    pthread_mutex_unlock(&lock);
}

static void map_page(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        page = &before_first;
        return;
    }
    madvise(p, (size_t)bytes, MADV_WIPEONFORK);
    pthread_atfork(take, give, give);
    page = p;
    fork_epoch_word = page;
}

uint64_t fork_epoch(void)
{
    take();
    if (page == NULL) {
        map_page();
    }
    if (*page == 0) {
        /* pid and time together differ between every parent and child */
        *page = ((uint64_t)getpid() << 40) ^ clock_now() ^ 1;
        if (*page == 0) {
            *page = 1;
        }
    }
    uint64_t epoch = *page;
    give();
    return epoch;
}
