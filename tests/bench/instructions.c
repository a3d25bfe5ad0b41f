/*
 * The program that callgrind watches: it sends warm transactions, each through one function whose
 * instructions are collected. What is switched on is its argument, so that two runs differ by one
 * feature.
 *
 *     instructions SENDS BYTES [deadline] [events] [shadow] [stamps]
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <solsend/solsend.h>

#include "bench/receiver.h"
#include "bench/wires.h"

#define INSTRUCTIONS_WARM 300u

struct instructions {
    solsend_key *key;
    solsend_shadow *shadow;
    solsend_link *link;
    struct receiver receiver;
    struct wires wires;
    solsend_send send;
    int deadline;
};

/* Named on callgrind's command line: what runs inside is collected. */
int instructions_measured(solsend_link *link, const solsend_send *send, uint64_t *ticket);

__attribute__((noinline)) int instructions_measured(solsend_link *link, const solsend_send *send,
                                                    uint64_t *ticket)
{
    int rc = solsend_link_send(link, send, ticket);
    __asm__ volatile("" ::: "memory"); /* no tail call: the return belongs to the function */
    return rc;
}

/* Polls until every transaction has ended: the next send finds the link at rest. */
static int instructions_settle(struct instructions *x)
{
    solsend_event events[64];
    solsend_link_info info = {.size = sizeof info};
    for (int i = 0; i < 20000; i++) {
        struct pollfd p = {solsend_link_fd(x->link), POLLIN, 0};
        int rc = solsend_link_poll(x->link);
        while (solsend_link_drain(x->link, events, 64) == 64) {
        }
        if (rc < 0) {
            return rc;
        }
        solsend_link_info_get(x->link, &info);
        if (info.open == 0) {
            return 0;
        }
        (void)poll(&p, 1, 1);
    }
    return SOLSEND_ERR_NOT_ACKED;
}

static int instructions_send(struct instructions *x, uint32_t index, int measured)
{
    uint64_t ticket;
    int rc;
    x->send.wire = wires_at(&x->wires, index);
    x->send.wire_bytes = x->wires.bytes;
    if (x->deadline) {
        x->send.deadline_ns = solsend_now_ns() + UINT64_C(600000000000);
    }
    rc = measured ? instructions_measured(x->link, &x->send, &ticket)
                  : solsend_link_send(x->link, &x->send, &ticket);
    if (rc != 1) {
        fprintf(stderr, "instructions: send %u: %s\n", index,
                rc == 0 ? "was not written at once" : solsend_error_text(rc));
        return -1;
    }
    /* a few in flight, as in real use */
    return index % 4 == 3 ? instructions_settle(x) : 0;
}

static int instructions_open(struct instructions *x, uint32_t sends, uint32_t bytes, int argc,
                             char **argv)
{
    struct receiver_config config = {.profile = "agave-4.3", .cpu = -1, .arrivals = 16};
    solsend_link_options o;
    char why[300];
    int rc;
    if (solsend_key_random(&x->key) != 0 ||
        wires_open(&x->wires, x->key, bytes, sends, NULL, why, sizeof why) != 0) {
        fprintf(stderr, "instructions: no transactions\n");
        return -1;
    }
    config.identity = x->key;
    if (receiver_open(&x->receiver, &config, why, sizeof why) != 0) {
        fprintf(stderr, "instructions: %s\n", why);
        return -1;
    }
    solsend_link_options_init(&o, sizeof o);
    solsend_send_init(&x->send, sizeof x->send);
    o.identity = x->key;
    o.handshake_timeout_ms = 60000; /* an emulated CPU is slow */
    o.keep_hot_us = 60000000;
    x->send.quiet = 1;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "deadline") == 0) {
            x->deadline = 1;
        } else if (strcmp(argv[i], "events") == 0) {
            x->send.quiet = 0;
        } else if (strcmp(argv[i], "stamps") == 0) {
            o.stamp_every = 16;
        } else if (strcmp(argv[i], "shadow") == 0 &&
                   solsend_shadow_open(&x->shadow, NULL, NULL) == 0) {
            o.shadow = x->shadow;
        } else {
            fprintf(stderr, "instructions: %s: unknown, or it failed\n", argv[i]);
            return -1;
        }
    }
    rc = solsend_link_open(&x->link, x->receiver.uri, &o, NULL);
    if (rc == 0) {
        rc = solsend_link_wait_admitted(x->link, 60000);
    }
    if (rc != 0) {
        fprintf(stderr, "instructions: %s\n", solsend_error_text(rc));
    }
    return rc;
}

int main(int argc, char **argv)
{
    static struct instructions x;
    uint32_t sends, bytes;
    int rc;
    if (argc < 3 || (sends = (uint32_t)atoi(argv[1])) == 0 || sends > 1000000 ||
        (bytes = (uint32_t)atoi(argv[2])) == 0) {
        fputs("usage: instructions SENDS BYTES [deadline] [events] [shadow] [stamps]\n", stderr);
        return 2;
    }
    rc = instructions_open(&x, sends + INSTRUCTIONS_WARM, bytes, argc - 3, argv + 3);
    for (uint32_t i = 0; rc == 0 && i < sends + INSTRUCTIONS_WARM; i++) {
        rc = instructions_send(&x, i, i >= INSTRUCTIONS_WARM);
    }
    if (rc == 0) {
        rc = instructions_settle(&x);
    }
    solsend_link_close(x.link, 0);
    solsend_shadow_close(x.shadow);
    if (x.receiver.mock != NULL) {
        receiver_close(&x.receiver);
    }
    wires_close(&x.wires);
    solsend_key_close(x.key);
    return rc != 0;
}
