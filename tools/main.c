/* The `solsend` program: one table of subcommands. */
#include <stdio.h>
#include <string.h>

#include <solsend/solsend.h>

#include "command.h"

static int version_command(int argc, char **argv);
static int help_command(int argc, char **argv);

static const struct main_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} main_commands[] = {
    {"bench", bench_command, "measure warm sends over QUIC and UDP against the bare socket"},
    {"mock", mock_command, "stand in for a leader: a TPU server with profiles and faults"},
    {"send", send_command, "send one transaction over one link and say what became of it"},
    {"version", version_command, "this program and the libraries that it runs on"},
    {"help", help_command, "this list, or `solsend help COMMAND`"},
};

static void main_usage(FILE *out)
{
    fputs("Usage: solsend COMMAND [options]\n\n", out);
    for (size_t i = 0; i < sizeof main_commands / sizeof *main_commands; i++) {
        fprintf(out, "  %-9s %s\n", main_commands[i].name, main_commands[i].about);
    }
    fputs(
        "\nEach command explains itself with --help. Exit status: 0, 1 for a failure, 2 for wrong "
        "usage.\n",
        out);
}

static const struct main_command *main_find(const char *name)
{
    for (size_t i = 0; i < sizeof main_commands / sizeof *main_commands; i++) {
        if (strcmp(main_commands[i].name, name) == 0) {
            return &main_commands[i];
        }
    }
    return NULL;
}

static int version_command(int argc, char **argv)
{
    if (argc > 1) {
        if (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) {
            fprintf(stderr, "solsend version: unexpected argument \"%s\"\n", argv[1]);
            return 2;
        }
        puts("Usage: solsend version\n\nPrints the version of the library and of those below it, "
             "as loaded.");
        return 0;
    }
    puts(solsend_build_info());
    return 0;
}

static int help_command(int argc, char **argv)
{
    static char help[] = "--help";
    const struct main_command *command;
    if (argc < 2 || argv[1][0] == '-') {
        main_usage(stdout);
        return 0;
    }
    command = main_find(argv[1]);
    if (command == NULL || argc > 2) {
        fprintf(stderr, "solsend help: there is no command \"%s\"\n", argv[argc > 2 ? 2 : 1]);
        return 2;
    }
    if (command->run == help_command) {
        main_usage(stdout);
        return 0;
    }
    char *arguments[] = {argv[1], help, NULL};
    return command->run(2, arguments);
}

int main(int argc, char **argv)
{
    const struct main_command *command;
    if (argc < 2) {
        fputs("solsend: a command is missing (see solsend help)\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        main_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(solsend_build_info());
        return 0;
    }
    command = main_find(argv[1]);
    if (command == NULL) {
        fprintf(stderr, "solsend: there is no command \"%s\" (see solsend help)\n", argv[1]);
        return 2;
    }
    return command->run(argc - 1, argv + 1);
}
