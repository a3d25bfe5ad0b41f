/* The report: one JSON object. */
#ifndef MOCK_REPORT_H
#define MOCK_REPORT_H

#include "mock/server.h"

struct report {
    const struct profile *profile;
    const struct server *server; /* null on UDP */
    const uint8_t *identity;
    const char *uri;
    mock_counts counts;
    uint64_t age_ns;
};

void report_write(const struct report *report, FILE *out);

#endif
