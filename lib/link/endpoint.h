/* One connected UDP socket: resolved, bound to an address and a port range, connected. */
#ifndef LINK_ENDPOINT_H
#define LINK_ENDPOINT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <solsend/error.h>

/* IPv4 and IPv6 only: 28 bytes instead of sockaddr_storage's 128. */
union endpoint_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct endpoint {
    int fd;
    union endpoint_address local;
    union endpoint_address remote;
};

struct endpoint_wishes {
    const char *host;
    const char *bind; /* null: the kernel's choice */
    uint16_t port;
    uint16_t port_min; /* 0 and 0: ephemeral */
    uint16_t port_max;
};

socklen_t endpoint_address_bytes(const union endpoint_address *address);
uint16_t endpoint_address_port(const union endpoint_address *address);

/* Writes "127.0.0.1:8009" or "[::1]:8009". */
void endpoint_address_text(const union endpoint_address *address, char *out, size_t out_bytes);

/*
 * Opens the socket: non-blocking, close-on-exec, DF set (no kernel fragmentation), errors of the
 * path reported by send(). A name with several addresses: the first whose family this host has.
 * Returns 0 or RESOLVE, NO_ROUTE_FAMILY, UNREACHABLE, BAD_ADDRESS, NO_ADDRESS, NO_PORT,
 * PORT_IN_USE, NO_FILES, PRIVILEGE.
 */
int endpoint_open(struct endpoint *endpoint, const struct endpoint_wishes *wishes,
                  solsend_detail *detail);
void endpoint_close(struct endpoint *endpoint);

/* Largest UDP payload for the path MTU the kernel knows now; 0: it does not know. */
uint32_t endpoint_path_payload(const struct endpoint *endpoint);

#endif
