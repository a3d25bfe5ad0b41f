#include "mock/credentials.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define KEY_OFFSET 100u

/*
 * The certificate that Agave makes and Firedancer compares: version 3, serial 8 x 01, issuer
 * "Solana node", no subject, 1970 to 4096, subjectAltName localhost, a signature of 64 x ff. Only
 * the key differs; here it is zero.
 */
static const uint8_t certificate[CREDENTIALS_CERTIFICATE_BYTES] = {
    0x30, 0x81, 0xf6, 0x30, 0x81, 0xa9, 0xa0, 0x03, 0x02, 0x01, 0x02, 0x02, 0x08, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x30, 0x16, 0x31, 0x14,
    0x30, 0x12, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x0b, 0x53, 0x6f, 0x6c, 0x61, 0x6e, 0x61, 0x20,
    0x6e, 0x6f, 0x64, 0x65, 0x30, 0x20, 0x17, 0x0d, 0x37, 0x30, 0x30, 0x31, 0x30, 0x31, 0x30, 0x30,
    0x30, 0x30, 0x30, 0x30, 0x5a, 0x18, 0x0f, 0x34, 0x30, 0x39, 0x36, 0x30, 0x31, 0x30, 0x31, 0x30,
    0x30, 0x30, 0x30, 0x30, 0x30, 0x5a, 0x30, 0x00, 0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65,
    0x70, 0x03, 0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0xa3, 0x29, 0x30, 0x27, 0x30, 0x17, 0x06, 0x03, 0x55, 0x1d, 0x11, 0x01,
    0x01, 0xff, 0x04, 0x0d, 0x30, 0x0b, 0x82, 0x09, 0x6c, 0x6f, 0x63, 0x61, 0x6c, 0x68, 0x6f, 0x73,
    0x74, 0x30, 0x0c, 0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x02, 0x30, 0x00, 0x30,
    0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x41, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
};

void credentials_certificate(const uint8_t key[32], uint8_t out[CREDENTIALS_CERTIFICATE_BYTES])
{
    memcpy(out, certificate, CREDENTIALS_CERTIFICATE_BYTES);
    memcpy(out + KEY_OFFSET, key, 32);
}

static int is_template(const gnutls_datum_t *der)
{
    uint8_t same[CREDENTIALS_CERTIFICATE_BYTES];
    if (der->size != CREDENTIALS_CERTIFICATE_BYTES) {
        return 0;
    }
    credentials_certificate(der->data + KEY_OFFSET, same);
    return memcmp(der->data, same, sizeof same) == 0;
}

/* ---- the client's certificate -----------------------------------------------------------------
 */

/* The Ed25519 key of a certificate of any form. Returns 1, or 0 when it holds another kind. */
static int ed25519_key(const gnutls_datum_t *der, uint8_t out[32])
{
    gnutls_x509_crt_t crt;
    gnutls_ecc_curve_t curve;
    gnutls_datum_t x = {NULL, 0};
    gnutls_datum_t y = {NULL, 0};
    int found = 0;
    if (gnutls_x509_crt_init(&crt) != 0) {
        return 0;
    }
    if (gnutls_x509_crt_import(crt, der, GNUTLS_X509_FMT_DER) == 0 &&
        gnutls_x509_crt_get_pk_ecc_raw(crt, &curve, &x, &y) == 0 &&
        curve == GNUTLS_ECC_CURVE_ED25519 && x.size == 32) {
        memcpy(out, x.data, 32);
        found = 1;
    }
    gnutls_free(x.data);
    gnutls_free(y.data);
    gnutls_x509_crt_deinit(crt);
    return found;
}

static struct credentials_peer *peer_of(gnutls_session_t session)
{
    return gnutls_session_get_ptr(session);
}

