#include "host/sysroot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static char root[PATH_BYTES];

void host_set_sysroot(const char *directory)
{
    snprintf(root, sizeof root, "%s", directory != NULL ? directory : "");
}

int host_sysroot_path(char *out, uint32_t out_bytes, const char *path)
{
    int n = snprintf(out, out_bytes, "%s%s", root, path);
    return n < 0 || (uint32_t)n >= out_bytes ? -ENAMETOOLONG : 0;
}

int host_sysroot_open(const char *path, int flags)
{
    char full[PATH_BYTES];
    int rc = host_sysroot_path(full, sizeof full, path);
    if (rc < 0) {
        return rc;
    }
    int fd = open(full, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int host_sysroot_read(const char *path, char *out, uint32_t out_bytes)
{
    out[0] = 0;
    int fd = host_sysroot_open(path, O_RDONLY);
    if (fd < 0) {
        return fd;
    }
    uint32_t used = 0;
    int error = 0;
    while (used + 1 < out_bytes) {
        ssize_t n = read(fd, out + used, out_bytes - 1 - used);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            error = n < 0 ? errno : 0;
            break;
        }
        used += (uint32_t)n;
    }
    close(fd);
    if (error != 0) {
        out[0] = 0;
        return -error;
    }
    if (used > 0 && out[used - 1] == '\n') {
        used--;
    }
    out[used] = 0;
    return (int)used;
}

int host_sysroot_number(const char *path, int64_t *out)
{
    char text[64];
    int n = host_sysroot_read(path, text, sizeof text);
    if (n < 0) {
        return n;
    }
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno != 0) {
        return -EINVAL;
    }
    *out = value;
    return 0;
}
