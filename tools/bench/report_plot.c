#include "bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define REPORT_PLOT_WIDTH  960
#define REPORT_PLOT_HEIGHT 900

/* A rectangle of the page with the numbers that its edges stand for. */
struct report_plot_panel {
    double left, top, width, height;
    double x_low, x_high, y_low, y_high;
};

struct report_plot_series {
    const char *transport;
    const char *colour; /* told apart by colour-blind readers too */
    struct run run;
    uint32_t rounds;
};

static struct report_plot_series report_plot_all[] = {
    {.transport = "quic", .colour = "#0072b2"},
    {.transport = "udp", .colour = "#d55e00"},
    {.transport = "raw", .colour = "#555555"},
};

enum { REPORT_PLOT_SERIES = sizeof report_plot_all / sizeof *report_plot_all };

static double report_plot_x(const struct report_plot_panel *p, double value)
{
    double share = (value - p->x_low) / (p->x_high - p->x_low);
    return p->left + p->width * fmin(1, fmax(0, share));
}

static double report_plot_y(const struct report_plot_panel *p, double value)
{
    double share = (value - p->y_low) / (p->y_high - p->y_low);
    return p->top + p->height * (1 - fmin(1, fmax(0, share)));
}

static void report_plot_text(FILE *out, double x, double y, const char *attributes,
                             const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, text);
}

static void report_plot_frame(FILE *out, const struct report_plot_panel *p, const char *title,
                              const char *x_label, const char *y_label)
{
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
            "stroke=\"#999\"/>\n",
            p->left, p->top, p->width, p->height);
    report_plot_text(out, p->left, p->top - 12, "font-size=\"15\" font-weight=\"600\"", title);
    report_plot_text(out, p->left + p->width / 2, p->top + p->height + 40, "text-anchor=\"middle\"",
                     x_label);
    fprintf(out,
            "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\">%s"
            "</text>\n",
            p->left - 58, p->top + p->height / 2, y_label);
}

static void report_plot_grid_x(FILE *out, const struct report_plot_panel *p, double value,
                               const char *text)
{
    double x = report_plot_x(p, value);
    fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#e4e4e4\"/>\n", x, p->top,
            p->top + p->height);
    report_plot_text(out, x, p->top + p->height + 18, "text-anchor=\"middle\"", text);
}

static void report_plot_grid_y(FILE *out, const struct report_plot_panel *p, double value,
                               const char *text, const char *stroke)
{
    double y = report_plot_y(p, value);
    fprintf(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\"/>\n", p->left, y, p->left + p->width,
            stroke);
    if (text != NULL) {
        report_plot_text(out, p->left - 8, y + 4, "text-anchor=\"end\"", text);
    }
}

/* Decades of a logarithmic axis, labelled in full numbers, with 2 and 5 between. */
static void report_plot_decades(FILE *out, const struct report_plot_panel *p, int between)
{
    for (int decade = (int)floor(p->y_low); decade <= (int)ceil(p->y_high); decade++) {
        static const int steps[] = {1, 2, 5};
        for (size_t i = 0; i < (between ? 3 : 1); i++) {
            double value = steps[i] * pow(10, decade);
            char text[32];
            if (log10(value) < p->y_low - 1e-9 || log10(value) > p->y_high + 1e-9) {
                continue;
            }
            snprintf(text, sizeof text, "%.*f", decade < 0 ? -decade : 0, value);
            report_plot_grid_y(out, p, log10(value), text, i == 0 ? "#d0d0d0" : "#ececec");
        }
    }
}

static void report_plot_curve(FILE *out, const struct report_plot_panel *p, const uint64_t *curve,
                              const char *colour, const char *dash)
{
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
            dash);
    for (uint32_t i = 0; i < RUN_CURVE_POINTS; i++) {
        double us = fmax((double)curve[i], 1) / 1000;
        fprintf(out, "%.1f,%.1f ", report_plot_x(p, 4.0 * i / (RUN_CURVE_POINTS - 1)),
                report_plot_y(p, log10(us)));
    }
    fputs("\"/>\n", out);
}

/* Where the curves lie, in whole 1-2-5 steps of log10(us). */
static void report_plot_range(struct report_plot_panel *p)
{
    double low = INFINITY, high = -INFINITY;
    for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
        const struct report_plot_series *series = &report_plot_all[s];
        if (series->rounds != 0) {
            low = fmin(low, fmax(1, (double)series->run.send_curve[0]));
            high = fmax(high, (double)series->run.intended_curve[RUN_CURVE_POINTS - 1]);
        }
    }
    p->y_low = log10(low / 1000 * 0.8);
    p->y_high = log10(fmax(high, low * 2) / 1000 * 1.25);
}