/* Called by GnuTLS when the client's certificate came; its possession is proven right after. */
static int look_at_certificate(gnutls_session_t session)
{
    struct credentials_peer *peer = peer_of(session);
    unsigned int count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    if (peer->policy == PROFILE_CERTIFICATE_EXACT && chain != NULL && count > 0) {
        if (count != 1 || !is_template(&chain[0])) {
            peer->alert = GNUTLS_A_UNSUPPORTED_CERTIFICATE;
            return GNUTLS_E_CERTIFICATE_ERROR;
        }
    }
    return 0;
}

void credentials_completed(gnutls_session_t session, const struct profile *profile)
{
    struct credentials_peer *peer = peer_of(session);
    unsigned int count = 0;
    /* Those of the ticket, when the session is resumed. */
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    /* A chain or another kind of key: let in, but anonymous. */
    if (chain != NULL && count == 1) {
        peer->key_known = ed25519_key(&chain[0], peer->key);
    }
    if (profile->tickets > 0) {
        (void)gnutls_session_ticket_send(session, (unsigned int)profile->tickets, 0);
    }
}

/* A client that offers no ALPN at all gets no further than one that offers a wrong one. */
static int look_at_hello(gnutls_session_t session, unsigned int type, unsigned int when,
                         unsigned int incoming, const gnutls_datum_t *message)
{
    gnutls_datum_t chosen;
    (void)type;
    (void)when;
    (void)incoming;
    (void)message;
    return gnutls_alpn_get_selected_protocol(session, &chosen) == 0
               ? 0
               : GNUTLS_E_NO_APPLICATION_PROTOCOL;
}

/* ---- the server's own -------------------------------------------------------------------------
 */

static int key_import(gnutls_privkey_t key, const uint8_t public_key[32], const uint8_t seed[32])
{
    uint8_t copies[2][32];
    memcpy(copies[0], public_key, 32);
    memcpy(copies[1], seed, 32);
    gnutls_datum_t x = {copies[0], 32};
    gnutls_datum_t k = {copies[1], 32};
    return gnutls_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &x, NULL, &k);
}

static int pair_set(gnutls_certificate_credentials_t credentials, const uint8_t public_key[32],
                    const uint8_t seed[32])
{
    uint8_t der[CREDENTIALS_CERTIFICATE_BYTES];
    gnutls_datum_t raw = {der, sizeof der};
    gnutls_privkey_t key;
    gnutls_pcert_st pcert;
    credentials_certificate(public_key, der);
    int rc = gnutls_privkey_init(&key);
    if (rc != 0) {
        return rc;
    }
    rc = key_import(key, public_key, seed);
    if (rc == 0) {
        rc = gnutls_pcert_import_x509_raw(&pcert, &raw, GNUTLS_X509_FMT_DER, 0);
        if (rc == 0) {
            rc = gnutls_certificate_set_key(credentials, NULL, 0, &pcert, 1, key);
            if (rc >= 0) { /* both now belong to the credentials */
                return 0;
            }
            gnutls_pcert_deinit(&pcert);
        }
    }
    gnutls_privkey_deinit(key);
    return rc;
}

static int allocate(gnutls_certificate_credentials_t *out, const char *purpose, uint64_t seed,
                    uint8_t public_key[32])
{
    uint8_t secret[64];
    uint8_t from_seed[32];
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, sizeof from_seed);
    crypto_generichash_update(&hash, (const uint8_t *)purpose, strlen(purpose));
    crypto_generichash_update(&hash, (const uint8_t *)&seed, sizeof seed);
    crypto_generichash_final(&hash, from_seed, sizeof from_seed);
    crypto_sign_seed_keypair(public_key, secret, from_seed);
    int rc = gnutls_certificate_allocate_credentials(out);
    if (rc == 0) {
        gnutls_certificate_set_verify_function(*out, look_at_certificate);
        rc = pair_set(*out, public_key, from_seed);
    }
    return rc;
}

static int fresh(void *context, time_t expires, const gnutls_datum_t *key,
                 const gnutls_datum_t *data)
{
    (void)context;
    (void)expires;
    (void)key;
    (void)data;
    return 0;
}

