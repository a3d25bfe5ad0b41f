/* The budget of a send: which function, which feature and which library takes how much of it. */
#include <math.h>
#include <string.h>

#include "profile.h"
#include "suite.h"

static const struct {
    const char *features;
    const char *text;
} budget_steps[] = {
    {"", "a quiet send, nothing else"},
    {"deadline", "+ a deadline"},
    {"deadline events", "+ events and tickets"},
    {"deadline events shadow", "+ a keep-hot shadow"},
    {"deadline events shadow stamps", "+ kernel stamps on one of 16"},
};

enum { BUDGET_STEPS = sizeof budget_steps / sizeof *budget_steps };

static int budget_profile(struct suite *s, uint32_t bytes, const char *features,
                          struct callgrind *out)
{
    char why[300];
    if (profile_send(s, bytes, features, out, why, sizeof why) != 0) {
        suite_fail(s, "callgrind: %s", why);
        return -1;
    }
    return 0;
}

static void budget_features(struct suite *s, FILE *out)
{
    double previous = 0;
    fprintf(out, "own instructions a send, 250 B, feature by feature\n");
    for (int i = 0; i < BUDGET_STEPS; i++) {
        struct callgrind c;
        double own;
        if (budget_profile(s, 250, budget_steps[i].features, &c) != 0) {
            return;
        }
        own = profile_own(&c);
        fprintf(out, "  %-44s %8.1f %+8.1f\n", budget_steps[i].text, own, own - previous);
        previous = own;
        callgrind_free(&c);
    }
}

static void budget_functions(struct suite *s, FILE *out, uint32_t bytes)
{
    static const char *const libraries[] = {"libngtcp2.so", "libngtcp2_crypto", "libgnutls",
                                            "libnettle",    "libsodium",        "libc.so"};
    struct callgrind c;
    double left;
    if (budget_profile(s, bytes, PROFILE_EVERYTHING, &c) != 0) {
        return;
    }
    fprintf(out, "\ninstructions a send, %u B, everything on, function by function\n", bytes);
    left = profile_own(&c);
    for (size_t i = 0; i < c.count; i++) {
        double own = (double)c.functions[i].instructions / PROFILE_SENDS;
        if (profile_is_own(&c.functions[i]) && own >= 1) {
            fprintf(out, "  %-44s %8.1f\n", c.functions[i].name, own);
            left -= own;
        }
    }
    fprintf(out, "  %-44s %8.1f\n", "rarer ones", left);
    fprintf(out, "  %-44s %8.1f\n", "our own, together", profile_own(&c));
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        fprintf(out, "  %-44s %8.1f\n", libraries[i],
                (double)callgrind_object(&c, libraries[i]) / PROFILE_SENDS);
    }
    callgrind_free(&c);
}

/* What each layer adds to the one below it, at the median of the rounds' p50. */
static void budget_times(const struct suite *s, FILE *out)
{
    static const char *const texts[] = {"the library", "ngtcp2 and GnuTLS",
                                        "the socket: raw send() and a clock read"};
    fprintf(out, "\n%-44s %8s %8s\n", "ns a send", "250 B", "1232 B");
    for (int layer = 2; layer >= 0; layer--) {
        fprintf(out, "  %-42s", texts[layer]);
        for (int z = 0; z < 2; z++) {
            double below = layer == 2 ? 0 : s->send_ns[z][layer + 1];
            fprintf(out, " %8.0f", s->send_ns[z][layer] - below);
        }
        putc('\n', out);
    }
    fprintf(out, "  %-42s %8.0f %8.0f\n", "together", s->send_ns[0][0], s->send_ns[1][0]);
}

void budget_print(struct suite *s, FILE *out)
{
    char why[200];
    if (profile_available(why, sizeof why)) {
        budget_features(s, out);
        budget_functions(s, out, 250);
        budget_functions(s, out, 1232);
    } else {
        fprintf(out, "instructions: %s\n", why);
    }
    fputs("\nthe rows that the times come from\n", out);
    row_send(s);
    budget_times(s, out);
}
