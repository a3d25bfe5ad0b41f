/* The server half of a shadow: a QUIC server for one connection that acknowledges and forgets. */
#ifndef LINK_SHADOW_SERVER_H
#define LINK_SHADOW_SERVER_H

#include <solsend/error.h>

#include <stdint.h>

struct shadow_server;

/* Binds a loopback socket. Returns 0 or a code. */
int shadow_server_open(struct shadow_server **out, solsend_detail *detail);
void shadow_server_close(struct shadow_server *server);

/* The port it listens at on 127.0.0.1. */
uint16_t shadow_server_port(const struct shadow_server *server);

/* Reads what its socket holds and answers by it. Returns 0 or the code by which it ended. */
int shadow_server_pump(struct shadow_server *server);

/* 1 if a datagram waits at its socket. */
int shadow_server_hears(const struct shadow_server *server);

/* Handles one datagram that did not come by the socket; answers by the socket all the same. */
int shadow_server_feed(struct shadow_server *server, const uint8_t *data, uint32_t bytes);

#endif
