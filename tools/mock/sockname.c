#include "mock/sockname.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int port_parse(uint16_t *out, const char *text)
{
    char *end;
    if (*text < '0' || *text > '9') {
        return -1;
    }
    unsigned long port = strtoul(text, &end, 10);
    if (*end != '\0' || port > 65535) {
        return -1;
    }
    *out = (uint16_t)port;
    return 0;
}

int sockname_parse(struct sockname *out, const char *text)
{
    char host[64];
    uint16_t port;
    const char *colon = strrchr(text, ':');
    memset(out, 0, sizeof *out);
    if (colon == NULL || port_parse(&port, colon + 1) != 0) {
        return -1;
    }
    size_t length = (size_t)(colon - text);
    int bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    const char *start = bracketed ? text + 1 : text;
    length -= bracketed ? 2 : 0;
    if (length >= sizeof host) {
        return -1;
    }
    memcpy(host, start, length);
    host[length] = '\0';
    if (bracketed) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(port);
        out->bytes = sizeof out->v6;
        return inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1 ? 0 : -1;
    }
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons(port);
    out->bytes = sizeof out->v4;
    return inet_pton(AF_INET, host, &out->v4.sin_addr) == 1 ? 0 : -1;
}

uint16_t sockname_port(const struct sockname *name)
{
    return ntohs(name->any.sa_family == AF_INET6 ? name->v6.sin6_port : name->v4.sin_port);
}

void sockname_format(const struct sockname *name, char *out, size_t out_bytes)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (name->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &name->v6.sin6_addr, host, sizeof host);
        snprintf(out, out_bytes, "[%s]:%u", host, sockname_port(name));
        return;
    }
    if (name->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &name->v4.sin_addr, host, sizeof host);
    }
    snprintf(out, out_bytes, "%s:%u", host, sockname_port(name));
}

void sockname_ip(const struct sockname *name, uint8_t out[16])
{
    if (name->any.sa_family == AF_INET6) {
        memcpy(out, &name->v6.sin6_addr, 16);
        return;
    }
    memset(out, 0, 10);
    memset(out + 10, 0xff, 2);
    memcpy(out + 12, &name->v4.sin_addr, 4);
}

int sockname_same_ip(const struct sockname *a, const struct sockname *b)
{
    if (a->any.sa_family != b->any.sa_family) {
        return 0;
    }
    if (a->any.sa_family == AF_INET6) {
        return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, 16) == 0;
    }
    return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

int sockname_equal(const struct sockname *a, const struct sockname *b)
{
    return sockname_same_ip(a, b) && sockname_port(a) == sockname_port(b);
}
