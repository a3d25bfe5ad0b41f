/**
 * The event record: what happened to a transaction or to a link.
 *
 * The words are not synonyms. Written: the socket took the packet that carries the whole
 * transaction. Acked: the peer's QUIC stack acknowledged every byte; it does not mean that the
 * leader kept it, packed it or that it landed. Everything else is a way to end without that.
 */
#ifndef SOLSEND_EVENT_H
#define SOLSEND_EVENT_H

#include <solsend/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** `solsend_event.kind`. A ticket has exactly one terminal event, and it is its last. */
enum {
    /* of one transaction */
    SOLSEND_EVENT_WRITTEN = 1,   /* reported when the send call itself could not write it, or when
                                    refused 0-RTT was written again; on UDP terminal.
                                    value: ns from the call to the wire */
    SOLSEND_EVENT_ACKED = 2,     /* terminal. value: ns from the wire to the ACK's arrival */
    SOLSEND_EVENT_EXPIRED = 3,   /* terminal. code says what it waited for: NO_ADMISSION, NO_CREDIT,
                                    NO_WINDOW, NO_BUFFER (never on the wire) or NOT_ACKED.
                                    value: ns from the call to the end */
    SOLSEND_EVENT_CLOSED = 4,    /* terminal. The link ended first; code and peer_code say how */
    SOLSEND_EVENT_STOPPED = 5,   /* terminal. The peer stopped reading this stream (peer_code) */
    SOLSEND_EVENT_CANCELLED = 6, /* terminal. The caller took it back */

    /* of the link: coalesced, so that they cannot overflow; ticket and user are zero */
    SOLSEND_EVENT_LINK_CONNECTED = 32, /* handshake done. value: ns since open */
    SOLSEND_EVENT_LINK_ADMITTED = 33,  /* the peer granted streams. value: streams granted */
    SOLSEND_EVENT_LINK_CLOSED = 34,    /* the link ended; code and peer_code say how */
    SOLSEND_EVENT_LINK_PATH = 35,   /* the path carries less. value: new UDP payload cap, bytes */
    SOLSEND_EVENT_LINK_PARKED = 36, /* stream credit ran out. value: transactions waiting */
    SOLSEND_EVENT_LINK_CREDIT = 37, /* credit came back. value: streams left */
    SOLSEND_EVENT_LINK_KEY = 38     /* the peer's key is not the expected one */
};

/** One event. Frozen at 64 bytes. Times are ns of solsend_now_ns(). */
typedef struct solsend_event {
    uint32_t kind;      /* SOLSEND_EVENT_… */
    uint32_t lane;      /* lane index in a client; 0 on a link */
    uint32_t peer;      /* peer index in a client; 0 on a link */
    int32_t code;       /* 0 or SOLSEND_ERR_… */
    uint64_t peer_code; /* the QUIC error or close code as the peer sent it, else 0 */
    uint64_t ticket;    /* of the send call */
    uint64_t user;      /* the caller's own number from the send call */
    uint64_t t_ns;      /* when it happened */
    uint64_t value;     /* see the kinds */
    uint64_t reserved;
} solsend_event;

/** "written", "acked", …; "?" if unknown. Static memory. */
SOLSEND_API const char *solsend_event_name(uint32_t kind);

/** 1 if the kind is the last one of its ticket on a QUIC link, else 0. */
SOLSEND_API int solsend_event_is_terminal(uint32_t kind);

#ifdef __cplusplus
}
#endif
#endif
