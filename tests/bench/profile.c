#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/allocations.h"

extern char **environ;

static int profile_in_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[4096];
    while (path != NULL && *path != 0) {
        size_t n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program);
        if (access(file, X_OK) == 0) {
            return 1;
        }
        path += n + (path[n] == ':');
    }
    return 0;
}

int profile_available(char *why, size_t why_bytes)
{
    if (!allocations_available()) {
        snprintf(why, why_bytes, "a sanitized build cannot run under valgrind");
        return 0;
    }
    if (!profile_in_path("valgrind")) {
        snprintf(why, why_bytes, "valgrind is not installed");
        return 0;
    }
    return 1;
}

/* Runs it with its output thrown away; valgrind's own complaints are kept in `log`. */
static int profile_spawn(const char **arguments, const char *log)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    if (posix_spawnp(&pid, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments,
                     environ) == 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

/* The last line that the failed program wrote. */
static void profile_complaint(const char *log, char *why, size_t why_bytes)
{
    char line[300];
    FILE *f = fopen(log, "re");
    snprintf(why, why_bytes, "valgrind failed");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "==", 2) != 0 && line[0] != 0) {
            snprintf(why, why_bytes, "%s", line);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

int profile_send(struct suite *s, uint32_t bytes, const char *features, struct callgrind *out,
                 char *why, size_t why_bytes)
{
    char directory[] = "/tmp/solsend-callgrind-XXXXXX", file[64], file_option[100], log[64];
    char program[450], sends[16], size[16], words[100], *save = NULL;
    const char *arguments[16] = {"valgrind",
                                 "--tool=callgrind",
                                 "--toggle-collect=instructions_measured",
                                 "--compress-strings=no",
                                 "--compress-pos=no",
                                 "--fair-sched=yes",
                                 file_option,
                                 program,
                                 sends,
                                 size};
    int n = 10, rc;
    if (mkdtemp(directory) == NULL) {
        snprintf(why, why_bytes, "/tmp: %s", strerror(errno));
        return -1;
    }
    snprintf(file, sizeof file, "%s/profile", directory);
    snprintf(log, sizeof log, "%s/log", directory);
    snprintf(file_option, sizeof file_option, "--callgrind-out-file=%s", file);
    snprintf(program, sizeof program, "%s/instructions", s->programs);
    snprintf(sends, sizeof sends, "%u", PROFILE_SENDS);
    snprintf(size, sizeof size, "%u", bytes);
    snprintf(words, sizeof words, "%s", features);
    for (char *word = strtok_r(words, " ", &save); word != NULL && n < 15;
         word = strtok_r(NULL, " ", &save)) {
        arguments[n++] = word;
    }
    rc = profile_spawn(arguments, log) == 0 ? callgrind_read(out, file, why, why_bytes) : -1;
    if (rc != 0 && access(file, R_OK) != 0) {
        profile_complaint(log, why, why_bytes);
    }
    (void)unlink(file);
    (void)unlink(log);
    (void)rmdir(directory);
    return rc;
}

int profile_is_own(const struct callgrind_function *f)
{
    return (strcmp(f->object, "instructions") == 0 ||
            strncmp(f->object, "libsolsend", strlen("libsolsend")) == 0) &&
           strcmp(f->name, "instructions_measured") != 0;
}

double profile_own(const struct callgrind *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        sum += profile_is_own(&c->functions[i]) ? c->functions[i].instructions : 0;
    }
    return (double)sum / PROFILE_SENDS;
}
