/**
 * The log callback. The library never prints; it hands finished lines to this callback or nowhere.
 */
#ifndef SOLSEND_LOG_H
#define SOLSEND_LOG_H

#include <solsend/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SOLSEND_LOG_ERROR = 0, SOLSEND_LOG_WARN = 1, SOLSEND_LOG_INFO = 2, SOLSEND_LOG_DEBUG = 3 };

/**
 * Receives one line. `text` is zero-terminated, without a newline, valid during the call only, and
 * never holds a key, a token or a transaction's bytes. `text_bytes` excludes the terminator.
 *
 * Threads: called on the thread that drives the handle it was given to. It must not block and must
 * not call the library on the same handle.
 */
typedef void (*solsend_log_write)(void *context, int32_t level, const char *text,
                                  uint32_t text_bytes);

/** Where lines go. Copied by the functions that take it; a null `write` turns logging off. */
typedef struct solsend_log_sink {
    solsend_log_write write;
    void *context;
    int32_t level; /* lines above this level are not even formatted */
    uint32_t reserved;
} solsend_log_sink;

/** "error", "warn", "info", "debug", or "?". */
SOLSEND_API const char *solsend_log_level_name(int32_t level);

#ifdef __cplusplus
}
#endif
#endif
