#include "host/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/privilege.h"
#include "host/step.h"
#include "host/sysroot.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static const char lock_cost[] = "a page the kernel takes back costs its next touch 0.66 us, or "
                                "milliseconds where it comes from swap";
static const char lock_fix[] = "host: LimitMEMLOCK=infinity (systemd) or ulimit -l unlimited; "
                               "container: --ulimit memlock=-1:-1 or --cap-add IPC_LOCK";
static const char huge_cost[] = "one TLB entry for each 4 KiB instead of each huge page; no fault "
                                "later: every page is touched at open";

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t huge_page_bytes(void)
{
    char text[4096];
    const char *line = NULL;
    if (host_sysroot_read("/proc/meminfo", text, sizeof text) > 0) {
        line = strstr(text, "\nHugepagesize:");
    }
    size_t bytes = line != NULL ? (size_t)strtoull(line + 14, NULL, 10) * 1024 : 0;
    return bytes != 0 ? bytes : (size_t)2 << 20;
}

/* Whole units, or 0 if that does not fit a size_t. */
static size_t rounded(size_t bytes, size_t unit)
{
    return bytes > SIZE_MAX - (unit - 1) ? 0 : (bytes + unit - 1) / unit * unit;
}

static void *map(size_t bytes, int extra)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Kernels before 5.14 lack the advice; then each page is written, which is the same but slower. */
static int prefault(uint8_t *base, size_t bytes)
{
    if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0) {
        return 0;
    }
    if (errno != EINVAL) {
        return SOLSEND_ERR_MEMORY;
    }
    for (size_t at = 0; at < bytes; at += page_bytes()) {
        *(volatile uint8_t *)(base + at) = 0;
    }
    return 0;
}

static int map_huge(struct host_arena *arena, size_t bytes, solsend_step *step)
{
    size_t unit = huge_page_bytes();
    size_t whole = rounded(bytes, unit);
    int64_t wanted = (int64_t)(whole != 0 ? whole : bytes);
    if ((arena->flags & HOST_ARENA_SECRET) != 0) {
        return host_step_fill(step, SOLSEND_STEP_HUGE_PAGES, SOLSEND_ERR_NOT_SUPPORTED, wanted, 0,
                              huge_cost, "keep secrets apart from slots: a secret needs one page",
                              "the kernel cannot wipe huge pages in a forked child "
                              "(MADV_WIPEONFORK)");
    }
    int error = ENOMEM;
    void *p = whole != 0 ? map(whole, MAP_HUGETLB) : NULL;
    if (p == NULL) {
        error = whole != 0 ? errno : ENOMEM;
    } else if (prefault(p, whole) != 0) {
        munmap(p, whole);
        p = NULL;
    }
    if (p != NULL) {
        arena->base = p;
        arena->bytes = whole;
        arena->huge = 1;
        return host_step_fill(step, SOLSEND_STEP_HUGE_PAGES, 0, wanted, wanted, NULL, NULL, "%s",
                              "");
    }
    int64_t reserved = 0;
    if (host_sysroot_number("/proc/sys/vm/nr_hugepages", &reserved) != 0) {
        host_step_fill(step, SOLSEND_STEP_HUGE_PAGES, SOLSEND_ERR_NOT_SUPPORTED, wanted, 0,
                       huge_cost, "", "mmap(MAP_HUGETLB): %s; vm.nr_hugepages is not visible here",
                       host_errno_name(error));
    } else {
        host_step_fill(step, SOLSEND_STEP_HUGE_PAGES, SOLSEND_ERR_NOT_SUPPORTED, wanted, 0,
                       huge_cost, "", "mmap(MAP_HUGETLB): %s; vm.nr_hugepages is %lld, %lld needed",
                       host_errno_name(error), (long long)reserved, (long long)(wanted / unit));
    }
    host_step_fix(step,
                  "host: sysctl -w vm.nr_hugepages=%lld before the start; container: the same, on "
                  "its host",
                  (long long)(reserved + wanted / (int64_t)unit));
    return SOLSEND_ERR_NOT_SUPPORTED;
}

static int map_plain(struct host_arena *arena, size_t bytes)
{
    size_t whole = rounded(bytes, page_bytes());
    uint8_t *p = whole != 0 ? map(whole, 0) : NULL;
    if (p == NULL) {
        return SOLSEND_ERR_MEMORY;
    }
    /* A transparent huge page costs 66 us at its first touch, and khugepaged would take the pages
     * away under a running sender to merge them. Refused only where there is no THP at all. */
    madvise(p, whole, MADV_NOHUGEPAGE);
    if ((arena->flags & HOST_ARENA_SECRET) != 0 && madvise(p, whole, MADV_WIPEONFORK) != 0) {
        munmap(p, whole);
        return SOLSEND_ERR_MEMORY;
    }
    if (prefault(p, whole) != 0) {
        munmap(p, whole);
        return SOLSEND_ERR_MEMORY;
    }
    arena->base = p;
    arena->bytes = whole;
    return 0;
}

