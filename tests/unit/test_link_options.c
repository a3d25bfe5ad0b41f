/* Options, their sizes and ranges, and what the host gives a link that is opened with them. */
#include "check.h"

#include <stdlib.h>

#include <solsend/solsend.h>

#include "child.h"
#include "network.h"
#include "udp_peer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

static struct udp_peer peer;
static solsend_link *link_;
static solsend_link_options options;
static solsend_detail detail;

static int set_up(void **state)
{
    (void)state;
    link_ = NULL;
    solsend_link_options_init(&options, sizeof options);
    return udp_peer_open(&peer, "127.0.0.1");
}

static int tear_down(void **state)
{
    (void)state;
    solsend_link_close(link_, 0);
    udp_peer_close(&peer);
    return 0;
}

static int open_with(const char *scheme, const void *o)
{
    solsend_link_close(link_, 0);
    memset(&detail, 0, sizeof detail);
    link_ = (solsend_link *)&detail;
    return solsend_link_open(&link_, udp_peer_uri(&peer, scheme), o, &detail);
}

static void refused(int rc, int code, const char *named)
{
    if (rc != code || detail.code != code || strstr(detail.text, named) == NULL) {
        fail_msg("%s \"%s\", expected %s naming \"%s\"", solsend_error_name(rc), detail.text,
                 solsend_error_name(code), named);
    }
    assert_null(link_);
}

static void send_works(void)
{
    uint8_t wire[200] = {1}, data[2048];
    while (udp_peer_take(&peer, data, sizeof data) >= 0) {
    }
    solsend_send s;
    solsend_send_init(&s, sizeof s);
    s.wire = wire;
    s.wire_bytes = sizeof wire;
    assert_int_equal(solsend_link_send(link_, &s, NULL), 1);
    assert_int_equal(udp_peer_take(&peer, data, sizeof data), sizeof wire);
}

/* ---- sizes ------------------------------------------------------------------------------------
 */

/* What every size-first init does; `known` is the size of the struct as the library knows it. */
static void init_follows_the_size(int (*init)(void *, uint32_t), uint32_t known)
{
    uint8_t whole[512], part[512];
    static const uint32_t wrong[] = {0, 1, 2, 3, 5, 4097, UINT32_MAX};
    uint32_t size;
    memset(whole, 0xcc, sizeof whole);
    assert_int_equal(init(whole, known), 0);
    memcpy(&size, whole, sizeof size);
    assert_int_equal(size, known);
    assert_int_equal(whole[known], 0xcc);
    for (uint32_t bytes = 4; bytes <= known + 16; bytes += 4) { /* older and newer callers */
        memset(part, 0xcc, sizeof part);
        assert_int_equal(init(part, bytes), 0);
        memcpy(&size, part, sizeof size);
        assert_int_equal(size, bytes);
        uint32_t same = bytes < known ? bytes : known;
        assert_memory_equal(part + 4, whole + 4, same - 4);
        for (uint32_t i = known; i < bytes; i++) {
            assert_int_equal(part[i], 0);
        }
        assert_int_equal(part[bytes], 0xcc);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memset(part, 0xcc, sizeof part);
        assert_int_equal(init(part, wrong[i]), SOLSEND_ERR_BAD_SIZE);
        assert_int_equal(part[0], 0xcc);
    }
    assert_int_equal(init(NULL, known), SOLSEND_ERR_BAD_SIZE);
}

static int init_link(void *o, uint32_t size)
{
    return solsend_link_options_init(o, size);
}

static int init_send(void *o, uint32_t size)
{
    return solsend_send_init(o, size);
}

static int init_shadow(void *o, uint32_t size)
{
    return solsend_shadow_options_init(o, size);
}

static void inits_write_defaults_of_the_callers_size(void **state)
{
    (void)state;
    init_follows_the_size(init_link, sizeof(solsend_link_options));
    init_follows_the_size(init_send, sizeof(solsend_send));
    init_follows_the_size(init_shadow, sizeof(solsend_shadow_options));
}

