#include "bed.h"

#include <poll.h>
#include <time.h>

/* Returns 0, or -1 when the mock cannot be opened, with one line in `why`. */
static int start(struct bed *bed, const char *profile, const char *faults, const char *listen,
                 char *why, size_t why_bytes)
{
    mock_config config = {
        .profile = profile,
        .listen = listen,
        .faults = faults,
        .cpu = -1,
        .arrivals_max = 1 << 16,
        .seed = 7,
    };
    memset(bed, 0, sizeof *bed);
    if (mock_open(&bed->leader, &config, why, why_bytes) != 0) {
        return -1;
    }
    assert_int_equal(solsend_key_random(&bed->identity), 0);
    assert_int_equal(mock_start(bed->leader), 0);
    mock_uri(bed->leader, bed->uri, sizeof bed->uri);
    assert_int_equal(solsend_link_options_init(&bed->options, sizeof bed->options), 0);
    bed->options.identity = bed->identity;
    return 0;
}

static int start_relaxed(struct bed *bed, const char *profile, const char *faults,
                         const char *listen, char *why, size_t why_bytes)
{
    char all[512];
    snprintf(all, sizeof all, "%s%s%s", faults != NULL ? faults : "",
             faults != NULL && faults[0] != 0 ? "," : "", "throttle=off,conn_per_min=100000");
    return start(bed, profile, all, listen, why, why_bytes);
}

void bed_open(struct bed *bed, const char *profile, const char *faults)
{
    char why[256] = "";
    if (start_relaxed(bed, profile, faults, "127.0.0.1:0", why, sizeof why) != 0) {
        fail_msg("mock: %s", why);
    }
}

void bed_open_strict(struct bed *bed, const char *profile, const char *faults)
{
    char why[256] = "";
    if (start(bed, profile, faults, "127.0.0.1:0", why, sizeof why) != 0) {
        fail_msg("mock: %s", why);
    }
}

int bed_open_at(struct bed *bed, const char *profile, const char *faults, const char *listen)
{
    char why[256] = "";
    int rc = start_relaxed(bed, profile, faults, listen, why, sizeof why);
    if (rc != 0) {
        print_message("mock at %s: %s\n", listen, why);
    }
    return rc;
}

void bed_fault(struct bed *bed, const char *faults)
{
    char why[256] = "";
    if (mock_fault(bed->leader, faults, why, sizeof why) != 0) {
        fail_msg("mock: %s", why);
    }
}

void bed_connect(struct bed *bed)
{
    int rc = solsend_link_open(&bed->link, bed->uri, &bed->options, &bed->detail);
    if (rc != 0) {
        fail_msg("link: %s: %s", solsend_error_name(rc), bed->detail.text);
    }
}

void bed_admit(struct bed *bed)
{
    bed_connect(bed);
    int rc = solsend_link_wait_admitted(bed->link, 5000);
    if (rc != 0) {
        char text[256];
        solsend_link_text(bed->link, text, sizeof text);
        fail_msg("not admitted: %s: %s", solsend_error_name(rc), text);
    }
}

void bed_close(struct bed *bed)
{
    solsend_link_close(bed->link, 0);
    solsend_key_close(bed->identity);
    mock_close(bed->leader);
    memset(bed, 0, sizeof *bed);
}

void bed_transaction(struct bed *bed, uint8_t *out, uint32_t bytes)
{
    char memo[SOLSEND_TX_BYTES_MAX];
    int memo_bytes = solsend_transfer_memo_bytes(bytes);
    assert_true(memo_bytes >= 12);
    memset(memo, 'm', sizeof memo);
    snprintf(memo, sizeof memo, "%011u", bed->serial++);
    memo[11] = ' ';
    solsend_transfer t;
    assert_int_equal(solsend_transfer_init(&t, sizeof t), 0);
    t.payer = bed->identity;
    t.memo = (const uint8_t *)memo;
    t.memo_bytes = (uint32_t)memo_bytes;
    assert_int_equal(solsend_tx_transfer(out, bytes, &t), (int)bytes);
}

void bed_transaction_v1(struct bed *bed, uint8_t *out, uint32_t bytes)
{
    assert_in_range(bytes, 108, SOLSEND_TX_V1_BYTES_MAX);
    uint32_t serial = bed->serial++;
    for (uint32_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(i * 31 + serial);
    }
    out[0] = 0x81;
    out[1] = 1; /* one signature: the last 64 bytes */
    memcpy(out + bytes - 64, &serial, sizeof serial);
    memcpy(out + bytes - 56, "version1", 8);
}

void bed_prepare(struct bed *bed, solsend_send *send, uint8_t *wire, uint32_t bytes)
{
    bed_transaction(bed, wire, bytes);
    assert_int_equal(solsend_send_init(send, sizeof *send), 0);
    send->wire = wire;
    send->wire_bytes = bytes;
}

