/* The test bed of the network tests: a mock leader in a thread, one link to it, signed
 * transactions, and events counted by kind. */
#ifndef BED_H
#define BED_H

#include "check.h"

#include <solsend/solsend.h>

#include "mock.h"

enum { BED_EVENTS_MAX = 4096, BED_KINDS = 64 };

struct bed {
    mock *leader;
    solsend_link *link;
    solsend_key *identity;
    solsend_link_options options; /* change them between bed_open and bed_connect */
    solsend_detail detail;
    char uri[128];
    uint32_t serial;          /* makes every transaction different */
    uint64_t seen[BED_KINDS]; /* events by kind */
    solsend_event last[BED_KINDS];
    solsend_event log[BED_EVENTS_MAX]; /* in order; later ones are only counted */
    uint32_t logged;
};

/* Starts a mock with these faults (null: none) that relaxes what tests must not run into. */
void bed_open(struct bed *bed, const char *profile, const char *faults);

/* The same with the leader's limits as they are in life. */
void bed_open_strict(struct bed *bed, const char *profile, const char *faults);

/* bed_open at an address of this host, "[::1]:0". Returns 0, or -1 when it cannot be bound. */
int bed_open_at(struct bed *bed, const char *profile, const char *faults, const char *listen);

/* Changes the leader's faults while it runs. */
void bed_fault(struct bed *bed, const char *faults);

/* Opens the link, does not wait. Fails the test if it cannot. */
void bed_connect(struct bed *bed);

/* bed_connect, then waits for admission. */
void bed_admit(struct bed *bed);

/* Closes link, key and mock. */
void bed_close(struct bed *bed);

/* Builds the next distinct transaction of exactly `bytes` into `out`. */
void bed_transaction(struct bed *bed, uint8_t *out, uint32_t bytes);

/* The same in the version 1 layout: 108 to 4096 bytes, signature at the end, not signed for real.
 */
void bed_transaction_v1(struct bed *bed, uint8_t *out, uint32_t bytes);

/* Fills `send` with the next distinct transaction of exactly `bytes`, written to `wire`. */
void bed_prepare(struct bed *bed, solsend_send *send, uint8_t *wire, uint32_t bytes);

/* Polls once, drains, and sleeps at most half a millisecond. Returns what the poll returned. */
int bed_step(struct bed *bed);

/* Sends one of `bytes` with a deadline so many ms ahead (0: none). Returns as solsend_link_send. */
int bed_send(struct bed *bed, uint32_t bytes, uint32_t deadline_ms, uint64_t user);

/* Polls and drains for so long. Returns the last poll's result. */
int bed_run(struct bed *bed, uint32_t ms);

/* Polls and drains until `kind` was seen `count` times, or fails the test after `ms`. */
void bed_until(struct bed *bed, uint32_t kind, uint64_t count, uint32_t ms);

/* Polls and drains until the link has ended; returns how. Fails the test after `ms`. */
int bed_until_end(struct bed *bed, uint32_t ms);

/* Drains what there is. */
void bed_drain(struct bed *bed);

solsend_link_stats bed_stats(const struct bed *bed);
solsend_link_info bed_info(const struct bed *bed);
mock_counts bed_counts(const struct bed *bed);

/* The leader's report, as JSON text. */
void bed_report(const struct bed *bed, char *out, size_t out_bytes);

/* Every accepted transaction has exactly one terminal event, drained, and nothing after it. */
void bed_assert_accounted(struct bed *bed);

#endif
