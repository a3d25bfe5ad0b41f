/*
 * A quic:// link whose peer is hostile. The input is a list of steps, each a byte that chooses, two
 * bytes of length, and that many bytes: datagrams as they come or with the right connection ids,
 * Version Negotiation, Retry with a right tag, Initials, handshake and 1-RTT packets sealed with
 * the right keys, honest answers of a server, time that passes, and what a caller would do.
 *
 * Whatever comes: nothing breaks, and every transaction that was accepted ends exactly once.
 */
#include "fuzz.h"

#include <sodium.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <solsend/solsend.h>

#include "forger.h"
#include "initial.h"
#include "udp_peer.h"

enum { STEPS_MAX = 48, SLOTS = 8, PIECE_MAX = 1400, EXCHANGES_MAX = 12, EVENTS_MAX = 64 };

static struct {
    struct udp_peer peer;
    struct sockaddr_in client;
    solsend_link *link;
    struct initial_packet ids; /* of the client's newest Initial */
    struct initial_keys keys;  /* what a server would seal its Initials with */
    uint8_t hello[2048];       /* the client's newest Initial */
    size_t hello_bytes;
    uint32_t initials; /* how many we sent */
    int has_keys;
    int retried;
    uint64_t tickets[SLOTS];
    uint64_t accepted;
    uint64_t ended;
    int with_server; /* its keys are asked for: client packets go to the forger too */
} world;

/* ---- a clock of our own, so that time can pass and runs are alike -----------------------------
 */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

static int clock_is_ours;
static uint64_t clock_ns;

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    if (!clock_is_ours || id != CLOCK_MONOTONIC) {
        return __real_clock_gettime(id, t);
    }
    clock_ns += 1000;
    t->tv_sec = (time_t)(clock_ns / 1000000000);
    t->tv_nsec = (long)(clock_ns % 1000000000);
    return 0;
}

/* ---- and random numbers of our own ------------------------------------------------------------
 */

static uint64_t random_state;

static void fill_random(void *const out, const size_t bytes)
{
    uint8_t *p = out;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        p[i] = (uint8_t)(z >> 32);
    }
}

static const char *random_name(void)
{
    return "fuzz";
}

static uint32_t random_u32(void)
{
    uint32_t v;
    fill_random(&v, sizeof v);
    return v;
}

static randombytes_implementation random_source = {
    .implementation_name = random_name,
    .random = random_u32,
    .buf = fill_random,
};

static solsend_key *identity;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const uint8_t seed[32] = {1};
    (void)argc;
    (void)argv;
    randombytes_set_implementation(&random_source);
    FUZZ_CHECK(sodium_init() >= 0);
    FUZZ_CHECK(solsend_key_from_seed(&identity, seed) == 0);
    FUZZ_CHECK(udp_peer_open(&world.peer, "127.0.0.1") == 0);
    return 0;
}

/* ---- the wire ---------------------------------------------------------------------------------
 */

static void to_client(const uint8_t *data, size_t bytes)
{
    sendto(world.peer.fd, data, bytes, MSG_DONTWAIT, (struct sockaddr *)&world.client,
           sizeof world.client);
}

/* Reads what the client sent: Initials are remembered. */
static void hear_client(void)
{
    uint8_t data[2048];
    struct initial_packet p;
    for (ssize_t n; (n = udp_peer_take(&world.peer, data, sizeof data)) >= 0;) {
        if (world.peer.source_port != ntohs(world.client.sin_port)) {
            continue; /* of an earlier run's link */
        }
        if (world.with_server) {
            forger_read(data, (size_t)n);
        }
        if (initial_read_header(&p, data, (size_t)n) == 0) {
            world.ids = p;
            memcpy(world.hello, data, (size_t)n);
            world.hello_bytes = (size_t)n;
            if (!world.has_keys || (p.token_bytes > 0 && !world.retried)) {
                initial_derive(&world.keys, INITIAL_SERVER, p.dcid, p.dcid_bytes);
                world.has_keys = 1;
                world.retried = p.token_bytes > 0; /* a Retry gives new keys, once */
            }
        }
    }
}

