/* Distinct, valid, signed transactions of one size, made before any clock starts. */
#ifndef BENCH_WIRES_H
#define BENCH_WIRES_H

#include <stddef.h>
#include <stdint.h>

#include <solsend/key.h>

struct wires {
    uint8_t *memory; /* one after the other */
    uint32_t bytes;  /* of each */
    uint32_t count;
};

typedef void (*wires_progress)(uint32_t done, uint32_t count);

/*
 * Builds and signs `count` transfers of exactly `bytes` bytes; they differ in amount and memo.
 * Returns 0, or an error of the library with one line in `why`.
 */
int wires_open(struct wires *w, const solsend_key *payer, uint32_t bytes, uint32_t count,
               wires_progress progress, char *why, size_t why_bytes);

void wires_close(struct wires *w);

static inline const uint8_t *wires_at(const struct wires *w, uint32_t index)
{
    return w->memory + (size_t)index * w->bytes;
}

/* The first 8 bytes of its signature, as a number: what the mock keeps of an arrival. */
uint64_t wires_head(const struct wires *w, uint32_t index);

#endif
