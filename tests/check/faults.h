/*
 * Faults of a socket: send and sendmsg stand behind wrappers that can make a call fail without
 * being made, and write down what was asked of them. Include it in one file of a program that is
 * linked with -Wl,--wrap=send -Wl,--wrap=sendmsg.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include "check.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

enum { FAULTS_SCRIPT_MAX = 64, FAULTS_CALLS_MAX = 256 };

struct faults_call {
    size_t bytes;
    uint16_t segment; /* 0: no GSO */
    int error;
};

static struct {
    int script[FAULTS_SCRIPT_MAX]; /* errno of the next calls, 0: the call is made */
    int script_count;
    int segment_error;       /* of every call with GSO */
    unsigned random_of_100;  /* so many of 100 calls fail with what passes, */
    unsigned lasting_of_100; /* and so many with what does not */
    uint64_t random_state;
    struct faults_call calls[FAULTS_CALLS_MAX];
    int call_count;
} faults;

static inline uint64_t faults_draw(uint64_t below)
{
    uint64_t z = faults.random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static inline int faults_next(size_t bytes, uint16_t segment)
{
    static const int passing[] = {EAGAIN, ENOBUFS, ENOMEM, EINTR, ECONNREFUSED};
    static const int lasting[] = {EPERM, EMSGSIZE, EINVAL};
    int error = 0;
    if (faults.script_count > 0) {
        error = faults.script[0];
        memmove(faults.script, faults.script + 1, sizeof faults.script - sizeof(int));
        faults.script_count--;
    } else if (segment != 0 && faults.segment_error != 0) {
        error = faults.segment_error;
    } else if (faults_draw(100) < faults.random_of_100) {
        error = passing[faults_draw(sizeof passing / sizeof passing[0])];
    } else if (segment == 0 && faults_draw(100) < faults.lasting_of_100) {
        error = lasting[faults_draw(sizeof lasting / sizeof lasting[0])];
    }
    if (faults.call_count < FAULTS_CALLS_MAX) {
        faults.calls[faults.call_count++] = (struct faults_call){bytes, segment, error};
    }
    return error;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    assert_true(flags & MSG_NOSIGNAL);
    errno = faults_next(bytes, 0);
    return errno != 0 ? -1 : __real_send(fd, data, bytes, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    uint16_t segment = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL;
         c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT) {
            memcpy(&segment, CMSG_DATA(c), sizeof segment);
        }
    }
    assert_true(flags & MSG_NOSIGNAL);
    assert_int_equal(message->msg_iovlen, 1);
    errno = faults_next(message->msg_iov[0].iov_len, segment);
    return errno != 0 ? -1 : __real_sendmsg(fd, message, flags);
}

static inline void faults_script(int count, const int *errors)
{
    memcpy(faults.script, errors, (size_t)count * sizeof *errors);
    faults.script_count = count;
    faults.call_count = 0;
}

/* The errnos of the next calls, 0 for one that is made; forgets the calls written down so far. */
#define SCRIPT(...)                                                                                \
    faults_script(sizeof(int[]){__VA_ARGS__} / sizeof(int), (const int[]){__VA_ARGS__})

#endif
