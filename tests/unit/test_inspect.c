#include "check.h"

#include <stdlib.h>

#include "tx/inspect.h"

/* A transaction under construction: every piece is appended, and its place can be kept. */
struct draft {
    uint8_t wire[8192];
    uint32_t bytes;
};

static uint32_t add(struct draft *d, const void *data, uint32_t bytes)
{
    uint32_t at = d->bytes;
    memcpy(d->wire + at, data, bytes);
    d->bytes += bytes;
    return at;
}

static uint32_t add_byte(struct draft *d, uint8_t byte)
{
    return add(d, &byte, 1);
}

/* `count` keys or signatures of `bytes` bytes, all different. */
static uint32_t add_distinct(struct draft *d, uint32_t count, uint32_t bytes)
{
    uint32_t at = d->bytes;
    for (uint32_t i = 0; i < count; i++) {
        memset(d->wire + d->bytes, (int)(0x20 + i), bytes);
        d->bytes += bytes;
    }
    return at;
}

/* The places of what the tests change. */
struct places {
    uint32_t message;
    uint32_t header;
    uint32_t key_count;
    uint32_t keys;
    uint32_t instruction_count;
    uint32_t program;
    uint32_t accounts;
    uint32_t data_length;
    uint32_t lookups;
};

/* Two signers of whom one reads, five keys of which two are read, one instruction. */
static struct places make(struct draft *d, int is_v0, const uint8_t accounts[2], uint32_t data)
{
    struct places at;
    memset(d, 0, sizeof *d);
    add_byte(d, 2);
    add_distinct(d, 2, 64);
    at.message = d->bytes;
    if (is_v0) {
        add_byte(d, 0x80);
    }
    at.header = add(d, "\2\1\2", 3);
    at.key_count = add_byte(d, 5);
    at.keys = add_distinct(d, 5, 32);
    add_distinct(d, 1, 32); /* blockhash */
    at.instruction_count = add_byte(d, 1);
    at.program = add_byte(d, 4);
    add_byte(d, 2);
    at.accounts = add(d, accounts, 2);
    at.data_length = d->bytes;
    if (data >= 128) {
        add_byte(d, (uint8_t)(data | 128));
    }
    add_byte(d, (uint8_t)(data >= 128 ? data >> 7 : data));
    d->bytes += data;
    at.lookups = d->bytes;
    if (is_v0) {
        add_byte(d, 1);
        add_distinct(d, 1, 32);
        add(d, "\2\x0a\x0b\1\x0c", 5); /* two writable, one readable: indexes 5 to 7 */
    }
    return at;
}

static struct places make_legacy(struct draft *d)
{
    return make(d, 0, (const uint8_t[]){0, 4}, 10);
}

static struct places make_v0(struct draft *d)
{
    return make(d, 1, (const uint8_t[]){0, 7}, 10);
}

struct places_v1 {
    uint32_t header;
    uint32_t mask;
    uint32_t instruction_count;
    uint32_t key_count;
    uint32_t keys;
    uint32_t heap;
    uint32_t instruction;
    uint32_t accounts;
    uint32_t signatures;
};

/* Two signers, four keys, every setting, one instruction with `data` bytes. */
static struct places_v1 make_v1(struct draft *d, uint32_t data)
{
    struct places_v1 at;
    memset(d, 0, sizeof *d);
    add_byte(d, 0x81);
    at.header = add(d, "\2\0\1", 3);
    at.mask = add(d, "\x1f\0\0\0", 4);
    add_distinct(d, 1, 32);
    at.instruction_count = add_byte(d, 1);
    at.key_count = add_byte(d, 4);
    at.keys = add_distinct(d, 4, 32);
    add(d, "\1\2\3\4\5\6\7\x08", 8); /* fee */
    add(d, "\x40\x0d\x03\0", 4);     /* compute units */
    add(d, "\0\0\1\0", 4);           /* loaded data */
    at.heap = add(d, "\0\0\1\0", 4); /* 64 KiB */
    at.instruction = add(d, (const uint8_t[]){3, 2, (uint8_t)data, (uint8_t)(data >> 8)}, 4);
    at.accounts = add(d, (const uint8_t[]){0, 2}, 2);
    d->bytes += data;
    at.signatures = add_distinct(d, 2, 64);
    return at;
}

