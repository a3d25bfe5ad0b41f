/* What the mock's own tests share: a mock with its faults, naive clients, made-up transactions. */
#ifndef PLAIN_BED_H
#define PLAIN_BED_H

#include "check.h"

#include "mock/mock.h"

#include "plain_client.h"

/* Opens and starts; null: none. Fails the test with the mock's words when it cannot. */
mock *plain_leader(const char *profile, const char *faults, const char *stakes, const char *script);

mock_counts plain_counts(const mock *m);
void plain_fault(mock *m, const char *faults);

/* Waits up to 2 s for one count to reach `value`; returns it. `offset` is offsetof(mock_counts, …).
 */
uint64_t plain_wait(const mock *m, size_t offset, uint64_t value);
#define PLAIN_WAIT(m, member, value) plain_wait((m), offsetof(mock_counts, member), (value))

/* Opens a client and waits until it has stream credit. */
void plain_admit(struct plain *p, const mock *m, const struct plain_options *options);

/* Options that differ by source address 127.0.1.k and identity k. */
struct plain_options plain_from(uint8_t k);

/* Bytes with a signature of their own: as much of a transaction as the mock looks at. */
void plain_transaction(uint8_t *out, size_t bytes, uint32_t serial);

/* Sends `count` of them, one by one. */
void plain_burst(struct plain *p, uint32_t first, uint32_t count, size_t bytes);

#endif
