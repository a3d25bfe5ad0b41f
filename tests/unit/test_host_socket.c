#include "check.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "fixture.h"
#include "host/privilege.h"
#include "host/socket.h"
#include "host/stamps_probe.h"
#include "host/sysroot.h"
#include "steps.h"

enum { WANTED_MAX = 1 << 29 };

/* What the kernel keeps for the socket, its doubling taken out. */
static int64_t kept(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value / 2 : -1;
}

static int udp_socket(void)
{
    return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/* More than the machine's limit for ordinary users, or 0 where the limit is not visible. */
static uint32_t above_limit(const char *sysctl)
{
    int64_t limit = 0;
    if (host_sysroot_number(sysctl, &limit) != 0 || limit > WANTED_MAX / 2) {
        return 0;
    }
    return (uint32_t)limit * 2;
}

static void a_small_buffer_is_granted(void **state)
{
    (void)state;
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.send_buffer_bytes = 65536, .receive_buffer_bytes = 32768};
    solsend_step steps[HOST_SOCKET_STEPS_MAX];
    assert_int_equal(host_socket_tune(fd, &wishes, steps, HOST_SOCKET_STEPS_MAX), 2);
    assert_int_equal(steps[0].step, SOLSEND_STEP_SEND_BUFFER);
    assert_int_equal(steps[1].step, SOLSEND_STEP_RECEIVE_BUFFER);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(steps[i].code, 0);
        assert_true(step_is_whole(&steps[i]));
    }
    assert_int_equal(steps[0].wanted, 65536);
    assert_int_equal(steps[0].got, 65536);
    assert_int_equal(kept(fd, SO_SNDBUF), 65536);
    assert_int_equal(kept(fd, SO_RCVBUF), 32768);
    close(fd);
}

static void nothing_wished_is_nothing_touched(void **state)
{
    (void)state;
    int fd = udp_socket();
    int64_t before = kept(fd, SO_SNDBUF);
    struct host_socket_wishes wishes = {0};
    solsend_step steps[HOST_SOCKET_STEPS_MAX];
    assert_int_equal(host_socket_tune(fd, &wishes, steps, HOST_SOCKET_STEPS_MAX), 2);
    assert_int_equal(steps[0].code, 0);
    assert_int_equal(steps[0].got, before);
    assert_int_equal(kept(fd, SO_SNDBUF), before);
    close(fd);
}

static int body_clamped(void)
{
    uint32_t wanted = above_limit("/proc/sys/net/core/wmem_max");
    if (wanted == 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("no visible limit, or privileges cannot be dropped");
    }
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.send_buffer_bytes = wanted,
                                        .receive_buffer_bytes = WANTED_MAX};
    solsend_step steps[2];
    CHILD_CHECK(host_socket_tune(fd, &wishes, steps, 2) == 2);
    CHILD_CHECK(steps[0].code == SOLSEND_ERR_CLAMPED && step_is_whole(&steps[0]));
    CHILD_CHECK(steps[0].wanted == wanted && steps[0].got == wanted / 2);
    CHILD_CHECK(steps[0].got == kept(fd, SO_SNDBUF));
    char limit[64];
    snprintf(limit, sizeof limit, "net.core.wmem_max is %u", wanted / 2);
    CHILD_CHECK(strstr(steps[0].why, limit) != NULL);
    CHILD_CHECK(strstr(steps[0].why, "SO_SNDBUFFORCE: EPERM") != NULL);
    CHILD_CHECK(steps[1].code == SOLSEND_ERR_CLAMPED && step_is_whole(&steps[1]));
    CHILD_CHECK(steps[1].got == kept(fd, SO_RCVBUF) && steps[1].got < WANTED_MAX);

    /* In a container the limit may not be visible: the read-back is what counts. */
    host_set_sysroot("/nonexistent");
    CHILD_CHECK(host_socket_tune(fd, &wishes, steps, 2) == 2);
    CHILD_CHECK(steps[0].code == SOLSEND_ERR_CLAMPED && step_is_whole(&steps[0]));
    CHILD_CHECK(steps[0].got == wanted / 2);
    CHILD_CHECK(strstr(steps[0].why, "not visible here") != NULL);
    return CHILD_OK;
}

static void a_clamped_buffer_is_read_back_and_told(void **state)
{
    (void)state;
    EXPECT_CHILD(body_clamped);
}

static void with_the_capability_the_clamp_is_lifted(void **state)
{
    (void)state;
    uint32_t wanted = above_limit("/proc/sys/net/core/rmem_max");
    if (wanted == 0 || host_capability(HOST_CAP_NET_ADMIN) != HOST_CAP_PRESENT) {
        SKIP_TEST("no CAP_NET_ADMIN, or the limit is too high to go over");
    }
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.receive_buffer_bytes = wanted};
    solsend_step steps[2];
    assert_int_equal(host_socket_tune(fd, &wishes, steps, 2), 2);
    assert_int_equal(steps[1].code, 0);
    assert_int_equal(steps[1].got, wanted);
    assert_int_equal(kept(fd, SO_RCVBUF), wanted);
    close(fd);
}

