#include <solsend/error.h>

struct entry {
    int code;
    int kind;
    const char *name;
    const char *text;
};

static const struct entry entries[] = {
#define ENTRY(name, number, kind, text) {number, SOLSEND_KIND_##kind, #name, text},
    SOLSEND_ERROR_LIST(ENTRY)
#undef ENTRY
};

enum { ENTRY_COUNT = sizeof entries / sizeof entries[0] };

static const struct entry *find(int code)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        if (entries[i].code == code) {
            return &entries[i];
        }
    }
    return NULL;
}

const char *solsend_error_name(int code)
{
    if (code >= 0) {
        return "OK";
    }
    const struct entry *e = find(code);
    return e != NULL ? e->name : "?";
}

const char *solsend_error_text(int code)
{
    if (code >= 0) {
        return "success";
    }
    const struct entry *e = find(code);
    return e != NULL ? e->text : "unknown error code";
}

int solsend_error_kind(int code)
{
    if (code >= 0) {
        return SOLSEND_KIND_NONE;
    }
    const struct entry *e = find(code);
    return e != NULL ? e->kind : SOLSEND_KIND_INTERNAL;
}

int solsend_error_codes(int32_t *codes, uint32_t max)
{
    for (uint32_t i = 0; codes != NULL && i < max && i < ENTRY_COUNT; i++) {
        codes[i] = entries[i].code;
    }
    return ENTRY_COUNT;
}
