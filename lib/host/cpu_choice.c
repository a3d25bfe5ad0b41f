#include "host/cpu_choice.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <solsend/error.h>

#include "host/isolation.h"
#include "host/sysroot.h"

enum {
    WEIGHT_FREE = 16,
    WEIGHT_ISOLATED = 8,
    WEIGHT_NOT_ZERO = 4,
    WEIGHT_OWN_CORE = 2,
    WEIGHT_CURRENT = 1
};

/* The one CPU a thread is pinned to, or -1 when it may run on several. */
static int32_t pinned_cpu(pid_t tid)
{
    struct host_cpus cpus = {0};
    int32_t cpu = -1;
    if (host_cpus_of_thread(&cpus, tid) == 0 && host_cpus_count(&cpus) == 1) {
        cpu = host_cpus_next(&cpus, 0);
    }
    host_cpus_close(&cpus);
    return cpu;
}

/* Asking the kernel each time cannot go stale, whoever pinned those threads. */
static int find_taken(struct host_cpus *taken)
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        return 0;
    }
    int rc = 0;
    pid_t self = gettid();
    for (struct dirent *entry = readdir(tasks); entry != NULL && rc == 0; entry = readdir(tasks)) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        int32_t cpu = tid > 0 && tid != self ? pinned_cpu(tid) : -1;
        rc = cpu >= 0 ? host_cpus_add(taken, cpu) : 0;
    }
    closedir(tasks);
    return rc;
}

int host_cpu_choice_look(struct host_cpu_choice *choice)
{
    choice->current = sched_getcpu();
    int rc = host_isolation_read(&choice->isolated);
    return rc != 0 ? rc : find_taken(&choice->taken);
}

/* Whether `cpu` shares its core with the caller's present CPU or with that of a pinned thread. */
static int shares_core(const struct host_cpu_choice *choice, int32_t cpu)
{
    char path[96];
    char list[1024];
    struct host_cpus siblings = {0};
    int shares = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (host_sysroot_read(path, list, sizeof list) > 0 && host_cpus_parse(&siblings, list) == 0) {
        host_cpus_remove(&siblings, cpu);
        for (int32_t other = host_cpus_next(&siblings, 0); other >= 0 && !shares;
             other = host_cpus_next(&siblings, other + 1)) {
            shares = other == choice->current || host_cpus_has(&choice->taken, other);
        }
    }
    host_cpus_close(&siblings);
    return shares;
}

static int weigh(const struct host_cpu_choice *choice, int32_t cpu)
{
    int weight = 0;
    weight += host_cpus_has(&choice->taken, cpu) ? 0 : WEIGHT_FREE;
    weight += host_cpus_has(&choice->isolated, cpu) ? WEIGHT_ISOLATED : 0;
    weight += cpu != 0 ? WEIGHT_NOT_ZERO : 0;
    weight += shares_core(choice, cpu) ? 0 : WEIGHT_OWN_CORE;
    weight += cpu == choice->current ? WEIGHT_CURRENT : 0;
    return weight;
}

int32_t host_cpu_choice_best(const struct host_cpu_choice *choice)
{
    int32_t best = -1;
    int best_weight = -1;
    for (int32_t cpu = host_cpus_next(&choice->allowed, 0); cpu >= 0;
         cpu = host_cpus_next(&choice->allowed, cpu + 1)) {
        int weight = weigh(choice, cpu);
        if (weight > best_weight) {
            best = cpu;
            best_weight = weight;
        }
    }
    return best;
}

void host_cpu_choice_close(struct host_cpu_choice *choice)
{
    host_cpus_close(&choice->allowed);
    host_cpus_close(&choice->isolated);
    host_cpus_close(&choice->taken);
}
