#include "check.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <solsend/host.h>

#include "child.h"
#include "fixture.h"
#include "host/step.h"
#include "host/sysroot.h"
#include "steps.h"

static struct fixture host;

static int open_host(void **state)
{
    (void)state;
    return fixture_open(&host);
}

static int close_host(void **state)
{
    (void)state;
    host_set_sysroot(NULL);
    fixture_close(&host);
    return 0;
}

/* ---- nice ---- */

static int body_nicer(void)
{
    solsend_step step;
    CHILD_CHECK(solsend_host_nice(5, SOLSEND_HOST_STRICT, &step) == 0); /* needs no privilege */
    CHILD_CHECK(step.step == SOLSEND_STEP_NICE && step_is_whole(&step));
    CHILD_CHECK(step.wanted == 5 && step.got == 5 && getpriority(PRIO_PROCESS, 0) == 5);
    return CHILD_OK;
}

static void nice_is_read_back(void **state)
{
    (void)state;
    EXPECT_CHILD(body_nicer);
}

static int body_nice_refused(void)
{
    if (child_set_limit(RLIMIT_NICE, 0) != 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    int before = getpriority(PRIO_PROCESS, 0);
    solsend_step step;
    CHILD_CHECK(solsend_host_nice(-20, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_PRIVILEGE && step_is_whole(&step));
    CHILD_CHECK(step.got == before && getpriority(PRIO_PROCESS, 0) == before);
    CHILD_CHECK(strstr(step.why, "CAP_SYS_NICE is missing") != NULL);
    CHILD_CHECK(solsend_host_nice(-20, SOLSEND_HOST_STRICT, NULL) == SOLSEND_ERR_PRIVILEGE);
    return CHILD_OK;
}

static void a_refused_nice_is_explained(void **state)
{
    (void)state;
    EXPECT_CHILD(body_nice_refused);
}

static int body_nice_limited(void)
{
    if (getpriority(PRIO_PROCESS, 0) != 0 || child_set_limit(RLIMIT_NICE, 25) != 0 ||
        child_drop_privileges() != 0) {
        CHILD_SKIP("the limit cannot be raised, or privileges not dropped");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_nice(-20, SOLSEND_HOST_STRICT, &step) == SOLSEND_ERR_CLAMPED);
    CHILD_CHECK(step.got == -5 && step_is_whole(&step));
    CHILD_CHECK(getpriority(PRIO_PROCESS, 0) == -5);
    CHILD_CHECK(strstr(step.why, "RLIMIT_NICE is 25") != NULL);
    return CHILD_OK;
}

static void as_much_nice_as_the_limit_permits(void **state)
{
    (void)state;
    EXPECT_CHILD(body_nice_limited);
}

/* ---- timer slack and transparent huge pages ---- */

static int body_slack(void)
{
    solsend_step step;
    CHILD_CHECK(solsend_host_timer_slack(1, SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(step.step == SOLSEND_STEP_TIMER_SLACK && step_is_whole(&step));
    CHILD_CHECK(step.got == 1 && prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1);
    CHILD_CHECK(solsend_host_timer_slack(1000000000, SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(solsend_host_timer_slack(1000, SOLSEND_HOST_STRICT, NULL) == 0);
    CHILD_CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1000);
    return CHILD_OK;
}

static void slack_is_read_back(void **state)
{
    (void)state;
    EXPECT_CHILD(body_slack);
}

static int body_prctl_lies(void)
{
    if (prctl(PR_SET_TIMERSLACK, 50000UL, 0, 0, 0) != 0 ||
        child_fake_call(SYS_prctl, 0, PR_SET_TIMERSLACK, 0) != 0 ||
        child_fake_call(SYS_prctl, 0, PR_SET_THP_DISABLE, EINVAL) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(solsend_host_timer_slack(1, 0, &step) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NOT_SUPPORTED && step.got == 50000);
    CHILD_CHECK(step_is_whole(&step));
    CHILD_CHECK(solsend_host_thp_off(SOLSEND_HOST_STRICT, &step) == SOLSEND_ERR_NOT_SUPPORTED);
    CHILD_CHECK(step_is_whole(&step) && strstr(step.why, "EINVAL") != NULL);
    return CHILD_OK;
}

static void settings_that_were_not_made_are_not_claimed(void **state)
{
    (void)state;
    EXPECT_CHILD(body_prctl_lies);
}

static int body_thp(void)
{
    solsend_step step;
    CHILD_CHECK(solsend_host_thp_off(SOLSEND_HOST_STRICT, &step) == 0);
    CHILD_CHECK(step.step == SOLSEND_STEP_THP && step_is_whole(&step) && step.got == 1);
    CHILD_CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    return CHILD_OK;
}

static void transparent_huge_pages_go_off(void **state)
{
    (void)state;
    EXPECT_CHILD(body_thp);
}

/* ---- CPU latency ---- */

static void put(const char *path, const char *text)
{
    assert_int_equal(fixture_write(&host, path, text), 0);
}

static void a_held_latency_is_written_and_read_back(void **state)
{
    (void)state;
    solsend_cpu_latency *latency = NULL;
    solsend_step step;
    put("/dev/cpu_dma_latency", "");
    put("/sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    host_set_sysroot(host.root);
    assert_int_equal(solsend_host_hold_cpu_latency(&latency, 3, SOLSEND_HOST_STRICT, &step), 0);
    assert_non_null(latency);
    assert_int_equal(step.step, SOLSEND_STEP_CPU_LATENCY);
    assert_int_equal(step.code, 0);
    assert_int_equal(step.got, 3);
    assert_true(step_is_whole(&step));

    char path[128];
    int32_t written = -1;
    snprintf(path, sizeof path, "%s/dev/cpu_dma_latency", host.root);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&written, sizeof written, 1, file), 1);
    fclose(file);
    assert_int_equal(written, 3);
    solsend_host_release_cpu_latency(latency);
    solsend_host_release_cpu_latency(NULL);
}

static void a_guest_without_idle_states_is_told(void **state)
{
    (void)state;
    solsend_cpu_latency *latency = NULL;
    solsend_step step;
    put("/dev/cpu_dma_latency", "");
    put("/sys/devices/system/cpu/cpuidle/current_driver", "none\n");
    host_set_sysroot(host.root);
    assert_int_equal(solsend_host_hold_cpu_latency(&latency, 0, 0, &step), 0);
    assert_int_equal(step.code, SOLSEND_ERR_NOT_SUPPORTED);
    assert_int_equal(step.got, -1);
    assert_true(step_is_whole(&step));
    assert_non_null(latency); /* held: it does no harm */
    solsend_host_release_cpu_latency(latency);

    assert_int_equal(solsend_host_hold_cpu_latency(&latency, 0, SOLSEND_HOST_STRICT, &step),
                     SOLSEND_ERR_NOT_SUPPORTED);
    assert_null(latency);
}

static void a_container_without_the_device_is_told(void **state)
{
    (void)state;
    solsend_cpu_latency *latency = NULL;
    solsend_step step;
    host_set_sysroot(host.root);
    assert_int_equal(solsend_host_hold_cpu_latency(&latency, 0, 0, &step), 0);
    assert_null(latency);
    assert_int_equal(step.code, SOLSEND_ERR_NOT_SUPPORTED);
    assert_true(step_is_whole(&step));
    assert_non_null(strstr(step.why, "ENOENT"));
    assert_non_null(strstr(step.fix, "--device /dev/cpu_dma_latency"));
}

static int body_latency_unprivileged(void)
{
    char path[128];
    if (fixture_write(&host, "/dev/cpu_dma_latency", "") != 0 ||
        snprintf(path, sizeof path, "%s/dev/cpu_dma_latency", host.root) <= 0 ||
        chmod(path, 0) != 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    host_set_sysroot(host.root);
    solsend_cpu_latency *latency = NULL;
    solsend_step step;
    CHILD_CHECK(solsend_host_hold_cpu_latency(&latency, 0, SOLSEND_HOST_STRICT, &step) ==
                SOLSEND_ERR_PRIVILEGE);
    CHILD_CHECK(latency == NULL && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "EACCES") != NULL);
    return CHILD_OK;
}

static void a_device_of_roots_is_told(void **state)
{
    (void)state;
    EXPECT_CHILD(body_latency_unprivileged);
}

/* ---- senseless arguments ---- */

static void senseless_arguments_are_refused(void **state)
{
    (void)state;
    solsend_cpu_latency *latency = NULL;
    assert_int_equal(solsend_host_nice(-21, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_nice(20, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_nice(0, 8, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_timer_slack(0, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_timer_slack(1000000001, 0, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_timer_slack(1, 8, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_thp_off(8, NULL), SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_hold_cpu_latency(NULL, 0, 0, NULL), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_host_hold_cpu_latency(&latency, UINT32_MAX, 0, NULL),
                     SOLSEND_ERR_BAD_OPTION);
    assert_int_equal(solsend_host_hold_cpu_latency(&latency, 0, 8, NULL), SOLSEND_ERR_BAD_OPTION);
}

static void every_step_has_a_name(void **state)
{
    (void)state;
    for (uint32_t i = SOLSEND_STEP_PIN; i <= SOLSEND_STEP_TX_STAMPS; i++) {
        assert_string_not_equal(solsend_step_name(i), "?");
        assert_true(strlen(solsend_step_name(i)) < sizeof((solsend_step *)NULL)->name);
        for (uint32_t k = SOLSEND_STEP_PIN; k < i; k++) {
            assert_string_not_equal(solsend_step_name(i), solsend_step_name(k));
        }
    }
    assert_string_equal(solsend_step_name(0), "?");
    assert_string_equal(solsend_step_name(SOLSEND_STEP_TX_STAMPS + 1), "?");
    assert_string_equal(solsend_step_name(UINT32_MAX), "?");
}

static void long_texts_are_cut_and_end(void **state)
{
    (void)state;
    char text[400];
    solsend_step step;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(host_step_fill(&step, SOLSEND_STEP_PIN, -1, 0, 0, text, text, "%s", text), -1);
    assert_int_equal(strlen(step.why), sizeof step.why - 1);
    assert_int_equal(strlen(step.cost), sizeof step.cost - 1);
    assert_int_equal(strlen(step.fix), sizeof step.fix - 1);
    host_step_fix(&step, "%d", 7);
    assert_string_equal(step.fix, "7");
    assert_int_equal(host_step_fill(NULL, SOLSEND_STEP_PIN, -5, 0, 0, text, text, "%s", text), -5);
    host_step_fix(NULL, "%d", 7);
}

#define ON_HOST(test) cmocka_unit_test_setup_teardown(test, open_host, close_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nice_is_read_back),
        cmocka_unit_test(a_refused_nice_is_explained),
        cmocka_unit_test(as_much_nice_as_the_limit_permits),
        cmocka_unit_test(slack_is_read_back),
        cmocka_unit_test(settings_that_were_not_made_are_not_claimed),
        cmocka_unit_test(transparent_huge_pages_go_off),
        ON_HOST(a_held_latency_is_written_and_read_back),
        ON_HOST(a_guest_without_idle_states_is_told),
        ON_HOST(a_container_without_the_device_is_told),
        ON_HOST(a_device_of_roots_is_told),
        cmocka_unit_test(senseless_arguments_are_refused),
        cmocka_unit_test(every_step_has_a_name),
        cmocka_unit_test(long_texts_are_cut_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
