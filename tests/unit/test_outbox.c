/* Real datagrams over loopback, with faults. */
#include "faults.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "link/outbox.h"

/* ---- a pair of sockets ----------------------------------------------------------------------- */

struct bed {
    int receiver;
    int sender;
    uint32_t sent;     /* number of the next packet */
    uint32_t expected; /* number of the next packet to arrive */
    struct outbox box;
    uint8_t buffer[OUTBOX_BYTES];
};

static struct bed bed;

static int set_up(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int room = 1 << 20;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(&faults, 0, sizeof faults);
    memset(&bed, 0, sizeof bed);
    bed.receiver = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bed.sender = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(bed.receiver, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bed.receiver < 0 || bed.sender < 0 ||
        bind(bed.receiver, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(bed.receiver, (struct sockaddr *)&address, &bytes) != 0 ||
        connect(bed.sender, (struct sockaddr *)&address, bytes) != 0) {
        return -1;
    }
    outbox_open(&bed.box, bed.sender, bed.buffer, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(bed.receiver);
    close(bed.sender);
    return 0;
}

/* Packet contents follow from number and length, so that any mix-up shows. */
static uint8_t content(uint32_t number, uint32_t bytes, uint32_t at)
{
    return at < 4 ? (uint8_t)(number >> (8 * at)) : (uint8_t)(number * 31 + bytes * 7 + at);
}

static enum outbox_result push(uint32_t bytes)
{
    uint8_t *space = outbox_space(&bed.box, bytes);
    assert_non_null(space);
    for (uint32_t i = 0; i < bytes; i++) {
        space[i] = content(bed.sent, bytes, i);
    }
    bed.sent++;
    return outbox_push(&bed.box, bytes);
}

/* Takes the next datagram, which must be the next number, whole. Returns its length or 0. */
static uint32_t arrived(void)
{
    uint8_t data[2048];
    ssize_t n = recv(bed.receiver, data, sizeof data, 0);
    if (n < 0) {
        return 0;
    }
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        if (data[i] != content(bed.expected, (uint32_t)n, i)) {
            fail_msg("packet %u of %zd bytes differs at byte %u", bed.expected, n, i);
        }
    }
    bed.expected++;
    return (uint32_t)n;
}

static void all_arrived(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_not_equal(arrived(), 0);
    }
    assert_int_equal(arrived(), 0);
}

static void box_is_empty(void)
{
    assert_false(outbox_is_blocked(&bed.box));
    assert_ptr_equal(outbox_space(&bed.box, 1472), bed.buffer);
}

/* Does this kernel send segments at all? Asked without the box. */
static int has_segments(void)
{
    static int known = -1;
    if (known < 0) {
        int off = 0, size = 100;
        known = setsockopt(bed.sender, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) == 0;
        setsockopt(bed.sender, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof off);
    }
    return known;
}

#define NEED_SEGMENTS()                                                                            \
    if (!has_segments()) {                                                                         \
        SKIP_TEST("this kernel sends no segments");                                                \
    }

/* ---- one packet ------------------------------------------------------------------------------ */

static void a_packet_is_sent_at_once(void **state)
{
    (void)state;
    assert_int_equal(push(1200), OUTBOX_SENT);
    box_is_empty();
    assert_int_equal(arrived(), 1200);
    assert_int_equal(bed.box.counts.calls, 1);
    assert_int_equal(bed.box.counts.datagrams, 1);
    assert_int_equal(bed.box.counts.bytes, 1200);
    assert_int_equal(bed.box.last_errno, 0);
}

