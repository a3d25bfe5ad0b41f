#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <sodium.h>

#include "base/clock.h"
#include "tx/key.h"

#ifndef MADV_KEEPONFORK
#define MADV_KEEPONFORK 19
#endif

static solsend_key *from_seed_byte(uint8_t byte)
{
    uint8_t seed[32];
    memset(seed, byte, sizeof seed);
    solsend_key *key = NULL;
    assert_int_equal(solsend_key_from_seed(&key, seed), 0);
    assert_non_null(key);
    return key;
}

static void unhex(uint8_t *out, size_t bytes, const char *hex)
{
    size_t used = 0;
    assert_int_equal(sodium_hex2bin(out, bytes, hex, strlen(hex), NULL, &used, NULL), 0);
    assert_int_equal(used, bytes);
}

/* Runs `body` in a forked child; 0 if all went well there. */
static int in_child(int (*body)(void *), void *arg)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20); /* a deadlock must end as a failure */
        _exit(body(arg));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

static void rfc8032_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *seed, *public_key, *message, *signature;
    } vectors[] = {
        {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701"
         "c"
         "f9b46bd25bf5f0595bbe24655141438e7a100b"},
        {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
         "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d"
         "0"
         "f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
        {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
         "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
         "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f7609"
         "8"
         "4dc6594a7c15e9716ed28dc027beceea1ec40a"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t seed[32], expected[64], signature[64], public_key[32], message[2];
        size_t bytes = strlen(vectors[i].message) / 2;
        unhex(seed, 32, vectors[i].seed);
        unhex(message, bytes, vectors[i].message);
        solsend_key *key = NULL;
        assert_int_equal(solsend_key_from_seed(&key, seed), 0);
        assert_int_equal(solsend_key_public(key, public_key), 0);
        unhex(expected, 32, vectors[i].public_key);
        assert_memory_equal(public_key, expected, 32);
        assert_int_equal(solsend_key_sign(key, message, bytes, signature), 0);
        unhex(expected, 64, vectors[i].signature);
        assert_memory_equal(signature, expected, 64);
        assert_memory_equal(key_seed(key), seed, 32);
        assert_memory_equal(key_public(key), public_key, 32);
        solsend_key_close(key);
    }
}

static void solana_addresses(void **state)
{
    (void)state;
    static const struct {
        uint8_t byte;
        const char *address;
    } golden[] = {{0x01, "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9"},
                  {0x07, "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB"},
                  {0xc8, "BELn9TCk4uWEihwdgoUx8xUfd5ujL9pKrwtJCesiQAev"}};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        solsend_key *key = from_seed_byte(golden[i].byte);
        char text[45];
        assert_true(solsend_base58_encode(text, sizeof text, key_public(key), 32) > 0);
        assert_string_equal(text, golden[i].address);
        solsend_key_close(key);
    }
}

static int gnutls_verifies(const uint8_t public_key[32], const uint8_t *message, unsigned bytes,
                           uint8_t signature[64])
{
    uint8_t copy[32];
    memcpy(copy, public_key, 32);
    gnutls_datum_t x = {copy, 32};
    gnutls_datum_t s = {signature, 64};
    uint8_t text[256];
    memcpy(text, message, bytes);
    gnutls_datum_t data = {text, bytes};
    gnutls_pubkey_t pubkey;
    assert_int_equal(gnutls_pubkey_init(&pubkey), 0);
    assert_int_equal(gnutls_pubkey_import_ecc_raw(pubkey, GNUTLS_ECC_CURVE_ED25519, &x, NULL), 0);
    int rc = gnutls_pubkey_verify_data2(pubkey, GNUTLS_SIGN_EDDSA_ED25519, 0, &data, &s);
    gnutls_pubkey_deinit(pubkey);
    return rc >= 0;
}

