#include "json_check.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Each of these returns what follows, or null after noting the place of the error. */
static const char *json_check_at;

static const char *json_check_value(const char *c);

static const char *json_check_space(const char *c)
{
    return c + strspn(c, " \t\r\n");
}

static const char *json_check_wrong(const char *c)
{
    json_check_at = c;
    return NULL;
}

static const char *json_check_string(const char *c)
{
    if (*c++ != '"') {
        return json_check_wrong(c - 1);
    }
    for (; *c != '"'; c++) {
        if ((unsigned char)*c < 0x20) {
            return json_check_wrong(c);
        }
        if (*c == '\\') {
            c++;
            if (*c == 'u') {
                for (int i = 0; i < 4; i++) {
                    if (!isxdigit((unsigned char)*++c)) {
                        return json_check_wrong(c);
                    }
                }
            } else if (*c == 0 || strchr("\"\\/bfnrt", *c) == NULL) {
                return json_check_wrong(c);
            }
        }
    }
    return c + 1;
}

static const char *json_check_digits(const char *c)
{
    size_t n = strspn(c, "0123456789");
    return n == 0 ? json_check_wrong(c) : c + n;
}

static const char *json_check_number(const char *c)
{
    c += *c == '-';
    if (*c == '0' && isdigit((unsigned char)c[1])) {
        return json_check_wrong(c);
    }
    c = json_check_digits(c);
    if (c != NULL && *c == '.') {
        c = json_check_digits(c + 1);
    }
    if (c != NULL && (*c == 'e' || *c == 'E')) {
        c++;
        c = json_check_digits(c + (*c == '+' || *c == '-'));
    }
    return c;
}

/* Members or elements, up to the closing bracket. */
static const char *json_check_list(const char *c, char closing)
{
    c = json_check_space(c);
    if (*c == closing) {
        return c + 1;
    }
    for (;;) {
        c = json_check_space(c);
        if (closing == '}') {
            c = json_check_string(c);
            if (c == NULL) {
                return NULL;
            }
            c = json_check_space(c);
            if (*c++ != ':') {
                return json_check_wrong(c - 1);
            }
        }
        c = json_check_value(c);
        if (c == NULL) {
            return NULL;
        }
        c = json_check_space(c);
        if (*c == closing) {
            return c + 1;
        }
        if (*c++ != ',') {
            return json_check_wrong(c - 1);
        }
    }
}

static const char *json_check_value(const char *c)
{
    static const char *const words[] = {"true", "false", "null"};
    c = json_check_space(c);
    if (*c == '{' || *c == '[') {
        return json_check_list(c + 1, *c == '{' ? '}' : ']');
    }
    if (*c == '"') {
        return json_check_string(c);
    }
    for (size_t i = 0; i < 3; i++) {
        if (strncmp(c, words[i], strlen(words[i])) == 0) {
            return c + strlen(words[i]);
        }
    }
    return json_check_number(c);
}

const char *json_check(const char *text)
{
    const char *end = json_check_value(text);
    if (end == NULL) {
        return json_check_at;
    }
    end = json_check_space(end);
    return *end == 0 ? NULL : end;
}