/* Ids as a server would write them: to the client's, from one of ours. */
static struct initial_packet server_ids(void)
{
    struct initial_packet ids = {.dcid_bytes = world.ids.scid_bytes, .scid_bytes = 8};
    memcpy(ids.dcid, world.ids.scid, ids.dcid_bytes);
    memset(ids.scid, 0x5c, ids.scid_bytes);
    return ids;
}

/* ---- hostile steps ----------------------------------------------------------------------------
 */

static void send_raw(const uint8_t *piece, size_t bytes)
{
    to_client(piece, bytes);
}

/* First byte and version from the input, then the right connection ids, then the rest. */
static void send_long_header(const uint8_t *piece, size_t bytes)
{
    uint8_t out[PIECE_MAX + 64];
    struct initial_packet ids = server_ids();
    size_t n = 0;
    if (bytes < 5) {
        return;
    }
    memcpy(out, piece, 5);
    out[0] |= 0x80;
    n = 5;
    out[n++] = (uint8_t)ids.dcid_bytes;
    memcpy(out + n, ids.dcid, ids.dcid_bytes);
    n += ids.dcid_bytes;
    memcpy(out + n, piece + 5, bytes - 5);
    to_client(out, n + bytes - 5);
}

static void send_version_negotiation(const uint8_t *piece, size_t bytes)
{
    uint8_t out[PIECE_MAX + 64] = {0x80 | 0x2a};
    size_t n = 5; /* version 0 */
    out[n++] = (uint8_t)world.ids.scid_bytes;
    memcpy(out + n, world.ids.scid, world.ids.scid_bytes);
    n += world.ids.scid_bytes;
    out[n++] = (uint8_t)world.ids.dcid_bytes;
    memcpy(out + n, world.ids.dcid, world.ids.dcid_bytes);
    n += world.ids.dcid_bytes;
    memcpy(out + n, piece, bytes);
    to_client(out, n + bytes);
}

/* The piece is the server's connection id, its length first, and the token. */
static void send_retry(const uint8_t *piece, size_t bytes)
{
    static const uint8_t key[16] = {0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a,
                                    0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e};
    static const uint8_t nonce[12] = {0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63,
                                      0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb};
    uint8_t pseudo[PIECE_MAX + 128], tag[16];
    size_t n = 0, tag_bytes = sizeof tag;
    pseudo[n++] = (uint8_t)world.ids.dcid_bytes;
    memcpy(pseudo + n, world.ids.dcid, world.ids.dcid_bytes);
    n += world.ids.dcid_bytes;
    size_t start = n;
    memcpy(pseudo + n, "\xf0\0\0\0\1", 5);
    n += 5;
    pseudo[n++] = (uint8_t)world.ids.scid_bytes;
    memcpy(pseudo + n, world.ids.scid, world.ids.scid_bytes);
    n += world.ids.scid_bytes;
    memcpy(pseudo + n, piece, bytes);
    n += bytes;
    gnutls_aead_cipher_hd_t cipher;
    gnutls_datum_t key_datum = {(uint8_t *)(uintptr_t)key, sizeof key};
    FUZZ_CHECK(gnutls_aead_cipher_init(&cipher, GNUTLS_CIPHER_AES_128_GCM, &key_datum) == 0);
    FUZZ_CHECK(gnutls_aead_cipher_encrypt(cipher, nonce, sizeof nonce, pseudo, n, sizeof tag, "", 0,
                                          tag, &tag_bytes) == 0);
    gnutls_aead_cipher_deinit(cipher);
    memcpy(pseudo + n, tag, sizeof tag);
    to_client(pseudo + start, n + sizeof tag - start);
}

static void send_initial(const uint8_t *piece, size_t bytes)
{
    uint8_t payload[PIECE_MAX + 4] = {0}, out[PIECE_MAX + 128];
    struct initial_packet ids = server_ids();
    memcpy(payload, piece, bytes);
    to_client(out, initial_seal(out, &world.keys, &ids, 0x100 + world.initials++, payload,
                                bytes < 4 ? 4 : bytes));
}

/* Not encrypted: what a stateless reset or garbage looks like. */
static void send_short_header(const uint8_t *piece, size_t bytes)
{
    uint8_t out[PIECE_MAX + 64] = {0x40};
    memcpy(out + 1, world.ids.scid, world.ids.scid_bytes);
    memcpy(out + 1 + world.ids.scid_bytes, piece, bytes);
    to_client(out, 1 + world.ids.scid_bytes + bytes);
}

