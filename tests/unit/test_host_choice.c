#include "check.h"

#include <solsend/host.h>

#include "fixture.h"
#include "host/cgroup.h"
#include "host/cpu_choice.h"
#include "host/isolation.h"
#include "host/sysroot.h"

static struct fixture host;

static int open_host(void **state)
{
    (void)state;
    if (fixture_open(&host) != 0) {
        return -1;
    }
    host_set_sysroot(host.root);
    return 0;
}

static int close_host(void **state)
{
    (void)state;
    host_set_sysroot(NULL);
    fixture_close(&host);
    return 0;
}

static void put(const char *path, const char *text)
{
    assert_int_equal(fixture_write(&host, path, text), 0);
}

static void put_siblings(int cpu, const char *list)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    put(path, list);
}

/* The choice for a caller on `current`, with lists of allowed, isolated and taken CPUs. */
static int32_t choose(int32_t current, const char *allowed, const char *isolated, const char *taken)
{
    struct host_cpu_choice choice = {.current = current};
    assert_int_equal(host_cpus_parse(&choice.allowed, allowed), 0);
    assert_int_equal(host_cpus_parse(&choice.isolated, isolated), 0);
    assert_int_equal(host_cpus_parse(&choice.taken, taken), 0);
    int32_t cpu = host_cpu_choice_best(&choice);
    host_cpu_choice_close(&choice);
    return cpu;
}

static void auto_takes_an_allowed_cpu_and_not_zero(void **state)
{
    (void)state;
    assert_int_equal(choose(4, "4-5", "", ""), 4);
    assert_int_equal(choose(0, "0-3", "", ""), 1);
    assert_int_equal(choose(0, "0", "", ""), 0); /* nothing else is there */
    assert_int_equal(choose(-1, "1500-1600", "", ""), 1500);
    assert_int_equal(choose(0, "", "", ""), -1);
}

static void auto_prefers_isolated_cpus(void **state)
{
    (void)state;
    assert_int_equal(choose(1, "0-7", "6-7", ""), 6);
    assert_int_equal(choose(1, "0-3", "6-7", ""), 1); /* isolated, but not ours */
    assert_int_equal(choose(1, "0-2047", "2000-2047", ""), 2000);
}

static void auto_avoids_the_cpus_of_pinned_threads(void **state)
{
    (void)state;
    assert_int_equal(choose(2, "0-3", "", "2"), 1);
    assert_int_equal(choose(6, "0-7", "6-7", "6"), 7);
    assert_int_equal(choose(1, "1-2", "", "1-2"), 1); /* all taken: still an answer */
}

static void auto_avoids_smt_siblings(void **state)
{
    (void)state;
    put_siblings(2, "2,6");
    put_siblings(6, "2,6");
    put_siblings(3, "3,7");
    put_siblings(7, "3,7");
    assert_int_equal(choose(6, "2-3", "", ""), 3);  /* 2 shares its core with the caller's CPU */
    assert_int_equal(choose(0, "2-3", "", "7"), 2); /* 3 shares its core with a pinned thread's */
    assert_int_equal(choose(0, "3,7", "", "3"), 7); /* unavoidable */
    assert_int_equal(choose(2, "2-3", "", ""), 2);  /* its own core is no sibling */
}

static int isolated(int32_t cpu)
{
    return solsend_host_cpu_is_isolated(cpu);
}

static void isolcpus_are_isolated(void **state)
{
    (void)state;
    assert_int_equal(isolated(2), 0); /* no file at all */
    put("/sys/devices/system/cpu/isolated", "2-3,1100\n");
    assert_int_equal(isolated(1), 0);
    assert_int_equal(isolated(2), 1);
    assert_int_equal(isolated(1100), 1);
    assert_int_equal(isolated(1101), 0);
    assert_int_equal(isolated(-1), SOLSEND_ERR_BAD_OPTION);
    put("/sys/devices/system/cpu/isolated", "\n");
    assert_int_equal(isolated(2), 0);
}

