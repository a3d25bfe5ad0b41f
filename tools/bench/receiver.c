#include "bench/receiver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Leaders limit new connections and unstaked streams; what is measured here is neither. */
#define RECEIVER_FAULTS "throttle=off,conn_per_min=100000"

int receiver_open(struct receiver *r, const struct receiver_config *config, char *why,
                  size_t why_bytes)
{
    char stakes[96], faults[256], text[48];
    uint8_t public_key[32];
    mock_config c;
    memset(r, 0, sizeof *r);
    memset(&c, 0, sizeof c);
    r->udp = strcmp(config->profile, "udp") == 0;
    c.profile = config->profile;
    c.listen = "127.0.0.1:0";
    c.cpu = config->cpu;
    c.spin = config->cpu >= 0; /* on one CPU for both, spinning would starve the sender */
    c.arrivals_max = config->arrivals;
    c.seed = config->seed;
    if (!r->udp) {
        snprintf(faults, sizeof faults, "%s%s%s", RECEIVER_FAULTS,
                 config->faults == NULL ? "" : ",", config->faults == NULL ? "" : config->faults);
        c.faults = faults;
    } else {
        c.faults = config->faults;
    }
    if (!r->udp && config->identity != NULL &&
        solsend_key_public(config->identity, public_key) == 0 &&
        solsend_base58_encode(text, sizeof text, public_key, sizeof public_key) > 0) {
        snprintf(stakes, sizeof stakes, "%s=1000000000000", text);
        c.stakes = stakes;
    }
    if (mock_open(&r->mock, &c, why, why_bytes) != 0) {
        r->mock = NULL;
        return -1;
    }
    mock_uri(r->mock, r->uri, sizeof r->uri);
    snprintf(r->address, sizeof r->address, "127.0.0.1:%u", mock_port(r->mock));
    if (receiver_start(r) != 0) {
        snprintf(why, why_bytes, "the receiver's thread did not start");
        receiver_close(r);
        return -1;
    }
    return 0;
}

int receiver_start(struct receiver *r)
{
    if (!r->running && mock_start(r->mock) != 0) {
        return -1;
    }
    r->running = 1;
    return 0;
}

void receiver_stop(struct receiver *r)
{
    if (r->running) {
        mock_stop(r->mock);
        r->running = 0;
    }
}

void receiver_close(struct receiver *r)
{
    if (r->mock != NULL) {
        receiver_stop(r);
        mock_close(r->mock);
    }
    memset(r, 0, sizeof *r);
}

/* Open addressing from a signature's head to its index + 1. */
static uint32_t *receiver_index(const struct wires *wires, uint32_t first, uint32_t count,
                                uint64_t *mask)
{
    uint64_t slots = 16;
    uint32_t *table;
    while (slots < (uint64_t)count * 2) {
        slots *= 2;
    }
    *mask = slots - 1;
    table = calloc(slots, sizeof *table);
    for (uint32_t i = 0; table != NULL && i < count; i++) {
        uint64_t at = wires_head(wires, first + i) & *mask;
        while (table[at] != 0) {
            at = (at + 1) & *mask;
        }
        table[at] = i + 1;
    }
    return table;
}

int64_t receiver_match(const struct receiver *r, const struct wires *wires, uint32_t first,
                       uint32_t count, uint64_t *received, uint64_t *accepted)
{
    const mock_arrival *arrivals;
    size_t have = mock_arrivals(r->mock, &arrivals);
    int64_t came = 0;
    uint64_t mask;
    uint32_t *table = receiver_index(wires, first, count, &mask);
    if (table == NULL) {
        return -1;
    }
    memset(received, 0xff, count * sizeof *received);
    memset(accepted, 0xff, count * sizeof *accepted);
    for (size_t a = 0; a < have; a++) {
        uint64_t at = arrivals[a].signature_head & mask;
        while (table[at] != 0 &&
               wires_head(wires, first + table[at] - 1) != arrivals[a].signature_head) {
            at = (at + 1) & mask;
        }
        if (table[at] != 0 && accepted[table[at] - 1] == UINT64_MAX) {
            received[table[at] - 1] = arrivals[a].received_ns;
            accepted[table[at] - 1] = arrivals[a].accepted_ns;
            came++;
        }
    }
    free(table);
    return came;
}
