#include "tx/inspect.h"

#include <string.h>

#include "base/detail.h"
#include "tx/walk.h"

/* Returns the version or an error; `*signature_at` is where the first signature stands. */
static int check(const uint8_t *wire, size_t bytes, uint32_t *signature_at, solsend_detail *detail)
{
    if (wire == NULL || bytes == 0) {
        return detail_set(detail, SOLSEND_ERR_TX_EMPTY, 0, "transaction: it has no bytes");
    }
    int is_v1 = wire[0] == INSPECT_V1;
    uint32_t max = is_v1 ? SOLSEND_TX_V1_BYTES_MAX : SOLSEND_TX_BYTES_MAX;
    if (bytes > max) {
        return detail_set(detail, SOLSEND_ERR_TX_TOO_LARGE, max,
                          "transaction: %zu bytes, but %s has at most %u", bytes,
                          is_v1 ? "version 1" : "a legacy or version 0 one", max);
    }
    struct walk walk = {.wire = wire, .end = (uint32_t)bytes, .detail = detail};
    *signature_at = 1;
    int rc = is_v1 ? inspect_v1(&walk, signature_at) : inspect_legacy(&walk);
    return rc == 0 ? is_v1 : rc;
}

int solsend_tx_check(const uint8_t *wire, size_t bytes, solsend_detail *detail)
{
    uint32_t signature_at;
    return check(wire, bytes, &signature_at, detail);
}

int solsend_tx_signature(const uint8_t *wire, size_t bytes, uint8_t out[64])
{
    uint32_t signature_at;
    if (out == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    int rc = check(wire, bytes, &signature_at, NULL);
    if (rc < 0) {
        return rc;
    }
    memcpy(out, wire + signature_at, SOLSEND_SIGNATURE_BYTES);
    return 0;
}
