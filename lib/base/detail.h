/* Filling solsend_detail, and the size-first manners of option structs. */
#ifndef BASE_DETAIL_H
#define BASE_DETAIL_H

#include <solsend/error.h>

/*
 * Writes code, offset and text into `detail` (null: nothing) and returns `code`, so that a parser
 * can say `return detail_set(d, SOLSEND_ERR_BAD_URI, at, "…", …)`. Text that does not fit is cut.
 */
int detail_set(solsend_detail *detail, int code, uint32_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Reads a caller's size-first struct into ours. `known` is sizeof the struct as this build knows
 * it and `ours` already holds the defaults; members the caller's build lacked keep them. Returns 0,
 * BAD_SIZE (0, or no multiple of 4, or larger than 4096) or UNKNOWN_OPTION (a tail we do not know
 * is not zero). `name` is the struct's name for the detail.
 */
int options_read(void *ours, uint32_t known, const void *theirs, const char *name,
                 solsend_detail *detail);

/* Writes the defaults at `ours` (known bytes) into a caller's struct of `size` bytes. */
int options_write(void *theirs, uint32_t size, void *ours, uint32_t known);

#endif
