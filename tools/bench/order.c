#include "bench/order.h"

uint64_t order_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void order_shuffle(uint64_t *state, uint32_t *items, uint32_t count)
{
    for (uint32_t left = count; left > 1; left--) {
        uint32_t at = (uint32_t)(order_next(state) % left);
        uint32_t item = items[at];
        items[at] = items[left - 1];
        items[left - 1] = item;
    }
}
