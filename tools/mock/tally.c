#include "mock/tally.h"

#include <string.h>
#include <sys/mman.h>

#define SIGNATURE_BYTES 64u
#define SET_MIN         4096u
#define COPIES_MAX      UINT16_MAX

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    /* Large pages where there are any: the set is looked up at random. */
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static uint32_t set_slots(const struct tally *tally)
{
    return tally->set_mask + 1;
}

int tally_open(struct tally *tally, uint32_t arrivals_max)
{
    memset(tally, 0, sizeof *tally);
    if (arrivals_max > UINT32_MAX / 4) {
        return -1;
    }
    tally->arrivals_max = arrivals_max;
    tally->set_max = arrivals_max < SET_MIN ? SET_MIN : arrivals_max;
    uint32_t slots = 1;
    while (slots < tally->set_max + tally->set_max / 2) {
        slots *= 2;
    }
    tally->set_mask = slots - 1;
    tally->set = map(slots * sizeof *tally->set);
    tally->arrivals = map((size_t)(arrivals_max + 1) * sizeof *tally->arrivals);
    if (tally->set == NULL || tally->arrivals == NULL) {
        tally_close(tally);
        return -1;
    }
    return 0;
}

void tally_close(struct tally *tally)
{
    if (tally->set != NULL) {
        munmap(tally->set, set_slots(tally) * sizeof *tally->set);
    }
    if (tally->arrivals != NULL) {
        munmap(tally->arrivals, (size_t)(tally->arrivals_max + 1) * sizeof *tally->arrivals);
    }
    memset(tally, 0, sizeof *tally);
}

const uint8_t *tally_signature(const uint8_t *wire, size_t bytes)
{
    if (bytes < 2) {
        return NULL;
    }
    if (wire[0] == 0x81) { /* version 1: signatures stand last, counted in the message header */
        size_t count = wire[1];
        size_t header = 42;
        if (count == 0 || count > 12 || bytes < header + count * SIGNATURE_BYTES) {
            return NULL;
        }
        return wire + bytes - count * SIGNATURE_BYTES;
    }
    size_t count = wire[0];
    if (count == 0 || count > 127 || bytes <= 1 + count * SIGNATURE_BYTES) {
        return NULL;
    }
    return wire + 1;
}

/* The set's two words of a signature; the first is never 0, the second has no copies yet. */
static void words(const uint8_t *signature, uint64_t out[2])
{
    memcpy(out, signature, 16);
    if (out[0] == 0) {
        out[0] = 1;
    }
    out[1] &= ~(uint64_t)COPIES_MAX;
}

static int same(uint64_t rest, uint64_t word)
{
    return ((rest ^ word) & ~(uint64_t)COPIES_MAX) == 0;
}

static uint32_t home(const struct tally *tally, const uint64_t key[2])
{
    return (uint32_t)((key[0] ^ key[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & tally->set_mask;
}

/* Returns how often this signature was accepted, this time included; 1 too when the set is full. */
static uint64_t remember(struct tally *tally, const uint8_t *signature, int *is_new)
{
    uint64_t key[2];
    words(signature, key);
    uint32_t at = home(tally, key);
    for (;;) {
        struct tally_entry *e = &tally->set[at];
        uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);
        if (head == 0) {
            break;
        }
        uint64_t rest = atomic_load_explicit(&e->rest, memory_order_relaxed);
        if (head == key[0] && same(rest, key[1])) {
            rest += (rest & COPIES_MAX) < COPIES_MAX;
            atomic_store_explicit(&e->rest, rest, memory_order_relaxed);
            *is_new = 0;
            return rest & COPIES_MAX;
        }
        at = (at + 1) & tally->set_mask;
    }
    *is_new = tally->set_used < tally->set_max;
    if (*is_new) {
        struct tally_entry *e = &tally->set[at];
        tally->set_used++;
        atomic_store_explicit(&e->rest, key[1] | 1, memory_order_relaxed);
        atomic_store_explicit(&e->head, key[0], memory_order_release);
    }
    return 1;
}

int tally_accept(struct tally *tally, const uint8_t *wire, size_t bytes, uint32_t frames,
                 uint64_t received_ns, uint64_t accepted_ns)
{
    const uint8_t *signature = tally_signature(wire, bytes);
    if (signature == NULL) {
        TALLY_ADD(tally, malformed, 1);
        return 0;
    }
    int is_new;
    uint64_t copies = remember(tally, signature, &is_new);
    uint32_t n = atomic_load_explicit(&tally->arrivals_count, memory_order_relaxed);
    if (n < tally->arrivals_max) {
        mock_arrival *a = &tally->arrivals[n];
        memcpy(&a->signature_head, signature, sizeof a->signature_head);
        a->received_ns = received_ns;
        a->accepted_ns = accepted_ns;
        a->bytes = (uint32_t)bytes;
        a->frames = frames > UINT16_MAX ? UINT16_MAX : (uint16_t)frames;
        a->copies = (uint16_t)copies;
        atomic_store_explicit(&tally->arrivals_count, n + 1, memory_order_release);
    }
    if (is_new) {
        TALLY_ADD(tally, distinct, 1);
    }
    TALLY_ADD(tally, accepted, 1);
    return 1;
}

int tally_saw(const struct tally *tally, const uint8_t signature[64])
{
    uint64_t key[2];
    words(signature, key);
    uint32_t at = home(tally, key);
    for (uint32_t i = 0; i <= tally->set_mask; i++) {
        const struct tally_entry *e = &tally->set[at];
        uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
        if (head == 0) {
            return 0;
        }
        if (head == key[0] && same(atomic_load_explicit(&e->rest, memory_order_relaxed), key[1])) {
            return 1;
        }
        at = (at + 1) & tally->set_mask;
    }
    return 0;
}

void tally_counts(const struct tally *tally, mock_counts *out)
{
    uint64_t cells[TALLY_CELLS];
    for (size_t i = 0; i < TALLY_CELLS; i++) {
        cells[i] = atomic_load_explicit(&tally->cells[i], memory_order_acquire);
    }
    memcpy(out, cells, sizeof *out);
}

void tally_forget(struct tally *tally)
{
    for (uint32_t i = 0; i < set_slots(tally); i++) {
        atomic_store_explicit(&tally->set[i].head, 0, memory_order_relaxed);
    }
    for (size_t i = 0; i < TALLY_CELLS; i++) {
        atomic_store_explicit(&tally->cells[i], 0, memory_order_relaxed);
    }
    tally->set_used = 0;
    atomic_store_explicit(&tally->arrivals_count, 0, memory_order_release);
}
