/* The TLS side of the server: its certificate, and what it makes of the client's. */
#ifndef MOCK_CREDENTIALS_H
#define MOCK_CREDENTIALS_H

#include "mock/fault.h"
#include "mock/profile.h"

#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2_crypto.h>

struct credentials {
    gnutls_certificate_credentials_t own;
    gnutls_certificate_credentials_t foreign; /* of a key that nobody was told about */
    gnutls_priority_t priority;
    gnutls_datum_t ticket_key;
    gnutls_anti_replay_t anti_replay; /* lets every early datum pass: it is a mock */
    uint8_t identity[32];
};

/* What one handshake says about its client; embedded in the connection. */
struct credentials_peer {
    ngtcp2_crypto_conn_ref ref; /* first: GnuTLS hands it back as the session's pointer */
    enum profile_certificate policy;
    uint8_t key[32];
    int key_known;
    uint8_t alert; /* the TLS alert that real leaders would send; 0: ngtcp2's own */
};

/* Keys are made from the seed: the same seed, the same identity. Returns 0 or -1 with `why`. */
int credentials_open(struct credentials *credentials, const struct profile *profile, uint64_t seed,
                     char *why, size_t why_bytes);
void credentials_close(struct credentials *credentials);

/* A session for one connection; `peer` outlives it. Null: no memory. */
gnutls_session_t credentials_session(const struct credentials *credentials,
                                     const struct profile *profile, const struct fault *fault,
                                     struct credentials_peer *peer);

/* To call when the handshake is complete: reads the key of a resumed session, sends tickets. */
void credentials_completed(gnutls_session_t session, const struct profile *profile);

/* The 249 bytes every validator and client shows, with this key in them. */
#define CREDENTIALS_CERTIFICATE_BYTES 249u
void credentials_certificate(const uint8_t key[32], uint8_t out[CREDENTIALS_CERTIFICATE_BYTES]);

#endif
