#include "check.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>

#include <solsend/host.h>

#include "child.h"
#include "fixture.h"
#include "host/sysroot.h"
#include "steps.h"

static struct fixture host; /* a host whose every CPU is isolated */
static struct fixture bare; /* a host that shows nothing */

static int open_hosts(void **state)
{
    (void)state;
    return fixture_open(&host) != 0 || fixture_open(&bare) != 0 ||
           fixture_write(&host, "/sys/devices/system/cpu/isolated", "0-8191\n") != 0;
}

static int close_hosts(void **state)
{
    (void)state;
    fixture_close(&host);
    fixture_close(&bare);
    return 0;
}

static int policy_now(void)
{
    return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static int body_refused(void)
{
    solsend_step step;
    host_set_sysroot(bare.root);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 1, SOLSEND_HOST_SPINS, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_REFUSED_UNSAFE && step_is_whole(&step));
    CHILD_CHECK(step.step == SOLSEND_STEP_POLICY && step.wanted == 101 && step.got == 0);
    CHILD_CHECK(policy_now() == SCHED_OTHER);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_RR, 1, SOLSEND_HOST_SPINS | SOLSEND_HOST_STRICT,
                                    &step) == SOLSEND_ERR_REFUSED_UNSAFE);
    CHILD_CHECK(policy_now() == SCHED_OTHER);
    return CHILD_OK;
}

static void a_real_time_spinner_is_refused(void **state)
{
    (void)state;
    EXPECT_CHILD(body_refused);
}

/* Either it is real-time now, or the machine lacks the privilege and says so. */
static int is_granted_or_unprivileged(const solsend_step *step, int policy)
{
    if (step->code == SOLSEND_ERR_PRIVILEGE) {
        return policy_now() == SCHED_OTHER && step_is_whole(step);
    }
    return step->code == 0 && step_is_whole(step) && step->got == step->wanted &&
           policy_now() == policy;
}

static int body_forced(void)
{
    solsend_step step;
    host_set_sysroot(bare.root);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 1, SOLSEND_HOST_SPINS | SOLSEND_HOST_FORCE,
                                    &step) == 0);
    CHILD_CHECK(is_granted_or_unprivileged(&step, SCHED_FIFO));
    return CHILD_OK;
}

static void force_lets_it_through(void **state)
{
    (void)state;
    EXPECT_CHILD(body_forced);
}

static int body_isolated(void)
{
    solsend_step step;
    host_set_sysroot(host.root);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 2, SOLSEND_HOST_SPINS, &step) == 0);
    CHILD_CHECK(is_granted_or_unprivileged(&step, SCHED_FIFO));
    return CHILD_OK;
}

static void proven_isolation_lets_it_through(void **state)
{
    (void)state;
    EXPECT_CHILD(body_isolated);
}

static int body_sleeper(void)
{
    solsend_step step;
    host_set_sysroot(bare.root);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_RR, 3, 0, &step) == 0);
    CHILD_CHECK(is_granted_or_unprivileged(&step, SCHED_RR));
    if (step.code != 0) {
        CHILD_SKIP("no privilege for SCHED_RR here");
    }
    CHILD_CHECK(step.got == 203);
    /* Threads that start from here must not be real-time by accident. */
    CHILD_CHECK((sched_getscheduler(0) & SCHED_RESET_ON_FORK) != 0);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_OTHER, 0, SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(policy_now() == SCHED_OTHER);
    return CHILD_OK;
}

static void a_sleeper_may_be_real_time(void **state)
{
    (void)state;
    EXPECT_CHILD(body_sleeper);
}

static int body_unprivileged(void)
{
    if (child_set_limit(RLIMIT_RTPRIO, 0) != 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    solsend_step step;
    host_set_sysroot(bare.root);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 49, SOLSEND_HOST_STRICT, &step) ==
                SOLSEND_ERR_PRIVILEGE);
    CHILD_CHECK(step_is_whole(&step) && step.wanted == 149 && step.got == 0);
    CHILD_CHECK(strstr(step.why, "RLIMIT_RTPRIO is 0") != NULL);
    CHILD_CHECK(strstr(step.why, "CAP_SYS_NICE is missing") != NULL);
    CHILD_CHECK(strstr(step.fix, "--ulimit rtprio=") != NULL);
    CHILD_CHECK(strstr(step.why, "rt_runtime") == NULL);
    return CHILD_OK;
}

