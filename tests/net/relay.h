/* A man in the middle between one link and the mock: the test's own thread carries every datagram,
 * and a hook sees it first. */
#ifndef RELAY_H
#define RELAY_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

enum relay_way { RELAY_TO_SERVER, RELAY_TO_CLIENT };

struct relay {
    int client_fd; /* the link sends here */
    int server_fd; /* connected to the mock */
    struct sockaddr_in client;
    uint16_t port; /* of client_fd */
    /* Returns 1 to carry the datagram on, 0 to swallow it. Null: everything is carried. */
    int (*hook)(struct relay *relay, enum relay_way way, const uint8_t *data, size_t bytes);
    void *context;
};

/* Fails the test if there are no sockets. */
void relay_open(struct relay *relay, uint16_t server_port);
void relay_close(struct relay *relay);

/* Carries what has come so far. */
void relay_pump(struct relay *relay);

/* Sends one more datagram that way. */
void relay_inject(struct relay *relay, enum relay_way way, const uint8_t *data, size_t bytes);

#endif
