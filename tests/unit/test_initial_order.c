#include "check.h"

#include <stdlib.h>

#include "link/initial_order.h"

enum { ROUNDS = 20000, HELLO_MAX = 1100, PIECES_MAX = 24 };

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

/* ---- a payload to sort ----------------------------------------------------------------------- */

struct payload {
    uint8_t bytes[INITIAL_ORDER_BYTES_MAX + 64];
    size_t used;
    uint8_t others[INITIAL_ORDER_BYTES_MAX]; /* what is neither CRYPTO nor PADDING, in its order */
    size_t other_bytes;
};

static void put(struct payload *p, const void *data, size_t n)
{
    assert_true(p->used + n <= sizeof p->bytes);
    memcpy(p->bytes + p->used, data, n);
    p->used += n;
}

static void put_byte(struct payload *p, uint8_t b)
{
    put(p, &b, 1);
}

/* In 1 << `log` bytes, or more where it does not fit. */
static void put_varint(struct payload *p, uint64_t v, unsigned log)
{
    while (v >> ((8u << log) - 2) != 0) {
        log++;
    }
    for (unsigned i = 0, n = 1u << log; i < n; i++) {
        uint8_t b = (uint8_t)(v >> (8 * (n - 1 - i)));
        put_byte(p, i == 0 ? (uint8_t)(b | log << 6) : b);
    }
}

static void put_crypto(struct payload *p, uint64_t offset, const uint8_t *data, size_t n,
                       unsigned log)
{
    put_byte(p, 0x06);
    put_varint(p, offset, log);
    put_varint(p, n, log);
    put(p, data, n);
}

static void put_padding(struct payload *p, size_t n)
{
    for (; n > 0; n--) {
        put_byte(p, 0);
    }
}

static void put_ack(struct payload *p, int ecn, unsigned ranges)
{
    put_byte(p, ecn ? 0x03 : 0x02);
    put_varint(p, draw(1u << 20), 0);
    put_varint(p, draw(1u << 14), 0);
    put_varint(p, ranges, (unsigned)draw(2));
    put_varint(p, draw(64), 0);
    for (unsigned i = 0; i < ranges * 2 + (ecn ? 3u : 0u); i++) {
        put_varint(p, draw(1000), 0);
    }
}

static void put_close(struct payload *p, const char *reason)
{
    put_byte(p, 0x1c);
    put_varint(p, 0x128, 1);
    put_varint(p, 6, 0);
    put_varint(p, strlen(reason), 0);
    put(p, reason, strlen(reason));
}

static void put_other(struct payload *p)
{
    size_t before = p->used;
    switch (draw(5)) {
    case 0:
        put_byte(p, 0x01);
        break;
    case 1:
        put_ack(p, 0, (unsigned)draw(4));
        break;
    case 2:
        put_ack(p, 1, (unsigned)draw(3));
        break;
    case 3:
        put_close(p, "reason");
        break;
    default:
        put_padding(p, 1 + draw(9));
        return;
    }
    memcpy(p->others + p->other_bytes, p->bytes + before, p->used - before);
    p->other_bytes += p->used - before;
}

/* ---- and a reader of its own ----------------------------------------------------------------- */

static uint64_t get_varint(const uint8_t **at, const uint8_t *end)
{
    assert_true(*at < end);
    unsigned n = 1u << (**at >> 6);
    assert_true((size_t)(end - *at) >= n);
    uint64_t v = *(*at)++ & 0x3f;
    while (--n > 0) {
        v = v << 8 | *(*at)++;
    }
    return v;
}

/* The sorted payload is: one CRYPTO frame of exactly `hello`, the other frames, padding. */
static void check_sorted(const uint8_t *out, const struct payload *p, const uint8_t *hello,
                         size_t hello_bytes)
{
    const uint8_t *at = out, *end = out + p->used;
    assert_int_equal(*at++, 0x06);
    assert_int_equal(get_varint(&at, end), 0);
    assert_int_equal(get_varint(&at, end), hello_bytes);
    assert_true((size_t)(end - at) >= hello_bytes + p->other_bytes);
    assert_memory_equal(at, hello, hello_bytes);
    at += hello_bytes;
    assert_memory_equal(at, p->others, p->other_bytes);
    for (at += p->other_bytes; at < end; at++) {
        assert_int_equal(*at, 0);
    }
}

