/* Which message is next, and what became of the others. Called by the sessions and by main; speaks
 * no SMTP. */
#include "bench/source_load.h"

#include "base/error.h"
#include "base/log.h"
#include "bench/report.h"
#include "bench/source_session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_A_PASS 256
#define REOFFER_WAIT  (100 * USEC_PER_MSEC) /* after a 4xx */

static void queue_push(struct source_queue *q, const struct source_offer *offer)
{
    if (q->count == q->capacity) {
        size_t capacity = q->capacity == 0 ? 256 : q->capacity * 2;
        struct source_offer *items = malloc(capacity * sizeof(*items));
        if (items == NULL) {
            abort(); /* a load that forgets messages measures nothing */
        }
        for (size_t i = 0; i < q->count; i++) {
            items[i] = q->items[(q->first + i) % q->capacity];
        }
        free(q->items);
        *q = (struct source_queue){.items = items, .count = q->count, .capacity = capacity};
    }
    q->items[(q->first + q->count++) % q->capacity] = *offer;
}

static bool queue_pop(struct source_queue *q, usec_t now, struct source_offer *ret)
{
    if (q->count == 0 || q->items[q->first].due > now) {
        return false;
    }
    *ret = q->items[q->first];
    q->first = (q->first + 1) % q->capacity;
    q->count--;
    return true;
}

/* Exponential gap with the mean 1/rate: arrivals are then Poisson. */
static usec_t draw_gap(struct source_load *l)
{
    l->random ^= l->random >> 12; /* xorshift64* (Vigna 2016) */
    l->random ^= l->random << 25;
    l->random ^= l->random >> 27;
    uint64_t bits = l->random * 2685821657736338717ULL;
    double uniform = ((double)(bits >> 11) + 0.5) * 0x1p-53;
    return (usec_t)(-log(uniform) / l->options->rate * (double)USEC_PER_SEC);
}

static bool has_new(const struct source_load *l, usec_t now)
{
    return !l->is_stopping && now < l->ends &&
           (l->options->messages == 0 || l->next_number < l->options->messages);
}

static void wake_idle(struct source_load *l, bool all)
{
    struct list woken;
    /* A session that finds nothing goes back to the list. */
    list_init(&woken);
    while (!list_is_empty(&l->idle)) {
        struct source_session *s = list_first(&l->idle, struct source_session, link);
        list_remove(&s->link);
        list_push_back(&woken, &s->link);
        if (!all) {
            break;
        }
    }
    while (!list_is_empty(&woken)) {
        struct source_session *s = list_first(&woken, struct source_session, link);
        list_remove(&s->link);
        source_session_wake(s);
    }
}

static void arrive(struct timeout *t, usec_t now)
{
    struct source_load *l = container_of(t, struct source_load, arrival_timer);
    while (l->options->rate > 0 && l->next_arrival <= now && has_new(l, now)) {
        queue_push(&l->arrivals, &(struct source_offer){l->next_number++, l->next_arrival});
        l->next_arrival += draw_gap(l);
        wake_idle(l, false);
    }
    /* Offers that come back are few; an idle session looks at them each time this runs. */
    if (l->reoffers.count > 0 || source_load_is_done(l)) {
        wake_idle(l, true);
    }
    usec_t next = now + REOFFER_WAIT;
    if (l->options->rate > 0 && l->next_arrival < next && has_new(l, now)) {
        next = l->next_arrival;
    }
    timeout_set(&l->timeouts, &l->arrival_timer, next);
}

int source_load_init(struct source_load *l, const struct source_options *options)
{
    memset(l, 0, sizeof(*l));
    l->options = options;
    l->ledger.fd = -1;
    l->random = options->seed * 0x9e3779b97f4a7c15ULL + 1;
    list_init(&l->idle);
    timeout_queue_init(&l->timeouts);
    int err = source_template_init(&l->template, options);
    if (err == 0) {
        err = ledger_open(&l->ledger, options->ledger_path, options->does_ledger_sync);
    }
    if (err == 0) {
        err = poller_init(&l->poller, EVENTS_A_PASS);
    }
    if (err == 0) {
        err = timeout_add(&l->timeouts, &l->arrival_timer, arrive);
    }
    if (err == 0) {
        l->sessions = calloc(options->connections, sizeof(*l->sessions));
        err = l->sessions == NULL ? -ENOMEM : 0;
    }
    return err;
}

