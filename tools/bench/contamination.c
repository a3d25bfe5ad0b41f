#include "bench/contamination.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

static int64_t contamination_steal(int cpu)
{
    char line[512], name[32];
    long hertz = sysconf(_SC_CLK_TCK);
    int64_t steal = -1;
    FILE *f = cpu < 0 || hertz <= 0 ? NULL : fopen("/proc/stat", "re");
    if (f == NULL) {
        return -1;
    }
    snprintf(name, sizeof name, "cpu%d ", cpu);
    while (fgets(line, sizeof line, f) != NULL) {
        /* user nice system idle iowait irq softirq steal */
        if (strncmp(line, name, strlen(name)) == 0 &&
            sscanf(line, "%*s %*d %*d %*d %*d %*d %*d %*d %" SCNd64, &steal) == 1) {
            steal = steal * 1000 / hertz;
            break;
        }
    }
    fclose(f);
    return steal;
}

static int64_t contamination_runqueue(void)
{
    char path[64];
    int64_t wait = -1;
    FILE *f;
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    f = fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%*d %" SCNd64, &wait) != 1) {
            wait = -1;
        }
        fclose(f);
    }
    return wait;
}

/* 1 if `name` is one of the comma-separated `controllers`. */
static int contamination_has(const char *controllers, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = controllers; (at = strstr(at, name)) != NULL; at += bytes) {
        if ((at == controllers || at[-1] == ',') && (at[bytes] == 0 || at[bytes] == ',')) {
            return 1;
        }
    }
    return 0;
}

static int contamination_try(char *path, size_t bytes, const char *controllers, const char *name)
{
    snprintf(path, bytes, "/sys/fs/cgroup%s%s%s/cpu.stat", *controllers == 0 ? "" : "/",
             controllers, name);
    return access(path, R_OK) == 0;
}

/*
 * Finds the cpu.stat of our own cgroup, v2 or v1. Inside a container the mount often shows our
 * group as the root, so the path without the group's name is tried too.
 */
static int contamination_cgroup(char *path, size_t bytes)
{
    char line[768];
    int found = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (!found && f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *controllers = strchr(line, ':'), *name;
        if (controllers == NULL || (name = strchr(++controllers, ':')) == NULL) {
            continue;
        }
        *name++ = 0;
        name[strcspn(name, "\n")] = 0;
        if (*controllers == 0 || contamination_has(controllers, "cpu")) {
            found = contamination_try(path, bytes, controllers, name) ||
                    contamination_try(path, bytes, controllers, "");
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

static void contamination_throttling(struct contamination *out)
{
    char path[1024], line[128];
    FILE *f = contamination_cgroup(path, sizeof path) ? fopen(path, "re") : NULL;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        int64_t value;
        if (sscanf(line, "nr_throttled %" SCNd64, &value) == 1) {
            out->throttled_periods = value;
        } else if (sscanf(line, "throttled_time %" SCNd64, &value) == 1) { /* v1: ns */
            out->throttled_ns = value;
        } else if (sscanf(line, "throttled_usec %" SCNd64, &value) == 1) { /* v2 */
            out->throttled_ns = value * 1000;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

static int64_t contamination_softnet(void)
{
    char line[256];
    int64_t dropped = -1;
    FILE *f = fopen("/proc/net/softnet_stat", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        unsigned value;
        if (sscanf(line, "%*x %x", &value) == 1) {
            dropped = (dropped < 0 ? 0 : dropped) + value;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return dropped;
}

void contamination_read_host(struct contamination *out, int cpu)
{
    out->steal_ms = contamination_steal(cpu);
    out->throttled_periods = out->throttled_ns = -1;
    contamination_throttling(out);
    out->softnet_dropped = contamination_softnet();
}

void contamination_read_thread(struct contamination *out)
{
    struct rusage usage;
    out->involuntary_switches = out->voluntary_switches = -1;
    out->minor_faults = out->major_faults = -1;
    out->runqueue_wait_ns = contamination_runqueue();
    if (getrusage(RUSAGE_THREAD, &usage) == 0) {
        out->involuntary_switches = usage.ru_nivcsw;
        out->voluntary_switches = usage.ru_nvcsw;
        out->minor_faults = usage.ru_minflt;
        out->major_faults = usage.ru_majflt;
    }
}

static void contamination_subtract(int64_t *after, int64_t before)
{
    *after = *after < 0 || before < 0 ? -1 : *after - before;
}

void contamination_since(struct contamination *after, const struct contamination *before)
{
    contamination_subtract(&after->involuntary_switches, before->involuntary_switches);
    contamination_subtract(&after->voluntary_switches, before->voluntary_switches);
    contamination_subtract(&after->minor_faults, before->minor_faults);
    contamination_subtract(&after->major_faults, before->major_faults);
    contamination_subtract(&after->runqueue_wait_ns, before->runqueue_wait_ns);
    contamination_subtract(&after->steal_ms, before->steal_ms);
    contamination_subtract(&after->throttled_periods, before->throttled_periods);
    contamination_subtract(&after->throttled_ns, before->throttled_ns);
    contamination_subtract(&after->softnet_dropped, before->softnet_dropped);
}

int contamination_is_bad(const struct contamination *c, uint64_t run_ns)
{
    return c->throttled_periods > 0 || c->major_faults > 0 ||
           (c->steal_ms > 0 && (uint64_t)c->steal_ms * CLOCK_NS_PER_MS > run_ns / 1000) ||
           (c->runqueue_wait_ns > 0 && (uint64_t)c->runqueue_wait_ns > run_ns / 1000);
}
