/*
 * The client certificate that leaders know: 249 bytes of DER of which only the Ed25519 key differs.
 * Agave makes exactly these bytes (tls-utils/src/tls_certificates.rs, new_dummy_x509_certificate);
 * Firedancer does not parse certificates but compares with them (src/waltz/tls).
 */
#ifndef LINK_CERT_H
#define LINK_CERT_H

#include <stddef.h>
#include <stdint.h>

enum { CERT_BYTES = 249, CERT_KEY_OFFSET = 100, CERT_KEY_BYTES = 32 };

/* Writes the certificate of `public_key`. */
void cert_write(uint8_t out[CERT_BYTES], const uint8_t public_key[CERT_KEY_BYTES]);

#endif
