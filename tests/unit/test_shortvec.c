#include "check.h"

#include "tx/shortvec.h"

static void every_value_comes_back_in_its_only_form(void **state)
{
    (void)state;
    for (uint32_t value = 0; value <= 0xffff; value++) {
        uint8_t out[SHORTVEC_BYTES_MAX];
        uint32_t bytes = shortvec_write(out, value);
        assert_int_equal(bytes, shortvec_bytes(value));
        uint32_t back = UINT32_MAX;
        assert_int_equal(shortvec_read(out, bytes, &back), bytes);
        assert_int_equal(back, value);
        for (uint32_t cut = 0; cut < bytes; cut++) {
            assert_int_equal(shortvec_read(out, cut, &back), 0);
        }
    }
}

static void known_forms(void **state)
{
    (void)state;
    static const struct {
        uint32_t value;
        uint32_t bytes;
        uint8_t form[3];
    } known[] = {{0, 1, {0}},
                 {0x7f, 1, {0x7f}},
                 {0x80, 2, {0x80, 0x01}},
                 {0xff, 2, {0xff, 0x01}},
                 {0x100, 2, {0x80, 0x02}},
                 {0x3fff, 2, {0xff, 0x7f}},
                 {0x4000, 3, {0x80, 0x80, 0x01}},
                 {0x7fff, 3, {0xff, 0xff, 0x01}},
                 {0xffff, 3, {0xff, 0xff, 0x03}}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint8_t out[SHORTVEC_BYTES_MAX];
        assert_int_equal(shortvec_write(out, known[i].value), known[i].bytes);
        assert_memory_equal(out, known[i].form, known[i].bytes);
    }
}

/* Of all three-byte inputs, exactly the 65536 minimal forms are read, and each value once. */
static void nothing_else_is_accepted(void **state)
{
    (void)state;
    static uint8_t seen[0x10000];
    uint32_t accepted[4] = {0};
    for (uint32_t input = 0; input < 1u << 24; input++) {
        const uint8_t bytes[3] = {(uint8_t)input, (uint8_t)(input >> 8), (uint8_t)(input >> 16)};
        uint32_t value = UINT32_MAX;
        int used = shortvec_read(bytes, 3, &value);
        assert_true(used != 0);
        if (used < 0) {
            continue;
        }
        accepted[used]++;
        assert_true(value <= 0xffff);
        assert_int_equal(shortvec_bytes(value), used);
        seen[value] = 1;
    }
    /* what follows a value does not matter */
    assert_int_equal(accepted[1], 0x80 * 0x10000);
    assert_int_equal(accepted[2], (0x4000 - 0x80) * 0x100);
    assert_int_equal(accepted[3], 0x10000 - 0x4000);
    for (uint32_t value = 0; value <= 0xffff; value++) {
        assert_true(seen[value]);
    }
}

static void refusals_name_the_byte(void **state)
{
    (void)state;
    uint32_t value;
    assert_int_equal(shortvec_read((const uint8_t *)"\x80\x00", 2, &value), -2);
    assert_int_equal(shortvec_read((const uint8_t *)"\xff\x00", 2, &value), -2);
    assert_int_equal(shortvec_read((const uint8_t *)"\x80\x80\x00", 3, &value), -3);
    assert_int_equal(shortvec_read((const uint8_t *)"\x80\x80\x04", 3, &value), -3);
    assert_int_equal(shortvec_read((const uint8_t *)"\x80\x80\x80\x01", 4, &value), -3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_comes_back_in_its_only_form),
        cmocka_unit_test(known_forms),
        cmocka_unit_test(nothing_else_is_accepted),
        cmocka_unit_test(refusals_name_the_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
