/**
 * Error codes, their names, texts and kinds.
 *
 * Every function that can fail returns an `int`: zero or more is success (sometimes a count), less
 * than zero is one of the codes below. There is no errno and no thread-local state. A call that
 * fails causes no later event.
 *
 * Threads: everything here may be called from any thread. Blocks: never.
 */
#ifndef SOLSEND_ERROR_H
#define SOLSEND_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifndef SOLSEND_API
#if defined(__GNUC__)
#define SOLSEND_API __attribute__((visibility("default")))
#else
#define SOLSEND_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What sort of thing went wrong: decides what a caller can do about it. */
enum {
    SOLSEND_KIND_NONE = 0,      /* success */
    SOLSEND_KIND_AGAIN = 1,     /* try again later: nothing is wrong */
    SOLSEND_KIND_USAGE = 2,     /* the caller's argument, option, key or transaction is wrong */
    SOLSEND_KIND_PEER = 3,      /* the peer refused or ended it */
    SOLSEND_KIND_NETWORK = 4,   /* the way to the peer: silence, routes, sizes, ICMP */
    SOLSEND_KIND_RESOURCE = 5,  /* memory, ports, files, limits of this host */
    SOLSEND_KIND_PRIVILEGE = 6, /* a capability or limit is missing */
    SOLSEND_KIND_INTERNAL = 7   /* a defect of the library or of one below it */
};

/*
 * X(NAME, number, KIND, text). Numbers are part of the ABI: never changed, never reused.
 * To add one: append it to its block, with the next free number.
 */
#define SOLSEND_ERROR_LIST(X)                                                                      \
    X(AGAIN, -1, AGAIN, "not now, try again")                                                      \
    X(FULL, -2, AGAIN, "every slot is in use: drain events first")                                 \
    X(NOT_READY, -3, AGAIN, "the connection is not admitted yet")                                  \
    X(USAGE, -100, USAGE, "an argument is wrong")                                                  \
    X(BAD_SIZE, -101, USAGE, "the struct's size member is wrong")                                  \
    X(BAD_OPTION, -102, USAGE, "an option's value is out of range")                                \
    X(UNKNOWN_OPTION, -103, USAGE, "the struct is newer than the library and uses what it lacks")  \
    X(BAD_URI, -104, USAGE, "the URI is wrong")                                                    \
    X(CLOSED, -105, USAGE, "the link is closed")                                                   \
    X(FORKED, -106, USAGE, "the handle belongs to the parent process")                             \
    X(BAD_ADDRESS, -107, USAGE, "the address is wrong or may not be sent to")                      \
    X(TX_EMPTY, -110, USAGE, "the transaction has no bytes")                                       \
    X(TX_TOO_LARGE, -111, USAGE, "the transaction is larger than its format or the peer allows")   \
    X(TX_MALFORMED, -112, USAGE, "the transaction's bytes are not a transaction")                  \
    X(TX_EXPIRED, -113, USAGE, "the deadline had passed before the call")                          \
    X(KEY_MALFORMED, -120, USAGE, "the key's text is wrong")                                       \
    X(KEY_MISMATCH, -121, USAGE, "the public half does not belong to the secret half")             \
    X(BASE58, -122, USAGE, "a byte is not in the base58 alphabet or the length is wrong")          \
    X(NO_SUCH_TICKET, -130, USAGE, "no open transaction has this ticket")                          \
    X(BUFFER_TOO_SMALL, -131, USAGE, "the output buffer is too small")                             \
    X(CLOSED_BY_PEER, -200, PEER, "the peer closed the connection")                                \
    X(DROPPED, -201, PEER, "the peer evicted the connection (close code 1, dropped)")              \
    X(DISALLOWED, -202, PEER, "the peer disallowed the connection (close code 2)")                 \
    X(STREAM_COUNT, -203, PEER, "too many streams for the peer (close code 3)")                    \
    X(TOO_MANY, -204, PEER, "too many connections of this key or IP (close code 4, too_many)")     \
    X(INVALID_STREAM, -205, PEER, "the peer refused a stream's size (close code 5)")               \
    X(HANDSHAKE_REFUSED, -210, PEER, "the peer refused the handshake")                             \
    X(ALPN_REFUSED, -211, PEER, "the peer does not speak this ALPN")                               \
    X(CERT_REQUIRED, -212, PEER, "the peer demands a client certificate")                          \
    X(CERT_REFUSED, -213, PEER, "the peer refused the client certificate")                         \
    X(PEER_BUSY, -214, PEER, "the peer refused the connection (CONNECTION_REFUSED)")               \
    X(VERSION, -215, PEER, "the peer speaks no QUIC version 1")                                    \
    X(FOREIGN_KEY, -216, PEER, "the peer's key is not the expected one")                           \
    X(STATELESS_RESET, -217, PEER, "the peer lost the connection's state (stateless reset)")       \
    X(PROTOCOL, -218, PEER, "the peer broke the protocol")                                         \
    X(STOPPED, -219, PEER, "the peer stopped reading the stream (STOP_SENDING)")                   \
    X(EARLY_DATA_REFUSED, -220, PEER, "the peer refused 0-RTT data")                               \
    X(HANDSHAKE_TIMEOUT, -300, NETWORK, "the peer was silent during the handshake")                \
    X(IDLE, -301, NETWORK, "the connection timed out in silence")                                  \
    X(PORT_UNREACHABLE, -302, NETWORK, "nothing listens at the peer's port (ICMP)")                \
    X(UNREACHABLE, -303, NETWORK, "no way to the peer's address (ICMP or no route)")               \
    X(NO_ROUTE_FAMILY, -304, NETWORK, "this host has no such address family")                      \
    X(RESOLVE, -305, NETWORK, "the host name could not be resolved")                               \
    X(PATH_TOO_SMALL, -306, NETWORK, "the path carries smaller packets than needed")               \
    X(NOT_ACKED, -310, NETWORK, "written, but not acknowledged before its deadline")               \
    X(NO_CREDIT, -311, NETWORK, "no stream credit came before its deadline")                       \
    X(NO_WINDOW, -312, NETWORK, "the congestion or flow window stayed shut until its deadline")    \
    X(NO_ADMISSION, -313, NETWORK, "the connection was not up before its deadline")                \
    X(NO_BUFFER, -314, NETWORK, "the socket took nothing more before its deadline")                \
    X(ABORTED, -320, NETWORK, "the link was closed before it was acknowledged")                    \
    X(CANCELLED, -321, NETWORK, "cancelled by the caller")                                         \
    X(NETFILTER, -322, NETWORK, "a local packet filter dropped the packet")                        \
    X(MEMORY, -400, RESOURCE, "out of memory")                                                     \
    X(NO_PORT, -401, RESOURCE, "no free local port in the range")                                  \
    X(PORT_IN_USE, -402, RESOURCE, "the local port is in use")                                     \
    X(NO_FILES, -403, RESOURCE, "out of file descriptors")                                         \
    X(CLAMPED, -404, RESOURCE, "the kernel granted less than was asked for")                       \
    X(TLS_POLICY, -405, RESOURCE, "this system's TLS policy forbids what QUIC to a leader needs")  \
    X(LIBRARY, -406, RESOURCE, "a library below is too old or lacks a feature")                    \
    X(FILE, -407, RESOURCE, "the file could not be read")                                          \
    X(NOT_SUPPORTED, -408, RESOURCE, "this kernel or build does not have it")                      \
    X(NO_CPU, -409, RESOURCE, "the CPU is not in the allowed set")                                 \
    X(NO_ADDRESS, -410, RESOURCE, "the local address to bind is not on this host")                 \
    X(PRIVILEGE, -500, PRIVILEGE, "a capability or a resource limit is missing")                   \
    X(REFUSED_UNSAFE, -501, PRIVILEGE, "refused: it would stall this host, force it to have it")   \
    X(INTERNAL, -600, INTERNAL, "a defect in the library or in one below it")

