/* The `solsend` program as its user sees it: exit status, one clear line, files that can be read.
 */
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "json_check.h"

static const char *program;

static char out[400000], err[20000];

static void slurp(FILE *f, char *into, size_t room)
{
    size_t n;
    rewind(f);
    n = fread(into, 1, room - 1, f);
    into[n] = 0;
    fclose(f);
}

/* Runs the program with the words of `line`; returns its exit status. */
static int run(const char *line)
{
    char words[400], *save = NULL, *arguments[32] = {NULL};
    FILE *o = tmpfile(), *e = tmpfile();
    int n = 0, status = -1;
    pid_t child;
    assert_true(o != NULL && e != NULL);
    snprintf(words, sizeof words, "%s %s", program, line);
    for (char *w = strtok_r(words, " ", &save); w != NULL && n < 31;
         w = strtok_r(NULL, " ", &save)) {
        arguments[n++] = w;
    }
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fileno(o), STDOUT_FILENO);
        dup2(fileno(e), STDERR_FILENO);
        execv(program, arguments);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    slurp(o, out, sizeof out);
    slurp(e, err, sizeof err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text != 0; text++) {
        n += *text == '\n';
    }
    return n;
}

static void wrong_usage_is_status_2_and_one_line_that_names_it(void **state)
{
    static const struct {
        const char *line, *names;
    } wrong[] = {
        {"", "command"},
        {"fly", "fly"},
        {"help fly", "fly"},
        {"version now", "now"},
        {"bench --rate fast", "--rate fast"},
        {"bench --rate -5", "--rate -5"},
        {"bench --bytes 20", "--bytes 20"},
        {"bench --bytes 1233", "--bytes 1233"},
        {"bench --count 0", "--count 0"},
        {"bench --transport tcp", "--transport tcp"},
        {"bench --profile jito", "--profile jito"},
        {"bench --policy fifo:100", "--policy fifo:100"},
        {"bench --nice 20", "--nice 20"},
        {"bench --cpu x", "--cpu x"},
        {"bench --peer 127.0.0.1:1", "--peer 127.0.0.1:1"},
        {"bench --peer quic://127.0.0.1:1", "--peer"},
        {"bench --json", "--json"},
        {"bench --wings", "--wings"},
        {"bench extra", "extra"},
        {"send", "URI"},
        {"send udp://127.0.0.1:1 more", "one URI"},
        {"send udp://127.0.0.1:1 --timeout 0", "--timeout 0"},
        {"mock --wings", "wings"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int status = run(wrong[i].line);
        if (status != 2 || lines(err) != 1 || strstr(err, wrong[i].names) == NULL || out[0] != 0) {
            fail_msg("solsend %s: status %d, said: %s%s", wrong[i].line, status, err, out);
        }
    }
}

static void every_command_explains_itself(void **state)
{
    static const char *const commands[] = {"bench", "mock", "send", "version", "help"};
    char line[64];
    (void)state;
    assert_int_equal(run("--help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_non_null(strstr(out, commands[i]));
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(line, sizeof line, "%s --help", commands[i]);
        assert_int_equal(run(line), 0);
        assert_non_null(strstr(out, "Usage: solsend"));
        assert_string_equal(err, "");
    }
    assert_int_equal(run("version"), 0);
    assert_non_null(strstr(out, "ngtcp2 1."));
}

static void a_failure_is_status_1_and_says_why(void **state)
{
    (void)state;
    assert_int_equal(run("send quic://host:port"), 1);
    assert_non_null(strstr(err, "quic://host:port"));
    assert_int_equal(run("send udp://127.0.0.1:9 --file /nonexistent/tx"), 1);
    assert_non_null(strstr(err, "/nonexistent/tx"));
    assert_int_equal(run("bench --key /nonexistent/key"), 1);
    assert_non_null(strstr(err, "--key"));
    assert_int_equal(lines(err), 1);
    assert_int_equal(run("bench --count 100 --rounds 1 --rate 5000 --transport udp --json "
                         "/nonexistent/directory/x.json"),
                     1);
    assert_non_null(strstr(err, "/nonexistent/directory/x.json"));
}

/* The text after the first `"name": ` of `from`. */
static const char *member(const char *from, const char *name)
{
    char quoted[64];
    const char *at;
    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    at = strstr(from, quoted);
    if (at == NULL) {
        fail_msg("no member %s", name);
        abort();
    }
    return at + strlen(quoted);
}

static void a_bench_accounts_for_every_send_in_its_json(void **state)
{
    static const char *const latencies[] = {"send_ns", "intended_ns", "one_way_ns"};
    static const char *const points[] = {"p50", "p90", "p99", "p999", "max"};
    static const char *const evenness[] = {"mean", "sd", "mad", "sd_without_worst_10", "max"};
    const char *run_text, *floor_text;
    (void)state;
    assert_int_equal(run("bench --count 400 --warm-up 50 --rounds 2 --rate 2000 --json -"), 0);
    if (json_check(out) != NULL) {
        fail_msg("not JSON at: %.60s", json_check(out));
    }
    member(out, "allocations_hot_thread");
    member(out, "packets_per_tx");
    member(out, "syscalls_per_tx");
    run_text = member(out, "runs");
    floor_text = member(out, "floor");
    assert_true(floor_text > run_text);
    for (int i = 0; i < 4; i++) { /* two rounds of two transports */
        int quic;
        run_text = member(run_text, "transport");
        assert_true(run_text < floor_text);
        quic = strncmp(run_text, "\"quic\"", 6) == 0;
        assert_int_equal(atoi(member(run_text, "bytes")), 250);
        assert_int_equal(strncmp(member(run_text, "drive"), "\"inline\"", 8), 0);
        assert_int_equal(atoi(member(run_text, "count")), 400);
        assert_int_equal(atoi(member(run_text, "accepted")), 400);
        if (quic) {
            assert_int_equal(atoi(member(run_text, "acked")), 400);
            assert_int_equal(atoi(member(run_text, "unaccounted")), 0);
        }
        for (int k = 0; k < 3; k++) {
            const char *latency = member(run_text, latencies[k]);
            long before = 0;
            for (int p = 0; p < 5; p++) {
                long value = atol(member(latency, points[p]));
                assert_true(value >= before);
                before = value;
            }
            assert_true(before > 0);
        }
        for (int k = 0; k < 5; k++) {
            assert_true(atof(member(member(run_text, "intersend_ns"), evenness[k])) >= 0);
        }
        assert_true(atof(member(member(run_text, "intersend_ns"), "mean")) > 100000);
        member(member(run_text, "contamination"), "involuntary_switches");
    }
    assert_int_equal(strncmp(member(floor_text, "transport"), "\"raw\"", 5), 0);
}

/* Starts `solsend mock` and returns its process; `uri` gets what it says it listens on. */
static pid_t start_mock(char *uri, size_t uri_bytes)
{
    int ends[2];
    pid_t child;
    FILE *f;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "mock", "--listen", "127.0.0.1:0", "--quiet", "--duration", "30",
              "--fault", "throttle=off", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    f = fdopen(ends[0], "r");
    assert_non_null(f);
    assert_non_null(fgets(uri, (int)uri_bytes, f));
    uri[strcspn(uri, " \n")] = 0;
    fclose(f);
    return child;
}

static void a_mock_of_another_process_acknowledges_and_leaves_arrivals_unknown(void **state)
{
    char uri[200], line[300];
    pid_t mock = start_mock(uri, sizeof uri);
    int status;
    (void)state;
    assert_int_equal(strncmp(uri, "quic://127.0.0.1:", 17), 0);
    snprintf(line, sizeof line, "send %s", uri);
    status = run(line);
    if (status == 0) {
        assert_non_null(strstr(out, "admitted"));
        assert_non_null(strstr(out, "acked"));
        snprintf(line, sizeof line,
                 "bench --transport quic --count 300 --rounds 1 --rate 2000 --json - --peer %s",
                 uri);
        status = run(line);
    }
    kill(mock, SIGTERM);
    waitpid(mock, NULL, 0);
    if (status != 0) {
        fail_msg("solsend %s: status %d: %s", line, status, err);
    }
    assert_null(json_check(out));
    assert_int_equal(atoi(member(out, "acked")), 300);
    assert_int_equal(strncmp(member(out, "accepted"), "null", 4), 0);
    assert_int_equal(strncmp(member(out, "one_way_ns"), "null", 4), 0);
}

static void the_table_fits_one_screen_and_the_plot_is_an_svg(void **state)
{
    char line[200], path[64];
    int fd;
    FILE *f;
    (void)state;
    snprintf(path, sizeof path, "/tmp/solsend-plot-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(line, sizeof line, "bench --count 300 --rounds 1 --rate 2000 --bytes 1232 --plot %s",
             path);
    assert_int_equal(run(line), 0);
    assert_true(lines(out) <= 50);
    for (const char *l = out; *l != 0; l += strcspn(l, "\n") + 1) {
        if (strcspn(l, "\n") > 100) {
            fail_msg("longer than 100: %.*s", (int)strcspn(l, "\n"), l);
        }
    }
    f = fopen(path, "r");
    assert_non_null(f);
    slurp(f, out, sizeof out);
    unlink(path);
    assert_int_equal(strncmp(out, "<svg ", 5), 0);
    assert_string_equal(out + strlen(out) - 7, "</svg>\n");
    assert_null(strstr(out, "nan"));
    assert_null(strstr(out, "inf"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_is_status_2_and_one_line_that_names_it),
        cmocka_unit_test(every_command_explains_itself),
        cmocka_unit_test(a_failure_is_status_1_and_says_why),
        cmocka_unit_test(a_bench_accounts_for_every_send_in_its_json),
        cmocka_unit_test(a_mock_of_another_process_acknowledges_and_leaves_arrivals_unknown),
        cmocka_unit_test(the_table_fits_one_screen_and_the_plot_is_an_svg),
    };
    if (argc != 2) {
        fputs("usage: test_program PROGRAM\n", stderr);
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
