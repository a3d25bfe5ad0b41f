#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include <solsend/host.h>

#include "child.h"
#include "host/cpus.h"
#include "steps.h"

/* The first two CPUs this process may use; 0 if there are fewer. */
static int two_cpus(int32_t pair[2])
{
    struct host_cpus cpus = {0};
    int enough = host_cpus_of_thread(&cpus, 0) == 0 && host_cpus_count(&cpus) >= 2;
    if (enough) {
        pair[0] = host_cpus_next(&cpus, 0);
        pair[1] = host_cpus_next(&cpus, pair[0] + 1);
    }
    host_cpus_close(&cpus);
    return enough;
}

/* The kernel's word: the only CPU of the calling thread, or -1. */
static int32_t only_cpu(void)
{
    struct host_cpus cpus = {0};
    int32_t cpu = -1;
    if (host_cpus_of_thread(&cpus, 0) == 0 && host_cpus_count(&cpus) == 1) {
        cpu = host_cpus_next(&cpus, 0);
    }
    host_cpus_close(&cpus);
    return cpu;
}

/* What taskset and a container's cpuset do to a process before it starts. */
static int restrict_to(int32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

static int body_auto(void)
{
    solsend_step step;
    int32_t pair[2];
    int choice = two_cpus(pair);
    CHILD_CHECK(solsend_host_pin(SOLSEND_CPU_AUTO, SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(step_is_whole(&step) && step.step == SOLSEND_STEP_PIN);
    CHILD_CHECK(step.wanted == SOLSEND_CPU_AUTO && step.got == only_cpu());
    CHILD_CHECK(sched_getcpu() == step.got);
    CHILD_CHECK(!choice || step.got != 0);
    return CHILD_OK;
}

static void auto_is_pinned_where_it_says(void **state)
{
    (void)state;
    EXPECT_CHILD(body_auto);
}

static int body_outside(void)
{
    int32_t pair[2];
    if (!two_cpus(pair)) {
        CHILD_SKIP("one CPU");
    }
    CHILD_CHECK(restrict_to(pair[0]) == 0);
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(pair[1], 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NO_CPU && step_is_whole(&step));
    CHILD_CHECK(step.wanted == pair[1] && step.got == pair[0]); /* it still runs there only */
    char allowed[32];
    snprintf(allowed, sizeof allowed, "allowed are %d", pair[0]);
    CHILD_CHECK(strstr(step.why, allowed) != NULL);
    CHILD_CHECK(only_cpu() == pair[0]);
    CHILD_CHECK(solsend_host_pin(pair[1], SOLSEND_HOST_STRICT, &step) == SOLSEND_ERR_NO_CPU);

    /* What is allowed is found by itself, and one may leave a taskset by force. */
    CHILD_CHECK(solsend_host_pin(SOLSEND_CPU_AUTO, SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(step.got == pair[0]);
    CHILD_CHECK(solsend_host_pin(pair[1], SOLSEND_HOST_FORCE | SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(only_cpu() == pair[1]);
    return CHILD_OK;
}

static void a_cpu_outside_the_set_is_named(void **state)
{
    (void)state;
    EXPECT_CHILD(body_outside);
}

static int body_impossible(void)
{
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(4000, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NO_CPU && step_is_whole(&step));
    CHILD_CHECK(solsend_host_pin(4000, SOLSEND_HOST_FORCE, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NO_CPU && strstr(step.why, "EINVAL") != NULL);
    CHILD_CHECK(solsend_host_pin(INT32_MAX, SOLSEND_HOST_FORCE, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NO_CPU && step_is_whole(&step));
    return CHILD_OK;
}

static void a_cpu_that_does_not_exist_is_no_cpu(void **state)
{
    (void)state;
    EXPECT_CHILD(body_impossible);
}

static int body_twice(void)
{
    int32_t pair[2];
    if (!two_cpus(pair)) {
        CHILD_SKIP("one CPU");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(pair[0], SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(solsend_host_pin(pair[1], SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(only_cpu() == pair[1] && step.got == pair[1]);
    return CHILD_OK;
}

static void our_own_pin_does_not_narrow_what_is_allowed(void **state)
{
    (void)state;
    EXPECT_CHILD(body_twice);
}

static sem_t pinned;
static sem_t finish;
static solsend_step first_step;

static void *pin_and_stay(void *argument)
{
    (void)argument;
    solsend_host_pin(SOLSEND_CPU_AUTO, 0, &first_step);
    sem_post(&pinned);
    sem_wait(&finish);
    return NULL;
}

static int body_two_threads(void)
{
    int32_t pair[2];
    if (!two_cpus(pair)) {
        CHILD_SKIP("one CPU");
    }
    pthread_t thread;
    sem_init(&pinned, 0, 0);
    sem_init(&finish, 0, 0);
    CHILD_CHECK(pthread_create(&thread, NULL, pin_and_stay, NULL) == 0);
    sem_wait(&pinned);
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(SOLSEND_CPU_AUTO, 0, &step) == 0);
    sem_post(&finish);
    pthread_join(thread, NULL);
    CHILD_CHECK(first_step.code == 0 && step.code == 0);
    CHILD_CHECK(first_step.got != step.got);
    return CHILD_OK;
}

static void two_threads_get_two_cpus(void **state)
{
    (void)state;
    EXPECT_CHILD(body_two_threads);
}

/* Some sandboxes take the call and leave the thread where it was. */
static int body_lying_kernel(void)
{
    int32_t pair[2];
    if (!two_cpus(pair)) {
        CHILD_SKIP("one CPU");
    }
    if (child_fake_call(SYS_sched_setaffinity, -1, 0, 0) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(pair[1], 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NOT_SUPPORTED && step_is_whole(&step));
    CHILD_CHECK(step.got == -1);
    return CHILD_OK;
}

static void a_pin_that_was_not_done_is_not_claimed(void **state)
{
    (void)state;
    EXPECT_CHILD(body_lying_kernel);
}

static int body_forbidden(void)
{
    if (child_fake_call(SYS_sched_setaffinity, -1, 0, EPERM) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(SOLSEND_CPU_AUTO, SOLSEND_HOST_STRICT, &step) ==
                SOLSEND_ERR_PRIVILEGE);
    CHILD_CHECK(step_is_whole(&step) && strstr(step.why, "EPERM") != NULL);
    return CHILD_OK;
}

static void a_forbidden_pin_says_by_what(void **state)
{
    (void)state;
    EXPECT_CHILD(body_forbidden);
}

/* A cpuset that shrank since: the kernel takes nothing of what was allowed. */
static int body_gone(void)
{
    int32_t pair[2];
    if (!two_cpus(pair)) {
        CHILD_SKIP("one CPU");
    }
    if (child_fake_call(SYS_sched_setaffinity, -1, 0, EINVAL) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_pin(SOLSEND_CPU_AUTO, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NO_CPU && step_is_whole(&step));
    CHILD_CHECK(solsend_host_pin(pair[0], 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NO_CPU && step_is_whole(&step));
    return CHILD_OK;
}

static void a_cpuset_that_shrank_is_no_cpu(void **state)
{
    (void)state;
    EXPECT_CHILD(body_gone);
}

static void senseless_arguments_are_refused(void **state)
{
    (void)state;
    assert_int_equal(solsend_host_pin(-2, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_pin(0, 1u << 20, NULL), SOLSEND_ERR_BAD_OPTION);
}

static void the_allowed_list_is_told(void **state)
{
    (void)state;
    struct host_cpus mine = {0};
    struct host_cpus told = {0};
    char list[4096];
    assert_int_equal(host_cpus_of_thread(&mine, 0), 0);
    int count = solsend_host_cpus(list, sizeof list);
    assert_int_equal(count, host_cpus_count(&mine));
    assert_int_equal(solsend_host_cpus(NULL, 0), count);
    assert_int_equal(host_cpus_parse(&told, list), 0);
    assert_int_equal(host_cpus_count(&told), count);
    assert_int_equal(solsend_host_cpus(list, 1), SOLSEND_ERR_BUFFER_TOO_SMALL);
    host_cpus_close(&mine);
    host_cpus_close(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_pinned_where_it_says),
        cmocka_unit_test(a_cpu_outside_the_set_is_named),
        cmocka_unit_test(a_cpu_that_does_not_exist_is_no_cpu),
        cmocka_unit_test(our_own_pin_does_not_narrow_what_is_allowed),
        cmocka_unit_test(two_threads_get_two_cpus),
        cmocka_unit_test(a_pin_that_was_not_done_is_not_claimed),
        cmocka_unit_test(a_forbidden_pin_says_by_what),
        cmocka_unit_test(a_cpuset_that_shrank_is_no_cpu),
        cmocka_unit_test(senseless_arguments_are_refused),
        cmocka_unit_test(the_allowed_list_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
