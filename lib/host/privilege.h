/* What stands behind an EPERM: capabilities, limits, user namespaces, real-time groups. */
#ifndef HOST_PRIVILEGE_H
#define HOST_PRIVILEGE_H

#include <stdint.h>

enum { HOST_CAP_NET_ADMIN = 12, HOST_CAP_IPC_LOCK = 14, HOST_CAP_SYS_NICE = 23 };

/* How a capability stands with the calling thread. */
enum {
    HOST_CAP_MISSING = 0,
    HOST_CAP_PRESENT = 1,
    HOST_CAP_NAMESPACED = 2 /* effective, but only inside a user namespace: limits still hold */
};

/* HOST_CAP_MISSING, PRESENT or NAMESPACED; needs no /proc, which only tells the last two apart. */
int host_capability(int capability);

/* "CAP_X is missing", "CAP_X of a user namespace does not count", "CAP_X is there". */
const char *host_capability_text(int capability);

/* The soft limit of one RLIMIT_…, UINT64_MAX for unlimited. */
uint64_t host_limit(int resource);

/* Bytes this process has locked by VmLck of /proc/self/status, or -1 if not visible. */
int64_t host_locked_bytes(void);

#endif
