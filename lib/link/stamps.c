#include "link/stamps.h"

#include <time.h>

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <solsend/error.h>

#include "base/clock.h"

enum { SEEN_SCHED = 1, SEEN_SND = 2, COLLECT_MAX = 32 };

/* CLOCK_REALTIME is slewed and stepped: the distance to our clock is taken anew so often. */
static const uint64_t offset_age_max_ns = 100 * CLOCK_NS_PER_MS;

/* A stamp that has not come after so long never will. */
static const uint64_t wait_max_ns = CLOCK_NS_PER_S;

int stamps_open(struct stamps *stamps, int fd)
{
    memset(stamps, 0, sizeof *stamps);
    memset(stamps->seen, SEEN_SCHED | SEEN_SND, sizeof stamps->seen);
    /* Without TX flags here, only packets that ask for it by control message are stamped. */
    uint32_t flags =
        SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) < 0) {
        return SOLSEND_ERR_NOT_SUPPORTED;
    }
    return 0;
}

/* Its stamps are there, or will not be waited for any longer. */
static void give_up_oldest(struct stamps *stamps)
{
    uint8_t *seen = &stamps->seen[stamps->oldest++ % STAMPS_PENDING];
    stamps->missing += !(*seen & SEEN_SND);
    *seen = SEEN_SCHED | SEEN_SND;
}

static void give_up_late(struct stamps *stamps, uint64_t now)
{
    while (stamps->oldest != stamps->next_id) {
        uint32_t i = stamps->oldest % STAMPS_PENDING;
        if (!(stamps->seen[i] & SEEN_SND) && now - stamps->enter_ns[i] < wait_max_ns) {
            return;
        }
        give_up_oldest(stamps);
    }
}

void stamps_sent(struct stamps *stamps, uint64_t enter_ns)
{
    if (stamps->next_id - stamps->oldest == STAMPS_PENDING) {
        give_up_oldest(stamps);
    }
    uint32_t i = stamps->next_id++ % STAMPS_PENDING;
    stamps->enter_ns[i] = enter_ns;
    stamps->seen[i] = 0;
}

static void refresh_offset(struct stamps *stamps, uint64_t now)
{
    if (stamps->offset_ns == 0 || now - stamps->offset_ns > offset_age_max_ns) {
        stamps->realtime_offset = clock_realtime_offset();
        stamps->offset_ns = now;
    }
}

static void take(struct stamps *stamps, struct solsend_histogram *sched,
                 struct solsend_histogram *snd, const struct sock_extended_err *error,
                 const struct scm_timestamping *stamp)
{
    uint32_t id = error->ee_data;
    if (stamps->next_id - id > STAMPS_PENDING || stamps->next_id == id) {
        return; /* older than what we remember */
    }
    uint32_t i = id % STAMPS_PENDING;
    uint64_t real = (uint64_t)stamp->ts[0].tv_sec * CLOCK_NS_PER_S + (uint64_t)stamp->ts[0].tv_nsec;
    uint64_t at = real - (uint64_t)stamps->realtime_offset;
    uint64_t ns = at > stamps->enter_ns[i] ? at - stamps->enter_ns[i] : 1;
    uint8_t bit = error->ee_info == SCM_TSTAMP_SCHED ? SEEN_SCHED : SEEN_SND;
    if (stamps->seen[i] & bit) {
        return;
    }
    stamps->seen[i] |= bit;
    histogram_record(bit == SEEN_SCHED ? sched : snd, ns);
}

/* One entry of the error queue. Returns 0 when there is none. */
static int collect_one(struct stamps *stamps, int fd, struct solsend_histogram *sched,
                       struct solsend_histogram *snd, uint64_t now)
{
    union {
        char space[512];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof control.space};
    if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
        return 0;
    }
    refresh_offset(stamps, now);
    struct sock_extended_err error = {0};
    struct scm_timestamping stamp;
    int has_stamp = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
            memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
            has_stamp = 1;
        } else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            memcpy(&error, CMSG_DATA(c), sizeof error);
        }
    }
    if (has_stamp && error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING) {
        take(stamps, sched, snd, &error, &stamp);
    }
    return 1;
}

void stamps_collect(struct stamps *stamps, int fd, struct solsend_histogram *sched,
                    struct solsend_histogram *snd, uint64_t now)
{
    for (int n = 0; n < COLLECT_MAX && collect_one(stamps, fd, sched, snd, now); n++) {
    }
    give_up_late(stamps, now);
}
