#include "base/slots.h"

uint64_t slots_bytes(uint32_t count)
{
    return (uint64_t)count * 2 * sizeof(uint32_t);
}

void slots_open(struct slots *slots, uint32_t count, void *memory)
{
    slots->next = memory;
    slots->generation = slots->next + count;
    slots->count = count;
    slots->used = 0;
    slots->free_head = 0;
    for (uint32_t i = 0; i < count; i++) {
        slots->next[i] = i + 1 < count ? i + 1 : SLOTS_NONE;
        slots->generation[i] = 1;
    }
}
