/* One send seen by callgrind: which features were on, and what they cost in instructions. */
#ifndef PROFILE_H
#define PROFILE_H

#include "callgrind.h"
#include "suite.h"

#define PROFILE_SENDS 400u

/* What a user has on: a deadline, events, a keep-hot shadow. */
#define PROFILE_EVERYTHING "deadline events shadow"

/* 1 when valgrind can run here; else 0 and the reason. */
int profile_available(char *why, size_t why_bytes);

/*
 * Runs the instructions program under callgrind with `features`, words separated by spaces. Returns
 * 0, or -1 with one line in `why`.
 */
int profile_send(struct suite *s, uint32_t bytes, const char *features, struct callgrind *out,
                 char *why, size_t why_bytes);

/* Instructions a send in our own objects: neither ngtcp2, GnuTLS, libsodium nor libc. */
double profile_own(const struct callgrind *c);

/* 1 if the function is ours. */
int profile_is_own(const struct callgrind_function *f);

#endif