static void a_full_socket_keeps_the_packet(void **state)
{
    (void)state;
    const int errors[] = {EAGAIN, ENOBUFS, ENOMEM};
    for (int i = 0; i < 3; i++) {
        SCRIPT(errors[i], errors[i]);
        assert_int_equal(push(100), OUTBOX_KEPT);
        assert_true(outbox_is_blocked(&bed.box));
        assert_null(outbox_space(&bed.box, 1)); /* no second one while the first waits */
        assert_int_equal(outbox_flush(&bed.box), OUTBOX_KEPT);
        assert_true(outbox_is_blocked(&bed.box));
        assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
        box_is_empty();
        all_arrived(1);
        assert_int_equal(bed.box.counts.full, 2 * (i + 1));
    }
    assert_int_equal(bed.box.counts.datagrams, 3);
    assert_int_equal(bed.box.counts.calls, 9);
}

static void an_interrupted_call_is_made_again(void **state)
{
    (void)state;
    SCRIPT(EINTR, EINTR, EINTR, EINTR, EINTR);
    assert_int_equal(push(100), OUTBOX_SENT);
    assert_int_equal(bed.box.counts.calls, 6);
    assert_int_equal(bed.box.counts.failures, 0);
    all_arrived(1);
}

static void earlier_icmp_errors_are_passed_over(void **state)
{
    (void)state;
    const int errors[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENOPROTOOPT, EPROTO};
    for (size_t i = 0; i < 6; i++) {
        SCRIPT(errors[i], errors[i], errors[i]);
        assert_int_equal(push(100), OUTBOX_SENT);
        assert_int_equal(bed.box.counts.icmp, 3 * (i + 1));
        assert_int_equal(faults.call_count, 4);
        assert_int_equal(bed.box.last_errno, errors[i]);
    }
    all_arrived(6);
    /* a route that stays away is no earlier error: given up, counted, and the next one is tried */
    SCRIPT(EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH);
    assert_int_equal(push(100), OUTBOX_LOST);
    bed.expected++;
    box_is_empty();
    assert_int_equal(bed.box.counts.icmp, 22);
    assert_int_equal(push(100), OUTBOX_SENT);
    all_arrived(1);
}

static void a_closed_port_costs_one_call_more(void **state)
{
    (void)state;
    close(bed.receiver); /* from here on the loopback answers each packet with an ICMP error */
    bed.receiver = -1;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(push(64), OUTBOX_SENT);
    }
    assert_int_equal(bed.box.counts.datagrams, 5);
    assert_int_equal(bed.box.counts.icmp, 4);
    assert_int_equal(bed.box.counts.calls, 9);
    assert_int_equal(bed.box.last_errno, ECONNREFUSED);
}

static void what_the_kernel_refuses_for_good_is_told(void **state)
{
    (void)state;
    SCRIPT(EMSGSIZE, EMSGSIZE);
    assert_int_equal(push(1400), OUTBOX_BIG);
    assert_int_equal(bed.box.counts.too_big, 1);
    SCRIPT(EPERM);
    assert_int_equal(push(100), OUTBOX_LOST);
    assert_int_equal(bed.box.counts.netfilter, 1);
    assert_int_equal(bed.box.last_errno, EPERM);
    SCRIPT(EINVAL);
    assert_int_equal(push(100), OUTBOX_LOST);
    assert_int_equal(bed.box.counts.failures, 1);
    box_is_empty();
    assert_int_equal(bed.box.counts.datagrams, 0);
    bed.expected = bed.sent;
    assert_int_equal(push(100), OUTBOX_SENT);
    all_arrived(1);
}

static void a_sampled_packet_takes_the_time_and_the_same_care(void **state)
{
    (void)state;
    bed.box.sample = 1;
    SCRIPT(EINTR, ECONNREFUSED);
    uint64_t before = clock_now();
    assert_int_equal(push(300), OUTBOX_SENT);
    assert_in_range(bed.box.enter_ns, before, bed.box.leave_ns);
    assert_in_range(bed.box.leave_ns, bed.box.enter_ns, clock_now());
    assert_int_equal(bed.box.sample, 0);
    assert_int_equal(bed.box.counts.icmp, 1);
    assert_int_equal(bed.box.counts.calls, 3);

    bed.box.sample = 1;
    SCRIPT(EAGAIN);
    assert_int_equal(push(300), OUTBOX_KEPT);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    bed.box.sample = 1;
    SCRIPT(EMSGSIZE, EMSGSIZE);
    assert_int_equal(push(300), OUTBOX_BIG);
    assert_int_equal(bed.box.sample, 0);
    bed.box.sample = 1;
    SCRIPT(EPERM);
    assert_int_equal(push(300), OUTBOX_LOST);
    all_arrived(2);
}

