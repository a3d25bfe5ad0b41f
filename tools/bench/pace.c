#include "bench/pace.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Tending may read an ACK or two, a few microseconds each: not this close to the next instant. */
#define PACE_GUARD_NS 3000
/* A sender that is late all the time must still read its ACKs now and then. */
#define PACE_LATE_MAX 16
/* A refused send is tried again this long before its sender counts as dead. */
#define PACE_REFUSED_NS (10 * CLOCK_NS_PER_S)

static inline void pace_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int pace_stamps_open(struct pace_stamps *stamps, uint32_t count)
{
    memset(stamps, 0, sizeof *stamps);
    stamps->start = malloc(count * sizeof *stamps->start);
    stamps->end = malloc(count * sizeof *stamps->end);
    if (stamps->start == NULL || stamps->end == NULL) {
        pace_stamps_close(stamps);
        return SOLSEND_ERR_MEMORY;
    }
    memset(stamps->start, 0xff, count * sizeof *stamps->start);
    memset(stamps->end, 0xff, count * sizeof *stamps->end);
    return 0;
}

void pace_stamps_close(struct pace_stamps *stamps)
{
    free(stamps->start);
    free(stamps->end);
    memset(stamps, 0, sizeof *stamps);
}

/* A bot sends what it has just signed: its bytes are in the cache. For every sender alike. */
static void pace_touch(const uint8_t *wire, uint32_t bytes)
{
    volatile uint8_t sink = 0;
    for (uint32_t at = 0; at < bytes; at += 64) {
        sink = (uint8_t)(sink + wire[at]);
    }
    sink = (uint8_t)(sink + wire[bytes - 1]);
}

static void pace_sleep(struct sender *sender, uint64_t until)
{
    uint64_t timer = sender->table->timeout_ns(sender), now = clock_now(), wake;
    struct pollfd p = {sender->table->fd(sender), POLLIN, 0};
    wake = timer < until ? timer : until;
    if (wake > now) {
        struct timespec t = {(time_t)((wake - now) / CLOCK_NS_PER_S),
                             (long)((wake - now) % CLOCK_NS_PER_S)};
        (void)ppoll(&p, 1, &t, NULL);
    }
}

/* Passes the time until `due`; returns the clock as last read, which is at or after it. */
static uint64_t pace_wait(const struct pace *pace, struct sender *sender, uint64_t due,
                          uint32_t *late)
{
    uint64_t now = clock_now();
    if (now >= due) {
        if (++*late >= PACE_LATE_MAX) {
            *late = 0;
            sender->table->tend(sender);
            now = clock_now();
        }
        return now;
    }
    while (now < due) {
        if (due - now > PACE_GUARD_NS) {
            *late = 0;
            sender->table->tend(sender);
            if (pace->wait == PACE_SLEEP) {
                pace_sleep(sender, due);
            }
        } else {
            pace_relax();
        }
        now = clock_now();
    }
    return now;
}

/* Refused: no slot or no buffer. Tend until it is taken; the time counts as the send's. */
static int pace_insist(struct sender *sender, const uint8_t *wire, uint32_t bytes)
{
    uint64_t end = clock_now() + PACE_REFUSED_NS;
    int rc = SOLSEND_ERR_AGAIN;
    while (clock_now() < end) {
        if (sender->table->tend(sender) != 0) {
            return SOLSEND_ERR_CLOSED;
        }
        rc = sender->table->send(sender, wire, bytes);
        if (rc >= 0 || solsend_error_kind(rc) != SOLSEND_KIND_AGAIN) {
            break;
        }
    }
    return rc;
}

int pace_run(const struct pace *pace, struct sender *sender, const struct wires *wires,
             uint32_t first, uint32_t count, struct pace_stamps *stamps)
{
    int (*send)(struct sender *, const uint8_t *, uint32_t) = sender->table->send;
    uint32_t late = 0;
    int rc = 0;
    stamps->t0 = clock_now() + CLOCK_NS_PER_MS;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *wire = wires_at(wires, first + i);
        uint64_t due = stamps->t0 + i * pace->interval_ns;
        if (pace->progress != NULL && i % 1024 == 1023) {
            pace->progress(i, count);
        }
        pace_touch(wire, wires->bytes);
        stamps->start[i] = pace_wait(pace, sender, due, &late);
        rc = send(sender, wire, wires->bytes);
        if (rc < 0) {
            stamps->refused++;
            rc = pace_insist(sender, wire, wires->bytes);
        }
        stamps->end[i] = clock_now();
        if (rc < 0) {
            stamps->dead = count - i;
            return rc;
        }
        stamps->waited += rc == 0;
    }
    return 0;
}
