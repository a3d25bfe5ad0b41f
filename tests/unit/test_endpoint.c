#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "link/endpoint.h"
#include "network.h"

static struct endpoint endpoint;
static solsend_detail detail;

static int open_wishes(const struct endpoint_wishes *wishes)
{
    memset(&detail, 0, sizeof detail);
    return endpoint_open(&endpoint, wishes, &detail);
}

static int open_to(const char *host, uint16_t port)
{
    struct endpoint_wishes wishes = {.host = host, .port = port};
    return open_wishes(&wishes);
}

static int open_from(const char *host, const char *bind, uint16_t port_min, uint16_t port_max)
{
    struct endpoint_wishes wishes = {
        .host = host, .bind = bind, .port = 9, .port_min = port_min, .port_max = port_max};
    return open_wishes(&wishes);
}

/* Failed with this code, with a text that names all of these, and without a socket. */
static void refused(int rc, int code, const char *name, const char *other)
{
    if (rc != code || detail.code != code || strstr(detail.text, name) == NULL ||
        strstr(detail.text, other) == NULL) {
        fail_msg("%s \"%s\", expected %s naming \"%s\" and \"%s\"", solsend_error_name(rc),
                 detail.text, solsend_error_name(code), name, other);
    }
    assert_int_equal(endpoint.fd, -1);
    assert_true(detail.offset == SOLSEND_NO_OFFSET);
}

static int option(int level, int name)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    assert_int_equal(getsockopt(endpoint.fd, level, name, &value, &bytes), 0);
    return value;
}

/* ---- what a socket is like --------------------------------------------------------------------
 */

