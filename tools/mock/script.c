#include "mock/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX_MS 86400000.0

/* "500ms", "1.5s"; returns the first character behind it, or null. */
static const char *moment(const char *text, uint64_t *ns)
{
    char *end;
    double value = strtod(text, &end);
    double scale = 0;
    if (end == text || !(value >= 0)) {
        return NULL;
    }
    if (strncmp(end, "ms", 2) == 0) {
        scale = 1;
        end += 2;
    } else if (*end == 's') {
        scale = 1000;
        end += 1;
    }
    if (scale == 0 || value * scale > TIME_MAX_MS || (*end != ' ' && *end != '\t')) {
        return NULL;
    }
    *ns = (uint64_t)(value * scale * 1e6);
    return end;
}

static int add(struct script *script, uint64_t at_ns, const char *from, const char *to, char *why,
               size_t why_bytes)
{
    struct fault checked;
    char *faults = strndup(from, (size_t)(to - from));
    struct script_step *steps = realloc(script->steps, (script->count + 1) * sizeof *script->steps);
    if (steps != NULL) {
        script->steps = steps;
    }
    if (faults == NULL || steps == NULL) {
        free(faults);
        snprintf(why, why_bytes, "script: out of memory");
        return -1;
    }
    fault_init(&checked);
    if (fault_parse(&checked, faults, why, why_bytes) != 0) {
        free(faults);
        return -1;
    }
    /* Insertion keeps equal moments in the order they were written. */
    uint32_t at = script->count++;
    while (at > 0 && steps[at - 1].at_ns > at_ns) {
        steps[at] = steps[at - 1];
        at--;
    }
    steps[at] = (struct script_step){at_ns, faults};
    return 0;
}

int script_open(struct script *script, const char *text, char *why, size_t why_bytes)
{
    memset(script, 0, sizeof *script);
    while (text != NULL && *text != '\0') {
        uint64_t at_ns;
        text += strspn(text, " \t\n;");
        if (*text == '\0') {
            break;
        }
        const char *end = text + strcspn(text, ";");
        const char *faults = *text == '@' ? moment(text + 1, &at_ns) : NULL;
        if (faults == NULL || faults > end) {
            snprintf(why, why_bytes, "script step \"%.*s\": it starts with @500ms or @1s",
                     (int)(end - text < 40 ? end - text : 40), text);
            script_close(script);
            return -1;
        }
        if (add(script, at_ns, faults, end, why, why_bytes) != 0) {
            script_close(script);
            return -1;
        }
        text = end;
    }
    return 0;
}

void script_close(struct script *script)
{
    for (uint32_t i = 0; i < script->count; i++) {
        free(script->steps[i].faults);
    }
    free(script->steps);
    memset(script, 0, sizeof *script);
}

uint64_t script_next(const struct script *script)
{
    return script->done < script->count ? script->steps[script->done].at_ns : UINT64_MAX;
}

void script_run(struct script *script, struct fault *fault, uint64_t ns)
{
    char why[8];
    while (script_next(script) <= ns) {
        /* Checked at open: cannot fail. */
        (void)fault_parse(fault, script->steps[script->done].faults, why, sizeof why);
        script->done++;
    }
}