/* From memory of exactly that size, so that one byte too far is seen by a sanitizer. */
static int check_exact(const uint8_t *wire, uint32_t bytes, solsend_detail *detail)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    memcpy(copy, wire, bytes);
    int rc = solsend_tx_check(copy, bytes, detail);
    free(copy);
    return rc;
}

static void assert_refused_at(const struct draft *d, uint32_t offset)
{
    solsend_detail detail = {0};
    int rc = check_exact(d->wire, d->bytes, &detail);
    if (rc != SOLSEND_ERR_TX_MALFORMED || detail.offset != offset) {
        print_error("%d at %u: %s\n", rc, detail.offset, detail.text);
    }
    assert_int_equal(rc, SOLSEND_ERR_TX_MALFORMED);
    assert_int_equal(detail.code, SOLSEND_ERR_TX_MALFORMED);
    assert_int_equal(detail.offset, offset);
    char named[24];
    snprintf(named, sizeof named, "byte %u:", offset);
    assert_non_null(strstr(detail.text, named));
    uint8_t id[64];
    assert_int_equal(solsend_tx_signature(d->wire, d->bytes, id), SOLSEND_ERR_TX_MALFORMED);
}

static void assert_accepted(const struct draft *d, int version)
{
    solsend_detail detail = {0};
    int rc = check_exact(d->wire, d->bytes, &detail);
    if (rc != version) {
        print_error("%d at %u: %s\n", rc, detail.offset, detail.text);
    }
    assert_int_equal(rc, version);
    assert_int_equal(detail.code, 0);
}

static void each_format_is_known(void **state)
{
    (void)state;
    struct draft d;
    uint8_t id[64];
    make_legacy(&d);
    assert_accepted(&d, 0);
    assert_int_equal(solsend_tx_signature(d.wire, d.bytes, id), 0);
    assert_memory_equal(id, d.wire + 1, 64);
    make_v0(&d);
    assert_accepted(&d, 0);
    assert_int_equal(solsend_tx_signature(d.wire, d.bytes, id), 0);
    assert_memory_equal(id, d.wire + 1, 64);
    make_v1(&d, 100);
    assert_accepted(&d, 1);
    assert_int_equal(solsend_tx_signature(d.wire, d.bytes, id), 0);
    assert_memory_equal(id, d.wire + d.bytes - 128, 64);
    assert_int_equal(solsend_tx_signature(d.wire, d.bytes, NULL), SOLSEND_ERR_USAGE);
}

/* Fills up with instruction data until the transaction is exactly that long. */
static void make_exactly(struct draft *d, int is_v0, uint32_t bytes)
{
    make(d, is_v0, (const uint8_t[]){0, 4}, 200);
    make(d, is_v0, (const uint8_t[]){0, 4}, bytes - (d->bytes - 200));
    assert_int_equal(d->bytes, bytes);
}

static void legacy_and_v0_end_at_1232(void **state)
{
    (void)state;
    struct draft d;
    for (int is_v0 = 0; is_v0 <= 1; is_v0++) {
        make_exactly(&d, is_v0, 1232);
        assert_accepted(&d, 0);
        assert_int_equal(inspect_size(d.wire, d.bytes), 0);
        make_exactly(&d, is_v0, 1233);
        solsend_detail detail = {0};
        assert_int_equal(check_exact(d.wire, d.bytes, &detail), SOLSEND_ERR_TX_TOO_LARGE);
        assert_int_equal(detail.offset, 1232);
        assert_non_null(strstr(detail.text, "1233"));
        assert_non_null(strstr(detail.text, "1232"));
        assert_int_equal(inspect_size(d.wire, d.bytes), SOLSEND_ERR_TX_TOO_LARGE);
        uint8_t id[64];
        assert_int_equal(solsend_tx_signature(d.wire, d.bytes, id), SOLSEND_ERR_TX_TOO_LARGE);
    }
    /* base64 of 1232 bytes has 1644 characters; they are no transaction either */
    memset(d.wire, 'A', 1644);
    assert_int_equal(solsend_tx_check(d.wire, 1644, NULL), SOLSEND_ERR_TX_TOO_LARGE);
    assert_int_equal(solsend_tx_check(d.wire, SIZE_MAX, NULL), SOLSEND_ERR_TX_TOO_LARGE);
}

