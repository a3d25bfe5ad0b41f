#include "check.h"

#include <gnutls/x509.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <solsend/key.h>

#include "link/cert.h"

/* What Agave's own code (solana-tls-utils) makes for keys whose seed is 32 times one byte. */
static const struct golden {
    uint8_t seed;
    const char *address;
    const char *der;
} golden[] = {
    {0x01, "AKnL4NNf3DGWZJS6cPknBuEGnVsV4A4m5tgebLHaRSZ9",
     "3081f63081a9a00302010202080101010101010101300506032b657030163114301206035504030c0b536f"
     "6c616e61206e6f64653020170d3730303130313030303030305a180f34303936303130313030303030305a"
     "3000302a300506032b65700321008a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b4"
     "0f6f5ca329302730170603551d110101ff040d300b82096c6f63616c686f7374300c0603551d130101ff04"
     "023000300506032b6570034100ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},
    {0x07, "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB",
     "3081f63081a9a00302010202080101010101010101300506032b657030163114301206035504030c0b536f"
     "6c616e61206e6f64653020170d3730303130313030303030305a180f34303936303130313030303030305a"
     "3000302a300506032b6570032100ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea6914"
     "46d22ca329302730170603551d110101ff040d300b82096c6f63616c686f7374300c0603551d130101ff04"
     "023000300506032b6570034100ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},
    {0xc8, "BELn9TCk4uWEihwdgoUx8xUfd5ujL9pKrwtJCesiQAev",
     "3081f63081a9a00302010202080101010101010101300506032b657030163114301206035504030c0b536f"
     "6c616e61206e6f64653020170d3730303130313030303030305a180f34303936303130313030303030305a"
     "3000302a300506032b657003210097ffc883c80bee7237ef95d9b9b703d4ad63e60a21e605867682b75b8b"
     "3f4303a329302730170603551d110101ff040d300b82096c6f63616c686f7374300c0603551d130101ff04"
     "023000300506032b6570034100ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},
};
enum { GOLDEN_COUNT = sizeof golden / sizeof golden[0] };

static void make(const struct golden *g, uint8_t der[CERT_BYTES], uint8_t public_key[32])
{
    uint8_t seed[32];
    solsend_key *key = NULL;
    memset(seed, g->seed, sizeof seed);
    assert_int_equal(solsend_key_from_seed(&key, seed), 0);
    assert_int_equal(solsend_key_public(key, public_key), 0);
    solsend_key_close(key);
    cert_write(der, public_key);
}

static void bytes_are_agaves(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        uint8_t der[CERT_BYTES], public_key[32], address[32];
        char hex[2 * CERT_BYTES + 1];
        make(&golden[i], der, public_key);
        for (size_t b = 0; b < sizeof der; b++) {
            snprintf(hex + 2 * b, 3, "%02x", der[b]);
        }
        assert_string_equal(hex, golden[i].der);
        assert_int_equal(solsend_base58_decode(address, sizeof address, golden[i].address,
                                               strlen(golden[i].address), NULL),
                         0);
        assert_memory_equal(public_key, address, 32);
        assert_memory_equal(der + CERT_KEY_OFFSET, address, 32);
    }
}

static void only_the_key_differs(void **state)
{
    (void)state;
    uint8_t zero[CERT_BYTES], ones[CERT_BYTES], guard[CERT_BYTES + 2], key[32];
    memset(key, 0, sizeof key);
    cert_write(zero, key);
    memset(key, 0xff, sizeof key);
    cert_write(ones, key);
    for (size_t i = 0; i < CERT_BYTES; i++) {
        int in_key = i >= 100 && i < 132;
        assert_int_equal(zero[i] == ones[i], !in_key);
    }
    guard[0] = guard[CERT_BYTES + 1] = 0x5a;
    cert_write(guard + 1, key);
    assert_int_equal(guard[0], 0x5a);
    assert_int_equal(guard[CERT_BYTES + 1], 0x5a);
}

static void gnutls_reads_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        uint8_t der[CERT_BYTES], public_key[32];
        make(&golden[i], der, public_key);
        gnutls_x509_crt_t crt;
        gnutls_datum_t datum = {der, sizeof der};
        assert_int_equal(gnutls_x509_crt_init(&crt), 0);
        assert_int_equal(gnutls_x509_crt_import(crt, &datum, GNUTLS_X509_FMT_DER), 0);

        gnutls_ecc_curve_t curve;
        gnutls_datum_t x, y;
        assert_int_equal(gnutls_x509_crt_get_pk_ecc_raw(crt, &curve, &x, &y), 0);
        assert_int_equal(curve, GNUTLS_ECC_CURVE_ED25519);
        assert_int_equal(x.size, 32);
        assert_memory_equal(x.data, public_key, 32);
        gnutls_free(x.data);
        gnutls_free(y.data);

        char text[64];
        size_t bytes = sizeof text;
        assert_int_equal(gnutls_x509_crt_get_version(crt), 3);
        assert_int_equal(gnutls_x509_crt_get_issuer_dn(crt, text, &bytes), 0);
        assert_string_equal(text, "CN=Solana node");
        bytes = sizeof text;
        int rc =
            gnutls_x509_crt_get_dn(crt, text, &bytes); /* newer versions: no data is an error */
        assert_true(rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE || (rc == 0 && bytes == 0));
        bytes = sizeof text;
        assert_int_equal(gnutls_x509_crt_get_serial(crt, text, &bytes), 0);
        assert_int_equal(bytes, 8);
        assert_memory_equal(text, "\1\1\1\1\1\1\1\1", 8);
        assert_int_equal(gnutls_x509_crt_get_activation_time(crt), 0);
        assert_int_equal(gnutls_x509_crt_get_expiration_time(crt), 67090118400LL);
        bytes = sizeof text;
        assert_int_equal(gnutls_x509_crt_get_subject_alt_name(crt, 0, text, &bytes, NULL),
                         GNUTLS_SAN_DNSNAME);
        assert_int_equal(bytes, 9);
        assert_memory_equal(text, "localhost", 9);
        assert_int_equal(gnutls_x509_crt_get_ca_status(crt, NULL), 0);
        static const char *const extensions[] = {"2.5.29.17", "2.5.29.19"};
        for (unsigned e = 0; e < 2; e++) {
            unsigned critical = 0;
            bytes = sizeof text;
            assert_int_equal(gnutls_x509_crt_get_extension_info(crt, e, text, &bytes, &critical),
                             0);
            assert_string_equal(text, extensions[e]);
            assert_int_equal(critical, 1);
        }
        assert_int_equal(gnutls_x509_crt_get_signature_algorithm(crt), GNUTLS_SIGN_EDDSA_ED25519);
        gnutls_x509_crt_deinit(crt);
    }
}

