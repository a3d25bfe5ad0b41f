#include "bench/sender.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sender_raw {
    struct sender base;
    int fd;
    int64_t sent, refused;
};

static int sender_raw_send(struct sender *s, const uint8_t *wire, uint32_t bytes)
{
    struct sender_raw *raw = (struct sender_raw *)s;
    if (send(raw->fd, wire, bytes, MSG_NOSIGNAL) == (ssize_t)bytes) {
        raw->sent++;
        return 1;
    }
    raw->refused++;
    return SOLSEND_ERR_AGAIN;
}

static int sender_raw_tend(struct sender *s)
{
    (void)s;
    return 0;
}

static int sender_raw_fd(const struct sender *s)
{
    return ((const struct sender_raw *)s)->fd;
}

static uint64_t sender_raw_timeout(const struct sender *s)
{
    (void)s;
    return UINT64_MAX;
}

static void sender_raw_flush(struct sender *s, uint32_t ms)
{
    (void)s;
    (void)ms;
}

static void sender_raw_counts(struct sender *s, struct sender_counts *out)
{
    struct sender_raw *raw = (struct sender_raw *)s;
    memset(out, 0, sizeof *out);
    out->accepted = out->written = out->at_once = out->datagrams = raw->sent;
    out->send_calls = raw->sent + raw->refused;
    out->acked = -1;
}

static void sender_raw_close(struct sender *s)
{
    struct sender_raw *raw = (struct sender_raw *)s;
    close(raw->fd);
    free(raw);
}

static const struct sender_table sender_raw_table = {
    .transport = "raw",
    .send = sender_raw_send,
    .tend = sender_raw_tend,
    .fd = sender_raw_fd,
    .timeout_ns = sender_raw_timeout,
    .flush = sender_raw_flush,
    .counts = sender_raw_counts,
    .close = sender_raw_close,
};

/* Splits HOST:PORT or [HOST]:PORT in place. */
static int sender_raw_split(char *address, char **host, char **port)
{
    *port = strrchr(address, ':');
    if (*port == NULL) {
        return -1;
    }
    *(*port)++ = 0;
    *host = address;
    if (**host == '[') {
        char *end = strchr(++*host, ']');
        if (end == NULL) {
            return -1;
        }
        *end = 0;
    }
    return 0;
}

static int sender_raw_connect(const char *address, char *why, size_t why_bytes)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    char copy[300], *host, *port;
    int fd = -1, buffer = 4 << 20, rc;
    snprintf(copy, sizeof copy, "%s", address);
    if (sender_raw_split(copy, &host, &port) != 0) {
        snprintf(why, why_bytes, "\"%s\" is not HOST:PORT", address);
        return -1;
    }
    rc = getaddrinfo(host, port, &hints, &list);
    if (rc != 0) {
        snprintf(why, why_bytes, "%s: %s", address, gai_strerror(rc));
        return -1;
    }
    fd = socket(list->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen) != 0) {
        snprintf(why, why_bytes, "%s: %s", address, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
    } else {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    }
    freeaddrinfo(list);
    return fd;
}

int sender_raw_open(struct sender **out, const char *address, char *why, size_t why_bytes)
{
    struct sender_raw *raw = calloc(1, sizeof *raw);
    *out = NULL;
    if (raw == NULL) {
        snprintf(why, why_bytes, "out of memory");
        return SOLSEND_ERR_MEMORY;
    }
    raw->base.table = &sender_raw_table;
    raw->fd = sender_raw_connect(address, why, why_bytes);
    if (raw->fd < 0) {
        free(raw);
        return SOLSEND_ERR_UNREACHABLE;
    }
    *out = &raw->base;
    return 0;
}
