/* The cheapest look at a transaction, for the send path; solsend_tx_check is the thorough one. */
#ifndef TX_INSPECT_H
#define TX_INSPECT_H

#include <solsend/tx.h>

/*
 * The first byte of a version 1 transaction, which has its message in front. A legacy or version 0
 * transaction starts with its number of signatures, and 129 of them would never fit.
 */
#define INSPECT_V1 0x81

/* Decides by the first byte and the length alone: 0, TX_EMPTY or TX_TOO_LARGE. */
static inline int inspect_size(const uint8_t *wire, uint32_t bytes)
{
    if (bytes == 0) {
        return SOLSEND_ERR_TX_EMPTY;
    }
    if (bytes <= SOLSEND_TX_BYTES_MAX ||
        (wire[0] == INSPECT_V1 && bytes <= SOLSEND_TX_V1_BYTES_MAX)) {
        return 0;
    }
    return SOLSEND_ERR_TX_TOO_LARGE;
}

struct walk;

/* Each format's own walk, from the first byte to the last. Return 0 or TX_MALFORMED. */
int inspect_legacy(struct walk *w);
int inspect_v1(struct walk *w, uint32_t *signature_at);

#endif
