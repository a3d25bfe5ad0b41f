#include "tx/key_text.h"

#include "base/detail.h"

enum {
    SEED_BYTES = 32,
    PAIR_BYTES = 64,
    SEED_CHARS_MAX = 44 /* base58 of 32 bytes; 64 bytes have at least 64 characters */
};

/* A place in the text and whom to tell when it is wrong. */
struct reader {
    const char *text;
    uint32_t at;
    uint32_t end;
    solsend_detail *detail;
};

static int refuse(const struct reader *r, uint32_t at, const char *reason)
{
    return detail_set(r->detail, SOLSEND_ERR_KEY_MALFORMED, at, "key, byte %u: %s", at, reason);
}

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && is_space(r->text[r->at])) {
        r->at++;
    }
}

static int read_number(struct reader *r, uint8_t *out)
{
    uint32_t start = r->at;
    uint32_t value = 0;
    while (r->at < r->end && is_digit(r->text[r->at])) {
        value = value * 10 + (uint32_t)(r->text[r->at] - '0');
        if (value > UINT8_MAX) {
            return refuse(r, start, "a number is above 255");
        }
        r->at++;
    }
    if (r->at == start) {
        return refuse(r, start, r->at == r->end ? "ends where a number is due" : "not a number");
    }
    if (r->text[start] == '0' && r->at > start + 1) {
        return refuse(r, start, "a number starts with a superfluous 0");
    }
    *out = (uint8_t)value;
    return 0;
}

/* After a number: a comma when more are due, else the closing bracket. */
static int read_separator(struct reader *r, uint32_t read)
{
    skip_space(r);
    if (r->at == r->end) {
        return refuse(r, r->at, "ends before the ]");
    }
    char c = r->text[r->at];
    if (c != ',' && c != ']') {
        return refuse(r, r->at, "neither , nor ] after a number");
    }
    if (c == ']' && read < PAIR_BYTES) {
        return detail_set(r->detail, SOLSEND_ERR_KEY_MALFORMED, r->at,
                          "key, byte %u: the array ends after %u numbers, a key has 64", r->at,
                          read);
    }
    if (c == ',' && read == PAIR_BYTES) {
        return refuse(r, r->at, "the array has more than 64 numbers");
    }
    r->at++;
    return 0;
}

static int parse_json(struct reader *r, struct key_text *out)
{
    r->at++; /* the [ */
    for (uint32_t i = 0; i < PAIR_BYTES; i++) {
        skip_space(r);
        if (i == SEED_BYTES) {
            out->public_at = r->at;
        }
        int rc = read_number(r, &out->secret[i]);
        if (rc == 0) {
            rc = read_separator(r, i + 1);
        }
        if (rc != 0) {
            return rc;
        }
    }
    skip_space(r);
    return r->at == r->end ? 0 : refuse(r, r->at, "something follows the ]");
}

static int parse_base58(struct reader *r, struct key_text *out)
{
    const char *text = r->text + r->at;
    uint32_t chars = r->end - r->at;
    size_t bytes = chars <= SEED_CHARS_MAX ? SEED_BYTES : PAIR_BYTES;
    solsend_detail inner;
    if (solsend_base58_decode(out->secret, bytes, text, chars, &inner) == 0) {
        out->public_at = bytes == PAIR_BYTES ? r->at : SOLSEND_NO_OFFSET;
        return 0;
    }
    if (inner.offset < chars) {
        return refuse(r, r->at + inner.offset, "neither JSON nor base58 of 32 or 64 bytes");
    }
    return detail_set(r->detail, SOLSEND_ERR_KEY_MALFORMED, r->end,
                      "key, byte %u: the base58 text ends after %u characters and holds neither "
                      "32 nor 64 bytes",
                      r->end, chars);
}

int key_text_parse(struct key_text *out, const char *text, size_t text_bytes,
                   solsend_detail *detail)
{
    struct reader r = {.text = text, .detail = detail};
    out->public_at = SOLSEND_NO_OFFSET;
    if (text_bytes > KEY_TEXT_BYTES_MAX) {
        return refuse(&r, KEY_TEXT_BYTES_MAX, "longer than 4096 bytes, which no key is");
    }
    r.end = (uint32_t)text_bytes;
    skip_space(&r);
    while (r.end > r.at && is_space(text[r.end - 1])) {
        r.end--;
    }
    if (r.at == r.end) {
        return refuse(&r, 0, "there is nothing in it");
    }
    return text[r.at] == '[' ? parse_json(&r, out) : parse_base58(&r, out);
}
