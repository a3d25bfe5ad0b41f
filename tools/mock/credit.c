#include "mock/connection.h"

/* The absolute stream limit that the peer should have by now. */
static uint64_t wanted(const struct connection *c)
{
    const struct fault *fault = c->server->fault;
    switch (fault->grant) {
    case FAULT_GRANT_NEVER:
        return 0;
    case FAULT_GRANT_WINDOW:
        return c->finished + fault->grant_streams;
    case FAULT_GRANT_TOTAL:
        return fault->grant_streams;
    default:
        return c->finished + c->window;
    }
}

void credit_refresh(struct connection *c, int force)
{
    uint64_t limit = wanted(c);
    if (!c->credit_managed || c->admitted_ns == 0 || c->grant_ns != 0 || limit <= c->granted) {
        return;
    }
    /* Like quinn: announced when more than an eighth of the window was consumed. */
    uint64_t more = limit - c->granted;
    if (!force && more <= (limit - c->finished) / 8) {
        return;
    }
    ngtcp2_conn_extend_max_streams_uni(c->quic, more);
    c->granted = limit;
    TALLY_ADD(c->server->tally, grants, 1);
    connection_mark(c);
}
