#include "link/tls_guard.h"

/* Handshake message types, RFC 8446 section 4. */
enum {
    CLIENT_HELLO = 1,
    SERVER_HELLO = 2, /* HelloRetryRequest too */
    NEW_SESSION_TICKET = 4,
    ENCRYPTED_EXTENSIONS = 8,
    CERTIFICATE = 11,
    CERTIFICATE_REQUEST = 13,
    CERTIFICATE_VERIFY = 15,
    FINISHED = 20,
    HEAD_BYTES = 4
};

#define BIT(type) (UINT32_C(1) << (type))

static uint32_t allowed(enum tls_role peer, ngtcp2_encryption_level level)
{
    switch (level) {
    case NGTCP2_ENCRYPTION_LEVEL_INITIAL:
        return peer == TLS_SERVER ? BIT(SERVER_HELLO) : BIT(CLIENT_HELLO);
    case NGTCP2_ENCRYPTION_LEVEL_HANDSHAKE:
        return BIT(CERTIFICATE) | BIT(CERTIFICATE_VERIFY) | BIT(FINISHED) |
               (peer == TLS_SERVER ? BIT(ENCRYPTED_EXTENSIONS) | BIT(CERTIFICATE_REQUEST) : 0);
    case NGTCP2_ENCRYPTION_LEVEL_1RTT:
        return peer == TLS_SERVER ? BIT(NEW_SESSION_TICKET) : 0;
    default:
        return 0;
    }
}

int tls_guard_check(struct tls_guard *guard, enum tls_role peer, ngtcp2_encryption_level level,
                    const uint8_t *data, size_t bytes)
{
    uint32_t types = allowed(peer, level);
    if (types == 0) {
        return bytes == 0 ? 0 : -1;
    }
    uint32_t *left = &guard->left[level], *head = &guard->head[level];
    while (bytes > 0) {
        if (*head == 0 && *left > 0) {
            size_t n = bytes < *left ? bytes : *left;
            *left -= (uint32_t)n;
            data += n;
            bytes -= n;
            continue;
        }
        if (*head == 0) {
            if (*data >= 32 || !(types & BIT(*data))) {
                return -1;
            }
        } else {
            *left = *left << 8 | *data; /* 24 bits of length */
        }
        *head = (*head + 1) % HEAD_BYTES;
        data++;
        bytes--;
    }
    return 0;
}
