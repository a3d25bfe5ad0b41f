/* One QUIC connection of the server. */
#ifndef MOCK_CONNECTION_H
#define MOCK_CONNECTION_H

#include "mock/reassembly.h"
#include "mock/server.h"

#include "link/tls_guard.h"

#define CONNECTION_PACKET_BYTES 1472u

enum connection_state {
    CONNECTION_HANDSHAKE,
    CONNECTION_OPEN,     /* handshake complete; admitted or not */
    CONNECTION_CLOSING,  /* we closed: repeats its close */
    CONNECTION_DRAINING, /* the peer closed: silent */
    CONNECTION_DEAD,     /* freed by the next server_run */
};

/* An end that was decided inside a callback and is carried out after it. */
enum connection_doom { CONNECTION_NO_DOOM, CONNECTION_DOOM_CLOSE, CONNECTION_DOOM_FORGET };

struct connection {
    struct credentials_peer credentials; /* first: see there */
    struct server *server;
    struct connection *prev, *next;
    struct connection *dirty_next;
    struct admission_seat seat;
    struct timer timer;
    ngtcp2_conn *quic;
    gnutls_session_t tls;
    struct tls_guard guard;
    enum connection_state state;
    enum connection_doom doom;
    uint64_t doom_code;
    const char *doom_reason;
    int is_dirty;
    int by_peer; /* who ended it */
    int staked;
    struct sockname peer; /* where to send to */
    struct sockname path; /* the address the connection began with */
    ngtcp2_cid hello_cid; /* the client's first choice */
    uint8_t ip[16];
    struct reassembly reassembly;
    /* Credit in streams. */
    int credit_managed; /* else the transport parameter said it all */
    uint64_t window, granted, finished;
    uint64_t grant_ns; /* when the first grant is due; 0: not waiting for one */
    /* What packets.c sees. */
    uint64_t hello_held; /* ClientHello bytes that came in order */
    uint64_t packets_1rtt;
    uint64_t key_update_at; /* packets_1rtt at the last key update we started */
    uint8_t key_phase;
    /* Acknowledgements held back. */
    uint64_t hold_since_ns; /* oldest packet that waits for its ACK; 0: none */
    uint64_t hold_bytes;
    int settled; /* what a handshake must bring has left */
    /* Times and counts. */
    uint64_t received_ns; /* stamp of the datagram being read */
    uint64_t heard_ns;    /* newest datagram */
    uint64_t now_ns;      /* of the call in progress */
    uint64_t started_ns, completed_ns, admitted_ns, ended_ns, linger_ns, max_data_ns;
    uint64_t streams, accepted, packets, rtt_ns;
    uint64_t close_repeats;
    size_t close_bytes;
    uint8_t close_packet[CONNECTION_PACKET_BYTES];
    char end[64];
};

struct connection_hello {
    const ngtcp2_pkt_hd *header;
    ngtcp2_cid original_cid; /* before a Retry; else the header's dcid */
    int retried;
    const uint8_t *token; /* a valid one of ours, or null */
    size_t token_bytes;
    ngtcp2_token_type token_type;
};

/* Makes a connection for an Initial; its datagram is then read by connection_read. Null: failed. */
struct connection *connection_open(struct server *server, const struct connection_hello *hello,
                                   const struct sockname *from, uint64_t now_ns);

void connection_read(struct connection *c, const struct sockname *from, const uint8_t *data,
                     size_t bytes, uint64_t received_ns, uint64_t now_ns);

/* Decides its end; carried out by pulse_settle. The first decision counts. */
void connection_doom(struct connection *c, uint64_t code, const char *reason);

/* Has something to write or to end. */
void connection_mark(struct connection *c);

/* Frees a dead one. */
void connection_free(struct connection *c);

/* ---- for reassembly.c ------------------------------------------------------------------------ */

/* A whole transaction was read. */
void connection_transaction(struct connection *c, const uint8_t *wire, size_t bytes,
                            uint32_t frames, uint64_t received_ns);

/* A stream is over, read or given up: its credit comes back. */
void connection_stream_over(struct connection *c, uint64_t now_ns);

/* Stops a stream's sender: STOP_SENDING 0. */
void connection_stop_stream(struct connection *c, uint64_t ordinal, uint64_t code);

/* Bytes of a stream were read: windows move. */
void connection_consumed(struct connection *c, uint64_t ordinal, uint64_t bytes, int stream_too);

/* ---- credit.c ---------------------------------------------------------------------------------
 */

/* Raises the peer's stream limit if it is due; `force`: by however little. */
void credit_refresh(struct connection *c, int force);

#endif