enum {
    SOLSEND_OK = 0,
#define SOLSEND_ERROR_ENUM(name, number, kind, text) SOLSEND_ERR_##name = number,
    SOLSEND_ERROR_LIST(SOLSEND_ERROR_ENUM)
#undef SOLSEND_ERROR_ENUM
};

/**
 * What exactly is wrong, filled by functions that parse or open something.
 *
 * `text` is zero-terminated English that names the member, key or byte; it never holds a secret.
 * `offset` is the position of the first wrong byte in the input, or SOLSEND_NO_OFFSET.
 * Frozen at 256 bytes. Written only on failure. A null pointer is always allowed.
 */
typedef struct solsend_detail {
    int32_t code;
    uint32_t offset;
    char text[248];
} solsend_detail;

#define SOLSEND_NO_OFFSET UINT32_MAX

/** The code's name without its prefix, for example "NO_CREDIT"; "OK" for >= 0, "?" if unknown. */
SOLSEND_API const char *solsend_error_name(int code);

/** One English sentence for the code, without a full stop. Static memory. */
SOLSEND_API const char *solsend_error_text(int code);

/** One of SOLSEND_KIND_…; SOLSEND_KIND_NONE for >= 0, SOLSEND_KIND_INTERNAL if unknown. */
SOLSEND_API int solsend_error_kind(int code);

/** Fills `codes` with every known code, at most `max` of them. Returns how many there are. */
SOLSEND_API int solsend_error_codes(int32_t *codes, uint32_t max);

#ifdef __cplusplus
}
#endif
#endif