/* Sorts into memory of exactly the payload's size (a sanitizer sees a byte beyond), with guards. */
static int sort_exact(const struct payload *p, uint8_t *result)
{
    uint8_t *in = malloc(p->used + 1), *out = malloc(p->used + 1);
    assert_non_null(in);
    assert_non_null(out);
    memcpy(in, p->bytes, p->used);
    memset(out, 0xee, p->used + 1);
    int rc = initial_order_sort(out, in, p->used);
    assert_int_equal(out[p->used], 0xee);
    assert_memory_equal(in, p->bytes, p->used);
    for (size_t i = 0; rc == 0 && i < p->used; i++) {
        assert_int_equal(out[i], 0xee); /* untouched */
    }
    memcpy(result, out, p->used);
    free(in);
    free(out);
    return rc;
}

static size_t cut(size_t bytes, size_t pieces, size_t *starts)
{
    if (pieces > bytes) {
        pieces = bytes;
    }
    for (size_t i = 0; i <= pieces; i++) {
        starts[i] = bytes * i / pieces;
    }
    for (size_t i = 1; i < pieces; i++) { /* move each cut between its neighbours */
        size_t room = starts[i + 1] - starts[i - 1] - 1;
        starts[i] = starts[i - 1] + 1 + draw(room > 0 ? room : 1);
    }
    return pieces;
}

static void crumbled_hellos_become_whole(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        static struct payload p;
        uint8_t hello[HELLO_MAX], out[sizeof p.bytes];
        size_t hello_bytes = 1 + draw(HELLO_MAX);
        size_t starts[PIECES_MAX + 1], order[PIECES_MAX];
        for (size_t i = 0; i < hello_bytes; i++) {
            hello[i] = (uint8_t)draw(256);
        }
        size_t pieces = cut(hello_bytes, 1 + draw(PIECES_MAX), starts);
        for (size_t i = 0; i < pieces; i++) {
            order[i] = i;
        }
        for (size_t i = pieces; i > 1; i--) {
            size_t j = draw(i), swap = order[i - 1];
            order[i - 1] = order[j];
            order[j] = swap;
        }
        p.used = p.other_bytes = 0;
        for (size_t i = 0; i < pieces; i++) {
            if (draw(3) == 0 && p.used < 700) {
                put_other(&p);
            }
            size_t at = starts[order[i]];
            put_crypto(&p, at, hello + at, starts[order[i] + 1] - at, (unsigned)draw(3));
        }
        if (p.used < 1200) {
            put_padding(&p, 1200 - p.used);
        }
        if (p.used > INITIAL_ORDER_BYTES_MAX) {
            assert_int_equal(sort_exact(&p, out), 0);
            continue;
        }
        assert_int_equal(sort_exact(&p, out), 1);
        check_sorted(out, &p, hello, hello_bytes);
    }
}

static void what_is_in_order_stays_as_it_is(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t hello[300], out[sizeof p.bytes];
    memset(hello, 'h', sizeof hello);
    p.used = p.other_bytes = 0;
    put_crypto(&p, 0, hello, sizeof hello, 0);
    put_ack(&p, 0, 0);
    put_padding(&p, 1162 - p.used);
    assert_int_equal(sort_exact(&p, out), 1);
    assert_memory_equal(out, p.bytes, p.used);
}

static void gaps_stay_gaps(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t data[64], out[sizeof p.bytes];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)i;
    }
    p.used = p.other_bytes = 0;
    put_crypto(&p, 1000, data, 10, 0);
    put_byte(&p, 0x01);
    put_crypto(&p, 30, data + 30, 10, 0);
    put_crypto(&p, 10, data + 10, 10, 0); /* 20 to 29 came in another packet */
    assert_int_equal(sort_exact(&p, out), 1);
    const uint8_t *at = out, *end = out + p.used;
    static const uint64_t offsets[] = {10, 30, 1000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(*at++, 0x06);
        assert_int_equal(get_varint(&at, end), offsets[i]);
        assert_int_equal(get_varint(&at, end), 10);
        assert_memory_equal(at, data + (offsets[i] % 1000), 10);
        at += 10;
    }
    assert_int_equal(*at++, 0x01);
    assert_ptr_equal(at, end);
}

