/* Sets of CPUs of any size, and the kernel's text for them ("0-3,8"). */
#ifndef HOST_CPUS_H
#define HOST_CPUS_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* No kernel numbers CPUs beyond this; a list that does is refused. */
enum { HOST_CPU_MAX = 1 << 16 };

struct host_cpus {
    cpu_set_t *set; /* null: empty */
    size_t bytes;
};

void host_cpus_close(struct host_cpus *cpus);

/* All of these return 0 or MEMORY and grow the set as needed; a zeroed struct is the empty set. */
int host_cpus_add(struct host_cpus *cpus, int32_t cpu);
int host_cpus_add_all(struct host_cpus *cpus, const struct host_cpus *more);

void host_cpus_remove(struct host_cpus *cpus, int32_t cpu);
int host_cpus_has(const struct host_cpus *cpus, int32_t cpu);
uint32_t host_cpus_count(const struct host_cpus *cpus);

/* The first CPU of the set that is at least `cpu`, or -1. */
int32_t host_cpus_next(const struct host_cpus *cpus, int32_t cpu);

/* Adds a list like "0-3,8", "" being nothing. Returns 0, MEMORY, or USAGE if it is no list. */
int host_cpus_parse(struct host_cpus *cpus, const char *list);

/* Writes the list, cut to fit, zero-terminated. Returns the length of the whole of it. */
uint32_t host_cpus_format(const struct host_cpus *cpus, char *out, uint32_t out_bytes);

/* Adds the CPUs a thread may run on now (0: the caller). Returns 0, or -errno. */
int host_cpus_of_thread(struct host_cpus *cpus, pid_t tid);

#endif
