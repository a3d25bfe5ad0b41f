/* A program may be linked with one version of a library and run with another: opening the first
 * link asks what is really loaded. This program's own ngtcp2_version and gnutls_check_version stand
 * before the real ones, and claim to be older. */
#include "check.h"
#include "child.h"

#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>

#include <solsend/solsend.h>

static int old_ngtcp2, old_gnutls;

const ngtcp2_info *ngtcp2_version(int least)
{
    static const ngtcp2_info info = {
        .age = NGTCP2_VERSION_AGE, .version_num = 0x010a00, .version_str = "1.10.0"};
    if (old_ngtcp2) {
        return least > info.version_num ? NULL : &info;
    }
    const ngtcp2_info *(*real)(int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "ngtcp2_version");
    return real(least);
}

const char *gnutls_check_version(const char *least)
{
    if (old_gnutls) {
        return least == NULL ? "3.7.4" : NULL;
    }
    const char *(*real)(const char *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "gnutls_check_version");
    return real(least);
}

static int open_any(solsend_detail *detail)
{
    solsend_link *link = NULL;
    int rc = solsend_link_open(&link, "quic://127.0.0.1:9", NULL, detail);
    solsend_link_close(link, 0);
    return rc;
}

static int with_what_was_built_against(void)
{
    CHILD_CHECK(open_any(NULL) == 0);
    return CHILD_OK;
}

static int with_old_ngtcp2(void)
{
    solsend_detail detail = {0};
    old_ngtcp2 = 1;
    CHILD_CHECK(open_any(&detail) == SOLSEND_ERR_LIBRARY);
    CHILD_CHECK(strstr(detail.text, "ngtcp2 1.10.0") != NULL);
    CHILD_CHECK(open_any(&detail) == SOLSEND_ERR_LIBRARY);
    return CHILD_OK;
}

static int with_old_gnutls(void)
{
    solsend_detail detail = {0};
    old_gnutls = 1;
    CHILD_CHECK(open_any(&detail) == SOLSEND_ERR_LIBRARY);
    CHILD_CHECK(strstr(detail.text, "GnuTLS 3.7.4") != NULL);
    return CHILD_OK;
}

static void the_versions_of_the_build_open_a_link(void **state)
{
    EXPECT_CHILD(with_what_was_built_against);
}

static void an_older_ngtcp2_is_refused_by_name(void **state)
{
    EXPECT_CHILD(with_old_ngtcp2);
}

static void an_older_gnutls_is_refused_by_name(void **state)
{
    EXPECT_CHILD(with_old_gnutls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_versions_of_the_build_open_a_link),
        cmocka_unit_test(an_older_ngtcp2_is_refused_by_name),
        cmocka_unit_test(an_older_gnutls_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