static void repeated_and_overlapping_pieces_are_all_kept(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t data[64], out[sizeof p.bytes];
    memset(data, 'd', sizeof data);
    p.used = p.other_bytes = 0;
    put_crypto(&p, 8, data, 16, 0);
    put_crypto(&p, 0, data, 16, 0);
    put_crypto(&p, 0, data, 16, 0);
    assert_int_equal(sort_exact(&p, out), 1);
    const uint8_t *at = out, *end = out + p.used;
    static const uint64_t offsets[] = {0, 0, 8};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(*at++, 0x06);
        assert_int_equal(get_varint(&at, end), offsets[i]);
        assert_int_equal(get_varint(&at, end), 16);
        at += 16;
    }
    assert_ptr_equal(at, end);
}

static void payloads_without_crypto_are_fine(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t out[sizeof p.bytes];
    p.used = p.other_bytes = 0;
    assert_int_equal(sort_exact(&p, out), 1); /* nothing at all */
    put_padding(&p, 3);
    put_ack(&p, 1, 2);
    put_padding(&p, 20);
    size_t ack_bytes = p.used - 23;
    assert_int_equal(sort_exact(&p, out), 1);
    assert_memory_equal(out, p.bytes + 3, ack_bytes);
    for (size_t i = ack_bytes; i < p.used; i++) {
        assert_int_equal(out[i], 0);
    }
}

static void unknown_frames_are_left_alone(void **state)
{
    (void)state;
    static const uint8_t known[] = {0x00, 0x01, 0x02, 0x03, 0x06, 0x1c};
    for (unsigned kind = 0; kind < 256; kind++) {
        static struct payload p;
        uint8_t data[4] = {1, 2, 3, 4}, out[sizeof p.bytes];
        p.used = p.other_bytes = 0;
        put_crypto(&p, 4, data, 4, 0);
        put_byte(&p, (uint8_t)kind);
        put_padding(&p, 40); /* as a body it is valid for every kind */
        assert_int_equal(sort_exact(&p, out), memchr(known, (int)kind, sizeof known) != NULL);
    }
}

/* Every place where a well-formed payload may be cut in the middle of a frame. */
static void cut_frames_are_left_alone(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t data[32], out[sizeof p.bytes];
    size_t ends[8], frames = 0;
    memset(data, 'd', sizeof data);
    p.used = p.other_bytes = 0;
    put_crypto(&p, 16, data, 16, 1);
    ends[frames++] = p.used;
    put_ack(&p, 0, 2);
    ends[frames++] = p.used;
    put_ack(&p, 1, 1);
    ends[frames++] = p.used;
    put_close(&p, "why");
    ends[frames++] = p.used;
    put_crypto(&p, 0, data, 16, 2);
    ends[frames++] = p.used;
    size_t all = p.used;
    for (size_t n = 1; n <= all; n++) {
        int whole = 0;
        for (size_t f = 0; f < frames; f++) {
            whole |= ends[f] == n;
        }
        p.used = n;
        assert_int_equal(sort_exact(&p, out), whole);
    }
}

static void lying_lengths_are_left_alone(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t out[sizeof p.bytes];
    const uint64_t lies[] = {41, 1000, 1u << 20, (UINT64_C(1) << 62) - 1};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        p.used = p.other_bytes = 0;
        put_byte(&p, 0x06);
        put_varint(&p, (UINT64_C(1) << 62) - 1, 3);
        put_varint(&p, lies[i], 3);
        put_padding(&p, 40);
        assert_int_equal(sort_exact(&p, out), 0);

        p.used = 0;
        put_byte(&p, 0x02);
        put_varint(&p, 1, 0);
        put_varint(&p, 1, 0);
        put_varint(&p, lies[i], 3); /* so many ranges */
        put_padding(&p, 40);
        assert_int_equal(sort_exact(&p, out), 0);

        p.used = 0;
        put_byte(&p, 0x1c);
        put_varint(&p, 1, 0);
        put_varint(&p, 1, 0);
        put_varint(&p, lies[i], 3);
        put_padding(&p, 40);
        assert_int_equal(sort_exact(&p, out), 0);
    }
}

