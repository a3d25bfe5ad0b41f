/* TLS 1.3 by GnuTLS as leaders want it: AES-128-GCM, X25519, Ed25519, ALPN, a client certificate.
 */
#ifndef LINK_TLS_H
#define LINK_TLS_H

#include <gnutls/gnutls.h>
#include <stdint.h>

#include <solsend/key.h>

#define TLS_ALPN_DEFAULT "solana-tpu"

struct tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

enum tls_role { TLS_CLIENT, TLS_SERVER };

struct tls_wishes {
    enum tls_role role;
    const solsend_key *identity; /* null: no certificate */
    const char *alpn;
    const char *sni; /* clients only */
    int early_data;  /* clients only: offer 0-RTT when a ticket is set */
    void *conn_ref;  /* ngtcp2_crypto_conn_ref */
};

/*
 * Returns 0 or TLS_POLICY (the system's GnuTLS configuration forbids what is needed), LIBRARY,
 * MEMORY. The first call of a process proves the policy with a handshake in memory.
 */
int tls_open(struct tls *tls, const struct tls_wishes *wishes, solsend_detail *detail);
void tls_close(struct tls *tls);

/* Copies the Ed25519 key of a certificate; 0, or -1 if it is no certificate or has another key. */
int tls_certificate_key(const uint8_t *der, size_t bytes, uint8_t out[32]);

/* The same of the peer's certificate; -1 too if it sent none. */
int tls_peer_key(const struct tls *tls, uint8_t out[32]);

#endif
