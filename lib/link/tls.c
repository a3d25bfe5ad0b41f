#include "link/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/detail.h"
#include "link/cert.h"
#include "tx/key.h"

/*
 * X25519 alone keeps the ClientHello in one datagram and is all that Agave takes; the others would
 * cost a round trip (HelloRetryRequest). Both ends hold Ed25519 certificates.
 */
static const char priority_text[] =
    "NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+SHA256:+GROUP-X25519:+SIGN-EDDSA-ED25519:"
    "+SIGN-ECDSA-SECP256R1-SHA256:+SIGN-RSA-PSS-RSAE-SHA256:+SIGN-RSA-PSS-SHA256:+CTYPE-X509:"
    "+COMP-NULL:%DISABLE_TLS13_COMPAT_MODE";

static struct {
    pthread_once_t once;
    gnutls_priority_t priority;
    int code;
    solsend_detail detail;
} shared = {.once = PTHREAD_ONCE_INIT};

static int policy_error(const char *what, int gnutls_code, solsend_detail *detail)
{
    const char *file = gnutls_get_system_config_file();
    const char *mode = gnutls_fips140_mode_enabled() ? "FIPS mode and " : "";
    return detail_set(detail, SOLSEND_ERR_TLS_POLICY, SOLSEND_NO_OFFSET,
                      "by %sthe policy in %.120s: %s (GnuTLS: %s)", mode,
                      file != NULL ? file : "GnuTLS itself", what, gnutls_strerror(gnutls_code));
}

static int set_certificate(gnutls_certificate_credentials_t credentials,
                           const solsend_key *identity)
{
    uint8_t der[CERT_BYTES];
    cert_write(der, key_public(identity));
    gnutls_privkey_t key = NULL;
    gnutls_pcert_st *pcert = gnutls_calloc(1, sizeof *pcert);
    if (pcert == NULL) {
        return GNUTLS_E_MEMORY_ERROR;
    }
    gnutls_datum_t der_datum = {der, sizeof der};
    gnutls_datum_t seed = {(uint8_t *)(uintptr_t)key_seed(identity), 32};
    gnutls_datum_t public_key = {(uint8_t *)(uintptr_t)key_public(identity), 32};
    int rc = gnutls_privkey_init(&key);
    if (rc == 0) {
        rc = gnutls_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &public_key, NULL, &seed);
    }
    if (rc == 0) {
        rc = gnutls_pcert_import_x509_raw(pcert, &der_datum, GNUTLS_X509_FMT_DER, 0);
    }
    if (rc == 0) {
        /* takes both over on success */
        rc = gnutls_certificate_set_key(credentials, NULL, 0, pcert, 1, key);
    }
    if (rc < 0) {
        gnutls_pcert_deinit(pcert);
        gnutls_privkey_deinit(key);
    }
    gnutls_free(pcert);
    return rc < 0 ? rc : 0;
}

/* ---- is this system's policy one we can live with? ------------------------------------------ */

/* One direction of a handshake in memory. */
struct pipe_end {
    struct pipe_end *peer;
    uint8_t bytes[8192];
    size_t head;
    size_t tail;
};

static ssize_t pipe_push(gnutls_transport_ptr_t ptr, const void *data, size_t n)
{
    struct pipe_end *to = ((struct pipe_end *)ptr)->peer;
    if (n > sizeof to->bytes - to->tail) {
        return -1;
    }
    memcpy(to->bytes + to->tail, data, n);
    to->tail += n;
    return (ssize_t)n;
}

static ssize_t pipe_pull(gnutls_transport_ptr_t ptr, void *data, size_t n)
{
    struct pipe_end *from = ptr;
    if (n > from->tail - from->head) {
        n = from->tail - from->head;
    }
    if (n == 0) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(data, from->bytes + from->head, n);
    from->head += n;
    return (ssize_t)n;
}

static int pipe_ready(gnutls_transport_ptr_t ptr, unsigned int ms)
{
    (void)ms;
    const struct pipe_end *from = ptr;
    return from->tail > from->head;
}

