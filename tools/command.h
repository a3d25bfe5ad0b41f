/* The subcommands of the `solsend` program: each gets its own name as argv[0]. */
#ifndef COMMAND_H
#define COMMAND_H

/* They return the exit status: 0, 1 for a failure, 2 for wrong usage (one line on stderr). */
int bench_command(int argc, char **argv);
int mock_command(int argc, char **argv);
int send_command(int argc, char **argv);

#endif
