#include "mock/mock.h"

#include "mock/netem.h"
#include "mock/report.h"
#include "mock/script.h"
#include "mock/server.h"
#include "mock/stakes.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH          32u
#define DATAGRAM_BYTES 4608u /* a version 1 transaction, or any QUIC packet, and some more */
#define SOCKET_BUFFER  (16 << 20)
#define NAP_NS         20000  /* while a visitor has the lock */
#define WAIT_NAP_NS    100000 /* mock_wait_accepted */
#define SLEEP_MAX_NS   UINT64_C(3600000000000)
#define TIMER_SLACK_NS 1000UL /* 50 us by default: too coarse for emulated delays */

struct mock {
    struct server server;
    struct tally tally;
    struct credentials credentials;
    struct netem netem;
    struct script script;
    struct fault fault;
    const struct profile *profile;
    struct sockname bound;
    struct sockname newest_peer;
    int fd, wake_fd;
    int cpu, spin;
    int muted; /* nothing leaves: mock_feed */
    uint64_t started_ns;
    /* The thread holds `lock` while it works; who wants in counts himself a visitor first. */
    pthread_mutex_t lock;
    pthread_t thread;
    int is_running;
    _Atomic int visitors;
    _Atomic uint64_t socket_drops_forgotten;
    _Atomic int stopping;
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
    struct sockname peers[BATCH];
    uint8_t buffers[BATCH][DATAGRAM_BYTES];
};

/* ---- sending ----------------------------------------------------------------------------------
 */

static void transmit(struct mock *m, const struct sockname *to, const uint8_t *data, size_t bytes)
{
    /* A datagram the kernel does not take is lost, as on any wire. */
    (void)sendto(m->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, &to->any, to->bytes);
}

static void send_out(void *context, const struct sockname *to, const uint8_t *data, size_t bytes)
{
    struct mock *m = context;
    if (m->muted) {
        return;
    }
    switch (netem_offer(&m->netem, &m->fault, NETEM_OUT, to, data, bytes, clock_now())) {
    case NETEM_PASS:
        transmit(m, to, data, bytes);
        break;
    case NETEM_DROPPED:
        TALLY_ADD(&m->tally, dropped_out, 1);
        break;
    default:
        break;
    }
}

/* ---- receiving --------------------------------------------------------------------------------
 */

static void deliver(struct mock *m, const struct sockname *from, const uint8_t *data, size_t bytes,
                    uint64_t received_ns)
{
    if (m->profile->quic) {
        server_datagram(&m->server, from, data, bytes, received_ns, received_ns);
    } else if (m->fault.discard) {
        TALLY_ADD(&m->tally, discarded, 1);
    } else {
        (void)tally_accept(&m->tally, data, bytes, 1, received_ns, clock_now());
    }
}

static void arrive(struct mock *m, const struct sockname *from, const uint8_t *data, size_t bytes,
                   uint64_t received_ns)
{
    TALLY_ADD(&m->tally, datagrams, 1);
    TALLY_ADD(&m->tally, bytes, bytes);
    if (bytes > TALLY_GET(&m->tally, max_datagram)) {
        TALLY_ADD(&m->tally, max_datagram, bytes - TALLY_GET(&m->tally, max_datagram));
    }
    m->newest_peer = *from;
    switch (netem_offer(&m->netem, &m->fault, NETEM_IN, from, data, bytes, received_ns)) {
    case NETEM_PASS:
        deliver(m, from, data, bytes, received_ns);
        break;
    case NETEM_DROPPED:
        TALLY_ADD(&m->tally, dropped_in, 1);
        break;
    default:
        break;
    }
}

static int receive(struct mock *m)
{
    for (unsigned int i = 0; i < BATCH; i++) {
        m->messages[i].msg_hdr.msg_namelen = sizeof m->peers[i].v6;
    }
    int n = recvmmsg(m->fd, m->messages, BATCH, MSG_DONTWAIT, NULL);
    uint64_t received_ns = clock_now();
    for (int i = 0; i < n; i++) {
        m->peers[i].bytes = m->messages[i].msg_hdr.msg_namelen;
        if ((m->messages[i].msg_hdr.msg_flags & MSG_TRUNC) == 0) {
            arrive(m, &m->peers[i], m->buffers[i], m->messages[i].msg_len, received_ns);
        }
    }
    return n > 0 ? n : 0;
}

