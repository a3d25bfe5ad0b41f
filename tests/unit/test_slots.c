#include "check.h"

#include "base/slots.h"

static void every_slot_once_then_full(void **state)
{
    (void)state;
    uint64_t memory[8];
    struct slots s;
    assert_int_equal(slots_bytes(4), 32);
    slots_open(&s, 4, memory);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(slots_take(&s), i);
    }
    assert_int_equal(slots_take(&s), SLOTS_NONE);
    assert_int_equal(s.used, 4);
}

static void stale_tickets_are_known(void **state)
{
    (void)state;
    uint64_t memory[8];
    struct slots s;
    slots_open(&s, 4, memory);
    uint32_t i = slots_take(&s);
    uint64_t ticket = slots_ticket(&s, i);
    assert_true(ticket != 0);
    assert_int_equal(slots_find(&s, ticket), i);
    slots_give(&s, i);
    assert_int_equal(slots_find(&s, ticket), SLOTS_NONE);
    assert_int_equal(slots_take(&s), i);
    assert_int_equal(slots_find(&s, ticket), SLOTS_NONE);
    assert_true(slots_ticket(&s, i) != ticket);
    assert_int_equal(slots_find(&s, 0), SLOTS_NONE);
    assert_int_equal(slots_find(&s, UINT64_MAX), SLOTS_NONE);
    assert_int_equal(slots_find(&s, UINT64_C(1) << 32 | 2), SLOTS_NONE); /* never taken */
}

static void generation_skips_zero(void **state)
{
    (void)state;
    uint64_t memory[2];
    struct slots s;
    slots_open(&s, 1, memory);
    assert_int_equal(slots_take(&s), 0);
    s.generation[0] = UINT32_MAX;
    slots_give(&s, 0);
    assert_int_equal(slots_take(&s), 0);
    assert_int_equal(slots_ticket(&s, 0), UINT64_C(1) << 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_once_then_full),
        cmocka_unit_test(stale_tickets_are_known),
        cmocka_unit_test(generation_skips_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
