#include "host/cpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <solsend/error.h>

void host_cpus_close(struct host_cpus *cpus)
{
    free(cpus->set);
    memset(cpus, 0, sizeof *cpus);
}

/* Room for `count` CPUs, old members kept. */
static int reserve(struct host_cpus *cpus, uint32_t count)
{
    size_t bytes = CPU_ALLOC_SIZE(count);
    if (bytes <= cpus->bytes) {
        return 0;
    }
    cpu_set_t *set = calloc(1, bytes);
    if (set == NULL) {
        return SOLSEND_ERR_MEMORY;
    }
    if (cpus->set != NULL) {
        memcpy(set, cpus->set, cpus->bytes);
    }
    free(cpus->set);
    cpus->set = set;
    cpus->bytes = bytes;
    return 0;
}

int host_cpus_add(struct host_cpus *cpus, int32_t cpu)
{
    if (reserve(cpus, (uint32_t)cpu + 1) != 0) {
        return SOLSEND_ERR_MEMORY;
    }
    CPU_SET_S((size_t)cpu, cpus->bytes, cpus->set);
    return 0;
}

int host_cpus_add_all(struct host_cpus *cpus, const struct host_cpus *more)
{
    if (reserve(cpus, (uint32_t)(more->bytes * 8)) != 0) {
        return SOLSEND_ERR_MEMORY;
    }
    for (int32_t cpu = host_cpus_next(more, 0); cpu >= 0; cpu = host_cpus_next(more, cpu + 1)) {
        CPU_SET_S((size_t)cpu, cpus->bytes, cpus->set);
    }
    return 0;
}

void host_cpus_remove(struct host_cpus *cpus, int32_t cpu)
{
    if (host_cpus_has(cpus, cpu)) {
        CPU_CLR_S((size_t)cpu, cpus->bytes, cpus->set);
    }
}

int host_cpus_has(const struct host_cpus *cpus, int32_t cpu)
{
    return cpu >= 0 && (size_t)cpu < cpus->bytes * 8 &&
           CPU_ISSET_S((size_t)cpu, cpus->bytes, cpus->set);
}

uint32_t host_cpus_count(const struct host_cpus *cpus)
{
    return cpus->set == NULL ? 0 : (uint32_t)CPU_COUNT_S(cpus->bytes, cpus->set);
}

int32_t host_cpus_next(const struct host_cpus *cpus, int32_t cpu)
{
    for (; (size_t)cpu < cpus->bytes * 8; cpu++) {
        if (CPU_ISSET_S((size_t)cpu, cpus->bytes, cpus->set)) {
            return cpu;
        }
    }
    return -1;
}

/* One decimal number below HOST_CPU_MAX; `*at` moves behind it. -1: there is none. */
static int32_t parse_cpu(const char **at)
{
    int32_t value = 0;
    const char *p = *at;
    if (*p < '0' || *p > '9') {
        return -1;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value >= HOST_CPU_MAX) {
            return -1;
        }
    }
    *at = p;
    return value;
}

int host_cpus_parse(struct host_cpus *cpus, const char *list)
{
    const char *p = list;
    while (*p != 0 && *p != '\n') {
        int32_t first = parse_cpu(&p);
        int32_t last = first;
        if (*p == '-') {
            p++;
            last = parse_cpu(&p);
        }
        if (first < 0 || last < first || (*p != 0 && *p != ',' && *p != '\n')) {
            return SOLSEND_ERR_USAGE;
        }
        for (int32_t cpu = last; cpu >= first; cpu--) { /* the largest first: one growth */
            if (host_cpus_add(cpus, cpu) != 0) {
                return SOLSEND_ERR_MEMORY;
            }
        }
        if (*p == ',') {
            p++;
        }
    }
    return 0;
}

uint32_t host_cpus_format(const struct host_cpus *cpus, char *out, uint32_t out_bytes)
{
    uint32_t length = 0;
    if (out_bytes > 0) {
        out[0] = 0;
    }
    for (int32_t first = host_cpus_next(cpus, 0); first >= 0;) {
        int32_t last = first;
        while (host_cpus_has(cpus, last + 1)) {
            last++;
        }
        char range[32];
        int n = last > first
                    ? snprintf(range, sizeof range, "%s%d-%d", length > 0 ? "," : "", first, last)
                    : snprintf(range, sizeof range, "%s%d", length > 0 ? "," : "", first);
        if (length < out_bytes) {
            snprintf(out + length, out_bytes - length, "%s", range);
        }
        length += (uint32_t)n;
        first = host_cpus_next(cpus, last + 1);
    }
    return length;
}

int host_cpus_of_thread(struct host_cpus *cpus, pid_t tid)
{
    /* The kernel says EINVAL to a mask shorter than its own, which it does not name. */
    for (uint32_t count = CPU_SETSIZE; count <= HOST_CPU_MAX; count *= 2) {
        struct host_cpus now = {0};
        if (reserve(&now, count) != 0) {
            return -ENOMEM;
        }
        if (sched_getaffinity(tid, now.bytes, now.set) == 0) {
            int rc = host_cpus_add_all(cpus, &now);
            host_cpus_close(&now);
            return rc == 0 ? 0 : -ENOMEM;
        }
        int error = errno;
        host_cpus_close(&now);
        if (error != EINVAL) {
            return -error;
        }
    }
    return -EINVAL;
}
