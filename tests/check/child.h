/* Running a body in a child process of its own: privileges, limits and affinity can be given up
 * there, and a system call can be made to fail or to lie. */
#ifndef CHILD_H
#define CHILD_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_OK = 0, CHILD_FAILED = 1, CHILD_SKIPPED = 77 };

/* In a body: ends it as failed and says where. */
#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return CHILD_FAILED;                                                                   \
        }                                                                                          \
    } while (0)

/* In a body: ends it as skipped and says why. */
#define CHILD_SKIP(reason)                                                                         \
    do {                                                                                           \
        fprintf(stderr, "SKIP: %s\n", reason);                                                     \
        return CHILD_SKIPPED;                                                                      \
    } while (0)

/* In a test: runs the body, skips the test if it was skipped, fails it unless it returned OK. */
#define EXPECT_CHILD(body)                                                                         \
    do {                                                                                           \
        int child_result = child_run(body);                                                        \
        if (child_result == CHILD_SKIPPED) {                                                       \
            skip();                                                                                \
        }                                                                                          \
        assert_int_equal(child_result, CHILD_OK);                                                  \
    } while (0)

/* The body's result, or 256 + the signal that ended it. It has ten seconds. */
static inline int child_run(int (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        _exit(body());
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return CHILD_FAILED;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Becomes an ordinary user without any capability. Returns 0, or -1 if that cannot be had. */
static inline int child_drop_privileges(void)
{
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
        return -1;
    }
    return geteuid() == 0 ? -1 : 0;
}

static inline int child_set_limit(int resource, uint64_t value)
{
    struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    return setrlimit((__rlimit_resource_t)resource, &limit);
}

/*
 * From now on the system call `number`, if its argument `index` (-1: whatever its arguments) is
 * `value`, is not made and gives `error`; 0 pretends that it worked. Returns 0, or -1 where there
 * is no seccomp.
 */
static inline int child_fake_call(int number, int index, uint32_t value, uint32_t error)
{
    uint32_t argument = (uint32_t)(offsetof(struct seccomp_data, args) + (size_t)index * 8);
    struct sock_filter with_argument[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter without[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {
        .len = index < 0 ? sizeof without / sizeof without[0]
                         : sizeof with_argument / sizeof with_argument[0],
        .filter = index < 0 ? without : with_argument,
    };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#endif
