/*
 * The mock leader's server. The first byte chooses a profile and what the rest is: datagrams as
 * they come, the frames of a client's Initial, the frames of packets on an established connection
 * (both sealed with the right keys, so that they get past the cipher), or the text of faults and
 * scripts. Whatever comes, every connection ends in finite time and the counts add up.
 */
#include "fuzz.h"

#include "mock/frames.h"
#include "mock/script.h"
#include "mock/server.h"

#include <gnutls/crypto.h>
#include <gnutls/abstract.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <sodium.h>
#include <string.h>

#define MS             UINT64_C(1000000)
#define START_NS       (UINT64_C(1) << 40)
#define DATAGRAM_BYTES 1472u
#define ROUNDS         20
#define ENDS_AFTER     20000

static struct world {
    struct server server;
    struct tally tally;
    struct fault fault;
    uint64_t now_ns;
    struct sockname client_name;
    /* The client. */
    ngtcp2_conn *quic;
    gnutls_session_t tls;
    ngtcp2_crypto_conn_ref ref;
    int ended;
    const uint8_t *frames; /* go into the next packet in place of its own */
    size_t frames_bytes;
    /* Datagrams from the server that the client has not read yet. */
    uint8_t in[64][DATAGRAM_BYTES];
    size_t in_bytes[64];
    size_t in_count;
} world;

static struct credentials server_credentials[4];
static gnutls_certificate_credentials_t client_credentials;
static const char *const profiles[] = {"agave-4.0", "agave-4.3", "firedancer", "agave-4.3"};
static const char *const faults[] = {
    "",
    "throttle=off",
    "stop_sending=2,key_update=1",
    "gaps_refused=1,ack=delay:5",
    "ack=never,grant=3,max_data_every_ms=7",
    "close=7@stream:2,ordered=1",
    "reset=stateless@stream:1,retry=0",
    "discard=1,ping_every_ms=9,stream_bytes=100",
};

/* ---- the client -------------------------------------------------------------------------------
 */

static ngtcp2_conn *ref_conn(ngtcp2_crypto_conn_ref *ref)
{
    (void)ref;
    return world.quic;
}

static void fill_random(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *context)
{
    (void)context;
    memset(dest, 0x5a, bytes);
}

