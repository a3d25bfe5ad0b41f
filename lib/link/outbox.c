#include "link/outbox.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* "Do not send. Only probe path" (Linux include/linux/socket.h); UDP then stops short of the
 * packet. */
#define OUTBOX_MSG_PROBE 0x10

/* A send may report the ICMP errors of earlier packets first; so many are passed over. */
enum { ICMP_RETRIES = 3 };

void outbox_open(struct outbox *box, int fd, uint8_t *buffer, int segment_ok)
{
    memset(box, 0, sizeof *box);
    box->fd = fd;
    box->buffer = buffer;
    box->segment_ok = segment_ok != 0;
}

static int is_earlier_icmp(int error)
{
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENOPROTOOPT || error == EPROTO;
}

/* How often one packet is tried again. */
struct patience {
    int icmp;
    int size; /* EMSGSIZE too may be a router's word on an earlier, larger packet */
};

static const struct patience fresh = {ICMP_RETRIES, 1};

/* Sorts one errno of a single packet. 0: try again at once. */
static int judge(struct outbox *box, int error, struct patience *left)
{
    box->last_errno = error;
    if (error == EINTR) {
        return 0;
    }
    if (is_earlier_icmp(error)) {
        box->counts.icmp++;
        if (left->icmp-- > 0) {
            return 0;
        }
        return OUTBOX_LOST;
    }
    if (error == EMSGSIZE && left->size-- > 0) {
        box->path_news = 1;
        return 0;
    }
    switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
        box->counts.full++;
        return 1; /* kept */
    case EMSGSIZE:
        box->counts.too_big++;
        return OUTBOX_BIG;
    case EPERM:
        box->counts.netfilter++;
        return OUTBOX_LOST;
    default:
        box->counts.failures++;
        return OUTBOX_LOST;
    }
}

static enum outbox_result after_failure(int verdict)
{
    return verdict == 1 ? OUTBOX_KEPT : (enum outbox_result)verdict;
}

static void count_sent(struct outbox *box, uint64_t bytes, uint64_t datagrams)
{
    box->counts.datagrams += datagrams;
    box->counts.bytes += bytes;
}

/* The kernel refused a packet with `error`: pass over earlier ICMP errors, or say what it means. */
static __attribute__((noinline, cold)) enum outbox_result
send_again(struct outbox *box, const void *data, uint32_t bytes, int error)
{
    for (struct patience left = fresh;;) {
        int verdict = judge(box, error, &left);
        if (verdict != 0) {
            return after_failure(verdict);
        }
        box->counts.calls++;
        if (send(box->fd, data, bytes, MSG_NOSIGNAL) >= 0) {
            count_sent(box, bytes, 1);
            return OUTBOX_SENT;
        }
        error = errno;
    }
}

enum outbox_result outbox_send(struct outbox *box, const void *data, uint32_t bytes)
{
    box->counts.calls++;
    if (__builtin_expect(send(box->fd, data, bytes, MSG_NOSIGNAL) < 0, 0)) {
        return send_again(box, data, bytes, errno);
    }
    count_sent(box, bytes, 1);
    return OUTBOX_SENT;
}

