/*
 * Link URIs. What is refused is refused at a byte of the text; what is accepted is complete, and
 * comes back from its own parts.
 */
#include "fuzz.h"

#include <string.h>

#include "link/uri.h"

static void check_refused(int rc, const char *text, const solsend_detail *detail)
{
    char prefix[32];
    FUZZ_CHECK(rc == SOLSEND_ERR_BAD_URI && detail->code == rc);
    FUZZ_CHECK(detail->offset <= strlen(text));
    snprintf(prefix, sizeof prefix, "URI byte %u: ", detail->offset);
    FUZZ_CHECK(strncmp(detail->text, prefix, strlen(prefix)) == 0);
    FUZZ_CHECK(strlen(detail->text) > strlen(prefix));
}

static int is_visible(const char *text)
{
    for (; *text != 0; text++) {
        if (*text <= ' ' || *text > '~') {
            return 0;
        }
    }
    return 1;
}

static void check_accepted(const struct uri *uri, int with_scheme)
{
    char text[URI_BYTES_MAX + 64];
    struct uri again;
    int is_v6 = strchr(uri->host, ':') != NULL;
    FUZZ_CHECK(uri->host[0] != 0 && uri->port != 0);
    FUZZ_CHECK(is_visible(uri->host) && is_visible(uri->alpn) && is_visible(uri->sni));
    int n = snprintf(text, sizeof text, "%s%s%s%s:%u",
                     !with_scheme              ? ""
                     : uri->scheme == URI_QUIC ? "quic://"
                                               : "udp://",
                     is_v6 ? "[" : "", uri->host, is_v6 ? "]" : "", uri->port);
    if (!with_scheme) {
        FUZZ_CHECK(uri_parse_authority(&again, text, NULL) == 0);
    } else {
        const char *joint = "?";
        FUZZ_CHECK(uri->scheme == URI_QUIC || (uri->alpn[0] == 0 && uri->sni[0] == 0));
        if (uri->sni[0] != 0) {
            n += snprintf(text + n, sizeof text - (size_t)n, "%ssni=%s", joint, uri->sni);
            joint = "&";
        }
        if (uri->alpn[0] != 0) {
            n += snprintf(text + n, sizeof text - (size_t)n, "%salpn=%s", joint, uri->alpn);
        }
        FUZZ_CHECK(uri_parse(&again, text, NULL) == 0);
    }
    FUZZ_CHECK(memcmp(uri, &again, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct uri uri;
    solsend_detail detail;
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        return 0;
    }
    if (bytes > 0) {
        memcpy(text, data, bytes);
    }
    text[bytes] = 0;
    for (int with_scheme = 0; with_scheme < 2; with_scheme++) {
        memset(&detail, 0, sizeof detail);
        int rc =
            with_scheme ? uri_parse(&uri, text, &detail) : uri_parse_authority(&uri, text, &detail);
        if (rc == 0) {
            check_accepted(&uri, with_scheme);
        } else {
            check_refused(rc, text, &detail);
        }
    }
    free(text);
    return 0;
}
