#include "relay.h"

#include "check.h"

#include <sys/socket.h>
#include <unistd.h>

static int open_socket(struct sockaddr_in *local)
{
    socklen_t bytes = sizeof *local;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    memset(local, 0, sizeof *local);
    local->sin_family = AF_INET;
    local->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)local, sizeof *local), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)local, &bytes), 0);
    return fd;
}

void relay_open(struct relay *relay, uint16_t server_port)
{
    struct sockaddr_in near, far;
    memset(relay, 0, sizeof *relay);
    relay->client_fd = open_socket(&near);
    relay->port = ntohs(near.sin_port);
    relay->server_fd = open_socket(&far);
    far.sin_port = htons(server_port);
    assert_int_equal(connect(relay->server_fd, (struct sockaddr *)&far, sizeof far), 0);
}

void relay_close(struct relay *relay)
{
    close(relay->client_fd);
    close(relay->server_fd);
}

void relay_inject(struct relay *relay, enum relay_way way, const uint8_t *data, size_t bytes)
{
    ssize_t n = way == RELAY_TO_SERVER
                    ? send(relay->server_fd, data, bytes, MSG_NOSIGNAL)
                    : sendto(relay->client_fd, data, bytes, MSG_NOSIGNAL,
                             (struct sockaddr *)&relay->client, sizeof relay->client);
    assert_int_equal(n, bytes);
}

static void carry(struct relay *relay, enum relay_way way)
{
    uint8_t data[2048];
    for (;;) {
        struct sockaddr_in from;
        socklen_t from_bytes = sizeof from;
        int fd = way == RELAY_TO_SERVER ? relay->client_fd : relay->server_fd;
        ssize_t n = recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &from_bytes);
        if (n < 0) {
            return;
        }
        if (way == RELAY_TO_SERVER) {
            relay->client = from;
        }
        if (relay->hook == NULL || relay->hook(relay, way, data, (size_t)n)) {
            relay_inject(relay, way, data, (size_t)n);
        }
    }
}

void relay_pump(struct relay *relay)
{
    carry(relay, RELAY_TO_SERVER);
    carry(relay, RELAY_TO_CLIENT);
}
