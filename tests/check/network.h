/* Networks unlike this host's, for bodies that run in a child process (child.h). */
#ifndef NETWORK_H
#define NETWORK_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Writes a sysctl's file. Returns 0 or -1. */
static inline int network_sysctl(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int rc = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value) ? 0 : -1;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* Enters a network of the process's own that has nothing but a loopback of this MTU. Returns 0, or
 * -1 where namespaces cannot be had. */
static inline int network_enter(int mtu)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return -1;
    }
    struct ifreq lo = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    lo.ifr_mtu = mtu;
    int rc = ioctl(fd, SIOCSIFMTU, &lo);
    lo.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
    rc |= ioctl(fd, SIOCSIFFLAGS, &lo);
    close(fd);
    return rc;
}

#endif