/* ---- many packets ---------------------------------------------------------------------------- */

static void gather(uint32_t count, const uint32_t *lengths)
{
    outbox_gather(&bed.box);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(push(lengths[i]), OUTBOX_KEPT);
        assert_false(outbox_is_blocked(&bed.box));
    }
    assert_int_equal(faults.call_count, 0);
}

#define GATHER(...)                                                                                \
    (faults.call_count = 0,                                                                        \
     gather(sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t), (const uint32_t[]){__VA_ARGS__}))

/* The calls made since: "bytes/segment", a list. */
static void made(const char *expected)
{
    char text[1024] = "";
    size_t n = 0;
    for (int i = 0; i < faults.call_count; i++) {
        const struct faults_call *c = &faults.calls[i];
        n += (size_t)snprintf(text + n, sizeof text - n, c->segment ? " %zu/%u" : " %zu", c->bytes,
                              c->segment);
    }
    assert_string_equal(text, expected);
}

static void fewer_than_four_packets_use_no_segments(void **state)
{
    (void)state;
    GATHER(300);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 300");
    GATHER(300, 300, 300);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 300 300 300");
    GATHER(300, 200, 100, 50, 20); /* five, but unequal */
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 300 200 100 50 20");
    all_arrived(9);
    assert_int_equal(bed.box.counts.segmented, 0);
    assert_int_equal(bed.box.counts.segment_failures, 0);
}

static void equal_packets_share_one_call(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    GATHER(300, 300, 300, 300);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 1200/300");
    box_is_empty();
    all_arrived(4);
    GATHER(300, 300, 300, 299); /* the last segment may be shorter */
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 1199/300");
    all_arrived(4);
    assert_int_equal(bed.box.counts.segmented, 2);
    assert_int_equal(bed.box.counts.datagrams, 8);
    assert_int_equal(bed.box.counts.bytes, 2399);
    assert_int_equal(bed.box.counts.calls, 2);
}

static void mixed_lengths_are_grouped_in_their_order(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    GATHER(500, 500, 500, 500, 500, 200, 200, 300, 300, 300, 301, 301, 301, 301, 100, 100, 100, 100,
           101);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 2700/500 200 300 300 300 1304/301 100 100 100 101");
    all_arrived(19);
}

static void a_full_box_leaves_in_one_call(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    outbox_gather(&bed.box);
    uint32_t n = 0;
    while (outbox_space(&bed.box, 1472) != NULL) {
        assert_int_equal(push(1472), OUTBOX_KEPT);
        n++;
    }
    assert_int_equal(n, OUTBOX_BYTES / 1472);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    assert_int_equal(bed.box.counts.segmented, 1);
    all_arrived(n);
    outbox_gather(&bed.box);
    for (n = 0; outbox_space(&bed.box, 20) != NULL; n++) {
        assert_int_equal(push(20), OUTBOX_KEPT);
    }
    assert_int_equal(n, OUTBOX_PACKETS_MAX);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    assert_int_equal(bed.box.counts.segmented, 2);
    all_arrived(n);
}

static void segments_can_be_switched_off(void **state)
{
    (void)state;
    outbox_open(&bed.box, bed.sender, bed.buffer, 0);
    GATHER(300, 300, 300, 300, 300);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 300 300 300 300 300");
    all_arrived(5);
}

