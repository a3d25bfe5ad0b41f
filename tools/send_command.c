/* `solsend send`: one transaction over one link, and what became of it, word by word. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <solsend/solsend.h>

static const char send_help[] =
    "Usage: solsend send URI [options]\n"
    "\n"
    "Opens quic://HOST:PORT or udp://HOST:PORT, sends one transaction and waits for its end.\n"
    "Exit status 0 when it was acknowledged (QUIC) or written (UDP). An ACK is the peer's network\n"
    "stack's word: it does not mean that the transaction was kept or that it landed.\n"
    "\n"
    "  --file FILE     the signed transaction's bytes, - for standard input; default: a transfer\n"
    "                  of one lamport to itself with a zero blockhash, good for a mock only\n"
    "  --key SOURCE    identity and payer: a key file or env:NAME; default a fresh key\n"
    "  --timeout MS    for the connection and for the ACK, each; default 2000\n";

struct send_run {
    const char *uri, *file, *key_source;
    uint32_t timeout_ms;
    solsend_key *key;
    uint8_t wire[SOLSEND_TX_V1_BYTES_MAX];
    uint32_t wire_bytes;
    char why[400];
};

/* Returns 0, 1 after help, 2 for wrong usage. */
static int send_options(struct send_run *r, int argc, char **argv)
{
    static const struct option options[] = {{"file", required_argument, NULL, 'f'},
                                            {"key", required_argument, NULL, 'k'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    char *end;
    opterr = 0;
    optind = 1;
    r->timeout_ms = 2000;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            r->file = optarg;
            break;
        case 'k':
            r->key_source = optarg;
            break;
        case 't':
            r->timeout_ms = (uint32_t)strtoul(optarg, &end, 10);
            if (*optarg == 0 || *end != 0 || r->timeout_ms == 0 || r->timeout_ms > 600000) {
                fprintf(stderr, "solsend send: --timeout %s: expected 1 to 600000\n", optarg);
                return 2;
            }
            break;
        case 'h':
            fputs(send_help, stdout);
            return 1;
        default:
            fprintf(stderr, "solsend send: %s %s\n", argv[optind - 1],
                    option == ':' ? "needs a value" : "is no option (see solsend send --help)");
            return 2;
        }
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "solsend send: %s (see solsend send --help)\n",
                optind == argc ? "a URI is missing" : "one URI is enough");
        return 2;
    }
    r->uri = argv[optind];
    return 0;
}

static int send_failed(struct send_run *r, const char *what, int code, const solsend_detail *detail)
{
    snprintf(r->why, sizeof r->why, "%s: %s", what,
             detail != NULL && detail->text[0] != 0 ? detail->text : solsend_error_text(code));
    return code;
}

static int send_read(struct send_run *r)
{
    solsend_detail detail = {0};
    int from_stdin = strcmp(r->file, "-") == 0, rc;
    FILE *f = from_stdin ? stdin : fopen(r->file, "re");
    if (f == NULL) {
        snprintf(r->why, sizeof r->why, "%s: %s", r->file, strerror(errno));
        return SOLSEND_ERR_FILE;
    }
    r->wire_bytes = (uint32_t)fread(r->wire, 1, sizeof r->wire, f);
    rc = r->wire_bytes == sizeof r->wire && fgetc(f) != EOF
             ? SOLSEND_ERR_TX_TOO_LARGE
             : solsend_tx_check(r->wire, r->wire_bytes, &detail);
    if (!from_stdin) {
        fclose(f);
    }
    return rc < 0 ? send_failed(r, r->file, rc, &detail) : 0;
}

static int send_prepare(struct send_run *r)
{
    solsend_detail detail = {0};
    solsend_transfer transfer;
    int rc = r->key_source == NULL ? solsend_key_random(&r->key)
                                   : solsend_key_open(&r->key, r->key_source, &detail);
    if (rc != 0) {
        return send_failed(r, "--key", rc, &detail);
    }
    if (r->file != NULL) {
        return send_read(r);
    }
    solsend_transfer_init(&transfer, sizeof transfer);
    transfer.payer = r->key;
    rc = solsend_tx_transfer(r->wire, sizeof r->wire, &transfer);
    if (rc < 0) {
        return send_failed(r, "transfer", rc, NULL);
    }
    r->wire_bytes = (uint32_t)rc;
    return 0;
}

