/* The stake table as text: "PUBKEY=LAMPORTS,…" or "file:PATH" with one pair a line. */
#ifndef MOCK_STAKES_H
#define MOCK_STAKES_H

#include "mock/admission.h"

/* Returns 0, or -1 with one line in `why`. */
int stakes_read(struct admission *admission, const char *source, char *why, size_t why_bytes);

#endif
