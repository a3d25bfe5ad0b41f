/*
 * The way between the peers, in user space: delay, loss, reordering, duplication and a size limit,
 * in both directions. The same seed drops the same datagrams of a direction.
 */
#ifndef MOCK_NETEM_H
#define MOCK_NETEM_H

#include "mock/fault.h"
#include "mock/sockname.h"

enum { NETEM_IN = 0, NETEM_OUT = 1 };
enum { NETEM_PASS, NETEM_HELD, NETEM_DROPPED };

struct netem_packet {
    uint64_t due_ns;
    uint64_t order;
    struct sockname peer;
    size_t bytes;
    uint8_t data[];
};

struct netem_queue {
    struct netem_packet **heap;
    uint32_t count;
    uint32_t capacity;
    uint64_t random;
    uint64_t orders;
};

struct netem {
    struct netem_queue queue[2];
};

void netem_open(struct netem *netem, uint64_t seed);
void netem_close(struct netem *netem);

/*
 * Decides on one datagram: PASS (the caller goes on with it now; a copy may have been queued),
 * HELD (copied, comes back by netem_take) or DROPPED.
 */
int netem_offer(struct netem *netem, const struct fault *fault, int direction,
                const struct sockname *peer, const uint8_t *data, size_t bytes, uint64_t now_ns);

/* When the next one is due, or UINT64_MAX. */
uint64_t netem_next(const struct netem *netem);

/* Takes the first one that is due; the caller frees it with free(). Null: none. */
struct netem_packet *netem_take(struct netem *netem, int direction, uint64_t now_ns);

#endif