static void defaults_are_the_documented_ones(void **state)
{
    (void)state;
    const solsend_link_options *o = &options;
    assert_int_equal(o->slots, 256);
    assert_null(o->identity);
    assert_null(o->shadow);
    assert_null(o->log);
    assert_null(o->bind);
    assert_null(o->expected_key);
    assert_int_equal(o->port_min + o->port_max, 0);
    assert_int_equal(o->certificate, SOLSEND_CERTIFICATE_IDENTITY);
    assert_int_equal(o->congestion, SOLSEND_CONGESTION_CUBIC);
    assert_int_equal(o->first_flight_bytes, 32768);
    assert_int_equal(o->payload_bytes_max, 1472);
    assert_int_equal(o->handshake_timeout_ms, 1000);
    assert_int_equal(o->known_rtt_us, 0);
    assert_int_equal(o->idle_timeout_ms, 30000);
    assert_int_equal(o->keep_alive, 1);
    assert_int_equal(o->keep_hot_us, 500);
    assert_int_equal(o->send_buffer_bytes, 4 << 20);
    assert_int_equal(o->receive_buffer_bytes, 4 << 20);
    assert_int_equal(o->busy_poll_us + o->socket_priority, 0);
    assert_int_equal(o->segment_bursts, 1);
    assert_int_equal(o->early_data + o->strict + o->stamp_every + o->huge_pages, 0);
    solsend_send s;
    solsend_send_init(&s, sizeof s);
    assert_true(s.deadline_ns == UINT64_MAX);
    assert_int_equal(s.user + s.priority + s.quiet + s.wire_bytes, 0);
    solsend_shadow_options sh;
    solsend_shadow_options_init(&sh, sizeof sh);
    assert_int_equal(sh.target, SOLSEND_SHADOW_LOOPBACK);
    assert_int_equal(sh.bytes, 1232);
    assert_null(sh.address);
}

static void open_reads_options_of_other_sizes(void **state)
{
    (void)state;
    struct {
        solsend_link_options known;
        uint32_t later[4];
    } newer;
    solsend_link_options_init(&newer.known, sizeof newer);
    assert_int_equal(open_with("udp", &newer), 0); /* unknown, but zero */
    send_works();
    newer.later[2] = 1;
    refused(open_with("udp", &newer), SOLSEND_ERR_UNKNOWN_OPTION, "solsend_link_options");
    assert_int_equal(detail.offset, sizeof newer.known + 8);

    options.size = offsetof(solsend_link_options, port_min); /* an older caller … */
    memset((uint8_t *)&options + options.size, 0xff, sizeof options - options.size);
    assert_int_equal(open_with("udp", &options), 0); /* … has nothing behind that size */
    send_works();
    static const uint32_t wrong[] = {0, 3, 7, 4100, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        solsend_link_options_init(&options, sizeof options);
        options.size = wrong[i];
        refused(open_with("udp", &options), SOLSEND_ERR_BAD_SIZE, "solsend_link_options.size");
    }
    assert_int_equal(open_with("udp", NULL), 0); /* null: the defaults */
    send_works();
}

