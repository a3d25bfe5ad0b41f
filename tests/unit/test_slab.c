#include "check.h"

#include <stdlib.h>

#include "link/slab.h"

enum { SLOTS = 8 };

static struct slab slab;
static uint8_t *memory;

static int set_up(void **state)
{
    (void)state;
    memory = aligned_alloc(64, (size_t)slab_bytes(SLOTS)); /* exactly: a sanitizer sees beyond */
    if (memory == NULL) {
        return -1;
    }
    memset(memory, 0xcc,
           (size_t)slab_bytes(SLOTS)); /* arenas are zeroed; it must not depend on it */
    slab_open(&slab, SLOTS, memory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static uint32_t take(uint64_t user, uint32_t priority)
{
    uint32_t index = slab_take(&slab);
    assert_int_not_equal(index, SLOTS_NONE);
    struct slab_entry *e = slab_entry(&slab, index);
    e->user = user;
    e->priority = priority;
    e->quiet = 0;
    e->call_ns = 1000 + user;
    return index;
}

static solsend_event drained(void)
{
    solsend_event e;
    memset(&e, 0xcc, sizeof e);
    assert_int_equal(slab_drain(&slab, &e), 1);
    assert_int_equal(e.lane + e.peer + e.reserved, 0);
    return e;
}

static void nothing_to_drain(void)
{
    solsend_event e;
    assert_int_equal(slab_drain(&slab, &e), 0);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static void every_slot_has_room_of_its_own(void **state)
{
    (void)state;
    assert_int_equal((uintptr_t)slab.entries % 64, 0);
    assert_int_equal((uintptr_t)slab_wire(&slab, 0) % 64, 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t index = take(i, 0);
        struct slab_entry *e = slab_entry(&slab, index);
        assert_int_equal(slab_index(&slab, e), index);
        assert_ptr_equal(e, &e->flight); /* a flight's address is its entry's */
        memset(slab_wire(&slab, index), (int)(index + 1), SLAB_WIRE_BYTES);
        assert_int_equal(e->state, SLAB_WAITING);
        assert_int_equal(e->flight.stream_id, -1);
        assert_int_equal(e->flight.offset + e->flight.packets + e->flight.early, 0);
        assert_int_equal(e->written_ns + e->peer_code + e->value, 0);
        assert_int_equal(e->code | e->kind | e->tell | e->has_event | e->waited, 0);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(slab_entry(&slab, i)->user, i);
        assert_int_equal(slab_wire(&slab, i)[0], i + 1);
        assert_int_equal(slab_wire(&slab, i)[SLAB_WIRE_BYTES - 1], i + 1);
    }
    assert_int_equal(slab_bytes(1) % 64, 0);
    assert_true(slab_bytes(SLAB_COUNT_MAX) >
                (uint64_t)SLAB_COUNT_MAX * (SLAB_WIRE_BYTES + sizeof(struct slab_entry)));
}

/* ---- one ticket's life ------------------------------------------------------------------------
 */

static void an_end_is_told_once_and_frees_the_slot(void **state)
{
    (void)state;
    uint32_t index = take(5, 0);
    uint64_t ticket = slots_ticket(&slab.slots, index);
    slab_entry(&slab, index)->peer_code = 7;
    slab_entry(&slab, index)->value = 99;
    assert_int_equal(slab.open_count, 1);
    slab_end(&slab, index, SOLSEND_EVENT_STOPPED, SOLSEND_ERR_STOPPED, 5000);
    assert_int_equal(slab.open_count, 0);
    assert_int_equal(slots_find(&slab.slots, ticket), index); /* until it is drained */
    solsend_event e = drained();
    assert_int_equal(e.kind, SOLSEND_EVENT_STOPPED);
    assert_int_equal(e.code, SOLSEND_ERR_STOPPED);
    assert_int_equal(e.peer_code, 7);
    assert_int_equal(e.value, 99);
    assert_int_equal(e.t_ns, 5000);
    assert_int_equal(e.user, 5);
    assert_true(e.ticket == ticket);
    assert_int_equal(slots_find(&slab.slots, ticket), SLOTS_NONE);
    nothing_to_drain();
    assert_int_equal(slab.slots.used, 0);
}

static void written_is_told_before_the_end(void **state)
{
    (void)state;
    uint32_t index = take(1, 0);
    slab_entry(&slab, index)->written_ns = 1501;
    slab_tell_written(&slab, index);
    solsend_event e = drained(); /* drained in between: two visits to the list */
    assert_int_equal(e.kind, SOLSEND_EVENT_WRITTEN);
    assert_int_equal(e.t_ns, 1501);
    assert_int_equal(e.value, 500);
    nothing_to_drain();
    assert_int_equal(slab.open_count, 1);
    slab_end(&slab, index, SOLSEND_EVENT_ACKED, 0, 2000);
    assert_int_equal(drained().kind, SOLSEND_EVENT_ACKED);
    nothing_to_drain();

    index = take(2, 0);
    slab_entry(&slab, index)->written_ns = 1502;
    slab_tell_written(&slab, index);
    slab_end(&slab, index, SOLSEND_EVENT_ACKED, 0, 2000); /* not drained in between: one */
    uint64_t ticket = slots_ticket(&slab.slots, index);
    e = drained();
    assert_int_equal(e.kind, SOLSEND_EVENT_WRITTEN);
    assert_int_equal(e.value, 500);
    assert_true(e.ticket == ticket);
    assert_int_equal(slots_find(&slab.slots, ticket), index); /* the end is still to come */
    e = drained();
    assert_int_equal(e.kind, SOLSEND_EVENT_ACKED);
    assert_true(e.ticket == ticket);
    nothing_to_drain();
}

static void written_as_the_end_is_told_once(void **state)
{
    (void)state;
    uint32_t index = take(3, 0);
    slab_entry(&slab, index)->written_ns = 1103;
    slab_tell_written(&slab, index);
    slab_end(&slab, index, SOLSEND_EVENT_WRITTEN, 0, 9999);
    solsend_event e = drained();
    assert_int_equal(e.kind, SOLSEND_EVENT_WRITTEN);
    assert_int_equal(e.t_ns, 1103);
    assert_int_equal(e.value, 100);
    nothing_to_drain();
    assert_int_equal(slab.slots.used, 0);
}

static void quiet_ones_speak_only_of_failure(void **state)
{
    (void)state;
    uint32_t index = take(1, 0);
    slab_entry(&slab, index)->quiet = 1;
    slab_tell_written(&slab, index);
    nothing_to_drain();
    slab_end(&slab, index, SOLSEND_EVENT_ACKED, 0, 2000);
    nothing_to_drain();
    assert_int_equal(slab.slots.used, 0); /* free at once */

    index = take(2, 0);
    slab_entry(&slab, index)->quiet = 1;
    slab_tell_written(&slab, index);
    slab_end(&slab, index, SOLSEND_EVENT_EXPIRED, SOLSEND_ERR_NOT_ACKED, 2000);
    assert_int_equal(slab.slots.used, 1);
    solsend_event e = drained();
    assert_int_equal(e.kind, SOLSEND_EVENT_EXPIRED);
    nothing_to_drain();
    assert_int_equal(slab.slots.used, 0);
}

static void a_full_slab_takes_nothing_until_ends_are_drained(void **state)
{
    (void)state;
    uint32_t indexes[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        indexes[i] = take(i, 0);
    }
    assert_int_equal(slab_take(&slab), SLOTS_NONE);
    assert_int_equal(slab.open_count, SLOTS);
    slab_end(&slab, indexes[3], SOLSEND_EVENT_ACKED, 0, 1);
    assert_int_equal(slab_take(&slab), SLOTS_NONE); /* its event still needs it */
    drained();
    assert_int_equal(slab_take(&slab), indexes[3]);
    assert_int_equal(slab_take(&slab), SLOTS_NONE);
}

/* ---- the waiting ------------------------------------------------------------------------------
 */

static void those_that_wait_stand_by_priority_then_newest(void **state)
{
    (void)state;
    const struct {
        uint64_t user;
        uint32_t priority;
    } in[] = {{1, 0}, {2, 5}, {3, 5}, {4, 0}, {5, UINT32_MAX}, {6, 1}, {7, 5}, {8, 0}};
    static const uint64_t out[] = {5, 7, 3, 2, 6, 8, 4, 1};
    for (uint32_t i = 0; i < SLOTS; i++) {
        slab_wait(&slab, take(in[i].user, in[i].priority));
    }
    assert_int_equal(slab.wait_count, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t head = slab.wait_head;
        assert_int_equal(slab_entry(&slab, head)->user, out[i]);
        assert_int_equal(slab_entry(&slab, head)->state, SLAB_WAITING);
        slab_unwait(&slab, head);
    }
    assert_int_equal(slab.wait_head, SLOTS_NONE);
    assert_int_equal(slab.wait_count, 0);
}

static void anyone_can_leave_the_queue(void **state)
{
    (void)state;
    uint32_t a = take(1, 3), b = take(2, 2), c = take(3, 1), d = take(4, 0);
    slab_wait(&slab, a);
    slab_wait(&slab, b);
    slab_wait(&slab, c);
    slab_unwait(&slab, b);
    slab_unwait(&slab, d); /* not in it: nothing happens */
    slab_unwait(&slab, b);
    assert_int_equal(slab.wait_count, 2);
    assert_int_equal(slab.wait_head, a);
    slab_unwait(&slab, a);
    assert_int_equal(slab.wait_head, c);
    slab_wait(&slab, a);
    assert_int_equal(slab.wait_head, a); /* back where its priority puts it */
    slab_unwait(&slab, a);
    slab_unwait(&slab, c);
    assert_int_equal(slab.wait_count, 0);
}

/* ---- against a naive model --------------------------------------------------------------------
 */

/*
 * Arrays searched from end to end instead of lists. Events: each ticket's in the order in which it
 * entered the list, WRITTEN before its end.
 */
enum { MODEL_OPEN = 1, MODEL_ENDED = 2 };

struct model_ticket {
    uint64_t ticket;
    uint64_t user;
    uint64_t event_order; /* 0: no event due */
    uint64_t wait_order;  /* 0: does not wait */
    uint32_t index;
    uint32_t priority;
    uint32_t kind;
    int state;
    int tell;
    int quiet;
};

static struct {
    struct model_ticket tickets[SLOTS];
    int count;
    uint64_t order;
} model;

static uint64_t random_state = 3;

static uint64_t draw(uint64_t below)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static void model_remove(int i)
{
    model.tickets[i] = model.tickets[--model.count];
}

static int model_pick(int state)
{
    int found = -1, seen = 0;
    for (int i = 0; i < model.count; i++) {
        if (model.tickets[i].state == state && draw((uint64_t)++seen) == 0) {
            found = i;
        }
    }
    return found;
}

static void model_queue(struct model_ticket *t)
{
    if (t->event_order == 0) {
        t->event_order = ++model.order;
    }
}

static void do_take(uint64_t user)
{
    uint32_t index = slab_take(&slab);
    assert_int_equal(index == SLOTS_NONE, model.count == SLOTS);
    if (index == SLOTS_NONE) {
        return;
    }
    struct model_ticket *t = &model.tickets[model.count++];
    *t = (struct model_ticket){.user = user, .index = index, .state = MODEL_OPEN};
    t->ticket = slots_ticket(&slab.slots, index);
    t->priority = (uint32_t)draw(3);
    t->quiet = draw(4) == 0;
    struct slab_entry *e = slab_entry(&slab, index);
    e->user = user;
    e->priority = t->priority;
    e->quiet = (uint8_t)t->quiet;
}

static void do_wait(int i)
{
    struct model_ticket *t = &model.tickets[i];
    if (t->wait_order != 0) {
        t->wait_order = 0;
        slab_unwait(&slab, t->index);
    } else {
        t->wait_order = ++model.order;
        slab_wait(&slab, t->index);
    }
}

static void do_tell(int i)
{
    struct model_ticket *t = &model.tickets[i];
    slab_tell_written(&slab, t->index);
    if (!t->quiet) {
        t->tell = 1;
        model_queue(t);
    }
}

static void do_end(int i)
{
    static const uint32_t kinds[] = {SOLSEND_EVENT_WRITTEN, SOLSEND_EVENT_ACKED,
                                     SOLSEND_EVENT_EXPIRED, SOLSEND_EVENT_CANCELLED};
    struct model_ticket *t = &model.tickets[i];
    t->kind = kinds[draw(4)];
    int failed = t->kind > SOLSEND_EVENT_ACKED;
    if (t->wait_order != 0) {
        do_wait(i);
    }
    slab_end(&slab, t->index, t->kind, failed ? SOLSEND_ERR_CANCELLED : 0, 1);
    if (t->quiet && !failed) {
        model_remove(i);
        return;
    }
    t->state = MODEL_ENDED;
    model_queue(t);
}

static void do_drain(void)
{
    int first = -1;
    for (int i = 0; i < model.count; i++) {
        uint64_t order = model.tickets[i].event_order;
        if (order != 0 && (first < 0 || order < model.tickets[first].event_order)) {
            first = i;
        }
    }
    solsend_event e;
    assert_int_equal(slab_drain(&slab, &e), first >= 0);
    if (first < 0) {
        return;
    }
    struct model_ticket *t = &model.tickets[first];
    assert_true(e.ticket == t->ticket);
    assert_int_equal(e.user, t->user);
    int ends = t->state == MODEL_ENDED && (!t->tell || t->kind == SOLSEND_EVENT_WRITTEN);
    assert_int_equal(e.kind, ends ? t->kind : SOLSEND_EVENT_WRITTEN);
    t->tell = 0;
    if (ends) {
        model_remove(first);
    } else if (t->state == MODEL_OPEN) {
        t->event_order = 0;
    }
}

static void compare(void)
{
    uint32_t open = 0, waiting = 0;
    uint64_t last_user = 0;
    for (int i = 0; i < model.count; i++) {
        open += model.tickets[i].state == MODEL_OPEN;
        waiting += model.tickets[i].wait_order != 0;
        assert_int_equal(slots_find(&slab.slots, model.tickets[i].ticket), model.tickets[i].index);
    }
    assert_int_equal(slab.slots.used, model.count);
    assert_int_equal(slab.open_count, open);
    assert_int_equal(slab.wait_count, waiting);
    for (uint32_t i = slab.open_head; i != SLOTS_NONE; i = slab_entry(&slab, i)->open_next) {
        assert_true(slab_entry(&slab, i)->user > last_user); /* oldest first */
        last_user = slab_entry(&slab, i)->user;
        assert_true(open-- > 0);
    }
    assert_int_equal(open, 0);
    /* the queue: each stands right behind the one that the rule puts before it */
    uint32_t priority = UINT32_MAX;
    uint64_t order = UINT64_MAX;
    for (uint32_t i = slab.wait_head; i != SLOTS_NONE; i = slab_entry(&slab, i)->wait_next) {
        const struct model_ticket *t = NULL;
        for (int k = 0; k < model.count; k++) {
            if (model.tickets[k].index == i && model.tickets[k].wait_order != 0) {
                t = &model.tickets[k];
            }
        }
        assert_non_null(t);
        assert_true(t->priority < priority || (t->priority == priority && t->wait_order < order));
        priority = t->priority;
        order = t->wait_order;
        assert_true(waiting-- > 0);
    }
    assert_int_equal(waiting, 0);
}

static void many_lives_agree_with_the_model(void **state)
{
    (void)state;
    uint64_t user = 0;
    memset(&model, 0, sizeof model);
    for (int step = 0; step < 200000; step++) {
        int open = model_pick(MODEL_OPEN);
        switch (draw(8)) {
        case 0:
        case 1:
        case 2:
            do_take(++user);
            break;
        case 3:
            if (open >= 0) {
                do_wait(open);
            }
            break;
        case 4:
            if (open >= 0) {
                do_tell(open);
            }
            break;
        case 5:
            if (open >= 0) {
                do_end(open);
            }
            break;
        default:
            do_drain();
        }
        compare();
    }
    assert_true(user > 10000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_slot_has_room_of_its_own),
        TEST(an_end_is_told_once_and_frees_the_slot),
        TEST(written_is_told_before_the_end),
        TEST(written_as_the_end_is_told_once),
        TEST(quiet_ones_speak_only_of_failure),
        TEST(a_full_slab_takes_nothing_until_ends_are_drained),
        TEST(those_that_wait_stand_by_priority_then_newest),
        TEST(anyone_can_leave_the_queue),
        TEST(many_lives_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
