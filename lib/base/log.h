/* Formatting a line for a log sink, only when somebody listens. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <solsend/log.h>

/* Formats and delivers one line of at most 511 bytes; use log_line instead. */
void log_write(const solsend_log_sink *sink, int32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Off costs one compare: the arguments are evaluated only when the line is wanted. */
#define log_line(sink, line_level, ...)                                                            \
    do {                                                                                           \
        if ((sink)->write != NULL && (line_level) <= (sink)->level) {                              \
            log_write((sink), (line_level), __VA_ARGS__);                                          \
        }                                                                                          \
    } while (0)

#endif