static void sends_may_be_of_other_sizes(void **state)
{
    (void)state;
    struct newer_send {
        solsend_send known;
        uint32_t later[2];
    } newer[3];
    uint8_t wire[200] = {1}, data[2048];
    int32_t results[3];
    assert_int_equal(open_with("udp", NULL), 0);
    for (int i = 0; i < 3; i++) {
        memset(&newer[i], 0, sizeof newer[i]);
        solsend_send_init(&newer[i].known, sizeof newer[i]);
        newer[i].known.wire = wire;
        newer[i].known.wire_bytes = 100 + (uint32_t)i;
    }
    assert_int_equal(solsend_link_send(link_, &newer[0].known, NULL), 1);
    assert_int_equal(solsend_link_send_burst(link_, &newer[0].known, 3, NULL, results), 3);
    static const int expected[] = {100, 100, 101, 102};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(udp_peer_take(&peer, data, sizeof data), expected[i]);
    }
    newer[1].later[1] = 1;
    assert_int_equal(solsend_link_send(link_, &newer[1].known, NULL), SOLSEND_ERR_UNKNOWN_OPTION);
    assert_int_equal(solsend_link_send_burst(link_, &newer[0].known, 3, NULL, results), 2);
    assert_int_equal(results[1], SOLSEND_ERR_UNKNOWN_OPTION);
    newer[1].later[1] = 0;

    solsend_send s = newer[2].known;
    s.size = offsetof(solsend_send, user); /* an older caller */
    s.user = 7;
    s.quiet = 1;
    assert_int_equal(solsend_link_send(link_, &s, NULL), 1);
    solsend_event events[16];
    int n = solsend_link_drain(link_, events, 16);
    assert_int_equal(events[n - 1].kind, SOLSEND_EVENT_WRITTEN);
    assert_int_equal(events[n - 1].user, 0);
    static const uint32_t wrong[] = {0, 3, 7, 4100, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        s.size = wrong[i];
        assert_int_equal(solsend_link_send(link_, &s, NULL), SOLSEND_ERR_BAD_SIZE);
        assert_int_equal(solsend_link_send_burst(link_, &s, 1, NULL, NULL), SOLSEND_ERR_BAD_SIZE);
    }
    /* one array has elements of one size */
    solsend_send mixed[2] = {newer[0].known, newer[0].known};
    mixed[0].size = sizeof mixed[0];
    mixed[1].size = sizeof mixed[1] - 4;
    assert_int_equal(solsend_link_send_burst(link_, mixed, 2, NULL, results), 1);
    assert_int_equal(results[0], 1);
    assert_int_equal(results[1], SOLSEND_ERR_BAD_SIZE);
}

static void reports_follow_the_size(void **state)
{
    (void)state;
    struct {
        solsend_link_info known;
        uint32_t later[2];
    } info;
    struct {
        solsend_link_stats known;
        uint32_t later[2];
    } stats;
    assert_int_equal(open_with("udp", &options), 0);
    send_works();
    memset(&info, 0xcc, sizeof info);
    memset(&stats, 0xcc, sizeof stats);
    info.known.size = sizeof info;
    stats.known.size = sizeof stats;
    assert_int_equal(solsend_link_info_get(link_, &info.known), 0);
    assert_int_equal(solsend_link_stats_get(link_, &stats.known), 0);
    assert_int_equal(info.known.size, sizeof info);
    assert_int_equal(info.known.state, SOLSEND_LINK_ADMITTED);
    assert_int_equal(info.later[0] | info.later[1], 0);
    assert_int_equal(stats.known.written, 1);
    assert_int_equal(stats.later[0] | stats.later[1], 0);

    memset(&info, 0xcc, sizeof info);
    info.known.size = 8;
    assert_int_equal(solsend_link_info_get(link_, &info.known), 0);
    assert_int_equal(info.known.state, SOLSEND_LINK_ADMITTED);
    assert_int_equal(info.known.end_code, (int32_t)0xcccccccc); /* not a byte further */
    info.known.size = 0;
    assert_int_equal(solsend_link_info_get(link_, &info.known), SOLSEND_ERR_BAD_SIZE);
    stats.known.size = 6;
    assert_int_equal(solsend_link_stats_get(link_, &stats.known), SOLSEND_ERR_BAD_SIZE);
    solsend_summary summary;
    assert_int_equal(solsend_link_hop(link_, SOLSEND_HOP_COUNT, &summary), SOLSEND_ERR_USAGE);
    assert_int_equal(solsend_link_hop(link_, 0, NULL), SOLSEND_ERR_USAGE);
    for (uint32_t hop = 0; hop < SOLSEND_HOP_COUNT; hop++) {
        assert_string_not_equal(solsend_hop_name(hop), "?");
    }
    assert_string_equal(solsend_hop_name(SOLSEND_HOP_COUNT), "?");
}

