/* The calls that block: they poll a link until something has come. */
#include "link/link.h"

#include <poll.h>

#include "base/clock.h"

/* Sleeps until the socket is readable, poll is due or `until` has come. */
static void wait_for_work(struct solsend_link *link, uint64_t until)
{
    uint64_t next = solsend_link_next_timeout_ns(link);
    uint64_t now = clock_now();
    if (until < next) {
        next = until;
    }
    uint64_t ns = next > now ? next - now : 0;
    struct timespec t = {(time_t)(ns / CLOCK_NS_PER_S), (long)(ns % CLOCK_NS_PER_S)};
    struct pollfd p = {.fd = link->endpoint.fd, .events = POLLIN};
    ppoll(&p, 1, &t, NULL);
}

int solsend_link_wait_admitted(solsend_link *link, uint32_t timeout_ms)
{
    uint64_t until = clock_now() + timeout_ms * CLOCK_NS_PER_MS;
    for (;;) {
        int rc = solsend_link_poll(link);
        if (rc < 0) {
            return rc;
        }
        const struct quic *q = link->quic;
        if (q == NULL || (q->confirmed && q->admitted_ns != 0)) {
            return 0;
        }
        if (clock_now() >= until) {
            return SOLSEND_ERR_NOT_READY;
        }
        wait_for_work(link, until);
    }
}

int solsend_link_flush(solsend_link *link, uint32_t timeout_ms)
{
    if (fork_is_foreign(link->epoch)) {
        return SOLSEND_ERR_FORKED;
    }
    uint64_t until = clock_now() + timeout_ms * CLOCK_NS_PER_MS;
    while (link->end_code == 0 && link->slab.open_count != 0) {
        solsend_link_poll(link);
        if (link->slab.open_count == 0 || clock_now() >= until) {
            break;
        }
        wait_for_work(link, until);
    }
    return (int)link->slab.open_count;
}
