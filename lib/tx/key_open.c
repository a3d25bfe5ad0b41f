/* Opening a key from where the caller keeps it: a text, a file, the environment. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/detail.h"
#include "tx/key.h"
#include "tx/key_text.h"

enum { RAW_SEED_BYTES = 32 };

static int open_checked(solsend_key **out, const struct key_text *text, solsend_detail *detail)
{
    int rc = solsend_key_from_seed(out, text->secret);
    if (rc != 0) {
        return detail_set(detail, rc, SOLSEND_NO_OFFSET, "key: %s", solsend_error_text(rc));
    }
    if (text->public_at != SOLSEND_NO_OFFSET &&
        sodium_memcmp(key_public(*out), text->secret + 32, SOLSEND_KEY_BYTES) != 0) {
        solsend_key_close(*out);
        *out = NULL;
        return detail_set(detail, SOLSEND_ERR_KEY_MISMATCH, text->public_at,
                          "key, byte %u: the public half is not that of the secret half",
                          text->public_at);
    }
    return 0;
}

int solsend_key_from_text(solsend_key **out, const char *text, size_t text_bytes,
                          solsend_detail *detail)
{
    if (out == NULL) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET, "out is null");
    }
    *out = NULL;
    if (text == NULL) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET, "text is null");
    }
    struct key_text parsed;
    int rc = key_text_parse(&parsed, text, text_bytes, detail);
    if (rc == 0) {
        rc = open_checked(out, &parsed, detail);
    }
    sodium_memzero(&parsed, sizeof parsed);
    return rc;
}

/*
 * People paste a key where its path belongs, so a path is never repeated in a text: it might be
 * the secret itself.
 */
static int file_refused(const char *path, const char *what, solsend_detail *detail)
{
    size_t length = strlen(path);
    int like_key = path[0] == '[' || (length >= 43 && strcspn(path, "/.\\-_ ") == length);
    return detail_set(detail, SOLSEND_ERR_FILE, SOLSEND_NO_OFFSET,
                      "the key file cannot be %s: %m%s", what,
                      like_key ? " (is source the key itself? use solsend_key_from_text)" : "");
}

/* Reads at most `max` bytes. Returns how many, or -1 with errno. */
static ssize_t read_all(int fd, char *out, size_t max)
{
    size_t used = 0;
    while (used < max) {
        ssize_t n = read(fd, out + used, max - used);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        used += (size_t)n;
    }
    return (ssize_t)used;
}

static int open_content(solsend_key **out, const char *content, size_t bytes,
                        solsend_detail *detail)
{
    /* no JSON key is so short, and only the all-zero seed's base58 text is, which nobody uses */
    if (bytes == RAW_SEED_BYTES) {
        struct key_text raw = {.public_at = SOLSEND_NO_OFFSET};
        memcpy(raw.secret, content, RAW_SEED_BYTES);
        int rc = open_checked(out, &raw, detail);
        sodium_memzero(&raw, sizeof raw);
        return rc;
    }
    return solsend_key_from_text(out, content, bytes, detail);
}

static int open_file(solsend_key **out, const char *path, solsend_detail *detail)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return file_refused(path, "opened", detail);
    }
    char content[KEY_TEXT_BYTES_MAX + 1]; /* one more, to know that there is more */
    ssize_t bytes = read_all(fd, content, sizeof content);
    int rc = bytes < 0 ? file_refused(path, "read", detail)
                       : open_content(out, content, (size_t)bytes, detail);
    sodium_memzero(content, sizeof content);
    close(fd);
    return rc;
}

static int open_variable(solsend_key **out, const char *name, solsend_detail *detail)
{
    const char *value = name[0] != 0 ? getenv(name) : NULL;
    if (value == NULL) {
        return detail_set(detail, SOLSEND_ERR_USAGE, 4,
                          name[0] != 0 ? "source: no environment variable of this name is set"
                                       : "source: env: without a name");
    }
    return solsend_key_from_text(out, value, strnlen(value, KEY_TEXT_BYTES_MAX + 1), detail);
}

int solsend_key_open(solsend_key **out, const char *source, solsend_detail *detail)
{
    if (out == NULL) {
        return detail_set(detail, SOLSEND_ERR_USAGE, SOLSEND_NO_OFFSET, "out is null");
    }
    *out = NULL;
    if (source == NULL || source[0] == 0) {
        return detail_set(detail, SOLSEND_ERR_USAGE, 0, "source is %s",
                          source == NULL ? "null" : "empty");
    }
    if (strncmp(source, "env:", 4) == 0) {
        return open_variable(out, source + 4, detail);
    }
    const char *path = strncmp(source, "file:", 5) == 0 ? source + 5 : source;
    if (path[0] == 0) {
        return detail_set(detail, SOLSEND_ERR_USAGE, 5, "source: file: without a path");
    }
    return open_file(out, path, detail);
}
