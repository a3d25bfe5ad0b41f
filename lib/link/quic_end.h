/* Translating how a QUIC connection ended into the library's codes. */
#ifndef LINK_QUIC_END_H
#define LINK_QUIC_END_H

#include <ngtcp2/ngtcp2.h>
#include <stddef.h>

/*
 * From the CONNECTION_CLOSE that the peer sent. Application codes are Agave's
 * (streamer/src/nonblocking/quic.rs, quic.rs); TLS alerts arrive as 0x100 + alert (RFC 9001
 * section 4.8). `text` receives the code and the peer's reason phrase, printable ASCII only.
 */
int quic_end_of_peer_close(const ngtcp2_ccerr *error, char *text, size_t text_bytes);

/* From an ngtcp2 error that ended the connection on our side. */
int quic_end_of_library_error(int error);

#endif
