/* What a link says first, read off the wire by a plain socket and opened with the Initial keys. */
#include "check.h"

#include <solsend/solsend.h>

#include "initial.h"
#include "udp_peer.h"

enum { DATAGRAM_BYTES = 1200 };

/* What stands in a ClientHello. */
struct hello {
    uint8_t bytes[4096];
    size_t length;
    const uint8_t *extensions;
    size_t extension_bytes;
    const uint8_t *ciphers;
    size_t cipher_bytes;
    size_t session_id_bytes;
};

static struct udp_peer peer;
static solsend_link *link_;
static struct hello hello;
static struct initial_packet packet;

static int set_up(void **state)
{
    (void)state;
    link_ = NULL;
    return udp_peer_open(&peer, "127.0.0.1");
}

static int tear_down(void **state)
{
    (void)state;
    solsend_link_close(link_, 0);
    udp_peer_close(&peer);
    return 0;
}

/* The RFC's own example (RFC 9001 appendix A) vouches for the keys. */
static void initial_keys_are_the_rfcs(void **state)
{
    (void)state;
    static const uint8_t dcid[] = {0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08};
    static const uint8_t key[] = {0x1f, 0x36, 0x96, 0x13, 0xdd, 0x76, 0xd5, 0x46,
                                  0x77, 0x30, 0xef, 0xcb, 0xe3, 0xb1, 0xa2, 0x2d};
    static const uint8_t iv[] = {0xfa, 0x04, 0x4b, 0x2f, 0x42, 0xa3,
                                 0xfd, 0x3b, 0x46, 0xfb, 0x25, 0x5c};
    static const uint8_t hp[] = {0x9f, 0x50, 0x44, 0x9e, 0x04, 0xa0, 0xe8, 0x10,
                                 0x28, 0x3a, 0x1e, 0x99, 0x33, 0xad, 0xed, 0xd2};
    struct initial_keys keys;
    initial_derive(&keys, INITIAL_CLIENT, dcid, sizeof dcid);
    assert_memory_equal(keys.key, key, sizeof key);
    assert_memory_equal(keys.iv, iv, sizeof iv);
    assert_memory_equal(keys.hp, hp, sizeof hp);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/*
 * The CRYPTO frames must come in order and without gaps: Firedancer takes them in no other way.
 * Everything after them is padding.
 */
static void read_frames(void)
{
    size_t at = 0;
    hello.length = 0;
    while (at < packet.payload_bytes && packet.payload[at] == 0x06) {
        at++;
        uint64_t offset = initial_varint(packet.payload, packet.payload_bytes, &at);
        uint64_t length = initial_varint(packet.payload, packet.payload_bytes, &at);
        assert_int_equal(offset, hello.length);
        assert_true(length > 0 && length <= packet.payload_bytes - at);
        memcpy(hello.bytes + hello.length, packet.payload + at, (size_t)length);
        hello.length += (size_t)length;
        at += (size_t)length;
    }
    for (; at < packet.payload_bytes; at++) {
        assert_int_equal(packet.payload[at], 0);
    }
}

static size_t take(size_t *at, size_t bytes)
{
    size_t value = 0;
    assert_true(hello.length - *at >= bytes);
    while (bytes-- > 0) {
        value = value << 8 | hello.bytes[(*at)++];
    }
    return value;
}

static const uint8_t *skip_bytes(size_t *at, size_t bytes)
{
    const uint8_t *from = hello.bytes + *at;
    assert_true(hello.length - *at >= bytes);
    *at += bytes;
    return from;
}

static void read_hello(void)
{
    size_t at = 0;
    assert_int_equal(take(&at, 1), 1); /* client_hello */
    assert_int_equal(take(&at, 3), hello.length - 4);
    assert_int_equal(take(&at, 2), 0x0303);
    skip_bytes(&at, 32);
    hello.session_id_bytes = take(&at, 1);
    skip_bytes(&at, hello.session_id_bytes);
    hello.cipher_bytes = take(&at, 2);
    hello.ciphers = skip_bytes(&at, hello.cipher_bytes);
    assert_int_equal(take(&at, 1), 1);
    assert_int_equal(take(&at, 1), 0);
    hello.extension_bytes = take(&at, 2);
    hello.extensions = skip_bytes(&at, hello.extension_bytes);
    assert_int_equal(at, hello.length);
}

/* The body of an extension, or null. */
static const uint8_t *extension(unsigned wanted, size_t *bytes)
{
    const uint8_t *found = NULL;
    for (size_t at = 0; at + 4 <= hello.extension_bytes;) {
        const uint8_t *e = hello.extensions + at;
        size_t length = (size_t)e[2] << 8 | e[3];
        assert_true(at + 4 + length <= hello.extension_bytes);
        if ((unsigned)(e[0] << 8 | e[1]) == wanted) {
            assert_null(found);
            found = e + 4;
            *bytes = length;
        }
        at += 4 + length;
    }
    return found;
}

/* Opens a link and takes its first datagram apart. */
static void capture(const char *query, const solsend_link_options *options)
{
    char uri[1024];
    uint8_t data[4096];
    struct initial_keys keys;
    solsend_detail detail = {0};
    snprintf(uri, sizeof uri, "%s%s", udp_peer_uri(&peer, "quic"), query);
    int rc = solsend_link_open(&link_, uri, options, &detail);
    if (rc != 0) {
        fail_msg("%s: %s", solsend_error_name(rc), detail.text);
    }
    ssize_t n = udp_peer_take(&peer, data, sizeof data);
    assert_int_equal(n, DATAGRAM_BYTES);
    assert_int_equal(udp_peer_take(&peer, data + 2048, 2048), -1); /* it is the only one */
    assert_int_equal(initial_read_header(&packet, data, (size_t)n), 0);
    initial_derive(&keys, INITIAL_CLIENT, packet.dcid, packet.dcid_bytes);
    assert_int_equal(initial_open(&packet, &keys, data, (size_t)n), 0);
    assert_int_equal(packet.end, n); /* padded inside, nothing behind */
    assert_int_equal(packet.token_bytes, 0);
    assert_int_equal(packet.dcid_bytes, 18);
    assert_int_equal(packet.scid_bytes, 8);
    read_frames();
    read_hello();
}

/* ---- what leaders look for --------------------------------------------------------------------
 */

static int has_u16(const uint8_t *list, size_t bytes, unsigned value)
{
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        if ((unsigned)(list[i] << 8 | list[i + 1]) == value) {
            return 1;
        }
    }
    return 0;
}

