#include "mock/stakes.h"

#include <solsend/key.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (4u << 20)

/* "KEY=LAMPORTS" or "KEY LAMPORTS". */
static int pair(struct admission *admission, const char *text, char *why, size_t why_bytes)
{
    uint8_t key[32];
    size_t key_length = strcspn(text, "= \t");
    const char *number = text + key_length + strspn(text + key_length, "= \t");
    char *end;
    if (solsend_base58_decode(key, sizeof key, text, key_length, NULL) != 0) {
        snprintf(why, why_bytes, "stakes: \"%.50s\" does not start with a public key", text);
        return -1;
    }
    errno = 0;
    unsigned long long lamports = strtoull(number, &end, 10);
    if (!isdigit((unsigned char)*number) || *end != '\0' || errno != 0) {
        snprintf(why, why_bytes, "stakes: \"%.80s\" has no number of lamports", text);
        return -1;
    }
    if (admission_stake(admission, key, lamports) != 0) {
        snprintf(why, why_bytes, "stakes: out of memory");
        return -1;
    }
    return 0;
}

/* Splits in place at commas and line ends; # starts a comment up to the line's end. */
static int pairs(struct admission *admission, char *text, char *why, size_t why_bytes)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ",\n");
        char *next = text + length + (text[length] != '\0');
        text[length] = '\0';
        text[strcspn(text, "#")] = '\0';
        text += strspn(text, " \t\r");
        for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--) {
            text[n - 1] = '\0';
        }
        if (*text != '\0' && pair(admission, text, why, why_bytes) != 0) {
            return -1;
        }
        text = next;
    }
    return 0;
}

static char *file_text(const char *path, char *why, size_t why_bytes)
{
    FILE *file = fopen(path, "re");
    char *text = file == NULL ? NULL : malloc(FILE_BYTES_MAX + 1);
    if (text != NULL) {
        text[fread(text, 1, FILE_BYTES_MAX, file)] = '\0';
        if (!feof(file) && !ferror(file) && fgetc(file) != EOF) {
            snprintf(why, why_bytes, "stakes: %s is larger than %u bytes", path, FILE_BYTES_MAX);
            free(text);
            fclose(file);
            return NULL;
        }
    } else {
        snprintf(why, why_bytes, "stakes: %s: %s", path, strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

int stakes_read(struct admission *admission, const char *source, char *why, size_t why_bytes)
{
    char *text =
        strncmp(source, "file:", 5) == 0 ? file_text(source + 5, why, why_bytes) : strdup(source);
    if (text == NULL) {
        return -1;
    }
    int rc = pairs(admission, text, why, why_bytes);
    free(text);
    return rc;
}
