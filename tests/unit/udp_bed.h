/* A udp:// link to a plain socket, with numbered transactions; for one file of a program. */
#ifndef UDP_BED_H
#define UDP_BED_H

#include "faults.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <solsend/solsend.h>

#include "udp_peer.h"

enum { EVENTS_MAX = 256, NUMBER_AT = 8 };

static struct {
    struct udp_peer peer;
    solsend_link *link;
    solsend_link_options options;
    solsend_event events[EVENTS_MAX];
    int event_count;
    uint8_t wire[SOLSEND_TX_V1_BYTES_MAX + 64];
} bed;

static inline int set_up(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof bed);
    memset(&faults, 0, sizeof faults);
    memset(bed.wire, 0x55, sizeof bed.wire);
    bed.wire[0] = 1; /* one signature */
    solsend_link_options_init(&bed.options, sizeof bed.options);
    return udp_peer_open(&bed.peer, "127.0.0.1");
}

static inline int tear_down(void **state)
{
    (void)state;
    solsend_link_close(bed.link, 0);
    bed.link = NULL;
    udp_peer_close(&bed.peer);
    return 0;
}

static inline void open_link(void)
{
    solsend_detail detail = {0};
    int rc = solsend_link_open(&bed.link, udp_peer_uri(&bed.peer, "udp"), &bed.options, &detail);
    if (rc != 0) {
        fail_msg("%s: %s", solsend_error_name(rc), detail.text);
    }
    faults.call_count = 0;
}

static inline void prepare(solsend_send *send, uint8_t *wire, uint32_t number, uint32_t bytes)
{
    memcpy(wire, bed.wire, bytes);
    if (bytes >= NUMBER_AT + sizeof number) {
        memcpy(wire + NUMBER_AT, &number, sizeof number);
    }
    solsend_send_init(send, sizeof *send);
    send->wire = wire;
    send->wire_bytes = bytes;
    send->user = number;
}

static inline int send_with(uint32_t number, uint32_t priority, uint64_t deadline_ns,
                            uint64_t *ticket)
{
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    solsend_send s;
    prepare(&s, wire, number, 200);
    s.priority = priority;
    s.deadline_ns = deadline_ns;
    return solsend_link_send(bed.link, &s, ticket);
}

static inline int send_number(uint32_t number)
{
    return send_with(number, 0, UINT64_MAX, NULL);
}

static inline int burst(uint32_t first, uint32_t count, uint32_t bytes, uint64_t *tickets,
                        int32_t *results)
{
    static uint8_t wires[64][SOLSEND_TX_BYTES_MAX];
    solsend_send sends[64];
    for (uint32_t i = 0; i < count; i++) {
        prepare(&sends[i], wires[i], first + i, bytes);
    }
    return solsend_link_send_burst(bed.link, sends, count, tickets, results);
}

/* The number in the next datagram, or -1 when there is none. */
static inline int64_t arrived(void)
{
    uint8_t data[8192];
    uint32_t number;
    ssize_t n = udp_peer_take(&bed.peer, data, sizeof data);
    if (n < 0) {
        return -1;
    }
    assert_true(n >= NUMBER_AT + (ssize_t)sizeof number);
    memcpy(&number, data + NUMBER_AT, sizeof number);
    return number;
}

#define ARRIVED(...)                                                                               \
    do {                                                                                           \
        const int64_t numbers[] = {__VA_ARGS__};                                                   \
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {                            \
            assert_int_equal(arrived(), numbers[i]);                                               \
        }                                                                                          \
        assert_int_equal(arrived(), -1);                                                           \
    } while (0)

static inline void drain(void)
{
    bed.event_count = solsend_link_drain(bed.link, bed.events, EVENTS_MAX);
    assert_true(bed.event_count >= 0);
}

/* The event of a number among those just drained. */
static const solsend_event *event_of(uint64_t number)
{
    const solsend_event *found = NULL;
    for (int i = 0; i < bed.event_count; i++) {
        if (bed.events[i].kind < SOLSEND_EVENT_LINK_CONNECTED && bed.events[i].user == number) {
            assert_null(found);
            found = &bed.events[i];
        }
    }
    assert_non_null(found);
    return found;
}

static inline void ended(uint64_t number, uint32_t kind, int code)
{
    const solsend_event *e = event_of(number);
    if (e->kind != kind || e->code != code) {
        fail_msg("number %llu: %s %s, expected %s %s", (unsigned long long)number,
                 solsend_event_name(e->kind), solsend_error_name(e->code), solsend_event_name(kind),
                 solsend_error_name(code));
    }
}

static inline solsend_link_stats stats(void)
{
    solsend_link_stats s = {.size = sizeof s};
    assert_int_equal(solsend_link_stats_get(bed.link, &s), 0);
    return s;
}

static inline solsend_link_info info(void)
{
    solsend_link_info i = {.size = sizeof i};
    assert_int_equal(solsend_link_info_get(bed.link, &i), 0);
    return i;
}

static inline uint64_t hop_count(uint32_t hop)
{
    solsend_summary s;
    assert_int_equal(solsend_link_hop(bed.link, hop, &s), 0);
    return s.count;
}

/* Time passes until the clock is past `ns`. */
static inline void wait_until(uint64_t ns)
{
    while (solsend_now_ns() <= ns) {
        usleep(200);
    }
}

#endif
