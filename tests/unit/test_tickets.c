#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "child.h"
#include "link/tickets.h"

enum { KEPT = 16 };

static void put(const char *name, uint8_t mark)
{
    struct ticket t;
    memset(&t, mark, sizeof t);
    snprintf(t.name, sizeof t.name, "%s", name);
    t.session_bytes = TICKETS_SESSION_BYTES;
    t.params_bytes = 100;
    tickets_put(&t);
}

static int get(const char *name)
{
    struct ticket t;
    memset(&t, 0, sizeof t);
    if (!tickets_get(&t, name)) {
        return -1;
    }
    assert_string_equal(t.name, name);
    assert_int_equal(t.session_bytes, TICKETS_SESSION_BYTES);
    assert_int_equal(t.params_bytes, 100);
    for (size_t i = 0; i < sizeof t.session; i++) {
        assert_int_equal(t.session[i], t.params[0]); /* of one make */
    }
    return t.params[0];
}

static void what_was_put_comes_back_until_dropped(void **state)
{
    (void)state;
    assert_int_equal(get("peer a"), -1); /* before the first put too */
    tickets_drop("peer a");
    put("peer a", 1);
    put("peer b", 2);
    assert_int_equal(get("peer a"), 1);
    assert_int_equal(get("peer a"), 1);
    assert_int_equal(get("peer b"), 2);
    assert_int_equal(get("peer"), -1);
    put("peer a", 3); /* the newest counts */
    assert_int_equal(get("peer a"), 3);
    assert_int_equal(get("peer b"), 2);
    tickets_drop("peer a");
    assert_int_equal(get("peer a"), -1);
    assert_int_equal(get("peer b"), 2);
    tickets_drop("peer b");
}

static void the_oldest_makes_room(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < KEPT + 5; i++) {
        snprintf(name, sizeof name, "peer %d", i);
        put(name, (uint8_t)i);
    }
    for (int i = 0; i < KEPT + 5; i++) {
        snprintf(name, sizeof name, "peer %d", i);
        assert_int_equal(get(name), i < 5 ? -1 : i);
    }
}

static int has_none_and_may_keep_its_own(void)
{
    struct ticket t;
    CHILD_CHECK(!tickets_get(&t, "peer 7"));
    memset(&t, 0, sizeof t);
    snprintf(t.name, sizeof t.name, "peer of the child");
    tickets_put(&t);
    CHILD_CHECK(tickets_get(&t, "peer of the child"));
    return CHILD_OK;
}

static void a_child_does_not_inherit_them(void **state)
{
    (void)state;
    put("peer 7", 7);
    EXPECT_CHILD(has_none_and_may_keep_its_own);
    assert_int_equal(get("peer 7"), 7);
    assert_int_equal(get("peer of the child"), -1);
}

static atomic_int stopping;

static void *put_all_the_time(void *argument)
{
    (void)argument;
    while (!stopping) {
        put("peer x", 9);
    }
    return NULL;
}

/* Another thread holds the lock at any moment: the child must never find it locked for ever. */
static void forking_under_load_leaves_no_lock_behind(void **state)
{
    (void)state;
    pthread_t thread;
    stopping = 0;
    assert_int_equal(pthread_create(&thread, NULL, put_all_the_time, NULL), 0);
    int failed = 0;
    for (int i = 0; i < 100 && !failed; i++) {
        failed = child_run(has_none_and_may_keep_its_own) != CHILD_OK;
    }
    stopping = 1;
    pthread_join(thread, NULL);
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_comes_back_until_dropped),
        cmocka_unit_test(the_oldest_makes_room),
        cmocka_unit_test(a_child_does_not_inherit_them),
        cmocka_unit_test(forking_under_load_leaves_no_lock_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
