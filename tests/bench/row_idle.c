/*
 * The first send after a second of silence. A path that is not used goes cold: caches, branch
 * history, TLB. A keep-hot shadow sends a real packet every few milliseconds; how much that is
 * worth is shown by the same link without it.
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "suite.h"

#define ROW_IDLE_NS         CLOCK_NS_PER_S
#define ROW_IDLE_SPACING    20000
#define ROW_IDLE_STEADY     500
#define ROW_IDLE_FIRSTS     12
#define ROW_IDLE_SHADOWLESS 8
#define ROW_IDLE_HOT_US     250 /* what a thread that spins can afford */

struct row_idle_result {
    double first, steady; /* medians, ns */
    double p90;           /* of the first ones */
};

/* Spins as the inline drive does: tends the sender all the time, sends nothing. */
static void row_idle_rest(struct sender *sender)
{
    uint64_t end = clock_now() + ROW_IDLE_NS;
    while (clock_now() < end) {
        sender->table->tend(sender);
    }
}

/* One send of a transaction whose bytes were written just now, as a bot's are. */
static int row_idle_first(struct sender *sender, const uint8_t *wire, uint32_t bytes, double *ns)
{
    volatile uint8_t sum = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        sum = (uint8_t)(sum + wire[i]);
    }
    uint64_t start = clock_now();
    int rc = sender->table->send(sender, wire, bytes);
    *ns = (double)(clock_now() - start);
    return rc < 0 ? rc : 0;
}

static int row_idle_measure(struct suite *s, struct sender *sender, uint32_t repeats,
                            struct row_idle_result *out)
{
    struct pace pace = {.interval_ns = ROW_IDLE_SPACING};
    double firsts[ROW_IDLE_FIRSTS], steady[ROW_IDLE_FIRSTS];
    uint64_t values[ROW_IDLE_STEADY];
    for (uint32_t i = 0; i < repeats; i++) {
        int rc = pace_run(&pace, sender, &s->small, 0, ROW_IDLE_STEADY, &s->stamps);
        if (rc != 0) {
            suite_fail(s, "idle: %s", solsend_error_text(rc));
            return -1;
        }
        for (uint32_t k = 0; k < ROW_IDLE_STEADY; k++) {
            values[k] = s->stamps.end[k] - s->stamps.start[k];
        }
        samples_sort(values, ROW_IDLE_STEADY);
        steady[i] = (double)samples_at(values, ROW_IDLE_STEADY, 0.5);
        row_idle_rest(sender);
        rc = row_idle_first(sender, wires_at(&s->small, ROW_IDLE_STEADY), s->small.bytes,
                            &firsts[i]);
        if (rc != 0) {
            suite_fail(s, "idle: %s", solsend_error_text(rc));
            return -1;
        }
    }
    out->first = suite_median(firsts, repeats, NULL, 0);
    out->p90 = firsts[(repeats * 9 - 1) / 10];
    out->steady = suite_median(steady, repeats, NULL, 0);
    return 0;
}

static int row_idle_link(struct suite *s, const struct receiver *r, solsend_shadow *shadow,
                         uint32_t hot_us, uint32_t repeats, struct row_idle_result *out)
{
    solsend_link_options o;
    struct sender *sender;
    int rc = -1;
    suite_link_options(s, &o);
    o.shadow = shadow;
    o.keep_hot_us = hot_us;
    sender = suite_link(s, r, &o);
    if (sender != NULL) {
        rc = row_idle_measure(s, sender, repeats, out);
    }
    suite_close(sender);
    return rc;
}

void row_idle(struct suite *s)
{
    struct row_idle_result hot, cold, raw;
    struct receiver quic, udp;
    struct sender *sender = NULL;
    solsend_shadow *shadow = NULL;
    solsend_detail detail = {0};
    int opened = 0;
    if (solsend_shadow_open(&shadow, NULL, &detail) != 0) {
        suite_fail(s, "shadow: %s", detail.text);
        return;
    }
    if (suite_receiver(s, &quic, "agave-4.3", NULL) == 0) {
        opened = 1;
        if (row_idle_link(s, &quic, shadow, ROW_IDLE_HOT_US, ROW_IDLE_FIRSTS, &hot) == 0) {
            suite_row(s, "first send after 1 s idle with keep-hot, over steady",
                      hot.first / hot.steady, 1.5, 2,
                      "every %d us: median %.0f, p90 %.0f over %.0f ns", ROW_IDLE_HOT_US, hot.first,
                      hot.p90, hot.steady);
        }
        solsend_link_options o;
        solsend_link_options_init(&o, sizeof o);
        if (row_idle_link(s, &quic, shadow, o.keep_hot_us, ROW_IDLE_FIRSTS, &hot) == 0) {
            suite_row(s, "first send after 1 s idle with keep-hot as by default, over steady",
                      hot.first / hot.steady, NAN, NAN,
                      "every %u us: median %.0f, p90 %.0f over %.0f ns", o.keep_hot_us, hot.first,
                      hot.p90, hot.steady);
        }
        if (row_idle_link(s, &quic, NULL, 0, ROW_IDLE_SHADOWLESS, &cold) == 0) {
            suite_row(s, "first send after 1 s idle without keep-hot, over steady",
                      cold.first / cold.steady, NAN, NAN, "median %.0f, p90 %.0f over %.0f ns",
                      cold.first, cold.p90, cold.steady);
        }
    }
    if (opened) {
        receiver_close(&quic);
    }
    if (suite_receiver(s, &udp, "udp", NULL) == 0) {
        sender = suite_raw(s, &udp);
        if (sender != NULL && row_idle_measure(s, sender, ROW_IDLE_SHADOWLESS, &raw) == 0) {
            suite_row(s, "first raw send() after 1 s idle, over steady", raw.first / raw.steady,
                      NAN, NAN, "median %.0f, p90 %.0f over %.0f ns", raw.first, raw.p90,
                      raw.steady);
        }
        suite_close(sender);
        receiver_close(&udp);
    }
    solsend_shadow_close(shadow);
}
