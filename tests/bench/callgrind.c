#include "callgrind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct callgrind_reader {
    struct callgrind *out;
    size_t room;
    char object[64], name[96];
    int skip; /* the next cost line is that of a call: it is inclusive */
};

static struct callgrind_function *callgrind_find(struct callgrind_reader *r)
{
    struct callgrind *c = r->out;
    struct callgrind_function *f;
    for (size_t i = 0; i < c->count; i++) {
        f = &c->functions[i];
        if (strcmp(f->name, r->name) == 0 && strcmp(f->object, r->object) == 0) {
            return f;
        }
    }
    if (c->count == r->room) {
        size_t room = r->room == 0 ? 256 : r->room * 2;
        f = realloc(c->functions, room * sizeof *f);
        if (f == NULL) {
            return NULL;
        }
        c->functions = f;
        r->room = room;
    }
    f = &c->functions[c->count++];
    memset(f, 0, sizeof *f);
    memcpy(f->object, r->object, sizeof f->object);
    memcpy(f->name, r->name, sizeof f->name);
    return f;
}

/* "POSITION INSTRUCTIONS"; the position may be a line number, relative, or "*". */
static int callgrind_cost(struct callgrind_reader *r, const char *line)
{
    const char *space = strchr(line, ' ');
    struct callgrind_function *f;
    if (space == NULL) {
        return 0; /* nothing was executed there */
    }
    if (r->skip) {
        r->skip = 0;
        return 0;
    }
    f = callgrind_find(r);
    if (f == NULL) {
        return -1;
    }
    f->instructions += strtoull(space + 1, NULL, 10);
    return 0;
}

static int callgrind_line(struct callgrind_reader *r, char *line)
{
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "ob=", 3) == 0) {
        const char *slash = strrchr(line, '/');
        snprintf(r->object, sizeof r->object, "%.63s", slash == NULL ? line + 3 : slash + 1);
    } else if (strncmp(line, "fn=", 3) == 0) {
        snprintf(r->name, sizeof r->name, "%.95s", line + 3);
    } else if (strncmp(line, "calls=", 6) == 0) {
        r->skip = 1;
    } else if (strchr("0123456789+-*", line[0]) != NULL && line[0] != 0) {
        return callgrind_cost(r, line);
    }
    return 0;
}

static int callgrind_compare(const void *a, const void *b)
{
    const struct callgrind_function *x = a, *y = b;
    return x->instructions < y->instructions ? 1 : x->instructions == y->instructions ? 0 : -1;
}

int callgrind_read(struct callgrind *out, const char *path, char *why, size_t why_bytes)
{
    struct callgrind_reader reader = {.out = out};
    char line[4096];
    FILE *f = fopen(path, "re");
    int rc = 0;
    memset(out, 0, sizeof *out);
    if (f == NULL) {
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        return -1;
    }
    while (rc == 0 && fgets(line, sizeof line, f) != NULL) {
        rc = callgrind_line(&reader, line);
    }
    fclose(f);
    if (rc != 0 || out->count == 0) {
        snprintf(why, why_bytes, rc != 0 ? "out of memory" : "%s holds no costs", path);
        callgrind_free(out);
        return -1;
    }
    qsort(out->functions, out->count, sizeof *out->functions, callgrind_compare);
    return 0;
}

void callgrind_free(struct callgrind *c)
{
    free(c->functions);
    memset(c, 0, sizeof *c);
}

uint64_t callgrind_object(const struct callgrind *c, const char *object_prefix)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (strncmp(c->functions[i].object, object_prefix, strlen(object_prefix)) == 0) {
            sum += c->functions[i].instructions;
        }
    }
    return sum;
}