static void an_ipv4_socket_is_connected_and_never_fragments(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(open_to("127.0.0.1", 8009), 0);
    assert_int_equal(endpoint_address_port(&endpoint.remote), 8009);
    assert_int_not_equal(endpoint_address_port(&endpoint.local), 0);
    endpoint_address_text(&endpoint.remote, text, sizeof text);
    assert_string_equal(text, "127.0.0.1:8009");
    assert_int_equal(endpoint_address_bytes(&endpoint.remote), sizeof(struct sockaddr_in));
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    assert_int_equal(getpeername(endpoint.fd, (struct sockaddr *)&peer, &bytes), 0);
    assert_int_equal(peer.sin_port, htons(8009));
    assert_int_equal(option(IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DO);
    assert_int_equal(option(SOL_SOCKET, SO_REUSEPORT), 0); /* it would steal others' replies */
    assert_int_equal(option(SOL_SOCKET, SO_REUSEADDR), 0);
    assert_true(fcntl(endpoint.fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(endpoint.fd, F_GETFD) & FD_CLOEXEC);
    assert_in_range(endpoint_path_payload(&endpoint), 1200, 65507 + 1);
    endpoint_close(&endpoint);
    assert_int_equal(endpoint.fd, -1);
    endpoint_close(&endpoint);
}

static void an_ipv6_socket_is_the_same(void **state)
{
    (void)state;
    char text[64];
    if (open_to("::1", 8009) == SOLSEND_ERR_NO_ROUTE_FAMILY) {
        SKIP_TEST("this host has no IPv6");
    }
    assert_true(endpoint.fd >= 0);
    endpoint_address_text(&endpoint.remote, text, sizeof text);
    assert_string_equal(text, "[::1]:8009");
    assert_int_equal(endpoint_address_bytes(&endpoint.remote), sizeof(struct sockaddr_in6));
    assert_int_equal(endpoint_address_port(&endpoint.remote), 8009);
    assert_int_not_equal(endpoint_address_port(&endpoint.local), 0);
    assert_int_equal(option(IPPROTO_IPV6, IPV6_MTU_DISCOVER), IPV6_PMTUDISC_DO);
    assert_int_equal(option(IPPROTO_IPV6, IPV6_DONTFRAG), 1);
    assert_in_range(endpoint_path_payload(&endpoint), 1200, 65535 - 8);
    endpoint_close(&endpoint);
}

/* Through an IPv6 socket neither DF nor the checks of the address would be IPv4's. */
static void a_mapped_address_is_an_ipv4_address(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(open_to("::ffff:127.0.0.1", 8009), 0);
    endpoint_address_text(&endpoint.remote, text, sizeof text);
    assert_string_equal(text, "127.0.0.1:8009");
    assert_int_equal(option(IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DO);
    endpoint_close(&endpoint);
    refused(open_to("::ffff:0.0.0.0", 9), SOLSEND_ERR_BAD_ADDRESS, "0.0.0.0:9", "");
}

static void a_name_is_resolved(void **state)
{
    (void)state;
    int rc = open_to("localhost", 7);
    if (rc == SOLSEND_ERR_RESOLVE) {
        SKIP_TEST("localhost has no address here: there is no /etc/hosts");
    }
    assert_int_equal(rc, 0);
    assert_int_equal(endpoint_address_port(&endpoint.remote), 7);
    endpoint_close(&endpoint);
}

static void a_name_that_cannot_be_is_refused(void **state)
{
    (void)state;
    /* longer than a label may be: no server needs to be asked */
    char name[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid";
    refused(open_to(name, 7), SOLSEND_ERR_RESOLVE, "aaaa.invalid", ": ");
}

/* ---- addresses --------------------------------------------------------------------------------
 */

static void addresses_nobody_has_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        const char *named;
    } bad[] = {
        {"0.0.0.0", "0.0.0.0:9"},
        {"224.0.0.1", "224.0.0.1:9"},
        {"239.255.255.255", "239.255.255.255:9"},
        {"255.255.255.255", "255.255.255.255:9"},
        {"127.255.255.255", "127.255.255.255:9"}, /* the broadcast address of a network of ours */
        {"::", "[::]:9"},
        {"ff02::1", "[ff02::1]:9"},
        {"fe80::1", "[fe80::1]:9"}, /* of which interface? */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused(open_to(bad[i].host, 9), SOLSEND_ERR_BAD_ADDRESS, bad[i].named, "");
    }
}

static void the_local_address_is_bound(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(open_from("127.0.0.1", "127.0.0.2", 0, 0), 0);
    endpoint_address_text(&endpoint.local, text, sizeof text);
    assert_memory_equal(text, "127.0.0.2:", 10);
    assert_int_not_equal(endpoint_address_port(&endpoint.local), 0);
    endpoint_close(&endpoint);
}

static void a_local_address_must_be_here_and_of_the_peers_family(void **state)
{
    (void)state;
    refused(open_from("127.0.0.1", "203.0.113.7", 0, 0), SOLSEND_ERR_NO_ADDRESS, "bind", "");
    refused(open_from("127.0.0.1", "::1", 0, 0), SOLSEND_ERR_NO_ADDRESS, "::1", "IPv4");
    refused(open_from("127.0.0.1", "eth0", 0, 0), SOLSEND_ERR_NO_ADDRESS, "eth0", "IPv4");
    refused(open_from("127.0.0.1", "", 0, 0), SOLSEND_ERR_NO_ADDRESS, "\"\"", "IPv4");
    refused(open_from("127.0.0.1", "127.0.0.1:80", 0, 0), SOLSEND_ERR_NO_ADDRESS, ":80", "IPv4");
    refused(open_from("::1", "127.0.0.1", 0, 0), SOLSEND_ERR_NO_ADDRESS, "127.0.0.1", "IPv6");
}

/* ---- ports ------------------------------------------------------------------------------------
 */

/* Binds `count` neighbouring ports of loopback, so that a test knows a range that is full. */
static uint16_t occupy(int *fds, int count)
{
    for (uint32_t first = 20000; first < 60000; first += 37) {
        int i = 0;
        for (; i < count; i++) {
            struct sockaddr_in a = {.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)(first + (uint32_t)i))};
            a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            if (bind(fds[i], (struct sockaddr *)&a, sizeof a) != 0) {
                close(fds[i]);
                break;
            }
        }
        if (i == count) {
            return (uint16_t)first;
        }
        while (i-- > 0) {
            close(fds[i]);
        }
    }
    fail_msg("no free ports");
    return 0;
}

static void ports_come_from_the_range(void **state)
{
    (void)state;
    int fds[4];
    char first[32], last[32];
    uint16_t base = occupy(fds, 4);
    snprintf(first, sizeof first, "%u", base);
    snprintf(last, sizeof last, "%u", base + 3);
    refused(open_from("127.0.0.1", "127.0.0.1", base, (uint16_t)(base + 3)), SOLSEND_ERR_NO_PORT,
            first, last);
    refused(open_from("127.0.0.1", "127.0.0.1", base, base), SOLSEND_ERR_PORT_IN_USE, first, "");
    close(fds[2]);
    assert_int_equal(open_from("127.0.0.1", "127.0.0.1", base, (uint16_t)(base + 3)), 0);
    assert_int_equal(endpoint_address_port(&endpoint.local), base + 2);
    endpoint_close(&endpoint);
    assert_int_equal(open_from("127.0.0.1", NULL, (uint16_t)(base + 2), (uint16_t)(base + 2)), 0);
    assert_int_equal(endpoint_address_port(&endpoint.local), base + 2);
    endpoint_close(&endpoint);
    for (int i = 0; i < 4; i++) {
        if (i != 2) {
            close(fds[i]);
        }
    }
}