static void two_other_libraries_verify(void **state)
{
    (void)state;
    solsend_key *key = NULL;
    assert_int_equal(solsend_key_random(&key), 0);
    const uint8_t *pub = key_public(key);
    uint8_t message[200], signature[64];
    for (unsigned bytes = 0; bytes <= sizeof message; bytes += 50) {
        memset(message, (int)bytes + 3, sizeof message);
        assert_int_equal(solsend_key_sign(key, message, bytes, signature), 0);
        assert_int_equal(crypto_sign_verify_detached(signature, message, bytes, pub), 0);
        assert_int_equal(solsend_signature_verify(signature, message, bytes, pub), 0);
        assert_true(bytes == 0 || gnutls_verifies(pub, message, bytes, signature));
        signature[3] ^= 1;
        assert_int_equal(solsend_signature_verify(signature, message, bytes, pub),
                         SOLSEND_ERR_TX_MALFORMED);
        assert_false(bytes != 0 && gnutls_verifies(pub, message, bytes, signature));
    }
    solsend_key_close(key);
}

static void random_keys_differ(void **state)
{
    (void)state;
    solsend_key *a = NULL;
    solsend_key *b = NULL;
    assert_int_equal(solsend_key_random(&a), 0);
    assert_int_equal(solsend_key_random(&b), 0);
    assert_memory_not_equal(key_public(a), key_public(b), 32);
    assert_memory_not_equal(key_seed(a), key_seed(b), 32);
    solsend_key_close(a);
    solsend_key_close(b);
}

/* --- texts --- */

/* The solana-keygen file of the seed 7 x 32. */
static size_t keygen_json(char *out, size_t size, const char *separator)
{
    solsend_key *key = from_seed_byte(7);
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < 64; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%u", i > 0 ? separator : "",
                                 i < 32 ? key_seed(key)[i] : key_public(key)[i - 32]);
    }
    used += (size_t)snprintf(out + used, size - used, "]");
    solsend_key_close(key);
    return used;
}

static void assert_is_seven(solsend_key *key)
{
    uint8_t seed[32];
    memset(seed, 7, sizeof seed);
    assert_non_null(key);
    assert_memory_equal(key_seed(key), seed, 32);
    char text[45];
    solsend_base58_encode(text, sizeof text, key_public(key), 32);
    assert_string_equal(text, "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB");
    solsend_key_close(key);
}

static void json_with_any_white_space(void **state)
{
    (void)state;
    static const char *const separators[] = {",", ", ", " ,", "\n\t,\r\n  "};
    for (size_t i = 0; i < 4; i++) {
        char text[1024];
        text[0] = ' ';
        size_t used = 1 + keygen_json(text + 1, sizeof text - 3, separators[i]);
        text[used++] = '\n';
        solsend_key *key = NULL;
        assert_int_equal(solsend_key_from_text(&key, text, used, NULL), 0);
        assert_is_seven(key);
    }
}

static void base58_of_seed_and_pair(void **state)
{
    (void)state;
    solsend_key *seven = from_seed_byte(7);
    uint8_t pair[64];
    memcpy(pair, key_seed(seven), 32);
    memcpy(pair + 32, key_public(seven), 32);
    solsend_key_close(seven);
    for (size_t bytes = 32; bytes <= 64; bytes += 32) {
        char text[92] = " ";
        int length = solsend_base58_encode(text + 1, sizeof text - 2, pair, bytes);
        text[1 + length] = '\n';
        solsend_key *key = NULL;
        assert_int_equal(solsend_key_from_text(&key, text, (size_t)length + 2, NULL), 0);
        assert_is_seven(key);
    }
}

/* No run of five characters of the secret may stand in what we say about it. */
static void assert_no_leak(const solsend_detail *detail, const char *secret, size_t bytes)
{
    char run[6] = {0};
    for (size_t i = 0; i + 5 <= bytes; i++) {
        memcpy(run, secret + i, 5);
        if (strlen(run) == 5 && strspn(run, " \n") != 5) {
            assert_null(strstr(detail->text, run));
        }
    }
}

