#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "host/cgroup.h"
#include "host/isolation.h"
#include "host/privilege.h"
#include "host/step.h"
#include "host/wishes.h"

static const char policy_cost[] = "the thread waits behind any ordinary task: with a busy "
                                  "neighbour up to 14 ms, real-time 1.6 ms (cyclictest, a guest)";
static const char unsafe_cost[] = "granted, one waiting task took a spinner off for 54 ms each "
                                  "second: intended to sent p99 43.7 ms (kernel 6.18)";

static int64_t number_of(uint32_t policy, uint32_t priority)
{
    return (int64_t)policy * 100 + priority;
}

static int64_t read_back(void)
{
    struct sched_param param = {0};
    int policy = sched_getscheduler(0);
    if (policy < 0 || sched_getparam(0, &param) != 0) {
        return -1;
    }
    return number_of((uint32_t)(policy & ~SCHED_RESET_ON_FORK), (uint32_t)param.sched_priority);
}

/* 1: this thread's version 1 group was given no real-time at all, whatever its privileges. */
static int group_has_no_runtime(void)
{
    char text[64];
    return host_cgroup_read("cpu", "cpu.rt_runtime_us", text, sizeof text) > 0 &&
           strcmp(text, "0") == 0;
}

static void explain_refusal(solsend_step *step, int64_t wanted, uint32_t priority)
{
    uint64_t limit = host_limit(RLIMIT_RTPRIO);
    int capability = host_capability(HOST_CAP_SYS_NICE);
    int may = capability == HOST_CAP_PRESENT || limit >= priority;
    int no_runtime = group_has_no_runtime();
    if (!may) {
        host_step_fill(step, SOLSEND_STEP_POLICY, SOLSEND_ERR_PRIVILEGE, wanted, read_back(),
                       policy_cost,
                       "host: LimitRTPRIO=49 (systemd) or limits.conf rtprio; container: --ulimit "
                       "rtprio=49 or --cap-add SYS_NICE",
                       "sched_setscheduler: EPERM; RLIMIT_RTPRIO is %llu; %s%s",
                       (unsigned long long)limit, host_capability_text(HOST_CAP_SYS_NICE),
                       no_runtime ? "; and cpu.rt_runtime_us of this cgroup is 0" : "");
    } else if (no_runtime) {
        host_step_fill(step, SOLSEND_STEP_POLICY, SOLSEND_ERR_PRIVILEGE, wanted, read_back(),
                       policy_cost,
                       "host: write cpu.rt_runtime_us of the parent cgroup, then of this one; "
                       "container: then docker run --cpu-rt-runtime=N",
                       "sched_setscheduler: EPERM; cpu.rt_runtime_us of this cgroup is 0 "
                       "(RT_GROUP_SCHED), which no capability overrides");
    } else {
        host_step_fill(step, SOLSEND_STEP_POLICY, SOLSEND_ERR_PRIVILEGE, wanted, read_back(),
                       policy_cost,
                       "host: boot rt_group_sched=0, RestrictRealtime=no (systemd); container: a "
                       "seccomp profile with sched_setscheduler",
                       "sched_setscheduler: EPERM although the privilege is there: a seccomp "
                       "filter, or RT_GROUP_SCHED without runtime for this cgroup");
    }
}

/* Leaving IDLE asks for the right to the nice value the thread has. */
static void explain_other(solsend_step *step, int64_t wanted, int error)
{
    if (error == EPERM) {
        host_step_fill(step, SOLSEND_STEP_POLICY, SOLSEND_ERR_PRIVILEGE, wanted, read_back(),
                       policy_cost, "host: LimitNICE= (systemd); container: --cap-add SYS_NICE",
                       "sched_setscheduler: EPERM; RLIMIT_NICE is %llu; %s; or a seccomp filter",
                       (unsigned long long)host_limit(RLIMIT_NICE),
                       host_capability_text(HOST_CAP_SYS_NICE));
    } else {
        host_step_fill(step, SOLSEND_STEP_POLICY, SOLSEND_ERR_NOT_SUPPORTED, wanted, read_back(),
                       policy_cost, "run on a Linux kernel of its own, not on an emulated one",
                       "sched_setscheduler: %s; this kernel does not do it",
                       error != 0 ? host_errno_name(error) : "accepted, but not done");
    }
}

static int is_unsafe(uint32_t policy, uint32_t flags)
{
    return host_wishes_is_real_time(policy) && (flags & SOLSEND_HOST_SPINS) != 0 &&
           (flags & SOLSEND_HOST_FORCE) == 0 && !host_isolation_of_thread();
}

static int fill_unsafe(solsend_step *step, int64_t wanted)
{
    return host_step_fill(step, SOLSEND_STEP_POLICY, SOLSEND_ERR_REFUSED_UNSAFE, wanted,
                          read_back(), unsafe_cost,
                          "sleep instead of spinning, or nice -20; host: isolcpus= or an isolated "
                          "cpuset partition, then pin there; or SOLSEND_HOST_FORCE",
                          "a spinning real-time thread, and not every CPU it may run on is "
                          "isolated: ordinary tasks there would starve and stall it");
}

int solsend_host_policy(uint32_t policy, uint32_t priority, uint32_t flags, solsend_step *step)
{
    if (!host_wishes_policy(policy) || !host_wishes_priority(policy, priority) ||
        !host_wishes_flags(flags)) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    int64_t wanted = number_of(policy, priority);
    if (is_unsafe(policy, flags)) {
        return host_step_answer(fill_unsafe(step, wanted), flags);
    }
    /* Without the reset, every thread started from here on would be real-time too. */
    int native = (int)policy | (host_wishes_is_real_time(policy) ? SCHED_RESET_ON_FORK : 0);
    struct sched_param param = {.sched_priority = (int)priority};
    int error = sched_setscheduler(0, native, &param) == 0 ? 0 : errno;
    solsend_step local;
    solsend_step *record = step != NULL ? step : &local;
    if (error == 0 && read_back() == wanted) {
        host_step_fill(record, SOLSEND_STEP_POLICY, 0, wanted, wanted, NULL, NULL, "%s", "");
    } else if (error == EPERM && host_wishes_is_real_time(policy)) {
        explain_refusal(record, wanted, priority);
    } else {
        explain_other(record, wanted, error);
    }
    return host_step_answer(record->code, flags);
}
