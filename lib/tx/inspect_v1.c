/* Version 1 (SIMD-0385): the message with its settings, then the signatures. */
#include "tx/inspect.h"
#include "tx/walk.h"

enum {
    SIGNATURES_MAX = 12,
    ACCOUNTS_MAX = 64,
    INSTRUCTIONS_MAX = 64,
    MASK_FEE = 3, /* two bits for the two halves of one number */
    MASK_HEAP = 16,
    MASK_KNOWN = 31,
    HEAP_UNIT = 1024,
    HEAP_MIN = 32 * 1024,
    HEAP_MAX = 256 * 1024
};

/* What stands before the account keys. */
struct front {
    struct walk_roles roles;
    uint32_t mask;
    uint32_t instructions;
    uint32_t accounts;
};

static uint32_t load32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int read_mask(struct walk *w, uint32_t *mask)
{
    uint32_t start = w->at;
    int rc = walk_skip(w, 4, "the settings' mask");
    if (rc != 0) {
        return rc;
    }
    *mask = load32(w->wire + start);
    if ((*mask & ~(uint32_t)MASK_KNOWN) != 0) {
        return walk_refuse(w, start, "the settings have a bit that is not known");
    }
    if ((*mask & MASK_FEE) != 0 && (*mask & MASK_FEE) != MASK_FEE) {
        return walk_refuse(w, start, "the settings have half a priority fee");
    }
    return 0;
}

static int check_limits(const struct walk *w, const struct front *front)
{
    if (front->roles.signers > SIGNATURES_MAX) {
        return walk_refuse(w, front->roles.at, "more than 12 signatures");
    }
    if (front->instructions > INSTRUCTIONS_MAX) {
        return walk_refuse(w, w->at - 2, "more than 64 instructions");
    }
    if (front->accounts > ACCOUNTS_MAX) {
        return walk_refuse(w, w->at - 1, "more than 64 accounts");
    }
    return 0;
}

static int read_front(struct walk *w, struct front *front)
{
    int rc = walk_roles(w, &front->roles);
    if (rc == 0) {
        rc = read_mask(w, &front->mask);
    }
    if (rc == 0) {
        rc = walk_skip(w, WALK_KEY_BYTES, "the blockhash");
    }
    if (rc == 0) {
        rc = walk_byte(w, &front->instructions, "the number of instructions");
    }
    if (rc == 0) {
        rc = walk_byte(w, &front->accounts, "the number of account keys");
    }
    return rc == 0 ? check_limits(w, front) : rc;
}

/* The heap is the highest known setting, so its value is the last. */
static int check_settings(struct walk *w, uint32_t mask)
{
    int rc = walk_skip(w, 4 * (uint32_t)__builtin_popcount(mask), "the settings' values");
    if (rc != 0 || (mask & MASK_HEAP) == 0) {
        return rc;
    }
    uint32_t heap = load32(w->wire + w->at - 4);
    if (heap < HEAP_MIN || heap > HEAP_MAX || heap % HEAP_UNIT != 0) {
        return walk_refuse(w, w->at - 4, "the heap is no multiple of 1 KiB from 32 to 256 KiB");
    }
    return 0;
}

/* All headers come first, then each instruction's accounts and data. */
static int check_instructions(struct walk *w, uint32_t count, uint32_t accounts)
{
    uint32_t headers = w->at;
    int rc = walk_skip(w, 4 * count, "the instructions' headers");
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        const uint8_t *header = w->wire + headers + 4 * i;
        uint32_t start = w->at;
        rc = walk_check_program(w, headers + 4 * i, accounts);
        if (rc == 0) {
            rc = walk_skip(w, header[1], "an instruction's accounts");
        }
        if (rc == 0) {
            rc = walk_check_indexes(w, start, accounts);
        }
        if (rc == 0) {
            rc = walk_skip(w, header[2] | (uint32_t)header[3] << 8, "an instruction's data");
        }
    }
    return rc;
}

int inspect_v1(struct walk *w, uint32_t *signature_at)
{
    struct front front;
    w->at = 1;
    int rc = read_front(w, &front);
    if (rc == 0) {
        rc = walk_keys(w, &front.roles, front.accounts);
    }
    if (rc == 0) {
        rc = check_settings(w, front.mask);
    }
    if (rc == 0) {
        rc = check_instructions(w, front.instructions, front.accounts);
    }
    *signature_at = w->at;
    if (rc == 0) {
        rc = walk_skip(w, front.roles.signers * SOLSEND_SIGNATURE_BYTES, "the signatures");
    }
    return rc == 0 ? walk_check_end(w) : rc;
}
