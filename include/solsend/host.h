/**
 * The host: pin a thread, lock memory, tune a socket, and be told what was really granted.
 *
 * Nothing here fails because a privilege is missing unless the caller asks for strictness: every
 * step fills a record that says what was wanted, what was got, why not, what that costs and how to
 * get it.
 */
#ifndef SOLSEND_HOST_H
#define SOLSEND_HOST_H

#include <solsend/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** `solsend_step.step`. */
enum {
    SOLSEND_STEP_PIN = 1,
    SOLSEND_STEP_POLICY = 2,
    SOLSEND_STEP_NICE = 3,
    SOLSEND_STEP_TIMER_SLACK = 4,
    SOLSEND_STEP_THP = 5,
    SOLSEND_STEP_LOCK = 6,
    SOLSEND_STEP_HUGE_PAGES = 7,
    SOLSEND_STEP_CPU_LATENCY = 8,
    SOLSEND_STEP_SEND_BUFFER = 9,
    SOLSEND_STEP_RECEIVE_BUFFER = 10,
    SOLSEND_STEP_BUSY_POLL = 11,
    SOLSEND_STEP_PRIORITY = 12,
    SOLSEND_STEP_TX_STAMPS = 13
};

/**
 * What one tuning step got. Frozen at 512 bytes; texts are zero-terminated and may be empty.
 * `code` is 0 when got is what was wanted, CLAMPED when it is less, PRIVILEGE, NOT_SUPPORTED,
 * NO_CPU or REFUSED_UNSAFE when there is nothing.
 */
typedef struct solsend_step {
    uint32_t step; /* SOLSEND_STEP_… */
    int32_t code;
    int64_t wanted; /* CPU number, nice value, bytes, microseconds, … by the step */
    int64_t got;
    char name[24];  /* "pin", "send buffer", … */
    char why[152];  /* why not: the errno and what stands behind it */
    char cost[152]; /* what the shortfall costs */
    char fix[160];  /* how to get it */
} solsend_step;

/** Name of a step, "?" if unknown. */
SOLSEND_API const char *solsend_step_name(uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
