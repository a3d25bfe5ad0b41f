/* SPDX-License-Identifier: 0BSD
 * Sends one transfer over one QUIC link and says what became of it.
 * A mock leader does not look at the blockhash; a real one wants a recent one. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <solsend/solsend.h>

static int fail(const char *what, int code, const char *text)
{
    fprintf(stderr, "%s: %s: %s\n", what, solsend_error_name(code), text);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fail("usage", SOLSEND_ERR_USAGE, "send_one KEYFILE quic://HOST:PORT [BLOCKHASH]");
    uint64_t start = solsend_now_ns();
    const char *blockhash = argc > 3 ? argv[3] : "11111111111111111111111111111111";
    solsend_key *key;
    solsend_link *link;
    solsend_detail why = {0};
    int rc = solsend_key_open(&key, argv[1], &why);
    if (rc < 0)
        return fail("key", rc, why.text);
    solsend_link_options options;
    solsend_link_options_init(&options, sizeof options);
    options.identity = key;
    if ((rc = solsend_link_open(&link, argv[2], &options, &why)) < 0)
        return fail("link", rc, why.text);

    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    solsend_transfer transfer;
    solsend_transfer_init(&transfer, sizeof transfer);
    transfer.payer = key;
    rc = solsend_base58_decode(transfer.blockhash, 32, blockhash, strlen(blockhash), &why);
    if (rc < 0)
        return fail("blockhash", rc, why.text);
    solsend_send send;
    solsend_send_init(&send, sizeof send);
    send.wire = wire;
    send.wire_bytes = (uint32_t)solsend_tx_transfer(wire, sizeof wire, &transfer);
    send.deadline_ns = solsend_now_ns() + 3000000000;
    if ((rc = solsend_link_wait_admitted(link, 2000)) < 0)
        return fail("admission", rc, solsend_error_text(rc));
    if ((rc = solsend_link_send(link, &send, NULL)) < 0)
        return fail("send", rc, solsend_error_text(rc));
    solsend_event event = {0};
    while (!solsend_event_is_terminal(event.kind)) {
        poll(&(struct pollfd){.fd = solsend_link_fd(link), .events = POLLIN}, 1, 1);
        solsend_link_poll(link);
        while (!solsend_event_is_terminal(event.kind) && solsend_link_drain(link, &event, 1) == 1)
            printf("%8.3f ms  %s\n", (event.t_ns - start) / 1e6, solsend_event_name(event.kind));
    }
    solsend_link_close(link, 200);
    solsend_key_close(key);
    return event.kind != SOLSEND_EVENT_ACKED;
}
