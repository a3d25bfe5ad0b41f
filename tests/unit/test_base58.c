#include "check.h"

#include <solsend/key.h>

static void assert_both_ways(const uint8_t *data, size_t bytes, const char *text)
{
    char out[180];
    assert_int_equal(solsend_base58_encode(out, sizeof out, data, bytes), strlen(text));
    assert_string_equal(out, text);
    uint8_t back[128];
    memset(back, 0xee, sizeof back);
    assert_int_equal(solsend_base58_decode(back, bytes, text, strlen(text), NULL), 0);
    assert_memory_equal(back, data, bytes);
}

static void known_texts(void **state)
{
    (void)state;
    assert_both_ways((const uint8_t *)"Hello World!", 12, "2NEpo7TZRRrLZSi2U");
    assert_both_ways((const uint8_t *)"\x00\x00\x28\x7f\xb4\xcd", 6, "11233QC4");
    assert_both_ways((const uint8_t *)"The quick brown fox jumps over the lazy dog.", 44,
                     "USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z");
    const uint8_t zero[64] = {0};
    assert_both_ways(zero, 32, "11111111111111111111111111111111");
    assert_both_ways(zero, 0, "");
    assert_both_ways((const uint8_t *)"\xff", 1, "5Q");
    assert_both_ways((const uint8_t *)"\x00", 1, "1");
    uint8_t sixes[32] = {0x06, 0xa7, 0xd5, 0x17, 0x18, 0xc7, 0x74, 0xc9, 0x28, 0x56, 0x63,
                         0x98, 0x69, 0x1d, 0x5e, 0xb6, 0x8b, 0x5e, 0xb8, 0xa3, 0x9b, 0x4b,
                         0x6d, 0x5c, 0x73, 0x55, 0x5b, 0x21, 0x00, 0x00, 0x00, 0x00};
    assert_both_ways(sixes, 32, "SysvarC1ock11111111111111111111111111111111");
}

static void every_length_comes_back(void **state)
{
    (void)state;
    uint8_t data[128] = {0};
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        for (int round = 0; round < 8; round++) {
            for (size_t i = 0; i < bytes; i++) {
                data[i] =
                    (uint8_t)(round == 0   ? 0xff
                              : round == 1 ? 0
                                           : (i * 37 + bytes * 11 + (size_t)round * 101) % 256);
            }
            for (size_t i = 0; i < bytes && (int)i < round - 2; i++) {
                data[i] = 0;
            }
            char text[180];
            int length = solsend_base58_encode(text, sizeof text, data, bytes);
            assert_true(length >= 0);
            assert_int_equal(strlen(text), length);
            uint8_t back[128];
            assert_int_equal(solsend_base58_decode(back, bytes, text, (size_t)length, NULL), 0);
            assert_memory_equal(back, data, bytes);
            /* no other length accepts the text */
            assert_int_equal(
                bytes < 128 ? solsend_base58_decode(back, bytes + 1, text, (size_t)length, NULL)
                            : SOLSEND_ERR_BASE58,
                SOLSEND_ERR_BASE58);
            assert_int_equal(
                bytes > 0 ? solsend_base58_decode(back, bytes - 1, text, (size_t)length, NULL)
                          : SOLSEND_ERR_BASE58,
                SOLSEND_ERR_BASE58);
        }
    }
}

static void promised_buffers_suffice(void **state)
{
    (void)state;
    uint8_t data[64];
    memset(data, 0xff, sizeof data);
    char text[89];
    assert_int_equal(solsend_base58_encode(text, 45, data, 32), 44);
    assert_int_equal(solsend_base58_encode(text, 44, data, 32), SOLSEND_ERR_BUFFER_TOO_SMALL);
    assert_int_equal(solsend_base58_encode(text, 89, data, 64), 88);
    assert_int_equal(solsend_base58_encode(text, 88, data, 64), SOLSEND_ERR_BUFFER_TOO_SMALL);
    assert_int_equal(solsend_base58_encode(text, 0, data, 0), SOLSEND_ERR_BUFFER_TOO_SMALL);
}

static void assert_refused(size_t bytes, const char *text, uint32_t offset)
{
    uint8_t out[128];
    solsend_detail detail = {0};
    assert_int_equal(solsend_base58_decode(out, bytes, text, strlen(text), &detail),
                     SOLSEND_ERR_BASE58);
    assert_int_equal(detail.code, SOLSEND_ERR_BASE58);
    assert_int_equal(detail.offset, offset);
    char named[24];
    snprintf(named, sizeof named, "byte %u:", offset);
    assert_non_null(strstr(detail.text, named));
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(out[i], 0);
    }
}

static void refusals_name_the_byte(void **state)
{
    (void)state;
    const char *const bad = "0OIl +/=-_\t\n\x7f\xc3";
    for (const char *c = bad; *c != 0; c++) {
        char text[] = "2NEpo7TZRRrLZSi2U";
        text[5] = *c;
        assert_refused(12, text, 5);
    }
    assert_refused(12, "2NEpo7TZRRrLZSi", 15);    /* too short */
    assert_refused(12, "2NEpo7TZRRrLZSi2UU", 17); /* the last character is one too many */
    assert_refused(32, "", 0);
    assert_refused(32, "1111111111111111111111111111111", 31);
    assert_refused(32, "111111111111111111111111111111111", 32);
    assert_refused(12, "12NEpo7TZRRrLZSi2U", 0); /* a zero byte in front */
}

static void wrong_arguments_are_usage(void **state)
{
    (void)state;
    uint8_t data[129] = {0};
    char text[400];
    assert_int_equal(solsend_base58_encode(text, sizeof text, data, 129), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_base58_encode(NULL, 9, data, 1), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_base58_encode(text, 9, NULL, 1), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_base58_decode(data, 129, "1", 1, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_base58_decode(NULL, 1, "1", 1, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_base58_decode(data, 1, NULL, 1, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_base58_decode(NULL, 0, NULL, 0, NULL), 0);
    assert_int_equal(solsend_base58_decode(data, 1, "1\0", 2, NULL), SOLSEND_ERR_BASE58);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),
        cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(promised_buffers_suffice),
        cmocka_unit_test(refusals_name_the_byte),
        cmocka_unit_test(wrong_arguments_are_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
