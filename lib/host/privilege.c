#include "host/privilege.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/sysroot.h"

_Static_assert(HOST_CAP_NET_ADMIN == CAP_NET_ADMIN && HOST_CAP_IPC_LOCK == CAP_IPC_LOCK &&
                   HOST_CAP_SYS_NICE == CAP_SYS_NICE,
               "the kernel's capability numbers");

static int is_effective(int capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    memset(data, 0, sizeof data);
    if (syscall(SYS_capget, &header, data) != 0) {
        return 0;
    }
    return (data[capability / 32].effective >> (capability % 32)) & 1;
}

/* The initial user namespace maps every id onto itself; a child never can. */
static int in_user_namespace(void)
{
    char map[256];
    unsigned long inside, outside, count;
    if (host_sysroot_read("/proc/self/uid_map", map, sizeof map) <= 0 ||
        sscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3) {
        return 0;
    }
    return !(inside == 0 && outside == 0 && count == UINT32_MAX);
}

int host_capability(int capability)
{
    if (!is_effective(capability)) {
        return HOST_CAP_MISSING;
    }
    return in_user_namespace() ? HOST_CAP_NAMESPACED : HOST_CAP_PRESENT;
}

const char *host_capability_text(int capability)
{
    static const struct {
        int capability;
        const char *text[3];
    } table[] = {
        {HOST_CAP_NET_ADMIN,
         {"CAP_NET_ADMIN is missing", "CAP_NET_ADMIN is there",
          "CAP_NET_ADMIN of this user namespace does not count"}},
        {HOST_CAP_IPC_LOCK,
         {"CAP_IPC_LOCK is missing", "CAP_IPC_LOCK is there",
          "CAP_IPC_LOCK of a user namespace does not count"}},
        {HOST_CAP_SYS_NICE,
         {"CAP_SYS_NICE is missing", "CAP_SYS_NICE is there",
          "CAP_SYS_NICE of a user namespace does not count"}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].capability == capability) {
            return table[i].text[host_capability(capability)];
        }
    }
    return "a capability is missing";
}

uint64_t host_limit(int resource)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        return 0;
    }
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
}

int64_t host_locked_bytes(void)
{
    char status[8192];
    if (host_sysroot_read("/proc/self/status", status, sizeof status) <= 0) {
        return -1;
    }
    const char *line = strstr(status, "\nVmLck:");
    return line != NULL ? (int64_t)strtoll(line + 7, NULL, 10) * 1024 : -1;
}
