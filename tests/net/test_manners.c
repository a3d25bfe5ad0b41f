/* What the library must not do to the program it lives in. */
#include "bed.h"

#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t pipes, alarms;

static void count_signal(int number)
{
    if (number == SIGPIPE) {
        pipes++;
    } else {
        alarms++;
    }
}

/* Two leaders at a time; large, so not on the stack. */
static struct bed udp, quic;

static void send_and_flush(struct bed *bed, int count)
{
    for (int i = 0; i < count; i++) {
        assert_in_range(bed_send(bed, 250, 0, 0), 0, 1);
    }
    assert_int_equal(solsend_link_flush(bed->link, 5000), 0);
    bed_drain(bed);
}

/* Everything of a process that a library could change behind its back. */
typedef struct host_state {
    struct {
        void (*handler)(int);
        uint64_t mask;
        int64_t flags;
    } actions[NSIG];
    uint64_t blocked, pending;
    struct rlimit limits[RLIM_NLIMITS];
    char locale[256], directory[4096];
    cpu_set_t cpus;
    mode_t umask;
    int rounding, policy, nice, timer_slack, thp, dumpable, descriptors, threads;
} host_state;

static int count_entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

/* The signals of a set as bits: what lies behind them in a sigset_t is not filled by the kernel. */
static uint64_t members(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int i = 1; i < NSIG; i++) {
        bits |= sigismember(set, i) == 1 ? UINT64_C(1) << (i - 1) : 0;
    }
    return bits;
}

static void take(host_state *state)
{
    memset(state, 0, sizeof *state);
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0) {
            state->actions[i].handler = action.sa_handler;
            state->actions[i].mask = members(&action.sa_mask);
            state->actions[i].flags = action.sa_flags;
        }
    }
    sigset_t set;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &set), 0);
    state->blocked = members(&set);
    assert_int_equal(sigpending(&set), 0);
    state->pending = members(&set);
    for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
        assert_int_equal(getrlimit((__rlimit_resource_t)i, &state->limits[i]), 0);
    }
    snprintf(state->locale, sizeof state->locale, "%s", setlocale(LC_ALL, NULL));
    assert_non_null(getcwd(state->directory, sizeof state->directory));
    assert_int_equal(sched_getaffinity(0, sizeof state->cpus, &state->cpus), 0);
    state->umask = umask(0);
    umask(state->umask);
    state->rounding = fegetround();
    state->policy = sched_getscheduler(0);
    state->nice = getpriority(PRIO_PROCESS, 0);
    state->timer_slack = prctl(PR_GET_TIMERSLACK);
    state->thp = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    state->dumpable = prctl(PR_GET_DUMPABLE);
    state->descriptors = count_entries("/proc/self/fd");
    state->threads = count_entries("/proc/self/task");
}

static void assert_same(const host_state *before, const host_state *after)
{
    for (int i = 1; i < NSIG; i++) {
        if (memcmp(&before->actions[i], &after->actions[i], sizeof before->actions[i]) != 0) {
            fail_msg("the handler of signal %d was changed", i);
        }
    }
    assert_int_equal(before->blocked, after->blocked);
    assert_int_equal(before->pending, after->pending);
    assert_memory_equal(before->limits, after->limits, sizeof before->limits);
    assert_string_equal(before->locale, after->locale);
    assert_string_equal(before->directory, after->directory);
    assert_memory_equal(&before->cpus, &after->cpus, sizeof before->cpus);
    assert_int_equal(before->umask, after->umask);
    assert_int_equal(before->rounding, after->rounding);
    assert_int_equal(before->policy, after->policy);
    assert_int_equal(before->nice, after->nice);
    assert_int_equal(before->timer_slack, after->timer_slack);
    assert_int_equal(before->thp, after->thp);
    assert_int_equal(before->dumpable, after->dumpable);
    assert_int_equal(before->threads, after->threads);
}