static void assert_refused(const char *text, size_t bytes, int code, uint32_t offset)
{
    solsend_detail detail = {0};
    solsend_key *key = (solsend_key *)&detail;
    assert_int_equal(solsend_key_from_text(&key, text, bytes, &detail), code);
    assert_null(key);
    assert_int_equal(detail.code, code);
    assert_int_equal(detail.offset, offset);
    char named[32];
    snprintf(named, sizeof named, "byte %u", offset);
    assert_non_null(strstr(detail.text, named));
    assert_no_leak(&detail, text, bytes < 4096 ? bytes : 4096);
    assert_int_equal(solsend_key_from_text(&key, text, bytes, NULL), code);
}

static void assert_malformed(const char *text, uint32_t offset)
{
    assert_refused(text, strlen(text), SOLSEND_ERR_KEY_MALFORMED, offset);
}

static void malformed_json_names_the_byte(void **state)
{
    (void)state;
    assert_malformed("[", 1);
    assert_malformed("[]", 1);
    assert_malformed("[1,2,3]", 6);
    assert_malformed("[1,2,3", 6);
    assert_malformed("[1,2,", 5);
    assert_malformed("[1,,2]", 3);
    assert_malformed("[,1]", 1);
    assert_malformed("[1 2]", 3);
    assert_malformed("[-1,2]", 1);
    assert_malformed("[+1,2]", 1);
    assert_malformed("[1.5,2]", 2);
    assert_malformed("[1e1,2]", 2);
    assert_malformed("[0x1,2]", 2);
    assert_malformed("[256]", 1);
    assert_malformed("[1,999999999999999999999999999]", 3);
    assert_malformed("[01]", 1);
    assert_malformed("[00]", 1);
    assert_malformed("[\"1\"]", 1);
    assert_malformed("[null]", 1);
    assert_malformed("[[1]]", 1);
    assert_malformed("{\"key\":[1]}", 0);
    assert_refused("[1\0,2]", 6, SOLSEND_ERR_KEY_MALFORMED, 2);
    assert_malformed("", 0);
    assert_malformed(" \n\t ", 0);
}

static void a_json_key_with_one_change_is_refused(void **state)
{
    (void)state;
    char good[512];
    size_t bytes = keygen_json(good, sizeof good, ",");
    /* cut anywhere: all but nothing of it is refused where it ends */
    for (size_t cut = 1; cut < bytes; cut++) {
        solsend_detail detail = {0};
        solsend_key *key = NULL;
        assert_int_equal(solsend_key_from_text(&key, good, cut, &detail),
                         SOLSEND_ERR_KEY_MALFORMED);
        assert_int_equal(detail.offset, cut);
        assert_no_leak(&detail, good, bytes);
    }
    char text[600];
    int length = snprintf(text, sizeof text, "%sx", good);
    assert_refused(text, (size_t)length, SOLSEND_ERR_KEY_MALFORMED, (uint32_t)bytes);
    length = snprintf(text, sizeof text, "%.*s,1]", (int)bytes - 1, good);
    assert_refused(text, (size_t)length, SOLSEND_ERR_KEY_MALFORMED, (uint32_t)bytes - 1);
    length = snprintf(text, sizeof text, "%.*s,]", (int)bytes - 1, good);
    assert_refused(text, (size_t)length, SOLSEND_ERR_KEY_MALFORMED, (uint32_t)bytes - 1);
    length = snprintf(text, sizeof text, "\xef\xbb\xbf%s", good);
    assert_refused(text, (size_t)length, SOLSEND_ERR_KEY_MALFORMED, 0);
}

static void a_foreign_public_half_is_a_mismatch(void **state)
{
    (void)state;
    char text[512];
    size_t bytes = keygen_json(text, sizeof text, ",");
    text[1] = '8'; /* the first secret byte; the public half starts after 32 times "7," */
    assert_refused(text, bytes, SOLSEND_ERR_KEY_MISMATCH, 1 + 32 * 2);

    uint8_t pair[64];
    memset(pair, 9, sizeof pair);
    char base58[90] = "  ";
    int length = solsend_base58_encode(base58 + 2, sizeof base58 - 2, pair, 64);
    assert_refused(base58, (size_t)length + 2, SOLSEND_ERR_KEY_MISMATCH, 2);
}