/* Both queues of the emulated way. */
static void run_netem(struct mock *m, uint64_t now_ns)
{
    struct netem_packet *packet;
    while ((packet = netem_take(&m->netem, NETEM_IN, now_ns)) != NULL) {
        deliver(m, &packet->peer, packet->data, packet->bytes, now_ns);
        free(packet);
    }
    while ((packet = netem_take(&m->netem, NETEM_OUT, now_ns)) != NULL) {
        if (!m->muted) {
            transmit(m, &packet->peer, packet->data, packet->bytes);
        }
        free(packet);
    }
}

static void run_due(struct mock *m)
{
    uint64_t now = clock_now();
    if (script_next(&m->script) <= now - m->started_ns) {
        script_run(&m->script, &m->fault, now - m->started_ns);
        server_fault_changed(&m->server, now);
    }
    if (netem_next(&m->netem) <= now) {
        run_netem(m, now);
    }
    if (m->profile->quic && server_next(&m->server) <= now) {
        server_run(&m->server, now);
    }
}

/* ---- the thread -------------------------------------------------------------------------------
 */

static uint64_t next_due(const struct mock *m)
{
    uint64_t due = m->profile->quic ? server_next(&m->server) : UINT64_MAX;
    uint64_t held = netem_next(&m->netem);
    uint64_t step = script_next(&m->script);
    step = step == UINT64_MAX ? step : step + m->started_ns;
    due = held < due ? held : due;
    return step < due ? step : due;
}

static void sleep_until_work(struct mock *m)
{
    struct pollfd fds[2] = {{m->fd, POLLIN, 0}, {m->wake_fd, POLLIN, 0}};
    uint64_t due = next_due(m);
    uint64_t now = clock_now();
    uint64_t left = due <= now ? 0 : due - now;
    left = left > SLEEP_MAX_NS ? SLEEP_MAX_NS : left;
    struct timespec timeout = {(time_t)(left / CLOCK_NS_PER_S), (long)(left % CLOCK_NS_PER_S)};
    pthread_mutex_unlock(&m->lock);
    (void)ppoll(fds, 2, &timeout, NULL);
    if (fds[1].revents != 0) {
        eventfd_t ignored;
        (void)eventfd_read(m->wake_fd, &ignored);
    }
    pthread_mutex_lock(&m->lock);
}

static void let_visitors_in(struct mock *m)
{
    const struct timespec nap = {0, NAP_NS};
    pthread_mutex_unlock(&m->lock);
    while (atomic_load(&m->visitors) > 0) {
        nanosleep(&nap, NULL);
    }
    pthread_mutex_lock(&m->lock);
}

