/* The one clock of the library: CLOCK_MONOTONIC through the vDSO, 20 ns a call. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US UINT64_C(1000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S  UINT64_C(1000000000)

static inline uint64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * CLOCK_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* How many ns CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: kernel packet stamps are realtime. */
int64_t clock_realtime_offset(void);

#endif
