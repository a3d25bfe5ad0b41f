#include "bench/json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

static void json_quoted(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < 0x20 || *c == 0x7f) {
            fprintf(out, "\\u%04x", *c);
        } else {
            putc(*c, out);
        }
    }
    putc('"', out);
}

static void json_before(struct json *j, const char *name)
{
    if (j->depth > 0) {
        fprintf(j->out, "%s\n%*s", j->first ? "" : ",", 2 * j->depth, "");
    }
    j->first = 0;
    if (name != NULL) {
        json_quoted(j->out, name);
        fputs(": ", j->out);
    }
}

static void json_open(struct json *j, const char *name, char bracket)
{
    json_before(j, name);
    putc(bracket, j->out);
    j->depth++;
    j->first = 1;
}

static void json_close(struct json *j, char bracket)
{
    j->depth--;
    if (!j->first) {
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    }
    putc(bracket, j->out);
    j->first = 0;
}

void json_start(struct json *j, FILE *out)
{
    j->out = out;
    j->depth = 0;
    j->first = 1;
}

void json_open_object(struct json *j, const char *name)
{
    json_open(j, name, '{');
}

void json_close_object(struct json *j)
{
    json_close(j, '}');
}

void json_open_array(struct json *j, const char *name)
{
    json_open(j, name, '[');
}

void json_close_array(struct json *j)
{
    json_close(j, ']');
}

void json_text(struct json *j, const char *name, const char *value)
{
    json_before(j, name);
    if (value == NULL) {
        fputs("null", j->out);
    } else {
        json_quoted(j->out, value);
    }
}

void json_integer(struct json *j, const char *name, int64_t value)
{
    json_before(j, name);
    fprintf(j->out, "%" PRId64, value);
}

void json_unsigned(struct json *j, const char *name, uint64_t value)
{
    json_before(j, name);
    fprintf(j->out, "%" PRIu64, value);
}

void json_double(struct json *j, const char *name, double value)
{
    json_before(j, name);
    if (isfinite(value)) {
        fprintf(j->out, "%.10g", value);
    } else {
        fputs("null", j->out);
    }
}

void json_bool(struct json *j, const char *name, int value)
{
    json_before(j, name);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *name)
{
    json_before(j, name);
    fputs("null", j->out);
}

void json_known(struct json *j, const char *name, int64_t value)
{
    if (value < 0) {
        json_null(j, name);
    } else {
        json_integer(j, name, value);
    }
}

int json_end(struct json *j)
{
    putc('\n', j->out);
    return ferror(j->out) || fflush(j->out) != 0 ? -1 : 0;
}
