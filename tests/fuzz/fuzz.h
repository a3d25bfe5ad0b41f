/* What a fuzz target is, for libFuzzer and for standalone.c alike. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Takes any bytes; returns 0. Ends the process when a property does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Optional: runs once before the first input. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* assert that no build type switches off */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