/* Locks as much from the base on as the limit lets us: mlock itself is all or nothing. */
static int lock_most(struct host_arena *arena)
{
    size_t page = page_bytes();
    size_t chunk = arena->bytes;
    int error = 0;
    while (arena->locked_bytes < arena->bytes && chunk >= page) {
        size_t left = arena->bytes - arena->locked_bytes;
        chunk = chunk < left ? chunk : left;
        /* Not mlock: sanitizers turn that into a no-op that claims success. */
        if (syscall(SYS_mlock, arena->base + arena->locked_bytes, chunk) == 0) {
            arena->locked_bytes += chunk;
            continue;
        }
        error = error != 0 ? error : errno;
        chunk = chunk / 2 / page * page;
    }
    return error;
}

static void lock(struct host_arena *arena, solsend_step *step)
{
    int64_t wanted = (int64_t)arena->bytes;
    if (arena->huge) {
        /* Huge pages never leave memory, and mlock would count them against the limit. */
        arena->locked_bytes = arena->bytes;
        host_step_fill(step, SOLSEND_STEP_LOCK, 0, wanted, wanted, NULL, NULL, "%s", "");
        return;
    }
    int64_t before = host_locked_bytes();
    int error = lock_most(arena);
    int64_t got = (int64_t)arena->locked_bytes;
    if (got == wanted) {
        host_step_fill(step, SOLSEND_STEP_LOCK, 0, wanted, got, NULL, NULL, "%s", "");
        return;
    }
    uint64_t limit = host_limit(RLIMIT_MEMLOCK);
    int code = got > 0 ? SOLSEND_ERR_CLAMPED : SOLSEND_ERR_PRIVILEGE;
    const char *capability = host_capability_text(HOST_CAP_IPC_LOCK);
    if (limit == UINT64_MAX) {
        code = got > 0 ? SOLSEND_ERR_CLAMPED : SOLSEND_ERR_NOT_SUPPORTED;
        host_step_fill(step, SOLSEND_STEP_LOCK, code, wanted, got, lock_cost, lock_fix,
                       "mlock: %s although RLIMIT_MEMLOCK is unlimited; a seccomp filter or the "
                       "memory group may forbid it",
                       host_errno_name(error));
    } else if (before < 0) {
        host_step_fill(step, SOLSEND_STEP_LOCK, code, wanted, got, lock_cost, lock_fix,
                       "mlock: %s; RLIMIT_MEMLOCK is %llu bytes; %s", host_errno_name(error),
                       (unsigned long long)limit, capability);
    } else {
        host_step_fill(step, SOLSEND_STEP_LOCK, code, wanted, got, lock_cost, lock_fix,
                       "mlock: %s; RLIMIT_MEMLOCK is %llu bytes, %lld were in use; %s",
                       host_errno_name(error), (unsigned long long)limit, (long long)before,
                       capability);
    }
}

int host_arena_open(struct host_arena *arena, size_t bytes, uint32_t flags, solsend_step *steps,
                    uint32_t max_steps, uint32_t *step_count)
{
    uint32_t used = 0;
    memset(arena, 0, sizeof *arena);
    if (step_count != NULL) {
        *step_count = 0;
    }
    if (bytes == 0) {
        return SOLSEND_ERR_USAGE;
    }
    arena->flags = flags;
    if ((flags & HOST_ARENA_HUGE) != 0) {
        solsend_step *step = host_step_at(steps, max_steps, used);
        map_huge(arena, bytes, step);
        used += step != NULL;
    }
    if (arena->base == NULL && map_plain(arena, bytes) != 0) {
        memset(arena, 0, sizeof *arena);
        return SOLSEND_ERR_MEMORY;
    }
    if ((flags & HOST_ARENA_SECRET) != 0) {
        madvise(arena->base, arena->bytes, MADV_DONTDUMP);
    }
    if ((flags & HOST_ARENA_LOCK) != 0) {
        solsend_step *step = host_step_at(steps, max_steps, used);
        lock(arena, step);
        used += step != NULL;
    }
    if (step_count != NULL) {
        *step_count = used;
    }
    return 0;
}

void host_arena_close(struct host_arena *arena)
{
    if (arena->base == NULL) {
        return;
    }
    if ((arena->flags & HOST_ARENA_SECRET) != 0) {
        explicit_bzero(arena->base, arena->bytes);
    }
    munmap(arena->base, arena->bytes);
    memset(arena, 0, sizeof *arena);
}
