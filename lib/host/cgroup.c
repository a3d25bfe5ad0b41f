#include "host/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/sysroot.h"

/* Whether a comma-separated list of controllers names `controller`; "" is in the empty list only.
 */
static int lists(const char *list, size_t list_length, const char *controller)
{
    size_t length = strlen(controller);
    if (length == 0) {
        return list_length == 0;
    }
    for (const char *p = list; p < list + list_length;) {
        const char *comma = memchr(p, ',', (size_t)(list + list_length - p));
        size_t n = comma != NULL ? (size_t)(comma - p) : (size_t)(list + list_length - p);
        if (n == length && memcmp(p, controller, n) == 0) {
            return 1;
        }
        p += n + 1;
    }
    return 0;
}

/* Finds "ID:controllers:path" in /proc's file. Returns 0 or -ENOENT. */
static int own_path(const char *controller, char *out, uint32_t out_bytes)
{
    char text[4096];
    if (host_sysroot_read("/proc/thread-self/cgroup", text, sizeof text) <= 0 &&
        host_sysroot_read("/proc/self/cgroup", text, sizeof text) <= 0) {
        return -ENOENT;
    }
    for (char *line = text; line != NULL && *line != 0;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = 0;
        }
        char *list = strchr(line, ':');
        char *path = list != NULL ? strchr(list + 1, ':') : NULL;
        if (path != NULL && lists(list + 1, (size_t)(path - list - 1), controller)) {
            snprintf(out, out_bytes, "%s", path + 1);
            return 0;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return -ENOENT;
}

static int exists(const char *path)
{
    char full[2 * HOST_CGROUP_PATH_BYTES];
    struct stat info;
    return host_sysroot_path(full, sizeof full, path) == 0 && stat(full, &info) == 0;
}

static int find_mount(const char *controller, char *out, uint32_t out_bytes)
{
    static const char *const unified[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    if (controller[0] == 0) {
        for (int i = 0; i < 2; i++) {
            char probe[128];
            snprintf(probe, sizeof probe, "%s/cgroup.controllers", unified[i]);
            if (exists(probe)) {
                return snprintf(out, out_bytes, "%s", unified[i]);
            }
        }
        return -ENOENT;
    }
    int n = snprintf(out, out_bytes, "/sys/fs/cgroup/%s", controller);
    if (!exists(out) && strcmp(controller, "cpu") == 0) {
        n = snprintf(out, out_bytes, "/sys/fs/cgroup/cpu,cpuacct");
    }
    return exists(out) ? n : -ENOENT;
}

int host_cgroup_directory(const char *controller, char *directory, uint32_t directory_bytes)
{
    char path[HOST_CGROUP_PATH_BYTES];
    int mount = find_mount(controller, directory, directory_bytes);
    int rc = own_path(controller, path, sizeof path);
    if (mount < 0 || rc < 0) {
        return mount < 0 ? mount : rc;
    }
    /* A group outside of our namespace is shown as /../..: it has no file that we can see. */
    if (strcmp(path, "/") == 0 || strstr(path, "/..") != NULL) {
        return mount;
    }
    int n = snprintf(directory + mount, directory_bytes - (uint32_t)mount, "%s", path);
    if ((uint32_t)(mount + n) >= directory_bytes || !exists(directory)) {
        directory[mount] = 0;
    }
    return mount;
}

int host_cgroup_read(const char *controller, const char *file, char *out, uint32_t out_bytes)
{
    char path[HOST_CGROUP_PATH_BYTES + 64];
    int mount = host_cgroup_directory(controller, path, HOST_CGROUP_PATH_BYTES);
    if (mount < 0) {
        return mount;
    }
    size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%s", file);
    return host_sysroot_read(path, out, out_bytes);
}
