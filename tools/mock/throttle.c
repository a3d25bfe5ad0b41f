#include "mock/throttle.h"

#define MS             UINT64_C(1000000)
#define WINDOW_NS      (100 * MS)
#define UNSTAKED_QUOTA 20u
#define STAKED_QUOTA   40000u /* 80 % of 500 streams a millisecond */
#define STAKED_MIN     21u    /* a staked peer is never worse off than an unstaked one */
#define SATURATED      1900u  /* streams a step: 95 % of 400 a millisecond */
#define STEP_NS        (5 * MS)
#define STEPS_IDLE_MAX 400u /* after so many empty steps the average is 0 anyway */
#define SCALE          1024u

uint64_t throttle_quota(const struct throttle_load *load, uint64_t stake, uint64_t total)
{
    if (stake == 0 || total == 0) {
        return UNSTAKED_QUOTA;
    }
    if (load->average < (uint64_t)SATURATED * SCALE) {
        return STAKED_QUOTA;
    }
    uint64_t share = (uint64_t)((double)STAKED_QUOTA * ((double)stake / (double)total));
    return share < STAKED_MIN ? STAKED_MIN : share;
}

uint64_t throttle_wait(struct throttle_window *window, uint64_t quota, uint64_t now_ns)
{
    if (now_ns - window->started_ns >= WINDOW_NS) {
        window->started_ns = now_ns;
        window->streams = 0;
    }
    if (window->streams < quota) {
        return 0;
    }
    return window->started_ns + WINDOW_NS - now_ns;
}

static void load_step(struct throttle_load *load)
{
    /* alpha = 2 / (40 + 1) */
    load->average = (load->average * 39 + load->step_streams * SCALE * 2) / 41;
    load->step_streams = 0;
}

void throttle_read(struct throttle_window *window, struct throttle_load *load, int staked,
                   uint64_t now_ns)
{
    window->streams++;
    if (!staked) {
        return;
    }
    uint64_t steps = (now_ns - load->step_started_ns) / STEP_NS;
    load->step_started_ns += steps * STEP_NS;
    for (uint64_t i = 0; i < steps && i < STEPS_IDLE_MAX; i++) {
        load_step(load);
    }
    load->step_streams++;
}