static void more_than_an_int_is_clamped(void **state)
{
    (void)state;
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.send_buffer_bytes = UINT32_MAX};
    solsend_step steps[2];
    assert_int_equal(host_socket_tune(fd, &wishes, steps, 2), 2);
    assert_int_equal(steps[0].code, SOLSEND_ERR_CLAMPED);
    assert_true(step_is_whole(&steps[0]));
    assert_int_equal(steps[0].got, kept(fd, SO_SNDBUF));
    close(fd);
}

static void priority_and_busy_poll_only_when_wished(void **state)
{
    (void)state;
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.busy_poll_us = 50, .priority = 6};
    solsend_step steps[HOST_SOCKET_STEPS_MAX];
    assert_int_equal(host_socket_tune(fd, &wishes, steps, HOST_SOCKET_STEPS_MAX), 4);
    assert_int_equal(steps[2].step, SOLSEND_STEP_BUSY_POLL);
    assert_true(step_is_whole(&steps[2]));
    assert_true(steps[2].code == 0 ? steps[2].got == 50
                                   : steps[2].code == SOLSEND_ERR_PRIVILEGE ||
                                         steps[2].code == SOLSEND_ERR_NOT_SUPPORTED);
    assert_int_equal(steps[3].step, SOLSEND_STEP_PRIORITY);
    assert_int_equal(steps[3].code, 0);
    assert_int_equal(steps[3].got, 6);
    int priority = 0;
    socklen_t length = sizeof priority;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, &length), 0);
    assert_int_equal(priority, 6);

    struct host_socket_wishes one = {.priority = 5};
    assert_int_equal(host_socket_tune(fd, &one, steps, 3), 3);
    assert_int_equal(steps[2].step, SOLSEND_STEP_PRIORITY);
    assert_int_equal(host_socket_tune(fd, &one, steps, 1), 1);
    assert_int_equal(host_socket_tune(fd, &one, NULL, 0), 0);
    close(fd);
}

static int body_priority_seven(void)
{
    if (child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.priority = 7};
    solsend_step steps[3];
    CHILD_CHECK(host_socket_tune(fd, &wishes, steps, 3) == 3);
    CHILD_CHECK(steps[2].code == SOLSEND_ERR_PRIVILEGE && steps[2].got == 0);
    CHILD_CHECK(step_is_whole(&steps[2]) && strstr(steps[2].why, "CAP_NET_ADMIN") != NULL);
    return CHILD_OK;
}

static void a_privileged_priority_is_explained(void **state)
{
    (void)state;
    EXPECT_CHILD(body_priority_seven);
}

static int body_forbidden_option(void)
{
    if (child_fake_call(SYS_setsockopt, 2, SO_BUSY_POLL, ENOPROTOOPT) != 0 ||
        child_fake_call(SYS_setsockopt, 2, SO_SNDBUF, ENOPROTOOPT) != 0) {
        CHILD_SKIP("no seccomp");
    }
    int fd = udp_socket();
    struct host_socket_wishes wishes = {.send_buffer_bytes = 4096, .busy_poll_us = 20};
    solsend_step steps[3];
    CHILD_CHECK(host_socket_tune(fd, &wishes, steps, 3) == 3);
    CHILD_CHECK(steps[0].code == SOLSEND_ERR_NOT_SUPPORTED && step_is_whole(&steps[0]));
    CHILD_CHECK(steps[2].code == SOLSEND_ERR_NOT_SUPPORTED && step_is_whole(&steps[2]));
    CHILD_CHECK(strstr(steps[2].why, "ENOPROTOOPT") != NULL && steps[2].got == 0);
    return CHILD_OK;
}

static void an_option_the_kernel_lacks_is_explained(void **state)
{
    (void)state;
    EXPECT_CHILD(body_forbidden_option);
}

static void a_closed_socket_is_no_crash(void **state)
{
    (void)state;
    struct host_socket_wishes wishes = {4096, 4096, 1, 1};
    solsend_step steps[HOST_SOCKET_STEPS_MAX];
    assert_int_equal(host_socket_tune(-1, &wishes, steps, HOST_SOCKET_STEPS_MAX), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(steps[i].code, SOLSEND_ERR_NOT_SUPPORTED);
        assert_true(step_is_whole(&steps[i]));
    }
}