static void a_missing_privilege_is_named(void **state)
{
    (void)state;
    EXPECT_CHILD(body_unprivileged);
}

/* The real cause in a Docker container on cgroup version 1: the capability is there, and EPERM. */
static int body_no_runtime(void)
{
    if (child_fake_call(SYS_sched_setscheduler, -1, 0, EPERM) != 0) {
        CHILD_SKIP("no seccomp");
    }
    if (geteuid() != 0) {
        CHILD_SKIP("needs CAP_SYS_NICE");
    }
    CHILD_CHECK(fixture_write(&bare, "/proc/self/cgroup", "4:cpu,cpuacct:/docker/7\n") == 0);
    CHILD_CHECK(fixture_write(&bare, "/sys/fs/cgroup/cpu/cpu.rt_runtime_us", "0\n") == 0);
    host_set_sysroot(bare.root);
    solsend_step step;
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 1, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_PRIVILEGE && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "cpu.rt_runtime_us of this cgroup is 0") != NULL);
    CHILD_CHECK(strstr(step.fix, "--cpu-rt-runtime") != NULL);

    CHILD_CHECK(fixture_write(&bare, "/sys/fs/cgroup/cpu/cpu.rt_runtime_us", "950000\n") == 0);
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 1, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_PRIVILEGE && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "seccomp") != NULL);
    return CHILD_OK;
}

static void a_group_without_real_time_is_named(void **state)
{
    (void)state;
    EXPECT_CHILD(body_no_runtime);
}

/* Rootless engines give capabilities that the scheduler does not ask for. */
static int body_user_namespace(void)
{
    if (child_fake_call(SYS_sched_setscheduler, -1, 0, EPERM) != 0) {
        CHILD_SKIP("no seccomp");
    }
    if (geteuid() != 0 || child_set_limit(RLIMIT_RTPRIO, 0) != 0) {
        CHILD_SKIP("needs CAP_SYS_NICE");
    }
    CHILD_CHECK(fixture_write(&bare, "/proc/self/uid_map", "0 100000 65536\n") == 0);
    host_set_sysroot(bare.root);
    solsend_step step;
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_FIFO, 1, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_PRIVILEGE && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "user namespace") != NULL);
    return CHILD_OK;
}

static void a_capability_of_a_user_namespace_is_none(void **state)
{
    (void)state;
    EXPECT_CHILD(body_user_namespace);
}

static int body_lying_kernel(void)
{
    if (child_fake_call(SYS_sched_setscheduler, -1, 0, 0) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_policy(SOLSEND_POLICY_BATCH, 0, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NOT_SUPPORTED && step_is_whole(&step) && step.got == 0);
    return CHILD_OK;
}

static void a_policy_that_was_not_set_is_not_claimed(void **state)
{
    (void)state;
    EXPECT_CHILD(body_lying_kernel);
}

static void senseless_arguments_are_refused(void **state)
{
    (void)state;
    solsend_step step = {0};
    assert_int_equal(solsend_host_policy(SOLSEND_POLICY_FIFO, 0, 0, &step), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_policy(SOLSEND_POLICY_RR, 100, 0, &step), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_policy(SOLSEND_POLICY_OTHER, 1, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_policy(4, 0, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_policy(6, 0, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_policy(SOLSEND_POLICY_OTHER, 0, 8, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(step.step, 0);
}

#define ON_HOSTS(test) cmocka_unit_test_setup_teardown(test, open_hosts, close_hosts)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_HOSTS(a_real_time_spinner_is_refused),
        ON_HOSTS(force_lets_it_through),
        ON_HOSTS(proven_isolation_lets_it_through),
        ON_HOSTS(a_sleeper_may_be_real_time),
        ON_HOSTS(a_missing_privilege_is_named),
        ON_HOSTS(a_group_without_real_time_is_named),
        ON_HOSTS(a_capability_of_a_user_namespace_is_none),
        ON_HOSTS(a_policy_that_was_not_set_is_not_claimed),
        cmocka_unit_test(senseless_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
