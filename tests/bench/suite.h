/* What the row groups of the performance suite share. */
#ifndef SUITE_H
#define SUITE_H

#include <stdint.h>
#include <stdio.h>

#include <solsend/key.h>

#include "bench/pace.h"
#include "bench/receiver.h"
#include "bench/run.h"
#include "bench/sender.h"
#include "bench/wires.h"

#define SUITE_ROWS_MAX 64

/* One line of the table. A number that does not exist is NAN. */
struct suite_row {
    char name[100];
    double measured, target, must;
    char note[200]; /* what stands beside the number: ns, the spread of rounds, why there is none */
};

struct suite {
    int quick;  /* a smoke run: few repetitions, nothing asserted on time */
    int budget; /* print the budget table instead of the rows */
    int cpu, peer_cpu;
    uint64_t seed, order;
    solsend_key *key;
    uint8_t secret[32], public_key[32]; /* the same identity, for bare */
    char programs[400];                 /* the directory of this program */
    struct wires small, large;          /* 250 and 1232 bytes */
    struct pace_stamps stamps;          /* SUITE_WIRES long */
    double send_ns[2][3]; /* medians of 250 and 1232 bytes: ours, bare, raw; see row_send */
    struct suite_row rows[SUITE_ROWS_MAX];
    uint32_t row_count;
    uint32_t failures; /* of correctness: something lost, refused or allocated */
};

/* Distinct transactions of each size, and the longest run. */
#define SUITE_WIRES 20000u

/* Of a link, unless a row says otherwise. */
#define SUITE_SLOTS 1024u

/* Prints a row and keeps it. `target` and `must` NAN: the number is only shown. */
void suite_row(struct suite *s, const char *name, double measured, double target, double must,
               const char *note, ...) __attribute__((format(printf, 6, 7)));

/* A row that could not be measured, with the reason. */
void suite_row_missing(struct suite *s, const char *name, double target, double must,
                       const char *why);

/* Something is wrong whatever the time: counted, printed, and the suite's exit status is 1. */
void suite_fail(struct suite *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The transactions of `bytes` bytes. */
const struct wires *suite_wires(const struct suite *s, uint32_t bytes);

/* A mock: "udp" or a leader profile in which this suite's identity has all the stake. */
int suite_receiver(struct suite *s, struct receiver *r, const char *profile, const char *faults);

/*
 * Senders against a receiver: "raw", "bare", or a link, "quic" or "udp". `options` may be null.
 * Each fails the suite itself and then returns null.
 */
struct sender *suite_raw(struct suite *s, const struct receiver *r);
struct sender *suite_bare(struct suite *s, const struct receiver *r, uint32_t first_flight_bytes);
struct sender *suite_link(struct suite *s, const struct receiver *r,
                          const solsend_link_options *options);
void suite_close(struct sender *sender);

/*
 * Fills every slot of a sender several times over: ngtcp2's object pools have then grown to the
 * largest burst, as the link's documentation says. Returns 0 or a code.
 */
int suite_warm(struct suite *s, struct sender *sender);

/* The options a sender of this suite starts from: the suite's identity, many slots. */
void suite_link_options(struct suite *s, solsend_link_options *options);

/* Median, and the middle half of the values as text for a note. Sorts them. */
double suite_median(double *values, uint32_t count, char *spread, size_t spread_bytes);

/* The row groups, in the order of the table. */
void row_send(struct suite *s);
void row_instructions(struct suite *s);
void row_idle(struct suite *s);
void row_flight(struct suite *s);
void row_million(struct suite *s);
void row_throughput(struct suite *s);
void row_heap(struct suite *s);
void row_loss(struct suite *s);

/* The budget table: instructions and time of a send, part by part. */
void budget_print(struct suite *s, FILE *out);

#endif
