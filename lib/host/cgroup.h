/* The control group of the calling thread, as far as it can be seen from inside a container. */
#ifndef HOST_CGROUP_H
#define HOST_CGROUP_H

#include <stdint.h>

enum { HOST_CGROUP_PATH_BYTES = 1024 };

/*
 * The directory of the calling thread's group, and how much of it is the mount point: `controller`
 * names a version 1 hierarchy ("cpu"), "" the version 2 one. In a container the path that /proc
 * tells may not exist below the mount, which then is the group itself. Returns the length of the
 * mount point in `directory`, or -errno.
 */
int host_cgroup_directory(const char *controller, char *directory, uint32_t directory_bytes);

/* Reads a file of the calling thread's own group. Returns its length or -errno. */
int host_cgroup_read(const char *controller, const char *file, char *out, uint32_t out_bytes);

#endif
