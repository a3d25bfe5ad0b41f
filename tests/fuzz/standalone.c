/*
 * Runs a fuzz target without libFuzzer, with any compiler: every file of the directories (or every
 * file) given, then changed copies of them, the same ones in every run, until the time is up.
 *
 *     smoke_<target> [-seconds=S] [-runs=N] DIRECTORY|FILE…
 *
 * If the target ends the process, the input is left in smoke-crash.bin; give it that file alone
 * and -runs=0 to see it again.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

enum { SEEDS_MAX = 1024, INPUT_BYTES_MAX = 8192 };

struct input {
    uint8_t *data;
    size_t bytes;
};

static struct input seeds[SEEDS_MAX];
static size_t seed_count;
static struct input current;
static uint64_t random_state = 1;

#pragma weak LLVMFuzzerInitialize
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void keep_input(void)
{
    int fd = open("smoke-crash.bin", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) {
        ssize_t n = write(fd, current.data, current.bytes);
        static const char done[] = "the input is in smoke-crash.bin\n";
        n += write(STDERR_FILENO, done, sizeof done - 1);
        (void)n;
        close(fd);
    }
}

static void on_signal(int number)
{
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_the_end(void)
{
    signal(SIGABRT, on_signal);
    signal(SIGILL, on_signal);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(keep_input); /* it has its own report of the others */
        return;
    }
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGFPE, on_signal);
}

static uint64_t draw(uint64_t below)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return below > 0 ? (z ^ z >> 31) % below : 0;
}

/* The target gets memory of exactly the input's size, so that a sanitizer sees one byte too far. */
static void run(const uint8_t *data, size_t bytes)
{
    current.data = malloc(bytes > 0 ? bytes : 1);
    current.bytes = bytes;
    if (bytes > 0) {
        memcpy(current.data, data, bytes);
    }
    LLVMFuzzerTestOneInput(current.data, bytes);
    free(current.data);
}

static void load_file(const char *path)
{
    static uint8_t content[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL || seed_count == SEEDS_MAX) {
        fprintf(stderr, "cannot take %s\n", path);
        exit(2);
    }
    struct input *seed = &seeds[seed_count++];
    seed->bytes = fread(content, 1, sizeof content, file);
    seed->data = malloc(seed->bytes > 0 ? seed->bytes : 1);
    memcpy(seed->data, content, seed->bytes);
    fclose(file);
}

/* In the order of their names: readdir's differs between file systems. */
static void load_directory(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];
        struct stat status;
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (stat(name, &status) == 0 && S_ISREG(status.st_mode)) {
            load_file(name);
        }
        free(entries[i]);
    }
    free(entries);
}

static void load(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        fprintf(stderr, "%s is not there\n", path);
    } else if (S_ISDIR(status.st_mode)) {
        load_directory(path);
    } else {
        load_file(path);
    }
}

/* Values at which parsers turn. */
static uint8_t telling_byte(void)
{
    static const uint8_t bytes[] = {0,   1,   2,   3,   4,   31,  32,  33,  63,  64,  65,  127,
                                    128, 129, 130, 254, 255, '[', ']', ',', ' ', '0', '9', '\n'};
    return bytes[draw(sizeof bytes)];
}

static size_t insert(uint8_t *data, size_t bytes, const uint8_t *piece, size_t piece_bytes)
{
    size_t at = draw(bytes + 1);
    if (piece_bytes > INPUT_BYTES_MAX - bytes) {
        piece_bytes = INPUT_BYTES_MAX - bytes;
    }
    memmove(data + at + piece_bytes, data + at, bytes - at);
    memcpy(data + at, piece, piece_bytes);
    return bytes + piece_bytes;
}

static size_t change(uint8_t *data, size_t bytes)
{
    uint8_t piece[64];
    size_t length = 1 + draw(sizeof piece);
    size_t at = draw(bytes);
    switch (bytes > 0 ? draw(8) : 6) {
    case 0:
        data[at] ^= (uint8_t)(1u << draw(8));
        return bytes;
    case 1:
        data[at] = telling_byte();
        return bytes;
    case 2:
        data[at] = (uint8_t)draw(256);
        return bytes;
    case 3: /* take a piece out */
        length = length < bytes - at ? length : bytes - at;
        memmove(data + at, data + at + length, bytes - at - length);
        return bytes - length;
    case 4: /* cut */
        return at;
    case 5: /* repeat a piece */
        length = length < bytes - at ? length : bytes - at;
        memcpy(piece, data + at, length);
        return insert(data, bytes, piece, length);
    case 6: /* something new, most often short */
        length = 1 + draw(draw(4) == 0 ? sizeof piece : 3);
        for (size_t i = 0; i < length; i++) {
            piece[i] = draw(2) == 0 ? telling_byte() : (uint8_t)draw(256);
        }
        return insert(data, bytes, piece, length);
    default: { /* a piece of another input */
        const struct input *other = &seeds[draw(seed_count)];
        size_t from = draw(other->bytes);
        length = length < other->bytes - from ? length : other->bytes - from;
        return insert(data, bytes, other->data + from, length);
    }
    }
}

static void run_changed(void)
{
    static uint8_t data[INPUT_BYTES_MAX];
    const struct input *seed = &seeds[draw(seed_count)];
    size_t bytes = seed->bytes;
    memcpy(data, seed->data, bytes);
    for (uint64_t changes = 1 + draw(4); changes > 0; changes--) {
        bytes = change(data, bytes);
    }
    run(data, bytes);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    double seconds = 2;
    uint64_t runs = UINT64_MAX;
    if (LLVMFuzzerInitialize != NULL) {
        LLVMFuzzerInitialize(&argc, &argv);
    }
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-seconds=", 9) == 0) {
            seconds = strtod(argv[i] + 9, NULL);
        } else if (strncmp(argv[i], "-runs=", 6) == 0) {
            runs = strtoull(argv[i] + 6, NULL, 10);
        } else {
            load(argv[i]);
        }
    }
    catch_the_end();

    size_t files = seed_count;
    for (size_t i = 0; i < files; i++) {
        run(seeds[i].data, seeds[i].bytes);
    }
    run(NULL, 0);
    if (seed_count == 0) {
        seeds[seed_count++].data = calloc(1, 1); /* start from nothing */
    }
    uint64_t done = 0;
    for (double until = seconds_now() + seconds; done < runs && seconds_now() < until; done++) {
        run_changed();
    }
    printf("%zu files, %llu changed inputs\n", files, (unsigned long long)done);
    for (size_t i = 0; i < seed_count; i++) {
        free(seeds[i].data);
    }
    return 0;
}