static int probe_session(gnutls_session_t *session, unsigned flags,
                         gnutls_certificate_credentials_t credentials, struct pipe_end *end)
{
    int rc = gnutls_init(session, flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (rc < 0) {
        return rc;
    }
    gnutls_transport_set_ptr(*session, end);
    gnutls_transport_set_push_function(*session, pipe_push);
    gnutls_transport_set_pull_function(*session, pipe_pull);
    gnutls_transport_set_pull_timeout_function(*session, pipe_ready);
    rc = gnutls_credentials_set(*session, GNUTLS_CRD_CERTIFICATE, credentials);
    return rc < 0 ? rc : gnutls_priority_set(*session, shared.priority);
}

/* A whole handshake with our certificate on both sides: whatever a policy forbids shows here. */
static int probe_handshake(gnutls_certificate_credentials_t credentials)
{
    struct pipe_end *ends = calloc(2, sizeof *ends);
    gnutls_session_t client = NULL, server = NULL;
    if (ends == NULL) {
        return GNUTLS_E_MEMORY_ERROR;
    }
    ends[0].peer = &ends[1];
    ends[1].peer = &ends[0];
    int rc =
        probe_session(&client, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT, credentials, &ends[0]);
    if (rc == 0) {
        rc = probe_session(&server, GNUTLS_SERVER, credentials, &ends[1]);
    }
    if (rc == 0) {
        gnutls_certificate_server_set_request(server, GNUTLS_CERT_REQUIRE);
    }
    int client_rc = GNUTLS_E_AGAIN, server_rc = GNUTLS_E_AGAIN;
    for (int i = 0; rc == 0 && i < 16 && (client_rc != 0 || server_rc != 0); i++) {
        if (client_rc != 0) {
            client_rc = gnutls_handshake(client);
            rc = client_rc < 0 && gnutls_error_is_fatal(client_rc) ? client_rc : 0;
        }
        if (rc == 0 && server_rc != 0) {
            server_rc = gnutls_handshake(server);
            rc = server_rc < 0 && gnutls_error_is_fatal(server_rc) ? server_rc : 0;
        }
    }
    if (rc == 0 && (client_rc != 0 || server_rc != 0)) {
        rc = GNUTLS_E_HANDSHAKE_DURING_FALSE_START;
    }
    if (client != NULL) {
        gnutls_deinit(client);
    }
    if (server != NULL) {
        gnutls_deinit(server);
    }
    free(ends);
    return rc;
}

static void prove_policy(void)
{
    const char *at = NULL;
    if (gnutls_check_version("3.7.5") == NULL) {
        shared.code = detail_set(&shared.detail, SOLSEND_ERR_LIBRARY, SOLSEND_NO_OFFSET,
                                 "GnuTLS %s is loaded, 3.7.5 is the oldest that serves",
                                 gnutls_check_version(NULL));
        return;
    }
    if (ngtcp2_version(0x010b00) == NULL) {
        shared.code = detail_set(&shared.detail, SOLSEND_ERR_LIBRARY, SOLSEND_NO_OFFSET,
                                 "ngtcp2 %s is loaded, 1.11.0 is the oldest that serves",
                                 ngtcp2_version(0)->version_str);
        return;
    }
    int rc = gnutls_priority_init(&shared.priority, priority_text, &at);
    if (rc < 0) {
        shared.code = policy_error("TLS 1.3, AES-128-GCM, X25519 and Ed25519 are not all allowed",
                                   rc, &shared.detail);
        return;
    }
    solsend_key *key = NULL;
    gnutls_certificate_credentials_t credentials = NULL;
    shared.code = solsend_key_random(&key);
    if (shared.code == 0) {
        rc = gnutls_certificate_allocate_credentials(&credentials);
        if (rc == 0) {
            rc = set_certificate(credentials, key);
        }
        if (rc == 0) {
            rc = probe_handshake(credentials);
        }
        if (rc < 0) {
            shared.code =
                policy_error("a handshake with an Ed25519 certificate fails", rc, &shared.detail);
        }
    }
    if (credentials != NULL) {
        gnutls_certificate_free_credentials(credentials);
    }
    solsend_key_close(key);
}

/* ---- sessions ------------------------------------------------------------------------------- */

static int configure(struct tls *tls, const struct tls_wishes *w)
{
    int rc = gnutls_priority_set(tls->session, shared.priority);
    if (rc < 0) {
        return rc;
    }
    rc = w->role == TLS_CLIENT ? ngtcp2_crypto_gnutls_configure_client_session(tls->session)
                               : ngtcp2_crypto_gnutls_configure_server_session(tls->session);
    if (rc != 0) {
        return GNUTLS_E_INTERNAL_ERROR;
    }
    gnutls_session_set_ptr(tls->session, w->conn_ref);
    rc = gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    if (rc < 0) {
        return rc;
    }
    gnutls_datum_t alpn = {(uint8_t *)(uintptr_t)w->alpn, (unsigned)strlen(w->alpn)};
    rc = gnutls_alpn_set_protocols(tls->session, &alpn, 1, GNUTLS_ALPN_MANDATORY);
    if (rc < 0) {
        return rc;
    }
    if (w->role == TLS_SERVER) {
        gnutls_certificate_server_set_request(tls->session, GNUTLS_CERT_REQUIRE);
        return 0;
    }
    return gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, w->sni, strlen(w->sni));
}