static void ed25519_is_offered(void **state)
{
    (void)state;
    size_t bytes = 0;
    capture("", NULL);
    const uint8_t *e = extension(13, &bytes); /* signature_algorithms */
    assert_non_null(e);
    assert_int_equal((size_t)(e[0] << 8 | e[1]), bytes - 2);
    assert_true(has_u16(e + 2, bytes - 2, 0x0807));
    e = extension(50, &bytes); /* signature_algorithms_cert: if it is there, it too */
    assert_true(e == NULL || has_u16(e + 2, bytes - 2, 0x0807));
}

static void the_only_key_share_is_x25519(void **state)
{
    (void)state;
    size_t bytes = 0;
    capture("", NULL);
    const uint8_t *e = extension(51, &bytes); /* key_share */
    assert_non_null(e);
    assert_int_equal(bytes, 2 + 2 + 2 + 32);
    assert_memory_equal(e, "\x00\x24\x00\x1d\x00\x20", 6);
    e = extension(10, &bytes); /* supported_groups */
    assert_non_null(e);
    assert_int_equal(bytes, 4);
    assert_memory_equal(e, "\x00\x02\x00\x1d", 4);
}

static void only_tls_13_with_aes_128_gcm_is_spoken(void **state)
{
    (void)state;
    size_t bytes = 0;
    capture("", NULL);
    assert_int_equal(hello.session_id_bytes, 0); /* no middlebox compatibility in QUIC */
    assert_int_equal(hello.cipher_bytes, 2);
    assert_memory_equal(hello.ciphers, "\x13\x01", 2);
    const uint8_t *e = extension(43, &bytes); /* supported_versions */
    assert_non_null(e);
    assert_int_equal(bytes, 3);
    assert_memory_equal(e, "\x02\x03\x04", 3);
    assert_non_null(extension(57, &bytes)); /* quic_transport_parameters */
}

