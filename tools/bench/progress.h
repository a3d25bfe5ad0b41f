/* One line on stderr that says how far a long job is; nothing when nobody watches. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdint.h>

/* Shows progress from now on if stderr is a terminal and `wanted`. */
void progress_enable(int wanted);

/* Names the job; the line appears once the job takes longer than a second. */
void progress_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Redraws the line, at most twice a second: one clock read otherwise. Allocates nothing. */
void progress_show(uint32_t done, uint32_t count);

/* Removes the line. */
void progress_end(void);

#endif
