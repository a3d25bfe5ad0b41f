/*
 * Transactions. Whatever is accepted has its signature inside, is no longer accepted when a byte is
 * missing, and passes the send path's quick look too; a transfer with any memo is accepted.
 */
#include "fuzz.h"

#include <string.h>

#include "tx/inspect.h"
#include "tx/shortvec.h"

static void check_transaction(const uint8_t *data, size_t bytes)
{
    solsend_detail detail = {0};
    uint8_t id[SOLSEND_SIGNATURE_BYTES];
    int rc = solsend_tx_check(data, bytes, &detail);
    int quick = inspect_size(data, (uint32_t)bytes);
    FUZZ_CHECK(solsend_tx_signature(data, bytes, id) == (rc > 0 ? 0 : rc));
    if (rc < 0) {
        FUZZ_CHECK(detail.code == rc && detail.offset <= bytes);
        FUZZ_CHECK(rc == SOLSEND_ERR_TX_MALFORMED ? quick == 0 : quick == rc);
        return;
    }
    FUZZ_CHECK(quick == 0);
    FUZZ_CHECK((rc == 1) == (data[0] == INSPECT_V1));
    FUZZ_CHECK(rc == 1 || memcmp(id, data + 1, sizeof id) == 0);
    FUZZ_CHECK(solsend_tx_check(data, bytes - 1, NULL) == SOLSEND_ERR_TX_MALFORMED);
}

static void check_number(const uint8_t *data, size_t bytes)
{
    uint32_t value = 0;
    uint8_t form[SHORTVEC_BYTES_MAX];
    int used = shortvec_read(data, (uint32_t)bytes, &value);
    if (used > 0) {
        FUZZ_CHECK(shortvec_write(form, value) == (uint32_t)used);
        FUZZ_CHECK(memcmp(form, data, (size_t)used) == 0);
    }
}

static void check_transfer(const uint8_t *data, size_t bytes)
{
    static solsend_key *payer;
    static const uint8_t seed[32] = {1};
    if (payer == NULL) {
        FUZZ_CHECK(solsend_key_from_seed(&payer, seed) == 0);
    }
    solsend_transfer transfer;
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    solsend_transfer_init(&transfer, sizeof transfer);
    transfer.payer = payer;
    transfer.memo = data;
    transfer.memo_bytes = (uint32_t)bytes;
    memcpy(transfer.to, data, bytes < 32 ? bytes : 32);
    int rc = solsend_tx_transfer(wire, sizeof wire, &transfer);
    FUZZ_CHECK(rc > 0 || rc == SOLSEND_ERR_TX_TOO_LARGE || rc == SOLSEND_ERR_USAGE);
    FUZZ_CHECK(rc < 0 || solsend_tx_check(wire, (size_t)rc, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    check_transaction(data, bytes);
    if (bytes > 0) {
        check_number(data, bytes);
    }
    if (bytes > 0 && bytes % 8 == 0) { /* signing is a hundred times dearer than the rest */
        check_transfer(data, bytes);
    }
    return 0;
}
