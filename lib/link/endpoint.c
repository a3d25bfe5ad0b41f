#include "link/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/detail.h"

enum { HEADERS_V4 = 20 + 8, HEADERS_V6 = 40 + 8 };

socklen_t endpoint_address_bytes(const union endpoint_address *address)
{
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

uint16_t endpoint_address_port(const union endpoint_address *address)
{
    return ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
}

static void set_port(union endpoint_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6) {
        address->v6.sin6_port = htons(port);
    } else {
        address->v4.sin_port = htons(port);
    }
}

void endpoint_address_text(const union endpoint_address *address, char *out, size_t out_bytes)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof host);
        snprintf(out, out_bytes, "[%s]:%u", host, endpoint_address_port(address));
    } else {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(out, out_bytes, "%s:%u", host, endpoint_address_port(address));
    }
}

/* A leader never stands at such an address; sending there is always a mistake. */
static int is_sendable(const union endpoint_address *address)
{
    if (address->any.sa_family == AF_INET) {
        uint32_t ip = ntohl(address->v4.sin_addr.s_addr);
        return ip != INADDR_ANY && ip != INADDR_BROADCAST && !IN_MULTICAST(ip);
    }
    const struct in6_addr *ip = &address->v6.sin6_addr;
    int needs_scope = IN6_IS_ADDR_LINKLOCAL(ip) && address->v6.sin6_scope_id == 0;
    return !IN6_IS_ADDR_UNSPECIFIED(ip) && !IN6_IS_ADDR_MULTICAST(ip) && !needs_scope;
}

