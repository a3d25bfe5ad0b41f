/*
 * Certificates: the peer's are read by GnuTLS, whatever they are; ours always read back. The first
 * byte chooses: a foreign DER as it is, ours with bytes of it changed, or a key to make one of.
 */
#include "fuzz.h"

#include <string.h>

#include "link/cert.h"
#include "link/tls.h"

enum { FOREIGN, CHANGED, OURS, KINDS };

/* A key that was found stands in the certificate, behind the head of its BIT STRING: tag, length,
 * and the number of unused bits, which GnuTLS does not look at. */
static void check_found(const uint8_t *der, size_t bytes, const uint8_t key[32])
{
    for (const uint8_t *at = der; (at = memmem(at, (size_t)(der + bytes - at), key, 32)) != NULL;
         at++) {
        if (at - der >= 3 && at[-2] == 33 && at[-3] == 3) {
            return;
        }
    }
    FUZZ_CHECK(!"the key is not in the certificate");
}

static void read_certificate(const uint8_t *der, size_t bytes)
{
    uint8_t key[34];
    memset(key, 0xee, sizeof key);
    if (tls_certificate_key(der, bytes, key + 1) == 0) {
        check_found(der, bytes, key + 1);
    } else {
        for (size_t i = 1; i < 33; i++) {
            FUZZ_CHECK(key[i] == 0xee); /* nothing is written in vain */
        }
    }
    FUZZ_CHECK(key[0] == 0xee && key[33] == 0xee);
}

static void write_and_read(const uint8_t *data, size_t bytes)
{
    uint8_t key[32] = {0}, back[32], der[CERT_BYTES];
    memcpy(key, data, bytes < sizeof key ? bytes : sizeof key);
    cert_write(der, key);
    FUZZ_CHECK(tls_certificate_key(der, sizeof der, back) == 0);
    FUZZ_CHECK(memcmp(back, key, sizeof key) == 0);
}

/* Pairs of place and value, written over a certificate of ours; a last odd byte cuts it. */
static void change_and_read(const uint8_t *data, size_t bytes)
{
    uint8_t key[32] = {7}, der[CERT_BYTES];
    cert_write(der, key);
    for (; bytes >= 2; bytes -= 2, data += 2) {
        if (data[0] < CERT_BYTES) {
            der[data[0]] = data[1];
        }
    }
    size_t length = bytes == 1 && data[0] < CERT_BYTES ? data[0] : CERT_BYTES;
    uint8_t *exact = malloc(length > 0 ? length : 1);
    if (exact != NULL) {
        memcpy(exact, der, length);
        read_certificate(exact, length);
        free(exact);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    switch (data[0] % KINDS) {
    case FOREIGN:
        read_certificate(data + 1, bytes - 1);
        break;
    case CHANGED:
        change_and_read(data + 1, bytes - 1);
        break;
    default:
        write_and_read(data + 1, bytes - 1);
        break;
    }
    return 0;
}
