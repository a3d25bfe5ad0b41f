/* The parts of the transmit stamp probe, apart so that silence can be tested too. */
#ifndef HOST_STAMPS_PROBE_H
#define HOST_STAMPS_PROBE_H

#include <stdint.h>

#include <solsend/host.h>

/* Kinds of stamps seen, as a mask. */
enum { HOST_STAMPS_SCHED = 1, HOST_STAMPS_SOFTWARE = 2 };

/*
 * Reads the error queue until both kinds have come or `wait_ns` has passed; leaves it empty.
 * Returns the mask of kinds that carried a time.
 */
uint32_t host_stamps_probe_collect(int fd, uint64_t wait_ns);

/* Fills TX_STAMPS from the kinds seen and returns its code. */
int host_stamps_probe_fill(solsend_step *step, uint32_t kinds);

#endif
