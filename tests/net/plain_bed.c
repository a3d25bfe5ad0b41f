#include "plain_bed.h"

#include "base/clock.h"

#include <time.h>

mock *plain_leader(const char *profile, const char *faults, const char *stakes, const char *script)
{
    mock *m;
    char why[256] = "";
    const mock_config config = {.profile = profile,
                                .listen = "127.0.0.1:0",
                                .faults = faults,
                                .stakes = stakes,
                                .script = script,
                                .cpu = -1,
                                .arrivals_max = 4096,
                                .seed = 11};
    if (mock_open(&m, &config, why, sizeof why) != 0) {
        fail_msg("mock: %s", why);
    }
    assert_int_equal(mock_start(m), 0);
    return m;
}

mock_counts plain_counts(const mock *m)
{
    mock_counts counts;
    mock_counts_get(m, &counts);
    return counts;
}

void plain_fault(mock *m, const char *faults)
{
    char why[256] = "";
    if (mock_fault(m, faults, why, sizeof why) != 0) {
        fail_msg("fault: %s", why);
    }
}

uint64_t plain_wait(const mock *m, size_t offset, uint64_t value)
{
    const struct timespec nap = {0, 1000000};
    uint64_t end = clock_now() + 2 * CLOCK_NS_PER_S;
    uint64_t now = 0;
    while (clock_now() < end) {
        mock_counts counts = plain_counts(m);
        memcpy(&now, (const char *)&counts + offset, sizeof now);
        if (now >= value) {
            break;
        }
        nanosleep(&nap, NULL);
    }
    return now;
}

void plain_admit(struct plain *p, const mock *m, const struct plain_options *options)
{
    assert_int_equal(plain_open(p, mock_port(m), options), 0);
    plain_until(p, &p->confirmed, 1, 3000);
    assert_true(plain_until_count(p, &p->granted, 1, 3000) > 0);
}

struct plain_options plain_from(uint8_t k)
{
    static char addresses[256][16];
    snprintf(addresses[k], sizeof addresses[k], "127.0.1.%u", k);
    return (struct plain_options){.bind = addresses[k], .seed = k};
}

void plain_transaction(uint8_t *out, size_t bytes, uint32_t serial)
{
    uint64_t state = serial * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        out[i] = (uint8_t)(state >> 56);
    }
    out[0] = 1;
}

void plain_burst(struct plain *p, uint32_t first, uint32_t count, size_t bytes)
{
    uint8_t tx[4096];
    for (uint32_t i = 0; i < count; i++) {
        plain_transaction(tx, bytes, first + i);
        for (int waits = 0; plain_streams_left(p) == 0 && waits < 3000; waits++) {
            plain_run(p, 1);
        }
        assert_true(plain_send(p, tx, bytes) >= 0);
        plain_run(p, 0);
    }
}