/* ---- a second parser: a walk over the DER, by the definitions of X.690 alone ----------------- */

struct element {
    uint8_t tag;
    const uint8_t *data;
    size_t bytes;
};

/* Takes the next element of `*at`…`end`; fails the test when it does not fit. */
static struct element next(const uint8_t **at, const uint8_t *end)
{
    assert_true(end - *at >= 2);
    struct element e = {.tag = (*at)[0]};
    size_t length = (*at)[1];
    *at += 2;
    if (length & 0x80) {
        size_t n = length & 0x7f;
        assert_in_range(n, 1, 2);
        assert_true((size_t)(end - *at) >= n);
        for (length = 0; n > 0; n--) {
            length = length << 8 | *(*at)++;
        }
        assert_true(length >= 128); /* DER: the shortest form */
    }
    assert_true((size_t)(end - *at) >= length);
    e.data = *at;
    e.bytes = length;
    *at += length;
    return e;
}

static void is(const struct element *e, uint8_t tag, const char *data, size_t bytes)
{
    assert_int_equal(e->tag, tag);
    assert_int_equal(e->bytes, bytes);
    assert_memory_equal(e->data, data, bytes);
}

static const char ed25519_sequence[] = "\x06\x03\x2b\x65\x70"; /* OID 1.3.101.112 */

