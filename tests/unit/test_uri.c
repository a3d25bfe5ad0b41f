#include "check.h"

#include "link/uri.h"

static struct uri uri;
static solsend_detail detail;

static int parse(const char *text)
{
    memset(&uri, 0xa5, sizeof uri);
    memset(&detail, 0, sizeof detail);
    return uri_parse(&uri, text, &detail);
}

static void addresses_and_names_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse("udp://203.0.113.7:8009"), 0);
    assert_int_equal(uri.scheme, URI_UDP);
    assert_string_equal(uri.host, "203.0.113.7");
    assert_int_equal(uri.port, 8009);
    assert_string_equal(uri.alpn, "");
    assert_string_equal(uri.sni, "");

    assert_int_equal(parse("quic://Leader-1_a.example.org:65535"), 0);
    assert_int_equal(uri.scheme, URI_QUIC);
    assert_string_equal(uri.host, "Leader-1_a.example.org");
    assert_int_equal(uri.port, 65535);
    assert_int_equal(parse("quic://a:1"), 0);
    assert_int_equal(uri.port, 1);
    assert_int_equal(parse("quic://4.example:1"), 0);
    assert_int_equal(parse("quic://127.0.0.1.example:1"), 0);
    assert_int_equal(parse("quic://0.0.0.0:1"), 0); /* an address; that it cannot be sent to is
                                                       the endpoint's word */
}

static void ipv6_addresses_stand_in_brackets(void **state)
{
    (void)state;
    static const char *const good[] = {"::1", "2001:db8::7", "::ffff:192.0.2.1",
                                       "2001:0DB8:0000:0000:0000:0000:0000:0001", "::"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "quic://[%s]:8009", good[i]);
        assert_int_equal(parse(text), 0);
        assert_string_equal(uri.host, good[i]);
        assert_int_equal(uri.port, 8009);
    }
}

static void query_keys_are_read_in_any_order(void **state)
{
    (void)state;
    assert_int_equal(parse("quic://h:1?alpn=a&sni=s"), 0);
    assert_string_equal(uri.alpn, "a");
    assert_string_equal(uri.sni, "s");
    assert_int_equal(parse("quic://[::1]:1?sni=x.y=z?&alpn=solana-tpu"), 0);
    assert_string_equal(uri.sni, "x.y=z?");
    assert_string_equal(uri.alpn, "solana-tpu");
    assert_int_equal(parse("quic://h:1?sni=s"), 0);
    assert_string_equal(uri.alpn, "");
}

/* Each wrong text with its first wrong byte. */
static const struct {
    const char *text;
    uint32_t at;
} wrong[] = {
    {"", 0},
    {"quic", 0},
    {"quic:/", 0},
    {"QUIC://h:1", 0},
    {" quic://h:1", 0},
    {"http://h:1", 0},
    {"udp:h:1", 0},
    {"h:1", 0},
    {"quic://", 7},
    {"quic://:8009", 7},
    {"udp://:8009", 6},
    {"quic://h", 8},
    {"quic://h/:1", 8},
    {"quic://user@h:1", 11},
    {"quic://h o:1", 8},
    {"quic://h\x80:1", 8},
    {"quic://%41:1", 7},
    {"quic://h:", 9},
    {"quic://h:0", 9},
    {"quic://h:000", 9},
    {"quic://h:-1", 9},
    {"quic://h:+1", 9},
    {"quic://h: 1", 9},
    {"quic://h:x", 9},
    {"quic://h:65536", 9},
    {"quic://h:4294967297", 9},
    {"quic://h:99999999999999999999", 9},
    {"quic://h:8009x", 13},
    {"quic://h:8009/", 13},
    {"quic://h:8009 ", 13},
    {"quic://h:8009&alpn=a", 13},
    {"quic://[::1", 11},
    {"quic://[::1:8009", 16},
    {"quic://[]:1", 8},
    {"quic://[:1", 10},
    {"quic://[::1]", 12},
    {"quic://[::1]8009", 12},
    {"quic://[::1%lo]:1", 11},
    {"quic://::1:8009", 7},
    {"quic://[[::1]]:1", 8},
    /* in brackets, but no IPv6 address: never a name to be looked up */
    {"quic://[abc]:1", 8},
    {"quic://[1234]:1", 8},
    {"quic://[127.0.0.1]:1", 8},
    {"quic://[:::1]:1", 8},
    {"quic://[1:2:3:4:5:6:7:8:9]:1", 8},
    {"udp://[12345::]:1", 7},
    /* what the resolver would take for an address of its own making, or look up */
    {"quic://127.1:1", 7},
    {"quic://2130706433:1", 7},
    {"quic://0x7f000001:1", 7},
    {"quic://010.0.0.1:1", 7},
    {"quic://10.0.0.256:1", 7},
    {"udp://10.0.0.1.:1", 6},
    {"udp://.:1", 6},
    {"quic://h:1?", 11},
    {"quic://h:1?&", 11},
    {"quic://h:1?ALPN=a", 11},
    {"quic://h:1?alpn", 11},
    {"quic://h:1?key=a", 11},
    {"quic://h:1?alpn=", 16},
    {"quic://h:1?alpn=&sni=s", 16},
    {"quic://h:1?sni=", 15},
    {"quic://h:1?alpn=a b", 17},
    {"quic://h:1?alpn=a\x7f", 17},
    {"quic://h:1?alpn=a\xc3\xa4", 17},
    {"quic://h:1?alpn=a\n", 17},
    {"quic://h:1?alpn=a&", 18},
    {"quic://h:1?alpn=a&alpn=b", 18},
    {"quic://h:1?sni=a&alpn=b&sni=a", 24},
    {"udp://h:1?", 10},
    {"udp://h:1?alpn=a", 10},
    {"udp://h:1?sni=a", 10},
};