enum outbox_result outbox_send_stamped(struct outbox *box, const void *data, uint32_t bytes)
{
    union {
        char space[CMSG_SPACE(sizeof(uint32_t))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec iov = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.space,
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    uint32_t flags = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_SCHED;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SO_TIMESTAMPING;
    c->cmsg_len = CMSG_LEN(sizeof flags);
    memcpy(CMSG_DATA(c), &flags, sizeof flags);

    box->sample = 0;
    for (struct patience left = fresh;;) {
        box->counts.calls++;
        box->enter_ns = clock_now();
        ssize_t n = sendmsg(box->fd, &message, MSG_NOSIGNAL);
        int error = errno;
        box->leave_ns = clock_now();
        if (n >= 0) {
            count_sent(box, bytes, 1);
            return OUTBOX_SENT;
        }
        int verdict = judge(box, error, &left);
        if (verdict != 0) {
            box->enter_ns = 0; /* no sample: the kernel gave it no stamp and no number */
            return after_failure(verdict);
        }
    }
}

int outbox_probe(struct outbox *box)
{
    enum { PROBE_BYTES = 256 };
    if (send(box->fd, box->buffer, PROBE_BYTES, OUTBOX_MSG_PROBE | MSG_NOSIGNAL) >= 0) {
        return 1;
    }
    if (is_earlier_icmp(errno)) {
        box->counts.icmp++;
        box->last_errno = errno;
    }
    return 0;
}

static void empty(struct outbox *box)
{
    box->used = box->done = box->count = box->next = 0;
    box->forgotten = 0;
}

static int is_forgotten(const struct outbox *box, uint32_t packet)
{
    return (int)(box->forgotten >> packet & 1);
}

int outbox_holds(const struct outbox *box, const void *owner)
{
    for (uint32_t i = box->next; i < box->count; i++) {
        if (box->owners[i] == owner) {
            return 1;
        }
    }
    return 0;
}

void outbox_forget(struct outbox *box, const void *owner)
{
    int wanted = 0;
    for (uint32_t i = box->next; i < box->count; i++) {
        if (box->owners[i] == owner) {
            box->owners[i] = NULL;
            box->forgotten |= UINT64_C(1) << i;
        }
        wanted |= !is_forgotten(box, i);
    }
    if (!wanted) {
        empty(box);
    }
}

/* Keeps the packet just written, for outbox_flush. */
static enum outbox_result keep(struct outbox *box, uint32_t bytes)
{
    box->owners[box->count] = NULL;
    box->lengths[box->count++] = (uint16_t)bytes;
    box->used += bytes;
    return OUTBOX_KEPT;
}

enum outbox_result outbox_push(struct outbox *box, uint32_t bytes)
{
    if (box->gathering) {
        return keep(box, bytes);
    }
    enum outbox_result r = __builtin_expect(box->sample, 0)
                               ? outbox_send_stamped(box, box->buffer, bytes)
                               : outbox_send(box, box->buffer, bytes);
    return __builtin_expect(r == OUTBOX_KEPT, 0) ? keep(box, bytes) : r;
}

/* How many packets from `next` on can share a GSO send: equal ones, then at most one shorter. */
static uint32_t equal_run(const struct outbox *box)
{
    uint16_t first = box->lengths[box->next];
    uint32_t i = box->next + 1;
    while (i < box->count && box->lengths[i] == first && !is_forgotten(box, i)) {
        i++;
    }
    if (i < box->count && box->lengths[i] < first && !is_forgotten(box, i)) {
        i++;
    }
    return i - box->next;
}

/* One system call for a run. Returns SENT, KEPT, or LOST when this kernel or device refuses GSO. */
static enum outbox_result send_segmented(struct outbox *box, uint32_t packets, uint32_t bytes)
{
    union {
        char space[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec iov = {box->buffer + box->done, bytes};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.space,
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof box->lengths[0]);
    memcpy(CMSG_DATA(c), &box->lengths[box->next], sizeof box->lengths[0]);

    for (struct patience left = fresh;;) {
        box->counts.calls++;
        if (sendmsg(box->fd, &message, MSG_NOSIGNAL) >= 0) {
            count_sent(box, bytes, packets);
            box->counts.segmented++;
            return OUTBOX_SENT;
        }
        box->last_errno = errno;
        if (errno == EINTR) {
            continue;
        }
        if (is_earlier_icmp(errno) && left.icmp-- > 0) {
            box->counts.icmp++;
            continue;
        }
        if (errno == EMSGSIZE && left.size-- > 0) {
            box->path_news = 1;
            continue;
        }
        if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
            box->counts.full++;
            return OUTBOX_KEPT;
        }
        /* EIO, EINVAL, EOPNOTSUPP, EMSGSIZE: no segments here. EPERM is a packet filter's word */
        box->counts.segment_failures += errno != EPERM;
        return OUTBOX_LOST;
    }
}

static uint32_t sum_lengths(const struct outbox *box, uint32_t packets)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < packets; i++) {
        bytes += box->lengths[box->next + i];
    }
    return bytes;
}

/* The next `packets` have left, or never will. */
static void settle(struct outbox *box, uint32_t packets, enum outbox_result result)
{
    box->settled_ns = clock_now();
    for (; packets > 0; packets--) {
        uint32_t i = box->next++;
        const void *owner = box->owners[i];
        box->done += box->lengths[i];
        if (owner != NULL) {
            box->settled(box->user, owner, result, box->lengths[i]);
        }
    }
}

enum outbox_result outbox_flush(struct outbox *box)
{
    enum outbox_result worst = OUTBOX_SENT;
    uint32_t singles = 0; /* so many go one by one: together a filter refused them */
    box->gathering = 0;
    while (box->next < box->count) {
        if (is_forgotten(box, box->next)) {
            settle(box, 1, OUTBOX_LOST);
            continue;
        }
        uint32_t packets = box->segment_ok && singles == 0 ? equal_run(box) : 1;
        enum outbox_result r;
        if (packets >= OUTBOX_SEGMENTS_MIN) {
            r = send_segmented(box, packets, sum_lengths(box, packets));
            if (r == OUTBOX_LOST) {
                box->segment_ok = box->last_errno == EPERM;
                singles = packets;
                continue;
            }
        } else {
            packets = 1;
            singles -= singles > 0;
            r = outbox_send(box, box->buffer + box->done, box->lengths[box->next]);
        }
        if (r == OUTBOX_KEPT) {
            return r;
        }
        if (r != OUTBOX_SENT) {
            worst = r;
        }
        settle(box, packets, r);
    }
    empty(box);
    return worst;
}
