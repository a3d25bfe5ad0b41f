#include "host/isolation.h"

#include <stdio.h>
#include <string.h>

#include <solsend/host.h>

#include "host/cgroup.h"
#include "host/sysroot.h"

enum { LIST_BYTES = 8192 };

/* A file that is absent or odd proves nothing, which is an answer and not an error. */
static int add_list(struct host_cpus *cpus, const char *path)
{
    char list[LIST_BYTES];
    if (host_sysroot_read(path, list, sizeof list) <= 0) {
        return 0;
    }
    struct host_cpus parsed = {0};
    int rc = host_cpus_parse(&parsed, list);
    if (rc == 0) {
        rc = host_cpus_add_all(cpus, &parsed);
    }
    host_cpus_close(&parsed);
    return rc == SOLSEND_ERR_MEMORY ? rc : 0;
}

/* A partition that the kernel could not honour reads "isolated invalid (why)". */
static int is_isolated_partition(const char *directory)
{
    char path[HOST_CGROUP_PATH_BYTES + 64];
    char kind[128];
    snprintf(path, sizeof path, "%s/cpuset.cpus.partition", directory);
    return host_sysroot_read(path, kind, sizeof kind) > 0 && strcmp(kind, "isolated") == 0;
}

/* The group of the thread or one above it, up to the mount point, may be the partition. */
static int add_partitions(struct host_cpus *cpus)
{
    char directory[HOST_CGROUP_PATH_BYTES];
    int mount = host_cgroup_directory("", directory, sizeof directory);
    if (mount < 0) {
        return 0;
    }
    for (;;) {
        char path[HOST_CGROUP_PATH_BYTES + 64];
        if (is_isolated_partition(directory)) {
            snprintf(path, sizeof path, "%s/cpuset.cpus.effective", directory);
            return add_list(cpus, path);
        }
        char *slash = strrchr(directory, '/');
        if (slash == NULL || slash < directory + mount) {
            return 0;
        }
        *slash = 0;
    }
}

int host_isolation_read(struct host_cpus *isolated)
{
    int rc = add_list(isolated, "/sys/devices/system/cpu/isolated");
    return rc != 0 ? rc : add_partitions(isolated);
}

int host_isolation_of_thread(void)
{
    struct host_cpus isolated = {0};
    struct host_cpus mine = {0};
    int proven = host_isolation_read(&isolated) == 0 && host_cpus_of_thread(&mine, 0) == 0 &&
                 host_cpus_count(&mine) > 0;
    for (int32_t cpu = host_cpus_next(&mine, 0); proven && cpu >= 0;
         cpu = host_cpus_next(&mine, cpu + 1)) {
        proven = host_cpus_has(&isolated, cpu);
    }
    host_cpus_close(&isolated);
    host_cpus_close(&mine);
    return proven;
}

int solsend_host_cpu_is_isolated(int32_t cpu)
{
    if (cpu < 0) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    struct host_cpus isolated = {0};
    int rc = host_isolation_read(&isolated);
    int answer = host_cpus_has(&isolated, cpu);
    host_cpus_close(&isolated);
    return rc != 0 ? rc : answer;
}
