#include "check.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <solsend/host.h>

#include "child.h"
#include "host/sysroot.h"
#include "steps.h"

#define BIT(step) (UINT32_C(1) << (step))
#define ALL                                                                                        \
    (BIT(SOLSEND_STEP_PIN) | BIT(SOLSEND_STEP_POLICY) | BIT(SOLSEND_STEP_NICE) |                   \
     BIT(SOLSEND_STEP_TIMER_SLACK) | BIT(SOLSEND_STEP_THP) | BIT(SOLSEND_STEP_CPU_LATENCY))

static void defaults_are_as_documented(void **state)
{
    (void)state;
    solsend_host_options o;
    memset(&o, 0xff, sizeof o);
    assert_int_equal(solsend_host_options_init(&o, sizeof o), 0);
    assert_int_equal(o.size, sizeof o);
    assert_int_equal(o.steps, BIT(SOLSEND_STEP_PIN) | BIT(SOLSEND_STEP_NICE) |
                                  BIT(SOLSEND_STEP_TIMER_SLACK));
    assert_int_equal(o.flags, 0);
    assert_int_equal(o.cpu, SOLSEND_CPU_AUTO);
    assert_int_equal(o.policy, SOLSEND_POLICY_OTHER);
    assert_int_equal(o.priority, 0);
    assert_int_equal(o.nice, -20);
    assert_int_equal(o.cpu_latency_us, 0);
    assert_int_equal(o.timer_slack_ns, 1);
    assert_int_equal(solsend_host_options_init(&o, 0), SOLSEND_ERR_BAD_SIZE);
    assert_int_equal(solsend_host_options_init(&o, 7), SOLSEND_ERR_BAD_SIZE);
    assert_int_equal(solsend_host_options_init(NULL, sizeof o), SOLSEND_ERR_BAD_SIZE);
}

static int body_defaults(void)
{
    solsend_step steps[8];
    memset(steps, 0x11, sizeof steps);
    CHILD_CHECK(solsend_host_apply(NULL, steps, 8, NULL, NULL) == 3);
    CHILD_CHECK(steps[0].step == SOLSEND_STEP_TIMER_SLACK && steps[0].code == 0);
    CHILD_CHECK(steps[1].step == SOLSEND_STEP_PIN && steps[1].code == 0);
    CHILD_CHECK(steps[2].step == SOLSEND_STEP_NICE);
    CHILD_CHECK(steps[3].step == 0 && steps[7].step == 0 && steps[7].fix[0] == 0);
    CHILD_CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1);
    CHILD_CHECK(steps[2].got == getpriority(PRIO_PROCESS, 0));
    for (int i = 0; i < 3; i++) {
        CHILD_CHECK(step_is_whole(&steps[i]));
    }
    return CHILD_OK;
}

static void the_defaults_tune_a_thread(void **state)
{
    (void)state;
    EXPECT_CHILD(body_defaults);
}

static int body_order(void)
{
    static const uint32_t order[] = {SOLSEND_STEP_THP,         SOLSEND_STEP_CPU_LATENCY,
                                     SOLSEND_STEP_TIMER_SLACK, SOLSEND_STEP_PIN,
                                     SOLSEND_STEP_NICE,        SOLSEND_STEP_POLICY};
    solsend_host_options o;
    solsend_step steps[6];
    solsend_cpu_latency *latency = NULL;
    host_set_sysroot("/nonexistent"); /* no device to hold, nothing proven isolated */
    CHILD_CHECK(solsend_host_options_init(&o, sizeof o) == 0);
    o.steps = ALL;
    o.nice = 3;
    o.policy = SOLSEND_POLICY_FIFO;
    o.priority = 1;
    o.flags = SOLSEND_HOST_SPINS;
    CHILD_CHECK(solsend_host_apply(&o, steps, 6, &latency, NULL) == 6);
    for (int i = 0; i < 6; i++) {
        CHILD_CHECK(steps[i].step == order[i] && step_is_whole(&steps[i]));
    }
    CHILD_CHECK(steps[1].code == SOLSEND_ERR_NOT_SUPPORTED && latency == NULL);
    CHILD_CHECK(steps[5].code == SOLSEND_ERR_REFUSED_UNSAFE);
    CHILD_CHECK(getpriority(PRIO_PROCESS, 0) == 3);
    return CHILD_OK;
}

static void all_steps_come_in_their_order(void **state)
{
    (void)state;
    EXPECT_CHILD(body_order);
}

static int body_strict(void)
{
    solsend_host_options o;
    solsend_step steps[6];
    solsend_detail detail = {0};
    host_set_sysroot("/nonexistent");
    CHILD_CHECK(solsend_host_options_init(&o, sizeof o) == 0);
    o.steps = BIT(SOLSEND_STEP_POLICY) | BIT(SOLSEND_STEP_TIMER_SLACK) | BIT(SOLSEND_STEP_NICE);
    o.nice = 4;
    o.policy = SOLSEND_POLICY_RR;
    o.priority = 1;
    o.flags = SOLSEND_HOST_SPINS;
    CHILD_CHECK(solsend_host_apply(&o, steps, 6, NULL, &detail) == 3);
    CHILD_CHECK(detail.code == 0); /* written on failure only */
    o.flags = SOLSEND_HOST_SPINS | SOLSEND_HOST_STRICT;
    CHILD_CHECK(solsend_host_apply(&o, steps, 6, NULL, &detail) == SOLSEND_ERR_REFUSED_UNSAFE);
    CHILD_CHECK(detail.code == SOLSEND_ERR_REFUSED_UNSAFE);
    CHILD_CHECK(strncmp(detail.text, "policy: ", 8) == 0);
    CHILD_CHECK(steps[0].step == SOLSEND_STEP_TIMER_SLACK && steps[1].step == SOLSEND_STEP_NICE);
    CHILD_CHECK(steps[2].code == SOLSEND_ERR_REFUSED_UNSAFE);
    return CHILD_OK;
}