static void the_last_port_of_all_can_be_had(void **state)
{
    (void)state;
    int rc = open_from("127.0.0.1", "127.0.0.9", 65535, 65535);
    if (rc == SOLSEND_ERR_PORT_IN_USE) {
        SKIP_TEST("the last port is in use");
    }
    assert_int_equal(rc, 0);
    assert_int_equal(endpoint_address_port(&endpoint.local), 65535);
    struct endpoint taken = endpoint;
    refused(open_from("127.0.0.1", "127.0.0.9", 65535, 65535), SOLSEND_ERR_PORT_IN_USE, "65535",
            "");
    endpoint_close(&taken);
}

/* ---- hosts that are not like this one ---------------------------------------------------------
 */

#define CHILD_REFUSED(rc, expected, name)                                                          \
    do {                                                                                           \
        int got = (rc);                                                                            \
        if (got != (expected) || strstr(detail.text, name) == NULL) {                              \
            fprintf(stderr, "%s:%d: %s \"%s\"\n", __FILE__, __LINE__, solsend_error_name(got),     \
                    detail.text);                                                                  \
            return CHILD_FAILED;                                                                   \
        }                                                                                          \
        CHILD_CHECK(endpoint.fd == -1);                                                            \
    } while (0)

static int low_ports_need_a_privilege(void)
{
    char limit[16] = "";
    int fd = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, limit, sizeof limit - 1);
        (void)n;
        close(fd);
    }
    if (atoi(limit) <= 700 || child_drop_privileges() != 0) {
        CHILD_SKIP("low ports need no privilege here");
    }
    CHILD_REFUSED(open_from("127.0.0.1", NULL, 700, 710), SOLSEND_ERR_PRIVILEGE, "bind");
    return CHILD_OK;
}

static int no_more_files(void)
{
    CHILD_CHECK(child_set_limit(RLIMIT_NOFILE, 3) == 0);
    CHILD_REFUSED(open_to("127.0.0.1", 9), SOLSEND_ERR_NO_FILES, "IPv4 socket");
    return CHILD_OK;
}

static int no_ipv6_sockets(void)
{
    if (child_fake_call(SYS_socket, 0, AF_INET6, EAFNOSUPPORT) != 0) {
        CHILD_SKIP("no seccomp");
    }
    CHILD_REFUSED(open_to("::1", 9), SOLSEND_ERR_NO_ROUTE_FAMILY, "IPv6 socket");
    CHILD_CHECK(open_to("127.0.0.1", 9) == 0);
    return CHILD_OK;
}

/* The host knows a name with an address of each family. */
static int know_a_name_of_both_families(const char *name)
{
    char path[] = "/tmp/solsend-hosts-XXXXXX", text[128];
    int bytes = snprintf(text, sizeof text, "::1 %s\n127.0.0.1 %s\n", name, name);
    int fd = mkstemp(path);
    int rc = fd >= 0 && write(fd, text, (size_t)bytes) == bytes && fchmod(fd, 0644) == 0 ? 0 : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (rc == 0 &&
        (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
         mount(path, "/etc/hosts", NULL, MS_BIND, NULL) != 0)) {
        rc = -1;
    }
    unlink(path);
    return rc;
}

static int the_next_address_is_tried(void)
{
    if (know_a_name_of_both_families("both.example") != 0) {
        CHILD_SKIP("no mount namespace of one's own");
    }
    CHILD_CHECK(open_to("both.example", 9) == 0);
    int first = endpoint.remote.any.sa_family; /* IPv6, unless this host has none */
    endpoint_close(&endpoint);
    if (child_fake_call(SYS_socket, 0, AF_INET6, EAFNOSUPPORT) != 0) {
        CHILD_SKIP("no seccomp");
    }
    CHILD_CHECK(open_to("both.example", 9) == 0);
    CHILD_CHECK(endpoint.remote.any.sa_family == AF_INET);
    CHILD_CHECK(first == AF_INET6 || first == AF_INET);
    endpoint_close(&endpoint);
    /* the bind address chooses too */
    CHILD_CHECK(open_from("both.example", "127.0.0.1", 0, 0) == 0);
    CHILD_CHECK(endpoint.remote.any.sa_family == AF_INET);
    return CHILD_OK;
}

