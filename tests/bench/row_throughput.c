/*
 * How many transactions one core can push: bursts of 16 by solsend_link_send_burst, and the ACKs
 * they cause read and drained, against raw sends back to back.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "bench/order.h"
#include "suite.h"

#define ROW_THROUGHPUT_ROUNDS 9
#define ROW_THROUGHPUT_BURST  16
#define ROW_THROUGHPUT_COUNT  64000u

struct row_throughput_result {
    double busy_s; /* of this core: bursts, and polls that had something to do */
    double wall_s; /* until the last ACK, waiting for the receiver's core included */
};

static void row_throughput_fill(const struct suite *s, solsend_send *sends, uint32_t first)
{
    for (uint32_t i = 0; i < ROW_THROUGHPUT_BURST; i++) {
        sends[i].wire = wires_at(&s->small, (first + i) % SUITE_WIRES);
        sends[i].wire_bytes = s->small.bytes;
    }
}

/*
 * The receiver decrypts on a core of its own and may be the slower one; then the sender waits for
 * credit, and a poll that finds nothing is waiting, not work.
 */
static int row_throughput_ours(struct suite *s, solsend_link *link,
                               struct row_throughput_result *out)
{
    solsend_send sends[ROW_THROUGHPUT_BURST];
    solsend_event events[64];
    uint64_t begin = clock_now(), busy = 0, left = ROW_THROUGHPUT_COUNT, acked = 0;
    for (uint32_t i = 0; i < ROW_THROUGHPUT_BURST; i++) {
        solsend_send_init(&sends[i], sizeof sends[i]);
    }
    while (acked < ROW_THROUGHPUT_COUNT) {
        uint64_t start = clock_now();
        int worked = 0, read, n;
        if (left > 0) {
            row_throughput_fill(s, sends, (uint32_t)left);
            n = solsend_link_send_burst(link, sends, ROW_THROUGHPUT_BURST, NULL, NULL);
            if (n < 0) {
                suite_fail(s, "burst: %s", solsend_error_text(n));
                return -1;
            }
            /* the loop's bursts are whole: a shorter one leaves a remainder for the last */
            left -= (uint64_t)n < left ? (uint64_t)n : left;
            worked = n > 0;
        }
        read = solsend_link_poll(link);
        if (read < 0) {
            suite_fail(s, "burst: %s", solsend_error_text(read));
            return -1;
        }
        while ((n = solsend_link_drain(link, events, 64)) > 0) {
            for (int i = 0; i < n; i++) {
                acked += events[i].kind == SOLSEND_EVENT_ACKED;
            }
        }
        if (worked || read > 0) {
            busy += clock_now() - start;
        }
        if (clock_now() - begin > 30 * CLOCK_NS_PER_S) {
            suite_fail(s, "burst: %llu of %u acknowledged after 30 s", (unsigned long long)acked,
                       ROW_THROUGHPUT_COUNT);
            return -1;
        }
    }
    out->busy_s = (double)busy / 1e9;
    out->wall_s = (double)(clock_now() - begin) / 1e9;
    return 0;
}

static void row_throughput_raw(struct suite *s, struct sender *raw,
                               struct row_throughput_result *out)
{
    uint64_t begin = clock_now();
    for (uint32_t i = 0; i < ROW_THROUGHPUT_COUNT; i++) {
        raw->table->send(raw, wires_at(&s->small, i % SUITE_WIRES), s->small.bytes);
    }
    out->busy_s = out->wall_s = (double)(clock_now() - begin) / 1e9;
}

static void row_throughput_rounds(struct suite *s, struct receiver *quic, struct receiver *udp,
                                  struct sender *link, struct sender *raw)
{
    double ratios[ROW_THROUGHPUT_ROUNDS], ours[ROW_THROUGHPUT_ROUNDS], walls[ROW_THROUGHPUT_ROUNDS];
    double raws[ROW_THROUGHPUT_ROUNDS];
    uint32_t rounds = s->quick ? 1 : ROW_THROUGHPUT_ROUNDS;
    char spread[100];
    for (uint32_t i = 0; i < rounds; i++) {
        struct row_throughput_result r[2] = {{0}};
        uint32_t order[2] = {0, 1};
        order_shuffle(&s->order, order, 2);
        for (int k = 0; k < 2; k++) {
            struct receiver *receiver = order[k] == 0 ? quic : udp;
            int rc = receiver_start(receiver);
            if (rc == 0 && order[k] == 0) {
                rc = row_throughput_ours(s, sender_link_of(link), &r[0]);
            } else if (rc == 0) {
                row_throughput_raw(s, raw, &r[1]);
            }
            receiver_stop(receiver);
            mock_forget(receiver->mock);
            if (rc != 0) {
                return;
            }
        }
        ours[i] = ROW_THROUGHPUT_COUNT / r[0].busy_s;
        walls[i] = ROW_THROUGHPUT_COUNT / r[0].wall_s;
        raws[i] = ROW_THROUGHPUT_COUNT / r[1].busy_s;
        ratios[i] = ours[i] / raws[i];
    }
    suite_median(ratios, rounds, spread, sizeof spread);
    suite_row(s, "transactions per core-second, 250 B in bursts of 16, over raw",
              samples_median(ratios, rounds), 1, 0.4,
              "acked %.0f k over %.0f k/s (%.0f k/s by the clock); %s",
              suite_median(ours, rounds, NULL, 0) / 1000,
              suite_median(raws, rounds, NULL, 0) / 1000,
              suite_median(walls, rounds, NULL, 0) / 1000, spread);
}

void row_throughput(struct suite *s)
{
    struct receiver quic, udp;
    struct sender *link, *raw;
    solsend_link_options o;
    suite_link_options(s, &o);
    o.first_flight_bytes = 65527;
    if (suite_receiver(s, &quic, "agave-4.3", NULL) != 0) {
        return;
    }
    if (suite_receiver(s, &udp, "udp", NULL) == 0) {
        link = suite_link(s, &quic, &o);
        raw = suite_raw(s, &udp);
        receiver_stop(&quic);
        receiver_stop(&udp);
        if (link != NULL && raw != NULL) {
            row_throughput_rounds(s, &quic, &udp, link, raw);
        }
        suite_close(link);
        suite_close(raw);
        receiver_close(&udp);
    }
    receiver_close(&quic);
}
