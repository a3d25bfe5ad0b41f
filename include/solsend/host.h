/**
 * The host: pin a thread, lock memory, tune a socket, and be told what was really granted.
 *
 * Nothing here fails because a privilege is missing unless the caller asks for strictness: every
 * step fills a record that says what was wanted, what was got, why not, what that costs and how to
 * get it.
 *
 * For a thread that sends, in its own start routine:
 *
 *     solsend_step steps[8];
 *     solsend_host_options o;
 *     solsend_host_options_init(&o, sizeof o);      // pin to a good CPU, nice -20, 1 ns slack
 *     int n = solsend_host_apply(&o, steps, 8, NULL, &detail);
 *     for (int i = 0; i < n; i++) {
 *         if (steps[i].code != 0) { …steps[i].name, .why, .cost, .fix… }
 *     }
 *
 * What a single step does, each function of its own below does too. All of them concern the
 * calling thread, except solsend_host_thp_off (the process) and solsend_host_hold_cpu_latency (the
 * machine). `flags` is an OR of SOLSEND_HOST_…; `step` may be null.
 *
 * Threads: any thread may call at any time.
 * Blocks: never longer than it takes to read a few files of /proc and /sys.
 */
#ifndef SOLSEND_HOST_H
#define SOLSEND_HOST_H

#include <solsend/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** `solsend_step.step`. */
enum {
    SOLSEND_STEP_PIN = 1,
    SOLSEND_STEP_POLICY = 2,
    SOLSEND_STEP_NICE = 3,
    SOLSEND_STEP_TIMER_SLACK = 4,
    SOLSEND_STEP_THP = 5,
    SOLSEND_STEP_LOCK = 6,
    SOLSEND_STEP_HUGE_PAGES = 7,
    SOLSEND_STEP_CPU_LATENCY = 8,
    SOLSEND_STEP_SEND_BUFFER = 9,
    SOLSEND_STEP_RECEIVE_BUFFER = 10,
    SOLSEND_STEP_BUSY_POLL = 11,
    SOLSEND_STEP_PRIORITY = 12,
    SOLSEND_STEP_TX_STAMPS = 13
};

/**
 * What one tuning step got. Frozen at 512 bytes; texts are zero-terminated and may be empty.
 * `code` is 0 when got is what was wanted, CLAMPED when it is less, PRIVILEGE, NOT_SUPPORTED,
 * NO_CPU or REFUSED_UNSAFE when there is nothing.
 */
typedef struct solsend_step {
    uint32_t step; /* SOLSEND_STEP_… */
    int32_t code;
    int64_t wanted; /* CPU number, nice value, bytes, microseconds, … by the step */
    int64_t got;
    char name[24];  /* "pin", "send buffer", … */
    char why[152];  /* why not: the errno and what stands behind it */
    char cost[152]; /* what the shortfall costs */
    char fix[160];  /* how to get it */
} solsend_step;

/** Name of a step, "?" if unknown. */
SOLSEND_API const char *solsend_step_name(uint32_t step);

/** `flags` of the functions below. */
enum {
    SOLSEND_HOST_STRICT = 1, /* a shortfall is an error: the step's code is returned */
    SOLSEND_HOST_FORCE = 2,  /* do what is refused as unsafe or as outside the allowed CPUs */
    SOLSEND_HOST_SPINS = 4   /* this thread never sleeps; see solsend_host_policy */
};

/* ---- CPUs ----------------------------------------------------------------------------------- */

/** A CPU of the library's choice; see solsend_host_pin. */
enum { SOLSEND_CPU_AUTO = -1 };

