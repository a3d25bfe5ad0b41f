/* What every step record must keep to. */
#ifndef STEPS_H
#define STEPS_H

#include <stdio.h>
#include <string.h>

#include <solsend/host.h>

/* 1 if the record is named, and its texts are there exactly when it has something to explain. */
static inline int step_is_whole(const solsend_step *step)
{
    int terminated = memchr(step->name, 0, sizeof step->name) != NULL &&
                     memchr(step->why, 0, sizeof step->why) != NULL &&
                     memchr(step->cost, 0, sizeof step->cost) != NULL &&
                     memchr(step->fix, 0, sizeof step->fix) != NULL;
    int named = terminated && strcmp(step->name, solsend_step_name(step->step)) == 0 &&
                strcmp(step->name, "?") != 0;
    int explains = step->code != 0;
    int whole = named && (step->why[0] != 0) == explains && (step->cost[0] != 0) == explains &&
                (step->fix[0] != 0) == explains;
    /* A text that fills its room to the last byte was cut. */
    whole = whole && strlen(step->why) < sizeof step->why - 1 &&
            strlen(step->cost) < sizeof step->cost - 1 && strlen(step->fix) < sizeof step->fix - 1;
    if (!whole) {
        fprintf(stderr, "step %u \"%s\" code %d\n  why  %s\n  cost %s\n  fix  %s\n", step->step,
                step->name, step->code, step->why, step->cost, step->fix);
    }
    return whole;
}

#endif
