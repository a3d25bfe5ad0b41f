/*
 * Walking through a transaction's bytes: every step is checked against the end, and whoever finds
 * something wrong says at which byte. The parts that all formats share are here too.
 */
#ifndef TX_WALK_H
#define TX_WALK_H

#include <stdint.h>

#include <solsend/error.h>

enum { WALK_KEY_BYTES = 32 };

struct walk {
    const uint8_t *wire;
    uint32_t at;
    uint32_t end;
    solsend_detail *detail;
};

/* Says what is wrong at byte `at`; returns TX_MALFORMED. */
int walk_refuse(const struct walk *w, uint32_t at, const char *what);

/* Steps over `bytes` bytes; `what` is whose they are, for the text. Returns 0 or TX_MALFORMED. */
int walk_skip(struct walk *w, uint32_t bytes, const char *what);

/* Reads a byte, a compact-u16. Return 0 or TX_MALFORMED. */
int walk_byte(struct walk *w, uint32_t *value, const char *what);
int walk_count(struct walk *w, uint32_t *value, const char *what);

/* The three bytes every message starts with. */
struct walk_roles {
    uint32_t at; /* where they stand */
    uint32_t signers;
    uint32_t reading_signers; /* the last of the signers */
    uint32_t reading_others;  /* the last of all keys */
};

int walk_roles(struct walk *w, struct walk_roles *roles);

/* Steps over `count` account keys: as many as the roles need, none twice. */
int walk_keys(struct walk *w, const struct walk_roles *roles, uint32_t count);

/* Checks the program's index at byte `at`: one of `fixed` keys, but not the payer. */
int walk_check_program(const struct walk *w, uint32_t at, uint32_t fixed);

/* Checks the account indexes from byte `start` to where the walk stands. */
int walk_check_indexes(const struct walk *w, uint32_t start, uint32_t accounts);

/* Refuses bytes after the end of the transaction. */
int walk_check_end(const struct walk *w);

#endif
