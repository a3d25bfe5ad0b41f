/* What every cmocka file includes, in the order cmocka wants it. */
#ifndef CHECK_H
#define CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Ends the program as skipped (meson's exit code 77) and says why. */
#define SKIP_ALL(...)                                                                              \
    do {                                                                                           \
        fprintf(stderr, "SKIP: " __VA_ARGS__);                                                     \
        fprintf(stderr, "\n");                                                                     \
        return 77;                                                                                 \
    } while (0)

/* In a test: skips it and says why. */
#define SKIP_TEST(...)                                                                             \
    do {                                                                                           \
        fprintf(stderr, "SKIP: " __VA_ARGS__);                                                     \
        fprintf(stderr, "\n");                                                                     \
        skip();                                                                                    \
    } while (0)

#endif
