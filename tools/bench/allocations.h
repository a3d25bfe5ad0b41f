/*
 * Counting the heap calls of one thread. The file defines malloc and its family for the whole
 * program and passes every call on to glibc's own; under a sanitizer, which needs them itself, it
 * defines nothing and the counts are not available.
 */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <stdint.h>

/* 1 where calls are counted. */
int allocations_available(void);

/* Calls of the calling thread that took or moved memory, since it started. */
uint64_t allocations_count(void);

/* Bytes that the calling thread took and has not given back, as the allocator rounds them. */
int64_t allocations_live_bytes(void);

#endif
