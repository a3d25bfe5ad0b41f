#include <string.h>

#include "base/detail.h"
#include "host/step.h"
#include "host/wishes.h"

#define BIT(step) (UINT32_C(1) << (step))

_Static_assert(sizeof(solsend_host_options) == 40, "no padding in solsend_host_options");

/* Policy comes last, once the pin can prove isolation; the pin comes before what depends on it. */
static const uint32_t order[] = {
    SOLSEND_STEP_THP, SOLSEND_STEP_CPU_LATENCY, SOLSEND_STEP_TIMER_SLACK,
    SOLSEND_STEP_PIN, SOLSEND_STEP_NICE,        SOLSEND_STEP_POLICY,
};

enum { ORDER_COUNT = sizeof order / sizeof order[0] };

static const solsend_host_options defaults = {
    .size = sizeof(solsend_host_options),
    .steps = BIT(SOLSEND_STEP_PIN) | BIT(SOLSEND_STEP_NICE) | BIT(SOLSEND_STEP_TIMER_SLACK),
    .flags = 0,
    .cpu = SOLSEND_CPU_AUTO,
    .policy = SOLSEND_POLICY_OTHER,
    .priority = 0,
    .nice = -20,
    .cpu_latency_us = 0,
    .timer_slack_ns = 1,
};

int solsend_host_options_init(solsend_host_options *options, uint32_t size)
{
    solsend_host_options ours = defaults;
    return options_write(options, size, &ours, sizeof ours);
}

static int refuse(solsend_detail *detail, size_t offset, const char *member, const char *range)
{
    return detail_set(detail, SOLSEND_ERR_BAD_OPTION, (uint32_t)offset,
                      "solsend_host_options.%s must be %s", member, range);
}

static int check(const solsend_host_options *o, solsend_detail *detail)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < ORDER_COUNT; i++) {
        known |= BIT(order[i]);
    }
    if ((o->steps & ~known) != 0) {
        return refuse(detail, offsetof(solsend_host_options, steps), "steps",
                      "an OR of 1 << PIN, POLICY, NICE, TIMER_SLACK, THP, CPU_LATENCY");
    }
    if (!host_wishes_flags(o->flags)) {
        return refuse(detail, offsetof(solsend_host_options, flags), "flags",
                      "an OR of SOLSEND_HOST_STRICT, FORCE, SPINS");
    }
    if (!host_wishes_cpu(o->cpu)) {
        return refuse(detail, offsetof(solsend_host_options, cpu), "cpu",
                      "a CPU number or SOLSEND_CPU_AUTO");
    }
    if (!host_wishes_policy(o->policy)) {
        return refuse(detail, offsetof(solsend_host_options, policy), "policy",
                      "one of SOLSEND_POLICY_…");
    }
    if (!host_wishes_priority(o->policy, o->priority)) {
        return refuse(detail, offsetof(solsend_host_options, priority), "priority",
                      "1 to 99 for FIFO and RR, 0 for the other policies");
    }
    if (!host_wishes_nice(o->nice)) {
        return refuse(detail, offsetof(solsend_host_options, nice), "nice", "-20 to 19");
    }
    if (!host_wishes_latency(o->cpu_latency_us)) {
        return refuse(detail, offsetof(solsend_host_options, cpu_latency_us), "cpu_latency_us",
                      "at most 2000000000");
    }
    if (!host_wishes_slack(o->timer_slack_ns)) {
        return refuse(detail, offsetof(solsend_host_options, timer_slack_ns), "timer_slack_ns",
                      "1 to 1000000000");
    }
    return 0;
}

/* The record tells the outcome; STRICT is left out, or a first shortfall would end the rest. */
static void take(uint32_t id, const solsend_host_options *o, solsend_cpu_latency **latency,
                 solsend_step *step)
{
    uint32_t flags = o->flags & ~(uint32_t)SOLSEND_HOST_STRICT;
    switch (id) {
    case SOLSEND_STEP_THP:
        solsend_host_thp_off(flags, step);
        break;
    case SOLSEND_STEP_CPU_LATENCY:
        solsend_host_hold_cpu_latency(latency, o->cpu_latency_us, flags, step);
        break;
    case SOLSEND_STEP_TIMER_SLACK:
        solsend_host_timer_slack(o->timer_slack_ns, flags, step);
        break;
    case SOLSEND_STEP_PIN:
        solsend_host_pin(o->cpu, flags, step);
        break;
    case SOLSEND_STEP_NICE:
        solsend_host_nice(o->nice, flags, step);
        break;
    case SOLSEND_STEP_POLICY:
        solsend_host_policy(o->policy, o->priority, flags, step);
        break;
    }
}

static int prepare(solsend_host_options *ours, const solsend_host_options *options,
                   solsend_step *steps, uint32_t max_steps, solsend_cpu_latency **latency,
                   solsend_detail *detail)
{
    *ours = defaults;
    int rc = options != NULL
                 ? options_read(ours, sizeof *ours, options, "solsend_host_options", detail)
                 : 0;
    rc = rc == 0 ? check(ours, detail) : rc;
    if (rc != 0) {
        return rc;
    }
    if (steps == NULL && max_steps > 0) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET,
                          "steps is null but max_steps is %u", max_steps);
    }
    if (latency == NULL && (ours->steps & BIT(SOLSEND_STEP_CPU_LATENCY)) != 0) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET,
                          "latency is null, but CPU_LATENCY has to hand a hold over");
    }
    return 0;
}

int solsend_host_apply(const solsend_host_options *options, solsend_step *steps, uint32_t max_steps,
                       solsend_cpu_latency **latency, solsend_detail *detail)
{
    solsend_host_options ours;
    if (latency != NULL) {
        *latency = NULL;
    }
    int rc = prepare(&ours, options, steps, max_steps, latency, detail);
    if (rc != 0) {
        return rc;
    }
    if (steps != NULL) {
        memset(steps, 0, max_steps * sizeof *steps);
    }
    int count = 0;
    int first_shortfall = 0;
    for (uint32_t i = 0; i < ORDER_COUNT; i++) {
        if ((ours.steps & BIT(order[i])) == 0) {
            continue;
        }
        solsend_step step;
        take(order[i], &ours, latency, &step);
        solsend_step *out = host_step_at(steps, max_steps, (uint32_t)count);
        if (out != NULL) {
            *out = step;
        }
        if (step.code != 0 && first_shortfall == 0) {
            first_shortfall = step.code;
            if ((ours.flags & SOLSEND_HOST_STRICT) != 0) {
                detail_set(detail, step.code, SOLSEND_NO_OFFSET, "%s: %s", step.name, step.why);
            }
        }
        count++;
    }
    return (ours.flags & SOLSEND_HOST_STRICT) != 0 && first_shortfall != 0 ? first_shortfall
                                                                           : count;
}
