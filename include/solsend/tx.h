/**
 * Transactions: as much of them as a sender needs to make distinct valid ones and to refuse what
 * no leader would read.
 *
 * Threads: any; nothing is shared. Blocks: never. Allocates: never.
 */
#ifndef SOLSEND_TX_H
#define SOLSEND_TX_H

#include <solsend/key.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Largest wire sizes: legacy and v0 (IPv6 minimum MTU less headers), v1 (SIMD-0385). */
#define SOLSEND_TX_BYTES_MAX    1232u
#define SOLSEND_TX_V1_BYTES_MAX 4096u

/** A system transfer with a memo, to build with solsend_tx_transfer. Size-first. */
typedef struct solsend_transfer {
    uint32_t size;
    uint32_t memo_bytes;      /* length of memo; default 0: no memo instruction */
    const solsend_key *payer; /* pays, sends and signs; required */
    const uint8_t *memo;      /* UTF-8; not copied, may be null when memo_bytes is 0 */
    uint64_t lamports;        /* default 1 */
    uint8_t to[32];           /* default: the payer's own address (all zero) */
    uint8_t blockhash[32];    /* default all zero */
} solsend_transfer;

/** Fills `transfer` with the defaults. Returns 0 or BAD_SIZE. */
SOLSEND_API int solsend_transfer_init(solsend_transfer *transfer, uint32_t size);

/**
 * Builds and signs a legacy transaction into `out`. Returns its length in bytes, or USAGE,
 * BUFFER_TOO_SMALL, TX_TOO_LARGE, FORKED.
 */
SOLSEND_API int solsend_tx_transfer(uint8_t *out, size_t out_bytes,
                                    const solsend_transfer *transfer);

/**
 * How long a memo makes a transfer to the payer itself exactly `tx_bytes` long (to somebody else it
 * is 32 bytes longer), or USAGE if no memo does.
 */
SOLSEND_API int solsend_transfer_memo_bytes(uint32_t tx_bytes);

/**
 * Checks what every leader checks before it looks at any account: the version, the size for that
 * version, that everything counted is there and nothing follows, that header and indexes agree with
 * the accounts. Signatures are not verified. Returns the version: 0 for legacy and v0, 1 for v1; or
 * TX_EMPTY, TX_TOO_LARGE, TX_MALFORMED with the byte in `detail`.
 */
SOLSEND_API int solsend_tx_check(const uint8_t *wire, size_t bytes, solsend_detail *detail);

/** Copies the first signature, the transaction's id. Returns 0, USAGE or as solsend_tx_check. */
SOLSEND_API int solsend_tx_signature(const uint8_t *wire, size_t bytes, uint8_t out[64]);

#ifdef __cplusplus
}
#endif
#endif