/* What a sender without the fallback sees: the whole burst is gone. */
static int naive_burst(uint32_t count, uint32_t bytes)
{
    static uint8_t data[OUTBOX_BYTES];
    union {
        char space[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {data, count * bytes};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    uint16_t segment = (uint16_t)bytes;
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(c), &segment, sizeof segment);
    return sendmsg(bed.sender, &message, MSG_NOSIGNAL) >= 0;
}

static void refused_segments_lose_nothing_and_are_asked_once(void **state)
{
    (void)state;
    static const int errors[] = {EIO, EINVAL, EOPNOTSUPP, EMSGSIZE};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        outbox_open(&bed.box, bed.sender, bed.buffer, 1);
        faults.segment_error = errors[i];
        assert_false(naive_burst(6, 300));
        all_arrived(0); /* without the fallback six packets are lost … */
        GATHER(300, 300, 300, 300, 300, 200);
        assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
        made(errors[i] == EMSGSIZE ? " 1700/300 1700/300 300 300 300 300 300 200"
                                   : " 1700/300 300 300 300 300 300 200");
        all_arrived(6); /* … with it none */
        assert_int_equal(bed.box.counts.segment_failures, 1);
        assert_int_equal(bed.box.counts.segmented, 0);
        assert_int_equal(bed.box.counts.datagrams, 6);
        assert_int_equal(bed.box.counts.failures + bed.box.counts.too_big, 0);
        assert_false(bed.box.segment_ok);
        GATHER(300, 300, 300, 300);
        assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
        made(" 300 300 300 300"); /* not asked again */
        all_arrived(4);
        assert_int_equal(bed.box.counts.segment_failures, 1);
    }
}

static void a_full_socket_keeps_the_rest_of_a_burst_in_order(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    GATHER(300, 300, 300, 300, 50, 60, 400, 400, 400, 400);
    SCRIPT(0, 0, EAGAIN); /* the group and the 60 leave, the second group does not */
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_KEPT);
    all_arrived(6);
    assert_true(outbox_is_blocked(&bed.box));
    assert_null(outbox_space(&bed.box, 10));
    outbox_gather(&bed.box); /* a new burst cannot begin */
    assert_true(outbox_is_blocked(&bed.box));
    SCRIPT(ENOBUFS);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_KEPT);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    all_arrived(4);
    box_is_empty();
    assert_int_equal(bed.box.counts.full, 2);
    assert_int_equal(bed.box.counts.segment_failures, 0);
    assert_true(bed.box.segment_ok);
}

static void a_group_survives_earlier_icmp_errors(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    GATHER(300, 300, 300, 300);
    SCRIPT(ECONNREFUSED, EINTR, EHOSTUNREACH);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    all_arrived(4);
    assert_int_equal(bed.box.counts.icmp, 2);
    assert_true(bed.box.segment_ok);
}

/* A router's "fragmentation needed" for an earlier packet is reported by the next send. */
static void the_size_of_an_earlier_packet_is_not_held_against_this_one(void **state)
{
    (void)state;
    SCRIPT(EMSGSIZE);
    assert_int_equal(push(100), OUTBOX_SENT);
    assert_int_equal(bed.box.path_news, 1);
    assert_int_equal(bed.box.counts.too_big, 0);
    assert_int_equal(bed.box.counts.calls, 2);
    GATHER(300, 300, 300, 300);
    SCRIPT(EMSGSIZE);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 1200/300 1200/300");
    assert_true(bed.box.segment_ok);
    assert_int_equal(bed.box.counts.segment_failures, 0);
    all_arrived(5);
}

static void one_lost_packet_does_not_hold_the_others_up(void **state)
{
    (void)state;
    GATHER(300, 200, 100);
    SCRIPT(0, EMSGSIZE, EMSGSIZE, 0);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_BIG);
    assert_int_equal(arrived(), 300);
    bed.expected++;
    assert_int_equal(arrived(), 100);
    box_is_empty();
    GATHER(300, 200, 100);
    SCRIPT(EPERM);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_LOST);
    bed.expected++;
    all_arrived(2);
}

/* ---- whose packets --------------------------------------------------------------------------- */

static struct {
    const char *owners;
    uint32_t count;
    char told[2 * OUTBOX_PACKETS_MAX + 1]; /* owner and first letter of the result, in order */
} owners = {.owners = "abcdefghij"};