static int new_cid(ngtcp2_conn *quic, ngtcp2_cid *cid, uint8_t *token, size_t bytes, void *user)
{
    static uint8_t serial;
    (void)quic;
    (void)user;
    cid->datalen = bytes;
    memset(cid->data, ++serial, bytes);
    memset(token, serial, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static int encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                   const ngtcp2_crypto_aead_ctx *aead_ctx, const uint8_t *plaintext,
                   size_t plaintextlen, const uint8_t *nonce, size_t noncelen, const uint8_t *aad,
                   size_t aadlen)
{
    uint8_t changed[2048] = {0};
    if (world.frames != NULL && plaintextlen <= sizeof changed) {
        size_t n = world.frames_bytes < plaintextlen ? world.frames_bytes : plaintextlen;
        memcpy(changed, world.frames, n);
        plaintext = changed;
    }
    return ngtcp2_crypto_encrypt_cb(dest, aead, aead_ctx, plaintext, plaintextlen, nonce, noncelen,
                                    aad, aadlen);
}

static const ngtcp2_callbacks client_callbacks = {
    .client_initial = ngtcp2_crypto_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .encrypt = encrypt,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_retry = ngtcp2_crypto_recv_retry_cb,
    .rand = fill_random,
    .get_new_connection_id = new_cid,
    .update_key = ngtcp2_crypto_update_key_cb,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
};

static ngtcp2_path client_path(void)
{
    return (ngtcp2_path){.local = {&world.client_name.any, world.client_name.bytes},
                         .remote = {&world.server.local.any, world.server.local.bytes}};
}

static void client_open(void)
{
    static const char priority[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:"
                                   "-GROUP-ALL:+GROUP-X25519:%DISABLE_TLS13_COMPAT_MODE";
    gnutls_datum_t alpn = {(unsigned char *)(uintptr_t) "solana-tpu", 10};
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_cid scid = {.datalen = 8, .data = {1}}, dcid = {.datalen = 8, .data = {2}};
    ngtcp2_path path = client_path();
    FUZZ_CHECK(gnutls_init(&world.tls, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT) == 0);
    FUZZ_CHECK(gnutls_priority_set_direct(world.tls, priority, NULL) == 0);
    gnutls_credentials_set(world.tls, GNUTLS_CRD_CERTIFICATE, client_credentials);
    gnutls_alpn_set_protocols(world.tls, &alpn, 1, 0);
    FUZZ_CHECK(ngtcp2_crypto_gnutls_configure_client_session(world.tls) == 0);
    world.ref.get_conn = ref_conn;
    gnutls_session_set_ptr(world.tls, &world.ref);
    ngtcp2_settings_default(&settings);
    settings.initial_ts = world.now_ns;
    settings.no_pmtud = 1;
    ngtcp2_transport_params_default(&params);
    FUZZ_CHECK(ngtcp2_conn_client_new(&world.quic, &dcid, &scid, &path, NGTCP2_PROTO_VER_V1,
                                      &client_callbacks, &settings, &params, NULL, NULL) == 0);
    ngtcp2_conn_set_tls_native_handle(world.quic, world.tls);
}

static void client_close(void)
{
    if (world.quic != NULL) {
        ngtcp2_conn_del(world.quic);
        gnutls_deinit(world.tls);
        world.quic = NULL;
    }
}

static int send_packet(ngtcp2_ssize n, const uint8_t *packet)
{
    if (n <= 0) {
        return 0;
    }
    server_datagram(&world.server, &world.client_name, packet, (size_t)n, world.now_ns,
                    world.now_ns);
    return 1;
}

/* What the client itself has to say, in one packet. Returns 1 or 0. */
static int client_write(void)
{
    uint8_t packet[DATAGRAM_BYTES];
    ngtcp2_pkt_info info;
    ngtcp2_path_storage path;
    ngtcp2_path_storage_zero(&path);
    return send_packet(world.ended ? 0
                                   : ngtcp2_conn_write_pkt(world.quic, &path.path, &info, packet,
                                                           1200, world.now_ns),
                       packet);
}

/* A packet as large as can be, whose frames are then exchanged for those of the input. */
static void client_write_frames(void)
{
    static const uint8_t filler[1180];
    uint8_t packet[DATAGRAM_BYTES];
    int64_t stream = -1;
    ngtcp2_ssize taken;
    ngtcp2_pkt_info info;
    ngtcp2_path_storage path;
    ngtcp2_vec vec = {(uint8_t *)(uintptr_t)filler, sizeof filler};
    ngtcp2_path_storage_zero(&path);
    if (ngtcp2_conn_open_uni_stream(world.quic, &stream, NULL) != 0) {
        /* No credit: a PING makes a small one. */
        ngtcp2_conn_set_keep_alive_timeout(world.quic, 1);
        world.now_ns += 2;
        world.ended |= ngtcp2_conn_handle_expiry(world.quic, world.now_ns) != 0;
        (void)client_write();
        return;
    }
    (void)send_packet(ngtcp2_conn_writev_stream(world.quic, &path.path, &info, packet, 1200, &taken,
                                                0, stream, &vec, 1, world.now_ns),
                      packet);
}

static void client_read(void)
{
    ngtcp2_pkt_info info = {0};
    ngtcp2_path path = client_path();
    for (size_t i = 0; i < world.in_count && !world.ended; i++) {
        world.ended = ngtcp2_conn_read_pkt(world.quic, &path, &info, world.in[i], world.in_bytes[i],
                                           world.now_ns) != 0;
    }
    world.in_count = 0;
}

static void exchange(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        world.now_ns += MS;
        int wrote = client_write();
        server_run(&world.server, world.now_ns);
        if (world.in_count == 0 && !wrote) {
            break;
        }
        client_read();
    }
}

/* ---- the world --------------------------------------------------------------------------------
 */

static void from_server(void *context, const struct sockname *to, const uint8_t *data, size_t bytes)
{
    (void)context;
    FUZZ_CHECK(bytes > 0 && bytes <= DATAGRAM_BYTES);
    FUZZ_CHECK(sockname_equal(to, &world.client_name));
    if (world.in_count < sizeof world.in / sizeof world.in[0]) {
        memcpy(world.in[world.in_count], data, bytes);
        world.in_bytes[world.in_count++] = bytes;
    }
}

static void world_open(unsigned int profile, unsigned int fault)
{
    char why[128];
    memset(&world, 0, sizeof world);
    world.now_ns = START_NS;
    fault_init(&world.fault);
    FUZZ_CHECK(fault_parse(&world.fault, faults[fault], why, sizeof why) == 0);
    FUZZ_CHECK(tally_open(&world.tally, 16) == 0);
    FUZZ_CHECK(sockname_parse(&world.client_name, "127.0.0.1:9") == 0);
    FUZZ_CHECK(sockname_parse(&world.server.local, "127.0.0.1:10") == 0);
    world.server.profile = profile_find(profiles[profile]);
    world.server.fault = &world.fault;
    world.server.tally = &world.tally;
    world.server.credentials = &server_credentials[profile];
    world.server.send = from_server;
    FUZZ_CHECK(server_open(&world.server, 1) == 0);
}

static void world_close(void)
{
    mock_counts c;
    client_close();
    /* Left alone, every connection ends. */
    world.fault.ping_every_ns = world.fault.max_data_every_ns = 0;
    server_fault_changed(&world.server, world.now_ns);
    for (int i = 0; i < ENDS_AFTER && server_next(&world.server) != UINT64_MAX; i++) {
        uint64_t next = server_next(&world.server);
        world.now_ns = next > world.now_ns ? next : world.now_ns;
        world.in_count = 0;
        server_run(&world.server, world.now_ns);
    }
    FUZZ_CHECK(world.server.live_count == 0);
    FUZZ_CHECK(world.server.cids.used == 0);
    tally_counts(&world.tally, &c);
    FUZZ_CHECK(c.accepted + c.discarded + c.malformed <= c.streams);
    FUZZ_CHECK(c.distinct <= c.accepted && c.admitted <= c.connections);
    server_close(&world.server);
    tally_close(&world.tally);
}

/* ---- what the input may be --------------------------------------------------------------------
 */

/* Takes a piece with a two-byte length in front. */
static int piece(const uint8_t **data, size_t *bytes, const uint8_t **out, size_t *out_bytes)
{
    if (*bytes < 2) {
        return 0;
    }
    size_t n = ((size_t)(*data)[0] << 8 | (*data)[1]) % (DATAGRAM_BYTES + 1);
    n = n > *bytes - 2 ? *bytes - 2 : n;
    *out = *data + 2;
    *out_bytes = n;
    *data += 2 + n;
    *bytes -= 2 + n;
    return 1;
}

static void datagrams(const uint8_t *data, size_t bytes)
{
    const uint8_t *one;
    size_t n;
    while (piece(&data, &bytes, &one, &n)) {
        world.now_ns += MS;
        server_datagram(&world.server, &world.client_name, one, n, world.now_ns, world.now_ns);
        server_run(&world.server, world.now_ns);
    }
}

static void sealed_initial(const uint8_t *data, size_t bytes)
{
    client_open();
    world.frames = data;
    world.frames_bytes = bytes;
    exchange();
}

static void sealed_packets(const uint8_t *data, size_t bytes)
{
    client_open();
    exchange();
    while (!world.ended && piece(&data, &bytes, &world.frames, &world.frames_bytes)) {
        client_write_frames();
        world.frames = NULL;
        exchange();
    }
}

static void text(const uint8_t *data, size_t bytes)
{
    char why[128] = "";
    char copy[1024];
    struct fault fault;
    struct script script;
    bytes = bytes < sizeof copy ? bytes : sizeof copy - 1;
    memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    fault_init(&fault);
    FUZZ_CHECK(fault_parse(&fault, copy, why, sizeof why) == 0 || why[0] != '\0');
    FUZZ_CHECK(fault.loss_in >= 0 && fault.loss_in <= 1 && fault.mtu <= 65535);
    why[0] = '\0';
    if (script_open(&script, copy, why, sizeof why) == 0) {
        script_run(&script, &fault, UINT64_MAX - 1);
        FUZZ_CHECK(script_next(&script) == UINT64_MAX);
        script_close(&script);
    } else {
        FUZZ_CHECK(why[0] != '\0');
    }
}

static void prepare(void)
{
    char why[128];
    uint8_t seed[32] = {7}, secret[64], key_bytes[32], der[CREDENTIALS_CERTIFICATE_BYTES];
    gnutls_datum_t x = {key_bytes, 32}, k = {seed, 32}, raw = {der, sizeof der};
    gnutls_privkey_t key;
    gnutls_pcert_st pcert;
    for (unsigned int i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        FUZZ_CHECK(credentials_open(&server_credentials[i], profile_find(profiles[i]), 1, why,
                                    sizeof why) == 0);
    }
    crypto_sign_seed_keypair(key_bytes, secret, seed);
    credentials_certificate(key_bytes, der);
    gnutls_certificate_allocate_credentials(&client_credentials);
    gnutls_privkey_init(&key);
    gnutls_privkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_ED25519, &x, NULL, &k);
    gnutls_pcert_import_x509_raw(&pcert, &raw, GNUTLS_X509_FMT_DER, 0);
    FUZZ_CHECK(gnutls_certificate_set_key(client_credentials, NULL, 0, &pcert, 1, key) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int is_prepared;
    static void (*const kinds[])(const uint8_t *data, size_t bytes) = {datagrams, sealed_initial,
                                                                       sealed_packets, text};
    if (!is_prepared) {
        is_prepared = 1;
        prepare();
    }
    if (bytes == 0) {
        return 0;
    }
    world_open(data[0] & 3, data[0] >> 5);
    kinds[data[0] >> 2 & 3](data + 1, bytes - 1);
    world_close();
    return 0;
}
