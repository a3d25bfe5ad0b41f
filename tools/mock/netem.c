#include "mock/netem.h"

#include <stdlib.h>
#include <string.h>

#define HELD_MAX        65536u   /* packets in a direction; more are dropped, as by a router */
#define REORDER_HOLD_NS 1000000u /* a reordered one lets those of this time pass */

/* splitmix64: one state word, good enough to decide about packets. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int happens(uint64_t *state, double probability)
{
    return (double)(random_next(state) >> 11) * 0x1p-53 < probability;
}

void netem_open(struct netem *netem, uint64_t seed)
{
    memset(netem, 0, sizeof *netem);
    netem->queue[NETEM_IN].random = seed;
    netem->queue[NETEM_OUT].random = seed ^ UINT64_C(0x6f7574);
}

void netem_close(struct netem *netem)
{
    for (int d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < netem->queue[d].count; i++) {
            free(netem->queue[d].heap[i]);
        }
        free(netem->queue[d].heap);
    }
    memset(netem, 0, sizeof *netem);
}

static int earlier(const struct netem_packet *a, const struct netem_packet *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void push(struct netem_queue *q, struct netem_packet *packet)
{
    uint32_t at = q->count++;
    while (at > 0 && earlier(packet, q->heap[(at - 1) / 2])) {
        q->heap[at] = q->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    q->heap[at] = packet;
}

static struct netem_packet *pop(struct netem_queue *q)
{
    struct netem_packet *first = q->heap[0];
    struct netem_packet *last = q->heap[--q->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = at * 2 + 1;
        if (child >= q->count) {
            break;
        }
        if (child + 1 < q->count && earlier(q->heap[child + 1], q->heap[child])) {
            child++;
        }
        if (!earlier(q->heap[child], last)) {
            break;
        }
        q->heap[at] = q->heap[child];
        at = child;
    }
    q->heap[at] = last;
    return first;
}

static int reserve(struct netem_queue *q)
{
    if (q->count >= HELD_MAX) {
        return -1;
    }
    if (q->count < q->capacity) {
        return 0;
    }
    uint32_t capacity = q->capacity == 0 ? 64 : q->capacity * 2;
    struct netem_packet **heap = realloc(q->heap, capacity * sizeof *heap);
    if (heap == NULL) {
        return -1;
    }
    q->heap = heap;
    q->capacity = capacity;
    return 0;
}

static int hold(struct netem_queue *q, const struct sockname *peer, const uint8_t *data,
                size_t bytes, uint64_t due_ns)
{
    struct netem_packet *packet = reserve(q) != 0 ? NULL : malloc(sizeof *packet + bytes);
    if (packet == NULL) {
        return NETEM_DROPPED;
    }
    packet->due_ns = due_ns;
    packet->order = q->orders++;
    packet->peer = *peer;
    packet->bytes = bytes;
    memcpy(packet->data, data, bytes);
    push(q, packet);
    return NETEM_HELD;
}

int netem_offer(struct netem *netem, const struct fault *fault, int direction,
                const struct sockname *peer, const uint8_t *data, size_t bytes, uint64_t now_ns)
{
    struct netem_queue *q = &netem->queue[direction];
    double loss = direction == NETEM_IN ? fault->loss_in : fault->loss_out;
    uint64_t delay = fault->rtt_ns / 2;
    if (fault->mtu != 0 && bytes > fault->mtu) {
        return NETEM_DROPPED;
    }
    if (loss > 0 || fault->reorder > 0 || fault->duplicate > 0) {
        /* Always three draws, so that one fault does not shift another's sequence. */
        int lost = happens(&q->random, loss);
        int late = happens(&q->random, fault->reorder);
        int twice = happens(&q->random, fault->duplicate);
        if (lost) {
            return NETEM_DROPPED;
        }
        delay += late ? REORDER_HOLD_NS : 0;
        if (twice) {
            (void)hold(q, peer, data, bytes, now_ns + delay);
        }
    }
    return delay == 0 ? NETEM_PASS : hold(q, peer, data, bytes, now_ns + delay);
}

uint64_t netem_next(const struct netem *netem)
{
    uint64_t next = UINT64_MAX;
    for (int d = 0; d < 2; d++) {
        const struct netem_queue *q = &netem->queue[d];
        if (q->count > 0 && q->heap[0]->due_ns < next) {
            next = q->heap[0]->due_ns;
        }
    }
    return next;
}

struct netem_packet *netem_take(struct netem *netem, int direction, uint64_t now_ns)
{
    struct netem_queue *q = &netem->queue[direction];
    return q->count > 0 && q->heap[0]->due_ns <= now_ns ? pop(q) : NULL;
}
