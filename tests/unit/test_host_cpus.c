#include "check.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include <solsend/error.h>

#include "child.h"
#include "host/cpus.h"

static void assert_list(const char *list, const char *expected, uint32_t count)
{
    struct host_cpus cpus = {0};
    char out[256];
    assert_int_equal(host_cpus_parse(&cpus, list), 0);
    assert_int_equal(host_cpus_count(&cpus), count);
    assert_int_equal(host_cpus_format(&cpus, out, sizeof out), strlen(expected));
    assert_string_equal(out, expected);
    host_cpus_close(&cpus);
}

static void lists_come_back_in_their_shortest_form(void **state)
{
    (void)state;
    assert_list("", "", 0);
    assert_list("0", "0", 1);
    assert_list("0-3,8", "0-3,8", 5);
    assert_list("2,1,0", "0-2", 3);
    assert_list("0-1,2-5\n", "0-5", 6);
    assert_list("7,3,7", "3,7", 2);
}

static void more_than_1024_cpus_are_no_matter(void **state)
{
    (void)state;
    assert_list("0-2047", "0-2047", 2048);
    assert_list("1,1023-1025,8191", "1,1023-1025,8191", 5);
    struct host_cpus cpus = {0};
    assert_int_equal(host_cpus_parse(&cpus, "4-5,4095"), 0);
    assert_true(host_cpus_has(&cpus, 4095));
    assert_false(host_cpus_has(&cpus, 4094));
    assert_false(host_cpus_has(&cpus, 65535)); /* beyond the set: simply not in it */
    assert_false(host_cpus_has(&cpus, -1));
    assert_int_equal(host_cpus_next(&cpus, 0), 4);
    assert_int_equal(host_cpus_next(&cpus, 6), 4095);
    assert_int_equal(host_cpus_next(&cpus, 4096), -1);
    host_cpus_remove(&cpus, 4095);
    host_cpus_remove(&cpus, 60000);
    assert_int_equal(host_cpus_count(&cpus), 2);
    host_cpus_close(&cpus);
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"-",   "a",    "0-",  "3-1",        "1;2",
                                        "1 2", "0x10", ",,1", "4294967296", "65536"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct host_cpus cpus = {0};
        assert_int_equal(host_cpus_parse(&cpus, wrong[i]), SOLSEND_ERR_USAGE);
        host_cpus_close(&cpus);
    }
}

static void a_list_that_does_not_fit_is_cut_and_measured(void **state)
{
    (void)state;
    struct host_cpus cpus = {0};
    char out[6];
    assert_int_equal(host_cpus_parse(&cpus, "10,12,14"), 0);
    assert_int_equal(host_cpus_format(&cpus, out, sizeof out), 8);
    assert_string_equal(out, "10,12");
    assert_int_equal(host_cpus_format(&cpus, NULL, 0), 8);
    host_cpus_close(&cpus);
}

static void sets_of_different_size_merge(void **state)
{
    (void)state;
    struct host_cpus small = {0};
    struct host_cpus large = {0};
    assert_int_equal(host_cpus_parse(&small, "1"), 0);
    assert_int_equal(host_cpus_parse(&large, "3000"), 0);
    assert_int_equal(host_cpus_add_all(&small, &large), 0);
    assert_int_equal(host_cpus_add_all(&large, &small), 0);
    assert_int_equal(host_cpus_count(&small), 2);
    assert_int_equal(host_cpus_count(&large), 2);
    host_cpus_close(&small);
    host_cpus_close(&large);
}

static void a_threads_set_is_the_kernels(void **state)
{
    (void)state;
    cpu_set_t kernel;
    CPU_ZERO(&kernel);
    if (sched_getaffinity(0, sizeof kernel, &kernel) != 0) {
        SKIP_TEST("more than 1024 CPUs: the plain call cannot be compared with");
    }
    struct host_cpus cpus = {0};
    assert_int_equal(host_cpus_of_thread(&cpus, 0), 0);
    assert_int_equal(host_cpus_count(&cpus), CPU_COUNT(&kernel));
    for (int32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        assert_int_equal(host_cpus_has(&cpus, cpu), CPU_ISSET((size_t)cpu, &kernel) != 0);
    }
    host_cpus_close(&cpus);
}

/* A kernel of more than 1024 CPUs answers EINVAL to a mask of 128 bytes. */
static int body_large_kernel(void)
{
    if (child_fake_call(SYS_sched_getaffinity, 1, 128, EINVAL) != 0) {
        CHILD_SKIP("no seccomp");
    }
    cpu_set_t plain;
    CHILD_CHECK(sched_getaffinity(0, sizeof plain, &plain) == -1 && errno == EINVAL);
    struct host_cpus cpus = {0};
    CHILD_CHECK(host_cpus_of_thread(&cpus, 0) == 0);
    CHILD_CHECK(host_cpus_count(&cpus) >= 1);
    CHILD_CHECK(cpus.bytes > 128);
    return CHILD_OK;
}

static void the_mask_grows_until_the_kernel_takes_it(void **state)
{
    (void)state;
    EXPECT_CHILD(body_large_kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_come_back_in_their_shortest_form),
        cmocka_unit_test(more_than_1024_cpus_are_no_matter),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_list_that_does_not_fit_is_cut_and_measured),
        cmocka_unit_test(sets_of_different_size_merge),
        cmocka_unit_test(a_threads_set_is_the_kernels),
        cmocka_unit_test(the_mask_grows_until_the_kernel_takes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