static void the_server_is_named_after_its_address(void **state)
{
    (void)state;
    char name[64];
    size_t bytes = 0;
    capture("", NULL);
    snprintf(name, sizeof name, "127.0.0.1.%u.sol", peer.port);
    const uint8_t *e = extension(0, &bytes); /* server_name */
    assert_non_null(e);
    assert_int_equal(bytes, 5 + strlen(name));
    assert_memory_equal(e + 5, name, strlen(name));
    e = extension(16, &bytes); /* ALPN */
    assert_non_null(e);
    assert_int_equal(bytes, 2 + 1 + strlen("solana-tpu"));
    assert_memory_equal(e + 2, "\x0asolana-tpu", 11);
}

static void the_uris_names_are_used(void **state)
{
    (void)state;
    size_t bytes = 0;
    capture("?sni=leader.example&alpn=other-protocol", NULL);
    const uint8_t *e = extension(0, &bytes);
    assert_non_null(e);
    assert_memory_equal(e + 5, "leader.example", 14);
    assert_int_equal(bytes, 5 + 14);
    e = extension(16, &bytes);
    assert_non_null(e);
    assert_memory_equal(e + 2, "\x0eother-protocol", 15);
}

static void the_longest_names_still_fit_one_datagram(void **state)
{
    (void)state;
    char query[600], name[256];
    size_t bytes = 0;
    memset(name, 'n', 255);
    name[255] = 0;
    for (int i = 63; i < 255; i += 64) {
        name[i] = '.'; /* labels of a host name */
    }
    snprintf(query, sizeof query, "?alpn=%.31s&sni=%s", name, name);
    capture(query, NULL);
    const uint8_t *e = extension(0, &bytes);
    assert_non_null(e);
    assert_int_equal(bytes, 5 + 255);
    assert_memory_equal(e + 5, name, 255);
}

static void ipv6_has_a_name_too(void **state)
{
    (void)state;
    udp_peer_close(&peer);
    if (udp_peer_open(&peer, "::1") != 0) {
        udp_peer_open(&peer, "127.0.0.1");
        skip();
    }
    char name[64];
    size_t bytes = 0;
    capture("", NULL);
    snprintf(name, sizeof name, "--1.%u.sol", peer.port);
    const uint8_t *e = extension(0, &bytes);
    assert_non_null(e);
    assert_int_equal(bytes, 5 + strlen(name));
    assert_memory_equal(e + 5, name, strlen(name));
}

/* Two links share nothing that an observer could tie together, and no options change the first
 * datagram's size. */
static void every_hello_is_its_own(void **state)
{
    (void)state;
    solsend_link_options o;
    uint8_t dcid[INITIAL_CID_MAX], scid[INITIAL_CID_MAX], random[32];
    solsend_link_options_init(&o, sizeof o);
    o.first_flight_bytes = 65527;
    o.payload_bytes_max = 1472;
    capture("", &o);
    memcpy(dcid, packet.dcid, sizeof dcid);
    memcpy(scid, packet.scid, sizeof scid);
    memcpy(random, hello.bytes + 6, sizeof random);
    solsend_link_close(link_, 0);
    uint8_t goodbye[2048];
    while (udp_peer_take(&peer, goodbye, sizeof goodbye) >= 0) {
    }
    o.first_flight_bytes = 2944;
    o.payload_bytes_max = 1200;
    o.certificate = SOLSEND_CERTIFICATE_NONE;
    capture("", &o);
    assert_memory_not_equal(packet.dcid, dcid, 18);
    assert_memory_not_equal(packet.scid, scid, 8);
    assert_memory_not_equal(hello.bytes + 6, random, 32);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_keys_are_the_rfcs),
        TEST(ed25519_is_offered),
        TEST(the_only_key_share_is_x25519),
        TEST(only_tls_13_with_aes_128_gcm_is_spoken),
        TEST(the_server_is_named_after_its_address),
        TEST(the_uris_names_are_used),
        TEST(the_longest_names_still_fit_one_datagram),
        TEST(ipv6_has_a_name_too),
        TEST(every_hello_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
