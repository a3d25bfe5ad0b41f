#include "bench/allocations.h"

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define ALLOCATIONS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATIONS_SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(ALLOCATIONS_SANITIZED)

/* A chunk's header beside what malloc_usable_size tells. */
#define ALLOCATIONS_HEADER sizeof(size_t)

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static __thread uint64_t allocations_calls;
static __thread int64_t allocations_bytes;

static void *allocations_took(void *p)
{
    allocations_calls++;
    if (p != NULL) {
        allocations_bytes += (int64_t)(malloc_usable_size(p) + ALLOCATIONS_HEADER);
    }
    return p;
}

static void allocations_gave(void *p)
{
    if (p != NULL) {
        allocations_bytes -= (int64_t)(malloc_usable_size(p) + ALLOCATIONS_HEADER);
    }
}

void *malloc(size_t bytes)
{
    return allocations_took(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return allocations_took(__libc_calloc(count, bytes));
}

void *realloc(void *p, size_t bytes)
{
    void *moved;
    int64_t had = p == NULL ? 0 : (int64_t)(malloc_usable_size(p) + ALLOCATIONS_HEADER);
    moved = __libc_realloc(p, bytes);
    if (moved != NULL || bytes == 0) {
        allocations_bytes -= had;
    }
    return allocations_took(moved);
}

void free(void *p)
{
    allocations_gave(p);
    __libc_free(p);
}

void *memalign(size_t alignment, size_t bytes)
{
    return allocations_took(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return allocations_took(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *p;
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
        return EINVAL;
    }
    p = allocations_took(__libc_memalign(alignment, bytes));
    if (p == NULL) {
        return ENOMEM;
    }
    *out = p;
    return 0;
}

int allocations_available(void)
{
    return 1;
}

uint64_t allocations_count(void)
{
    return allocations_calls;
}

int64_t allocations_live_bytes(void)
{
    return allocations_bytes;
}

#else

int allocations_available(void)
{
    return 0;
}

uint64_t allocations_count(void)
{
    return 0;
}

int64_t allocations_live_bytes(void)
{
    return 0;
}

#endif
