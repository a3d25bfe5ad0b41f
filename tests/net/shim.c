#include "shim.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

struct shim shim;

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

void shim_clear(void)
{
    memset(&shim, 0, sizeof shim);
}

/* The errno to fail with, or 0. */
static int look(const struct shim_call *call)
{
    int error = shim.judge != NULL ? shim.judge(shim.context, call) : SHIM_MAKE;
    shim.calls++;
    shim.segmented += call->segmented != 0;
    shim.refused += error != SHIM_MAKE;
    return error;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    int error = look(&(struct shim_call){.fd = fd, .bytes = bytes});
    if (error != SHIM_MAKE) {
        errno = error;
        return -1;
    }
    return __real_send(fd, data, bytes, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct shim_call call = {.fd = fd};
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        call.bytes += message->msg_iov[i].iov_len;
    }
    struct msghdr copy = *message; /* CMSG_NXTHDR wants one that is not const */
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c != NULL; c = CMSG_NXTHDR(&copy, c)) {
        call.segmented |= c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT;
        call.stamped |= c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING;
    }
    int error = look(&call);
    if (error != SHIM_MAKE) {
        errno = error;
        return -1;
    }
    return __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (shim.stamps_hidden && (flags & MSG_ERRQUEUE) != 0) {
        errno = EAGAIN;
        return -1;
    }
    return __real_recvmsg(fd, message, flags);
}
