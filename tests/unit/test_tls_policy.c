/*
 * GnuTLS under a hostile policy of the system. It reads its configuration before main, so that the
 * body of each case runs in a process of its own: this program again, with an argument.
 */
#include "check.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <solsend/solsend.h>

#include "udp_peer.h"

enum { PATIENCE_S = 20 };

/* ---- the process under the policy -------------------------------------------------------------
 */

/* Opens a link to a silent peer twice: says the code, the text, and whether a hello came. */
static int open_under_policy(void)
{
    struct udp_peer peer;
    uint8_t data[2048];
    alarm(PATIENCE_S);
    if (udp_peer_open(&peer, "127.0.0.1") != 0) {
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        solsend_link *link = (solsend_link *)&peer;
        solsend_detail detail = {0};
        int rc = solsend_link_open(&link, udp_peer_uri(&peer, "quic"), NULL, &detail);
        printf("%d %d %d %s\n", rc, link != NULL, udp_peer_take(&peer, data, sizeof data) == 1200,
               detail.text);
        if (detail.code != rc && rc < 0) {
            return 3;
        }
        solsend_link_close(link, 0);
        while (udp_peer_take(&peer, data, sizeof data) >= 0) {
        }
    }
    return 0;
}

/* ---- and this one -----------------------------------------------------------------------------
 */

struct outcome {
    int status; /* exit code; 256 + signal */
    int codes[2];
    int opened[2];
    int hello[2];
    char text[2][256];
};

/* Long: the text must name the whole of it. */
static char policy_path[] =
    "/tmp/solsend-policy-of-this-system-in-a-file-whose-name-is-as-long-as-any"
    "-that-an-administrator-would-give-it-XXXXXX";