static void every_event_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (uint32_t a = 0; a < 100; a++) {
        int of_transaction = a >= SOLSEND_EVENT_WRITTEN && a <= SOLSEND_EVENT_CANCELLED;
        int of_link = a >= SOLSEND_EVENT_LINK_CONNECTED && a <= SOLSEND_EVENT_LINK_KEY;
        assert_int_equal(strcmp(solsend_event_name(a), "?") != 0, of_transaction || of_link);
        assert_int_equal(solsend_event_is_terminal(a),
                         of_transaction && a != SOLSEND_EVENT_WRITTEN);
        for (uint32_t b = 0; b < a && (of_transaction || of_link); b++) {
            assert_string_not_equal(solsend_event_name(a), solsend_event_name(b));
        }
    }
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

#define MEMBER(name) #name, offsetof(solsend_link_options, name)

static void a_member_out_of_range_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        uint32_t value;
    } wrong[] = {
        {MEMBER(slots), 0},
        {MEMBER(slots), 65537},
        {MEMBER(port_min), 65536},
        {MEMBER(port_max), 65536},
        {MEMBER(certificate), 2},
        {MEMBER(congestion), 2},
        {MEMBER(first_flight_bytes), 2943},
        {MEMBER(first_flight_bytes), 65528},
        {MEMBER(payload_bytes_max), 1199},
        {MEMBER(payload_bytes_max), 1473},
        {MEMBER(handshake_timeout_ms), 0},
        {MEMBER(handshake_timeout_ms), 60001},
        {MEMBER(known_rtt_us), 10000001},
        {MEMBER(idle_timeout_ms), 600001},
        {MEMBER(keep_alive), 2},
        {MEMBER(keep_hot_us), 60000001},
        {MEMBER(send_buffer_bytes), 0x80000000},
        {MEMBER(receive_buffer_bytes), UINT32_MAX},
        {MEMBER(busy_poll_us), 1000001},
        {MEMBER(socket_priority), 8},
        {MEMBER(segment_bursts), 2},
        {MEMBER(early_data), 2},
        {MEMBER(strict), UINT32_MAX},
        {MEMBER(stamp_every), 1000001},
        {MEMBER(huge_pages), 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char value[16];
        solsend_link_options_init(&options, sizeof options);
        options.port_min = options.port_max = 5000; /* a range, so that a port is looked at */
        memcpy((uint8_t *)&options + wrong[i].at, &wrong[i].value, sizeof wrong[i].value);
        refused(open_with("udp", &options), SOLSEND_ERR_BAD_OPTION, wrong[i].name);
        snprintf(value, sizeof value, " %u,", wrong[i].value);
        assert_non_null(strstr(detail.text, value));
        refused(open_with("quic", &options), SOLSEND_ERR_BAD_OPTION, wrong[i].name);
    }
}

static void port_ranges_make_sense(void **state)
{
    (void)state;
    options.port_min = 5000;
    options.port_max = 4999;
    refused(open_with("udp", &options), SOLSEND_ERR_BAD_OPTION, "port_max");
    options.port_min = 0; /* 0 would be any port at all, outside of the range */
    options.port_max = 5000;
    refused(open_with("udp", &options), SOLSEND_ERR_BAD_OPTION, "port_min");
    options.port_min = 5000;
    options.port_max = 0;
    refused(open_with("udp", &options), SOLSEND_ERR_BAD_OPTION, "port_max");
}

static void the_ends_of_the_ranges_are_allowed(void **state)
{
    (void)state;
    options.slots = 1;
    options.first_flight_bytes = 65527;
    options.payload_bytes_max = 1200;
    options.handshake_timeout_ms = 60000;
    options.known_rtt_us = 10000000;
    options.idle_timeout_ms = 0;
    options.keep_alive = options.keep_hot_us = options.segment_bursts = 0;
    options.send_buffer_bytes = options.receive_buffer_bytes = 0;
    options.congestion = SOLSEND_CONGESTION_BBR;
    options.certificate = SOLSEND_CERTIFICATE_NONE;
    options.stamp_every = 1000000;
    assert_int_equal(open_with("udp", &options), 0);
    send_works();
    assert_int_equal(open_with("quic", &options), 0);
    options.slots = 65536;
    options.first_flight_bytes = 2944;
    options.idle_timeout_ms = 600000;
    options.socket_priority = 6;
    assert_int_equal(open_with("udp", &options), 0);
    send_works();
}

