#include "check.h"

#include "link/tls_guard.h"

static const ngtcp2_encryption_level levels[] = {NGTCP2_ENCRYPTION_LEVEL_INITIAL,
                                                 NGTCP2_ENCRYPTION_LEVEL_HANDSHAKE,
                                                 NGTCP2_ENCRYPTION_LEVEL_1RTT};

/* Writes a message head with this length; returns where its body begins. */
static size_t put(uint8_t *out, uint8_t type, uint32_t length)
{
    out[0] = type;
    out[1] = (uint8_t)(length >> 16);
    out[2] = (uint8_t)(length >> 8);
    out[3] = (uint8_t)length;
    return 4;
}

static void each_level_has_its_messages(void **state)
{
    (void)state;
    static const uint8_t of_server[3][6] = {{2}, {8, 11, 13, 15, 20}, {4}};
    static const uint8_t of_client[3][6] = {{1}, {11, 15, 20}, {0}};
    for (int l = 0; l < 3; l++) {
        for (unsigned type = 0; type < 256; type++) {
            struct tls_guard guard = {0};
            uint8_t message[4];
            put(message, (uint8_t)type, 0);
            int expected = type != 0 && memchr(of_server[l], (int)type, 6) != NULL ? 0 : -1;
            assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[l], message, 4), expected);
            guard = (struct tls_guard){0};
            expected = type != 0 && memchr(of_client[l], (int)type, 6) != NULL ? 0 : -1;
            assert_int_equal(tls_guard_check(&guard, TLS_CLIENT, levels[l], message, 4), expected);
        }
    }
    struct tls_guard guard = {0};
    uint8_t hello[4];
    put(hello, 1, 0);
    assert_int_equal(tls_guard_check(&guard, TLS_CLIENT, NGTCP2_ENCRYPTION_LEVEL_0RTT, hello, 4),
                     -1);
}

/* A KeyUpdate (RFC 8446 section 4.6.3), which would end the process. */
static const uint8_t key_update[] = {24, 0, 0, 1, 0};

static void a_key_update_is_seen_wherever_it_begins(void **state)
{
    (void)state;
    for (uint32_t body = 0; body < 40; body++) {
        uint8_t stream[64];
        size_t n = put(stream, 4, body); /* a ticket before it, its bytes looking like another */
        for (uint32_t i = 0; i < body; i++) {
            stream[n++] = key_update[i % sizeof key_update];
        }
        size_t ticket_bytes = n;
        memcpy(stream + n, key_update, sizeof key_update);
        n += sizeof key_update;
        for (size_t piece = 1; piece <= n; piece++) { /* in pieces of every size */
            struct tls_guard guard = {0};
            int rc = 0;
            size_t at = 0;
            while (at < n && rc == 0) {
                size_t bytes = piece < n - at ? piece : n - at;
                rc = tls_guard_check(&guard, TLS_SERVER, NGTCP2_ENCRYPTION_LEVEL_1RTT, stream + at,
                                     bytes);
                assert_int_equal(rc, at + bytes > ticket_bytes ? -1 : 0);
                at += bytes;
            }
            assert_int_equal(rc, -1);
        }
    }
}

static void a_whole_flight_passes_in_any_pieces(void **state)
{
    (void)state;
    static uint8_t flight[2000];
    static const struct {
        uint8_t type;
        uint32_t bytes;
    } messages[] = {{8, 100}, {13, 50}, {11, 1100}, {15, 70}, {20, 32}};
    size_t n = 0;
    for (int i = 0; i < 5; i++) {
        n += put(flight + n, messages[i].type, messages[i].bytes);
        memset(flight + n, 24, messages[i].bytes);
        n += messages[i].bytes;
    }
    for (size_t piece = 1; piece <= n; piece += 7) {
        struct tls_guard guard = {0};
        for (size_t at = 0; at < n; at += piece) {
            size_t bytes = piece < n - at ? piece : n - at;
            assert_int_equal(tls_guard_check(&guard, TLS_SERVER, NGTCP2_ENCRYPTION_LEVEL_HANDSHAKE,
                                             flight + at, bytes),
                             0);
        }
        assert_int_equal(guard.left[1] + guard.head[1], 0);
    }
}

static void levels_do_not_mix(void **state)
{
    (void)state;
    struct tls_guard guard = {0};
    uint8_t hello[4], ticket[4];
    put(hello, 2, 100); /* its body is still to come … */
    put(ticket, 4, 3);
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[0], hello, 4), 0);
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[2], ticket, 4), 0);
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[2], (const uint8_t *)"abc", 3), 0);
    /* … there, not here */
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[2], key_update, 5), -1);
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[0], key_update, 5), 0);
    assert_int_equal(guard.left[0], 95);
}

static void the_longest_message_is_passed_over(void **state)
{
    (void)state;
    struct tls_guard guard = {0};
    uint8_t head[4], body[1000] = {24};
    put(head, 4, 0xffffff);
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[2], head, 4), 0);
    for (uint32_t left = 0xffffff; left > 0;) {
        uint32_t n = left < sizeof body ? left : (uint32_t)sizeof body;
        assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[2], body, n), 0);
        left -= n;
    }
    assert_int_equal(tls_guard_check(&guard, TLS_SERVER, levels[2], body, 1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_level_has_its_messages),
        cmocka_unit_test(a_key_update_is_seen_wherever_it_begins),
        cmocka_unit_test(a_whole_flight_passes_in_any_pieces),
        cmocka_unit_test(levels_do_not_mix),
        cmocka_unit_test(the_longest_message_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
