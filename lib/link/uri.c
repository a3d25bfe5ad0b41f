#include "link/uri.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/detail.h"

struct cursor {
    const char *text;
    size_t at;
    size_t end;
    solsend_detail *detail;
};

static int refuse(const struct cursor *c, size_t at, const char *what)
{
    return detail_set(c->detail, SOLSEND_ERR_BAD_URI, (uint32_t)at, "URI byte %zu: %s", at, what);
}

static int is_host_byte(char b)
{
    return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') || b == '.' ||
           b == '-' || b == '_';
}

static int is_address_byte(char b)
{
    return (b >= '0' && b <= '9') || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F') || b == ':' ||
           b == '.';
}

static int parse_scheme(struct uri *uri, struct cursor *c)
{
    static const struct {
        const char *prefix;
        enum uri_scheme scheme;
    } schemes[] = {{"udp://", URI_UDP}, {"quic://", URI_QUIC}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t n = strlen(schemes[i].prefix);
        if (strncmp(c->text, schemes[i].prefix, n) == 0) {
            uri->scheme = schemes[i].scheme;
            c->at = n;
            return 0;
        }
    }
    return refuse(c, 0, "the scheme must be quic:// or udp://");
}

/*
 * The resolver would take 127.1, 0x7f000001 and 010.0.0.1 (octal!) for addresses, and
 * look 10.0.0.256 up as a name: what is meant to be an address is one, or is refused.
 */
static int is_wrong_ipv4(const char *host)
{
    struct in_addr ignored;
    int numeric = host[strspn(host, "0123456789.")] == 0 || inet_aton(host, &ignored) != 0;
    return numeric && inet_pton(AF_INET, host, &ignored) != 1;
}

static int parse_host(struct uri *uri, struct cursor *c)
{
    int bracketed = c->at < c->end && c->text[c->at] == '[';
    size_t start = c->at + (bracketed ? 1 : 0);
    size_t i = start;
    while (i < c->end && (bracketed ? is_address_byte(c->text[i]) : is_host_byte(c->text[i]))) {
        i++;
    }
    if (i == start) {
        return refuse(c, i, "the host is missing");
    }
    if (i - start >= URI_HOST_BYTES) {
        return refuse(c, start, "the host is longer than 255 bytes");
    }
    memcpy(uri->host, c->text + start, i - start);
    uri->host[i - start] = 0;
    if (bracketed) {
        if (i == c->end || c->text[i] != ']') {
            return refuse(c, i, "an IPv6 address ends with ]");
        }
        struct in6_addr ignored;
        if (inet_pton(AF_INET6, uri->host, &ignored) != 1) {
            return refuse(c, start, "in brackets stands an IPv6 address");
        }
        i++;
    } else if (is_wrong_ipv4(uri->host)) {
        return refuse(c, start, "an IPv4 address is four decimal numbers, 0 to 255");
    }
    c->at = i;
    return 0;
}

static int parse_port(struct uri *uri, struct cursor *c)
{
    if (c->at == c->end || c->text[c->at] != ':') {
        return refuse(c, c->at, "expected :PORT");
    }
    size_t start = ++c->at;
    uint32_t port = 0;
    while (c->at < c->end && c->text[c->at] >= '0' && c->text[c->at] <= '9') {
        port = port * 10 + (uint32_t)(c->text[c->at] - '0');
        if (port > UINT16_MAX) {
            return refuse(c, start, "the port is above 65535");
        }
        c->at++;
    }
    if (c->at == start || port == 0) {
        return refuse(c, start, "the port must be 1 to 65535");
    }
    uri->port = (uint16_t)port;
    return 0;
}

/* Copies a query value up to & or the end. Names of TLS are visible ASCII without spaces. */
static int parse_value(char *out, size_t out_bytes, struct cursor *c)
{
    size_t n = 0;
    size_t start = c->at;
    for (; c->at < c->end && c->text[c->at] != '&'; c->at++) {
        unsigned char b = (unsigned char)c->text[c->at];
        if (b <= ' ' || b > '~') {
            return refuse(c, c->at, "a value holds only visible ASCII");
        }
        if (n == out_bytes - 1) {
            return refuse(c, start,
                          out_bytes == URI_ALPN_BYTES ? "the value is longer than 31 bytes"
                                                      : "the value is longer than 255 bytes");
        }
        out[n++] = (char)b;
    }
    out[n] = 0;
    return n > 0 ? 0 : refuse(c, start, "the value is empty");
}

static int parse_query(struct uri *uri, struct cursor *c)
{
    while (c->at < c->end) {
        c->at++; /* ? or & */
        size_t start = c->at;
        char *target = NULL;
        size_t target_bytes = 0;
        if (strncmp(c->text + c->at, "alpn=", 5) == 0) {
            target = uri->alpn;
            target_bytes = sizeof uri->alpn;
            c->at += 5;
        } else if (strncmp(c->text + c->at, "sni=", 4) == 0) {
            target = uri->sni;
            target_bytes = sizeof uri->sni;
            c->at += 4;
        }
        if (target == NULL || uri->scheme != URI_QUIC) {
            return refuse(c, start,
                          uri->scheme == URI_QUIC ? "unknown key: only alpn and sni exist"
                                                  : "udp:// takes no keys");
        }
        if (target[0] != 0) {
            return refuse(c, start, "the key stands twice");
        }
        int rc = parse_value(target, target_bytes, c);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int measure(struct cursor *c, const char *text, solsend_detail *detail)
{
    c->text = text;
    c->at = 0;
    c->detail = detail;
    c->end = strnlen(text, URI_BYTES_MAX + 1);
    return c->end <= URI_BYTES_MAX ? 0 : refuse(c, URI_BYTES_MAX, "longer than 1024 bytes");
}

int uri_parse_authority(struct uri *uri, const char *text, solsend_detail *detail)
{
    struct cursor c;
    memset(uri, 0, sizeof *uri);
    int rc = measure(&c, text, detail);
    if (rc == 0) {
        rc = parse_host(uri, &c);
    }
    if (rc == 0) {
        rc = parse_port(uri, &c);
    }
    if (rc == 0 && c.at != c.end) {
        rc = refuse(&c, c.at, "nothing may follow the port");
    }
    return rc;
}

int uri_parse(struct uri *uri, const char *text, solsend_detail *detail)
{
    struct cursor c;
    memset(uri, 0, sizeof *uri);
    int rc = measure(&c, text, detail);
    if (rc == 0) {
        rc = parse_scheme(uri, &c);
    }
    if (rc == 0) {
        rc = parse_host(uri, &c);
    }
    if (rc == 0) {
        rc = parse_port(uri, &c);
    }
    if (rc == 0 && c.at < c.end && c.text[c.at] != '?') {
        rc = refuse(&c, c.at, "only ?key=value may follow the port");
    }
    return rc == 0 ? parse_query(uri, &c) : rc;
}
