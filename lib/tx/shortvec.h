/*
 * Solana's compact-u16: seven bits a byte, least significant first, the high bit says that more
 * follow. One value has one encoding; longer ones of the same value are refused.
 */
#ifndef TX_SHORTVEC_H
#define TX_SHORTVEC_H

#include <stdint.h>

enum { SHORTVEC_BYTES_MAX = 3 };

/* How many bytes `value` (at most 65535) takes: 1 to 3. */
static inline uint32_t shortvec_bytes(uint32_t value)
{
    return value < 0x80 ? 1 : value < 0x4000 ? 2 : 3;
}

/* Writes `value` (at most 65535); returns how many bytes. */
uint32_t shortvec_write(uint8_t *out, uint32_t value);

/*
 * Reads a value from at most `bytes` bytes. Returns how many it took, 0 if they end within it, or
 * -n if the n-th byte makes it longer than needed or larger than 65535.
 */
int shortvec_read(const uint8_t *in, uint32_t bytes, uint32_t *value);

#endif