static void more_frames_or_bytes_than_expected_are_left_alone(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t byte = 'b', out[sizeof p.bytes];
    for (unsigned frames = 63; frames <= 66; frames++) {
        p.used = p.other_bytes = 0;
        for (unsigned i = frames; i > 0; i--) {
            put_crypto(&p, i - 1, &byte, 1, 0);
        }
        assert_int_equal(sort_exact(&p, out), frames <= 64);
    }
    p.used = p.other_bytes = 0;
    put_padding(&p, INITIAL_ORDER_BYTES_MAX);
    assert_int_equal(sort_exact(&p, out), 1);
    put_padding(&p, 1);
    assert_int_equal(sort_exact(&p, out), 0);
}

/* A merged frame may need a longer length than each of its parts: it must fit all the same. */
static void merging_never_needs_more_room(void **state)
{
    (void)state;
    static struct payload p;
    uint8_t hello[INITIAL_ORDER_BYTES_MAX], out[sizeof p.bytes];
    for (size_t i = 0; i < sizeof hello; i++) {
        hello[i] = (uint8_t)(i * 7);
    }
    for (size_t first = 1; first < 64; first++) {
        for (size_t second = 1; second < 64; second++) {
            p.used = p.other_bytes = 0;
            put_crypto(&p, first, hello + first, second, 0);
            put_crypto(&p, 0, hello, first, 0);
            assert_int_equal(sort_exact(&p, out), 1);
            check_sorted(out, &p, hello, first + second);
        }
    }
}

/* Garbage: whatever it answers, it stays inside its memory and leaves `out` alone when it says 0.
 */
static void garbage_does_no_harm(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {0x00, 0x01, 0x02, 0x03, 0x06, 0x1c, 0x06, 0x06};
    for (int round = 0; round < ROUNDS; round++) {
        static struct payload p;
        uint8_t out[sizeof p.bytes];
        p.used = p.other_bytes = 0;
        for (size_t n = draw(200); n > 0; n--) {
            put_byte(&p,
                     draw(3) == 0 ? kinds[draw(sizeof kinds)] : (uint8_t)draw(draw(2) ? 8 : 256));
        }
        sort_exact(&p, out);
    }
}

static void only_initials_are_wanted(void **state)
{
    (void)state;
    static const struct {
        uint8_t first;
        int wanted;
    } headers[] = {{0xc0, 1}, {0xc3, 1}, {0x80, 1}, {0xcf, 1}, {0xd0, 0}, {0xe0, 0},
                   {0xf0, 0}, {0x40, 0}, {0x43, 0}, {0x00, 0}, {0x7f, 0}};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        assert_int_equal(initial_order_wants(&headers[i].first, 1), headers[i].wanted);
    }
    assert_int_equal(initial_order_wants(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crumbled_hellos_become_whole),
        cmocka_unit_test(what_is_in_order_stays_as_it_is),
        cmocka_unit_test(gaps_stay_gaps),
        cmocka_unit_test(repeated_and_overlapping_pieces_are_all_kept),
        cmocka_unit_test(payloads_without_crypto_are_fine),
        cmocka_unit_test(unknown_frames_are_left_alone),
        cmocka_unit_test(cut_frames_are_left_alone),
        cmocka_unit_test(lying_lengths_are_left_alone),
        cmocka_unit_test(more_frames_or_bytes_than_expected_are_left_alone),
        cmocka_unit_test(merging_never_needs_more_room),
        cmocka_unit_test(garbage_does_no_harm),
        cmocka_unit_test(only_initials_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
