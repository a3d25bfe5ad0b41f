#include "tx/shortvec.h"

uint32_t shortvec_write(uint8_t *out, uint32_t value)
{
    uint32_t used = 0;
    while (value >= 0x80) {
        out[used++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[used++] = (uint8_t)value;
    return used;
}

int shortvec_read(const uint8_t *in, uint32_t bytes, uint32_t *value)
{
    uint32_t sum = 0;
    for (int i = 0; i < SHORTVEC_BYTES_MAX; i++) {
        if ((uint32_t)i == bytes) {
            return 0;
        }
        uint8_t byte = in[i];
        int is_last = (byte & 0x80) == 0;
        if (i > 0 && byte == 0) {
            return -(i + 1); /* the byte before could have been the last */
        }
        if (i == SHORTVEC_BYTES_MAX - 1 && byte > 3) {
            return -(i + 1); /* two bits are left of sixteen */
        }
        sum |= (uint32_t)(byte & 0x7f) << (7 * i);
        if (is_last) {
            *value = sum;
            return i + 1;
        }
    }
    return -SHORTVEC_BYTES_MAX;
}
