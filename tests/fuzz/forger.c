#include "forger.h"

#include "fuzz.h"

#include <arpa/inet.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <string.h>

#include "base/clock.h"
#include "link/tls.h"

/* Forged packets are numbered far above the honest ones. */
enum { CID_BYTES = 8, FIRST_FORGED = 0x200, SAMPLE_AT = 4, MASK_BYTES = 5 };

struct level {
    ngtcp2_crypto_aead aead;
    ngtcp2_crypto_aead_ctx key;
    ngtcp2_crypto_cipher cipher;
    ngtcp2_crypto_cipher_ctx hp;
    uint8_t iv[12];
};

static struct {
    ngtcp2_conn *conn;
    ngtcp2_crypto_conn_ref ref;
    struct tls tls;
    struct level levels[FORGER_LEVELS];
    struct level *last; /* of the packet being written */
    struct sockaddr_in local, remote;
    ngtcp2_path path;
    ngtcp2_cid scid;
    uint64_t counter;
    uint32_t forged;
    int dead;
} server;

static const solsend_key *identity(void)
{
    static solsend_key *key;
    static const uint8_t seed[32] = {0xf0};
    if (key == NULL) {
        FUZZ_CHECK(solsend_key_from_seed(&key, seed) == 0);
    }
    return key;
}

/* ---- catching the keys ------------------------------------------------------------------------
 */

static struct level *level_of(uint8_t first)
{
    if (!(first & 0x80)) {
        return &server.levels[FORGER_SHORT];
    }
    return (first & 0x30) == 0x20 ? &server.levels[FORGER_HANDSHAKE] : NULL;
}

static int on_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *key, const uint8_t *plaintext, size_t bytes,
                      const uint8_t *nonce, size_t nonce_bytes, const uint8_t *aad,
                      size_t aad_bytes)
{
    server.last = level_of(aad[0]);
    if (server.last != NULL && nonce_bytes == sizeof server.last->iv) {
        server.last->aead = *aead;
        server.last->key = *key;
        memcpy(server.last->iv, nonce, nonce_bytes);
        size_t number_bytes = (size_t)(aad[0] & 3) + 1; /* all of it: there were few packets */
        for (size_t i = 1; i <= number_bytes; i++) {
            server.last->iv[nonce_bytes - i] ^= aad[aad_bytes - i];
        }
    }
    return ngtcp2_crypto_encrypt_cb(dest, aead, key, plaintext, bytes, nonce, nonce_bytes, aad,
                                    aad_bytes);
}

static int on_hp_mask(uint8_t *dest, const ngtcp2_crypto_cipher *cipher,
                      const ngtcp2_crypto_cipher_ctx *hp, const uint8_t *sample)
{
    if (server.last != NULL) { /* protecting what was just encrypted, not opening */
        server.last->cipher = *cipher;
        server.last->hp = *hp;
        server.last = NULL;
    }
    return ngtcp2_crypto_hp_mask_cb(dest, cipher, hp, sample);
}

static void on_delete_key(ngtcp2_conn *conn, ngtcp2_crypto_aead_ctx *key, void *user)
{
    for (int i = 0; i < FORGER_LEVELS; i++) {
        if (server.levels[i].key.native_handle == key->native_handle) {
            server.levels[i].key.native_handle = NULL;
        }
    }
    ngtcp2_crypto_delete_crypto_aead_ctx_cb(conn, key, user);
}

static void on_delete_hp(ngtcp2_conn *conn, ngtcp2_crypto_cipher_ctx *hp, void *user)
{
    for (int i = 0; i < FORGER_LEVELS; i++) {
        if (server.levels[i].hp.native_handle == hp->native_handle) {
            server.levels[i].hp.native_handle = NULL;
        }
    }
    ngtcp2_crypto_delete_crypto_cipher_ctx_cb(conn, hp, user);
}

/* ---- an ordinary server -----------------------------------------------------------------------
 */

static ngtcp2_conn *get_conn(ngtcp2_crypto_conn_ref *ref)
{
    (void)ref;
    return server.conn;
}

static void fill(uint8_t *out, size_t bytes)
{
    while (bytes-- > 0) {
        uint64_t z = server.counter += UINT64_C(0x9e3779b97f4a7c15);
        *out++ = (uint8_t)((z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9) >> 56);
    }
}

static void on_rand(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *context)
{
    (void)context;
    fill(dest, bytes);
}

