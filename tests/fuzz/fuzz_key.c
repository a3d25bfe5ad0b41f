/*
 * Key texts and key files. A key that is accepted signs, and its base58 text is accepted again; one
 * that is refused is refused with a reason and a place inside the input.
 */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tx/key.h"

static void check_accepted(solsend_key *key)
{
    static const uint8_t message[] = "message";
    uint8_t signature[SOLSEND_SIGNATURE_BYTES];
    FUZZ_CHECK(solsend_key_sign(key, message, sizeof message, signature) == 0);
    FUZZ_CHECK(solsend_signature_verify(signature, message, sizeof message, key_public(key)) == 0);

    char text[45];
    int chars = solsend_base58_encode(text, sizeof text, key_seed(key), 32);
    FUZZ_CHECK(chars >= 32);
    solsend_key *again = NULL;
    FUZZ_CHECK(solsend_key_from_text(&again, text, (size_t)chars, NULL) == 0);
    FUZZ_CHECK(memcmp(key_public(again), key_public(key), 32) == 0);
    solsend_key_close(again);
    solsend_key_close(key);
}

static void check_refused(int rc, const solsend_detail *detail, const solsend_key *key,
                          size_t bytes)
{
    FUZZ_CHECK(rc == SOLSEND_ERR_KEY_MALFORMED || rc == SOLSEND_ERR_KEY_MISMATCH);
    FUZZ_CHECK(key == NULL);
    FUZZ_CHECK(detail->code == rc);
    FUZZ_CHECK(detail->offset <= bytes);
    FUZZ_CHECK(strlen(detail->text) > strlen("key, byte 0: "));
}

static void from_text(const uint8_t *data, size_t bytes)
{
    solsend_key *key = NULL;
    solsend_detail detail = {0};
    int rc = solsend_key_from_text(&key, (const char *)data, bytes, &detail);
    if (rc == 0) {
        check_accepted(key);
    } else {
        check_refused(rc, &detail, key, bytes);
    }
}

/* The same through a file, which may also be a raw seed. */
static void from_file(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("key", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
        snprintf(path, sizeof path, "file:/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    solsend_key *key = NULL;
    solsend_detail detail = {0};
    int rc = solsend_key_open(&key, path, &detail);
    if (rc == 0) {
        FUZZ_CHECK(bytes != 32 || memcmp(key_seed(key), data, 32) == 0);
        check_accepted(key);
    } else {
        FUZZ_CHECK(bytes != 32);
        check_refused(rc, &detail, key, bytes);
    }
}

static void base58_comes_back(const uint8_t *data, size_t bytes)
{
    uint8_t value[64];
    char text[90];
    for (size_t size = 32; size <= 64; size += 32) {
        if (solsend_base58_decode(value, size, (const char *)data, bytes, NULL) == 0) {
            FUZZ_CHECK(solsend_base58_encode(text, sizeof text, value, size) == (int)bytes);
            FUZZ_CHECK(memcmp(text, data, bytes) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (data != NULL) {
        from_text(data, bytes);
        base58_comes_back(data, bytes);
    }
    if (bytes % 4 == 0) { /* files cost more, and the parser behind them is the same */
        from_file(data, bytes);
    }
    return 0;
}