static void on_settled(void *user, const void *owner, enum outbox_result result, uint32_t bytes)
{
    assert_ptr_equal(user, &owners);
    assert_in_range(bytes, 1, 1472);
    owners.told[owners.count++] = *(const char *)owner;
    owners.told[owners.count++] = result == OUTBOX_SENT ? 's' : result == OUTBOX_BIG ? 'b' : 'l';
    owners.told[owners.count] = 0;
}

static void listen_to_box(void)
{
    bed.box.settled = on_settled;
    bed.box.user = &owners;
    owners.count = 0;
    owners.told[0] = 0;
}

/* A gathered packet of the owner with this letter; '-' is nobody. */
static void push_of(char letter, uint32_t bytes)
{
    assert_int_equal(push(bytes), OUTBOX_KEPT);
    if (letter != '-') {
        outbox_claim(&bed.box, owners.owners + (letter - 'a'));
    }
}

static void every_owner_is_told_of_its_own_packet(void **state)
{
    (void)state;
    listen_to_box();
    outbox_gather(&bed.box);
    push_of('a', 300);
    push_of('-', 200);
    push_of('b', 100);
    push_of('c', 90);
    SCRIPT(0, 0, EMSGSIZE, EMSGSIZE, EPERM);
    uint64_t before = clock_now();
    outbox_flush(&bed.box);
    assert_string_equal(owners.told, "asbbcl");
    assert_in_range(bed.box.settled_ns, before, clock_now());
    bed.expected = 0;
    assert_int_equal(arrived(), 300);
    assert_int_equal(arrived(), 200);
    all_arrived(0);
}

static void what_left_before_the_socket_was_full_is_told(void **state)
{
    (void)state;
    listen_to_box();
    outbox_gather(&bed.box);
    push_of('a', 300);
    push_of('b', 200);
    push_of('c', 100);
    SCRIPT(0, EAGAIN);
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_KEPT);
    assert_string_equal(owners.told, "as");
    assert_false(outbox_holds(&bed.box, owners.owners));
    assert_true(outbox_holds(&bed.box, owners.owners + 1));
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    assert_string_equal(owners.told, "asbscs");
    assert_false(outbox_holds(&bed.box, owners.owners + 1));
    all_arrived(3);
}

static void a_group_tells_each_of_its_owners(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    listen_to_box();
    outbox_gather(&bed.box);
    for (int i = 0; i < 5; i++) {
        push_of((char)('a' + i), 300);
    }
    faults.call_count = 0;
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 1500/300");
    assert_string_equal(owners.told, "asbscsdses");
    all_arrived(5);
}

static void what_is_forgotten_is_not_sent(void **state)
{
    (void)state;
    listen_to_box();
    SCRIPT(EAGAIN);
    assert_int_equal(push(100), OUTBOX_KEPT);
    outbox_claim(&bed.box, owners.owners);
    outbox_forget(&bed.box, owners.owners + 1); /* not here */
    assert_true(outbox_is_blocked(&bed.box));
    outbox_forget(&bed.box, owners.owners);
    box_is_empty();
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    assert_int_equal(bed.box.counts.datagrams, 0);
    assert_string_equal(owners.told, "");
    bed.expected++;
    assert_int_equal(push(200), OUTBOX_SENT);
    all_arrived(1);
}

static void forgotten_packets_part_groups(void **state)
{
    (void)state;
    NEED_SEGMENTS();
    listen_to_box();
    outbox_gather(&bed.box);
    for (int i = 0; i < 10; i++) {
        push_of((char)('a' + i), 300);
    }
    outbox_forget(&bed.box, owners.owners + 4);
    outbox_forget(&bed.box, owners.owners + 9);
    faults.call_count = 0;
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    made(" 1200/300 1200/300");
    assert_string_equal(owners.told, "asbscsdsfsgshsis");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(arrived(), 300);
    }
    bed.expected++;
    all_arrived(4);
    box_is_empty();
}

