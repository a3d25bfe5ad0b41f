#include "check.h"

#include <stdlib.h>

#include "link/repeat.h"

struct payload {
    uint8_t bytes[1500];
    size_t length;
};

static void put(struct payload *p, const void *data, size_t bytes)
{
    memcpy(p->bytes + p->length, data, bytes);
    p->length += bytes;
}

/* A STREAM frame with a length; ID and length as two-byte integers. */
static void put_stream(struct payload *p, uint32_t id, uint32_t offset, uint32_t bytes, int fin)
{
    uint8_t head[7] = {(uint8_t)(0x0a | (fin ? 1 : 0) | (offset != 0 ? 4 : 0)),
                       (uint8_t)(0x40 | id >> 8), (uint8_t)id};
    size_t n = 3;
    if (offset != 0) {
        head[n++] = (uint8_t)(0x40 | offset >> 8);
        head[n++] = (uint8_t)offset;
    }
    head[n++] = (uint8_t)(0x40 | bytes >> 8);
    head[n++] = (uint8_t)bytes;
    put(p, head, n);
    memset(p->bytes + p->length, 0xee, bytes);
    p->length += bytes;
}

/* One of every other frame that a client sends. */
static void put_others(struct payload *p)
{
    static const uint8_t frames[] = {
        0x01,                                              /* PING */
        0x02, 0x10, 0x05, 0x01, 0x02, 0x00, 0x01,          /* ACK with one more range */
        0x03, 0x10, 0x05, 0x00, 0x02, 0x01, 0x02, 0x03,    /* ACK with ECN counts */
        0x04, 0x06, 0x00, 0x44, 0xd0,                      /* RESET_STREAM */
        0x05, 0x06, 0x00,                                  /* STOP_SENDING */
        0x06, 0x00, 0x03, 1,    2,    3,                   /* CRYPTO */
        0x10, 0x44, 0x00,                                  /* MAX_DATA */
        0x11, 0x06, 0x44, 0x00,                            /* MAX_STREAM_DATA */
        0x12, 0x08, 0x13, 0x08,                            /* MAX_STREAMS */
        0x14, 0x44, 0x00,                                  /* DATA_BLOCKED */
        0x15, 0x06, 0x44, 0x00,                            /* STREAM_DATA_BLOCKED */
        0x16, 0x08, 0x17, 0x08,                            /* STREAMS_BLOCKED */
        0x19, 0x00,                                        /* RETIRE_CONNECTION_ID */
        0x1a, 1,    2,    3,    4,    5,    6,    7,    8, /* PATH_CHALLENGE */
        0x1b, 1,    2,    3,    4,    5,    6,    7,    8, /* PATH_RESPONSE */
        0x1e,                                              /* HANDSHAKE_DONE */
    };
    uint8_t new_id[2 + 1 + 1 + 8 + 16] = {0x18, 0x01, 0x00, 8};
    put(p, frames, sizeof frames);
    put(p, new_id, sizeof new_id);
}

static void a_frame_without_fin_is_a_cut(void **state)
{
    struct payload p = {.length = 0};
    put_stream(&p, 4002, 0, 300, 1);
    put_stream(&p, 4006, 0, 200, 0);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), 4006);
}

static void whole_frames_and_last_parts_are_none(void **state)
{
    struct payload p = {.length = 0};
    assert_int_equal(repeat_find_cut(p.bytes, 0), -1);
    put_stream(&p, 4002, 0, 300, 1);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), -1);
    put_stream(&p, 4006, 200, 900, 1);
    put(&p, "\0\0\0\0\0\0", 6);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), -1);
}

static void every_other_frame_is_passed_over(void **state)
{
    struct payload p = {.length = 0};
    put_others(&p);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), -1);
    put_stream(&p, 8006, 64, 100, 0);
    put_others(&p);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), 8006);
}

static void a_frame_without_length_runs_to_the_end(void **state)
{
    struct payload p = {.length = 0};
    put_others(&p);
    put(&p, "\x08\x06", 2);
    put(&p, "rest of the packet", 18);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), 6);
}

static void what_is_cut_short_or_unknown_is_no_cut(void **state)
{
    struct payload p = {.length = 0};
    put_stream(&p, 4006, 0, 200, 0);
    for (size_t n = 0; n < p.length; n++) {
        uint8_t *exact = malloc(n + 1); /* one byte more: the sanitizer watches the rest */
        assert_non_null(exact);
        memcpy(exact, p.bytes, n);
        assert_int_equal(repeat_find_cut(exact, n), -1);
        free(exact);
    }
    p.length = 0;
    put(&p, "\x3f", 1);
    put_stream(&p, 4006, 0, 200, 0);
    assert_int_equal(repeat_find_cut(p.bytes, p.length), -1);
}

static void any_bytes_are_survived(void **state)
{
    uint32_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[64];
        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 1664525 + 1013904223;
            bytes[k] = (uint8_t)(seed >> 24) & (k % 3 == 0 ? 0x1f : 0xff);
        }
        repeat_find_cut(bytes, sizeof bytes - (size_t)i % 32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_without_fin_is_a_cut),
        cmocka_unit_test(whole_frames_and_last_parts_are_none),
        cmocka_unit_test(every_other_frame_is_passed_over),
        cmocka_unit_test(a_frame_without_length_runs_to_the_end),
        cmocka_unit_test(what_is_cut_short_or_unknown_is_no_cut),
        cmocka_unit_test(any_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
