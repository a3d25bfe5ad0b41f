#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/step.h"
#include "host/sysroot.h"
#include "host/wishes.h"

struct solsend_cpu_latency {
    int fd; /* the kernel ends the promise when its last descriptor is closed */
};

static const char device[] = "/dev/cpu_dma_latency";
static const char latency_cost[] = "an idle CPU must leave a deep state before it sends: C6 takes "
                                   "170 us (Ice Lake-SP), 190 us (Sapphire Rapids) by intel_idle";
static const char latency_fix[] = "host: run as root, or udev MODE=0660 with a group; container: "
                                  "--device /dev/cpu_dma_latency and that group or root";

/* A guest often has no idle states of its own: the hypervisor decides, and no promise helps. */
static int has_idle_driver(void)
{
    char driver[64];
    return host_sysroot_read("/sys/devices/system/cpu/cpuidle/current_driver", driver,
                             sizeof driver) > 0 &&
           strcmp(driver, "none") != 0;
}

static int fill_refused(solsend_step *step, uint32_t wanted, int error)
{
    int code = SOLSEND_ERR_NOT_SUPPORTED;
    const char *cause = "no such device node: a container without --device, or a kernel without "
                        "power management";
    if (error == EACCES || error == EPERM) {
        code = SOLSEND_ERR_PRIVILEGE;
        cause = "the node belongs to root (0600), or the device cgroup forbids it";
    } else if (error == EMFILE || error == ENFILE) {
        code = SOLSEND_ERR_NO_FILES;
        cause = "no file descriptor is left";
    } else if (error == ENOMEM) {
        code = SOLSEND_ERR_MEMORY;
        cause = "no memory";
    } else if (error != ENOENT) {
        cause = "the device does not take the value";
    }
    return host_step_fill(step, SOLSEND_STEP_CPU_LATENCY, code, wanted, -1, latency_cost,
                          latency_fix, "%s: %s; %s", device, host_errno_name(error), cause);
}

/* Returns the descriptor that holds the promise, or -errno. `*got` is what is in force. */
static int hold(int32_t wanted, int64_t *got)
{
    int readable = 1;
    int fd = host_sysroot_open(device, O_RDWR);
    if (fd == -EACCES) {
        readable = 0;
        fd = host_sysroot_open(device, O_WRONLY);
    }
    if (fd < 0) {
        return fd;
    }
    if (write(fd, &wanted, sizeof wanted) != (ssize_t)sizeof wanted) {
        int error = errno;
        close(fd);
        return -error;
    }
    int32_t now;
    *got = wanted;
    if (readable && pread(fd, &now, sizeof now, 0) == (ssize_t)sizeof now) {
        *got = now;
    }
    return fd;
}

static int fill_held(solsend_step *step, uint32_t wanted, int64_t got)
{
    if (!has_idle_driver()) {
        return host_step_fill(step, SOLSEND_STEP_CPU_LATENCY, SOLSEND_ERR_NOT_SUPPORTED, wanted, -1,
                              latency_cost,
                              "on the machine that runs this guest: hold it there, or tuned-adm "
                              "profile latency-performance",
                              "held, but without effect: this kernel has no cpuidle driver (a "
                              "guest); its hypervisor chooses the idle states");
    }
    return host_step_fill(step, SOLSEND_STEP_CPU_LATENCY,
                          got <= (int64_t)wanted ? 0 : SOLSEND_ERR_CLAMPED, wanted, got,
                          latency_cost, latency_fix, "%s: %lld us are in force, not what was asked",
                          device, (long long)got);
}

int solsend_host_hold_cpu_latency(solsend_cpu_latency **out, uint32_t latency_us, uint32_t flags,
                                  solsend_step *step)
{
    if (out == NULL) {
        return SOLSEND_ERR_USAGE;
    }
    *out = NULL;
    if (!host_wishes_latency(latency_us) || !host_wishes_flags(flags)) {
        return SOLSEND_ERR_BAD_OPTION;
    }
    solsend_cpu_latency *latency = malloc(sizeof *latency);
    if (latency == NULL) {
        return host_step_answer(fill_refused(step, latency_us, ENOMEM), flags);
    }
    int64_t got = -1;
    latency->fd = hold((int32_t)latency_us, &got);
    int code = latency->fd < 0 ? fill_refused(step, latency_us, -latency->fd)
                               : fill_held(step, latency_us, got);
    int answer = host_step_answer(code, flags);
    if (latency->fd < 0 || answer != 0) {
        solsend_host_release_cpu_latency(latency);
        return answer;
    }
    *out = latency;
    return 0;
}

void solsend_host_release_cpu_latency(solsend_cpu_latency *latency)
{
    if (latency == NULL) {
        return;
    }
    if (latency->fd >= 0) {
        close(latency->fd);
    }
    free(latency);
}