static void a_filter_refuses_a_group_packet_by_packet(void **state)
{
    (void)state;
    listen_to_box();
    outbox_gather(&bed.box);
    for (int i = 0; i < 4; i++) {
        push_of((char)('a' + i), 300);
    }
    push_of('e', 100);
    faults.segment_error = EPERM;
    if (has_segments()) {
        SCRIPT(EPERM, EPERM, 0, EPERM, 0, 0);
    } else {
        SCRIPT(EPERM, 0, EPERM, 0, 0);
        bed.box.segment_ok = 0;
    }
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_LOST);
    assert_string_equal(owners.told, "albscldses");
    assert_int_equal(bed.box.counts.netfilter, 2);
    assert_int_equal(bed.box.counts.segment_failures, 0);
    assert_int_equal(bed.box.segment_ok, has_segments()); /* segments are not at fault */
}

/* Bursts and single packets while a tenth of the calls fail: each arrives once, in order. */
static void random_faults_neither_lose_nor_reorder(void **state)
{
    (void)state;
    faults.random_of_100 = 10;
    faults.random_state = 7;
    while (bed.sent < 20000) {
        if (outbox_is_blocked(&bed.box)) {
            outbox_flush(&bed.box);
        } else if (faults_draw(2) == 0) {
            assert_int_not_equal(push(8 + (uint32_t)faults_draw(1400)), OUTBOX_LOST);
        } else {
            outbox_gather(&bed.box);
            uint32_t bytes = 8 + (uint32_t)faults_draw(1400);
            for (uint64_t n = 1 + faults_draw(12); n > 0 && outbox_space(&bed.box, 1472) != NULL;
                 n--) {
                assert_int_equal(push(bytes), OUTBOX_KEPT);
                if (faults_draw(4) == 0) {
                    bytes = 8 + (uint32_t)faults_draw(1400);
                }
            }
            assert_int_not_equal(outbox_flush(&bed.box), OUTBOX_LOST);
        }
        while (arrived() != 0) {
        }
    }
    faults.random_of_100 = 0;
    assert_int_equal(outbox_flush(&bed.box), OUTBOX_SENT);
    while (arrived() != 0) {
    }
    assert_int_equal(bed.expected, bed.sent);
    assert_int_equal(bed.box.counts.datagrams, bed.sent);
    assert_true(bed.box.counts.full > 100);
    assert_true(bed.box.counts.icmp > 100);
    assert_true(!has_segments() || bed.box.counts.segmented > 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_packet_is_sent_at_once),
        TEST(a_full_socket_keeps_the_packet),
        TEST(an_interrupted_call_is_made_again),
        TEST(earlier_icmp_errors_are_passed_over),
        TEST(a_closed_port_costs_one_call_more),
        TEST(what_the_kernel_refuses_for_good_is_told),
        TEST(the_size_of_an_earlier_packet_is_not_held_against_this_one),
        TEST(a_sampled_packet_takes_the_time_and_the_same_care),
        TEST(fewer_than_four_packets_use_no_segments),
        TEST(equal_packets_share_one_call),
        TEST(mixed_lengths_are_grouped_in_their_order),
        TEST(a_full_box_leaves_in_one_call),
        TEST(segments_can_be_switched_off),
        TEST(refused_segments_lose_nothing_and_are_asked_once),
        TEST(a_full_socket_keeps_the_rest_of_a_burst_in_order),
        TEST(a_group_survives_earlier_icmp_errors),
        TEST(one_lost_packet_does_not_hold_the_others_up),
        TEST(every_owner_is_told_of_its_own_packet),
        TEST(what_left_before_the_socket_was_full_is_told),
        TEST(a_group_tells_each_of_its_owners),
        TEST(what_is_forgotten_is_not_sent),
        TEST(forgotten_packets_part_groups),
        TEST(a_filter_refuses_a_group_packet_by_packet),
        TEST(random_faults_neither_lose_nor_reorder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