static void a_der_walk_finds_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        uint8_t der[CERT_BYTES], public_key[32];
        make(&golden[i], der, public_key);
        const uint8_t *at = der;
        struct element whole = next(&at, der + sizeof der);
        assert_int_equal(whole.tag, 0x30);
        assert_ptr_equal(at, der + sizeof der); /* nothing after it */

        at = whole.data;
        const uint8_t *end = whole.data + whole.bytes;
        struct element tbs = next(&at, end);
        assert_int_equal(tbs.tag, 0x30);
        struct element algorithm = next(&at, end);
        is(&algorithm, 0x30, ed25519_sequence, 5);
        struct element signature = next(&at, end);
        assert_int_equal(signature.tag, 0x03);
        assert_int_equal(signature.bytes, 65);
        assert_int_equal(signature.data[0], 0);
        for (int b = 1; b < 65; b++) {
            assert_int_equal(signature.data[b], 0xff);
        }
        assert_ptr_equal(at, end);

        at = tbs.data;
        end = tbs.data + tbs.bytes;
        struct element e = next(&at, end);
        is(&e, 0xa0, "\x02\x01\x02", 3); /* version 3 */
        e = next(&at, end);
        is(&e, 0x02, "\1\1\1\1\1\1\1\1", 8);
        e = next(&at, end);
        is(&e, 0x30, ed25519_sequence, 5);
        e = next(&at, end);
        is(&e, 0x30, "\x31\x14\x30\x12\x06\x03\x55\x04\x03\x0c\x0bSolana node", 22);
        e = next(&at, end);
        is(&e, 0x30,
           "\x17\x0d"
           "700101000000Z"
           "\x18\x0f"
           "40960101000000Z",
           32);
        e = next(&at, end);
        is(&e, 0x30, "", 0); /* no subject */
        struct element spki = next(&at, end);
        assert_int_equal(spki.tag, 0x30);
        const uint8_t *inner = spki.data;
        e = next(&inner, spki.data + spki.bytes);
        is(&e, 0x30, ed25519_sequence, 5);
        e = next(&inner, spki.data + spki.bytes);
        assert_int_equal(e.tag, 0x03);
        assert_int_equal(e.bytes, 33);
        assert_int_equal(e.data[0], 0);
        assert_memory_equal(e.data + 1, public_key, 32);
        assert_int_equal(e.data + 1 - der, CERT_KEY_OFFSET);
        assert_ptr_equal(inner, spki.data + spki.bytes);
        struct element extensions = next(&at, end);
        assert_int_equal(extensions.tag, 0xa3);
        assert_ptr_equal(at, end);
    }
}

/* ---- a third, where the program is there ----------------------------------------------------- */

static void openssl_reads_it(void **state)
{
    (void)state;
    if (system("openssl version >/dev/null 2>&1") != 0) {
        SKIP_TEST("there is no openssl program");
    }
    uint8_t der[CERT_BYTES], public_key[32];
    char path[] = "/tmp/solsend-cert-XXXXXX";
    char command[128], text[4096], hex[3 * 32 + 1];
    make(&golden[0], der, public_key);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, der, sizeof der), sizeof der);
    close(fd);
    snprintf(command, sizeof command, "openssl x509 -inform DER -noout -text -in %s", path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    text[fread(text, 1, sizeof text - 1, p)] = 0;
    int status = pclose(p);
    unlink(path);
    assert_int_equal(status, 0);

    assert_non_null(strstr(text, "Version: 3"));
    assert_non_null(strstr(text, "Solana node"));
    assert_non_null(strstr(text, "ED25519"));
    assert_non_null(strstr(text, "DNS:localhost"));
    /* the key is printed as pairs of digits with colons, lines and spaces between */
    char *from = strstr(text, "pub:");
    assert_non_null(from);
    size_t n = 0;
    for (from += 4; n < 64 && *from != 0; from++) {
        if (strchr("0123456789abcdef", *from) != NULL) {
            hex[n++] = *from;
        }
    }
    hex[n] = 0;
    for (size_t i = 0; i < 32; i++) {
        char pair[3];
        snprintf(pair, sizeof pair, "%02x", public_key[i]);
        assert_memory_equal(hex + 2 * i, pair, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_agaves), cmocka_unit_test(only_the_key_differs),
        cmocka_unit_test(gnutls_reads_it),  cmocka_unit_test(a_der_walk_finds_the_same),
        cmocka_unit_test(openssl_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
