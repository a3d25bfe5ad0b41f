#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "callgrind.h"

static char path[64];

static void write_profile(const char *text)
{
    int fd;
    snprintf(path, sizeof path, "/tmp/solsend-profile-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static uint64_t cost_of(const struct callgrind *c, const char *object, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->functions[i].object, object) == 0 &&
            strcmp(c->functions[i].name, name) == 0) {
            return c->functions[i].instructions;
        }
    }
    return 0;
}

static void a_function_costs_its_own_lines_and_not_those_of_its_calls(void **state)
{
    struct callgrind c;
    char why[200];
    (void)state;
    write_profile("# callgrind format\nversion: 1\npositions: line\nevents: Ir\nsummary: 160\n\n"
                  "ob=/opt/x/program\nfl=/opt/x/link.c\nfn=outer\n"
                  "10 5\n+1 7\n"
                  "cob=/usr/lib/libinner.so.1\ncfi=???\ncfn=inner\ncalls=3 0\n12 100\n"
                  "* 8\n"
                  "\nob=/usr/lib/libinner.so.1\nfl=???\nfn=inner\n0 100\n"
                  "\nob=/opt/x/program\nfn=outer\n-3 40\n"
                  "\ntotals: 160\n");
    assert_int_equal(callgrind_read(&c, path, why, sizeof why), 0);
    unlink(path);
    assert_int_equal(c.count, 2);
    assert_int_equal(cost_of(&c, "program", "outer"), 60);
    assert_int_equal(cost_of(&c, "libinner.so.1", "inner"), 100);
    assert_string_equal(c.functions[0].name, "inner"); /* the most expensive first */
    assert_int_equal(callgrind_object(&c, "libinner"), 100);
    assert_int_equal(callgrind_object(&c, "lib"), 100);
    assert_int_equal(callgrind_object(&c, "program"), 60);
    callgrind_free(&c);
}

static void a_profile_without_costs_is_an_error(void **state)
{
    struct callgrind c;
    char why[200];
    (void)state;
    write_profile("# callgrind format\nevents: Ir\nob=/a\nfn=b\n");
    assert_int_equal(callgrind_read(&c, path, why, sizeof why), -1);
    assert_non_null(strstr(why, path));
    unlink(path);
    assert_int_equal(callgrind_read(&c, path, why, sizeof why), -1);
    assert_non_null(strstr(why, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_costs_its_own_lines_and_not_those_of_its_calls),
        cmocka_unit_test(a_profile_without_costs_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
