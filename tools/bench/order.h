/* Seeded random order: the same seed gives the same rounds again. */
#ifndef BENCH_ORDER_H
#define BENCH_ORDER_H

#include <stdint.h>

/* Next number of the sequence whose state is `*state` (splitmix64). */
uint64_t order_next(uint64_t *state);

/* Shuffles `count` numbers in place. */
void order_shuffle(uint64_t *state, uint32_t *items, uint32_t count);

#endif
