/*
 * Outgoing datagrams of one connected socket: send them, keep what the socket would not take, and
 * tell lost from kept.
 *
 * A packet is written into the buffer that outbox_space returns, then pushed. While something the
 * socket refused is kept there is no space: a QUIC packet that was encrypted cannot be taken back.
 */
#ifndef LINK_OUTBOX_H
#define LINK_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

enum {
    OUTBOX_ROOM_PACKETS = 5, /* of the smallest allowed size, for 4096 bytes and one of control */
    OUTBOX_PACKET_BYTES = 1472
};

enum { OUTBOX_BYTES = 64512, OUTBOX_PACKETS_MAX = 64, OUTBOX_SEGMENTS_MIN = 4 };

/* What became of a pushed packet. */
enum outbox_result {
    OUTBOX_SENT = 1,  /* the socket took it */
    OUTBOX_KEPT = 0,  /* kept here, in order; outbox_flush sends it */
    OUTBOX_LOST = -1, /* the kernel refused it for good: EPERM, EHOSTUNREACH, … */
    OUTBOX_BIG = -2   /* EMSGSIZE: larger than the path the kernel knows */
};

struct outbox_counts {
    uint64_t datagrams;
    uint64_t bytes;
    uint64_t calls;
    uint64_t segmented;
    uint64_t segment_failures;
    uint64_t full;
    uint64_t icmp;
    uint64_t too_big;
    uint64_t netfilter;
    uint64_t failures;
};

struct outbox {
    int fd;
    uint32_t used;       /* bytes in buffer, sent ones included */
    uint32_t done;       /* of those, already sent */
    uint32_t count;      /* packets in buffer, sent ones included */
    uint32_t next;       /* the first of them that is not sent */
    uint32_t gathering;  /* packets are kept until outbox_flush */
    uint32_t segment_ok; /* GSO allowed and not refused by the kernel so far */
    uint32_t sample;     /* the next push asks for kernel stamps and takes its own */
    uint32_t path_news;  /* EMSGSIZE came: the kernel may know a smaller path now */
    int last_errno;      /* of the newest failure, 0: none yet */
    uint64_t enter_ns;   /* of the newest sampled push: before and after its system call */
    uint64_t leave_ns;
    uint8_t *buffer;     /* OUTBOX_BYTES, the owner's */
    uint64_t settled_ns; /* when what `settled` tells of happened */
    uint64_t forgotten;  /* bits of kept packets that are not to be sent */
    uint16_t lengths[OUTBOX_PACKETS_MAX];
    const void *owners[OUTBOX_PACKETS_MAX]; /* null: nobody asks what becomes of the packet */
    /* told of every kept packet with an owner, when it leaves: SENT, LOST or BIG */
    void (*settled)(void *user, const void *owner, enum outbox_result result, uint32_t bytes);
    void *user;
    struct outbox_counts counts;
};

void outbox_open(struct outbox *box, int fd, uint8_t *buffer, int segment_ok);

/* Where to write the next packet of at most `bytes`; null while something is kept. */
static inline uint8_t *outbox_space(struct outbox *box, uint32_t bytes)
{
    if (box->used == 0) {
        return box->buffer;
    }
    int room =
        box->gathering && box->count < OUTBOX_PACKETS_MAX && box->used + bytes <= OUTBOX_BYTES;
    return room ? box->buffer + box->used : NULL;
}

/* 1 if a largest transaction's packets can still be gathered. */
static inline int outbox_has_room(const struct outbox *box)
{
    return box->count + OUTBOX_ROOM_PACKETS <= OUTBOX_PACKETS_MAX &&
           box->used + OUTBOX_ROOM_PACKETS * OUTBOX_PACKET_BYTES <= OUTBOX_BYTES;
}

/* 1 if packets wait for the socket. */
static inline int outbox_is_blocked(const struct outbox *box)
{
    return box->used != 0 && !box->gathering;
}

/* Sends, or while gathering keeps, the `bytes` written at outbox_space. */
enum outbox_result outbox_push(struct outbox *box, uint32_t bytes);

/*
 * Takes the way of a send through the socket without sending anything (MSG_PROBE): its route and
 * memory stay in caches. Returns 1 if the kernel took it.
 */
int outbox_probe(struct outbox *box);

/* Sends `bytes` at `data` without keeping anything: KEPT means the socket is full. */
enum outbox_result outbox_send(struct outbox *box, const void *data, uint32_t bytes);

/*
 * The same, asking the kernel to stamp it (SO_TIMESTAMPING must be set on the socket), between two
 * readings of the clock in enter_ns and leave_ns. Clears `sample`.
 */
enum outbox_result outbox_send_stamped(struct outbox *box, const void *data, uint32_t bytes);

/* From now on packets are gathered, so that equal ones can leave in one system call. */
static inline void outbox_gather(struct outbox *box)
{
    box->gathering = box->used == 0;
}

/* The packet that was just kept is `owner`'s: `settled` will tell what became of it. */
static inline void outbox_claim(struct outbox *box, const void *owner)
{
    box->owners[box->count - 1] = owner;
}

/* 1 if a packet of this owner is kept. */
int outbox_holds(const struct outbox *box, const void *owner);

/* The owner's kept packets will not be sent, nor settled. */
void outbox_forget(struct outbox *box, const void *owner);

/*
 * Sends what is kept and ends gathering. Returns SENT when nothing is left, KEPT when the socket is
 * full, LOST or BIG when at least one packet was given up (the rest was handled).
 */
enum outbox_result outbox_flush(struct outbox *box);

#endif