static void malformed_base58_names_the_byte(void **state)
{
    (void)state;
    solsend_key *seven = from_seed_byte(7);
    char good[90];
    int length = solsend_base58_encode(good, sizeof good, key_seed(seven), 32);
    solsend_key_close(seven);
    for (int i = 0; i < length; i++) {
        char text[90];
        memcpy(text, good, sizeof text);
        text[i] = '0';
        assert_malformed(text, (uint32_t)i);
    }
    for (int cut = 1; cut < length - 1; cut++) {
        solsend_key *key = NULL;
        solsend_detail detail = {0};
        assert_int_equal(solsend_key_from_text(&key, good, (size_t)cut, &detail),
                         SOLSEND_ERR_KEY_MALFORMED);
        assert_int_equal(detail.offset, cut);
        assert_no_leak(&detail, good, (size_t)length);
    }
    /* as many z as fit in no 32 and in no 64 bytes */
    char longer[200];
    memset(longer, 'z', sizeof longer);
    for (size_t bytes = 44; bytes <= sizeof longer; bytes++) {
        if (bytes < 86 || bytes > 87) {
            solsend_detail detail = {0};
            solsend_key *key = NULL;
            assert_int_equal(solsend_key_from_text(&key, longer, bytes, &detail),
                             SOLSEND_ERR_KEY_MALFORMED);
            assert_true(detail.offset <= bytes);
        }
    }
}

static void more_than_4096_bytes_are_refused(void **state)
{
    (void)state;
    char *text = malloc(5000);
    memset(text, ' ', 5000);
    keygen_json(text, 4000, ",");
    text[strlen(text)] = ' ';
    solsend_key *key = NULL;
    assert_int_equal(solsend_key_from_text(&key, text, 4096, NULL), 0);
    assert_is_seven(key);
    assert_refused(text, 4097, SOLSEND_ERR_KEY_MALFORMED, 4096);
    assert_refused(text, SIZE_MAX, SOLSEND_ERR_KEY_MALFORMED, 4096);
    free(text);
}

/* --- sources --- */

static char file_path[64];

