#include "mock/ending.h"

#include "mock/packets.h"

#include <stdio.h>
#include <string.h>

static void end(struct connection *c, enum connection_state state, uint64_t now_ns)
{
    c->state = state;
    c->ended_ns = now_ns;
    c->linger_ns = now_ns + 3 * ngtcp2_conn_get_pto(c->quic);
    admission_leave(&c->server->admission, &c->seat);
    connection_mark(c);
}

static void end_text(struct connection *c, const char *how, const ngtcp2_ccerr *error)
{
    int application = error->type == NGTCP2_CCERR_TYPE_APPLICATION;
    snprintf(c->end, sizeof c->end, "%s %s 0x%llx %.*s", how,
             application ? "application" : "transport", (unsigned long long)error->error_code,
             (int)(error->reasonlen > 24 ? 24 : error->reasonlen), (const char *)error->reason);
}

static void shut(struct connection *c, const ngtcp2_ccerr *error, uint64_t now_ns)
{
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info;
    ngtcp2_path_storage_zero(&path);
    packets_enter(c);
    ngtcp2_ssize n = ngtcp2_conn_write_connection_close(c->quic, &path.path, &info, c->close_packet,
                                                        sizeof c->close_packet, error, now_ns);
    packets_leave();
    end_text(c, "closed:", error);
    c->close_bytes = n > 0 ? (size_t)n : 0;
    if (c->close_bytes > 0) {
        c->server->send(c->server->context, &c->peer, c->close_packet, c->close_bytes);
    }
    end(c, c->server->profile->lingers ? CONNECTION_CLOSING : CONNECTION_DEAD, now_ns);
}

void ending_shut_application(struct connection *c, uint64_t code, const char *reason,
                             uint64_t now_ns)
{
    uint8_t text[64];
    ngtcp2_ccerr error;
    size_t n = strlen(reason);
    n = n > sizeof text ? sizeof text : n;
    memcpy(text, reason, n);
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_application_error(&error, code, text, n);
    shut(c, &error, now_ns);
}

static void shut_tls(struct connection *c, uint64_t now_ns)
{
    ngtcp2_ccerr error;
    uint8_t alert = ngtcp2_conn_get_tls_alert(c->quic);
    if (c->credentials.alert != 0) {
        alert = c->credentials.alert;
    } else if (alert == GNUTLS_A_CERTIFICATE_REQUIRED &&
               c->credentials.policy == PROFILE_CERTIFICATE_EXACT) {
        alert = GNUTLS_A_BAD_CERTIFICATE;
    }
    if (alert == GNUTLS_A_CERTIFICATE_REQUIRED || alert == GNUTLS_A_BAD_CERTIFICATE ||
        alert == GNUTLS_A_UNSUPPORTED_CERTIFICATE) {
        TALLY_ADD(c->server->tally, certificates_refused, 1);
    }
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_tls_alert(&error, alert, NULL, 0);
    shut(c, &error, now_ns);
}

static void shut_library(struct connection *c, int liberr, uint64_t now_ns)
{
    ngtcp2_ccerr error;
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_liberr(&error, liberr, NULL, 0);
    shut(c, &error, now_ns);
}

static void closed_by_peer(struct connection *c, uint64_t now_ns)
{
    c->by_peer = 1;
    TALLY_ADD(c->server->tally, closed_by_peer, 1);
    end_text(c, "peer closed:", ngtcp2_conn_get_ccerr(c->quic));
    end(c, c->server->profile->lingers ? CONNECTION_DRAINING : CONNECTION_DEAD, now_ns);
}

void ending_vanish(struct connection *c, const char *why, uint64_t now_ns)
{
    snprintf(c->end, sizeof c->end, "%s", why);
    end(c, CONNECTION_DEAD, now_ns);
}

/* What a ngtcp2 call returned. */
void ending_outcome(struct connection *c, int rv, uint64_t now_ns)
{
    switch (rv) {
    case 0:
    case NGTCP2_ERR_CLOSING:
        break;
    case NGTCP2_ERR_DRAINING:
        closed_by_peer(c, now_ns);
        break;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
        ending_vanish(c, "dropped: the Initial was of no use", now_ns);
        break;
    case NGTCP2_ERR_IDLE_CLOSE:
        ending_vanish(c, "idle", now_ns);
        break;
    case NGTCP2_ERR_CRYPTO:
        shut_tls(c, now_ns);
        break;
    default:
        shut_library(c, rv, now_ns);
        break;
    }
}

void ending_repeat(struct connection *c)
{
    /* Ever more rarely: after 1, 2, 4, 8… packets (RFC 9000 section 10.2.1). */
    c->close_repeats++;
    if (c->close_bytes > 0 && (c->close_repeats & (c->close_repeats - 1)) == 0) {
        c->server->send(c->server->context, &c->peer, c->close_packet, c->close_bytes);
    }
}
