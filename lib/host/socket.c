#include "host/socket.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>

#include "host/privilege.h"
#include "host/step.h"
#include "host/sysroot.h"

/* What differs between the two directions. */
struct buffer {
    uint32_t step;
    int option;
    int force_option;
    const char *option_name;
    const char *sysctl;
    const char *cost;
};

static const struct buffer send_buffer = {
    SOLSEND_STEP_SEND_BUFFER,
    SO_SNDBUF,
    SO_SNDBUFFORCE,
    "SO_SNDBUF",
    "wmem_max",
    "a burst larger than the buffer gets EAGAIN and waits until the device has taken some of it"};
static const struct buffer receive_buffer = {
    SOLSEND_STEP_RECEIVE_BUFFER,
    SO_RCVBUF,
    SO_RCVBUFFORCE,
    "SO_RCVBUF",
    "rmem_max",
    "ACKs that come while the thread is away are lost beyond it: sent again, milliseconds later"};

static int get(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -errno;
}

static int set(int fd, int option, uint32_t wanted)
{
    int value = wanted < INT_MAX ? (int)wanted : INT_MAX;
    return setsockopt(fd, SOL_SOCKET, option, &value, sizeof value) == 0 ? 0 : -errno;
}

static int is_short(int64_t got, uint32_t wanted)
{
    return got < (int64_t)wanted;
}

static int64_t get_buffer(int fd, const struct buffer *buffer)
{
    int value = get(fd, buffer->option);
    return value < 0 ? value : value / 2; /* the kernel doubles what it is given */
}

static void explain_clamp(const struct buffer *buffer, uint32_t wanted, int64_t got,
                          int force_error, solsend_step *step)
{
    char path[64];
    char limit[64];
    int64_t max;
    snprintf(path, sizeof path, "/proc/sys/net/core/%s", buffer->sysctl);
    if (host_sysroot_number(path, &max) == 0) {
        snprintf(limit, sizeof limit, "net.core.%s is %lld", buffer->sysctl, (long long)max);
    } else {
        snprintf(limit, sizeof limit, "net.core.%s (not visible here)", buffer->sysctl);
    }
    host_step_fill(step, buffer->step, SOLSEND_ERR_CLAMPED, wanted, got, buffer->cost, "",
                   "%s was clamped: %s; %sFORCE: %s, %s", buffer->option_name, limit,
                   buffer->option_name, force_error != 0 ? host_errno_name(force_error) : "done",
                   host_capability_text(HOST_CAP_NET_ADMIN));
    host_step_fix(step,
                  "host: sysctl -w net.core.%s=%u; container: the same on its host (read-only "
                  "inside), or --cap-add NET_ADMIN",
                  buffer->sysctl, wanted);
}

static void tune_buffer(int fd, const struct buffer *buffer, uint32_t wanted, solsend_step *step)
{
    int error = wanted != 0 ? -set(fd, buffer->option, wanted) : 0;
    int64_t got = get_buffer(fd, buffer);
    int force_error = 0;
    if (error == 0 && got >= 0 && is_short(got, wanted)) {
        force_error = -set(fd, buffer->force_option, wanted);
        got = get_buffer(fd, buffer);
    }
    if (error == 0 && got < 0) {
        error = (int)-got;
    }
    if (error != 0) {
        host_step_fill(step, buffer->step, SOLSEND_ERR_NOT_SUPPORTED, wanted, got < 0 ? 0 : got,
                       buffer->cost, "use a kernel (not a sandbox) that has the socket option",
                       "%s: %s", buffer->option_name, host_errno_name(error));
    } else if (is_short(got, wanted)) {
        explain_clamp(buffer, wanted, got, force_error, step);
    } else {
        host_step_fill(step, buffer->step, 0, wanted, got, NULL, NULL, "%s", "");
    }
}

/* An option that takes its value or fails, and needs CAP_NET_ADMIN on some kernels. */
static void tune_value(int fd, uint32_t id, int option, const char *option_name, uint32_t wanted,
                       const char *cost, const char *fix, solsend_step *step)
{
    int error = -set(fd, option, wanted);
    int got = get(fd, option);
    if (error == 0 && got == (int)wanted) {
        host_step_fill(step, id, 0, wanted, got, NULL, NULL, "%s", "");
    } else if (error == EPERM) {
        host_step_fill(step, id, SOLSEND_ERR_PRIVILEGE, wanted, got < 0 ? 0 : got, cost, fix,
                       "%s: EPERM; %s", option_name, host_capability_text(HOST_CAP_NET_ADMIN));
    } else {
        host_step_fill(step, id, SOLSEND_ERR_NOT_SUPPORTED, wanted, got < 0 ? 0 : got, cost, fix,
                       "%s: %s; this kernel does not take the value %u", option_name,
                       error != 0 ? host_errno_name(error) : "no error, but not kept", wanted);
    }
}

uint32_t host_socket_tune(int fd, const struct host_socket_wishes *wishes, solsend_step *steps,
                          uint32_t max_steps)
{
    uint32_t used = 0;
    tune_buffer(fd, &send_buffer, wishes->send_buffer_bytes, host_step_at(steps, max_steps, used));
    used++;
    tune_buffer(fd, &receive_buffer, wishes->receive_buffer_bytes,
                host_step_at(steps, max_steps, used));
    used++;
    if (wishes->busy_poll_us != 0) {
        tune_value(fd, SOLSEND_STEP_BUSY_POLL, SO_BUSY_POLL, "SO_BUSY_POLL", wishes->busy_poll_us,
                   "incoming ACKs wait for the device's interrupt; sending is not slower, and on "
                   "loopback and veth nothing changes",
                   "host: kernel with CONFIG_NET_RX_BUSY_POLL; older kernels need CAP_NET_ADMIN; "
                   "container: --cap-add NET_ADMIN",
                   host_step_at(steps, max_steps, used));
        used++;
    }
    if (wishes->priority != 0) {
        tune_value(fd, SOLSEND_STEP_PRIORITY, SO_PRIORITY, "SO_PRIORITY", wishes->priority,
                   "packets share the band of ordinary traffic in the queueing discipline",
                   "use 1...6, which needs no privilege; for 7 container: --cap-add NET_ADMIN",
                   host_step_at(steps, max_steps, used));
        used++;
    }
    if (steps == NULL) {
        return 0;
    }
    return used < max_steps ? used : max_steps;
}