static int on_new_connection_id(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t bytes,
                                void *user)
{
    (void)conn;
    (void)user;
    cid->datalen = bytes;
    fill(cid->data, bytes);
    fill(token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static const ngtcp2_callbacks callbacks = {
    .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .encrypt = on_encrypt,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = on_hp_mask,
    .rand = on_rand,
    .get_new_connection_id = on_new_connection_id,
    .update_key = ngtcp2_crypto_update_key_cb,
    .delete_crypto_aead_ctx = on_delete_key,
    .delete_crypto_cipher_ctx = on_delete_hp,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
};

void forger_reset(void)
{
    if (server.conn != NULL) {
        ngtcp2_conn_del(server.conn);
    }
    tls_close(&server.tls);
    memset(&server, 0, sizeof server);
    server.local.sin_family = server.remote.sin_family = AF_INET;
    server.local.sin_port = htons(1);
    server.remote.sin_port = htons(2);
    server.path.local.addr = (ngtcp2_sockaddr *)&server.local;
    server.path.remote.addr = (ngtcp2_sockaddr *)&server.remote;
    server.path.local.addrlen = server.path.remote.addrlen = sizeof server.local;
    server.ref.get_conn = get_conn;
    server.forged = FIRST_FORGED;
}

static void accept_client(const uint8_t *data, size_t bytes)
{
    ngtcp2_pkt_hd hd;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    struct tls_wishes wishes = {.role = TLS_SERVER,
                                .identity = identity(),
                                .alpn = TLS_ALPN_DEFAULT,
                                .conn_ref = &server.ref};
    if (ngtcp2_accept(&hd, data, bytes) != 0) {
        return;
    }
    FUZZ_CHECK(tls_open(&server.tls, &wishes, NULL) == 0);
    server.scid.datalen = CID_BYTES;
    fill(server.scid.data, CID_BYTES);
    ngtcp2_settings_default(&settings);
    settings.initial_ts = clock_now();
    settings.no_pmtud = 1;
    ngtcp2_transport_params_default(&params);
    params.original_dcid = hd.dcid;
    params.original_dcid_present = 1;
    params.initial_max_streams_uni = 4;
    params.initial_max_stream_data_uni = 4096;
    params.initial_max_data = 1 << 16;
    FUZZ_CHECK(ngtcp2_conn_server_new(&server.conn, &hd.scid, &server.scid, &server.path,
                                      hd.version, &callbacks, &settings, &params, NULL, NULL) == 0);
    ngtcp2_conn_set_tls_native_handle(server.conn, server.tls.session);
}

void forger_read(const uint8_t *data, size_t bytes)
{
    ngtcp2_pkt_info pi = {0};
    if (server.conn == NULL) {
        accept_client(data, bytes);
    }
    if (server.conn != NULL && !server.dead &&
        ngtcp2_conn_read_pkt(server.conn, &server.path, &pi, data, bytes, clock_now()) != 0) {
        server.dead = 1;
    }
}

size_t forger_write(uint8_t *out)
{
    ngtcp2_pkt_info pi;
    if (server.conn == NULL || server.dead) {
        return 0;
    }
    ngtcp2_ssize n =
        ngtcp2_conn_write_pkt(server.conn, NULL, &pi, out, FORGER_DATAGRAM_BYTES, clock_now());
    server.dead = n < 0;
    return n > 0 ? (size_t)n : 0;
}

/* ---- forging ----------------------------------------------------------------------------------
 */

static size_t put(uint8_t *out, size_t at, const void *data, size_t bytes)
{
    memcpy(out + at, data, bytes);
    return at + bytes;
}

/* The header up to the packet number of two bytes. */
static size_t put_header(uint8_t *out, enum forger_level level, size_t payload_bytes)
{
    const ngtcp2_cid *dcid = ngtcp2_conn_get_dcid(server.conn);
    if (level == FORGER_SHORT) {
        out[0] = 0x41;
        return put(out, 1, dcid->data, dcid->datalen);
    }
    uint8_t id_bytes = (uint8_t)dcid->datalen;
    uint8_t scid_bytes = (uint8_t)server.scid.datalen;
    size_t length = 2 + payload_bytes + 16;
    uint8_t length_field[2] = {(uint8_t)(0x40 | length >> 8), (uint8_t)length};
    size_t n = put(out, 0, "\xe1\0\0\0\1", 5);
    n = put(out, n, &id_bytes, 1);
    n = put(out, n, dcid->data, dcid->datalen);
    n = put(out, n, &scid_bytes, 1);
    n = put(out, n, server.scid.data, server.scid.datalen);
    return put(out, n, length_field, sizeof length_field);
}

size_t forger_seal(uint8_t *out, enum forger_level level, const uint8_t *payload, size_t bytes)
{
    struct level *l = &server.levels[level];
    uint8_t padded[FORGER_PAYLOAD_BYTES] = {0}, nonce[12], mask[MASK_BYTES];
    if (server.conn == NULL || l->key.native_handle == NULL || l->hp.native_handle == NULL) {
        return 0;
    }
    if (bytes > sizeof padded) {
        bytes = sizeof padded;
    }
    memcpy(padded, payload, bytes);
    if (bytes < SAMPLE_AT) {
        bytes = SAMPLE_AT; /* padding, so that there is a sample */
    }
    size_t number_at = put_header(out, level, bytes);
    uint32_t number = server.forged++ & 0xffff;
    out[number_at] = (uint8_t)(number >> 8);
    out[number_at + 1] = (uint8_t)number;
    memcpy(nonce, l->iv, sizeof nonce);
    nonce[10] ^= (uint8_t)(number >> 8);
    nonce[11] ^= (uint8_t)number;
    size_t head = number_at + 2;
    FUZZ_CHECK(ngtcp2_crypto_encrypt_cb(out + head, &l->aead, &l->key, padded, bytes, nonce,
                                        sizeof nonce, out, head) == 0);
    FUZZ_CHECK(ngtcp2_crypto_hp_mask_cb(mask, &l->cipher, &l->hp, out + number_at + SAMPLE_AT) ==
               0);
    out[0] ^= mask[0] & (level == FORGER_SHORT ? 0x1f : 0x0f);
    out[number_at] ^= mask[1];
    out[number_at + 1] ^= mask[2];
    return head + bytes + 16;
}