/* Prints one event; returns 1 if it was the transaction's last. */
static int send_event(const solsend_event *e, int udp)
{
    printf("%-14s %10.1f us", solsend_event_name(e->kind), (double)e->value / 1000);
    if (e->code != 0) {
        printf("  %s: %s", solsend_error_name(e->code), solsend_error_text(e->code));
    }
    if (e->peer_code != 0) {
        printf("  (peer's code %" PRIu64 ")", e->peer_code);
    }
    putchar('\n');
    return e->ticket != 0 &&
           (solsend_event_is_terminal(e->kind) || (udp && e->kind == SOLSEND_EVENT_WRITTEN));
}

static int send_wait(struct send_run *r, solsend_link *link, int udp, int written)
{
    uint64_t end = solsend_now_ns() + (uint64_t)r->timeout_ms * 1000000;
    solsend_event events[16];
    while (solsend_now_ns() < end) {
        int rc = solsend_link_poll(link), n = solsend_link_drain(link, events, 16);
        for (int i = 0; i < n; i++) {
            if (udp && written && events[i].kind == SOLSEND_EVENT_WRITTEN) {
                return 0; /* said already, when the call returned */
            }
            if (events[i].ticket != 0 && send_event(&events[i], udp)) {
                return events[i].kind == SOLSEND_EVENT_ACKED ||
                               (udp && events[i].kind == SOLSEND_EVENT_WRITTEN)
                           ? 0
                           : send_failed(r, r->uri, events[i].code, NULL);
            }
        }
        if (rc < 0 && n <= 0) {
            return send_failed(r, r->uri, rc, NULL);
        }
    }
    return send_failed(r, r->uri, SOLSEND_ERR_NOT_ACKED, NULL);
}

static int send_over(struct send_run *r)
{
    int udp = strncmp(r->uri, "udp:", 4) == 0, rc;
    solsend_link_info info = {.size = sizeof info};
    solsend_link_options options;
    solsend_detail detail = {0};
    solsend_link *link = NULL;
    solsend_send send;
    uint64_t start;
    solsend_link_options_init(&options, sizeof options);
    options.identity = r->key;
    rc = solsend_link_open(&link, r->uri, &options, &detail);
    if (rc != 0) {
        return send_failed(r, r->uri, rc, &detail);
    }
    rc = solsend_link_wait_admitted(link, r->timeout_ms);
    if (rc == 0 && solsend_link_info_get(link, &info) == 0 && !udp) {
        printf("%-14s %10.1f us\n%-14s %10.1f us  %" PRIu64 " streams granted\n", "connected",
               (double)info.connected_ns / 1000, "admitted", (double)info.admitted_ns / 1000,
               info.streams_granted);
    }
    if (rc == 0) {
        solsend_send_init(&send, sizeof send);
        send.wire = r->wire;
        send.wire_bytes = r->wire_bytes;
        start = solsend_now_ns();
        rc = solsend_link_send(link, &send, NULL);
        if (rc == 1) {
            printf("%-14s %10.1f us  %u bytes\n", "written",
                   (double)(solsend_now_ns() - start) / 1000, r->wire_bytes);
        }
    }
    rc = rc < 0 ? send_failed(r, r->uri, rc, NULL) : send_wait(r, link, udp, rc);
    solsend_link_close(link, 0);
    return rc;
}

int send_command(int argc, char **argv)
{
    static struct send_run r;
    int rc = send_options(&r, argc, argv);
    if (rc != 0) {
        return rc == 1 ? 0 : rc;
    }
    rc = send_prepare(&r);
    if (rc == 0) {
        rc = send_over(&r);
    }
    if (rc != 0) {
        fprintf(stderr, "solsend send: %s\n", r.why);
    }
    solsend_key_close(r.key);
    return rc != 0;
}
