/*
 * The library's own calls of the socket, seen and refused at will. A program with shim.c is linked
 * with --wrap=send, --wrap=sendmsg and --wrap=recvmsg; the mock uses other calls and is not seen.
 *
 * Threads: set and used by the one that drives the links.
 */
#ifndef SHIM_H
#define SHIM_H

#include <stddef.h>
#include <stdint.h>

struct shim_call {
    int fd;
    size_t bytes;
    int segmented; /* a GSO send */
    int stamped;   /* asks for kernel stamps */
};

enum { SHIM_MAKE = 0 };

struct shim {
    /* Null: every call is made. Returns SHIM_MAKE, or the errno to fail with. */
    int (*judge)(void *context, const struct shim_call *call);
    void *context;
    int stamps_hidden; /* the error queue seems empty */
    uint64_t calls;    /* made or refused */
    uint64_t segmented;
    uint64_t refused;
};

extern struct shim shim;

/* Back to passing everything through, counters at zero. */
void shim_clear(void);

#endif