static void report_plot_percentiles(FILE *out)
{
    struct report_plot_panel p = {.left = 90, .top = 90, .width = 640, .height = 330, .x_high = 4};
    static const char *const names[] = {"0", "90", "99", "99.9", "99.99"};
    double y = p.top + 14;
    report_plot_range(&p);
    report_plot_frame(out, &p, "How long a send takes", "percentile of sends", "microseconds");
    report_plot_decades(out, &p, 1);
    for (int i = 0; i <= 4; i++) {
        report_plot_grid_x(out, &p, i, names[i]);
    }
    report_plot_grid_x(out, &p, -log10(0.5), "50");
    for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
        const struct report_plot_series *series = &report_plot_all[s];
        for (int intended = 0; series->rounds != 0 && intended < 2; intended++) {
            const char *dash = intended ? " stroke-dasharray=\"5 4\"" : "";
            char text[96];
            report_plot_curve(out, &p,
                              intended ? series->run.intended_curve : series->run.send_curve,
                              series->colour, dash);
            fprintf(out,
                    "<path d=\"M%.1f %.1fh28\" stroke=\"%s\" stroke-width=\"2\"%s fill=\"none\"/>"
                    "\n",
                    p.left + p.width + 18, y - 4, series->colour, dash);
            snprintf(text, sizeof text, "%s, %s", series->transport,
                     intended ? "from the instant" : "the call alone");
            report_plot_text(out, p.left + p.width + 54, y, "", text);
            y += 22;
        }
    }
}

/* The bins that hold something, and one more on each side; never narrower than a tenth of T. */
static void report_plot_bins(uint32_t *low, uint32_t *high)
{
    uint64_t all = 0, seen = 0;
    uint32_t centre = (RUN_BINS - 1) / 2, reach = (RUN_BINS - 1) / 40;
    for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
        for (uint32_t i = 0; i < RUN_BINS; i++) {
            all += report_plot_all[s].run.intersend_bins[i];
        }
    }
    for (; reach < centre; reach++) {
        seen = 0;
        for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
            for (uint32_t i = centre - reach; i < centre + reach; i++) {
                seen += report_plot_all[s].run.intersend_bins[i];
            }
        }
        if ((double)seen >= 0.9995 * (double)all) {
            break;
        }
    }
    *low = centre - reach;
    *high = centre + reach;
}

static void report_plot_steps(FILE *out, const struct report_plot_panel *p, const struct run *run,
                              uint32_t low, uint32_t high, const char *colour)
{
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" points=\"", colour);
    for (uint32_t bin = low; bin < high; bin++) {
        double y = report_plot_y(p, log10(fmax(0.8, (double)run->intersend_bins[bin])));
        fprintf(out, "%.1f,%.1f %.1f,%.1f ", report_plot_x(p, bin), y, report_plot_x(p, bin + 1),
                y);
    }
    fputs("\"/>\n", out);
}

static void report_plot_intersend(FILE *out, double target_ns)
{
    struct report_plot_panel p = {
        .left = 90, .top = 510, .width = 640, .height = 320, .y_low = log10(0.8)};
    double us_per_bin = 2 * target_ns / (RUN_BINS - 1) / 1000, y = p.top + 14, most = 10;
    uint32_t low, high;
    report_plot_bins(&low, &high);
    p.x_low = low;
    p.x_high = high;
    for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
        for (uint32_t i = low; i < high; i++) {
            most = fmax(most, (double)report_plot_all[s].run.intersend_bins[i]);
        }
    }
    p.y_high = log10(most * 1.6);
    report_plot_frame(out, &p, "How evenly they leave", "time between two sends, microseconds",
                      "sends (all rounds)");
    report_plot_decades(out, &p, 0);
    for (int i = 0; i <= 8; i++) {
        double at = low + (high - low) * i / 8.0;
        char text[32];
        snprintf(text, sizeof text, "%.4g", at * us_per_bin);
        report_plot_grid_x(out, &p, at, text);
    }
    for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
        const struct report_plot_series *series = &report_plot_all[s];
        uint64_t beyond = 0;
        char text[96];
        if (series->rounds == 0) {
            continue;
        }
        report_plot_steps(out, &p, &series->run, low, high, series->colour);
        for (uint32_t i = 0; i < RUN_BINS; i++) {
            beyond += i < low || i >= high ? series->run.intersend_bins[i] : 0;
        }
        fprintf(out, "<path d=\"M%.1f %.1fh28\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                p.left + p.width + 18, y - 4, series->colour);
        snprintf(text, sizeof text, "%s, %" PRIu64 " outside", series->transport, beyond);
        report_plot_text(out, p.left + p.width + 54, y, "", text);
        y += 22;
    }
}

int report_plot(const struct report *r, FILE *out)
{
    char text[200];
    for (int s = 0; s < REPORT_PLOT_SERIES; s++) {
        struct report_plot_series *series = &report_plot_all[s];
        series->rounds = report_median(r, series->transport, &series->run);
    }
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            REPORT_PLOT_WIDTH, REPORT_PLOT_HEIGHT, REPORT_PLOT_WIDTH, REPORT_PLOT_HEIGHT);
    snprintf(text, sizeof text,
             "%u transactions of %u bytes at %.0f per second, rounds: %u, median of rounds",
             r->options->count, r->options->bytes, r->options->rate, r->options->rounds);
    report_plot_text(out, 90, 40, "font-size=\"18\" font-weight=\"600\"", text);
    report_plot_percentiles(out);
    report_plot_intersend(out, 1e9 / r->options->rate);
    fputs("</svg>\n", out);
    return ferror(out) || fflush(out) != 0 ? -1 : 0;
}