static void write_file(const void *data, size_t bytes)
{
    strcpy(file_path, "/tmp/solsend-key-XXXXXX");
    int fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

static int open_written(solsend_key **key, const char *scheme, solsend_detail *detail)
{
    char source[96];
    snprintf(source, sizeof source, "%s%s", scheme, file_path);
    int rc = solsend_key_open(key, source, detail);
    unlink(file_path);
    return rc;
}

static void files_of_each_kind(void **state)
{
    (void)state;
    char text[600];
    size_t bytes = keygen_json(text, sizeof text, ",");
    solsend_key *key = NULL;
    write_file(text, bytes);
    assert_int_equal(open_written(&key, "", NULL), 0);
    assert_is_seven(key);
    write_file(text, bytes);
    assert_int_equal(open_written(&key, "file:", NULL), 0);
    assert_is_seven(key);

    uint8_t seed[32];
    memset(seed, 7, sizeof seed);
    write_file(seed, 32);
    assert_int_equal(open_written(&key, "", NULL), 0);
    assert_is_seven(key);

    int length = solsend_base58_encode(text, sizeof text, seed, 32);
    text[length] = '\n';
    write_file(text, (size_t)length + 1);
    assert_int_equal(open_written(&key, "file:", NULL), 0);
    assert_is_seven(key);
}

static void files_that_are_no_key(void **state)
{
    (void)state;
    solsend_key *key = NULL;
    solsend_detail detail = {0};
    uint8_t raw[4097];
    memset(raw, 0xb7, sizeof raw);
    static const size_t sizes[] = {0, 1, 31, 33, 63, 64, 4096, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_file(raw, sizes[i]);
        assert_int_equal(open_written(&key, "", &detail), SOLSEND_ERR_KEY_MALFORMED);
        assert_null(key);
        assert_int_equal(detail.offset, sizes[i] > 4096 ? 4096 : 0);
    }
    assert_int_equal(solsend_key_open(&key, "/nonexistent/id.json", &detail), SOLSEND_ERR_FILE);
    assert_non_null(strstr(detail.text, "No such file"));
    assert_int_equal(solsend_key_open(&key, "/tmp", &detail), SOLSEND_ERR_FILE);
    assert_int_equal(solsend_key_open(&key, "/dev/zero", &detail), SOLSEND_ERR_KEY_MALFORMED);
    assert_int_equal(solsend_key_open(&key, "/dev/null", &detail), SOLSEND_ERR_KEY_MALFORMED);
}

static void a_pasted_key_is_not_repeated(void **state)
{
    (void)state;
    const char *const secret =
        "4Z7cXSyeFR8wNGMVXUE1TwtKn5D5Vu7FzEv69dokLv7KrQk7h6pu4LF8ZRR9yQBhc7uSM6";
    solsend_key *key = NULL;
    solsend_detail detail = {0};
    assert_int_equal(solsend_key_open(&key, secret, &detail), SOLSEND_ERR_FILE);
    assert_no_leak(&detail, secret, strlen(secret));
    assert_non_null(strstr(detail.text, "solsend_key_from_text"));
    char json[512];
    size_t bytes = keygen_json(json, sizeof json, ",");
    assert_int_equal(solsend_key_open(&key, json, &detail), SOLSEND_ERR_FILE);
    assert_no_leak(&detail, json, bytes);
    char source[128];
    snprintf(source, sizeof source, "env:%s", secret);
    assert_int_equal(solsend_key_open(&key, source, &detail), SOLSEND_ERR_USAGE);
    assert_no_leak(&detail, secret, strlen(secret));
}

static void the_environment(void **state)
{
    (void)state;
    char text[512];
    keygen_json(text, sizeof text, ", ");
    solsend_key *key = NULL;
    solsend_detail detail = {0};
    setenv("SOLSEND_TEST_KEY", text, 1);
    assert_int_equal(solsend_key_open(&key, "env:SOLSEND_TEST_KEY", &detail), 0);
    assert_is_seven(key);
    /* 32 characters of text are no raw seed here */
    setenv("SOLSEND_TEST_KEY", "abcdefghijkmnopqrstuvwxyzabcdefg", 1);
    assert_int_equal(solsend_key_open(&key, "env:SOLSEND_TEST_KEY", &detail),
                     SOLSEND_ERR_KEY_MALFORMED);
    unsetenv("SOLSEND_TEST_KEY");
    assert_int_equal(solsend_key_open(&key, "env:SOLSEND_TEST_KEY", &detail), SOLSEND_ERR_USAGE);
    assert_int_equal(detail.offset, 4);
    assert_int_equal(solsend_key_open(&key, "env:", &detail), SOLSEND_ERR_USAGE);
}

static void wrong_arguments_are_usage(void **state)
{
    (void)state;
    solsend_key *key = NULL;
    uint8_t bytes[64] = {0};
    assert_int_equal(solsend_key_open(NULL, "x", NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_open(&key, NULL, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_open(&key, "", NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_open(&key, "file:", NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_from_text(NULL, "x", 1, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_from_text(&key, NULL, 1, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_from_seed(NULL, bytes), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_from_seed(&key, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_random(NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_public(NULL, bytes), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_sign(NULL, bytes, 1, bytes), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_is_locked(NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_signature_verify(NULL, bytes, 1, bytes), SOLSEND_ERR_USAGE);
    solsend_key_close(NULL);
    key = from_seed_byte(1);
    assert_int_equal(solsend_key_sign(key, NULL, 1, bytes), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_sign(key, bytes, 1, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_key_sign(key, NULL, 0, bytes), 0);
    assert_int_equal(solsend_key_public(key, NULL), SOLSEND_ERR_USAGE);
    solsend_key_close(key);
}

/* --- memory and forks --- */

static int64_t locked_kb(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    int64_t kb = -1;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        long long value;
        if (sscanf(line, "VmLck: %lld kB", &value) == 1) {
            kb = value;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return kb;
}

static void keys_share_pages_and_are_wiped(void **state)
{
    (void)state;
    enum { KEYS = 200 };
    solsend_key *keys[KEYS];
    int64_t before = locked_kb();
    for (int i = 0; i < KEYS; i++) {
        keys[i] = from_seed_byte((uint8_t)(i + 1));
    }
    long page_kb = sysconf(_SC_PAGESIZE) / 1024;
    int64_t pages = (locked_kb() - before) / page_kb;
    /* fewer under a small limit; none under a sanitizer, which makes mlock do nothing */
    assert_in_range(pages, 0, (KEYS + 63) / 64);
    const uint8_t zero[64] = {0};
    for (int i = 1; i < KEYS; i += 2) {
        const uint8_t *secret = key_seed(keys[i]);
        assert_memory_not_equal(secret, zero, 32);
        solsend_key_close(keys[i]); /* its page stays: a neighbour lives there */
        assert_memory_equal(secret, zero, 64);
        keys[i] = NULL;
    }
    for (int i = 0; i < KEYS; i += 2) {
        uint8_t seed[32];
        memset(seed, i + 1, sizeof seed);
        assert_memory_equal(key_seed(keys[i]), seed, 32);
        solsend_key_close(keys[i]);
    }
    assert_int_equal(locked_kb(), before);
}

/* A child inherits no lock, so what VmLck says is the key's alone. */
static int locked_tells_the_truth(void *lower)
{
    if (lower != NULL) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_MEMLOCK, &none);
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
            return 1;
        }
    }
    if (locked_kb() > 0) {
        return 2;
    }
    solsend_key *key = NULL;
    if (solsend_key_random(&key) != 0) {
        return 3;
    }
    int said = solsend_key_is_locked(key);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return said == 0 || said == 1 ? 0 : 4; /* their mlock locks nothing and says it did */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return said == 0 || said == 1 ? 0 : 4;
#endif
#endif
    if (lower != NULL && said != 0) {
        return 5;
    }
    return said == (locked_kb() > 0) ? 0 : 6;
}

static void is_locked_is_what_the_kernel_says(void **state)
{
    (void)state;
    int lower = 1;
    /* the page of this one is inherited, its lock is not: a child's key must not go there */
    solsend_key *parents = from_seed_byte(1);
    assert_int_equal(in_child(locked_tells_the_truth, NULL), 0);
    assert_int_equal(in_child(locked_tells_the_truth, &lower), 0);
    solsend_key_close(parents);
}

struct inherited {
    solsend_key *key;
    uint8_t *secret;
    int wiped_expected;
};

static int child_of_a_key(void *arg)
{
    struct inherited *in = arg;
    uint8_t out[64];
    const uint8_t zero[64] = {0};
    if (solsend_key_public(in->key, out) != SOLSEND_ERR_FORKED ||
        solsend_key_sign(in->key, out, 1, out) != SOLSEND_ERR_FORKED ||
        solsend_key_is_locked(in->key) != SOLSEND_ERR_FORKED) {
        return 1;
    }
    if ((memcmp(in->secret, zero, sizeof zero) == 0) != in->wiped_expected) {
        return 2;
    }
    /* a fresh key works, and the old one stays foreign */
    solsend_key *fresh = NULL;
    if (solsend_key_random(&fresh) != 0 || solsend_key_sign(fresh, out, 1, out) != 0) {
        return 3;
    }
    if (solsend_key_sign(in->key, out, 1, out) != SOLSEND_ERR_FORKED) {
        return 4;
    }
    solsend_key_close(in->key);
    if (solsend_key_sign(fresh, out, 1, out) != 0) {
        return 5;
    }
    solsend_key_close(fresh);
    return 0;
}

static void a_forked_child_has_no_secret(void **state)
{
    (void)state;
    struct inherited in = {.key = from_seed_byte(5), .wiped_expected = 1};
    union {
        const uint8_t *seen;
        uint8_t *own;
    } secret = {.seen = key_seed(in.key)};
    in.secret = secret.own;
    assert_int_equal(in_child(child_of_a_key, &in), 0);
    /* the guard matters: without the kernel's wiping the child holds the secret */
    uintptr_t page = (uintptr_t)in.secret & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
    assert_int_equal(madvise((void *)page, 4096, MADV_KEEPONFORK), 0);
    in.wiped_expected = 0;
    assert_int_equal(in_child(child_of_a_key, &in), 0);
    /* the parent is unaffected */
    uint8_t signature[64];
    assert_int_equal(solsend_key_sign(in.key, in.secret, 0, signature), 0);
    assert_int_equal(solsend_signature_verify(signature, NULL, 0, key_public(in.key)), 0);
    solsend_key_close(in.key);
}

static int open_one(void *arg)
{
    (void)arg;
    solsend_key *key = NULL;
    int rc = solsend_key_random(&key);
    solsend_key_close(key);
    return rc == 0 ? 0 : 1;
}

static void *open_and_close(void *arg)
{
    _Atomic int *stop = arg;
    uint64_t bad = 0;
    while (!atomic_load(stop)) {
        solsend_key *key = NULL;
        uint8_t seed[32];
        randombytes_buf(seed, sizeof seed);
        bad += solsend_key_from_seed(&key, seed) != 0;
        bad += memcmp(key_seed(key), seed, sizeof seed) != 0;
        solsend_key_close(key);
    }
    return bad == 0 ? arg : NULL;
}

static void forks_while_others_open_keys(void **state)
{
    (void)state;
    _Atomic int stop = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &stop), 0);
    }
    int failed = 0;
    for (int i = 0; i < 40; i++) {
        failed += in_child(open_one, NULL) != 0;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    assert_int_equal(failed, 0);
}

static void *sign_many(void *arg)
{
    const solsend_key *key = arg;
    uint8_t first[64];
    solsend_key_sign(key, (const uint8_t *)"abc", 3, first);
    for (int i = 0; i < 200; i++) {
        uint8_t again[64];
        if (solsend_key_sign(key, (const uint8_t *)"abc", 3, again) != 0 ||
            memcmp(first, again, 64) != 0) {
            return NULL;
        }
    }
    return arg;
}

static void any_number_of_threads_sign(void **state)
{
    (void)state;
    solsend_key *key = from_seed_byte(3);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sign_many, key), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    solsend_key_close(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc8032_vectors),
        cmocka_unit_test(solana_addresses),
        cmocka_unit_test(two_other_libraries_verify),
        cmocka_unit_test(random_keys_differ),
        cmocka_unit_test(json_with_any_white_space),
        cmocka_unit_test(base58_of_seed_and_pair),
        cmocka_unit_test(malformed_json_names_the_byte),
        cmocka_unit_test(a_json_key_with_one_change_is_refused),
        cmocka_unit_test(a_foreign_public_half_is_a_mismatch),
        cmocka_unit_test(malformed_base58_names_the_byte),
        cmocka_unit_test(more_than_4096_bytes_are_refused),
        cmocka_unit_test(files_of_each_kind),
        cmocka_unit_test(files_that_are_no_key),
        cmocka_unit_test(a_pasted_key_is_not_repeated),
        cmocka_unit_test(the_environment),
        cmocka_unit_test(wrong_arguments_are_usage),
        cmocka_unit_test(keys_share_pages_and_are_wiped),
        cmocka_unit_test(is_locked_is_what_the_kernel_says),
        cmocka_unit_test(a_forked_child_has_no_secret),
        cmocka_unit_test(forks_while_others_open_keys),
        cmocka_unit_test(any_number_of_threads_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
