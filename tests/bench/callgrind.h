/* Reading what callgrind wrote: the instructions of each function of each object, itself only. */
#ifndef CALLGRIND_H
#define CALLGRIND_H

#include <stddef.h>
#include <stdint.h>

struct callgrind_function {
    char object[64]; /* file name without its directories; "" when unknown */
    char name[96];
    uint64_t instructions; /* of the function itself, calls excluded */
};

struct callgrind {
    struct callgrind_function *functions; /* most expensive first */
    size_t count;
};

/*
 * Reads a profile written with --compress-strings=no --compress-pos=no. Returns 0, or -1 with one
 * line in `why`.
 */
int callgrind_read(struct callgrind *out, const char *path, char *why, size_t why_bytes);
void callgrind_free(struct callgrind *c);

/* The sum over an object's functions, or over all those whose object's name begins so. */
uint64_t callgrind_object(const struct callgrind *c, const char *object_prefix);

#endif