static int write_policy(const char *text)
{
    int fd = open(policy_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    int rc = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
    close(fd);
    return rc;
}

/* Runs this program again with GNUTLS_SYSTEM_PRIORITY_FILE at this text (null: at no file). */
static struct outcome run(const char *policy, int fail_on_invalid)
{
    struct outcome o;
    int ends[2];
    char output[1024];
    memset(&o, 0, sizeof o);
    if (policy != NULL) {
        assert_int_equal(write_policy(policy), 0);
    }
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("GNUTLS_SYSTEM_PRIORITY_FILE", policy != NULL ? policy_path : "/nonexistent/file",
               1);
        if (fail_on_invalid) {
            setenv("GNUTLS_SYSTEM_PRIORITY_FAIL_ON_INVALID", "1", 1);
        }
        execl("/proc/self/exe", "test_tls_policy", "open", (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof output - 1; n += (size_t)(got > 0 ? got : 0)) {
        got = read(ends[0], output + n, sizeof output - 1 - n);
    }
    output[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &o.status, 0), pid);
    o.status = WIFEXITED(o.status) ? WEXITSTATUS(o.status) : 256 + WTERMSIG(o.status);
    char *line = output;
    for (int i = 0; i < 2 && *line != 0; i++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        int at = 0;
        assert_int_equal(sscanf(line, "%d %d %d %n", &o.codes[i], &o.opened[i], &o.hello[i], &at),
                         3);
        snprintf(o.text[i], sizeof o.text[i], "%s", line + at);
        line = end + 1;
    }
    return o;
}

static void is_refused(const char *policy)
{
    struct outcome o = run(policy, 0);
    for (int i = 0; i < 2; i++) { /* the second time as the first */
        if (o.status != 0 || o.codes[i] != SOLSEND_ERR_TLS_POLICY || o.opened[i] || o.hello[i] ||
            strstr(o.text[i], policy_path) == NULL || strstr(o.text[i], "GnuTLS") == NULL) {
            fail_msg("\"%s\": status %d, %s, \"%s\"", policy, o.status,
                     solsend_error_name(o.codes[i]), o.text[i]);
        }
    }
}

static void is_fine(const char *policy)
{
    struct outcome o = run(policy, 0);
    for (int i = 0; i < 2; i++) {
        if (o.status != 0 || o.codes[i] != 0 || !o.opened[i] || !o.hello[i]) {
            fail_msg("\"%s\": status %d, %s, \"%s\"", policy != NULL ? policy : "no file", o.status,
                     solsend_error_name(o.codes[i]), o.text[i]);
        }
    }
}

/* Versions differ in what they make of it: a clear refusal, or no refusal at all. */
static void is_refused_or_fine(const char *policy)
{
    struct outcome o = run(policy, 0);
    assert_int_equal(o.status, 0);
    if (o.codes[0] == 0) {
        is_fine(policy);
    } else {
        is_refused(policy);
    }
}

static void policies_that_leave_us_alone(void **state)
{
    (void)state;
    is_fine(NULL);
    is_fine("");
    is_fine("# a comment\n");
    is_fine("[overrides]\ntls-disabled-cipher = chacha20-poly1305\ndisabled-version = tls1.0\n"
            "disabled-version = tls1.1\ndisabled-version = tls1.2\n"
            "insecure-sig = rsa-sha1\ntls-disabled-group = group-secp256r1\n");
    is_fine("[priorities]\nSYSTEM=NONE\n"); /* our priorities are our own */
}

/* What GnuTLS 3.7 and 3.8 take away by a list of what is forbidden. */
static void what_we_need_is_forbidden(void **state)
{
    (void)state;
    is_refused("[overrides]\ndisabled-curve = ed25519\n");
    is_refused("[overrides]\ninsecure-sig = eddsa-ed25519\n");
    is_refused("[overrides]\ndisabled-curve = x25519\n");
    is_refused("[overrides]\ntls-disabled-group = group-x25519\n");
    is_refused("[overrides]\ndisabled-version = tls1.3\n");
    is_refused("[overrides]\ntls-disabled-cipher = aes-128-gcm\n");
    is_refused("[overrides]\ntls-disabled-mac = aead\n");
    is_refused("[overrides]\ninsecure-hash = sha256\n");
}

/* And by a list of what alone is allowed, as Fedora and its kin have it. */
#define ALLOWED                                                                                    \
    "[global]\noverride-mode = allowlist\n[overrides]\n"                                           \
    "secure-hash = sha256\nsecure-hash = sha384\nsecure-hash = sha512\nsecure-sig = "              \
    "eddsa-ed25519\n"                                                                              \
    "enabled-version = tls1.3\ntls-enabled-mac = aead\n"

static void what_we_need_is_not_allowed(void **state)
{
    (void)state;
    is_refused("[global]\noverride-mode = allowlist\n");
    is_refused_or_fine(ALLOWED "tls-enabled-cipher = aes-256-gcm\nenabled-curve = x25519\n"
                               "enabled-curve = ed25519\ntls-enabled-group = group-x25519\n");
    is_refused(ALLOWED "tls-enabled-cipher = aes-128-gcm\nenabled-curve = x25519\n"
                       "tls-enabled-group = group-x25519\n");
    is_refused(ALLOWED "tls-enabled-cipher = aes-128-gcm\nenabled-curve = ed25519\n"
                       "enabled-curve = secp256r1\ntls-enabled-group = group-secp256r1\n");
    is_fine(ALLOWED "secure-sig-for-cert = eddsa-ed25519\ntls-enabled-cipher = aes-128-gcm\n"
                    "enabled-curve = x25519\nenabled-curve = ed25519\n"
                    "tls-enabled-group = group-x25519\n");
}

/* With this variable GnuTLS itself ends a process with a wrong file, before its main. */
static void a_wrong_file_is_gnutlss_own_matter(void **state)
{
    (void)state;
    is_fine("[overrides]\nno-such-key = x\n");
    is_fine("garbage\n");
    struct outcome o = run("[overrides]\nno-such-key = x\n", 1);
    assert_true(o.status == 1 || (o.status == 0 && o.codes[0] == 0)); /* never a signal, no wait */
    o = run("[overrides]\ndisabled-curve = ed25519\n", 1);
    assert_int_equal(o.status, 0);
    assert_int_equal(o.codes[0], SOLSEND_ERR_TLS_POLICY);
}

static int make_policy_file(void **state)
{
    (void)state;
    int fd = mkstemp(policy_path);
    close(fd);
    return fd >= 0 ? 0 : -1;
}

static int remove_policy_file(void **state)
{
    (void)state;
    return unlink(policy_path);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "open") == 0) {
        return open_under_policy();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_that_leave_us_alone),
        cmocka_unit_test(what_we_need_is_forbidden),
        cmocka_unit_test(what_we_need_is_not_allowed),
        cmocka_unit_test(a_wrong_file_is_gnutlss_own_matter),
    };
    return cmocka_run_group_tests(tests, make_policy_file, remove_policy_file);
}
