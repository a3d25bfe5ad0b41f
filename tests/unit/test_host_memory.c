#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "fixture.h"
#include "host/memory.h"
#include "host/privilege.h"
#include "host/sysroot.h"
#include "steps.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static size_t resident_pages(const struct host_arena *arena)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t count = arena->bytes / page;
    unsigned char *map = calloc(count, 1);
    size_t resident = 0;
    if (map != NULL && mincore(arena->base, arena->bytes, map) == 0) {
        for (size_t i = 0; i < count; i++) {
            resident += map[i] & 1;
        }
    }
    free(map);
    return resident * page;
}

static int is_zero(const struct host_arena *arena)
{
    for (size_t i = 0; i < arena->bytes; i++) {
        if (arena->base[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static void every_page_is_there_at_open(void **state)
{
    (void)state;
    struct host_arena arena;
    uint32_t count = 7;
    assert_int_equal(host_arena_open(&arena, 1000003, 0, NULL, 0, &count), 0);
    assert_int_equal(count, 0);
    assert_true(arena.bytes >= 1000003);
    assert_int_equal((uintptr_t)arena.base % (size_t)sysconf(_SC_PAGESIZE), 0);
    assert_int_equal(resident_pages(&arena), arena.bytes);
    assert_true(is_zero(&arena));
    host_arena_close(&arena);
    assert_null(arena.base);
    host_arena_close(&arena);
}

/* Page faults of the calling thread so far. */
static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

static void writing_it_later_faults_no_more(void **state)
{
    (void)state;
    struct host_arena arena;
    assert_int_equal(host_arena_open(&arena, 4 * MIB, HOST_ARENA_LOCK, NULL, 0, NULL), 0);
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_true(zeros >= 0);
    long before = faults();
    /* The kernel writes: a sanitizer's own bookkeeping would fault beside us. */
    assert_int_equal(syscall(SYS_read, zeros, arena.base, arena.bytes), arena.bytes);
    assert_true(faults() - before < 64); /* untouched memory would cost 1024 */
    close(zeros);
    host_arena_close(&arena);
}

static void nothing_and_too_much_are_errors(void **state)
{
    (void)state;
    struct host_arena arena;
    uint32_t count = 7;
    assert_int_equal(host_arena_open(&arena, 0, 0, NULL, 0, &count), SOLSEND_ERR_USAGE);
    assert_int_equal(count, 0);
    assert_int_equal(host_arena_open(&arena, SIZE_MAX - 100, 0, NULL, 0, NULL), SOLSEND_ERR_MEMORY);
    assert_int_equal(host_arena_open(&arena, SIZE_MAX / 2, HOST_ARENA_HUGE, NULL, 0, NULL),
                     SOLSEND_ERR_MEMORY);
    assert_null(arena.base);
    host_arena_close(&arena);
}

static int body_limit(void)
{
    if (child_set_limit(RLIMIT_MEMLOCK, 64 * KIB) != 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    int64_t before = host_locked_bytes();
    CHILD_CHECK(before >= 0);

    solsend_step step;
    uint32_t count = 0;
    struct host_arena arena;
    CHILD_CHECK(host_arena_open(&arena, 2 * MIB, HOST_ARENA_LOCK, &step, 1, &count) == 0);
    CHILD_CHECK(count == 1 && step.step == SOLSEND_STEP_LOCK && step_is_whole(&step));
    CHILD_CHECK(step.code == SOLSEND_ERR_CLAMPED);
    CHILD_CHECK(step.wanted == 2 * MIB && step.got == 64 * KIB - before);
    CHILD_CHECK(strstr(step.why, "RLIMIT_MEMLOCK is 65536") != NULL);
    CHILD_CHECK(strstr(step.why, "CAP_IPC_LOCK is missing") != NULL);

    /* The kernel's own count agrees, and the arena works all the same. */
    CHILD_CHECK(host_locked_bytes() - before == step.got);
    CHILD_CHECK((int64_t)arena.locked_bytes == step.got);
    memset(arena.base, 7, arena.bytes);

    /* The program that hosts us can still have memory. */
    uint8_t *large = malloc((size_t)1024 * MIB);
    CHILD_CHECK(large != NULL);
    large[512 * MIB] = 1;
    CHILD_CHECK(large[512 * MIB] == 1);
    void *mapped =
        mmap(NULL, (size_t)64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHILD_CHECK(mapped != MAP_FAILED);
    free(large);

    /* With nothing left of the limit, the next one opens without any lock. */
    struct host_arena second;
    CHILD_CHECK(host_arena_open(&second, 128 * KIB, HOST_ARENA_LOCK, &step, 1, &count) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_PRIVILEGE && step.got == 0 && step_is_whole(&step));
    host_arena_close(&second);
    host_arena_close(&arena);
    CHILD_CHECK(host_locked_bytes() == before);
    return CHILD_OK;
}

static void a_small_lock_limit_harms_nobody(void **state)
{
    (void)state;
    EXPECT_CHILD(body_limit);
}

/* What the library must never do, to show that the test above would see it. */
static int body_lock_future(void)
{
    if (child_set_limit(RLIMIT_MEMLOCK, 64 * KIB) != 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    if (syscall(SYS_mlockall, MCL_FUTURE) != 0) {
        CHILD_SKIP("this kernel refuses MCL_FUTURE outright");
    }
    void *mapped =
        mmap(NULL, (size_t)64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHILD_CHECK(mapped == MAP_FAILED && errno == EAGAIN);
    return CHILD_OK;
}

static void locking_all_future_memory_would_harm(void **state)
{
    (void)state;
    EXPECT_CHILD(body_lock_future);
}

static int body_no_lock_at_all(void)
{
    if (child_set_limit(RLIMIT_MEMLOCK, 0) != 0 || child_drop_privileges() != 0) {
        CHILD_SKIP("privileges cannot be dropped");
    }
    solsend_step step;
    uint32_t count = 0;
    struct host_arena arena;
    host_set_sysroot("/nonexistent"); /* no /proc: then the text knows less, and is still true */
    CHILD_CHECK(host_arena_open(&arena, 64 * KIB, HOST_ARENA_LOCK, &step, 1, &count) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_PRIVILEGE && step.got == 0 && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "EPERM") != NULL);
    host_arena_close(&arena);
    return CHILD_OK;
}

static void a_refused_lock_is_no_error(void **state)
{
    (void)state;
    EXPECT_CHILD(body_no_lock_at_all);
}

static int body_lock_forbidden(void)
{
    if (child_set_limit(RLIMIT_MEMLOCK, RLIM_INFINITY) != 0) {
        CHILD_SKIP("the limit cannot be raised");
    }
    if (child_fake_call(SYS_mlock, -1, 0, EPERM) != 0) {
        CHILD_SKIP("no seccomp");
    }
    solsend_step step;
    uint32_t count = 0;
    struct host_arena arena;
    CHILD_CHECK(host_arena_open(&arena, 64 * KIB, HOST_ARENA_LOCK, &step, 1, &count) == 0);
    CHILD_CHECK(step.code == SOLSEND_ERR_NOT_SUPPORTED && step_is_whole(&step));
    CHILD_CHECK(strstr(step.why, "unlimited") != NULL);
    return CHILD_OK;
}

static void a_lock_refused_without_limit_says_so(void **state)
{
    (void)state;
    EXPECT_CHILD(body_lock_forbidden);
}

static void huge_pages_are_there_or_explained(void **state)
{
    (void)state;
    solsend_step steps[2];
    uint32_t count = 0;
    struct host_arena arena;
    assert_int_equal(
        host_arena_open(&arena, 100 * KIB, HOST_ARENA_HUGE | HOST_ARENA_LOCK, steps, 2, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(steps[0].step, SOLSEND_STEP_HUGE_PAGES);
    assert_int_equal(steps[1].step, SOLSEND_STEP_LOCK);
    assert_true(step_is_whole(&steps[0]));
    assert_true(step_is_whole(&steps[1]));
    if (arena.huge) {
        assert_int_equal(steps[0].code, 0);
        assert_int_equal(steps[0].got, arena.bytes);
    } else {
        assert_int_equal(steps[0].code, SOLSEND_ERR_NOT_SUPPORTED);
        assert_int_equal(steps[0].got, 0);
        assert_non_null(strstr(steps[0].why, "MAP_HUGETLB"));
        assert_non_null(strstr(steps[0].fix, "vm.nr_hugepages="));
        assert_true(arena.bytes < 1 * MIB);
    }
    assert_true(is_zero(&arena));
    host_arena_close(&arena);
}

static void the_fix_counts_the_huge_pages_needed(void **state)
{
    (void)state;
    struct fixture host;
    assert_int_equal(fixture_open(&host), 0);
    /* Another host's numbers; this machine may have huge pages all the same. */
    assert_int_equal(
        fixture_write(&host, "/proc/meminfo", "MemTotal: 1 kB\nHugepagesize:       2048 kB\n"), 0);
    assert_int_equal(fixture_write(&host, "/proc/sys/vm/nr_hugepages", "5\n"), 0);
    host_set_sysroot(host.root);
    solsend_step step;
    struct host_arena arena;
    int rc = host_arena_open(&arena, 5 * MIB, HOST_ARENA_HUGE, &step, 1, NULL);
    host_set_sysroot(NULL);
    fixture_close(&host);
    assert_int_equal(rc, 0);
    if (!arena.huge) {
        assert_non_null(strstr(step.why, "vm.nr_hugepages is 5, 3 needed"));
        assert_non_null(strstr(step.fix, "vm.nr_hugepages=8"));
    }
    host_arena_close(&arena);
}

static void a_secret_does_not_reach_a_child(void **state)
{
    (void)state;
    struct host_arena arena;
    solsend_step step;
    uint32_t count = 0;
    assert_int_equal(
        host_arena_open(&arena, 100, HOST_ARENA_SECRET | HOST_ARENA_LOCK, &step, 1, &count), 0);
    memset(arena.base, 0x5a, 100);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(is_zero(&arena) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(arena.base[99], 0x5a);
    host_arena_close(&arena);
}

static void a_secret_is_not_put_into_huge_pages(void **state)
{
    (void)state;
    struct host_arena arena;
    solsend_step step;
    assert_int_equal(
        host_arena_open(&arena, 100, HOST_ARENA_SECRET | HOST_ARENA_HUGE, &step, 1, NULL), 0);
    assert_int_equal(arena.huge, 0);
    assert_int_equal(step.code, SOLSEND_ERR_NOT_SUPPORTED);
    assert_true(step_is_whole(&step));
    host_arena_close(&arena);
}

/* "dd" in VmFlags is MADV_DONTDUMP, "wf" MADV_WIPEONFORK, "nh" MADV_NOHUGEPAGE. */
static int has_flags(const struct host_arena *arena, const char *const *flags, int count)
{
    char line[512];
    char start[32];
    int inside = 0;
    int found = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)arena->base);
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (strncmp(line, start, strlen(start)) == 0) {
            inside = 1;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            found = 1;
            for (int i = 0; i < count; i++) {
                found = found && strstr(line, flags[i]) != NULL;
            }
            break;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

static void a_secret_does_not_reach_a_core_dump(void **state)
{
    (void)state;
    static const char *const flags[] = {" dd", " wf"};
    struct host_arena arena;
    assert_int_equal(host_arena_open(&arena, 4 * MIB, HOST_ARENA_SECRET, NULL, 0, NULL), 0);
    assert_true(has_flags(&arena, flags, 2));
    host_arena_close(&arena);
    assert_int_equal(host_arena_open(&arena, 4 * MIB, 0, NULL, 0, NULL), 0);
    assert_false(has_flags(&arena, flags, 1));
    host_arena_close(&arena);
}

static void steps_that_do_not_fit_are_not_written(void **state)
{
    (void)state;
    solsend_step steps[2];
    uint32_t count = 0;
    struct host_arena arena;
    memset(steps, 0x11, sizeof steps);
    assert_int_equal(
        host_arena_open(&arena, 100, HOST_ARENA_HUGE | HOST_ARENA_LOCK, steps, 1, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(steps[0].step, SOLSEND_STEP_HUGE_PAGES);
    assert_int_equal(steps[1].step, 0x11111111);
    host_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_there_at_open),
        cmocka_unit_test(writing_it_later_faults_no_more),
        cmocka_unit_test(nothing_and_too_much_are_errors),
        cmocka_unit_test(a_small_lock_limit_harms_nobody),
        cmocka_unit_test(locking_all_future_memory_would_harm),
        cmocka_unit_test(a_refused_lock_is_no_error),
        cmocka_unit_test(a_lock_refused_without_limit_says_so),
        cmocka_unit_test(huge_pages_are_there_or_explained),
        cmocka_unit_test(the_fix_counts_the_huge_pages_needed),
        cmocka_unit_test(a_secret_does_not_reach_a_child),
        cmocka_unit_test(a_secret_is_not_put_into_huge_pages),
        cmocka_unit_test(a_secret_does_not_reach_a_core_dump),
        cmocka_unit_test(steps_that_do_not_fit_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
