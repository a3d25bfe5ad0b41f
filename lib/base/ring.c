#include "base/ring.h"

#include <stdlib.h>

#include <solsend/error.h>

enum { CAPACITY_MAX = 1 << 24, RECORD_BYTES_MAX = 1 << 16 };

int ring_open(struct ring *ring, uint32_t capacity, uint32_t record_bytes)
{
    if (capacity == 0 || capacity > CAPACITY_MAX || record_bytes == 0 ||
        record_bytes > RECORD_BYTES_MAX) {
        return SOLSEND_ERR_USAGE;
    }
    uint32_t size = 1;
    while (size < capacity) {
        size <<= 1;
    }
    memset(ring, 0, sizeof *ring);
    ring->records = calloc(size, record_bytes);
    if (ring->records == NULL) {
        return SOLSEND_ERR_MEMORY;
    }
    ring->record_bytes = record_bytes;
    ring->mask = size - 1;
    return 0;
}

void ring_close(struct ring *ring)
{
    free(ring->records);
    ring->records = NULL;
}