static void a_cgroup_partition_isolates_all_below_it(void **state)
{
    (void)state;
    put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
    put("/proc/self/cgroup", "0::/bots/one/inner\n");
    put("/sys/fs/cgroup/bots/cpuset.cpus.partition", "isolated\n");
    put("/sys/fs/cgroup/bots/cpuset.cpus.effective", "4-5\n");
    put("/sys/fs/cgroup/bots/one/inner/cpuset.cpus.partition", "member\n");
    assert_int_equal(isolated(4), 1);
    assert_int_equal(isolated(6), 0);
    put("/sys/fs/cgroup/bots/cpuset.cpus.partition",
        "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n");
    assert_int_equal(isolated(4), 0);
    put("/sys/fs/cgroup/bots/cpuset.cpus.partition", "root\n");
    assert_int_equal(isolated(4), 0); /* exclusive, but balanced like any other */
}

static void in_a_container_the_mount_is_the_group(void **state)
{
    (void)state;
    put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
    put("/sys/fs/cgroup/cpuset.cpus.partition", "isolated\n");
    put("/sys/fs/cgroup/cpuset.cpus.effective", "8\n");
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(isolated(8), 1);
    put("/proc/self/cgroup", "0::/docker/0123abc\n"); /* the host's path, absent here */
    assert_int_equal(isolated(8), 1);
    put("/proc/self/cgroup", "0::/../../outside\n"); /* never followed */
    assert_int_equal(isolated(8), 1);
}

static void version_one_groups_are_found_by_controller(void **state)
{
    (void)state;
    char text[64];
    put("/proc/self/cgroup", "12:cpuset:/a\n4:cpu,cpuacct:/docker/7\n1:name=systemd:/x\n0::/\n");
    assert_true(host_cgroup_read("cpu", "cpu.rt_runtime_us", text, sizeof text) < 0);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.rt_runtime_us", "0\n");
    assert_int_equal(host_cgroup_read("cpu", "cpu.rt_runtime_us", text, sizeof text), 1);
    assert_string_equal(text, "0");
    put("/sys/fs/cgroup/cpuset/a/cpuset.cpus", "2-3\n");
    assert_int_equal(host_cgroup_read("cpuset", "cpuset.cpus", text, sizeof text), 3);
    assert_string_equal(text, "2-3");
    assert_true(host_cgroup_read("memory", "memory.limit_in_bytes", text, sizeof text) < 0);
}

static void files_are_read_whole_or_cut(void **state)
{
    (void)state;
    char text[5];
    int64_t number = 0;
    put("/a", "12345678\n");
    put("/b", "");
    put("/c", "12 apples\n");
    assert_int_equal(host_sysroot_read("/a", text, sizeof text), 4);
    assert_string_equal(text, "1234");
    assert_int_equal(host_sysroot_read("/b", text, sizeof text), 0);
    assert_int_equal(host_sysroot_read("/none", text, sizeof text), -ENOENT);
    assert_string_equal(text, "");
    assert_int_equal(host_sysroot_number("/a", &number), 0);
    assert_int_equal(number, 12345678);
    assert_int_equal(host_sysroot_number("/b", &number), -EINVAL);
    assert_int_equal(host_sysroot_number("/c", &number), -EINVAL);
}

#define ON_HOST(test) cmocka_unit_test_setup_teardown(test, open_host, close_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_HOST(auto_takes_an_allowed_cpu_and_not_zero),
        ON_HOST(auto_prefers_isolated_cpus),
        ON_HOST(auto_avoids_the_cpus_of_pinned_threads),
        ON_HOST(auto_avoids_smt_siblings),
        ON_HOST(isolcpus_are_isolated),
        ON_HOST(a_cgroup_partition_isolates_all_below_it),
        ON_HOST(in_a_container_the_mount_is_the_group),
        ON_HOST(version_one_groups_are_found_by_controller),
        ON_HOST(files_are_read_whole_or_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