int bed_send(struct bed *bed, uint32_t bytes, uint32_t deadline_ms, uint64_t user)
{
    uint8_t wire[SOLSEND_TX_BYTES_MAX];
    uint64_t ticket = 0;
    solsend_send s;
    bed_prepare(bed, &s, wire, bytes);
    s.user = user;
    if (deadline_ms != 0) {
        s.deadline_ns = solsend_now_ns() + deadline_ms * UINT64_C(1000000);
    }
    int rc = solsend_link_send(bed->link, &s, &ticket);
    assert_true(rc < 0 || ticket != 0);
    return rc;
}

void bed_drain(struct bed *bed)
{
    solsend_event e[64];
    int n;
    while ((n = solsend_link_drain(bed->link, e, 64)) > 0) {
        for (int i = 0; i < n; i++) {
            assert_in_range(e[i].kind, 1, BED_KINDS - 1);
            bed->seen[e[i].kind]++;
            bed->last[e[i].kind] = e[i];
            if (bed->logged < BED_EVENTS_MAX) {
                bed->log[bed->logged++] = e[i];
            }
        }
    }
    assert_int_equal(n, 0);
}

int bed_step(struct bed *bed)
{
    int rc = solsend_link_poll(bed->link);
    bed_drain(bed);
    if (rc == 0) {
        /* half a millisecond of sleep at the most, so that two cores serve both ends */
        uint64_t next = solsend_link_next_timeout_ns(bed->link), now = solsend_now_ns();
        uint64_t ns = next > now ? next - now : 0;
        struct timespec t = {0, ns < 500000 ? (long)ns : 500000};
        struct pollfd p = {.fd = solsend_link_fd(bed->link), .events = POLLIN};
        ppoll(&p, 1, &t, NULL);
    }
    return rc;
}

int bed_run(struct bed *bed, uint32_t ms)
{
    uint64_t until = solsend_now_ns() + ms * UINT64_C(1000000);
    int rc = 0;
    do {
        rc = bed_step(bed);
    } while (solsend_now_ns() < until);
    return rc;
}

void bed_until(struct bed *bed, uint32_t kind, uint64_t count, uint32_t ms)
{
    uint64_t until = solsend_now_ns() + ms * UINT64_C(1000000);
    bed_drain(bed);
    while (bed->seen[kind] < count) {
        int rc = bed_step(bed);
        if (bed->seen[kind] < count && (rc < 0 || solsend_now_ns() > until)) {
            char text[256];
            solsend_link_text(bed->link, text, sizeof text);
            fail_msg("saw %llu of %llu \"%s\": %s", (unsigned long long)bed->seen[kind],
                     (unsigned long long)count, solsend_event_name(kind), text);
        }
    }
}

int bed_until_end(struct bed *bed, uint32_t ms)
{
    uint64_t until = solsend_now_ns() + ms * UINT64_C(1000000);
    for (;;) {
        int rc = bed_step(bed);
        if (rc < 0) {
            bed_drain(bed);
            return rc;
        }
        if (solsend_now_ns() > until) {
            char text[256];
            solsend_link_text(bed->link, text, sizeof text);
            fail_msg("the link did not end: %s", text);
        }
    }
}

solsend_link_stats bed_stats(const struct bed *bed)
{
    solsend_link_stats s = {.size = sizeof s};
    assert_int_equal(solsend_link_stats_get(bed->link, &s), 0);
    return s;
}

solsend_link_info bed_info(const struct bed *bed)
{
    solsend_link_info i = {.size = sizeof i};
    assert_int_equal(solsend_link_info_get(bed->link, &i), 0);
    return i;
}

mock_counts bed_counts(const struct bed *bed)
{
    mock_counts c;
    mock_counts_get(bed->leader, &c);
    return c;
}

void bed_report(const struct bed *bed, char *out, size_t out_bytes)
{
    FILE *text = fmemopen(out, out_bytes, "w");
    assert_non_null(text);
    mock_report(bed->leader, text);
    assert_int_equal(fclose(text), 0);
}

/* A ticket's terminal event is its last: whoever has one is not seen again. */
static void assert_terminal_is_last(const struct bed *bed)
{
    for (uint32_t i = 0; i < bed->logged; i++) {
        const solsend_event *e = &bed->log[i];
        for (uint32_t j = i + 1; solsend_event_is_terminal(e->kind) && j < bed->logged; j++) {
            if (bed->log[j].ticket == e->ticket) {
                fail_msg("ticket of user %llu: \"%s\" after \"%s\"", (unsigned long long)e->user,
                         solsend_event_name(bed->log[j].kind), solsend_event_name(e->kind));
            }
        }
    }
}

void bed_assert_accounted(struct bed *bed)
{
    bed_drain(bed);
    solsend_link_stats s = bed_stats(bed);
    uint64_t ended = bed->seen[SOLSEND_EVENT_ACKED] + bed->seen[SOLSEND_EVENT_EXPIRED] +
                     bed->seen[SOLSEND_EVENT_CLOSED] + bed->seen[SOLSEND_EVENT_STOPPED] +
                     bed->seen[SOLSEND_EVENT_CANCELLED];
    assert_int_equal(ended, s.accepted);
    assert_int_equal(bed->seen[SOLSEND_EVENT_ACKED], s.acked);
    assert_int_equal(bed_info(bed).open, 0);
    assert_terminal_is_last(bed);
}
