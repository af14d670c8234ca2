/* Asks the workers for their copies, puts them in order and makes lines of them. Called by a clerk;
 * changes nothing. */
#include "engine/report/trace_report.h"

#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/trace/trace_question.h"

#include <stdlib.h>
#include <string.h>

enum {
    SESSIONS_DEFAULT = 10,
    SESSIONS_MAX = 200,
    NAME_MAX_BYTES = 320, /* of a nexthop, as in a route */
    SLACK = 128,          /* usec: what times of lines are rounded by */
};

static const usec_t patience = 1 * USEC_PER_SEC;

/* --- the question ----------------------------------------------------------------------------- */

/* false: answered with an error */
static bool read_filter(struct api_call *c, struct flight_filter *ret)
{
    uint64_t limit, after, failed;
    if (!api_param_number(c, "limit", 1, SESSIONS_MAX, SESSIONS_DEFAULT, &limit) ||
        !api_param_number(c, "after", 0, INT64_MAX, 0, &after) ||
        !api_param_number(c, "failed", 0, 1, 0, &failed)) {
        return false;
    }
    *ret = (struct flight_filter){(usec_t)after, failed == 1, (uint32_t)limit};
    return true;
}

/* false: answered with an error */
static bool narrow_transport(const struct engine *e, struct api_call *c, struct trace_question *q)
{
    struct slice name;
    if (!api_param(c, "transport", &name)) {
        return true;
    }
    const struct config *config = settings_of(e)->config;
    for (size_t t = 0; t < config->transport_count; t++) {
        if (slice_eq(name, slice_of(config->transports[t].name))) {
            q->first_transport = (uint16_t)t;
            q->end_transport = (uint16_t)(t + 1);
            return true;
        }
    }
    api_error(c, 404, "missing", "no such transport");
    return false;
}

/* NULL: answered with an error */
static struct trace_question *read_question(const struct engine *e, struct api_call *c)
{
    struct slice name;
    struct flight_filter filter;
    char lower[NAME_MAX_BYTES];
    if (!api_param(c, "destination", &name) || name.len == 0 || name.len > sizeof(lower)) {
        api_error(c, 400, "usage", "destination is needed, of at most %d bytes", NAME_MAX_BYTES);
        return NULL;
    }
    if (!read_filter(c, &filter)) {
        return NULL;
    }
    if (settings_of(e)->config->trace_memory == 0) {
        api_error(c, 503, "unavailable", "trace_memory is 0: nothing is recorded");
        return NULL;
    }
    slice_lower(name, lower);
    struct trace_question *q = trace_question_new(e, slice_make(lower, name.len), &filter);
    if (q == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return NULL;
    }
    if (!narrow_transport(e, c, q)) {
        trace_question_put(q);
        return NULL;
    }
    return q;
}

/* --- the answer ------------------------------------------------------------------------------- */

static const char *outcome_of(const struct flight *f)
{
    if (f->is_failed) {
        return f->why == NULL ? "failed" : f->why;
    }
    if (f->is_open) {
        return "open";
    }
    return f->ended ? "ok" : "idle";
}

/* Lines that came at `after` or later. */
static json_t *lines_of(const struct flight *f, usec_t after)
{
    json_t *lines = json_array();
    struct dialogue_cursor cursor;
    struct dialogue_line line;
    struct buf text;
    buf_init(&text, 0);
    dialogue_begin_reading(&f->dialogue, &cursor);
    while (dialogue_next_line(&cursor, &line, &text)) {
        if (f->dialogue.began + line.at + SLACK < after) {
            continue;
        }
        const char direction[] = {line.direction, '\0'};
        json_t *o = json_pack("{s:I, s:f, s:s, s:o*}", "n", (json_int_t)line.number, "t",
                              (double)line.at / USEC_PER_SEC, "dir", direction, "text",
                              api_text(buf_slice(&text)));
        (void)json_array_append_new(lines, o); /* out of memory: it is left out */
    }
    buf_fini(&text);
    return lines;
}

static void put_flight(const struct engine *e, struct api_call *c, const struct trace_question *q,
                       const struct flight *f)
{
    json_t *o = json_object();
    api_set_number(o, "session", f->session);
    api_set_text(o, "destination", slice_of(q->destination));
    api_set_text(o, "transport", slice_of(settings_of(e)->config->transports[f->transport].name));
    api_set_text(o, "host", slice_of(f->host));
    api_set_text(o, "address", slice_of(f->address));
    api_set_text(o, "source", slice_of(f->source));
    api_set_time(o, "started", f->started);
    if (f->ended != 0) {
        api_set_time(o, "ended", f->ended);
    }
    api_set_text(o, "outcome", slice_of(outcome_of(f)));
    /* Each of these fails for lack of memory only, and is then left out. */
    (void)json_object_set_new(o, "failed", json_boolean(f->is_failed));
    (void)json_object_set_new(o, "open", json_boolean(f->is_open));
    (void)json_object_set_new(o, "excerpt", json_boolean(f->is_excerpt));
    api_set_number(o, "delivered", f->messages);
    (void)json_object_set_new(o, "lines", lines_of(f, q->filter.after));
    api_put(c, o);
}

static int compare_flights(const void *a, const void *b)
{
    const struct flight *x = *(const struct flight *const *)a,
                        *y = *(const struct flight *const *)b;
    if (x->session != y->session) {
        return x->session < y->session ? -1 : 1;
    }
    return (int)y->is_excerpt - (int)x->is_excerpt;
}

/* All workers have answered. */
static void answer_trace(const struct engine *e, struct api_call *c, const struct trace_question *q)
{
    size_t count = 0, filled = 0;
    uint64_t missed_sessions = 0, missed_lines = 0, used = 0;
    usec_t next = USEC_NEVER;
    bool has_more = false;
    for (uint32_t i = 0; i < q->worker_count; i++) {
        const struct trace_answer *a = &q->answers[i];
        count += a->reading.count;
        has_more = has_more || a->reading.has_more;
        missed_sessions += a->reading.missed_sessions;
        missed_lines += a->reading.missed_lines;
        used += a->used;
        next = a->now < next ? a->now : next;
    }
    const struct flight **flights = calloc(count + 1, sizeof(*flights));
    if (flights == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    for (uint32_t i = 0; i < q->worker_count; i++) {
        list_foreach(f, &q->answers[i].reading.flights, const struct flight, link)
        {
            flights[filled++] = f;
        }
    }
    qsort(flights, count, sizeof(*flights), compare_flights);
    size_t first = count > q->filter.limit ? count - q->filter.limit : 0;
    for (size_t i = first; i < count; i++) {
        put_flight(e, c, q, flights[i]);
    }
    free(flights);
    json_t *end = json_object();
    api_set_number(end, "next", (uint64_t)next);
    api_set_number(end, "missed_sessions", missed_sessions);
    api_set_number(end, "missed_lines", missed_lines);
    api_set_number(end, "used_bytes", used);
    api_end_with(c, has_more || first > 0, end);
}

void trace_report_list(struct clerk *k, struct api_call *c)
{
    const struct engine *e = k->engine;
    struct trace_question *q = read_question(e, c);
    if (q == NULL) {
        return;
    }
    if (trace_question_ask(q, e, patience)) {
        answer_trace(e, c, q);
    } else {
        api_error(c, 503, "unavailable", "the workers are too busy to answer; try again");
    }
    trace_question_put(q);
}