static void transmit_stamps_are_proven_by_sending(void **state)
{
    (void)state;
    static const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++) {
        solsend_step step;
        int code = host_socket_probe_stamps(families[i], &step);
        assert_int_equal(code, step.code);
        assert_int_equal(step.step, SOLSEND_STEP_TX_STAMPS);
        assert_true(step_is_whole(&step));
        assert_int_equal(step.wanted, 2);
        assert_int_equal(step.got == 2, code == 0);
    }
}

/* Some drivers and sandboxes take the option and deliver nothing. */
static int body_silent_kernel(void)
{
    if (child_fake_call(SYS_setsockopt, 2, SO_TIMESTAMPING, 0) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(host_socket_probe_stamps(AF_INET, &step) == SOLSEND_ERR_NOT_SUPPORTED);
    CHILD_CHECK(step.got == 0 && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "accepted, but after a send over loopback none") != NULL);
    return CHILD_OK;
}

static void stamps_that_never_come_are_unavailable(void **state)
{
    (void)state;
    EXPECT_CHILD(body_silent_kernel);
}

static int body_refusing_kernel(void)
{
    if (child_fake_call(SYS_setsockopt, 2, SO_TIMESTAMPING, EINVAL) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    CHILD_CHECK(host_socket_probe_stamps(AF_INET, &step) == SOLSEND_ERR_NOT_SUPPORTED);
    CHILD_CHECK(step_is_whole(&step) && strstr(step.why, "SO_TIMESTAMPING: EINVAL") != NULL);
    return CHILD_OK;
}

static void stamps_that_are_refused_are_unavailable(void **state)
{
    (void)state;
    EXPECT_CHILD(body_refusing_kernel);
}

static void an_unknown_family_is_an_answer(void **state)
{
    (void)state;
    solsend_step step;
    assert_int_equal(host_socket_probe_stamps(AF_UNSPEC, &step), SOLSEND_ERR_NOT_SUPPORTED);
    assert_true(step_is_whole(&step));
    assert_int_equal(host_socket_probe_stamps(AF_UNSPEC, NULL), SOLSEND_ERR_NOT_SUPPORTED);
}

static void half_of_the_stamps_is_less_than_wanted(void **state)
{
    (void)state;
    solsend_step step;
    assert_int_equal(host_stamps_probe_fill(&step, HOST_STAMPS_SCHED), SOLSEND_ERR_CLAMPED);
    assert_int_equal(step.got, 1);
    assert_non_null(strstr(step.why, "SOFTWARE stamp"));
    assert_true(step_is_whole(&step));
    assert_int_equal(host_stamps_probe_fill(&step, HOST_STAMPS_SOFTWARE), SOLSEND_ERR_CLAMPED);
    assert_non_null(strstr(step.why, "SCHED stamp"));
    assert_int_equal(host_stamps_probe_fill(&step, HOST_STAMPS_SCHED | HOST_STAMPS_SOFTWARE), 0);
    assert_true(step_is_whole(&step));
}

/* An error queue left full would make every poll of the socket return at once. */
static void other_errors_are_no_stamps_and_are_drained(void **state)
{
    (void)state;
    int fd = udp_socket();
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int gone = udp_socket();
    assert_int_equal(bind(gone, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(gone, (struct sockaddr *)&address, &length), 0);
    close(gone); /* nothing listens there now: the kernel answers with an ICMP error */
    assert_int_equal(setsockopt(fd, SOL_IP, IP_RECVERR, &on, sizeof on), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    struct pollfd errors = {.fd = fd};
    assert_int_equal(poll(&errors, 1, 2000), 1);
    assert_true((errors.revents & POLLERR) != 0);
    assert_int_equal(host_stamps_probe_collect(fd, 1000000), 0);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_buffer_is_granted),
        cmocka_unit_test(nothing_wished_is_nothing_touched),
        cmocka_unit_test(a_clamped_buffer_is_read_back_and_told),
        cmocka_unit_test(with_the_capability_the_clamp_is_lifted),
        cmocka_unit_test(more_than_an_int_is_clamped),
        cmocka_unit_test(priority_and_busy_poll_only_when_wished),
        cmocka_unit_test(a_privileged_priority_is_explained),
        cmocka_unit_test(an_option_the_kernel_lacks_is_explained),
        cmocka_unit_test(a_closed_socket_is_no_crash),
        cmocka_unit_test(transmit_stamps_are_proven_by_sending),
        cmocka_unit_test(stamps_that_never_come_are_unavailable),
        cmocka_unit_test(stamps_that_are_refused_are_unavailable),
        cmocka_unit_test(an_unknown_family_is_an_answer),
        cmocka_unit_test(half_of_the_stamps_is_less_than_wanted),
        cmocka_unit_test(other_errors_are_no_stamps_and_are_drained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
