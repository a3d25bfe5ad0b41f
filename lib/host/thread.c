/* The small settings of a thread or process: nice, timer slack, transparent huge pages. */
#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "host/privilege.h"
#include "host/step.h"
#include "host/wishes.h"

static const char nice_cost[] = "beside one spinning neighbour of nice 0 a spinner loses 50 % of "
                                "the CPU; at nice -20 it lost 1.1 % (stalls up to 4 ms in both)";
static const char slack_cost[] = "a sleep ends 53 us late instead of 2.6 us (median, ordinary "
                                 "policy)";
static const char thp_cost[] = "the first touch of a huge page takes 66 us instead of 0.66 us, "
                               "and pages are merged behind the thread's back";

/* -1 is a nice value too, so only errno tells an error. */
static int read_nice(void)
{
    errno = 0;
    int value = getpriority(PRIO_PROCESS, 0);
    return errno == 0 ? value : 0;
}

/* The lowest nice value that RLIMIT_NICE permits: the limit counts 1…40 for 19…-20. */
static int lowest_permitted(void)
{
    uint64_t limit = host_limit(RLIMIT_NICE);
    return limit >= 40 ? -20 : 20 - (int)limit;
}

int solsend_host_nice(int32_t nice, uint32_t flags, solsend_step *step)
{
    if (!host_wishes_nice(nice) || !host_wishes_flags(flags)) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    int before = read_nice();
    int error = setpriority(PRIO_PROCESS, 0, nice) == 0 ? 0 : errno;
    if (error != 0 && lowest_permitted() < before) {
        setpriority(PRIO_PROCESS, 0, lowest_permitted());
    }
    int got = read_nice();
    int code = 0;
    if (error != 0) {
        code = got < before ? SOLSEND_ERR_CLAMPED : SOLSEND_ERR_PRIVILEGE;
    } else if (got != nice) {
        code = SOLSEND_ERR_NOT_SUPPORTED;
    }
    host_step_fill(step, SOLSEND_STEP_NICE, code, nice, got, nice_cost,
                   "host: LimitNICE=-20 (systemd) or limits.conf nice; container: --cap-add "
                   "SYS_NICE",
                   "setpriority: %s; RLIMIT_NICE is %llu; %s",
                   error != 0 ? host_errno_name(error) : "accepted, but not done",
                   (unsigned long long)host_limit(RLIMIT_NICE),
                   host_capability_text(HOST_CAP_SYS_NICE));
    return host_step_answer(code, flags);
}

int solsend_host_timer_slack(uint64_t slack_ns, uint32_t flags, solsend_step *step)
{
    if (!host_wishes_slack(slack_ns) || !host_wishes_flags(flags)) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    int error = prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns, 0, 0, 0) == 0 ? 0 : errno;
    int got = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    /* Zero is what a real-time thread has on newer kernels: better than any wish. */
    int code = error == 0 && got >= 0 && (uint64_t)got <= slack_ns ? 0 : SOLSEND_ERR_NOT_SUPPORTED;
    host_step_fill(step, SOLSEND_STEP_TIMER_SLACK, code, (int64_t)slack_ns, got, slack_cost,
                   "host: TimerSlackNSec= (systemd); container: a seccomp profile that allows "
                   "prctl",
                   "prctl(PR_SET_TIMERSLACK): %s; a sandbox or seccomp filter is in the way",
                   error != 0 ? host_errno_name(error) : "accepted, but not done");
    return host_step_answer(code, flags);
}

int solsend_host_thp_off(uint32_t flags, solsend_step *step)
{
    if (!host_wishes_flags(flags)) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    int error = prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 ? 0 : errno;
    int got = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0;
    int code = error == 0 && got ? 0 : SOLSEND_ERR_NOT_SUPPORTED;
    host_step_fill(step, SOLSEND_STEP_THP, code, 1, got, thp_cost,
                   "host: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; container: "
                   "the same on its host",
                   "prctl(PR_SET_THP_DISABLE): %s; the kernel lacks it or a seccomp filter is in "
                   "the way",
                   error != 0 ? host_errno_name(error) : "accepted, but not done");
    return host_step_answer(code, flags);
}
