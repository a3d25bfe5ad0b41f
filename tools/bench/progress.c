#include "bench/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define PROGRESS_FIRST_NS CLOCK_NS_PER_S
#define PROGRESS_EVERY_NS (CLOCK_NS_PER_S / 2)

static int progress_on, progress_drawn;
static uint64_t progress_next;
static char progress_job[80];

void progress_enable(int wanted)
{
    progress_on = wanted && isatty(STDERR_FILENO);
}

void progress_begin(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(progress_job, sizeof progress_job, format, arguments);
    va_end(arguments);
    progress_next = clock_now() + PROGRESS_FIRST_NS;
}

static void progress_write(const char *text, int bytes)
{
    ssize_t written = write(STDERR_FILENO, text, (size_t)bytes);
    (void)written; /* a terminal that went away takes no progress either */
}

void progress_show(uint32_t done, uint32_t count)
{
    char line[160];
    uint64_t now;
    int n;
    if (!progress_on || (now = clock_now()) < progress_next) {
        return;
    }
    n = snprintf(line, sizeof line, "\r\033[K%s: %u of %u (%u %%)", progress_job, done, count,
                 (unsigned)((uint64_t)done * 100 / (count == 0 ? 1 : count)));
    progress_write(line, n < (int)sizeof line ? n : (int)sizeof line - 1);
    progress_drawn = 1;
    progress_next = now + PROGRESS_EVERY_NS;
}

void progress_end(void)
{
    if (progress_drawn) {
        progress_write("\r\033[K", 4);
    }
    progress_drawn = 0;
}