/* The server begins: what it says up to `datagrams`, only its first Initial if that is 0. */
static void answer(uint8_t datagrams)
{
    uint8_t out[FORGER_DATAGRAM_BYTES];
    if (!world.with_server) {
        world.with_server = 1;
        forger_read(world.hello, world.hello_bytes);
    }
    size_t n = forger_write(out);
    struct initial_packet p;
    if (n > 0 && datagrams == 0 && initial_read_header(&p, out, n) == 0) {
        n = p.end;
    }
    for (; n > 0; n = datagrams > 0 ? forger_write(out) : 0) {
        to_client(out, n);
        datagrams -= datagrams > 0;
    }
}

static void forge(enum forger_level level, const uint8_t *piece, size_t bytes)
{
    uint8_t out[FORGER_DATAGRAM_BYTES];
    if (!world.with_server) {
        answer(0);
        solsend_link_poll(world.link);
        hear_client();
    }
    size_t n = forger_seal(out, level, piece, bytes);
    if (n > 0) {
        to_client(out, n);
    }
}

static void shake_hands(void)
{
    for (int i = 0; i < EXCHANGES_MAX; i++) {
        answer(4);
        solsend_link_poll(world.link);
        hear_client();
    }
}

/* ---- what a caller does -----------------------------------------------------------------------
 */

static void send_transactions(const uint8_t *piece, size_t bytes)
{
    uint8_t wire[SOLSEND_TX_V1_BYTES_MAX] = {1};
    uint32_t length = 200;
    if (bytes >= 2) {
        length = 1 + (uint32_t)(piece[0] | piece[1] << 8) % SOLSEND_TX_V1_BYTES_MAX;
        wire[0] = length > SOLSEND_TX_BYTES_MAX ? 0x81 : 1;
    }
    solsend_send s[3];
    int32_t results[3];
    uint32_t count = bytes >= 3 ? 1 + piece[2] % 3 : 1;
    for (uint32_t i = 0; i < count; i++) {
        solsend_send_init(&s[i], sizeof s[i]);
        s[i].wire = wire;
        s[i].wire_bytes = length;
        if (bytes >= 4 && piece[3] != 0) {
            s[i].deadline_ns = clock_ns + piece[3] * UINT64_C(1000000);
        }
        s[i].priority = bytes >= 5 ? piece[4] : 0;
    }
    int rc;
    if (count == 1) {
        rc = results[0] = solsend_link_send(world.link, s, &world.tickets[0]);
    } else {
        rc = solsend_link_send_burst(world.link, s, count, world.tickets, results);
        FUZZ_CHECK(rc >= 0 || rc == SOLSEND_ERR_CLOSED);
    }
    for (uint32_t i = 0; i < count && (rc >= 0 || count == 1); i++) {
        world.accepted += results[i] >= 0;
        FUZZ_CHECK(results[i] >= 0 || results[i] == SOLSEND_ERR_FULL ||
                   results[i] == SOLSEND_ERR_CLOSED || results[i] == SOLSEND_ERR_TX_TOO_LARGE);
    }
}

static void cancel(const uint8_t *piece, size_t bytes)
{
    uint64_t ticket = world.tickets[bytes > 0 ? piece[0] % 3 : 0];
    int rc = solsend_link_cancel(world.link, ticket);
    FUZZ_CHECK(rc == 0 || rc == SOLSEND_ERR_NO_SUCH_TICKET || rc == SOLSEND_ERR_CLOSED);
}