static void shadow_options_are_checked_like_a_links(void **state)
{
    (void)state;
    static const struct {
        const char *named;
        const char *address;
        uint32_t target;
        uint32_t bytes;
        int code;
    } wrong[] = {
        {"target", NULL, 3, 100, SOLSEND_ERR_BAD_OPTION},
        {"bytes", NULL, SOLSEND_SHADOW_LOOPBACK, 0, SOLSEND_ERR_BAD_OPTION},
        {"bytes", NULL, SOLSEND_SHADOW_LOOPBACK, 1233, SOLSEND_ERR_BAD_OPTION},
        {"address", "127.0.0.1:9", SOLSEND_SHADOW_LOOPBACK, 100, SOLSEND_ERR_BAD_OPTION},
        {"address", NULL, SOLSEND_SHADOW_SINK, 100, SOLSEND_ERR_BAD_OPTION},
        {"address", NULL, SOLSEND_SHADOW_TTL, 100, SOLSEND_ERR_BAD_OPTION},
        {"byte 9", "127.0.0.1", SOLSEND_SHADOW_SINK, 100, SOLSEND_ERR_BAD_URI},
        {"byte 10", "127.0.0.1:0", SOLSEND_SHADOW_SINK, 100, SOLSEND_ERR_BAD_URI},
        {"0.0.0.0:9", "0.0.0.0:9", SOLSEND_SHADOW_SINK, 100, SOLSEND_ERR_BAD_ADDRESS},
    };
    solsend_shadow *s = (solsend_shadow *)&peer;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        solsend_shadow_options o;
        solsend_shadow_options_init(&o, sizeof o);
        o.target = wrong[i].target;
        o.bytes = wrong[i].bytes;
        o.address = wrong[i].address;
        assert_int_equal(solsend_shadow_open(&s, &o, &detail), wrong[i].code);
        assert_null(s);
        assert_non_null(strstr(detail.text, wrong[i].named));
        o.size = 0;
        assert_int_equal(solsend_shadow_open(&s, &o, &detail), SOLSEND_ERR_BAD_SIZE);
    }
    struct {
        solsend_shadow_options known;
        uint32_t later[2];
    } newer;
    solsend_shadow_options_init(&newer.known, sizeof newer);
    newer.later[0] = 1;
    assert_int_equal(solsend_shadow_open(&s, &newer.known, &detail), SOLSEND_ERR_UNKNOWN_OPTION);
    assert_int_equal(solsend_shadow_open(NULL, NULL, &detail), SOLSEND_ERR_USAGE);
}

static void missing_arguments_and_bad_uris_are_told(void **state)
{
    (void)state;
    assert_int_equal(solsend_link_open(NULL, "udp://h:1", NULL, &detail), SOLSEND_ERR_USAGE);
    assert_non_null(strstr(detail.text, "out"));
    assert_int_equal(solsend_link_open(&link_, NULL, NULL, &detail), SOLSEND_ERR_USAGE);
    assert_non_null(strstr(detail.text, "uri"));
    link_ = (solsend_link *)&detail;
    refused(solsend_link_open(&link_, "tcp://h:1", NULL, &detail), SOLSEND_ERR_BAD_URI, "byte 0");
    refused(solsend_link_open(&link_, "udp://127.0.0.1:1?x=y", NULL, &detail), SOLSEND_ERR_BAD_URI,
            "byte 18");
    assert_int_equal(detail.offset, 18);
    refused(solsend_link_open(&link_, "quic://224.0.0.9:1", NULL, &detail), SOLSEND_ERR_BAD_ADDRESS,
            "224.0.0.9:1");
    assert_int_equal(solsend_link_open(&link_, "udp://224.0.0.9:1", NULL, NULL),
                     SOLSEND_ERR_BAD_ADDRESS); /* detail may be null */
}

/* ---- what the host gives ----------------------------------------------------------------------
 */

static const solsend_step *step_of(const solsend_step *steps, int count, uint32_t step)
{
    for (int i = 0; i < count; i++) {
        if (steps[i].step == step) {
            return &steps[i];
        }
    }
    return NULL;
}

