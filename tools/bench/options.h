/* The command line of `solsend bench`. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "bench/pace.h"

enum { OPTIONS_QUIC = 1, OPTIONS_UDP = 2 };

#define OPTIONS_CPU_AUTO (-1)
#define OPTIONS_CPU_NONE (-2)

struct options {
    int transports; /* OPTIONS_… */
    uint32_t bytes, count, warm_up, rounds, stamps;
    double rate;       /* per second */
    int cpu, peer_cpu; /* a number or OPTIONS_CPU_… */
    int fifo;          /* real-time priority; 0: the ordinary policy */
    int nice;          /* INT32_MAX: left alone */
    int force;         /* FIFO for a spinning thread without isolation */
    int strict;
    const char *profile;
    const char *peer_quic, *peer_udp; /* HOST:PORT on another host; null: a mock of our own */
    const char *key;                  /* identity; null: a fresh one */
    const char *json, *plot;
    int keep_hot;
    int wait; /* PACE_… */
    int quiet;
    uint64_t seed;
};

/*
 * Reads argv[1]…; argv[0] is the subcommand. Returns 0, 1 when help was asked for and printed, or 2
 * after one line on stderr that says what is wrong.
 */
int options_parse(struct options *out, int argc, char **argv);

#endif
