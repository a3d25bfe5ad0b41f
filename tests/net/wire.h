/*
 * A wire of three hosts for the tests of paths: client, router and leader, each in a network
 * namespace of its own, so that real routers with real MTUs drop, or announce by ICMP, real
 * packets. Use it in a forked child: the namespaces go with their processes.
 *
 *     client 10.77.1.2 --1500-- 10.77.1.1 router 10.77.2.1 --mtu-- 10.77.2.2 leader
 *     client fd77:1::2          fd77:1::1        fd77:2::1         fd77:2::2 leader
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdint.h>
#include <sys/types.h>

enum wire_host { WIRE_CLIENT, WIRE_ROUTER, WIRE_LEADER, WIRE_HOSTS };

struct wire {
    int ns[WIRE_HOSTS];
    pid_t keepers[WIRE_HOSTS];
};

/* Builds it; the caller is in the client then. Returns 0, or -1 with the reason in `why`. */
int wire_open(struct wire *wire, uint32_t mtu, const char **why);
void wire_close(struct wire *wire);

/* From now on this thread's new sockets are that host's. */
void wire_enter(const struct wire *wire, enum wire_host host);

/* Runs a shell command on a host, and comes back to the client. Returns its exit status. */
int wire_run(const struct wire *wire, enum wire_host host, const char *command);

/* The router tells nobody about packets that were too large. Returns 0 or -1 (no nft). */
int wire_drop_icmp(const struct wire *wire);

/* Fragments that a host has made or received so far, of both families. */
uint64_t wire_fragments(const struct wire *wire, enum wire_host host);

#endif