static int tickets_open(struct credentials *c)
{
    int rc = gnutls_session_ticket_key_generate(&c->ticket_key);
    if (rc == 0) {
        rc = gnutls_anti_replay_init(&c->anti_replay);
    }
    if (rc == 0) {
        gnutls_anti_replay_set_add_function(c->anti_replay, fresh);
    }
    return rc;
}

int credentials_open(struct credentials *c, const struct profile *profile, uint64_t seed, char *why,
                     size_t why_bytes)
{
    uint8_t unknown[32];
    const char *at = NULL;
    memset(c, 0, sizeof *c);
    if (sodium_init() < 0) {
        snprintf(why, why_bytes, "libsodium cannot start");
        return -1;
    }
    int rc = allocate(&c->own, "solsend mock identity", seed, c->identity);
    if (rc == 0) {
        rc = allocate(&c->foreign, "solsend mock foreign key", seed, unknown);
    }
    if (rc == 0) {
        rc = gnutls_priority_init(&c->priority, profile->priority, &at);
    }
    if (rc == 0) {
        rc = tickets_open(c);
    }
    if (rc != 0) {
        snprintf(why, why_bytes, "GnuTLS: %s%s%s", gnutls_strerror(rc), at == NULL ? "" : " at ",
                 at == NULL ? "" : at);
        credentials_close(c);
        return -1;
    }
    return 0;
}

void credentials_close(struct credentials *c)
{
    if (c->own != NULL) {
        gnutls_certificate_free_credentials(c->own);
    }
    if (c->foreign != NULL) {
        gnutls_certificate_free_credentials(c->foreign);
    }
    if (c->priority != NULL) {
        gnutls_priority_deinit(c->priority);
    }
    if (c->anti_replay != NULL) {
        gnutls_anti_replay_deinit(c->anti_replay);
    }
    gnutls_free(c->ticket_key.data);
    memset(c, 0, sizeof *c);
}

gnutls_session_t credentials_session(const struct credentials *c, const struct profile *profile,
                                     const struct fault *fault, struct credentials_peer *peer)
{
    gnutls_session_t session;
    uint8_t alpn[sizeof fault->alpn];
    gnutls_datum_t protocol = {alpn, (unsigned int)strlen(fault->alpn)};
    memcpy(alpn, fault->alpn, sizeof alpn);
    peer->policy = fault->certificate == FAULT_DEFAULT
                       ? profile->certificate
                       : (enum profile_certificate)fault->certificate;
    unsigned int flags = GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET | GNUTLS_NO_END_OF_EARLY_DATA;
    if (gnutls_init(&session, flags | (fault->early_data ? GNUTLS_ENABLE_EARLY_DATA : 0)) != 0) {
        return NULL;
    }
    if (gnutls_priority_set(session, c->priority) != 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE,
                               fault->key_foreign ? c->foreign : c->own) != 0 ||
        gnutls_alpn_set_protocols(session, &protocol, 1, GNUTLS_ALPN_MANDATORY) != 0 ||
        ngtcp2_crypto_gnutls_configure_server_session(session) != 0) {
        gnutls_deinit(session);
        return NULL;
    }
    if (profile->tickets > 0) {
        (void)gnutls_session_ticket_enable_server(session, &c->ticket_key);
    }
    if (fault->early_data) {
        gnutls_anti_replay_enable(session, c->anti_replay);
        (void)gnutls_record_set_max_early_data_size(session, UINT32_MAX); /* as RFC 9001 wants */
    }
    gnutls_session_set_ptr(session, peer);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_POST,
                                       look_at_hello);
    gnutls_certificate_server_set_request(session, peer->policy == PROFILE_CERTIFICATE_NONE
                                                       ? GNUTLS_CERT_IGNORE
                                                       : GNUTLS_CERT_REQUIRE);
    return session;
}
