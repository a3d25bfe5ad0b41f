/* Which CPUs the kernel provably keeps other tasks off. */
#ifndef HOST_ISOLATION_H
#define HOST_ISOLATION_H

#include "host/cpus.h"

/* Adds every CPU that is isolated, as seen by the calling thread. Returns 0 or MEMORY. */
int host_isolation_read(struct host_cpus *isolated);

/* 1 if the calling thread may run on isolated CPUs only; 0 if not, or if it cannot be told. */
int host_isolation_of_thread(void);

#endif
