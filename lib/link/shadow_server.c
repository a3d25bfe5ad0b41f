#include "link/shadow_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/random.h"
#include "link/endpoint.h"
#include "link/quic.h"
#include "link/tls.h"

enum { CID_BYTES = 8, PUMP_MAX = 64, PACKETS_MAX = 16 };

struct shadow_server {
    int fd;
    ngtcp2_conn *conn; /* null until the client's first packet */
    ngtcp2_crypto_conn_ref conn_ref;
    struct tls tls;
    solsend_key *identity;
    struct random_state random;
    union endpoint_address local, remote;
    ngtcp2_path path;
    uint64_t last_now;
};

static ngtcp2_conn *get_conn(ngtcp2_crypto_conn_ref *ref)
{
    return ((struct shadow_server *)ref->user_data)->conn;
}

static void on_rand(uint8_t *dest, size_t bytes, const ngtcp2_rand_ctx *context)
{
    random_fill(context->native_handle, dest, bytes);
}

static int on_new_connection_id(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t bytes,
                                void *user)
{
    (void)conn;
    struct shadow_server *s = user;
    cid->datalen = bytes;
    random_fill(&s->random, cid->data, bytes);
    random_fill(&s->random, token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static const ngtcp2_callbacks callbacks = {
    .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .encrypt = ngtcp2_crypto_encrypt_cb,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .rand = on_rand,
    .get_new_connection_id = on_new_connection_id,
    .update_key = ngtcp2_crypto_update_key_cb,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
};

static uint64_t tick(struct shadow_server *s)
{
    uint64_t now = clock_now();
    s->last_now = now > s->last_now ? now : s->last_now;
    return s->last_now;
}

static int accept_client(struct shadow_server *s, const uint8_t *data, size_t bytes)
{
    ngtcp2_pkt_hd hd;
    if (ngtcp2_accept(&hd, data, bytes) != 0) {
        return SOLSEND_ERR_PROTOCOL;
    }
    struct tls_wishes wishes = {
        .role = TLS_SERVER,
        .identity = s->identity,
        .alpn = TLS_ALPN_DEFAULT,
        .conn_ref = &s->conn_ref,
    };
    int rc = tls_open(&s->tls, &wishes, NULL);
    if (rc < 0) {
        return rc;
    }
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_cid scid = {.datalen = CID_BYTES};
    random_fill(&s->random, scid.data, scid.datalen);
    ngtcp2_settings_default(&settings);
    settings.initial_ts = tick(s);
    settings.rand_ctx.native_handle = &s->random;
    settings.no_pmtud = 1;
    ngtcp2_transport_params_default(&params);
    params.original_dcid = hd.dcid;
    params.original_dcid_present = 1;
    /* limits that years of warm sends do not reach, so that nothing is ever granted anew */
    params.initial_max_streams_uni = UINT64_C(1) << 59;
    params.initial_max_stream_data_uni = 4096;
    params.initial_max_data = UINT64_C(1) << 61;
    if (ngtcp2_conn_server_new(&s->conn, &hd.scid, &scid, &s->path, hd.version, &callbacks,
                               &settings, &params, NULL, s) != 0) {
        return SOLSEND_ERR_MEMORY;
    }
    ngtcp2_conn_set_tls_native_handle(s->conn, s->tls.session);
    return 0;
}

static int answer(struct shadow_server *s)
{
    for (int i = 0; i < PACKETS_MAX; i++) {
        uint8_t packet[QUIC_PAYLOAD_MAX];
        ngtcp2_pkt_info pi;
        ngtcp2_ssize n =
            ngtcp2_conn_write_pkt(s->conn, NULL, &pi, packet, QUIC_PAYLOAD_MIN, tick(s));
        if (n < 0) {
            return SOLSEND_ERR_PROTOCOL;
        }
        if (n == 0) {
            return 0;
        }
        if (send(s->fd, packet, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            return 0; /* a lost acknowledgement: the next one repeats it */
        }
    }
    return 0;
}

int shadow_server_feed(struct shadow_server *s, const uint8_t *data, uint32_t bytes)
{
    if (s->conn == NULL) {
        int rc = accept_client(s, data, bytes);
        if (rc < 0) {
            return rc;
        }
    }
    ngtcp2_pkt_info pi = {0};
    if (ngtcp2_conn_read_pkt(s->conn, &s->path, &pi, data, bytes, tick(s)) != 0) {
        return SOLSEND_ERR_PROTOCOL;
    }
    return answer(s);
}

int shadow_server_pump(struct shadow_server *s)
{
    for (int i = 0; i < PUMP_MAX; i++) {
        uint8_t data[2048];
        socklen_t bytes = sizeof s->remote;
        ssize_t n = recvfrom(s->fd, data, sizeof data, MSG_DONTWAIT, &s->remote.any, &bytes);
        if (n < 0) {
            break;
        }
        if (s->conn == NULL) {
            s->path.remote.addr = (ngtcp2_sockaddr *)&s->remote;
            s->path.remote.addrlen = endpoint_address_bytes(&s->remote);
            /* from now on only this client is heard */
            if (connect(s->fd, &s->remote.any, bytes) < 0) {
                return SOLSEND_ERR_INTERNAL;
            }
        }
        int rc = shadow_server_feed(s, data, (uint32_t)n);
        if (rc < 0) {
            return rc;
        }
    }
    if (s->conn != NULL && ngtcp2_conn_get_expiry(s->conn) <= tick(s)) {
        if (ngtcp2_conn_handle_expiry(s->conn, s->last_now) != 0) {
            return SOLSEND_ERR_IDLE;
        }
        return answer(s);
    }
    return 0;
}

int shadow_server_hears(const struct shadow_server *server)
{
    uint8_t byte;
    return recv(server->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

uint16_t shadow_server_port(const struct shadow_server *server)
{
    return endpoint_address_port(&server->local);
}

static int bind_loopback(struct shadow_server *s)
{
    s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        return errno == EMFILE || errno == ENFILE ? SOLSEND_ERR_NO_FILES : SOLSEND_ERR_INTERNAL;
    }
    s->local.v4.sin_family = AF_INET;
    s->local.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof s->local;
    if (bind(s->fd, &s->local.any, sizeof s->local.v4) < 0 ||
        getsockname(s->fd, &s->local.any, &bytes) < 0) {
        return SOLSEND_ERR_NO_PORT;
    }
    s->path.local.addr = (ngtcp2_sockaddr *)&s->local;
    s->path.local.addrlen = sizeof s->local.v4;
    return 0;
}

int shadow_server_open(struct shadow_server **out, solsend_detail *detail)
{
    *out = NULL;
    struct shadow_server *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return detail_set(detail, SOLSEND_ERR_MEMORY, SOLSEND_NO_OFFSET, "shadow server");
    }
    s->fd = -1;
    s->conn_ref.get_conn = get_conn;
    s->conn_ref.user_data = s;
    int rc = random_open(&s->random);
    if (rc == 0) {
        rc = solsend_key_random(&s->identity);
    }
    if (rc == 0) {
        rc = bind_loopback(s);
    }
    if (rc < 0) {
        shadow_server_close(s);
        return detail_set(detail, rc, SOLSEND_NO_OFFSET, "the shadow's loopback socket: %s",
                          strerror(errno));
    }
    *out = s;
    return 0;
}

void shadow_server_close(struct shadow_server *server)
{
    if (server == NULL) {
        return;
    }
    if (server->conn != NULL) {
        ngtcp2_conn_del(server->conn);
    }
    tls_close(&server->tls);
    solsend_key_close(server->identity);
    if (server->fd >= 0) {
        close(server->fd);
    }
    free(server);
}
