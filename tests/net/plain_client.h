/*
 * A deliberately naive QUIC client for testing the mock: ngtcp2 and GnuTLS with nothing of the
 * library in between, and with options to do what a good client does not.
 */
#ifndef PLAIN_CLIENT_H
#define PLAIN_CLIENT_H

#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdint.h>

/* What a later connection needs for 0-RTT. */
struct plain_ticket {
    uint8_t session[4096], params[256];
    size_t session_bytes, params_bytes; /* 0: none came */
};

struct plain_options {
    const char *bind;   /* source address; null: the kernel's */
    const char *alpn;   /* null: solana-tpu; "": none at all */
    const uint8_t *der; /* certificate instead of the 249 bytes of leaders */
    uint32_t der_bytes;
    uint8_t seed; /* 32 of them are the identity's secret */
    int no_certificate;
    int chain;                         /* sends its certificate twice */
    int split_hello;                   /* the ClientHello's second half before its first */
    uint32_t retry_pause_ms;           /* thinks so long about a Retry */
    const struct plain_ticket *ticket; /* resumes with it, and sends early */
    uint32_t payload;                  /* UDP payload; 0: 1472 */
};

struct plain {
    int fd;
    struct plain_options options;
    struct sockaddr_in local, remote;
    ngtcp2_conn *quic;
    gnutls_session_t tls;
    gnutls_certificate_credentials_t credentials;
    ngtcp2_crypto_conn_ref ref;
    uint8_t public_key[32];
    /* What happened. */
    int completed, confirmed, retries, version_negotiated, reset_seen, ended, end_rv;
    int resumed, early_refused;
    struct plain_ticket ticket;
    int stops;        /* streams that the peer stopped */
    uint64_t granted; /* the peer's stream limit */
    uint64_t acked_streams;
    uint64_t key_updates;
    uint64_t received; /* datagrams */
    int closed;        /* the peer sent CONNECTION_CLOSE */
    int close_application;
    uint64_t close_code;
    char close_reason[32];
    uint8_t server_key[32];
    ngtcp2_transport_params peer;
    /* Tricks. */
    int swap_next; /* the next packet leaves after the one behind it */
    uint8_t held[1500];
    size_t held_bytes;
    uint64_t pause_until_ns;
    void *memory; /* copies of what was sent, until plain_close */
};

/* Starts a handshake with 127.0.0.1:port. Returns 0 or -1. */
int plain_open(struct plain *p, uint16_t port, const struct plain_options *options);
void plain_close(struct plain *p);

/* Tells the peer goodbye: CONNECTION_CLOSE 0. */
void plain_goodbye(struct plain *p);

/* Reads, runs timers and writes for so long. */
void plain_run(struct plain *p, uint32_t ms);

/* The same until *flag reaches `value`, the connection ends or the time is over. Returns *flag. */
int plain_until(struct plain *p, const int *flag, int value, uint32_t ms);
uint64_t plain_until_count(struct plain *p, const uint64_t *count, uint64_t value, uint32_t ms);

/* Streams that may be opened now. */
uint64_t plain_streams_left(const struct plain *p);

/* One stream with all of it and FIN. Returns its id, or -1 when there is no credit. */
int64_t plain_send(struct plain *p, const uint8_t *data, size_t bytes);

/* A stream by hand. plain_write waits up to 3 s for a window. */
int64_t plain_stream(struct plain *p);
int plain_write(struct plain *p, int64_t stream, const uint8_t *data, size_t bytes, int fin);

#endif