static void *run(void *argument)
{
    struct mock *m = argument;
    prctl(PR_SET_NAME, "solsend-mock");
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    pthread_mutex_lock(&m->lock);
    while (!atomic_load_explicit(&m->stopping, memory_order_relaxed)) {
        if (atomic_load_explicit(&m->visitors, memory_order_relaxed) > 0) {
            let_visitors_in(m);
        }
        int worked = receive(m);
        run_due(m);
        if (worked == 0 && !m->spin) {
            sleep_until_work(m);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static void wake(const struct mock *m)
{
    (void)eventfd_write(m->wake_fd, 1);
}

static struct mock *enter(const mock *m)
{
    /* The lock is not part of what the caller sees as constant. */
    struct mock *inside = (struct mock *)(uintptr_t)m;
    atomic_fetch_add(&inside->visitors, 1);
    wake(inside);
    pthread_mutex_lock(&inside->lock);
    return inside;
}

static void leave(struct mock *m)
{
    pthread_mutex_unlock(&m->lock);
    atomic_fetch_sub(&m->visitors, 1);
}

static int pin(pthread_t thread, int cpu)
{
    size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
    cpu_set_t *set = CPU_ALLOC(cpu + 1);
    if (set == NULL) {
        return -1;
    }
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(cpu, bytes, set);
    int rc = pthread_setaffinity_np(thread, bytes, set);
    CPU_FREE(set);
    return rc == 0 ? 0 : -1;
}

int mock_start(mock *m)
{
    sigset_t all, before;
    if (m->is_running) {
        return -1;
    }
    m->started_ns = clock_now();
    m->script.done = 0;
    m->muted = 0;
    atomic_store(&m->stopping, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&m->thread, NULL, run, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return -1;
    }
    m->is_running = 1;
    if (m->cpu >= 0 && pin(m->thread, m->cpu) != 0) {
        mock_stop(m);
        return -1;
    }
    return 0;
}

void mock_stop(mock *m)
{
    if (m->is_running) {
        atomic_store(&m->stopping, 1);
        wake(m);
        pthread_join(m->thread, NULL);
        m->is_running = 0;
    }
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static int fail(char *why, size_t why_bytes, const char *what, const char *detail)
{
    snprintf(why, why_bytes, "%s: %s", what, detail);
    return -1;
}

static int bind_socket(struct mock *m, const char *listen, char *why, size_t why_bytes)
{
    int size = SOCKET_BUFFER;
    if (sockname_parse(&m->bound, listen) != 0) {
        return fail(why, why_bytes, listen, "an address is 127.0.0.1:PORT or [::1]:PORT");
    }
    m->fd = socket(m->bound.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->fd < 0) {
        return fail(why, why_bytes, "socket", strerror(errno));
    }
    for (int name = SO_SNDBUF; name <= SO_RCVBUF; name += SO_RCVBUF - SO_SNDBUF) {
        int forced = name == SO_RCVBUF ? SO_RCVBUFFORCE : SO_SNDBUFFORCE;
        if (setsockopt(m->fd, SOL_SOCKET, forced, &size, sizeof size) != 0) {
            (void)setsockopt(m->fd, SOL_SOCKET, name, &size, sizeof size);
        }
    }
    socklen_t length = sizeof m->bound.v6;
    if (bind(m->fd, &m->bound.any, m->bound.bytes) != 0 ||
        getsockname(m->fd, &m->bound.any, &length) != 0) {
        return fail(why, why_bytes, listen, strerror(errno));
    }
    return 0;
}

static void prepare_batch(struct mock *m)
{
    for (unsigned int i = 0; i < BATCH; i++) {
        m->vectors[i] = (struct iovec){m->buffers[i], DATAGRAM_BYTES};
        m->messages[i].msg_hdr.msg_name = &m->peers[i].any;
        m->messages[i].msg_hdr.msg_iov = &m->vectors[i];
        m->messages[i].msg_hdr.msg_iovlen = 1;
    }
}

static int open_server(struct mock *m, const mock_config *config, char *why, size_t why_bytes)
{
    m->server.profile = m->profile;
    m->server.fault = &m->fault;
    m->server.tally = &m->tally;
    m->server.credentials = &m->credentials;
    m->server.local = m->bound;
    m->server.send = send_out;
    m->server.context = m;
    if (server_open(&m->server, config->seed) != 0) {
        return fail(why, why_bytes, "server", "out of memory");
    }
    if (config->stakes != NULL) {
        return stakes_read(&m->server.admission, config->stakes, why, why_bytes);
    }
    return 0;
}

static int open_all(struct mock *m, const mock_config *config, char *why, size_t why_bytes)
{
    m->profile = config->profile == NULL ? NULL : profile_find(config->profile);
    if (m->profile == NULL) {
        return fail(why, why_bytes, "profile is one of", profile_names());
    }
    fault_init(&m->fault);
    if ((config->faults != NULL && fault_parse(&m->fault, config->faults, why, why_bytes) != 0) ||
        script_open(&m->script, config->script, why, why_bytes) != 0) {
        return -1;
    }
    netem_open(&m->netem, config->seed);
    if (tally_open(&m->tally, config->arrivals_max) != 0) {
        return fail(why, why_bytes, "arrivals_max", "out of memory");
    }
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->wake_fd < 0) {
        return fail(why, why_bytes, "eventfd", strerror(errno));
    }
    prepare_batch(m);
    /* Also on UDP: everybody has an identity. */
    if (credentials_open(&m->credentials, m->profile->quic ? m->profile : profile_find("agave-4.3"),
                         config->seed, why, why_bytes) != 0 ||
        bind_socket(m, config->listen == NULL ? "127.0.0.1:0" : config->listen, why, why_bytes) !=
            0) {
        return -1;
    }
    return open_server(m, config, why, why_bytes);
}

int mock_open(mock **out, const mock_config *config, char *why, size_t why_bytes)
{
    struct mock *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL) {
        return fail(why, why_bytes, "mock", "out of memory");
    }
    m->fd = m->wake_fd = -1;
    m->cpu = config->cpu;
    m->spin = config->spin;
    m->started_ns = clock_now();
    pthread_mutex_init(&m->lock, NULL);
    if (open_all(m, config, why, why_bytes) != 0) {
        mock_close(m);
        return -1;
    }
    *out = m;
    return 0;
}

void mock_close(mock *m)
{
    if (m == NULL) {
        return;
    }
    mock_stop(m);
    m->muted = 1;
    server_close(&m->server);
    credentials_close(&m->credentials);
    netem_close(&m->netem);
    script_close(&m->script);
    tally_close(&m->tally);
    if (m->fd >= 0) {
        close(m->fd);
    }
    if (m->wake_fd >= 0) {
        close(m->wake_fd);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* ---- what others ask --------------------------------------------------------------------------
 */

uint16_t mock_port(const mock *m)
{
    return sockname_port(&m->bound);
}

void mock_uri(const mock *m, char *out, size_t out_bytes)
{
    char address[SOCKNAME_TEXT_BYTES];
    sockname_format(&m->bound, address, sizeof address);
    snprintf(out, out_bytes, "%s://%s", m->profile->quic ? "quic" : "udp", address);
}

void mock_identity(const mock *m, uint8_t out[32])
{
    memcpy(out, m->credentials.identity, 32);
}

int mock_fault(mock *m, const char *faults, char *why, size_t why_bytes)
{
    enter(m);
    int rc = fault_parse(&m->fault, faults, why, why_bytes);
    if (rc == 0) {
        server_fault_changed(&m->server, clock_now());
    }
    leave(m);
    return rc;
}

void mock_stake(mock *m, const uint8_t public_key[32], uint64_t lamports)
{
    enter(m);
    (void)admission_stake(&m->server.admission, public_key, lamports);
    leave(m);
}

/* Since open. */
static uint64_t socket_drops(const mock *m)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof info;
    (void)getsockopt(m->fd, SOL_SOCKET, SO_MEMINFO, info, &bytes);
    return info[SK_MEMINFO_DROPS];
}

void mock_counts_get(const mock *m, mock_counts *out)
{
    tally_counts(&m->tally, out);
    out->socket_drops = socket_drops(m) - atomic_load(&m->socket_drops_forgotten);
}

uint64_t mock_wait_accepted(const mock *m, uint64_t count, uint32_t timeout_ms)
{
    const struct timespec nap = {0, WAIT_NAP_NS};
    uint64_t end = clock_now() + timeout_ms * CLOCK_NS_PER_MS;
    while (TALLY_GET(&m->tally, accepted) < count && clock_now() < end) {
        nanosleep(&nap, NULL);
    }
    return TALLY_GET(&m->tally, accepted);
}

size_t mock_arrivals(const mock *m, const mock_arrival **out)
{
    *out = m->tally.arrivals;
    return atomic_load_explicit(&m->tally.arrivals_count, memory_order_acquire);
}

void mock_forget(mock *m)
{
    enter(m);
    tally_forget(&m->tally);
    atomic_store(&m->socket_drops_forgotten, socket_drops(m));
    leave(m);
}

int mock_saw(const mock *m, const uint8_t signature[64])
{
    return tally_saw(&m->tally, signature);
}

void mock_last_peer(const mock *m, char *out, size_t out_bytes)
{
    struct mock *inside = enter(m);
    sockname_format(&inside->newest_peer, out, out_bytes);
    leave(inside);
}

size_t mock_hello(const mock *m, uint8_t *out, size_t max)
{
    struct mock *inside = enter(m);
    size_t bytes = inside->server.hello_bytes;
    memcpy(out, inside->server.hello, bytes < max ? bytes : max);
    leave(inside);
    return bytes;
}

void mock_feed(mock *m, const uint8_t *data, size_t bytes)
{
    struct sockname from;
    (void)sockname_parse(&from, "127.0.0.1:9");
    m->muted = 1;
    arrive(m, &from, data, bytes, clock_now());
    run_due(m);
}

void mock_report(const mock *m, FILE *out)
{
    char uri[SOCKNAME_TEXT_BYTES + 8];
    struct mock *inside = enter(m);
    struct report report = {
        .profile = inside->profile,
        .server = inside->profile->quic ? &inside->server : NULL,
        .identity = inside->credentials.identity,
        .uri = uri,
        .age_ns = clock_now() - inside->started_ns,
    };
    mock_uri(inside, uri, sizeof uri);
    mock_counts_get(inside, &report.counts);
    report_write(&report, out);
    leave(inside);
}
