#include "check.h"

#include <stdlib.h>

#include "link/pool.h"

enum { POOLED = !POOL_WATCHED };

enum { REGION = 256 * 1024, BLOCKS = 400, ROUNDS = 20000 };

static void blocks_are_aligned_apart_and_keep_their_bytes(void **state)
{
    (void)state;
    struct pool p;
    uint8_t *region = aligned_alloc(64, REGION);
    pool_open(&p, region, REGION);
    uint8_t *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    uint32_t x = 1;
    for (int round = 0; round < ROUNDS; round++) {
        x = x * 1664525 + 1013904223;
        unsigned i = (x >> 8) % BLOCKS;
        if (blocks[i] != NULL) {
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(blocks[i][k], (uint8_t)i);
            }
            if (x & 1) {
                p.mem.free(blocks[i], p.mem.user_data);
                blocks[i] = NULL;
                continue;
            }
        }
        size_t bytes = (x >> 16) % 900 + 1;
        blocks[i] = p.mem.realloc(blocks[i], bytes, p.mem.user_data);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, bytes);
        sizes[i] = bytes;
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        p.mem.free(blocks[i], p.mem.user_data);
    }
    assert_int_equal(p.in_use, 0);
    assert_true(p.carved <= REGION);
    free(region);
}

static void freed_blocks_serve_again(void **state)
{
    (void)state;
    struct pool p;
    uint8_t *region = aligned_alloc(64, 4096);
    pool_open(&p, region, 4096);
    void *a = p.mem.malloc(100, p.mem.user_data);
    p.mem.free(a, p.mem.user_data);
    size_t carved = p.carved;
    for (int i = 0; i < 1000; i++) {
        void *b = p.mem.malloc(97 + i % 4, p.mem.user_data);
        assert_true(!POOLED || a == b);
        p.mem.free(b, p.mem.user_data);
    }
    assert_int_equal(p.carved, carved);
    assert_true(!POOLED || p.overflows == 0);
    free(region);
}

static void an_empty_region_falls_back_to_malloc(void **state)
{
    (void)state;
    struct pool p;
    uint64_t region[8];
    pool_open(&p, (uint8_t *)region, 32);
    void *a = p.mem.malloc(500, p.mem.user_data);
    void *b = p.mem.calloc(1 << 20, 1, p.mem.user_data);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(((uint8_t *)b)[(1 << 20) - 1], 0);
    assert_int_equal(p.overflows, 2);
    p.mem.free(a, p.mem.user_data);
    p.mem.free(b, p.mem.user_data);
    p.mem.free(NULL, p.mem.user_data);
    assert_int_equal(p.in_use, 0);
    assert_null(p.mem.calloc(SIZE_MAX / 2, 4, p.mem.user_data));
    assert_null(p.mem.malloc(SIZE_MAX - 4, p.mem.user_data));
}

static void every_size_has_a_class_that_holds_it(void **state)
{
    (void)state;
    struct pool p;
    uint8_t *region = aligned_alloc(64, 1 << 20);
    for (size_t bytes = 1; bytes <= 70000; bytes += 1 + bytes / 37) {
        pool_open(&p, region, 1 << 20);
        uint8_t *a = p.mem.malloc(bytes, p.mem.user_data);
        uint8_t *b = p.mem.malloc(bytes, p.mem.user_data);
        assert_non_null(a);
        assert_non_null(b);
        assert_true(b > a ? b >= a + bytes : a >= b + bytes);
        assert_int_equal(p.overflows, bytes > 65536 || !POOLED ? 2 : 0);
        p.mem.free(a, p.mem.user_data);
        p.mem.free(b, p.mem.user_data);
    }
    free(region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_apart_and_keep_their_bytes),
        cmocka_unit_test(freed_blocks_serve_again),
        cmocka_unit_test(an_empty_region_falls_back_to_malloc),
        cmocka_unit_test(every_size_has_a_class_that_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
