#include "check.h"

#include "base/detail.h"

struct options {
    uint32_t size;
    uint32_t a;
    uint32_t b;
};

static void text_is_cut_not_overrun(void **state)
{
    (void)state;
    solsend_detail d = {0};
    char longtext[1000];
    memset(longtext, 'x', sizeof longtext - 1);
    longtext[sizeof longtext - 1] = 0;
    assert_int_equal(detail_set(&d, SOLSEND_ERR_BAD_URI, 3, "%s", longtext), SOLSEND_ERR_BAD_URI);
    assert_int_equal(d.code, SOLSEND_ERR_BAD_URI);
    assert_int_equal(d.offset, 3);
    assert_int_equal(strlen(d.text), sizeof d.text - 1);
    assert_int_equal(detail_set(NULL, SOLSEND_ERR_USAGE, 0, "x"), SOLSEND_ERR_USAGE);
}

static void older_caller_keeps_our_defaults(void **state)
{
    (void)state;
    struct options ours = {sizeof ours, 10, 20};
    struct {
        uint32_t size, a;
    } old = {sizeof old, 11};
    assert_int_equal(options_read(&ours, sizeof ours, &old, "options", NULL), 0);
    assert_int_equal(ours.a, 11);
    assert_int_equal(ours.b, 20);
    assert_int_equal(ours.size, sizeof ours);
}

static void newer_caller_is_refused_only_if_it_uses_the_tail(void **state)
{
    (void)state;
    struct options ours = {sizeof ours, 10, 20};
    struct {
        uint32_t size, a, b, c;
    } newer = {sizeof newer, 1, 2, 0};
    solsend_detail d = {0};
    assert_int_equal(options_read(&ours, sizeof ours, &newer, "options", &d), 0);
    assert_int_equal(ours.b, 2);
    newer.c = 5;
    assert_int_equal(options_read(&ours, sizeof ours, &newer, "options", &d),
                     SOLSEND_ERR_UNKNOWN_OPTION);
    assert_int_equal(d.offset, 12);
    assert_non_null(strstr(d.text, "options"));
}

static void size_zero_is_a_usage_error(void **state)
{
    (void)state;
    struct options ours = {sizeof ours, 10, 20}, theirs = {0, 1, 2};
    assert_int_equal(options_read(&ours, sizeof ours, &theirs, "options", NULL),
                     SOLSEND_ERR_BAD_SIZE);
    theirs.size = 7;
    assert_int_equal(options_read(&ours, sizeof ours, &theirs, "options", NULL),
                     SOLSEND_ERR_BAD_SIZE);
    assert_int_equal(options_write(&theirs, 0, &ours, sizeof ours), SOLSEND_ERR_BAD_SIZE);
    assert_int_equal(options_write(NULL, 12, &ours, sizeof ours), SOLSEND_ERR_BAD_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_not_overrun),
        cmocka_unit_test(older_caller_keeps_our_defaults),
        cmocka_unit_test(newer_caller_is_refused_only_if_it_uses_the_tail),
        cmocka_unit_test(size_zero_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