static void v1_ends_at_4096(void **state)
{
    (void)state;
    struct draft d;
    make_v1(&d, 0);
    uint32_t around = d.bytes;
    for (uint32_t bytes = 1232; bytes <= 4096; bytes++) {
        make_v1(&d, bytes - around);
        assert_int_equal(d.bytes, bytes);
        assert_int_equal(solsend_tx_check(d.wire, d.bytes, NULL), 1);
        assert_int_equal(inspect_size(d.wire, d.bytes), 0);
    }
    make_v1(&d, 4097 - around);
    solsend_detail detail = {0};
    assert_int_equal(check_exact(d.wire, d.bytes, &detail), SOLSEND_ERR_TX_TOO_LARGE);
    assert_non_null(strstr(detail.text, "4097"));
    assert_non_null(strstr(detail.text, "4096"));
    assert_int_equal(inspect_size(d.wire, d.bytes), SOLSEND_ERR_TX_TOO_LARGE);
}

static void nothing_is_empty(void **state)
{
    (void)state;
    solsend_detail detail = {0};
    uint8_t byte = 1;
    uint8_t id[64];
    assert_int_equal(solsend_tx_check(&byte, 0, &detail), SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(detail.code, SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(solsend_tx_check(NULL, 0, NULL), SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(solsend_tx_check(NULL, 5, NULL), SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(solsend_tx_signature(NULL, 5, id), SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(inspect_size(&byte, 0), SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(inspect_size(NULL, 0), SOLSEND_ERR_TX_EMPTY);
    assert_int_equal(inspect_size(&byte, 1), 0);
}

static void a_cut_is_refused_where_it_ends(void **state)
{
    (void)state;
    struct draft d;
    for (int format = 0; format < 3; format++) {
        if (format == 2) {
            make_v1(&d, 300);
        } else {
            make(&d, format, (const uint8_t[]){0, 4}, 300);
        }
        uint32_t whole = d.bytes;
        for (uint32_t cut = 1; cut < whole; cut++) {
            d.bytes = cut;
            assert_refused_at(&d, cut);
        }
    }
}

static void what_follows_is_refused(void **state)
{
    (void)state;
    struct draft d;
    make_legacy(&d);
    uint32_t end = add_byte(&d, 0);
    assert_refused_at(&d, end);
    make_v0(&d);
    end = add_byte(&d, 0);
    assert_refused_at(&d, end);
    make_v1(&d, 9);
    end = add_byte(&d, 0);
    assert_refused_at(&d, end);
}

static void signatures_must_be_those_of_the_header(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make_legacy(&d);
    d.wire[0] = 0;
    assert_refused_at(&d, 0);
    make_legacy(&d);
    d.wire[at.header] = 1; /* one signature too many */
    d.wire[at.header + 1] = 0;
    assert_refused_at(&d, at.header);
    make_legacy(&d);
    d.wire[at.header] = 3;
    assert_refused_at(&d, at.header);
    make_legacy(&d);
    d.wire[at.header] = 0;
    assert_refused_at(&d, at.header);
    struct places_v1 v1 = make_v1(&d, 9);
    d.wire[v1.header] = 0;
    assert_refused_at(&d, v1.header);
    make_v1(&d, 9);
    d.wire[v1.header] = 13;
    assert_refused_at(&d, v1.header);
    make_v1(&d, 9);
    d.wire[v1.header] = 1; /* a signature nobody asked for */
    assert_refused_at(&d, v1.signatures + 64);
}

static void first_bytes_that_start_no_transaction(void **state)
{
    (void)state;
    struct draft d;
    for (uint32_t first = 0x80; first <= 0xff; first++) {
        make_legacy(&d);
        d.wire[0] = (uint8_t)first;
        if (first != INSPECT_V1) {
            assert_refused_at(&d, 0);
        }
    }
    for (uint32_t version = 0x81; version <= 0xff; version++) {
        struct places at = make_v0(&d);
        d.wire[at.message] = (uint8_t)version;
        assert_refused_at(&d, at.message);
    }
}

static void somebody_must_be_able_to_pay(void **state)
{
    (void)state;
    struct draft d;
    for (uint8_t reading = 2; reading < 4; reading++) {
        struct places at = make_legacy(&d);
        d.wire[at.header + 1] = reading;
        assert_refused_at(&d, at.header + 1);
        struct places_v1 v1 = make_v1(&d, 9);
        d.wire[v1.header + 1] = reading;
        assert_refused_at(&d, v1.header + 1);
    }
}

static void the_header_needs_as_many_accounts(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make_legacy(&d);
    d.wire[at.header + 2] = 3;
    assert_accepted(&d, 0);
    d.wire[at.header + 2] = 4;
    assert_refused_at(&d, at.header);
    struct places_v1 v1 = make_v1(&d, 9);
    d.wire[v1.header + 2] = 2;
    assert_accepted(&d, 1);
    d.wire[v1.header + 2] = 3;
    assert_refused_at(&d, v1.header);
}

static void a_key_may_stand_once(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make_legacy(&d);
    memcpy(d.wire + at.keys + 3 * 32, d.wire + at.keys + 32, 31);
    assert_accepted(&d, 0); /* the last byte differs */
    memcpy(d.wire + at.keys + 3 * 32, d.wire + at.keys + 32, 32);
    assert_refused_at(&d, at.keys + 3 * 32);
    struct places_v1 v1 = make_v1(&d, 9);
    memcpy(d.wire + v1.keys + 32, d.wire + v1.keys, 32);
    assert_refused_at(&d, v1.keys + 32);
}

static void programs_stand_in_the_message_and_do_not_pay(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make_legacy(&d);
    d.wire[at.program] = 0;
    assert_refused_at(&d, at.program);
    d.wire[at.program] = 5;
    assert_refused_at(&d, at.program);
    at = make_v0(&d);
    d.wire[at.program] = 5; /* an account from a lookup table */
    assert_refused_at(&d, at.program);
    struct places_v1 v1 = make_v1(&d, 9);
    d.wire[v1.instruction] = 0;
    assert_refused_at(&d, v1.instruction);
    d.wire[v1.instruction] = 4;
    assert_refused_at(&d, v1.instruction);
}

static void indexes_must_be_there(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make_legacy(&d);
    d.wire[at.accounts + 1] = 5;
    assert_refused_at(&d, at.accounts + 1);
    at = make_v0(&d);
    d.wire[at.accounts] = 8; /* 5 keys and 3 from the table */
    assert_refused_at(&d, at.accounts);
    struct places_v1 v1 = make_v1(&d, 9);
    d.wire[v1.accounts + 1] = 3;
    assert_accepted(&d, 1);
    d.wire[v1.accounts + 1] = 4;
    assert_refused_at(&d, v1.accounts + 1);
}

/* The same number in more bytes than needed, put where a count stands. */
static void assert_longer_form_refused(const struct draft *good, uint32_t count_at)
{
    struct draft d = *good;
    memmove(d.wire + count_at + 2, d.wire + count_at + 1, d.bytes - count_at - 1);
    d.wire[count_at] |= 0x80;
    d.wire[count_at + 1] = 0;
    d.bytes++;
    assert_refused_at(&d, count_at + 1);
}

static void counts_have_one_form(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make_v0(&d);
    assert_longer_form_refused(&d, at.key_count);
    assert_longer_form_refused(&d, at.instruction_count);
    assert_longer_form_refused(&d, at.program + 1);
    assert_longer_form_refused(&d, at.data_length);
    assert_longer_form_refused(&d, at.lookups);
    assert_longer_form_refused(&d, at.lookups + 1 + 32);
    assert_longer_form_refused(&d, at.lookups + 1 + 32 + 3);
    /* 65536 fits in three bytes of seven bits, not in 16 */
    memcpy(d.wire + at.data_length, "\x80\x80\x04", 3);
    assert_refused_at(&d, at.data_length + 2);
}

static void lookup_tables_are_used_and_few(void **state)
{
    (void)state;
    struct draft d;
    struct places at = make(&d, 1, (const uint8_t[]){0, 4}, 10);
    d.bytes = at.lookups + 1 + 32;
    add(&d, "\0\0", 2);
    assert_refused_at(&d, at.lookups + 1);
    /* 5 keys and 251 loaded are 256, one more is too many */
    for (uint8_t extra = 0; extra <= 1; extra++) {
        d.bytes = at.lookups + 1 + 32;
        add(&d, (const uint8_t[]){(uint8_t)(251 + extra), 1}, 2);
        d.bytes += 251u + extra;
        add_byte(&d, 0);
        if (extra == 0) {
            assert_accepted(&d, 0);
        } else {
            assert_refused_at(&d, at.lookups);
        }
    }
    d.wire[at.lookups] = 0; /* version 0 without tables is the common case */
    d.bytes = at.lookups + 1;
    assert_accepted(&d, 0);
}

static void v1_settings(void **state)
{
    (void)state;
    struct draft d;
    struct places_v1 at = make_v1(&d, 9);
    d.wire[at.mask] = 0x3f;
    assert_refused_at(&d, at.mask);
    d.wire[at.mask] = 0x1f;
    d.wire[at.mask + 3] = 0x80;
    assert_refused_at(&d, at.mask);
    d.wire[at.mask + 3] = 0;
    d.wire[at.mask] = 0x1e;
    assert_refused_at(&d, at.mask);
    d.wire[at.mask] = 0x1d;
    assert_refused_at(&d, at.mask);
    d.wire[at.mask] = 0x1f;
    static const struct {
        uint32_t heap;
        int good;
    } heaps[] = {{0, 0},          {31 * 1024, 0},  {32 * 1024, 1}, {32 * 1024 + 1, 0},
                 {256 * 1024, 1}, {257 * 1024, 0}, {UINT32_MAX, 0}};
    for (size_t i = 0; i < sizeof heaps / sizeof heaps[0]; i++) {
        for (int byte = 0; byte < 4; byte++) {
            d.wire[at.heap + (uint32_t)byte] = (uint8_t)(heaps[i].heap >> (8 * byte));
        }
        if (heaps[i].good) {
            assert_accepted(&d, 1);
        } else {
            assert_refused_at(&d, at.heap);
        }
    }
}

static void v1_limits(void **state)
{
    (void)state;
    struct draft d;
    struct places_v1 at = make_v1(&d, 9);
    d.wire[at.instruction_count] = 65;
    assert_refused_at(&d, at.instruction_count);
    make_v1(&d, 9);
    d.wire[at.key_count] = 65;
    assert_refused_at(&d, at.key_count);
    /* 64 keys and no instruction */
    memset(&d, 0, sizeof d);
    add(&d, "\x81\1\0\0\0\0\0\0", 8);
    add_distinct(&d, 1, 32);
    add(&d, "\0\x40", 2);
    add_distinct(&d, 64, 32);
    add_distinct(&d, 1, 64);
    assert_accepted(&d, 1);
}

static void garbage_is_only_refused(void **state)
{
    (void)state;
    uint64_t seed = 1;
    uint32_t refused = 0;
    for (int round = 0; round < 20000; round++) {
        struct draft d;
        if (round % 3 == 2) {
            make_v1(&d, 20);
        } else {
            make(&d, round % 3, (const uint8_t[]){0, 4}, 20);
        }
        for (int change = 0; change <= round % 4; change++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            d.wire[(seed >> 33) % d.bytes] = (uint8_t)(seed >> 25);
        }
        if (round % 5 == 0) {
            d.bytes = (uint32_t)(seed >> 40) % d.bytes + 1;
        }
        solsend_detail detail = {0};
        int rc = check_exact(d.wire, d.bytes, &detail);
        assert_true(rc == 0 || rc == 1 || rc == SOLSEND_ERR_TX_MALFORMED);
        assert_true(rc >= 0 || detail.offset <= d.bytes);
        refused += rc < 0;
    }
    assert_in_range(refused, 5000, 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_is_known),
        cmocka_unit_test(legacy_and_v0_end_at_1232),
        cmocka_unit_test(v1_ends_at_4096),
        cmocka_unit_test(nothing_is_empty),
        cmocka_unit_test(a_cut_is_refused_where_it_ends),
        cmocka_unit_test(what_follows_is_refused),
        cmocka_unit_test(signatures_must_be_those_of_the_header),
        cmocka_unit_test(first_bytes_that_start_no_transaction),
        cmocka_unit_test(somebody_must_be_able_to_pay),
        cmocka_unit_test(the_header_needs_as_many_accounts),
        cmocka_unit_test(a_key_may_stand_once),
        cmocka_unit_test(programs_stand_in_the_message_and_do_not_pay),
        cmocka_unit_test(indexes_must_be_there),
        cmocka_unit_test(counts_have_one_form),
        cmocka_unit_test(lookup_tables_are_used_and_few),
        cmocka_unit_test(v1_settings),
        cmocka_unit_test(v1_limits),
        cmocka_unit_test(garbage_is_only_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
