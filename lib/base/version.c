#include <solsend/solsend.h>

#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>

static char text[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_text(void)
{
    snprintf(text, sizeof text, "libsolsend %d.%d.%d, ngtcp2 %s, GnuTLS %s, libsodium %s",
             SOLSEND_VERSION_MAJOR, SOLSEND_VERSION_MINOR, SOLSEND_VERSION_PATCH,
             ngtcp2_version(0)->version_str, gnutls_check_version(NULL), sodium_version_string());
}

const char *solsend_build_info(void)
{
    pthread_once(&once, make_text);
    return text;
}

uint32_t solsend_version(void)
{
    return SOLSEND_VERSION_MAJOR << 16 | SOLSEND_VERSION_MINOR << 8 | SOLSEND_VERSION_PATCH;
}
