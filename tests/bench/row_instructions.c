/* Our own instructions a send: the number that repeats to the digit on every machine of a kind. */
#include <math.h>

#include "profile.h"
#include "suite.h"

static void row_instructions_size(struct suite *s, uint32_t bytes)
{
    struct callgrind c;
    char name[100], why[300];
    snprintf(name, sizeof name, "own instructions a send, everything on, %u B", bytes);
    if (!profile_available(why, sizeof why)) {
        suite_row_missing(s, name, 400, 700, why);
        return;
    }
    if (profile_send(s, bytes, PROFILE_EVERYTHING, &c, why, sizeof why) != 0) {
        suite_fail(s, "callgrind: %s", why);
        suite_row_missing(s, name, 400, 700, why);
        return;
    }
    suite_row(s, name, profile_own(&c), 400, 700,
              "beside them ngtcp2 %.0f, GnuTLS and nettle %.0f, libc %.0f",
              (double)callgrind_object(&c, "libngtcp2") / PROFILE_SENDS,
              (double)(callgrind_object(&c, "libgnutls") + callgrind_object(&c, "libnettle")) /
                  PROFILE_SENDS,
              (double)callgrind_object(&c, "libc.so") / PROFILE_SENDS);
    callgrind_free(&c);
}

void row_instructions(struct suite *s)
{
    row_instructions_size(s, 250);
    row_instructions_size(s, 1232);
}