static void links_and_shadows_leave_the_process_as_it_was(void **state)
{
    static host_state before, during, after;
    solsend_shadow *shadow = NULL;
    struct sigaction own = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigset_t usr1, old;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigemptyset(&own.sa_mask);
    sigaddset(&own.sa_mask, SIGTERM);
    bed_open(&udp, "udp", NULL);
    bed_open(&quic, "agave-4.0", NULL);
    assert_int_equal(sigaction(SIGPIPE, &own, NULL), 0);
    assert_int_equal(sigaction(SIGUSR2, &own, NULL), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &usr1, &old), 0);
    setlocale(LC_ALL, "C.UTF-8");

    /* once for what the libraries below open and keep: the random device and the like */
    bed_admit(&quic);
    assert_int_equal(solsend_link_close(quic.link, 200), 0);
    take(&before);

    assert_int_equal(solsend_shadow_open(&shadow, NULL, NULL), 0);
    assert_int_equal(solsend_shadow_touch(shadow), 0);
    udp.options.shadow = quic.options.shadow = shadow;
    bed_admit(&udp);
    bed_admit(&quic);
    send_and_flush(&udp, 20);
    send_and_flush(&quic, 20);
    take(&during);
    assert_same(&before, &during);
    assert_true(during.descriptors > before.descriptors);

    assert_int_equal(solsend_link_close(udp.link, 200), 0);
    assert_int_equal(solsend_link_close(quic.link, 200), 0);
    udp.link = quic.link = NULL;
    solsend_shadow_close(shadow);
    take(&after);
    assert_same(&before, &after);
    assert_int_equal(after.descriptors, before.descriptors);

    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    bed_close(&udp);
    bed_close(&quic);
}

static void nothing_is_printed_and_no_signal_is_raised(void **state)
{
    struct sigaction own = {.sa_handler = count_signal};
    FILE *caught = tmpfile();
    assert_non_null(caught);
    assert_int_equal(sigaction(SIGPIPE, &own, NULL), 0);
    bed_open(&quic, "agave-4.0", NULL);
    quic.options.identity = NULL; /* ephemeral: worth a warning, which has nowhere to go */
    pipes = 0;
    fflush(NULL);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(fileno(caught), STDOUT_FILENO);
    dup2(fileno(caught), STDERR_FILENO);

    solsend_link *link = NULL, *none = NULL;
    int opened = solsend_link_open(&link, quic.uri, &quic.options, NULL);
    int admitted = solsend_link_wait_admitted(link, 5000);
    mock_close(quic.leader); /* the peer goes away with work open */
    quic.leader = NULL;
    uint8_t wire[250];
    bed_transaction(&quic, wire, sizeof wire);
    solsend_send send;
    solsend_send_init(&send, sizeof send);
    send.wire = wire;
    send.wire_bytes = sizeof wire;
    for (int i = 0; i < 50; i++) {
        solsend_link_send(link, &send, NULL);
        solsend_link_poll(link);
    }
    solsend_link_close(link, 20);
    int refused = solsend_link_open(&none, "quic//", &quic.options, NULL);

    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    assert_int_equal(opened, 0);
    assert_int_equal(admitted, 0);
    assert_int_equal(refused, SOLSEND_ERR_BAD_URI);
    assert_int_equal(lseek(fileno(caught), 0, SEEK_END), 0);
    assert_int_equal(pipes, 0);
    fclose(caught);
    bed_close(&quic);
}

static void a_signal_in_a_wait_does_not_end_it(void **state)
{
    struct sigaction own = {.sa_handler = count_signal}; /* no SA_RESTART: calls give EINTR */
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigset_t alarm_only, old;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    assert_int_equal(sigaction(SIGALRM, &own, NULL), 0);
    /* the leader's thread keeps it blocked, so that every signal hits the library */
    assert_int_equal(sigprocmask(SIG_BLOCK, &alarm_only, &old), 0);
    bed_open(&quic, "agave-4.3", "rtt_ms=20");
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    alarms = 0;
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    bed_admit(&quic);
    send_and_flush(&quic, 30);
    int aborted = solsend_link_close(quic.link, 1000);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    quic.link = NULL;
    assert_int_equal(aborted, 0);
    assert_true(alarms > 0);
    assert_int_equal(bed_counts(&quic).accepted, 30);
    bed_close(&quic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_shadows_leave_the_process_as_it_was),
        cmocka_unit_test(nothing_is_printed_and_no_signal_is_raised),
        cmocka_unit_test(a_signal_in_a_wait_does_not_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