/**
 * Pins the calling thread to one CPU, by the number that the whole machine uses for it.
 *
 * Allowed are the CPUs that the process was given: the affinity that the first call here finds (a
 * container's cpuset, taskset and systemd's CPUAffinity= narrow it), the main thread's and the
 * calling thread's. With FORCE the kernel alone decides, which lets the thread leave a taskset but
 * never a cpuset.
 *
 * SOLSEND_CPU_AUTO takes, of the allowed CPUs, by falling weight: one that no other thread of the
 * process is pinned to, an isolated one, not CPU 0 (interrupts and kernel threads prefer it), not
 * an SMT sibling of the caller's CPU or of a pinned thread's, the caller's CPU, the lowest.
 *
 * The step PIN holds the CPU number, or AUTO, in `wanted`, and in `got` what the kernel reports
 * after the call: -1 if the thread is not on one CPU alone. Its codes: NO_CPU (`why` lists the
 * allowed ones), PRIVILEGE, NOT_SUPPORTED (accepted but not done), MEMORY.
 *
 * Returns 0, or BAD_OPTION (cpu below -1, unknown flag); with STRICT also the step's code.
 */
SOLSEND_API int solsend_host_pin(int32_t cpu, uint32_t flags, solsend_step *step);

/**
 * Writes the allowed CPUs as a list like "0-3,8" into `out`, zero-terminated; null with 0 bytes
 * writes nothing. Returns how many CPUs that are, or BUFFER_TOO_SMALL, MEMORY.
 */
SOLSEND_API int solsend_host_cpus(char *out, uint32_t out_bytes);

/**
 * Whether the kernel keeps other tasks off a CPU: it is in /sys/devices/system/cpu/isolated
 * (isolcpus=), or in a cgroup v2 partition of the kind "isolated" that holds the calling thread.
 * Exclusivity by agreement, such as Kubernetes' static policy, does not count.
 *
 * Returns 1, 0 (not isolated, or it cannot be proven from here), or BAD_OPTION (negative), MEMORY.
 */
SOLSEND_API int solsend_host_cpu_is_isolated(int32_t cpu);

/* ---- scheduling ----------------------------------------------------------------------------- */

/** Scheduling policies, by the kernel's numbers. */
enum {
    SOLSEND_POLICY_OTHER = 0,
    SOLSEND_POLICY_FIFO = 1,
    SOLSEND_POLICY_RR = 2,
    SOLSEND_POLICY_BATCH = 3,
    SOLSEND_POLICY_IDLE = 5
};

/**
 * Sets the calling thread's scheduling policy. `priority` is 1…99 for FIFO and RR (from 50 on it
 * outranks threaded interrupts, 99 is the kernel's own), else 0. Threads and processes that a
 * FIFO or RR thread creates do not inherit it.
 *
 * A thread that spins (SOLSEND_HOST_SPINS) is refused FIFO and RR with REFUSED_UNSAFE, unless every
 * CPU it may run on is isolated, or with FORCE: where ordinary tasks share the CPU, the kernel
 * takes it away from the spinner for 50 ms of each second, and the tasks starve for the rest.
 * Pin first, then set the policy.
 *
 * The step POLICY holds policy x 100 + priority in `wanted` and `got`, so 149 is FIFO at 49. Its
 * codes: REFUSED_UNSAFE, PRIVILEGE, NOT_SUPPORTED.
 *
 * Returns 0, or BAD_OPTION; with STRICT also the step's code.
 */
SOLSEND_API int solsend_host_policy(uint32_t policy, uint32_t priority, uint32_t flags,
                                    solsend_step *step);

/**
 * Sets the calling thread's nice value, -20 (most CPU) … 19. Without the privilege for it, the
 * lowest value that RLIMIT_NICE permits is set and the code is CLAMPED, or PRIVILEGE when that is
 * no gain. The step NICE holds nice values.
 *
 * Returns 0, or BAD_OPTION; with STRICT also the step's code.
 */
SOLSEND_API int solsend_host_nice(int32_t nice, uint32_t flags, solsend_step *step);

/**
 * Sets how late the kernel may fire the calling thread's timers, 1…1000000000 ns; 50 us is the
 * kernel's default. Needs no privilege. A real-time thread has none to begin with. The step
 * TIMER_SLACK holds ns.
 *
 * Returns 0, or BAD_OPTION; with STRICT also the step's code.
 */
