/* An IPv4 or IPv6 socket address: parsing, printing, comparing, and the IP as a table key. */
#ifndef MOCK_SOCKNAME_H
#define MOCK_SOCKNAME_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define SOCKNAME_TEXT_BYTES 56

struct sockname {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t bytes;
};

/* "127.0.0.1:8009" or "[::1]:8009"; the port may be 0. Returns 0 or -1. */
int sockname_parse(struct sockname *out, const char *text);

/* Writes the same form, zero-terminated. */
void sockname_format(const struct sockname *name, char *out, size_t out_bytes);

uint16_t sockname_port(const struct sockname *name);
int sockname_same_ip(const struct sockname *a, const struct sockname *b);
int sockname_equal(const struct sockname *a, const struct sockname *b);

/* The IP in 16 bytes, IPv4 mapped into IPv6. */
void sockname_ip(const struct sockname *name, uint8_t out[16]);

#endif
