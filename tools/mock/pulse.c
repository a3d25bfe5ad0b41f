#include "mock/pulse.h"

#include "mock/ending.h"
#include "mock/packets.h"

/* Until when nothing leaves, because acknowledgements are held back; 0: free to write. */
static uint64_t gate(const struct connection *c)
{
    const struct fault *fault = c->server->fault;
    const struct profile *profile = c->server->profile;
    if (!c->settled || c->hold_since_ns == 0) {
        return 0;
    }
    if (fault->ack == FAULT_ACK_DELAY) {
        return c->hold_since_ns + fault->ack_hold_ns;
    }
    if (profile->ack_hold_ns == 0 || c->hold_bytes >= profile->ack_hold_bytes) {
        return 0;
    }
    return c->hold_since_ns + profile->ack_hold_ns;
}

static void write_packets(struct connection *c, uint64_t now_ns)
{
    struct server *s = c->server;
    uint8_t packet[CONNECTION_PACKET_BYTES];
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info;
    int muted = c->settled && s->fault->ack == FAULT_ACK_NEVER;
    ngtcp2_path_storage_zero(&path);
    for (;;) {
        packets_enter(c);
        ngtcp2_ssize n =
            ngtcp2_conn_write_pkt(c->quic, &path.path, &info, packet, sizeof packet, now_ns);
        packets_leave();
        if (n <= 0) {
            ending_outcome(c, (int)n, now_ns);
            return;
        }
        if (!muted) {
            s->send(s->context, &c->peer, packet, (size_t)n);
        }
    }
}

static void flush(struct connection *c, uint64_t now_ns)
{
    if (gate(c) > now_ns) {
        return;
    }
    write_packets(c, now_ns);
    c->hold_since_ns = 0;
    c->hold_bytes = 0;
    c->settled = c->admitted_ns != 0 && c->grant_ns == 0;
}

/* ---- timers -----------------------------------------------------------------------------------
 */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When a fault closes the connection, or UINT64_MAX. */
static uint64_t close_ns(const struct connection *c)
{
    const struct fault *fault = c->server->fault;
    if (c->completed_ns != 0 && fault->close_when == FAULT_CLOSE_IDLE) {
        return c->heard_ns + fault->close_arg;
    }
    if (c->completed_ns != 0 && fault->close_when == FAULT_CLOSE_AFTER) {
        return c->completed_ns + fault->close_arg;
    }
    return UINT64_MAX;
}

static void rearm(struct connection *c, uint64_t now_ns)
{
    const struct profile *profile = c->server->profile;
    uint64_t due = c->linger_ns;
    if (c->state == CONNECTION_DEAD) {
        due = TIMERS_NEVER;
    } else if (c->state <= CONNECTION_OPEN) {
        uint64_t shut_until = gate(c);
        due = ngtcp2_conn_get_expiry(c->quic);
        if (shut_until > now_ns) {
            due = shut_until; /* nothing may leave earlier, whatever ngtcp2 wishes */
        }
        due = earlier(due, reassembly_next(c));
        due = earlier(due, close_ns(c));
        due = c->completed_ns == 0 ? earlier(due, c->started_ns + profile->handshake_ns) : due;
        due = c->grant_ns != 0 ? earlier(due, c->grant_ns) : due;
        due = c->max_data_ns != 0 ? earlier(due, c->max_data_ns) : due;
    }
    if (timers_set(&c->server->timers, &c->timer, due) != 0) {
        ending_vanish(c, "out of memory", now_ns);
    }
}

void pulse_settle(struct connection *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->state <= CONNECTION_OPEN && c->doom == CONNECTION_DOOM_CLOSE) {
        ending_shut_application(c, c->doom_code, c->doom_reason, now_ns);
    } else if (c->state <= CONNECTION_OPEN && c->doom == CONNECTION_DOOM_FORGET) {
        ending_vanish(c, "forgotten by fault", now_ns);
    } else if (c->state <= CONNECTION_OPEN) {
        flush(c, now_ns);
    }
    rearm(c, now_ns);
}

/* MAX_DATA frames that nobody needs: half a window more each time. */
static void churn_max_data(struct connection *c, uint64_t now_ns)
{
    const struct server *s = c->server;
    if (s->fault->max_data_every_ns == 0) {
        c->max_data_ns = 0;
        return;
    }
    ngtcp2_conn_extend_max_offset(c->quic, s->profile->data_initial / 2 + 1);
    c->max_data_ns = now_ns + s->fault->max_data_every_ns;
}

void pulse_expire(struct connection *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    connection_mark(c);
    if (c->state > CONNECTION_OPEN) {
        c->state = now_ns >= c->linger_ns ? CONNECTION_DEAD : c->state;
        return;
    }
    if (c->completed_ns == 0 && now_ns >= c->started_ns + c->server->profile->handshake_ns) {
        connection_doom(c, 0, NULL);
        return;
    }
    if (now_ns >= close_ns(c)) {
        connection_doom(c, c->server->fault->close_code, NULL);
        return;
    }
    if (c->grant_ns != 0 && now_ns >= c->grant_ns) {
        c->grant_ns = 0;
        credit_refresh(c, 1);
    }
    if (c->max_data_ns != 0 && now_ns >= c->max_data_ns) {
        churn_max_data(c, now_ns);
    }
    if (now_ns >= reassembly_next(c)) {
        reassembly_run(c, now_ns);
    }
    if (gate(c) <= now_ns && ngtcp2_conn_get_expiry(c->quic) <= now_ns) {
        ending_outcome(c, ngtcp2_conn_handle_expiry(c->quic, now_ns), now_ns);
    }
}

void pulse_faults(struct connection *c, uint64_t now_ns)
{
    if (c->state > CONNECTION_OPEN) {
        return;
    }
    c->now_ns = now_ns;
    if (c->completed_ns != 0) {
        ngtcp2_conn_set_keep_alive_timeout(c->quic, c->server->fault->ping_every_ns);
        if (c->server->fault->max_data_every_ns != 0 && c->max_data_ns == 0) {
            c->max_data_ns = now_ns + c->server->fault->max_data_every_ns;
        }
    }
    credit_refresh(c, 1);
    connection_mark(c);
}
