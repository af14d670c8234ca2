/* One object for each client at each receiver. Called by sink_report with no lock held; takes the
 * lock of each table for as long as it writes that table's objects. */
#include "bench/sink/sink_report_client.h"

#include "bench/tool/report.h"

#include <stdbool.h>

static const char *const names[HAPPENED_COUNT] = {
    [HAPPENED_MESSAGE] = "messages",       [HAPPENED_RECIPIENT] = "recipients",
    [HAPPENED_REFUSAL] = "refused",        [HAPPENED_RECIPIENT_REFUSAL] = "refused_recipients",
    [HAPPENED_CONNECTION] = "connections", [HAPPENED_CONNECTION_REFUSAL] = "refused_connections",
};

/* What is written of every client of a table. */
struct writer {
    struct buf *out;
    const char *key; /* "destination" or "domain" */
    const char *title;
    uint32_t intervals; /* 0: the totals instead */
    bool has_written;
};

static void put_limit(struct writer *w, const struct sink_clients *t, const char *name,
                      const struct rate_plan *plan)
{
    buf_printf(w->out, ", \"%s\": [", name);
    for (uint32_t i = 0; i < w->intervals; i++) {
        /* Since the plan began, and what was in force then also for the rest of that interval. */
        usec_t to = t->start + (usec_t)(i + 1) * t->interval - t->begin_wall;
        usec_t from = to - t->interval > 0 ? to - t->interval : 0;
        double mean = t->begin == 0 || to <= from ? -1 : rate_plan_mean(plan, from, to);
        buf_append_str(w->out, i == 0 ? "" : ",");
        if (mean < 0) {
            buf_append_str(w->out, "null");
        } else {
            buf_printf(w->out, "%.6g", mean);
        }
    }
    buf_append_char(w->out, ']');
}

static void put_course(struct writer *w, const struct sink_client *c, enum sink_happening what)
{
    buf_printf(w->out, ", \"%s\": [", names[what]);
    for (uint32_t i = 0; i < w->intervals; i++) {
        buf_printf(w->out, i == 0 ? "%u" : ",%u", i < c->room ? c->course[i][what] : 0);
    }
    buf_append_char(w->out, ']');
}

static void put_client(struct writer *w, const struct sink_clients *t, const struct sink_client *c)
{
    buf_append_str(w->out, w->has_written ? ",\n{" : "\n{");
    w->has_written = true;
    buf_printf(w->out, "\"%s\": ", w->key);
    report_string(w->out, slice_of(w->title));
    buf_printf(w->out, ", \"client\": \"%s\"", c->name);
    for (int i = 0; i < HAPPENED_COUNT; i++) {
        if (w->intervals > 0) {
            put_course(w, c, (enum sink_happening)i);
        } else {
            buf_printf(w->out, ", \"%s\": %llu", names[i], (unsigned long long)c->totals[i]);
        }
    }
    if (w->intervals > 0) {
        put_limit(w, t, "limit", &c->behaviour->rate_per_client);
        put_limit(w, t, "recipient_limit", &c->behaviour->recipient_rate_per_client);
    }
    buf_append_char(w->out, '}');
}

static void put_table(struct writer *w, struct sink_clients *t)
{
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->count; i++) {
        put_client(w, t, t->items[i]);
    }
    pthread_mutex_unlock(&t->lock);
}

static void put_all(const struct sink *sink, uint32_t intervals, struct buf *out)
{
    const struct behaviour_file *file = &sink->options->file;
    struct writer w = {.out = out, .key = "destination", .intervals = intervals};
    for (size_t i = 0; i < sink->receiver_count; i++) {
        w.title = i < file->destination_count ? file->destinations[i].title : "";
        put_table(&w, &sink->receivers[i]);
    }
    w.key = "domain";
    for (size_t i = 0; i < file->domain_count; i++) {
        w.title = file->domains[i].name;
        put_table(&w, &sink->domains.items[i].clients);
    }
}

void sink_report_clients(const struct sink *sink, struct buf *out)
{
    put_all(sink, 0, out);
}

void sink_report_courses(const struct sink *sink, uint32_t intervals, struct buf *out)
{
    put_all(sink, intervals, out);
}
