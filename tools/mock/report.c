#include "mock/report.h"

#include <solsend/key.h>

#include <inttypes.h>
#include <string.h>

struct count_name {
    const char *name;
    size_t offset;
};

#define COUNT(member)                                                                              \
    {                                                                                              \
#member, offsetof(mock_counts, member)                                                     \
    }

static const struct count_name count_names[] = {
    COUNT(datagrams),
    COUNT(bytes),
    COUNT(initials),
    COUNT(initials_ignored),
    COUNT(retries_sent),
    COUNT(tokens_refused),
    COUNT(connections),
    COUNT(admitted),
    COUNT(staked),
    COUNT(refused),
    COUNT(closed_by_peer),
    COUNT(evicted),
    COUNT(streams),
    COUNT(stream_frames),
    COUNT(streams_split),
    COUNT(accepted),
    COUNT(distinct),
    COUNT(discarded),
    COUNT(malformed),
    COUNT(gaps),
    COUNT(chunk_timeouts),
    COUNT(throttle_waits),
    COUNT(pings),
    COUNT(key_updates),
    COUNT(dropped_in),
    COUNT(dropped_out),
    COUNT(hello_disordered),
    COUNT(certificates_refused),
    COUNT(max_datagram),
    COUNT(grants),
    COUNT(socket_drops),
};

_Static_assert(sizeof count_names / sizeof count_names[0] == sizeof(mock_counts) / sizeof(uint64_t),
               "every count is in the report");

static void key_text(const uint8_t key[32], char out[64])
{
    if (solsend_base58_encode(out, 64, key, 32) < 0) {
        out[0] = '\0';
    }
}

/* A JSON string; control characters, which only a peer's close reason can hold, become '?'. */
static void string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\') {
            fputc('\\', out);
        }
        fputc(ch < 0x20 || ch > 0x7e ? '?' : ch, out);
    }
    fputc('"', out);
}

struct rows {
    FILE *out;
    int written;
};

static uint64_t since(uint64_t end_ns, uint64_t start_ns)
{
    return end_ns > start_ns ? end_ns - start_ns : 0;
}

static void connection_row(void *context, const struct server_row *row)
{
    struct rows *rows = context;
    char peer[SOCKNAME_TEXT_BYTES];
    char key[64] = "";
    sockname_format(&row->peer, peer, sizeof peer);
    if (row->key_known) {
        key_text(row->key, key);
    }
    fprintf(rows->out, "%s\n    {\"peer\": \"%s\", \"key\": ", rows->written++ == 0 ? "" : ",",
            peer);
    string(rows->out, key);
    fprintf(rows->out,
            ", \"live\": %s, \"admitted\": %s, \"staked\": %s, \"handshake_ns\": %" PRIu64
            ", \"lived_ns\": %" PRIu64 ", \"rtt_ns\": %" PRIu64 ", \"granted\": %" PRIu64
            ", \"streams\": %" PRIu64 ", \"accepted\": %" PRIu64 ", \"datagrams\": %" PRIu64
            ", \"ended_by_peer\": %s, \"end\": ",
            row->live ? "true" : "false", row->admitted ? "true" : "false",
            row->staked ? "true" : "false", since(row->completed_ns, row->started_ns),
            since(row->ended_ns, row->started_ns), row->rtt_ns, row->granted, row->streams,
            row->accepted, row->packets, row->by_peer ? "true" : "false");
    string(rows->out, row->end);
    fputc('}', rows->out);
}

static void counts(FILE *out, const mock_counts *values)
{
    for (size_t i = 0; i < sizeof count_names / sizeof count_names[0]; i++) {
        uint64_t value;
        memcpy(&value, (const char *)values + count_names[i].offset, sizeof value);
        fprintf(out, "%s\"%s\": %" PRIu64, i == 0 ? "" : ", ", count_names[i].name, value);
    }
}

void report_write(const struct report *report, FILE *out)
{
    char identity[64];
    struct rows rows = {out, 0};
    key_text(report->identity, identity);
    fprintf(out, "{\n  \"profile\": \"%s\",\n  \"uri\": \"%s\",\n  \"identity\": \"%s\",\n",
            report->profile->name, report->uri, identity);
    fprintf(out, "  \"age_ns\": %" PRIu64 ",\n  \"counts\": {", report->age_ns);
    counts(out, &report->counts);
    fprintf(out, "},\n  \"connections\": [");
    if (report->server != NULL) {
        server_rows(report->server, connection_row, &rows);
    }
    fprintf(out, "%s]\n}\n", rows.written == 0 ? "" : "\n  ");
}
