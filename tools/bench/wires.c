#include "bench/wires.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <solsend/tx.h>

/* A memo of letters, different in every transaction. */
static void wires_memo(uint8_t *memo, uint32_t bytes, uint32_t index)
{
    char digits[16];
    int n = snprintf(digits, sizeof digits, "%u ", index);
    for (uint32_t i = 0; i < bytes; i++) {
        memo[i] = i < (uint32_t)n ? (uint8_t)digits[i] : (uint8_t)('a' + (i + index) % 26);
    }
}

static int wires_build(struct wires *w, const solsend_key *payer, uint32_t memo_bytes,
                       wires_progress progress)
{
    uint8_t memo[SOLSEND_TX_BYTES_MAX];
    solsend_transfer t;
    int rc = solsend_transfer_init(&t, sizeof t);
    t.payer = payer;
    t.memo = memo;
    t.memo_bytes = memo_bytes;
    memset(t.blockhash, 0xb1, sizeof t.blockhash);
    for (uint32_t i = 0; rc >= 0 && i < w->count; i++) {
        t.lamports = 1 + i;
        wires_memo(memo, memo_bytes, i);
        rc = solsend_tx_transfer(w->memory + (size_t)i * w->bytes, w->bytes, &t);
        if (rc >= 0 && (uint32_t)rc != w->bytes) {
            return SOLSEND_ERR_INTERNAL;
        }
        if (progress != NULL && (i % 4096 == 4095 || i + 1 == w->count)) {
            progress(i + 1, w->count);
        }
    }
    return rc < 0 ? rc : 0;
}

int wires_open(struct wires *w, const solsend_key *payer, uint32_t bytes, uint32_t count,
               wires_progress progress, char *why, size_t why_bytes)
{
    int memo_bytes = solsend_transfer_memo_bytes(bytes), rc;
    memset(w, 0, sizeof *w);
    if (memo_bytes < 0) {
        snprintf(why, why_bytes, "no transfer with a memo is exactly %u bytes long", bytes);
        return memo_bytes;
    }
    w->bytes = bytes;
    w->count = count;
    w->memory = malloc((size_t)count * bytes);
    rc = w->memory == NULL ? SOLSEND_ERR_MEMORY
                           : wires_build(w, payer, (uint32_t)memo_bytes, progress);
    if (rc != 0) {
        snprintf(why, why_bytes, "building %u transactions of %u bytes: %s", count, bytes,
                 solsend_error_text(rc));
        wires_close(w);
    }
    return rc;
}

void wires_close(struct wires *w)
{
    free(w->memory);
    memset(w, 0, sizeof *w);
}

uint64_t wires_head(const struct wires *w, uint32_t index)
{
    uint64_t head;
    /* byte 0 is the number of signatures */
    memcpy(&head, wires_at(w, index) + 1, sizeof head);
    return head;
}
