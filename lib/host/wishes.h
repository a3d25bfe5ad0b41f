/* Which wishes make sense at all; whether the host grants them is another question. */
#ifndef HOST_WISHES_H
#define HOST_WISHES_H

#include <stdint.h>

#include <solsend/host.h>

static inline int host_wishes_flags(uint32_t flags)
{
    return (flags & ~(uint32_t)(SOLSEND_HOST_STRICT | SOLSEND_HOST_FORCE | SOLSEND_HOST_SPINS)) ==
           0;
}

static inline int host_wishes_cpu(int32_t cpu)
{
    return cpu >= SOLSEND_CPU_AUTO;
}

static inline int host_wishes_is_real_time(uint32_t policy)
{
    return policy == SOLSEND_POLICY_FIFO || policy == SOLSEND_POLICY_RR;
}

static inline int host_wishes_policy(uint32_t policy)
{
    return host_wishes_is_real_time(policy) || policy == SOLSEND_POLICY_OTHER ||
           policy == SOLSEND_POLICY_BATCH || policy == SOLSEND_POLICY_IDLE;
}

static inline int host_wishes_priority(uint32_t policy, uint32_t priority)
{
    return host_wishes_is_real_time(policy) ? priority >= 1 && priority <= 99 : priority == 0;
}

static inline int host_wishes_nice(int32_t nice)
{
    return nice >= -20 && nice <= 19;
}

static inline int host_wishes_slack(uint64_t slack_ns)
{
    return slack_ns >= 1 && slack_ns <= 1000000000;
}

static inline int host_wishes_latency(uint32_t latency_us)
{
    return latency_us <= 2000000000;
}

#endif