static void every_refusal_names_its_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char prefix[32];
        int rc = parse(wrong[i].text);
        if (rc != SOLSEND_ERR_BAD_URI || detail.offset != wrong[i].at) {
            fail_msg("\"%s\": %s at %u \"%s\", expected byte %u", wrong[i].text,
                     solsend_error_name(rc), detail.offset, detail.text, wrong[i].at);
        }
        assert_int_equal(detail.code, SOLSEND_ERR_BAD_URI);
        snprintf(prefix, sizeof prefix, "URI byte %u: ", wrong[i].at);
        assert_memory_equal(detail.text, prefix, strlen(prefix));
        assert_true(strlen(detail.text) > strlen(prefix) + 5);
        assert_int_equal(uri_parse(&uri, wrong[i].text, NULL), SOLSEND_ERR_BAD_URI);
    }
}

static void lengths_have_limits(void **state)
{
    (void)state;
    char name[300], text[2048];
    memset(name, 'a', sizeof name);

    snprintf(text, sizeof text, "quic://%.255s:1", name);
    assert_int_equal(parse(text), 0);
    assert_int_equal(strlen(uri.host), 255);
    snprintf(text, sizeof text, "quic://%.256s:1", name);
    assert_int_equal(parse(text), SOLSEND_ERR_BAD_URI);
    assert_int_equal(detail.offset, 7);

    snprintf(text, sizeof text, "quic://h:1?alpn=%.31s&sni=%.255s", name, name);
    assert_int_equal(parse(text), 0);
    assert_int_equal(strlen(uri.alpn), 31);
    assert_int_equal(strlen(uri.sni), 255);
    snprintf(text, sizeof text, "quic://h:1?alpn=%.32s", name); /* GnuTLS has no room */
    assert_int_equal(parse(text), SOLSEND_ERR_BAD_URI);
    assert_int_equal(detail.offset, 16);
    snprintf(text, sizeof text, "quic://h:1?alpn=a&sni=%.256s", name);
    assert_int_equal(parse(text), SOLSEND_ERR_BAD_URI);
    assert_int_equal(detail.offset, 22);

    /* a port of many digits is the only way to fill a URI to its limit */
    int n = snprintf(text, sizeof text, "udp://h:");
    memset(text + n, '0', 1024 - (size_t)n);
    strcpy(text + 1023, "7");
    assert_int_equal(parse(text), 0);
    assert_int_equal(uri.port, 7);
    strcpy(text + 1023, "07");
    assert_int_equal(parse(text), SOLSEND_ERR_BAD_URI);
    assert_int_equal(detail.offset, 1024);
}

static void a_bare_authority_has_no_scheme_and_no_query(void **state)
{
    (void)state;
    memset(&uri, 0xa5, sizeof uri);
    assert_int_equal(uri_parse_authority(&uri, "127.0.0.1:9", &detail), 0);
    assert_string_equal(uri.host, "127.0.0.1");
    assert_int_equal(uri.port, 9);
    assert_int_equal(uri_parse_authority(&uri, "[fe80::1]:9", &detail), 0);
    assert_string_equal(uri.host, "fe80::1");
    static const struct {
        const char *text;
        uint32_t at;
    } bad[] = {{"", 0},          {"h", 1},          {"h:", 2},           {"h:0", 2},
               {"h:9?sni=a", 3}, {"quic://h:9", 5}, {"h:9 ", 3},         {"[::1]:9/", 7},
               {"[h]:9", 1},     {"h:70000", 2},    {"127.0.0.1\t:9", 9}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int rc = uri_parse_authority(&uri, bad[i].text, &detail);
        if (rc != SOLSEND_ERR_BAD_URI || detail.offset != bad[i].at) {
            fail_msg("\"%s\": %s at %u, expected byte %u", bad[i].text, solsend_error_name(rc),
                     detail.offset, bad[i].at);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_names_are_read),
        cmocka_unit_test(ipv6_addresses_stand_in_brackets),
        cmocka_unit_test(query_keys_are_read_in_any_order),
        cmocka_unit_test(every_refusal_names_its_byte),
        cmocka_unit_test(lengths_have_limits),
        cmocka_unit_test(a_bare_authority_has_no_scheme_and_no_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
