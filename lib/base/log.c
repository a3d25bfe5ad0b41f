#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_BYTES = 512 };

void log_write(const solsend_log_sink *sink, int32_t level, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    uint32_t bytes = n < LINE_BYTES ? (uint32_t)n : LINE_BYTES - 1;
    sink->write(sink->context, level, line, bytes);
}

const char *solsend_log_level_name(int32_t level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    return level >= 0 && level < (int32_t)(sizeof names / sizeof names[0]) ? names[level] : "?";
}
