#include "host/step.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(solsend_step) == 512, "solsend_step is frozen at 512 bytes");

static const char *const step_names[] = {
    [SOLSEND_STEP_PIN] = "pin",
    [SOLSEND_STEP_POLICY] = "policy",
    [SOLSEND_STEP_NICE] = "nice",
    [SOLSEND_STEP_TIMER_SLACK] = "timer slack",
    [SOLSEND_STEP_THP] = "thp off",
    [SOLSEND_STEP_LOCK] = "lock memory",
    [SOLSEND_STEP_HUGE_PAGES] = "huge pages",
    [SOLSEND_STEP_CPU_LATENCY] = "cpu latency",
    [SOLSEND_STEP_SEND_BUFFER] = "send buffer",
    [SOLSEND_STEP_RECEIVE_BUFFER] = "receive buffer",
    [SOLSEND_STEP_BUSY_POLL] = "busy poll",
    [SOLSEND_STEP_PRIORITY] = "socket priority",
    [SOLSEND_STEP_TX_STAMPS] = "tx stamps",
};

const char *solsend_step_name(uint32_t step)
{
    if (step >= sizeof step_names / sizeof step_names[0] || step_names[step] == NULL) {
        return "?";
    }
    return step_names[step];
}

int host_step_fill(solsend_step *step, uint32_t id, int code, int64_t wanted, int64_t got,
                   const char *cost, const char *fix, const char *why_format, ...)
{
    if (step == NULL) {
        return code;
    }
    memset(step, 0, sizeof *step);
    step->step = id;
    step->code = code;
    step->wanted = wanted;
    step->got = got;
    snprintf(step->name, sizeof step->name, "%s", solsend_step_name(id));
    if (code == 0) {
        return 0;
    }
    snprintf(step->cost, sizeof step->cost, "%s", cost);
    snprintf(step->fix, sizeof step->fix, "%s", fix);
    va_list args;
    va_start(args, why_format);
    vsnprintf(step->why, sizeof step->why, why_format, args);
    va_end(args);
    return code;
}

void host_step_fix(solsend_step *step, const char *format, ...)
{
    if (step == NULL || step->code == 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(step->fix, sizeof step->fix, format, args);
    va_end(args);
}

const char *host_errno_name(int error)
{
    /* Those that the calls of this layer can give; strerrorname_np is not in every libc. */
    switch (error) {
    case EPERM:
        return "EPERM";
    case ENOENT:
        return "ENOENT";
    case EINTR:
        return "EINTR";
    case EIO:
        return "EIO";
    case EBADF:
        return "EBADF";
    case EAGAIN:
        return "EAGAIN";
    case ENOMEM:
        return "ENOMEM";
    case EACCES:
        return "EACCES";
    case EFAULT:
        return "EFAULT";
    case EBUSY:
        return "EBUSY";
    case ENODEV:
        return "ENODEV";
    case ENXIO:
        return "ENXIO";
    case EINVAL:
        return "EINVAL";
    case EMFILE:
        return "EMFILE";
    case ENFILE:
        return "ENFILE";
    case EROFS:
        return "EROFS";
    case ERANGE:
        return "ERANGE";
    case ENOSYS:
        return "ENOSYS";
    case ESRCH:
        return "ESRCH";
    case ENOTSOCK:
        return "ENOTSOCK";
    case ENOPROTOOPT:
        return "ENOPROTOOPT";
    case EOPNOTSUPP:
        return "EOPNOTSUPP";
    case EAFNOSUPPORT:
        return "EAFNOSUPPORT";
    case EADDRNOTAVAIL:
        return "EADDRNOTAVAIL";
    case ENETUNREACH:
        return "ENETUNREACH";
    case ENOBUFS:
        return "ENOBUFS";
    default:
        return "an unexpected errno";
    }
}

solsend_step *host_step_at(solsend_step *steps, uint32_t max_steps, uint32_t index)
{
    return steps != NULL && index < max_steps ? &steps[index] : NULL;
}