static int socket_buffer(int option)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    getsockopt(solsend_link_fd(link_), SOL_SOCKET, option, &value, &bytes);
    return value / 2;
}

/* Asked for more than anybody without privileges gets: told, never silently less. */
static int a_clamped_buffer_is_told(void)
{
    solsend_step steps[16];
    if (child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be given up");
    }
    options.send_buffer_bytes = options.receive_buffer_bytes = 1u << 30;
    CHILD_CHECK(open_with("udp", &options) == 0);
    int n = solsend_link_steps(link_, steps, 16);
    const solsend_step *s = step_of(steps, n, SOLSEND_STEP_SEND_BUFFER);
    CHILD_CHECK(s != NULL && s->code == SOLSEND_ERR_CLAMPED);
    CHILD_CHECK(s->wanted == 1 << 30 && s->got == socket_buffer(SO_SNDBUF) && s->got < s->wanted);
    s = step_of(steps, n, SOLSEND_STEP_RECEIVE_BUFFER);
    CHILD_CHECK(s != NULL && s->code == SOLSEND_ERR_CLAMPED);
    CHILD_CHECK(s->got == socket_buffer(SO_RCVBUF));
    CHILD_CHECK(solsend_link_steps(link_, steps, 1) == n); /* how many there are */
    CHILD_CHECK(solsend_link_steps(link_, NULL, 0) == n);

    options.strict = 1;
    CHILD_CHECK(child_set_limit(RLIMIT_MEMLOCK, 64 << 20) == 0 || 1);
    int rc = open_with("udp", &options);
    CHILD_CHECK(link_ == NULL);
    /* the first step that falls short: a lock, where even that is not given, or the buffer */
    CHILD_CHECK(rc == SOLSEND_ERR_CLAMPED || rc == SOLSEND_ERR_PRIVILEGE);
    CHILD_CHECK(detail.code == rc && strstr(detail.text, "wanted") != NULL);
    options.send_buffer_bytes = options.receive_buffer_bytes = 0;
    rc = open_with("udp", &options);
    CHILD_CHECK(rc == 0 || (rc == SOLSEND_ERR_PRIVILEGE && strstr(detail.text, "lock") != NULL) ||
                (rc == SOLSEND_ERR_CLAMPED && strstr(detail.text, "lock") != NULL));
    return CHILD_OK;
}

static int a_refused_priority_is_a_missing_privilege(void)
{
    if (child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be given up");
    }
    solsend_step steps[16];
    options.socket_priority = 7;
    CHILD_CHECK(open_with("udp", &options) == 0);
    const solsend_step *s =
        step_of(steps, solsend_link_steps(link_, steps, 16), SOLSEND_STEP_PRIORITY);
    CHILD_CHECK(s != NULL && s->code == SOLSEND_ERR_PRIVILEGE);
    options.slots = 1;
    options.send_buffer_bytes = options.receive_buffer_bytes = 0;
    options.strict = 1;
    int rc = open_with("udp", &options);
    CHILD_CHECK(link_ == NULL && (rc == SOLSEND_ERR_PRIVILEGE || rc == SOLSEND_ERR_CLAMPED));
    return CHILD_OK;
}

static int no_memory_may_be_locked(void)
{
    if (child_drop_privileges() != 0 || child_set_limit(RLIMIT_MEMLOCK, 0) != 0) {
        CHILD_SKIP("privileges cannot be given up");
    }
    solsend_step steps[16];
    CHILD_CHECK(open_with("udp", &options) == 0);
    const solsend_step *s = step_of(steps, solsend_link_steps(link_, steps, 16), SOLSEND_STEP_LOCK);
    CHILD_CHECK(s != NULL && s->code < 0 && s->got < s->wanted);
    options.strict = 1;
    int rc = open_with("udp", &options);
    CHILD_CHECK(rc == s->code && link_ == NULL && strstr(detail.text, s->name) != NULL);
    return CHILD_OK;
}

