/* The sum over all workers as one JSON object. Called by main each second, on SIGUSR1 and at the
 * end. */
#include "bench/sink/sink_report.h"

#include "bench/sink/sink_report_client.h"
#include "bench/tool/report.h"

#include <errno.h>

static void put_sink_number(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "\"%s\": %llu, ", name, (unsigned long long)value);
}

static void put_latency(struct buf *out, const struct latency *l)
{
    buf_append_str(out, "\"latency\": {");
    put_sink_number(out, "count", l->count);
    report_seconds(out, "p50", latency_quantile(l, 0.5));
    buf_append_str(out, ", ");
    report_seconds(out, "p90", latency_quantile(l, 0.9));
    buf_append_str(out, ", ");
    report_seconds(out, "p99", latency_quantile(l, 0.99));
    buf_append_str(out, ", ");
    report_seconds(out, "max", l->max);
    buf_append_char(out, '}');
}

static void put_tally(struct buf *out, const struct sink_tally *t)
{
    double elapsed = (double)(t->last - t->first) / (double)USEC_PER_SEC;
    put_sink_number(out, "messages", t->messages);
    put_sink_number(out, "recipients", t->recipients);
    put_sink_number(out, "bytes", t->bytes);
    put_sink_number(out, "deferred", t->deferred);
    put_sink_number(out, "rejected", t->rejected);
    report_seconds(out, "first", t->first);
    buf_append_str(out, ", ");
    report_seconds(out, "last", t->last);
    buf_printf(out, ", \"elapsed\": %.6f, \"rate\": %.1f, ", elapsed,
               elapsed > 0 ? (double)t->messages / elapsed : 0.0);
    put_latency(out, &t->latency);
}

static void put_domains(struct buf *out, const struct sink_count *sum)
{
    buf_append_str(out, ",\n\"domains\": [");
    for (size_t i = 0; i < sum->domain_count; i++) {
        const struct sink_domain *d = sum->domains[i];
        buf_append_str(out, i == 0 ? "\n{\"domain\": " : ",\n{\"domain\": ");
        report_string(out, slice_make(d->name, d->name_len));
        buf_append_str(out, ", ");
        put_tally(out, &d->tally);
        buf_append_char(out, '}');
    }
    buf_append_char(out, ']');
}

static void put_listeners(struct buf *out, const struct sink *sink, const struct sink_count *sum)
{
    buf_append_str(out, ",\n\"listeners\": [");
    for (size_t i = 0; i < sink->listener_count; i++) {
        struct sink_listener *l = &sink->listeners[i];
        const struct sink_listener_count *c = &sum->listeners[i];
        pthread_mutex_lock(&l->lock);
        uint32_t open = l->open;
        uint32_t max_open = l->max_open;
        pthread_mutex_unlock(&l->lock);
        buf_append_str(out, i == 0 ? "\n{\"address\": " : ",\n{\"address\": ");
        report_string(out, slice_of(l->name));
        buf_append_str(out, ", ");
        put_sink_number(out, "connections", c->connections);
        put_sink_number(out, "refused", c->refused);
        put_sink_number(out, "open", open);
        put_sink_number(out, "max_open", max_open);
        put_sink_number(out, "max_in_flight", c->max_in_flight);
        put_tally(out, &c->tally);
        buf_append_char(out, '}');
    }
    buf_append_char(out, ']');
}

static void put_connections(struct buf *out, const struct sink *sink, const struct sink_count *sum)
{
    uint64_t connections = 0;
    uint64_t refused = 0;
    uint64_t open = 0;
    uint32_t max_in_flight = 0;
    for (size_t i = 0; i < sink->listener_count; i++) {
        connections += sum->listeners[i].connections;
        refused += sum->listeners[i].refused;
        if (sum->listeners[i].max_in_flight > max_in_flight) {
            max_in_flight = sum->listeners[i].max_in_flight;
        }
        pthread_mutex_lock(&sink->listeners[i].lock);
        open += sink->listeners[i].open;
        pthread_mutex_unlock(&sink->listeners[i].lock);
    }
    put_sink_number(out, "connections", connections);
    put_sink_number(out, "refused", refused);
    put_sink_number(out, "open", open);
    put_sink_number(out, "max_in_flight", max_in_flight);
}

