#include "check.h"

#include <solsend/error.h>

static void codes_are_unique_and_described(void **state)
{
    (void)state;
    int32_t codes[256];
    int n = solsend_error_codes(codes, 256);
    assert_in_range(n, 40, 256);
    for (int i = 0; i < n; i++) {
        assert_true(codes[i] < 0);
        assert_string_not_equal(solsend_error_name(codes[i]), "?");
        assert_true(strlen(solsend_error_text(codes[i])) > 5);
        assert_in_range(solsend_error_kind(codes[i]), SOLSEND_KIND_AGAIN, SOLSEND_KIND_INTERNAL);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(solsend_error_name(codes[i]), solsend_error_name(codes[j]));
        }
    }
}

static void success_and_unknown_have_answers(void **state)
{
    (void)state;
    assert_string_equal(solsend_error_name(0), "OK");
    assert_string_equal(solsend_error_name(7), "OK");
    assert_int_equal(solsend_error_kind(7), SOLSEND_KIND_NONE);
    assert_string_equal(solsend_error_name(-99999), "?");
    assert_int_equal(solsend_error_kind(-99999), SOLSEND_KIND_INTERNAL);
    assert_string_equal(solsend_error_name(SOLSEND_ERR_NO_CREDIT), "NO_CREDIT");
    assert_int_equal(solsend_error_kind(SOLSEND_ERR_DISALLOWED), SOLSEND_KIND_PEER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_unique_and_described),
        cmocka_unit_test(success_and_unknown_have_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