static int no_room_for_the_slots(void)
{
#ifdef SANITIZED
    CHILD_SKIP("a sanitizer needs its address space");
#else
    options.slots = 65536; /* about 280 MB */
    CHILD_CHECK(child_set_limit(RLIMIT_AS, 200 << 20) == 0);
    CHILD_CHECK(open_with("udp", &options) == SOLSEND_ERR_MEMORY);
    CHILD_CHECK(link_ == NULL && strstr(detail.text, "slots") != NULL);
    options.slots = 16;
    CHILD_CHECK(open_with("udp", &options) == 0);
    return CHILD_OK;
#endif
}

static int no_files_for_a_link(void)
{
    CHILD_CHECK(child_set_limit(RLIMIT_NOFILE, 3) == 0);
    CHILD_CHECK(open_with("udp", &options) == SOLSEND_ERR_NO_FILES);
    CHILD_CHECK(open_with("quic", &options) == SOLSEND_ERR_NO_FILES);
    CHILD_CHECK(link_ == NULL);
    return CHILD_OK;
}

static int a_path_too_small_for_quic(void)
{
    if (network_enter(1227) != 0) { /* a byte less than 1200 with the headers of IPv4 and UDP */
        CHILD_SKIP("no network namespace of one's own");
    }
    udp_peer_close(&peer);
    CHILD_CHECK(udp_peer_open(&peer, "127.0.0.1") == 0);
    CHILD_CHECK(open_with("quic", &options) == SOLSEND_ERR_PATH_TOO_SMALL);
    CHILD_CHECK(link_ == NULL && strstr(detail.text, "1199") != NULL);
    CHILD_CHECK(open_with("udp", &options) == 0); /* which needs no such size */
    solsend_link_info info = {.size = sizeof info};
    CHILD_CHECK(solsend_link_info_get(link_, &info) == 0 && info.tx_bytes_max == 1199);
    return CHILD_OK;
}

static int a_path_that_is_just_large_enough(void)
{
    solsend_event event;
    solsend_link_info info = {.size = sizeof info};
    if (network_enter(1228) != 0) {
        CHILD_SKIP("no network namespace of one's own");
    }
    udp_peer_close(&peer);
    CHILD_CHECK(udp_peer_open(&peer, "127.0.0.1") == 0);
    CHILD_CHECK(open_with("quic", &options) == 0);
    CHILD_CHECK(solsend_link_info_get(link_, &info) == 0 && info.payload_bytes == 1200);
    CHILD_CHECK(solsend_link_drain(link_, &event, 1) == 1); /* full transactions will be cut */
    CHILD_CHECK(event.kind == SOLSEND_EVENT_LINK_PATH && event.value == 1200);
    return CHILD_OK;
}

static solsend_key *parents_key;

static int an_inherited_identity(void)
{
    options.identity = parents_key;
    CHILD_CHECK(open_with("quic", &options) == SOLSEND_ERR_FORKED);
    CHILD_CHECK(link_ == NULL && strstr(detail.text, "identity") != NULL);
    options.identity = NULL;
    CHILD_CHECK(open_with("quic", &options) == 0); /* a child may have links of its own */
    return CHILD_OK;
}

static void an_inherited_identity_is_refused(void **state)
{
    (void)state;
    assert_int_equal(solsend_key_random(&parents_key), 0);
    EXPECT_CHILD(an_inherited_identity);
    options.identity = parents_key;
    assert_int_equal(open_with("quic", &options), 0);
    solsend_link_close(link_, 0);
    link_ = NULL;
    solsend_key_close(parents_key);
}

/* Two addresses on one host: what was asked for is what the peer sees, with either transport. */
static void the_peer_sees_the_bound_address(void **state)
{
    (void)state;
    static const char *const schemes[] = {"udp", "quic"};
    for (int i = 0; i < 2; i++) {
        uint8_t data[2048];
        options.bind = "127.0.0.2";
        assert_int_equal(open_with(schemes[i], &options), 0);
        if (i == 0) {
            send_works();
        } else {
            assert_int_equal(udp_peer_take(&peer, data, sizeof data), 1200); /* the ClientHello */
        }
        solsend_link_info info = {.size = sizeof info};
        assert_int_equal(solsend_link_info_get(link_, &info), 0);
        assert_string_equal(peer.source, "127.0.0.2");
        assert_int_equal(peer.source_port, info.local_port);
        options.bind = NULL; /* without it the kernel chooses */
        assert_int_equal(open_with(schemes[i], &options), 0);
        if (i == 0) {
            send_works();
            assert_string_equal(peer.source, "127.0.0.1");
        }
        while (udp_peer_take(&peer, data, sizeof data) >= 0) {
        }
    }
}

