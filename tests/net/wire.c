#include "wire.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? write(fd, text, strlen(text)) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* Root has namespaces; others get them inside a user namespace, where the host allows it. */
static int become_root_of_something(void)
{
    char map[32];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0) {
        return 0;
    }
    if (unshare(CLONE_NEWUSER) != 0) {
        return -1;
    }
    snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
    if (write_file("/proc/self/setgroups", "deny") != 0 ||
        write_file("/proc/self/uid_map", map) != 0) {
        return -1;
    }
    snprintf(map, sizeof map, "0 %u 1", (unsigned)gid);
    return write_file("/proc/self/gid_map", map);
}

/* A new namespace, kept by a process that sleeps in it, so that `ip` can name it. */
static int add_host(struct wire *wire, enum wire_host host)
{
    if (unshare(CLONE_NEWNET) != 0) {
        return -1;
    }
    /* no second of waiting for duplicate addresses that cannot be */
    (void)write_file("/proc/sys/net/ipv6/conf/all/accept_dad", "0");
    (void)write_file("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
    wire->ns[host] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    pid_t parent = getpid();
    wire->keepers[host] = fork();
    if (wire->keepers[host] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    return wire->ns[host] >= 0 && wire->keepers[host] > 0 ? 0 : -1;
}

void wire_enter(const struct wire *wire, enum wire_host host)
{
    if (setns(wire->ns[host], CLONE_NEWNET) != 0) {
        abort();
    }
}

int wire_run(const struct wire *wire, enum wire_host host, const char *command)
{
    wire_enter(wire, host);
    int status = system(command);
    wire_enter(wire, WIRE_CLIENT);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int connect_hosts(const struct wire *wire, uint32_t mtu)
{
    char text[1024];
    snprintf(text, sizeof text,
             "set -e; ip link set lo up; ip link add c0 type veth peer name r0 netns %d;"
             "ip addr add 10.77.1.2/24 dev c0; ip addr add fd77:1::2/64 dev c0 nodad || true;"
             "ip link set c0 up",
             (int)wire->keepers[WIRE_ROUTER]);
    if (wire_run(wire, WIRE_CLIENT, text) != 0) {
        return -1;
    }
    snprintf(text, sizeof text,
             "set -e; ip link add r1 type veth peer name l0 netns %d; ip link set r1 mtu %u;"
             "ip addr add 10.77.1.1/24 dev r0; ip addr add 10.77.2.1/24 dev r1;"
             "ip addr add fd77:1::1/64 dev r0 nodad || true;"
             "ip addr add fd77:2::1/64 dev r1 nodad || true;"
             "ip link set r0 up; ip link set r1 up; echo 1 > /proc/sys/net/ipv4/ip_forward;"
             "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding || true",
             (int)wire->keepers[WIRE_LEADER], mtu);
    if (wire_run(wire, WIRE_ROUTER, text) != 0) {
        return -1;
    }
    snprintf(text, sizeof text,
             "set -e; ip link set lo up; ip addr add 10.77.2.2/24 dev l0;"
             "ip addr add fd77:2::2/64 dev l0 nodad || true; ip link set l0 up mtu %u;"
             "ip route add default via 10.77.2.1; ip -6 route add default via fd77:2::1 || true",
             mtu);
    if (wire_run(wire, WIRE_LEADER, text) != 0) {
        return -1;
    }
    return wire_run(wire, WIRE_CLIENT,
                    "ip route add default via 10.77.1.1;"
                    "ip -6 route add default via fd77:1::1 || true");
}

int wire_open(struct wire *wire, uint32_t mtu, const char **why)
{
    memset(wire, 0, sizeof *wire);
    *why = "no network namespaces here";
    if (become_root_of_something() != 0 || add_host(wire, WIRE_LEADER) != 0 ||
        add_host(wire, WIRE_ROUTER) != 0 || add_host(wire, WIRE_CLIENT) != 0) {
        return -1;
    }
    *why = "ip(8) or veth is missing";
    return connect_hosts(wire, mtu);
}

void wire_close(struct wire *wire)
{
    for (int i = 0; i < WIRE_HOSTS; i++) {
        if (wire->keepers[i] > 0) {
            kill(wire->keepers[i], SIGKILL);
            waitpid(wire->keepers[i], NULL, 0);
            close(wire->ns[i]);
        }
    }
}

int wire_drop_icmp(const struct wire *wire)
{
    return wire_run(wire, WIRE_ROUTER,
                    "nft -f - 2>/dev/null <<'END'\n"
                    "table inet hole {\n"
                    "  chain out {\n"
                    "    type filter hook output priority 0;\n"
                    "    icmp type destination-unreachable drop\n"
                    "    icmpv6 type packet-too-big drop\n"
                    "  }\n"
                    "}\n"
                    "END\n") == 0
               ? 0
               : -1;
}

uint64_t wire_fragments(const struct wire *wire, enum wire_host host)
{
    char line[2][1024] = {"", ""};
    uint64_t sum = 0;
    wire_enter(wire, host);
    FILE *file = fopen("/proc/net/snmp", "r");
    if (file != NULL && fgets(line[0], sizeof line[0], file) != NULL &&
        fgets(line[1], sizeof line[1], file) != NULL) {
        char *names = line[0], *values = line[1];
        char *name, *value;
        while ((name = strsep(&names, " \n")) != NULL && (value = strsep(&values, " \n")) != NULL) {
            if (strcmp(name, "FragCreates") == 0 || strcmp(name, "ReasmReqds") == 0) {
                sum += strtoull(value, NULL, 10);
            }
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    file = fopen("/proc/net/snmp6", "r");
    char name[64];
    unsigned long long value;
    while (file != NULL && fscanf(file, "%63s %llu", name, &value) == 2) {
        if (strcmp(name, "Ip6FragCreates") == 0 || strcmp(name, "Ip6ReasmReqds") == 0) {
            sum += value;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    wire_enter(wire, WIRE_CLIENT);
    return sum;
}
