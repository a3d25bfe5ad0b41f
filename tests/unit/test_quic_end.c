#include "check.h"

#include <solsend/error.h>

#include "link/quic_end.h"

static char text[96];

static int peer_close(ngtcp2_ccerr_type type, uint64_t code, const char *reason, size_t bytes)
{
    ngtcp2_ccerr error = {
        .type = type,
        .error_code = code,
        .reason = (const uint8_t *)reason,
        .reasonlen = bytes,
    };
    memset(text, 0xcc, sizeof text);
    return quic_end_of_peer_close(&error, text, sizeof text);
}

static int application(uint64_t code)
{
    return peer_close(NGTCP2_CCERR_TYPE_APPLICATION, code, NULL, 0);
}

static int transport(uint64_t code)
{
    return peer_close(NGTCP2_CCERR_TYPE_TRANSPORT, code, NULL, 0);
}

static void agaves_close_codes_have_their_own(void **state)
{
    (void)state;
    assert_int_equal(application(1), SOLSEND_ERR_DROPPED);
    assert_int_equal(application(2), SOLSEND_ERR_DISALLOWED);
    assert_int_equal(application(3), SOLSEND_ERR_STREAM_COUNT);
    assert_int_equal(application(4), SOLSEND_ERR_TOO_MANY);
    assert_int_equal(application(5), SOLSEND_ERR_INVALID_STREAM);
    static const uint64_t others[] = {0, 6, 0x100, 0x174, UINT64_C(0x3fffffffffffffff)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(application(others[i]), SOLSEND_ERR_CLOSED_BY_PEER);
    }
}

static void tls_alerts_say_what_was_refused(void **state)
{
    (void)state;
    for (uint64_t alert = 0; alert < 256; alert++) {
        int expected = SOLSEND_ERR_HANDSHAKE_REFUSED;
        if ((alert >= 42 && alert <= 46) || alert == 48) { /* bad … unknown, unknown_ca */
            expected = SOLSEND_ERR_CERT_REFUSED;
        } else if (alert == 116) {
            expected = SOLSEND_ERR_CERT_REQUIRED;
        } else if (alert == 120) {
            expected = SOLSEND_ERR_ALPN_REFUSED;
        }
        assert_int_equal(transport(0x100 + alert), expected);
    }
    assert_int_equal(transport(0xff), SOLSEND_ERR_CLOSED_BY_PEER);
    assert_int_equal(transport(0x200), SOLSEND_ERR_CLOSED_BY_PEER);
}

static void transport_codes_that_mean_more(void **state)
{
    (void)state;
    for (uint64_t code = 0; code <= 0x11; code++) {
        int expected = code == 0x02   ? SOLSEND_ERR_PEER_BUSY         /* CONNECTION_REFUSED */
                       : code == 0x0c ? SOLSEND_ERR_HANDSHAKE_REFUSED /* APPLICATION_ERROR */
                                      : SOLSEND_ERR_CLOSED_BY_PEER;
        assert_int_equal(transport(code), expected);
    }
    assert_int_equal(transport(5), SOLSEND_ERR_CLOSED_BY_PEER); /* not Agave's invalid_stream */
    assert_int_equal(transport(UINT64_MAX), SOLSEND_ERR_CLOSED_BY_PEER);
}

static void the_text_has_code_and_reason(void **state)
{
    (void)state;
    peer_close(NGTCP2_CCERR_TYPE_APPLICATION, 4, "too_many", 8);
    assert_string_equal(text, "application close 0x4 \"too_many\"");
    peer_close(NGTCP2_CCERR_TYPE_TRANSPORT, 0x174, "", 0);
    assert_string_equal(text, "transport close 0x174 \"\"");
    /* a peer's bytes are never passed on as they are */
    peer_close(NGTCP2_CCERR_TYPE_APPLICATION, 1, "a\x1b[2J\n\0b\xff\x7f", 10);
    assert_string_equal(text, "application close 0x1 \"a?[2J??b??\"");
    char reason[1200];
    memset(reason, 'r', sizeof reason);
    peer_close(NGTCP2_CCERR_TYPE_APPLICATION, UINT64_C(0x3fffffffffffffff), reason, sizeof reason);
    assert_in_range(strlen(text), 60, sizeof text - 1);
    assert_int_equal(text[strlen(text) - 1], '"'); /* even the longest fits */

    char tiny[8] = "xxxxxxx";
    ngtcp2_ccerr error = {.type = NGTCP2_CCERR_TYPE_APPLICATION, .error_code = 2};
    assert_int_equal(quic_end_of_peer_close(&error, tiny, sizeof tiny), SOLSEND_ERR_DISALLOWED);
    assert_string_equal(tiny, "applica");
}

static void library_errors_have_a_code_each(void **state)
{
    (void)state;
    static const struct {
        int error;
        int code;
    } known[] = {
        {NGTCP2_ERR_IDLE_CLOSE, SOLSEND_ERR_IDLE},
        {NGTCP2_ERR_HANDSHAKE_TIMEOUT, SOLSEND_ERR_HANDSHAKE_TIMEOUT},
        {NGTCP2_ERR_RECV_VERSION_NEGOTIATION, SOLSEND_ERR_VERSION},
        {NGTCP2_ERR_VERSION_NEGOTIATION_FAILURE, SOLSEND_ERR_VERSION},
        {NGTCP2_ERR_CRYPTO, SOLSEND_ERR_HANDSHAKE_REFUSED},
        {NGTCP2_ERR_NOMEM, SOLSEND_ERR_MEMORY},
        {NGTCP2_ERR_INVALID_ARGUMENT, SOLSEND_ERR_INTERNAL},
        {NGTCP2_ERR_INVALID_STATE, SOLSEND_ERR_INTERNAL},
        {NGTCP2_ERR_INTERNAL, SOLSEND_ERR_INTERNAL},
        {NGTCP2_ERR_CALLBACK_FAILURE, SOLSEND_ERR_INTERNAL},
        {NGTCP2_ERR_PROTO, SOLSEND_ERR_PROTOCOL},
        {NGTCP2_ERR_FRAME_ENCODING, SOLSEND_ERR_PROTOCOL},
        {NGTCP2_ERR_FLOW_CONTROL, SOLSEND_ERR_PROTOCOL},
        {NGTCP2_ERR_TRANSPORT_PARAM, SOLSEND_ERR_PROTOCOL},
        {NGTCP2_ERR_MALFORMED_TRANSPORT_PARAM, SOLSEND_ERR_PROTOCOL},
        {NGTCP2_ERR_AEAD_LIMIT_REACHED, SOLSEND_ERR_PROTOCOL},
        {-999, SOLSEND_ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(quic_end_of_library_error(known[i].error), known[i].code);
    }
    for (int error = -600; error < -200; error++) {
        assert_string_not_equal(solsend_error_name(quic_end_of_library_error(error)), "?");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agaves_close_codes_have_their_own),
        cmocka_unit_test(tls_alerts_say_what_was_refused),
        cmocka_unit_test(transport_codes_that_mean_more),
        cmocka_unit_test(the_text_has_code_and_reason),
        cmocka_unit_test(library_errors_have_a_code_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
