/* Link URIs: quic://HOST:PORT[?alpn=NAME&sni=NAME] and udp://HOST:PORT. */
#ifndef LINK_URI_H
#define LINK_URI_H

#include <solsend/error.h>

enum uri_scheme { URI_UDP, URI_QUIC };

enum {
    URI_HOST_BYTES = 256,
    URI_ALPN_BYTES = 32, /* GnuTLS takes no longer name, though TLS would */
    URI_NAME_BYTES = 256,
    URI_BYTES_MAX = 1024
};

struct uri {
    enum uri_scheme scheme;
    uint16_t port;
    char host[URI_HOST_BYTES]; /* without the brackets of an IPv6 address */
    char alpn[URI_ALPN_BYTES]; /* empty: the default */
    char sni[URI_NAME_BYTES];  /* empty: made from the address */
};

/* Returns 0 or BAD_URI; `detail.offset` is the first wrong byte. */
int uri_parse(struct uri *uri, const char *text, solsend_detail *detail);

/* Parses "HOST:PORT" alone into host and port. Returns 0 or BAD_URI. */
int uri_parse_authority(struct uri *uri, const char *text, solsend_detail *detail);

#endif
