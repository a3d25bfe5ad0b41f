/* Tuning one socket, and reading back what the kernel really did. */
#ifndef HOST_SOCKET_H
#define HOST_SOCKET_H

#include <stdint.h>

#include <solsend/host.h>

struct host_socket_wishes {
    uint32_t send_buffer_bytes;    /* 0: the kernel's default is kept and reported */
    uint32_t receive_buffer_bytes; /* 0: the same */
    uint32_t busy_poll_us;         /* 0: not touched */
    uint32_t priority;             /* 0: not touched */
};

enum { HOST_SOCKET_STEPS_MAX = 4 };

/*
 * Writes SEND_BUFFER and RECEIVE_BUFFER always, BUSY_POLL and PRIORITY when wished, into `steps`
 * (null: none), at most `max_steps`. Buffer sizes are as SO_SNDBUF takes them: the kernel's own
 * doubling is taken out of `got`. Returns how many steps were written.
 */
uint32_t host_socket_tune(int fd, const struct host_socket_wishes *wishes, solsend_step *steps,
                          uint32_t max_steps);

/*
 * Sends datagrams over the loopback of `family` (AF_INET, AF_INET6) with kernel transmit stamps on
 * and looks whether they come back: some kernels and sandboxes accept the option and deliver
 * nothing. Fills TX_STAMPS (wanted 2 stamps a packet: SCHED and SOFTWARE) and returns its code.
 * Blocks for about 20 ms when nothing comes.
 */
int host_socket_probe_stamps(int family, solsend_step *step);

#endif
