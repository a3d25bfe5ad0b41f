/*
 * Finding the transaction that a repeating packet cuts in two.
 *
 * ngtcp2 fills packets with lost stream data back to back and cuts the last piece where the packet
 * is full; its rest goes behind everything else that is lost. Firedancer neither takes nor
 * acknowledges a packet with a fragment whose beginning it lacks (src/disco/quic/fd_tpu.h), so
 * after a few losses in a row such rests are refused and repeated ever more rarely. There a cut
 * transaction rather starts anew on a stream of its own. When the loss was none it arrives twice;
 * leaders know a duplicate by its signature.
 */
#ifndef LINK_REPEAT_H
#define LINK_REPEAT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Looks through the frames of a 1-RTT packet of ours. Returns the ID of the last stream whose frame
 * in it has no FIN, or -1 when there is none.
 */
int64_t repeat_find_cut(const uint8_t *payload, size_t bytes);

#endif