static uint32_t warnings;
static char warning[256];

static void write_log(void *context, int32_t level, const char *text, uint32_t bytes)
{
    assert_ptr_equal(context, &warnings);
    assert_int_equal(strlen(text), bytes);
    if (level == SOLSEND_LOG_WARN && strstr(text, "identity") != NULL) {
        warnings++;
        snprintf(warning, sizeof warning, "%s", text);
    }
}

static void an_ephemeral_identity_is_warned_about_once(void **state)
{
    (void)state;
    solsend_log_sink log = {.write = write_log, .context = &warnings, .level = SOLSEND_LOG_DEBUG};
    solsend_link_info info = {.size = sizeof info};
    uint8_t zero[32] = {0}, mine[32];
    options.log = &log;
    assert_int_equal(open_with("quic", &options), 0);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "ephemeral"));
    assert_int_equal(solsend_link_info_get(link_, &info), 0);
    assert_memory_not_equal(info.identity, zero, 32);

    options.certificate = SOLSEND_CERTIFICATE_NONE; /* asked for: nothing to warn about */
    assert_int_equal(open_with("quic", &options), 0);
    assert_int_equal(solsend_link_info_get(link_, &info), 0);
    assert_memory_equal(info.identity, zero, 32);

    solsend_key *key = NULL;
    assert_int_equal(solsend_key_random(&key), 0);
    assert_int_equal(solsend_key_public(key, mine), 0);
    options.certificate = SOLSEND_CERTIFICATE_IDENTITY;
    options.identity = key;
    assert_int_equal(open_with("quic", &options), 0);
    assert_int_equal(solsend_link_info_get(link_, &info), 0);
    assert_memory_equal(info.identity, mine, 32);
    assert_int_equal(warnings, 1);
    solsend_link_close(link_, 0);
    link_ = NULL;
    solsend_key_close(key);
}

#define IN_CHILD(body)                                                                             \
    static void in_child_##body(void **state)                                                      \
    {                                                                                              \
        (void)state;                                                                               \
        EXPECT_CHILD(body);                                                                        \
    }

IN_CHILD(a_clamped_buffer_is_told)
IN_CHILD(a_refused_priority_is_a_missing_privilege)
IN_CHILD(no_memory_may_be_locked)
IN_CHILD(no_room_for_the_slots)
IN_CHILD(no_files_for_a_link)
IN_CHILD(a_path_too_small_for_quic)
IN_CHILD(a_path_that_is_just_large_enough)

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(inits_write_defaults_of_the_callers_size),
        TEST(defaults_are_the_documented_ones),
        TEST(open_reads_options_of_other_sizes),
        TEST(sends_may_be_of_other_sizes),
        TEST(reports_follow_the_size),
        cmocka_unit_test(every_event_has_a_name_of_its_own),
        TEST(a_member_out_of_range_is_named),
        TEST(port_ranges_make_sense),
        TEST(the_ends_of_the_ranges_are_allowed),
        TEST(shadow_options_are_checked_like_a_links),
        TEST(missing_arguments_and_bad_uris_are_told),
        TEST(in_child_a_clamped_buffer_is_told),
        TEST(in_child_a_refused_priority_is_a_missing_privilege),
        TEST(in_child_no_memory_may_be_locked),
        TEST(in_child_no_room_for_the_slots),
        TEST(in_child_no_files_for_a_link),
        TEST(in_child_a_path_too_small_for_quic),
        TEST(in_child_a_path_that_is_just_large_enough),
        TEST(an_inherited_identity_is_refused),
        TEST(the_peer_sees_the_bound_address),
        TEST(an_ephemeral_identity_is_warned_about_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