static void strictness_turns_a_shortfall_into_its_code(void **state)
{
    (void)state;
    EXPECT_CHILD(body_strict);
}

/* The first shortfall must not keep later steps from their turn. */
static int body_strict_goes_on(void)
{
    solsend_host_options o;
    solsend_cpu_latency *latency = NULL;
    host_set_sysroot("/nonexistent");
    CHILD_CHECK(solsend_host_options_init(&o, sizeof o) == 0);
    o.steps = BIT(SOLSEND_STEP_CPU_LATENCY) | BIT(SOLSEND_STEP_TIMER_SLACK);
    o.timer_slack_ns = 777;
    o.flags = SOLSEND_HOST_STRICT;
    CHILD_CHECK(solsend_host_apply(&o, NULL, 0, &latency, NULL) == SOLSEND_ERR_NOT_SUPPORTED);
    CHILD_CHECK(latency == NULL);
    CHILD_CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 777);
    return CHILD_OK;
}

static void strictness_takes_the_other_steps_all_the_same(void **state)
{
    (void)state;
    EXPECT_CHILD(body_strict_goes_on);
}

static int body_cut(void)
{
    solsend_step steps[2];
    memset(steps, 0x11, sizeof steps);
    CHILD_CHECK(solsend_host_apply(NULL, steps, 1, NULL, NULL) == 3);
    CHILD_CHECK(steps[0].step == SOLSEND_STEP_TIMER_SLACK);
    CHILD_CHECK(steps[1].step == 0x11111111);
    return CHILD_OK;
}

static void steps_that_do_not_fit_are_counted_only(void **state)
{
    (void)state;
    EXPECT_CHILD(body_cut);
}

static void assert_bad(const solsend_host_options *o, int code, const char *member)
{
    solsend_detail detail = {0};
    solsend_step step;
    int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    assert_int_equal(solsend_host_apply(o, &step, 1, NULL, &detail), code);
    assert_int_equal(detail.code, code);
    assert_non_null(strstr(detail.text, member));
    assert_int_equal(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), slack); /* nothing was done */
}

static void a_wrong_option_is_named_before_anything_is_done(void **state)
{
    (void)state;
    solsend_host_options good;
    assert_int_equal(solsend_host_options_init(&good, sizeof good), 0);
    solsend_host_options o = good;
    o.steps |= BIT(SOLSEND_STEP_LOCK);
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".steps");
    o = good;
    o.flags = 8;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".flags");
    o = good;
    o.cpu = -2;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".cpu");
    o = good;
    o.policy = 6;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".policy");
    o = good;
    o.priority = 1;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".priority");
    o = good;
    o.nice = 20;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".nice");
    o = good;
    o.cpu_latency_us = UINT32_MAX;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".cpu_latency_us");
    o = good;
    o.timer_slack_ns = 0;
    assert_bad(&o, SOLSEND_ERR_BAD_OPTION, ".timer_slack_ns");
    o = good;
    o.steps = BIT(SOLSEND_STEP_CPU_LATENCY);
    assert_bad(&o, SOLSEND_ERR_USAGE, "latency");
    o = good;
    o.size = 0;
    assert_bad(&o, SOLSEND_ERR_BAD_SIZE, "size");
    assert_int_equal(solsend_host_apply(NULL, NULL, 1, NULL, NULL), SOLSEND_ERR_USAGE);
}

static int body_sizes(void)
{
    struct {
        solsend_host_options known;
        uint64_t tail;
    } newer;
    solsend_detail detail;
    memset(&newer, 0, sizeof newer);
    CHILD_CHECK(solsend_host_options_init(&newer.known, sizeof newer) == 0);
    CHILD_CHECK(newer.known.size == sizeof newer);
    newer.known.steps = BIT(SOLSEND_STEP_TIMER_SLACK);
    CHILD_CHECK(solsend_host_apply(&newer.known, NULL, 0, NULL, &detail) == 1);
    newer.tail = 1;
    CHILD_CHECK(solsend_host_apply(&newer.known, NULL, 0, NULL, &detail) ==
                SOLSEND_ERR_UNKNOWN_OPTION);

    /* A caller built against an older header: what it lacks keeps the defaults. */
    solsend_host_options older;
    CHILD_CHECK(solsend_host_options_init(&older, sizeof older) == 0);
    older.size = offsetof(solsend_host_options, timer_slack_ns);
    older.steps = BIT(SOLSEND_STEP_TIMER_SLACK);
    older.timer_slack_ns = 0; /* not the library's to read */
    CHILD_CHECK(solsend_host_apply(&older, NULL, 0, NULL, &detail) == 1);
    CHILD_CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1);
    return CHILD_OK;
}

static void older_and_newer_callers_are_understood(void **state)
{
    (void)state;
    EXPECT_CHILD(body_sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(the_defaults_tune_a_thread),
        cmocka_unit_test(all_steps_come_in_their_order),
        cmocka_unit_test(strictness_turns_a_shortfall_into_its_code),
        cmocka_unit_test(strictness_takes_the_other_steps_all_the_same),
        cmocka_unit_test(steps_that_do_not_fit_are_counted_only),
        cmocka_unit_test(a_wrong_option_is_named_before_anything_is_done),
        cmocka_unit_test(older_and_newer_callers_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
