#include "bench/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1 if `cpu` is in a list such as "0-3,8". */
static int place_in_list(const char *list, int cpu)
{
    while (*list != 0) {
        char *end;
        long low = strtol(list, &end, 10), high = low;
        if (end == list) {
            break;
        }
        if (*end == '-') {
            high = strtol(end + 1, &end, 10);
        }
        if (cpu >= low && cpu <= high) {
            return 1;
        }
        list = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static int place_are_siblings(int a, int b)
{
    char path[96], list[256] = "";
    FILE *f;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", a);
    f = fopen(path, "re");
    if (f != NULL) {
        if (fgets(list, sizeof list, f) == NULL) {
            list[0] = 0;
        }
        fclose(f);
    }
    return place_in_list(list, b);
}

static int place_peer(int cpu)
{
    char allowed[4096];
    int sibling = -1;
    if (solsend_host_cpus(allowed, sizeof allowed) < 0) {
        return -1;
    }
    for (int candidate = 0; candidate < 65536; candidate++) {
        if (candidate == cpu || !place_in_list(allowed, candidate)) {
            continue;
        }
        if (cpu < 0 || !place_are_siblings(cpu, candidate)) {
            return candidate;
        }
        sibling = sibling < 0 ? candidate : sibling;
    }
    return sibling;
}

int place_open(struct place *p, const solsend_host_options *options, int peer, char *why,
               size_t why_bytes)
{
    solsend_detail detail = {0};
    int rc;
    memset(p, 0, sizeof *p);
    p->cpu = -1;
    rc = solsend_host_apply(options, p->steps, sizeof p->steps / sizeof *p->steps, &p->latency,
                            &detail);
    for (uint32_t i = 0; i < sizeof p->steps / sizeof *p->steps && p->steps[i].step != 0; i++) {
        const solsend_step *s = &p->steps[i];
        p->step_count = i + 1;
        if (s->step == SOLSEND_STEP_PIN) {
            p->cpu = (int)s->got;
        }
        if (rc < 0 && s->code == rc) {
            snprintf(why, why_bytes, "%s: %s", s->name, s->why);
        }
    }
    if (rc < 0) {
        if (detail.text[0] != 0) {
            snprintf(why, why_bytes, "%s", detail.text);
        }
        place_close(p);
        return rc;
    }
    p->peer_cpu = peer >= 0 ? peer : place_peer(p->cpu);
    return 0;
}

void place_close(struct place *p)
{
    solsend_host_release_cpu_latency(p->latency);
    p->latency = NULL;
}
