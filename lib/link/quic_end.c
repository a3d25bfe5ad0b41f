#include "link/quic_end.h"

#include <gnutls/gnutls.h>
#include <stdio.h>

#include <solsend/error.h>

static int of_alert(unsigned alert)
{
    switch (alert) {
    case 116: /* certificate_required, RFC 8446 section 6 */
        return SOLSEND_ERR_CERT_REQUIRED;
    case GNUTLS_A_NO_APPLICATION_PROTOCOL:
        return SOLSEND_ERR_ALPN_REFUSED;
    case GNUTLS_A_BAD_CERTIFICATE:
    case GNUTLS_A_UNSUPPORTED_CERTIFICATE:
    case GNUTLS_A_CERTIFICATE_REVOKED:
    case GNUTLS_A_CERTIFICATE_EXPIRED:
    case GNUTLS_A_CERTIFICATE_UNKNOWN:
    case GNUTLS_A_UNKNOWN_CA:
        return SOLSEND_ERR_CERT_REFUSED;
    default:
        return SOLSEND_ERR_HANDSHAKE_REFUSED;
    }
}

static int of_transport_code(uint64_t code)
{
    if (code >= NGTCP2_CRYPTO_ERROR && code < NGTCP2_CRYPTO_ERROR + 0x100) {
        return of_alert((unsigned)(code - NGTCP2_CRYPTO_ERROR));
    }
    switch (code) {
    case NGTCP2_CONNECTION_REFUSED:
        return SOLSEND_ERR_PEER_BUSY;
    case NGTCP2_APPLICATION_ERROR:
        /* an application close during the handshake, its code hidden (RFC 9000 section 10.2.3) */
        return SOLSEND_ERR_HANDSHAKE_REFUSED;
    default:
        return SOLSEND_ERR_CLOSED_BY_PEER;
    }
}

static int of_application_code(uint64_t code)
{
    switch (code) {
    case 1:
        return SOLSEND_ERR_DROPPED;
    case 2:
        return SOLSEND_ERR_DISALLOWED;
    case 3:
        return SOLSEND_ERR_STREAM_COUNT;
    case 4:
        return SOLSEND_ERR_TOO_MANY;
    case 5:
        return SOLSEND_ERR_INVALID_STREAM;
    default:
        return SOLSEND_ERR_CLOSED_BY_PEER;
    }
}

int quic_end_of_peer_close(const ngtcp2_ccerr *error, char *text, size_t text_bytes)
{
    char reason[49];
    size_t n = 0;
    for (; n < error->reasonlen && n + 1 < sizeof reason; n++) {
        uint8_t b = error->reason[n];
        reason[n] = b >= ' ' && b <= '~' ? (char)b : '?';
    }
    reason[n] = 0;
    int application = error->type == NGTCP2_CCERR_TYPE_APPLICATION;
    snprintf(text, text_bytes, "%s close 0x%llx \"%s\"", application ? "application" : "transport",
             (unsigned long long)error->error_code, reason);
    return application ? of_application_code(error->error_code)
                       : of_transport_code(error->error_code);
}

int quic_end_of_library_error(int error)
{
    switch (error) {
    case NGTCP2_ERR_IDLE_CLOSE:
        return SOLSEND_ERR_IDLE;
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
        return SOLSEND_ERR_HANDSHAKE_TIMEOUT;
    case NGTCP2_ERR_RECV_VERSION_NEGOTIATION:
    case NGTCP2_ERR_VERSION_NEGOTIATION_FAILURE:
        return SOLSEND_ERR_VERSION;
    case NGTCP2_ERR_CRYPTO:
        return SOLSEND_ERR_HANDSHAKE_REFUSED;
    case NGTCP2_ERR_NOMEM:
        return SOLSEND_ERR_MEMORY;
    case NGTCP2_ERR_INVALID_ARGUMENT:
    case NGTCP2_ERR_INVALID_STATE:
    case NGTCP2_ERR_INTERNAL:
    case NGTCP2_ERR_CALLBACK_FAILURE:
        return SOLSEND_ERR_INTERNAL;
    default:
        return SOLSEND_ERR_PROTOCOL;
    }
}
