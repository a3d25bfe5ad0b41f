/* Choosing a CPU for a hot thread. */
#ifndef HOST_CPU_CHOICE_H
#define HOST_CPU_CHOICE_H

#include "host/cpus.h"

struct host_cpu_choice {
    struct host_cpus allowed;
    struct host_cpus isolated;
    struct host_cpus taken; /* other threads of this process are pinned there */
    int32_t current;        /* where the caller runs; -1: not known */
};

/* Fills isolated, taken and current; allowed is the caller's. Returns 0 or MEMORY. */
int host_cpu_choice_look(struct host_cpu_choice *choice);

/* The best allowed CPU, or -1 if none is. */
int32_t host_cpu_choice_best(const struct host_cpu_choice *choice);

void host_cpu_choice_close(struct host_cpu_choice *choice);

#endif
