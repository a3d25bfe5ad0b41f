/* A plain UDP socket on loopback, standing where a leader would. */
#ifndef UDP_PEER_H
#define UDP_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct udp_peer {
    int fd;
    uint16_t port;
    char host[48];
    char source[INET6_ADDRSTRLEN]; /* where the newest datagram came from */
    uint16_t source_port;
};

/* Binds "127.0.0.1", "::1" or the like. Returns 0 or -1. */
static inline int udp_peer_open(struct udp_peer *peer, const char *ip)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    int is_v6 = strchr(ip, ':') != NULL;
    struct sockaddr *address = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    socklen_t bytes = is_v6 ? sizeof v6 : sizeof v4;
    int room = 1 << 20;
    inet_pton(address->sa_family, ip, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr);
    snprintf(peer->host, sizeof peer->host, is_v6 ? "[%s]" : "%s", ip);
    peer->fd = socket(address->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (peer->fd < 0 || bind(peer->fd, address, bytes) != 0 ||
        getsockname(peer->fd, address, &bytes) != 0) {
        return -1;
    }
    setsockopt(peer->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    peer->port = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
    return 0;
}

static inline void udp_peer_close(struct udp_peer *peer)
{
    if (peer->fd >= 0) {
        close(peer->fd);
        peer->fd = -1;
    }
}

/* "udp://HOST:PORT" or "quic://HOST:PORT"; static memory. */
static inline const char *udp_peer_uri(const struct udp_peer *peer, const char *scheme)
{
    static char uri[96];
    snprintf(uri, sizeof uri, "%s://%s:%u", scheme, peer->host, peer->port);
    return uri;
}

/* Takes a datagram that is there. Returns its length, or -1 if there is none. */
static inline ssize_t udp_peer_take(struct udp_peer *peer, uint8_t *data, size_t bytes)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } from;
    socklen_t from_bytes = sizeof from;
    ssize_t n = recvfrom(peer->fd, data, bytes, 0, &from.any, &from_bytes);
    if (n >= 0) {
        int is_v6 = from.any.sa_family == AF_INET6;
        inet_ntop(from.any.sa_family,
                  is_v6 ? (void *)&from.v6.sin6_addr : (void *)&from.v4.sin_addr, peer->source,
                  sizeof peer->source);
        peer->source_port = ntohs(is_v6 ? from.v6.sin6_port : from.v4.sin_port);
    }
    return n;
}

#endif
