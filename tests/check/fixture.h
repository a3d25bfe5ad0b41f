/* A directory that stands in for the root of another host: its /proc, /sys and /dev. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char root[64];
};

static inline int fixture_open(struct fixture *fixture)
{
    snprintf(fixture->root, sizeof fixture->root, "/tmp/solsend-fixture-XXXXXX");
    if (mkdtemp(fixture->root) == NULL) {
        return -1;
    }
    return chmod(fixture->root, 0755); /* bodies that became another user read it too */
}

/* Writes root + path with the folders it needs. Returns 0 or -1. */
static inline int fixture_write(const struct fixture *fixture, const char *path, const char *text)
{
    char full[512];
    int n = snprintf(full, sizeof full, "%s%s", fixture->root, path);
    if (n < 0 || (size_t)n >= sizeof full) {
        return -1;
    }
    for (char *slash = strchr(full + strlen(fixture->root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(full, 0755) != 0 && errno != EEXIST) {
            return -1;
        }
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    if (file == NULL) {
        return -1;
    }
    int rc = fputs(text, file) < 0 ? -1 : 0;
    return fclose(file) == 0 ? rc : -1;
}

static inline int fixture_remove(const char *path, const struct stat *info, int kind,
                                 struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void fixture_close(struct fixture *fixture)
{
    nftw(fixture->root, fixture_remove, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
