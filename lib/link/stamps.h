/*
 * Kernel transmit stamps of sampled packets: when a packet reached the queueing discipline (SCHED)
 * and the device (SND). Read from the socket's error queue, off the hot path; some devices accept
 * the option and never deliver, so what is missing is counted, not waited for.
 */
#ifndef LINK_STAMPS_H
#define LINK_STAMPS_H

#include <stdint.h>

#include "stats/histogram.h"

enum { STAMPS_PENDING = 64 };

struct stamps {
    uint64_t enter_ns[STAMPS_PENDING]; /* by the socket's stamp id, modulo */
    uint8_t seen[STAMPS_PENDING];      /* bits: 1 SCHED, 2 SND */
    uint32_t next_id;
    uint32_t oldest; /* the first id whose stamps may still come */
    uint64_t missing;
    int64_t realtime_offset;
    uint64_t offset_ns; /* when realtime_offset was taken */
};

/* Turns stamping on for a socket. Returns 0 or NOT_SUPPORTED. */
int stamps_open(struct stamps *stamps, int fd);

/* A stamped packet was sent; its system call began at `enter_ns`. */
void stamps_sent(struct stamps *stamps, uint64_t enter_ns);

/* Drains the error queue into the two histograms, at most 32 stamps. */
void stamps_collect(struct stamps *stamps, int fd, struct solsend_histogram *sched,
                    struct solsend_histogram *snd, uint64_t now);

#endif
