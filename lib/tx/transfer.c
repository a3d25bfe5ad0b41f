/* A signed legacy transaction: a transfer of the system program and, if asked for, a memo. */
#include <string.h>

#include <solsend/tx.h>

#include "base/detail.h"
#include "tx/key.h"
#include "tx/shortvec.h"

enum {
    KEY_BYTES = 32,
    SIGNATURES_BYTES = 1 + SOLSEND_SIGNATURE_BYTES, /* their number, then the payer's */
    TRANSFER_DATA_BYTES = 12,
    TRANSFER_BYTES = 1 + 1 + 2 + 1 + TRANSFER_DATA_BYTES
};

/* MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr */
static const uint8_t memo_program[KEY_BYTES] = {
    0x05, 0x4a, 0x53, 0x5a, 0x99, 0x29, 0x21, 0x06, 0x4d, 0x24, 0xe8, 0x71, 0x60, 0xda, 0x38, 0x7c,
    0x7c, 0x35, 0xb5, 0xdd, 0xbc, 0x92, 0xbb, 0x81, 0xe4, 0x1f, 0xa8, 0x40, 0x41, 0x05, 0x44, 0x8d};

/* 11111111111111111111111111111111; as a receiver it is the default, the payer itself */
static const uint8_t system_program[KEY_BYTES] = {0};

_Static_assert(sizeof(solsend_transfer) == 96, "no padding");

static void defaults(solsend_transfer *t)
{
    memset(t, 0, sizeof *t);
    t->size = sizeof *t;
    t->lamports = 1;
}

int solsend_transfer_init(solsend_transfer *transfer, uint32_t size)
{
    solsend_transfer ours;
    defaults(&ours);
    return options_write(transfer, size, &ours, sizeof ours);
}

/* Its length in bytes; 64-bit, because memo_bytes may be anything. */
static uint64_t transfer_bytes(int is_to_self, uint32_t memo_bytes)
{
    uint32_t keys = 2 + (uint32_t)!is_to_self + (memo_bytes != 0);
    uint64_t bytes = SIGNATURES_BYTES + 3 + 1 + keys * KEY_BYTES + KEY_BYTES + 1 + TRANSFER_BYTES;
    if (memo_bytes != 0) {
        bytes += 2 + shortvec_bytes(memo_bytes) + (uint64_t)memo_bytes;
    }
    return bytes;
}

int solsend_transfer_memo_bytes(uint32_t tx_bytes)
{
    if (tx_bytes > SOLSEND_TX_BYTES_MAX) {
        return SOLSEND_ERR_USAGE;
    }
    if (tx_bytes == transfer_bytes(1, 0)) {
        return 0;
    }
    /* one or two bytes of length: between the two a total is skipped */
    for (uint32_t length_bytes = 1; length_bytes <= 2; length_bytes++) {
        uint32_t around = (uint32_t)transfer_bytes(1, 1) - 1 - 1 + length_bytes;
        if (tx_bytes > around && transfer_bytes(1, tx_bytes - around) == tx_bytes) {
            return (int)(tx_bytes - around);
        }
    }
    return SOLSEND_ERR_USAGE;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t count)
{
    if (count != 0) {
        memcpy(at, bytes, count);
    }
    return at + count;
}

/* Accounts in the order the format wants: who signs, who is written to, who is only read. */
static uint8_t *put_accounts(uint8_t *at, const solsend_transfer *t, int is_to_self)
{
    uint8_t programs = 1 + (t->memo_bytes != 0);
    *at++ = 1; /* signers */
    *at++ = 0; /* of them only reading */
    *at++ = programs;
    *at++ = (uint8_t)(1 + !is_to_self + programs);
    at = put(at, key_public(t->payer), KEY_BYTES);
    if (!is_to_self) {
        at = put(at, t->to, KEY_BYTES);
    }
    at = put(at, system_program, KEY_BYTES);
    if (t->memo_bytes != 0) {
        at = put(at, memo_program, KEY_BYTES);
    }
    return put(at, t->blockhash, KEY_BYTES);
}

static uint8_t *put_instructions(uint8_t *at, const solsend_transfer *t, int is_to_self)
{
    uint8_t receiver = (uint8_t)!is_to_self;
    uint8_t system = receiver + 1;
    *at++ = 1 + (t->memo_bytes != 0);
    *at++ = system;
    *at++ = 2; /* accounts: from, to */
    *at++ = 0;
    *at++ = receiver;
    *at++ = TRANSFER_DATA_BYTES;
    *at++ = 2; /* the transfer's number among the system program's instructions, 32 bits */
    *at++ = 0;
    *at++ = 0;
    *at++ = 0;
    for (int i = 0; i < 8; i++) {
        *at++ = (uint8_t)(t->lamports >> (8 * i));
    }
    if (t->memo_bytes != 0) {
        *at++ = system + 1;
        *at++ = 0; /* no accounts: who signed is not repeated */
        at += shortvec_write(at, t->memo_bytes);
        at = put(at, t->memo, t->memo_bytes);
    }
    return at;
}

/* Whether it can be built at all; then how long it is. */
static int measure(const solsend_transfer *t, size_t out_bytes, int is_to_self)
{
    if (!is_to_self && memcmp(t->to, memo_program, KEY_BYTES) == 0) {
        return SOLSEND_ERR_USAGE; /* one account cannot be written to and be the program */
    }
    uint64_t bytes = transfer_bytes(is_to_self, t->memo_bytes);
    if (bytes > SOLSEND_TX_BYTES_MAX) {
        return SOLSEND_ERR_TX_TOO_LARGE;
    }
    return bytes > out_bytes ? SOLSEND_ERR_BUFFER_TOO_SMALL : (int)bytes;
}

int solsend_tx_transfer(uint8_t *out, size_t out_bytes, const solsend_transfer *transfer)
{
    solsend_transfer t;
    if (out == NULL || transfer == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    defaults(&t);
    int rc = options_read(&t, sizeof t, transfer, "solsend_transfer", NULL);
    if (rc != 0) {
        return rc;
    }
    if (t.payer == NULL || (t.memo == NULL && t.memo_bytes != 0)) {
        return SOLSEND_ERR_USAGE;
    }
    if (key_is_foreign(t.payer)) {
        return SOLSEND_ERR_FORKED;
    }
    int is_to_self = memcmp(t.to, system_program, KEY_BYTES) == 0 ||
                     memcmp(t.to, key_public(t.payer), KEY_BYTES) == 0;
    rc = measure(&t, out_bytes, is_to_self);
    if (rc < 0) {
        return rc;
    }
    uint8_t *message = out + SIGNATURES_BYTES;
    uint8_t *end = put_instructions(put_accounts(message, &t, is_to_self), &t, is_to_self);
    out[0] = 1;
    int signing = solsend_key_sign(t.payer, message, (size_t)(end - message), out + 1);
    return signing != 0 ? signing : rc;
}
