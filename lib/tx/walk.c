#include "tx/walk.h"

#include <string.h>

#include "base/detail.h"
#include "tx/shortvec.h"

int walk_refuse(const struct walk *w, uint32_t at, const char *what)
{
    return detail_set(w->detail, SOLSEND_ERR_TX_MALFORMED, at, "transaction, byte %u: %s", at,
                      what);
}

static int ends_within(const struct walk *w, const char *what)
{
    return detail_set(w->detail, SOLSEND_ERR_TX_MALFORMED, w->end,
                      "transaction, byte %u: it ends within %s", w->end, what);
}

int walk_skip(struct walk *w, uint32_t bytes, const char *what)
{
    if (w->end - w->at < bytes) {
        return ends_within(w, what);
    }
    w->at += bytes;
    return 0;
}

int walk_byte(struct walk *w, uint32_t *value, const char *what)
{
    if (w->at == w->end) {
        return ends_within(w, what);
    }
    *value = w->wire[w->at++];
    return 0;
}

int walk_count(struct walk *w, uint32_t *value, const char *what)
{
    int used = shortvec_read(w->wire + w->at, w->end - w->at, value);
    if (used == 0) {
        return ends_within(w, what);
    }
    if (used < 0) {
        uint32_t at = w->at + (uint32_t)-used - 1;
        return detail_set(w->detail, SOLSEND_ERR_TX_MALFORMED, at,
                          "transaction, byte %u: %s is not the shortest form of a 16-bit number",
                          at, what);
    }
    w->at += (uint32_t)used;
    return 0;
}

int walk_roles(struct walk *w, struct walk_roles *roles)
{
    roles->at = w->at;
    int rc = walk_skip(w, 3, "the message header");
    if (rc != 0) {
        return rc;
    }
    roles->signers = w->wire[roles->at];
    roles->reading_signers = w->wire[roles->at + 1];
    roles->reading_others = w->wire[roles->at + 2];
    if (roles->signers == 0) {
        return walk_refuse(w, roles->at, "the header asks for no signature");
    }
    if (roles->reading_signers >= roles->signers) {
        return walk_refuse(w, roles->at + 1, "no signer may write, so nobody can pay");
    }
    return 0;
}

static int same_key(const uint8_t *a, const uint8_t *b)
{
    uint64_t first, second;
    memcpy(&first, a, sizeof first); /* nearly always enough to tell */
    memcpy(&second, b, sizeof second);
    return first == second && memcmp(a, b, WALK_KEY_BYTES) == 0;
}

int walk_keys(struct walk *w, const struct walk_roles *roles, uint32_t count)
{
    uint32_t first = w->at;
    if (count < roles->signers + roles->reading_others) {
        return walk_refuse(w, roles->at, "the header speaks of more accounts than there are");
    }
    int rc = walk_skip(w, count * WALK_KEY_BYTES, "the account keys");
    for (uint32_t i = 1; rc == 0 && i < count; i++) {
        const uint8_t *key = w->wire + first + i * WALK_KEY_BYTES;
        for (uint32_t j = 0; j < i; j++) {
            if (same_key(key, w->wire + first + j * WALK_KEY_BYTES)) {
                return walk_refuse(w, first + i * WALK_KEY_BYTES,
                                   "an account key stands there a second time");
            }
        }
    }
    return rc;
}

int walk_check_program(const struct walk *w, uint32_t at, uint32_t fixed)
{
    uint32_t program = w->wire[at];
    if (program == 0) {
        return walk_refuse(w, at, "the payer cannot be an instruction's program");
    }
    return program < fixed ? 0 : walk_refuse(w, at, "an instruction's program is not there");
}

int walk_check_indexes(const struct walk *w, uint32_t start, uint32_t accounts)
{
    for (uint32_t i = start; i < w->at; i++) {
        if (w->wire[i] >= accounts) {
            return walk_refuse(w, i, "an instruction's account is not there");
        }
    }
    return 0;
}

int walk_check_end(const struct walk *w)
{
    return w->at == w->end ? 0 : walk_refuse(w, w->at, "something follows the transaction");
}
