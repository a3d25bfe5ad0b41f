#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "bench/json.h"
#include "json_check.h"

static char *text;
static size_t text_bytes;

static void start(struct json *j)
{
    json_start(j, open_memstream(&text, &text_bytes));
    assert_non_null(j->out);
}

static void finish(struct json *j)
{
    assert_int_equal(json_end(j), 0);
    fclose(j->out);
}

static void nesting_commas_and_escapes_make_valid_json(void **state)
{
    struct json j;
    (void)state;
    start(&j);
    json_open_object(&j, NULL);
    json_text(&j, "quote \" and \\", "line\nbreak \x01 caf\xc3\xa9");
    json_open_array(&j, "list");
    json_integer(&j, NULL, INT64_MIN);
    json_unsigned(&j, NULL, UINT64_MAX);
    json_open_object(&j, NULL);
    json_close_object(&j);
    json_open_array(&j, NULL);
    json_close_array(&j);
    json_close_array(&j);
    json_bool(&j, "yes", 1);
    json_text(&j, "nothing", NULL);
    json_close_object(&j);
    finish(&j);
    assert_null(json_check(text));
    assert_non_null(
        strstr(text, "\"quote \\\" and \\\\\": \"line\\u000abreak \\u0001 caf\xc3\xa9\""));
    assert_non_null(strstr(text, "-9223372036854775808,"));
    assert_non_null(strstr(text, "18446744073709551615,"));
    assert_non_null(strstr(text, "\"nothing\": null"));
    free(text);
}

static void what_was_not_measured_is_null(void **state)
{
    struct json j;
    (void)state;
    start(&j);
    json_open_array(&j, NULL);
    json_double(&j, NULL, NAN);
    json_double(&j, NULL, INFINITY);
    json_known(&j, NULL, -1);
    json_known(&j, NULL, 0);
    json_double(&j, NULL, 1.5);
    json_close_array(&j);
    finish(&j);
    assert_string_equal(text, "[\n  null,\n  null,\n  null,\n  0,\n  1.5\n]\n");
    assert_null(json_check(text));
    free(text);
}

static void the_checker_refuses_what_is_no_json(void **state)
{
    static const char *const wrong[] = {"",      "{",     "[1,]",   "{\"a\"}", "{\"a\":1,}",
                                        "01",    "1.",    "nul",    "\"a",     "\"\\x\"",
                                        "[1] 2", "{a:1}", "\"\n\"", "-",       "[1 2]"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (json_check(wrong[i]) == NULL) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_commas_and_escapes_make_valid_json),
        cmocka_unit_test(what_was_not_measured_is_null),
        cmocka_unit_test(the_checker_refuses_what_is_no_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