static void pass_time(const uint8_t *piece, size_t bytes)
{
    uint64_t ms = bytes > 0 ? piece[0] : 1;
    if (bytes > 1) {
        ms += (uint64_t)piece[1] << 8;
    }
    clock_ns += ms * 1000000;
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static void drain(void)
{
    solsend_event events[EVENTS_MAX];
    solsend_link_info info = {.size = sizeof info};
    solsend_link_stats stats = {.size = sizeof stats};
    int n;
    do {
        n = solsend_link_drain(world.link, events, EVENTS_MAX);
        FUZZ_CHECK(n >= 0 && n <= EVENTS_MAX);
        for (int i = 0; i < n; i++) {
            FUZZ_CHECK(strcmp(solsend_event_name(events[i].kind), "?") != 0);
            FUZZ_CHECK(strcmp(solsend_error_name(events[i].code), "?") != 0);
            world.ended += (uint64_t)solsend_event_is_terminal(events[i].kind);
        }
    } while (n == EVENTS_MAX);
    FUZZ_CHECK(solsend_link_info_get(world.link, &info) == 0);
    FUZZ_CHECK(info.open == world.accepted - world.ended);
    FUZZ_CHECK(info.waiting <= info.open);
    /* what we found wrong is not the peer's word */
    FUZZ_CHECK(info.end_code != SOLSEND_ERR_PROTOCOL || info.end_peer_code == 0);
    FUZZ_CHECK(solsend_link_stats_get(world.link, &stats) == 0);
    FUZZ_CHECK(stats.accepted == world.accepted);
    FUZZ_CHECK(stats.acked + stats.expired + stats.closed + stats.stopped + stats.cancelled ==
               world.ended);
    FUZZ_CHECK(stats.written <= stats.accepted);
}

static void step(uint8_t kind, const uint8_t *piece, size_t bytes)
{
    switch (kind % 14) {
    case 0:
        send_raw(piece, bytes);
        break;
    case 1:
        send_long_header(piece, bytes);
        break;
    case 2:
        send_version_negotiation(piece, bytes);
        break;
    case 3:
        send_retry(piece, bytes);
        break;
    case 4:
        send_initial(piece, bytes);
        break;
    case 5:
        send_short_header(piece, bytes);
        break;
    case 6:
        forge(FORGER_HANDSHAKE, piece, bytes);
        break;
    case 7:
    case 8:
        forge(FORGER_SHORT, piece, bytes);
        break;
    case 9:
        answer(bytes > 0 ? piece[0] % 4 : 1);
        break;
    case 10:
        shake_hands();
        break;
    case 11:
        pass_time(piece, bytes);
        break;
    case 12:
        send_transactions(piece, bytes);
        break;
    default:
        cancel(piece, bytes);
        break;
    }
    int rc = solsend_link_poll(world.link);
    FUZZ_CHECK(rc >= 0 || strcmp(solsend_error_name(rc), "?") != 0);
    FUZZ_CHECK(solsend_link_next_timeout_ns(world.link) > 0 || rc >= 0);
    hear_client();
    drain();
}

static void open_link(void)
{
    solsend_link_options o;
    solsend_link_info info = {.size = sizeof info};
    solsend_link_options_init(&o, sizeof o);
    o.identity = identity;
    o.slots = SLOTS;
    o.send_buffer_bytes = o.receive_buffer_bytes = 0;
    FUZZ_CHECK(solsend_link_open(&world.link, udp_peer_uri(&world.peer, "quic"), &o, NULL) == 0);
    FUZZ_CHECK(solsend_link_info_get(world.link, &info) == 0);
    world.client.sin_family = AF_INET;
    world.client.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    world.client.sin_port = htons((uint16_t)info.local_port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct udp_peer peer = world.peer;
    memset(&world, 0, sizeof world);
    world.peer = peer;
    clock_ns = UINT64_C(1) << 50;
    random_state = 1;
    clock_is_ours = 1;
    forger_reset();
    open_link();
    hear_client();
    FUZZ_CHECK(world.hello_bytes == 1200);
    for (int steps = 0; bytes >= 3 && steps < STEPS_MAX; steps++) {
        size_t length = (size_t)(data[1] | data[2] << 8) % (PIECE_MAX + 1);
        length = length < bytes - 3 ? length : bytes - 3;
        step(data[0], data + 3, length);
        data += 3 + length;
        bytes -= 3 + length;
    }
    solsend_link_finish(world.link, 0);
    drain();
    FUZZ_CHECK(world.ended == world.accepted);
    char text[256];
    FUZZ_CHECK(solsend_link_text(world.link, text, sizeof text) > 0);
    solsend_link_close(world.link, 0);
    hear_client();
    forger_reset();
    clock_is_ours = 0;
    return 0;
}