int source_load_start(struct source_load *l)
{
    l->started = clock_mono();
    l->ends = l->options->duration != 0 ? l->started + l->options->duration : USEC_NEVER;
    l->next_arrival = l->started;
    timeout_set(&l->timeouts, &l->arrival_timer, l->started);
    for (uint32_t i = 0; i < l->options->connections; i++) {
        l->alive++;
        int err = source_session_init(&l->sessions[i], l);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

void source_load_fini(struct source_load *l)
{
    for (uint32_t i = 0; l->sessions != NULL && i < l->options->connections; i++) {
        source_session_fini(&l->sessions[i]);
    }
    free(l->sessions);
    free(l->arrivals.items);
    free(l->reoffers.items);
    timeout_remove(&l->timeouts, &l->arrival_timer);
    timeout_queue_fini(&l->timeouts);
    poller_fini(&l->poller);
    ledger_close(&l->ledger);
    source_template_fini(&l->template);
}

bool source_load_is_done(const struct source_load *l)
{
    if (l->alive == 0) {
        return true;
    }
    if (l->under_way > 0) {
        return false;
    }
    return l->is_stopping ||
           (!has_new(l, clock_mono()) && l->arrivals.count == 0 && l->reoffers.count == 0);
}

void source_load_stop(struct source_load *l)
{
    l->is_stopping = true;
    wake_idle(l, true);
}

bool source_load_take(struct source_load *l, struct source_offer *ret)
{
    usec_t now = clock_mono();
    if (l->is_stopping) {
        return false;
    }
    if (queue_pop(&l->reoffers, now, ret)) {
        l->reoffered++;
        return true;
    }
    if (l->options->rate > 0) {
        return queue_pop(&l->arrivals, now, ret);
    }
    if (!has_new(l, now)) {
        return false;
    }
    *ret = (struct source_offer){l->next_number++, now};
    return true;
}

static void begin_line(const struct source_load *l, uint64_t number, const char *event,
                       struct buf *line)
{
    char id[SOURCE_ID_BYTES];
    source_message_id(&l->template, number, id);
    buf_append_char(line, '{');
    report_seconds(line, "time", clock_wall());
    buf_printf(line, ", \"event\": \"%s\", \"id\": ", event);
    report_string(line, slice_of(id));
}

static int end_line(struct source_load *l, struct buf *line)
{
    buf_append_str(line, "}\n");
    int err = line->failed ? -ENOMEM : ledger_write(&l->ledger, buf_slice(line));
    buf_fini(line);
    return err;
}

int source_load_offered(struct source_load *l, const struct source_offer *offer)
{
    l->offered++;
    l->under_way++;
    if (l->first_offer == 0) {
        l->first_offer = clock_wall();
    }
    if (!ledger_is_open(&l->ledger)) {
        return 0;
    }
    struct buf line;
    struct buf address;
    char hash[SOURCE_HASH_BYTES];
    buf_init(&line, 0);
    buf_init(&address, 0);
    begin_line(l, offer->number, "offered", &line);
    buf_append_str(&line, ", \"sender\": ");
    report_string(&line, slice_of(l->options->sender));
    buf_append_str(&line, ", \"recipients\": [");
    for (uint32_t i = 0; i < l->options->recipients; i++) {
        buf_clear(&address);
        source_message_recipient(&l->template, offer->number, i, &address);
        buf_append_str(&line, i == 0 ? "" : ", ");
        report_string(&line, buf_slice(&address));
    }
    buf_fini(&address);
    source_message_hash(&l->template, offer->number, hash);
    buf_printf(&line, "], \"sha256\": \"%s\"", hash);
    return end_line(l, &line);
}

static void write_fate(struct source_load *l, uint64_t number, const char *event, struct slice text,
                       struct slice refused)
{
    struct buf line;
    if (!ledger_is_open(&l->ledger)) {
        return;
    }
    buf_init(&line, 0);
    begin_line(l, number, event, &line);
    buf_append_str(&line, ", \"text\": ");
    report_string(&line, text);
    buf_append_str(&line, ", \"refused\": [");
    for (const char *separator = ""; refused.len > 0; separator = ", ") {
        size_t len = slice_find(refused, '\n');
        buf_append_str(&line, separator);
        report_string(&line, slice_to(refused, len));
        refused = slice_from(refused, len < refused.len ? len + 1 : len);
    }
    buf_append_char(&line, ']');
    int err = end_line(l, &line);
    if (err != 0) {
        log_error("ledger: %s", err_str(err));
    }
}

void source_load_settle(struct source_load *l, const struct source_offer *offer,
                        enum source_fate fate, struct slice text, struct slice refused)
{
    static const char *const names[] = {"acked", "refused", "deferred", "unknown", "unsent"};
    uint64_t *const counters[] = {&l->acked, &l->refused, &l->deferred, &l->unknown, &l->unsent};
    usec_t now = clock_mono();
    l->under_way--;
    ++*counters[fate];
    for (size_t i = 0; i < refused.len; i++) {
        l->refused_recipients += refused.data[i] == '\n' ? 1 : 0;
    }
    write_fate(l, offer->number, names[fate], text, refused);
    if (fate == SOURCE_ACKED) {
        l->last_ack = clock_wall();
        histogram_add(&l->latency, (uint64_t)(now - offer->due));
        return;
    }
    source_load_problem(l, names[fate], text);
    if (l->options->does_reoffer && fate != SOURCE_REFUSED) {
        usec_t due = fate == SOURCE_DEFERRED ? now + REOFFER_WAIT : now;
        queue_push(&l->reoffers, &(struct source_offer){offer->number, due});
    }
}

void source_load_problem(struct source_load *l, const char *what, struct slice why)
{
    (void)snprintf(l->last_problem, sizeof(l->last_problem), "%s: %.150s", what,
                   why.len > 0 ? why.data : "");
    size_t len = strlen(what) + 2 + why.len;
    if (len < sizeof(l->last_problem)) {
        l->last_problem[len] = '\0'; /* why need not end in NUL */
    }
}

static void put_number(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "\"%s\": %llu, ", name, (unsigned long long)value);
}

void source_load_report(const struct source_load *l, struct buf *out)
{
    double elapsed = (double)(l->last_ack - l->first_offer) / (double)USEC_PER_SEC;
    bool has_elapsed = l->last_ack > l->first_offer;
    buf_append_char(out, '{');
    report_seconds(out, "time", clock_wall());
    buf_append_str(out, ", ");
    put_number(out, "offered", l->offered);
    put_number(out, "acked", l->acked);
    put_number(out, "refused", l->refused);
    put_number(out, "deferred", l->deferred);
    put_number(out, "unknown", l->unknown);
    put_number(out, "unsent", l->unsent);
    put_number(out, "reoffered", l->reoffered);
    put_number(out, "refused_recipients", l->refused_recipients);
    put_number(out, "connections", l->connections);
    put_number(out, "failures", l->failures);
    report_seconds(out, "first_offer", l->first_offer);
    buf_append_str(out, ", ");
    report_seconds(out, "last_ack", l->last_ack);
    buf_printf(out, ", \"elapsed\": %.6f, \"rate\": %.1f, ", has_elapsed ? elapsed : 0.0,
               has_elapsed ? (double)l->acked / elapsed : 0.0);
    report_latency(out, &l->latency);
    buf_append_str(out, ", \"last_problem\": ");
    report_string(out, slice_of(l->last_problem));
    buf_append_str(out, "}\n");
}
