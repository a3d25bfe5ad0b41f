/* Legacy and version 0: the signatures, then a message; version 0 adds lookup tables. */
#include "tx/inspect.h"
#include "tx/walk.h"

enum {
    MESSAGE_V0 = 0x80,
    INDEXED_ACCOUNTS_MAX = 256 /* an index is one byte */
};

/* What the indexes of instructions may point at. */
struct accounts {
    uint32_t fixed; /* keys in the message itself: only these may be programs */
    uint32_t all;   /* with those from lookup tables */
};

static int skip_instruction(struct walk *w)
{
    uint32_t count = 0;
    int rc = walk_skip(w, 1, "an instruction");
    if (rc == 0) {
        rc = walk_count(w, &count, "an instruction's number of accounts");
    }
    if (rc == 0) {
        rc = walk_skip(w, count, "an instruction's accounts");
    }
    if (rc == 0) {
        rc = walk_count(w, &count, "an instruction's data length");
    }
    return rc == 0 ? walk_skip(w, count, "an instruction's data") : rc;
}

/* The second look, when it is known that all of it is there and how many accounts there are. */
static int check_instruction(struct walk *w, const struct accounts *accounts)
{
    uint32_t count = 0;
    int rc = walk_check_program(w, w->at, accounts->fixed);
    if (rc != 0) {
        return rc;
    }
    w->at++;
    walk_count(w, &count, "");
    uint32_t start = w->at;
    w->at += count;
    rc = walk_check_indexes(w, start, accounts->all);
    if (rc != 0) {
        return rc;
    }
    walk_count(w, &count, "");
    w->at += count;
    return 0;
}

static int read_lookup(struct walk *w, uint32_t *loaded)
{
    uint32_t writable = 0;
    uint32_t readable = 0;
    uint32_t start = w->at;
    int rc = walk_skip(w, WALK_KEY_BYTES, "a lookup table's key");
    if (rc == 0) {
        rc = walk_count(w, &writable, "a lookup table's number of writable accounts");
    }
    if (rc == 0) {
        rc = walk_skip(w, writable, "a lookup table's writable accounts");
    }
    if (rc == 0) {
        rc = walk_count(w, &readable, "a lookup table's number of readable accounts");
    }
    if (rc == 0) {
        rc = walk_skip(w, readable, "a lookup table's readable accounts");
    }
    if (rc == 0 && writable + readable == 0) {
        rc = walk_refuse(w, start, "a lookup table is named and not used");
    }
    *loaded += writable + readable;
    return rc;
}

static int read_lookups(struct walk *w, struct accounts *accounts)
{
    uint32_t start = w->at;
    uint32_t count = 0;
    int rc = walk_count(w, &count, "the number of lookup tables");
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = read_lookup(w, &accounts->all);
    }
    if (rc == 0 && accounts->all > INDEXED_ACCOUNTS_MAX) {
        rc = walk_refuse(w, start, "more than 256 accounts with those from lookup tables");
    }
    return rc;
}

/* Instructions stand before the lookup tables that say which indexes they may use. */
static int check_instructions(struct walk *w, struct accounts *accounts, int is_v0)
{
    uint32_t count = 0;
    int rc = walk_count(w, &count, "the number of instructions");
    struct walk again = *w;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = skip_instruction(w);
    }
    if (rc == 0 && is_v0) {
        rc = read_lookups(w, accounts);
    }
    if (rc == 0) {
        rc = walk_check_end(w);
    }
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = check_instruction(&again, accounts);
    }
    return rc;
}

static int check_message(struct walk *w, uint32_t signatures, int is_v0)
{
    struct walk_roles roles;
    struct accounts accounts = {0};
    int rc = walk_roles(w, &roles);
    if (rc == 0 && roles.signers != signatures) {
        rc = walk_refuse(w, roles.at, "the header asks for another number of signatures");
    }
    if (rc == 0) {
        rc = walk_count(w, &accounts.fixed, "the number of account keys");
    }
    accounts.all = accounts.fixed;
    if (rc == 0) {
        rc = walk_keys(w, &roles, accounts.fixed);
    }
    if (rc == 0) {
        rc = walk_skip(w, WALK_KEY_BYTES, "the blockhash");
    }
    return rc == 0 ? check_instructions(w, &accounts, is_v0) : rc;
}

int inspect_legacy(struct walk *w)
{
    uint32_t signatures = w->wire[0];
    if (signatures == 0) {
        return walk_refuse(w, 0, "it has no signature");
    }
    if (signatures >= MESSAGE_V0) {
        return walk_refuse(w, 0, "neither a number of signatures that fit nor version 1");
    }
    w->at = 1;
    int rc = walk_skip(w, signatures * SOLSEND_SIGNATURE_BYTES, "the signatures");
    if (rc != 0) {
        return rc;
    }
    uint8_t first = w->at < w->end ? w->wire[w->at] : 0;
    if (first > MESSAGE_V0) {
        return walk_refuse(w, w->at, "the message's version is not known");
    }
    w->at += first == MESSAGE_V0;
    return check_message(w, signatures, first == MESSAGE_V0);
}
