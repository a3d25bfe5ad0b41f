#include "base/clock.h"

#include <solsend/stats.h>

uint64_t solsend_now_ns(void)
{
    return clock_now();
}

int64_t clock_realtime_offset(void)
{
    /* Of a few readings, the one in the shortest bracket is the most exact. */
    int64_t offset = 0;
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct timespec real;
        uint64_t before = clock_now();
        clock_gettime(CLOCK_REALTIME, &real);
        uint64_t after = clock_now();
        if (after - before < shortest) {
            shortest = after - before;
            uint64_t realtime = (uint64_t)real.tv_sec * CLOCK_NS_PER_S + (uint64_t)real.tv_nsec;
            offset = (int64_t)(realtime - (before + (after - before) / 2));
        }
    }
    return offset;
}
