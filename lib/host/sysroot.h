/* Reading the kernel's small text files, below one root that tests can point at a fixture. */
#ifndef HOST_SYSROOT_H
#define HOST_SYSROOT_H

#include <stdint.h>

/* Prefixes every path below; null or "" is the real root. For tests, before any thread starts. */
void host_set_sysroot(const char *directory);

/* Writes root + path. Returns 0, or -ENAMETOOLONG. */
int host_sysroot_path(char *out, uint32_t out_bytes, const char *path);

/* Reads a whole small file into `out`, zero-terminated, without the last newline. Returns its
 * length (cut at out_bytes - 1) or -errno. */
int host_sysroot_read(const char *path, char *out, uint32_t out_bytes);

/* Reads a file that holds one decimal number. Returns 0, -errno, or -EINVAL if it is none. */
int host_sysroot_number(const char *path, int64_t *out);

/* open(2) below the root, close-on-exec. Returns the descriptor or -errno. */
int host_sysroot_open(const char *path, int flags);

#endif
