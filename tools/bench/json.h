/* Writing JSON: commas, indentation, escapes. A number that was not measured is null. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;
    int first; /* nothing stands in the innermost object or array yet */
};

void json_start(struct json *j, FILE *out);

/* `name` is null inside an array. */
void json_open_object(struct json *j, const char *name);
void json_close_object(struct json *j);
void json_open_array(struct json *j, const char *name);
void json_close_array(struct json *j);

void json_text(struct json *j, const char *name, const char *value); /* null value: null */
void json_integer(struct json *j, const char *name, int64_t value);
void json_unsigned(struct json *j, const char *name, uint64_t value);
void json_double(struct json *j, const char *name, double value); /* not finite: null */
void json_bool(struct json *j, const char *name, int value);
void json_null(struct json *j, const char *name);

/* Null when negative: not measured. */
void json_known(struct json *j, const char *name, int64_t value);

/* Ends the text with a newline. Returns 0, or -1 when the stream has an error. */
int json_end(struct json *j);

#endif
