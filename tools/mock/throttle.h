/*
 * Agave's stream throttle: windows of 100 ms, one counter for all connections of a key. Over quota
 * the reader sleeps for the rest of the window and reads the stream then; nothing is refused.
 */
#ifndef MOCK_THROTTLE_H
#define MOCK_THROTTLE_H

#include <stdint.h>

/* One peer's window: an IP or a staked key. */
struct throttle_window {
    uint64_t started_ns;
    uint64_t streams;
};

/* The load of all staked streams: exponential average over 40 steps of 5 ms. */
struct throttle_load {
    uint64_t average; /* streams a step, times 1024 */
    uint64_t step_started_ns;
    uint64_t step_streams;
};

/* Streams a window may have. Share of stake is stake/total; total 0 or stake 0: unstaked. */
uint64_t throttle_quota(const struct throttle_load *load, uint64_t stake, uint64_t total);

/* Asked before a stream is read: 0, or for how many ns the reader must sleep first. */
uint64_t throttle_wait(struct throttle_window *window, uint64_t quota, uint64_t now_ns);

/* A stream is being read now. */
void throttle_read(struct throttle_window *window, struct throttle_load *load, int staked,
                   uint64_t now_ns);

#endif
