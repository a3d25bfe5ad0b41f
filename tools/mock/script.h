/* A script changes faults over time. */
#ifndef MOCK_SCRIPT_H
#define MOCK_SCRIPT_H

#include "mock/fault.h"

struct script_step {
    uint64_t at_ns;
    char *faults;
};

struct script {
    struct script_step *steps; /* by time */
    uint32_t count;
    uint32_t done;
};

/* "@500ms name=value; @1s name=value,…". Every step is checked here. Returns 0 or -1 with `why`. */
int script_open(struct script *script, const char *text, char *why, size_t why_bytes);
void script_close(struct script *script);

/* When the next step is due, ns after the start, or UINT64_MAX. */
uint64_t script_next(const struct script *script);

/* Applies every step that is due at `ns` after the start. */
void script_run(struct script *script, struct fault *fault, uint64_t ns);

#endif
