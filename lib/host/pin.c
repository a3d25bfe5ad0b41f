#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/cpu_choice.h"
#include "host/step.h"
#include "host/wishes.h"

static const char pin_cost[] = "the scheduler moves the thread as it likes: caches are refilled at "
                               "each move, and it shares CPUs with whatever runs there";
static const char pin_fix[] = "take an allowed CPU or SOLSEND_CPU_AUTO; host: taskset -c or "
                              "CPUAffinity=; container: --cpuset-cpus with that CPU";

/* Choosing and pinning is one act: two threads at once must not choose the same CPU. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* What the process was given, before it pinned anything. A forked child was given its own. */
static struct host_cpus given;
static pid_t given_pid;

static void take(void)
{
    pthread_mutex_lock(&mutex);
}

static void give(void)
{
    pthread_mutex_unlock(&mutex);
}

static void register_fork(void)
{
    pthread_atfork(take, give, give);
}

static void enter(void)
{
    pthread_once(&fork_once, register_fork);
    take();
}

static int read_allowed(struct host_cpus *allowed)
{
    pid_t pid = getpid();
    if (given_pid != pid) {
        host_cpus_close(&given);
        if (host_cpus_of_thread(&given, pid) == -ENOMEM ||
            host_cpus_of_thread(&given, 0) == -ENOMEM) {
            return SOLSEND_ERR_MEMORY;
        }
        given_pid = pid;
    }
    int rc = host_cpus_add_all(allowed, &given);
    if (rc == 0 && (host_cpus_of_thread(allowed, pid) == -ENOMEM ||
                    host_cpus_of_thread(allowed, 0) == -ENOMEM)) {
        rc = SOLSEND_ERR_MEMORY;
    }
    return rc;
}

/* Returns 0 or -errno. */
static int set_affinity(int32_t cpu)
{
    struct host_cpus one = {0};
    if (host_cpus_add(&one, cpu) != 0) {
        return -ENOMEM;
    }
    int rc = sched_setaffinity(0, one.bytes, one.set) == 0 ? 0 : -errno;
    host_cpus_close(&one);
    return rc;
}

/* The one CPU the thread may run on by the kernel's word, or -1. */
static int32_t read_back(void)
{
    struct host_cpus now = {0};
    int32_t cpu = -1;
    if (host_cpus_of_thread(&now, 0) == 0 && host_cpus_count(&now) == 1) {
        cpu = host_cpus_next(&now, 0);
    }
    host_cpus_close(&now);
    return cpu;
}

/* Returns the errno of the last try, 0 when pinned; allowed loses what the kernel did not take. */
static int pin_best(struct host_cpu_choice *choice)
{
    int error = EINVAL;
    for (;;) {
        int32_t cpu = host_cpu_choice_best(choice);
        if (cpu < 0) {
            return error;
        }
        error = -set_affinity(cpu);
        if (error != EINVAL) {
            return error;
        }
        host_cpus_remove(&choice->allowed, cpu); /* left the cpuset, or went offline */
    }
}

static int fill_outside(solsend_step *step, int32_t cpu, const struct host_cpus *allowed,
                        const char *reason)
{
    char list[96];
    host_cpus_format(allowed, list, sizeof list);
    return host_step_fill(step, SOLSEND_STEP_PIN, SOLSEND_ERR_NO_CPU, cpu, read_back(), pin_cost,
                          pin_fix, "CPU %d %s; allowed are %s", cpu, reason, list);
}

static int fill_outcome(solsend_step *step, int32_t wanted, int error,
                        const struct host_cpus *allowed)
{
    int32_t got = read_back();
    if (error == ENOMEM) {
        return host_step_fill(step, SOLSEND_STEP_PIN, SOLSEND_ERR_MEMORY, wanted, got, pin_cost,
                              pin_fix, "no memory for a CPU set");
    }
    if (error == EINVAL && wanted == SOLSEND_CPU_AUTO) {
        return host_step_fill(step, SOLSEND_STEP_PIN, SOLSEND_ERR_NO_CPU, wanted, got, pin_cost,
                              pin_fix,
                              "the kernel took none of the CPUs this process had: they are offline "
                              "or left its cpuset (EINVAL)");
    }
    if (error == EINVAL) {
        return fill_outside(step, wanted, allowed, "is offline or outside the cpuset (EINVAL)");
    }
    if (error != 0) {
        return host_step_fill(step, SOLSEND_STEP_PIN, SOLSEND_ERR_PRIVILEGE, wanted, got, pin_cost,
                              "allow sched_setaffinity in the seccomp profile or the sandbox",
                              "sched_setaffinity: %s; a seccomp filter or a sandbox forbids it",
                              host_errno_name(error));
    }
    if (got < 0 || (wanted != SOLSEND_CPU_AUTO && got != wanted)) {
        return host_step_fill(step, SOLSEND_STEP_PIN, SOLSEND_ERR_NOT_SUPPORTED, wanted, got,
                              pin_cost, "run on a Linux kernel of its own, not on an emulated one",
                              "sched_setaffinity was accepted, but the affinity read back is not "
                              "that CPU alone");
    }
    return host_step_fill(step, SOLSEND_STEP_PIN, 0, wanted, got, NULL, NULL, "%s", "");
}

static int pin_locked(int32_t cpu, uint32_t flags, struct host_cpu_choice *choice,
                      solsend_step *step)
{
    if (read_allowed(&choice->allowed) != 0) {
        return fill_outcome(step, cpu, ENOMEM, NULL);
    }
    if (cpu == SOLSEND_CPU_AUTO) {
        if (host_cpu_choice_look(choice) != 0) {
            return fill_outcome(step, cpu, ENOMEM, NULL);
        }
        return fill_outcome(step, cpu, pin_best(choice), &choice->allowed);
    }
    if (cpu >= HOST_CPU_MAX) {
        return fill_outside(step, cpu, &choice->allowed, "does not exist");
    }
    if (!host_cpus_has(&choice->allowed, cpu) && (flags & SOLSEND_HOST_FORCE) == 0) {
        return fill_outside(step, cpu, &choice->allowed,
                            "is outside this process's affinity or cpuset");
    }
    int error = -set_affinity(cpu);
    if (error == EINVAL) {
        host_cpus_remove(&choice->allowed, cpu);
    }
    return fill_outcome(step, cpu, error, &choice->allowed);
}

int solsend_host_pin(int32_t cpu, uint32_t flags, solsend_step *step)
{
    if (!host_wishes_cpu(cpu) || !host_wishes_flags(flags)) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    struct host_cpu_choice choice = {0};
    enter();
    int code = pin_locked(cpu, flags, &choice, step);
    give();
    host_cpu_choice_close(&choice);
    return host_step_answer(code, flags);
}

int solsend_host_cpus(char *out, uint32_t out_bytes)
{
    struct host_cpus allowed = {0};
    enter();
    int rc = read_allowed(&allowed);
    give();
    if (rc == 0) {
        rc = (int)host_cpus_count(&allowed);
        if (out != NULL && host_cpus_format(&allowed, out, out_bytes) >= out_bytes) {
            rc = SOLSEND_ERR_BUFFER_TOO_SMALL;
        }
    }
    host_cpus_close(&allowed);
    return rc;
}