/* ::ffff:192.0.2.1 is an IPv4 address: an IPv6 socket would send it, but without IPv4's DF. */
static void unmap(union endpoint_address *address)
{
    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) {
        return;
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = address->v6.sin6_port};
    memcpy(&v4.sin_addr, &address->v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
    memset(address, 0, sizeof *address);
    address->v4 = v4;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* DF on every packet and no use of a smaller cached path MTU to fragment: RFC 9000 section 14. */
static void forbid_fragments(int fd, int family)
{
    if (family == AF_INET6) {
        set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
        set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
    } else {
        set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    }
}

static int socket_error(int error, const char *what, solsend_detail *detail)
{
    int code;
    switch (error) {
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        code = SOLSEND_ERR_NO_ROUTE_FAMILY;
        break;
    case EMFILE:
    case ENFILE:
        code = SOLSEND_ERR_NO_FILES;
        break;
    case ENOMEM:
    case ENOBUFS:
        code = SOLSEND_ERR_MEMORY;
        break;
    case EACCES:
    case EPERM:
        code = SOLSEND_ERR_PRIVILEGE;
        break;
    case EADDRINUSE:
        code = SOLSEND_ERR_PORT_IN_USE;
        break;
    case EADDRNOTAVAIL:
        code = SOLSEND_ERR_NO_ADDRESS;
        break;
    default:
        code = SOLSEND_ERR_UNREACHABLE;
        break;
    }
    return detail_set(detail, code, SOLSEND_NO_OFFSET, "%s: %s", what, strerror(error));
}

static int parse_bind(union endpoint_address *local, const char *text, int family,
                      solsend_detail *detail)
{
    memset(local, 0, sizeof *local);
    local->any.sa_family = (sa_family_t)family;
    if (text == NULL) {
        return 0;
    }
    void *ip = family == AF_INET6 ? (void *)&local->v6.sin6_addr : (void *)&local->v4.sin_addr;
    if (inet_pton(family, text, ip) == 1) {
        return 0;
    }
    return detail_set(detail, SOLSEND_ERR_NO_ADDRESS, SOLSEND_NO_OFFSET,
                      "bind: \"%.64s\" is no IPv%c address like the peer's", text,
                      family == AF_INET6 ? '6' : '4');
}

static int no_ephemeral_port(solsend_detail *detail)
{
    return detail_set(detail, SOLSEND_ERR_NO_PORT, SOLSEND_NO_OFFSET,
                      "no free ephemeral port: net.ipv4.ip_local_port_range is used up");
}

/* The first free port of the range; SO_REUSEPORT is never set: it would steal replies. */
static int bind_in_range(int fd, union endpoint_address *local, const struct endpoint_wishes *w,
                         solsend_detail *detail)
{
    for (uint32_t port = w->port_min; port <= w->port_max; port++) {
        set_port(local, (uint16_t)port);
        if (bind(fd, &local->any, endpoint_address_bytes(local)) == 0) {
            return 0;
        }
        if (errno != EADDRINUSE) {
            return socket_error(errno, "bind", detail);
        }
    }
    if (w->port_max == 0) {
        return no_ephemeral_port(detail);
    }
    if (w->port_min == w->port_max) {
        return detail_set(detail, SOLSEND_ERR_PORT_IN_USE, SOLSEND_NO_OFFSET,
                          "local port %u is in use", w->port_min);
    }
    return detail_set(detail, SOLSEND_ERR_NO_PORT, SOLSEND_NO_OFFSET,
                      "no free local port in %u to %u", w->port_min, w->port_max);
}

static int bad_address(const union endpoint_address *remote, solsend_detail *detail)
{
    char text[64];
    endpoint_address_text(remote, text, sizeof text);
    return detail_set(detail, SOLSEND_ERR_BAD_ADDRESS, SOLSEND_NO_OFFSET,
                      "%s is no address to send to", text);
}

static int connect_error(const struct endpoint *e, int error, solsend_detail *detail)
{
    switch (error) {
    case EACCES: /* a network's broadcast address, or a route that prohibits it */
        return bad_address(&e->remote, detail);
    case EADDRNOTAVAIL: /* no source address of the family: the family is missing, not a port */
        return socket_error(EAFNOSUPPORT, "connect", detail);
    case EAGAIN:
        return no_ephemeral_port(detail);
    default:
        return socket_error(error, "connect", detail);
    }
}

static int open_one(struct endpoint *e, const union endpoint_address *remote,
                    const struct endpoint_wishes *w, solsend_detail *detail)
{
    int family = remote->any.sa_family;
    e->remote = *remote;
    if (!is_sendable(remote)) {
        return bad_address(remote, detail);
    }
    int rc = parse_bind(&e->local, w->bind, family, detail);
    if (rc < 0) {
        return rc;
    }
    e->fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
    if (e->fd < 0) {
        return socket_error(errno, family == AF_INET6 ? "IPv6 socket" : "IPv4 socket", detail);
    }
    forbid_fragments(e->fd, family);
    if (w->bind != NULL || w->port_max != 0) {
        rc = bind_in_range(e->fd, &e->local, w, detail);
    }
    if (rc == 0 && connect(e->fd, &e->remote.any, endpoint_address_bytes(&e->remote)) < 0) {
        rc = connect_error(e, errno, detail);
    }
    socklen_t bytes = sizeof e->local;
    if (rc == 0 && getsockname(e->fd, &e->local.any, &bytes) < 0) {
        rc = socket_error(errno, "getsockname", detail);
    }
    if (rc < 0) {
        endpoint_close(e);
    }
    return rc;
}

int endpoint_open(struct endpoint *endpoint, const struct endpoint_wishes *wishes,
                  solsend_detail *detail)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", wishes->port);
    endpoint->fd = -1;
    int rc = getaddrinfo(wishes->host, port, &hints, &list);
    if (rc != 0) {
        return detail_set(detail, SOLSEND_ERR_RESOLVE, SOLSEND_NO_OFFSET, "%.160s: %s",
                          wishes->host, gai_strerror(rc));
    }
    rc = SOLSEND_ERR_RESOLVE;
    for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        union endpoint_address remote;
        if (a->ai_addrlen > sizeof remote) {
            continue;
        }
        memset(&remote, 0, sizeof remote);
        memcpy(&remote, a->ai_addr, a->ai_addrlen);
        unmap(&remote);
        rc = open_one(endpoint, &remote, wishes, detail);
        /* only what depends on the address is worth trying with the next one */
        if (rc != SOLSEND_ERR_NO_ROUTE_FAMILY && rc != SOLSEND_ERR_UNREACHABLE &&
            rc != SOLSEND_ERR_NO_ADDRESS) {
            break;
        }
    }
    freeaddrinfo(list);
    return rc;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (endpoint->fd >= 0) {
        close(endpoint->fd);
        endpoint->fd = -1;
    }
}

uint32_t endpoint_path_payload(const struct endpoint *endpoint)
{
    int v6 = endpoint->remote.any.sa_family == AF_INET6;
    int mtu = 0;
    socklen_t bytes = sizeof mtu;
    int rc = v6 ? getsockopt(endpoint->fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &bytes)
                : getsockopt(endpoint->fd, IPPROTO_IP, IP_MTU, &mtu, &bytes);
    int headers = v6 ? HEADERS_V6 : HEADERS_V4;
    return rc == 0 && mtu > headers ? (uint32_t)(mtu - headers) : 0;
}
