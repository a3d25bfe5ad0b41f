#include "host/stamps_probe.h"

#include <errno.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/socket.h"
#include "host/step.h"

enum { PROBE_PACKETS = 3, PROBE_MS = 20 };

static const char stamps_cost[] = "where a send's time goes inside the kernel is not measured: the "
                                  "hops sched and snd stay empty";
static const char stamps_fix[] = "run on a Linux kernel of its own, not on an emulated one (gVisor "
                                 "and the like); sending itself is not touched";

/* The kind of one message of the error queue, or 0 if it is no stamp or an empty one. */
static uint32_t kind_of(struct msghdr *message)
{
    uint32_t kind = 0;
    int has_time = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING) {
            struct scm_timestamping times;
            memcpy(&times, CMSG_DATA(c), sizeof times);
            has_time = times.ts[0].tv_sec != 0 || times.ts[0].tv_nsec != 0;
        } else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            struct sock_extended_err error;
            memcpy(&error, CMSG_DATA(c), sizeof error);
            if (error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING) {
                kind = error.ee_info == SCM_TSTAMP_SCHED ? HOST_STAMPS_SCHED
                       : error.ee_info == SCM_TSTAMP_SND ? HOST_STAMPS_SOFTWARE
                                                         : 0;
            }
        }
    }
    return has_time ? kind : 0;
}

static uint32_t read_queue(int fd)
{
    uint32_t kinds = 0;
    for (;;) {
        _Alignas(struct cmsghdr) char control[512];
        char data[64];
        struct iovec part = {.iov_base = data, .iov_len = sizeof data};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t n = recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return kinds;
        }
        kinds |= kind_of(&message);
    }
}

uint32_t host_stamps_probe_collect(int fd, uint64_t wait_ns)
{
    const uint32_t both = HOST_STAMPS_SCHED | HOST_STAMPS_SOFTWARE;
    uint64_t end = clock_now() + wait_ns;
    uint32_t kinds = read_queue(fd);
    while (kinds != both) {
        uint64_t now = clock_now();
        if (now >= end) {
            return kinds;
        }
        struct pollfd errors = {.fd = fd, .events = 0}; /* POLLERR is always reported */
        struct timespec left = {.tv_sec = (time_t)((end - now) / CLOCK_NS_PER_S),
                                .tv_nsec = (long)((end - now) % CLOCK_NS_PER_S)};
        ppoll(&errors, 1, &left, NULL);
        kinds |= read_queue(fd);
    }
    return kinds;
}

int host_stamps_probe_fill(solsend_step *step, uint32_t kinds)
{
    int got = ((kinds & HOST_STAMPS_SCHED) != 0) + ((kinds & HOST_STAMPS_SOFTWARE) != 0);
    int code = got == 2 ? 0 : got == 1 ? SOLSEND_ERR_CLAMPED : SOLSEND_ERR_NOT_SUPPORTED;
    const char *missing = kinds == HOST_STAMPS_SCHED      ? "the SOFTWARE stamp (at the device)"
                          : kinds == HOST_STAMPS_SOFTWARE ? "the SCHED stamp (at the queue)"
                                                          : "none of the stamps";
    return host_step_fill(step, SOLSEND_STEP_TX_STAMPS, code, 2, got, stamps_cost, stamps_fix,
                          "SO_TIMESTAMPING was accepted, but after a send over loopback %s %s",
                          missing, got == 1 ? "did not come" : "came");
}

/* A loopback address of the family with port 0; its length, or 0 for a family we do not know. */
static socklen_t loopback(int family, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof *address);
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)address;
        v4->sin_family = AF_INET;
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *v4;
    }
    if (family == AF_INET6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
        v6->sin6_family = AF_INET6;
        v6->sin6_addr = in6addr_loopback;
        return sizeof *v6;
    }
    return 0;
}

/* Sends to a socket of our own. Returns 0 or -errno; `*call` names what failed. */
static int send_stamped(int receiver, int sender, int family, const char **call)
{
    struct sockaddr_storage address;
    socklen_t length = loopback(family, &address);
    int wish = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_SCHED |
               SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
    *call = "bind";
    if (bind(receiver, (struct sockaddr *)&address, length) != 0 ||
        getsockname(receiver, (struct sockaddr *)&address, &length) != 0) {
        return -errno;
    }
    *call = "connect";
    if (connect(sender, (struct sockaddr *)&address, length) != 0) {
        return -errno;
    }
    *call = "SO_TIMESTAMPING";
    if (setsockopt(sender, SOL_SOCKET, SO_TIMESTAMPING, &wish, sizeof wish) != 0) {
        return -errno;
    }
    *call = "send";
    for (int i = 0; i < PROBE_PACKETS; i++) {
        if (send(sender, "stamp", 5, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            return -errno;
        }
    }
    return 0;
}

static int fill_failed(solsend_step *step, const char *call, int error)
{
    return host_step_fill(step, SOLSEND_STEP_TX_STAMPS, SOLSEND_ERR_NOT_SUPPORTED, 2, 0,
                          stamps_cost, stamps_fix, "the probe over loopback failed: %s: %s", call,
                          host_errno_name(error));
}

int host_socket_probe_stamps(int family, solsend_step *step)
{
    const char *call = "socket";
    int receiver = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (receiver < 0) {
        return fill_failed(step, call, errno);
    }
    int sender = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sender < 0) {
        int error = errno;
        close(receiver);
        return fill_failed(step, call, error);
    }
    int rc = send_stamped(receiver, sender, family, &call);
    int code = rc < 0 ? fill_failed(step, call, -rc)
                      : host_stamps_probe_fill(
                            step, host_stamps_probe_collect(sender, PROBE_MS * CLOCK_NS_PER_MS));
    close(sender);
    close(receiver);
    return code;
}