SOLSEND_API int solsend_host_timer_slack(uint64_t slack_ns, uint32_t flags, solsend_step *step);

/**
 * Turns transparent huge pages off for the whole process and its later children: no first touch of
 * 2 MiB, no merging behind a running thread. Huge pages asked for by name are not affected. The
 * step THP holds 1 (off) or 0.
 *
 * Returns 0, or BAD_OPTION; with STRICT also the step's code.
 */
SOLSEND_API int solsend_host_thp_off(uint32_t flags, solsend_step *step);

/** A held promise of the machine to leave its idle states within some time. */
typedef struct solsend_cpu_latency solsend_cpu_latency;

/**
 * Holds every CPU of the machine in idle states that it leaves within `latency_us` (0: it never
 * sleeps; costs power and heat), through /dev/cpu_dma_latency, until
 * solsend_host_release_cpu_latency or the end of the process. A forked child shares the hold.
 *
 * The step CPU_LATENCY holds microseconds; got is -1 when nothing is in force. Its codes:
 * PRIVILEGE, NOT_SUPPORTED (no such device, or a guest without idle states of its own: then `*out`
 * is held nevertheless), CLAMPED, NO_FILES, MEMORY.
 *
 * Returns 0 with `*out` set, or with null when it was not granted; USAGE (`out` is null),
 * BAD_OPTION (latency_us above 2000000000, unknown flag); with STRICT also the step's code, and
 * then nothing is held.
 */
SOLSEND_API int solsend_host_hold_cpu_latency(solsend_cpu_latency **out, uint32_t latency_us,
                                              uint32_t flags, solsend_step *step);

/** Ends the hold and frees it. Null is allowed. */
SOLSEND_API void solsend_host_release_cpu_latency(solsend_cpu_latency *latency);

/* ---- all of it ------------------------------------------------------------------------------ */

/** What solsend_host_apply does. Size-first; solsend_host_options_init writes the defaults. */
typedef struct solsend_host_options {
    uint32_t size;
    uint32_t steps;          /* which: an OR of 1 << SOLSEND_STEP_PIN, POLICY, NICE, TIMER_SLACK,
                                THP, CPU_LATENCY; default PIN, NICE and TIMER_SLACK */
    uint32_t flags;          /* SOLSEND_HOST_…; default 0 */
    int32_t cpu;             /* as of solsend_host_pin; default SOLSEND_CPU_AUTO */
    uint32_t policy;         /* as of solsend_host_policy; default SOLSEND_POLICY_OTHER */
    uint32_t priority;       /* default 0 */
    int32_t nice;            /* as of solsend_host_nice; default -20 */
    uint32_t cpu_latency_us; /* as of solsend_host_hold_cpu_latency; default 0 */
    uint64_t timer_slack_ns; /* as of solsend_host_timer_slack; default 1 */
} solsend_host_options;

/** Writes the defaults. `size` is sizeof(solsend_host_options). Returns 0 or BAD_SIZE. */
SOLSEND_API int solsend_host_options_init(solsend_host_options *options, uint32_t size);

/**
 * Takes the chosen steps in the order that lets each help the next: THP, CPU latency, timer slack,
 * pin, nice, policy. `options` null means the defaults. Nothing is done if an option is wrong.
 *
 * `steps` receives one record a step in that order, at most `max_steps`, the rest of it zeroed;
 * it may be null with 0. `latency` receives the hold, to be released, or null; it may be null
 * itself only if CPU_LATENCY is not chosen.
 *
 * Returns how many steps there were; or BAD_SIZE, UNKNOWN_OPTION, BAD_OPTION (`detail` names the
 * member), USAGE; with STRICT the code of the first step that fell short: the others were taken
 * all the same.
 */
SOLSEND_API int solsend_host_apply(const solsend_host_options *options, solsend_step *steps,
                                   uint32_t max_steps, solsend_cpu_latency **latency,
                                   solsend_detail *detail);

#ifdef __cplusplus
}
#endif
#endif
