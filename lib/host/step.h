/* Building a solsend_step: what was wanted, what was got, why not, what that costs, the way out. */
#ifndef HOST_STEP_H
#define HOST_STEP_H

#include <solsend/host.h>

/*
 * Fills `step` (null: nothing) and returns `code`. The three texts belong to a shortfall: with code
 * 0 they are left empty and may be null. `why_format` names the errno and what stands behind it.
 */
int host_step_fill(solsend_step *step, uint32_t id, int code, int64_t wanted, int64_t got,
                   const char *cost, const char *fix, const char *why_format, ...)
    __attribute__((format(printf, 8, 9)));

/* Replaces the fix by a formatted one, where it must name a number. Nothing if code is 0. */
void host_step_fix(solsend_step *step, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "EPERM"; "an unexpected errno" for one that this layer does not know. */
const char *host_errno_name(int error);

/* What a public function returns after a step of `code`: a shortfall is an error only if STRICT. */
static inline int host_step_answer(int code, uint32_t flags)
{
    return (flags & SOLSEND_HOST_STRICT) != 0 ? code : 0;
}

/* The `steps` array of a caller: the entry to fill next, null when there is none or it is full. */
solsend_step *host_step_at(solsend_step *steps, uint32_t max_steps, uint32_t index);

#endif
