/*
 * A burst on a young connection: 100 full transactions, one call after the other, before the peer
 * can acknowledge any. Without the first-flight option the fifteenth would wait for a round trip.
 */
#include <math.h>

#include "base/clock.h"
#include "bench/order.h"
#include "suite.h"

#define ROW_FLIGHT_ROUNDS 7
#define ROW_FLIGHT_COUNT  100
#define ROW_FLIGHT_BYTES  65527

/* ns that the burst took, or 0 after a failure. `at_once`: how many were on the wire at return. */
static uint64_t row_flight_burst(struct suite *s, struct sender *sender, uint32_t *at_once)
{
    uint64_t start, end;
    *at_once = 0;
    start = clock_now();
    for (uint32_t i = 0; i < ROW_FLIGHT_COUNT; i++) {
        int rc = sender->table->send(sender, wires_at(&s->large, i), s->large.bytes);
        if (rc < 0) {
            suite_fail(s, "%s: transaction %u of the burst: %s", sender->table->transport, i,
                       solsend_error_text(rc));
            return 0;
        }
        *at_once += (uint32_t)rc;
    }
    end = clock_now();
    return end - start;
}

static uint64_t row_flight_once(struct suite *s, const struct receiver *r, int bare,
                                uint32_t *at_once)
{
    struct sender *sender;
    solsend_link_options o;
    uint64_t took, accepted;
    mock_forget(r->mock);
    suite_link_options(s, &o);
    o.first_flight_bytes = ROW_FLIGHT_BYTES;
    sender = bare ? suite_bare(s, r, ROW_FLIGHT_BYTES) : suite_link(s, r, &o);
    if (sender == NULL) {
        return 0;
    }
    took = row_flight_burst(s, sender, at_once);
    sender->table->flush(sender, 2000);
    accepted = mock_wait_accepted(r->mock, ROW_FLIGHT_COUNT, 1000);
    if (took != 0 && accepted != ROW_FLIGHT_COUNT) {
        suite_fail(s, "%s: the mock accepted %llu of %u", sender->table->transport,
                   (unsigned long long)accepted, ROW_FLIGHT_COUNT);
    }
    suite_close(sender);
    return took;
}

static void row_flight_rounds(struct suite *s, const struct receiver *r)
{
    static const char name[] = "100 full transactions on a fresh connection at RTT 20 ms over bare";
    double ours[ROW_FLIGHT_ROUNDS], bare[ROW_FLIGHT_ROUNDS], ratios[ROW_FLIGHT_ROUNDS];
    uint32_t rounds = s->quick ? 1 : ROW_FLIGHT_ROUNDS, least = ROW_FLIGHT_COUNT;
    char spread[100];
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t took[2];
        uint32_t order[2] = {0, 1}, at_once[2];
        order_shuffle(&s->order, order, 2);
        for (int k = 0; k < 2; k++) {
            took[order[k]] = row_flight_once(s, r, order[k] == 1, &at_once[order[k]]);
        }
        if (took[0] == 0 || took[1] == 0) {
            suite_row_missing(s, name, 1.1, 2, "a burst failed");
            return;
        }
        ours[i] = (double)took[0];
        bare[i] = (double)took[1];
        ratios[i] = ours[i] / bare[i];
        least = at_once[0] < least ? at_once[0] : least;
    }
    suite_median(ratios, rounds, spread, sizeof spread);
    suite_row(s, name, samples_median(ratios, rounds), 1.1, 2,
              "%.0f over %.0f us, at least %u on the wire at return; %s",
              suite_median(ours, rounds, NULL, 0) / 1000,
              suite_median(bare, rounds, NULL, 0) / 1000, least, spread);
}

void row_flight(struct suite *s)
{
    struct receiver r;
    if (suite_receiver(s, &r, "agave-4.3", "rtt_ms=20") == 0) {
        row_flight_rounds(s, &r);
        receiver_close(&r);
    }
}