int tls_open(struct tls *tls, const struct tls_wishes *wishes, solsend_detail *detail)
{
    memset(tls, 0, sizeof *tls);
    pthread_once(&shared.once, prove_policy);
    if (shared.code < 0) {
        return detail_set(detail, shared.code, SOLSEND_NO_OFFSET, "%s", shared.detail.text);
    }
    unsigned flags =
        wishes->role == TLS_SERVER ? GNUTLS_SERVER : GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT;
    if (wishes->early_data) {
        flags |= GNUTLS_ENABLE_EARLY_DATA | GNUTLS_NO_END_OF_EARLY_DATA;
    }
    int rc = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (rc == 0 && wishes->identity != NULL) {
        rc = set_certificate(tls->credentials, wishes->identity);
    }
    if (rc == 0) {
        rc = gnutls_init(&tls->session, flags | GNUTLS_NO_SIGNAL);
    }
    if (rc == 0) {
        rc = configure(tls, wishes);
    }
    if (rc < 0) {
        tls_close(tls);
        return detail_set(detail,
                          rc == GNUTLS_E_MEMORY_ERROR ? SOLSEND_ERR_MEMORY : SOLSEND_ERR_INTERNAL,
                          SOLSEND_NO_OFFSET, "GnuTLS: %s", gnutls_strerror(rc));
    }
    return 0;
}

void tls_close(struct tls *tls)
{
    if (tls->session != NULL) {
        gnutls_deinit(tls->session);
        tls->session = NULL;
    }
    if (tls->credentials != NULL) {
        gnutls_certificate_free_credentials(tls->credentials);
        tls->credentials = NULL;
    }
}

int tls_certificate_key(const uint8_t *der, size_t bytes, uint8_t out[32])
{
    gnutls_x509_crt_t crt;
    if (gnutls_x509_crt_init(&crt) < 0) {
        return -1;
    }
    gnutls_ecc_curve_t curve;
    gnutls_datum_t datum = {(uint8_t *)(uintptr_t)der, (unsigned)bytes};
    gnutls_datum_t x = {NULL, 0}, y = {NULL, 0};
    int found = -1;
    if (gnutls_x509_crt_import(crt, &datum, GNUTLS_X509_FMT_DER) == 0 &&
        gnutls_x509_crt_get_pk_ecc_raw(crt, &curve, &x, &y) == 0) {
        if (curve == GNUTLS_ECC_CURVE_ED25519 && x.size == 32) {
            memcpy(out, x.data, 32);
            found = 0;
        }
        gnutls_free(x.data);
        gnutls_free(y.data);
    }
    gnutls_x509_crt_deinit(crt);
    return found;
}

int tls_peer_key(const struct tls *tls, uint8_t out[32])
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(tls->session, &count);
    return chain != NULL && count > 0 ? tls_certificate_key(chain[0].data, chain[0].size, out) : -1;
}