enum series { SERIES_MESSAGES, SERIES_DEFERRED, SERIES_OPEN, SERIES_P50, SERIES_P99, SERIES_COUNT };

static void put_series_value(struct buf *out, const struct timeline_point *p, enum series series)
{
    const uint32_t counts[] = {p->messages, p->deferred, p->open_max};
    if (series <= SERIES_OPEN) {
        buf_printf(out, "%u", counts[series]);
        return;
    }
    usec_t latency = series == SERIES_P50 ? p->p50 : p->p99;
    if (latency < 0) {
        buf_append_str(out, "null");
    } else {
        buf_printf(out, "%.6f", (double)latency / (double)USEC_PER_SEC);
    }
}

static void put_series(struct buf *out, const struct timeline *t, uint32_t intervals,
                       enum series series)
{
    static const char *const names[] = {"messages", "deferred", "open", "latency_p50",
                                        "latency_p99"};
    struct timeline_point p;
    size_t cursor = 0;
    buf_printf(out, "%s\"%s\": [", series == 0 ? "" : ", ", names[series]);
    for (uint32_t i = 0; i < intervals; i++) {
        buf_append_str(out, i == 0 ? "" : ",");
        timeline_read(t, i, &cursor, &p);
        put_series_value(out, &p, series);
    }
    buf_append_char(out, ']');
}

/* "NAME": {the series}, behind the ones before it */
static void put_course(struct buf *out, bool is_first, struct slice name, const struct timeline *t,
                       uint32_t intervals)
{
    buf_append_str(out, is_first ? "\n" : ",\n");
    report_string(out, name);
    buf_append_str(out, ": {");
    for (int series = 0; series < SERIES_COUNT; series++) {
        put_series(out, t, intervals, (enum series)series);
    }
    buf_append_char(out, '}');
}

static void put_domain_courses(struct buf *out, struct sink *sink, uint32_t intervals)
{
    struct sink_courses *c = &sink->courses;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count; i++) {
        const struct sink_course *course = &c->items[i];
        put_course(out, i == 0, slice_make(course->name, course->name_len), &course->timeline,
                   intervals);
    }
    pthread_mutex_unlock(&c->lock);
}

static void put_timeline(struct buf *out, struct sink *sink, usec_t now)
{
    usec_t interval = sink->options->timeline;
    usec_t intervals = (now - sink->started) / interval + 1;
    buf_append_str(out, ",\n\"timeline\": {");
    report_seconds(out, "interval", interval);
    buf_append_str(out, ", ");
    report_seconds(out, "start", sink->started);
    buf_append_str(out, ", \"listeners\": {");
    for (size_t i = 0; i < sink->listener_count; i++) {
        struct sink_listener *l = &sink->listeners[i];
        pthread_mutex_lock(&l->lock);
        put_course(out, i == 0, slice_of(l->name), &l->timeline, (uint32_t)intervals);
        pthread_mutex_unlock(&l->lock);
    }
    buf_append_str(out, "},\n\"domains\": {");
    put_domain_courses(out, sink, (uint32_t)intervals);
    buf_append_str(out, "},\n\"clients\": [");
    sink_report_courses(sink, (uint32_t)intervals, out);
    buf_append_str(out, "]}");
}

int sink_report(struct sink *sink, struct sink_worker *workers, int count, bool is_end,
                struct buf *out)
{
    struct sink_count sum;
    int err = sink_count_init(&sum, sink->listener_count);
    if (err != 0) {
        return err;
    }
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&workers[i].lock);
        sink_count_merge(&sum, &workers[i].count);
        pthread_mutex_unlock(&workers[i].lock);
    }
    usec_t now = clock_wall();
    buf_append_char(out, '{');
    report_seconds(out, "time", now);
    buf_append_str(out, ", ");
    report_seconds(out, "uptime", now - sink->started);
    buf_append_str(out, ", ");
    put_connections(out, sink, &sum);
    put_tally(out, &sum.total);
    put_domains(out, &sum);
    put_listeners(out, sink, &sum);
    buf_append_str(out, ",\n\"clients\": [");
    sink_report_clients(sink, out);
    buf_append_char(out, ']');
    if (is_end && sink->options->timeline > 0) {
        put_timeline(out, sink, now);
    }
    buf_append_str(out, "}\n");
    sink_count_fini(&sum);
    return out->failed ? -ENOMEM : 0;
}
