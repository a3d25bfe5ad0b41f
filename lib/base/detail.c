#include "base/detail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STRUCT_BYTES_MAX = 4096 };

int detail_set(solsend_detail *detail, int code, uint32_t offset, const char *format, ...)
{
    if (detail == NULL) {
        return code;
    }
    detail->code = code;
    detail->offset = offset;
    va_list args;
    va_start(args, format);
    vsnprintf(detail->text, sizeof detail->text, format, args);
    va_end(args);
    return code;
}

static int size_is_sane(uint32_t size)
{
    return size >= sizeof(uint32_t) && size % sizeof(uint32_t) == 0 && size <= STRUCT_BYTES_MAX;
}

int options_read(void *ours, uint32_t known, const void *theirs, const char *name,
                 solsend_detail *detail)
{
    uint32_t size;
    memcpy(&size, theirs, sizeof size);
    if (!size_is_sane(size)) {
        return detail_set(detail, SOLSEND_ERR_BAD_SIZE, 0, "%s.size is %u: call its _init first",
                          name, size);
    }
    const uint8_t *bytes = theirs;
    for (uint32_t i = known; i < size; i++) {
        if (bytes[i] != 0) {
            return detail_set(detail, SOLSEND_ERR_UNKNOWN_OPTION, i,
                              "%s has a member at byte %u that this library does not know", name,
                              i);
        }
    }
    memcpy(ours, theirs, size < known ? size : known);
    memcpy(ours, &known, sizeof known);
    return 0;
}

int options_write(void *theirs, uint32_t size, void *ours, uint32_t known)
{
    if (theirs == NULL || !size_is_sane(size)) {
        return SOLSEND_ERR_BAD_SIZE;
    }
    memset(theirs, 0, size);
    memcpy(theirs, ours, size < known ? size : known);
    memcpy(theirs, &size, sizeof size);
    return 0;
}
