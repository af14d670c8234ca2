/* Reads the histories that the series thread and the schedulers keep; changes nothing. Called on a
 * clerk's thread. */
#include "engine/report/series_report.h"

#include "base/history.h"
#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/report/series.h"
#include "engine/schedule/destination_site.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdio.h>

enum { EVENTS_MAX = 1000 };
static const usec_t span_default = 600 * USEC_PER_SEC;

json_t *series_report_rates(const struct engine *e)
{
    struct series_rates r;
    series_rates(e->series, &r);
    return json_pack("{s:f, s:f, s:f, s:f}", "received", r.received, "delivered", r.delivered,
                     "deferred", r.deferred, "failed", r.failed);
}

static json_t *point_object(const struct series_point *p)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "time", api_time(p->time),
                     "received", (json_int_t)p->received, "delivered", (json_int_t)p->delivered,
                     "deferred", (json_int_t)p->deferred, "failed", (json_int_t)p->failed, "queued",
                     (json_int_t)p->queued, "active", (json_int_t)p->active, "connections",
                     (json_int_t)p->connections);
}

void series_report_points(struct clerk *k, struct api_call *c)
{
    usec_t span;
    if (!api_param_span(c, "span", span_default, &span)) {
        return;
    }
    const struct history *points = series_points(k->engine->series);
    json_t *list = json_array();
    uint64_t end = history_end(points), wanted = (uint64_t)(span / USEC_PER_SEC);
    uint64_t begin = history_begin(points);
    if (end - begin > wanted) {
        begin = end - wanted;
    }
    for (uint64_t i = begin; i < end; i++) {
        struct series_point p;
        if (history_get(points, i, &p)) {
            (void)json_array_append_new(list, point_object(&p)); /* out of memory: one less */
        }
    }
    api_object(c, 200, json_pack("{s:i, s:o}", "step", 1, "points", list));
}

/* --- windows ---------------------------------------------------------------------------------- */

static json_t *sample_list(const struct history *samples)
{
    json_t *list = json_array();
    for (uint64_t i = samples == NULL ? 0 : history_begin(samples);
         samples != NULL && i < history_end(samples); i++) {
        struct series_sample s;
        if (history_get(samples, i, &s)) {
            json_t *o = json_pack("{s:o, s:i, s:i, s:i, s:i}", "time", api_time(s.time), "window",
                                  (int)s.window, "busy", (int)s.busy, "in_flight", (int)s.in_flight,
                                  "todo", (int)s.todo);
            (void)json_array_append_new(list, o); /* out of memory: one less */
        }
    }
    return list;
}

static json_t *cause_text(const struct sched_change *change)
{
    static const char *const causes[SCHED_CHANGE_COUNT] = {
        [SCHED_CHANGE_POSITIVE] = "positive feedback",
        [SCHED_CHANGE_NEGATIVE] = "negative feedback",
        [SCHED_CHANGE_DEAD] = "dead",
        [SCHED_CHANGE_REVIVED] = "revived",
        [SCHED_CHANGE_FORGOTTEN] = "forgotten",
        [SCHED_CHANGE_RECALLED] = "recalled",
        [SCHED_CHANGE_LIMIT] = "rate delay",
        [SCHED_CHANGE_SLOWER] = "asked to slow down",
    };
    char text[sizeof(change->text) + 32];
    int len = snprintf(text, sizeof(text), "%s%s%s", causes[change->cause],
                       change->text[0] == '\0' ? "" : ": ", change->text);
    return api_text(slice_make(text, (size_t)len));
}

/* The newest changes of the window of a destination, or of its site, oldest first. */
static json_t *event_list(const struct engine *e, uint32_t transport, struct slice destination,
                          struct slice site)
{
    const struct history *changes = sched_thread_changes(e->scheds[transport % e->sched_count]);
    struct sched_thread_change change;
    json_t *list = json_array();
    uint64_t begin = history_begin(changes), end = history_end(changes), from = end;
    for (uint64_t found = 0; from > begin && found < EVENTS_MAX; from--) {
        found += history_get(changes, from - 1, &change) && change.transport == transport &&
                 destination_site_is_of(&change.change, destination, site);
    }
    for (uint64_t i = from; i < end; i++) {
        if (history_get(changes, i, &change) && change.transport == transport &&
            destination_site_is_of(&change.change, destination, site)) {
            json_t *o = json_pack("{s:o, s:i, s:i, s:o}", "time", api_time(change.time), "from",
                                  change.change.from, "to", change.change.to, "cause",
                                  cause_text(&change.change));
            (void)json_array_append_new(list, o); /* out of memory: one less */
        }
    }
    return list;
}

/* returns: false, unanswered, when the transport knows nothing of the destination */
static bool show_windows(const struct engine *e, struct api_call *c, uint32_t transport,
                         struct slice destination)
{
    const struct history *samples = series_samples(e->series, transport, destination);
    struct destination_site site;
    destination_site_find(e, transport, destination, &site);
    json_t *events = event_list(e, transport, destination, site.key);
    if (samples == NULL && json_array_size(events) == 0 && !site.is_in_core) {
        json_decref(events);
        return false;
    }
    api_object(c, 200,
               json_pack("{s:o, s:o, s:s, s:b, s:o, s:o}", "destination", api_text(destination),
                         "site", api_text(site.key), "transport",
                         settings_of(e)->config->transports[transport].name, "is_watched",
                         samples != NULL, "samples", sample_list(samples), "events", events));
    return true;
}

void series_report_windows(struct clerk *k, struct api_call *c)
{
    const struct engine *e = k->engine;
    struct slice destination, transport = SLICE("");
    if (!api_param(c, "destination", &destination) || destination.len == 0) {
        api_error(c, 400, "usage", "destination: the name of one, as /v1/destinations has it");
        return;
    }
    /* "": the first transport that knows the destination */
    (void)api_param(c, "transport", &transport);
    for (uint32_t t = 0; t < settings_of(e)->transport_count; t++) {
        bool is_wanted = transport.len == 0 ||
                         slice_eq(transport, slice_of(settings_of(e)->config->transports[t].name));
        if (is_wanted && show_windows(e, c, t, destination)) {
            return;
        }
    }
    api_error(c, 404, "missing", "no such destination is known");
}