static int ipv6_switched_off(void)
{
    if (network_enter(65536) != 0 ||
        network_sysctl("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1") != 0) {
        CHILD_SKIP("no network namespace of one's own");
    }
    CHILD_REFUSED(open_to("::1", 9), SOLSEND_ERR_NO_ROUTE_FAMILY, "connect");
    CHILD_CHECK(open_to("127.0.0.1", 9) == 0);
    return CHILD_OK;
}

static int no_route(void)
{
    if (network_enter(65536) != 0) {
        CHILD_SKIP("no network namespace of one's own");
    }
    CHILD_REFUSED(open_to("203.0.113.7", 9), SOLSEND_ERR_UNREACHABLE, "connect");
    return CHILD_OK;
}

static int ephemeral_ports_run_out(void)
{
    struct endpoint taken[2];
    if (network_enter(65536) != 0 ||
        network_sysctl("/proc/sys/net/ipv4/ip_local_port_range", "50000 50001") != 0) {
        CHILD_SKIP("no network namespace of one's own");
    }
    for (int i = 0; i < 2; i++) {
        CHILD_CHECK(open_to("127.0.0.1", 9) == 0);
        taken[i] = endpoint;
    }
    CHILD_REFUSED(open_to("127.0.0.1", 9), SOLSEND_ERR_NO_PORT, "ip_local_port_range");
    CHILD_REFUSED(open_from("127.0.0.1", "127.0.0.1", 0, 0), SOLSEND_ERR_NO_PORT,
                  "ip_local_port_range");
    endpoint_close(&taken[0]);
    CHILD_CHECK(open_to("127.0.0.1", 9) == 0);
    return CHILD_OK;
}

static int the_path_is_small(void)
{
    if (network_enter(1300) != 0) {
        CHILD_SKIP("no network namespace of one's own");
    }
    CHILD_CHECK(open_to("127.0.0.1", 9) == 0);
    CHILD_CHECK(endpoint_path_payload(&endpoint) == 1300 - 28);
    uint8_t data[1273] = {0};
    CHILD_CHECK(send(endpoint.fd, data, 1272, 0) == 1272);
    CHILD_CHECK(send(endpoint.fd, data, 1273, 0) == -1 && errno == EMSGSIZE); /* not in two */
    endpoint_close(&endpoint);
    if (open_to("::1", 9) == 0) {
        CHILD_CHECK(endpoint_path_payload(&endpoint) == 1300 - 48);
        CHILD_CHECK(send(endpoint.fd, data, 1252, 0) == 1252);
        CHILD_CHECK(send(endpoint.fd, data, 1253, 0) == -1 && errno == EMSGSIZE);
    }
    return CHILD_OK;
}

#define IN_CHILD(body)                                                                             \
    static void in_child_##body(void **state)                                                      \
    {                                                                                              \
        (void)state;                                                                               \
        EXPECT_CHILD(body);                                                                        \
    }

IN_CHILD(low_ports_need_a_privilege)
IN_CHILD(no_more_files)
IN_CHILD(no_ipv6_sockets)
IN_CHILD(the_next_address_is_tried)
IN_CHILD(ipv6_switched_off)
IN_CHILD(no_route)
IN_CHILD(ephemeral_ports_run_out)
IN_CHILD(the_path_is_small)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv4_socket_is_connected_and_never_fragments),
        cmocka_unit_test(an_ipv6_socket_is_the_same),
        cmocka_unit_test(a_mapped_address_is_an_ipv4_address),
        cmocka_unit_test(a_name_is_resolved),
        cmocka_unit_test(a_name_that_cannot_be_is_refused),
        cmocka_unit_test(addresses_nobody_has_are_refused),
        cmocka_unit_test(the_local_address_is_bound),
        cmocka_unit_test(a_local_address_must_be_here_and_of_the_peers_family),
        cmocka_unit_test(ports_come_from_the_range),
        cmocka_unit_test(the_last_port_of_all_can_be_had),
        cmocka_unit_test(in_child_low_ports_need_a_privilege),
        cmocka_unit_test(in_child_no_more_files),
        cmocka_unit_test(in_child_no_ipv6_sockets),
        cmocka_unit_test(in_child_the_next_address_is_tried),
        cmocka_unit_test(in_child_ipv6_switched_off),
        cmocka_unit_test(in_child_no_route),
        cmocka_unit_test(in_child_ephemeral_ports_run_out),
        cmocka_unit_test(in_child_the_path_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
