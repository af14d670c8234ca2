/* Which message is next, and what became of the others. Called by the sessions and by main; speaks
 * no SMTP. */
#include "bench/source/source_load.h"

#include "base/error.h"
#include "base/log.h"
#include "bench/source/source_session.h"
#include "bench/tool/report.h"

#include <errno.h>
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
    if (q->count == 0 || q->items[q->first].ready > now) {
        return false;
    }
    *ret = q->items[q->first];
    q->first = (q->first + 1) % q->capacity;
    q->count--;
    return true;
}

static bool is_open(const struct source_load *l)
{
    return l->options->arrivals.rate > 0;
}

/* now: of the offer; what was due before the end is offered, however late that is */
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
    while (is_open(l) && l->next_arrival <= now && has_new(l, l->next_arrival)) {
        queue_push(&l->arrivals, &(struct source_offer){.number = l->next_number++,
                                                        .due = l->next_arrival,
                                                        .ready = l->next_arrival});
        l->next_arrival = l->started + arrivals_next(&l->arrival);
        wake_idle(l, false);
    }
    /* Offers that come back are few; an idle session looks at them each time this runs. */
    if (l->reoffers.count > 0 || source_load_is_done(l)) {
        wake_idle(l, true);
    }
    usec_t next = now + REOFFER_WAIT;
    if (is_open(l) && l->next_arrival < next && has_new(l, l->next_arrival)) {
        next = l->next_arrival;
    }
    timeout_set(&l->timeouts, &l->arrival_timer, next);
}

int source_load_init(struct source_load *l, const struct source_options *options)
{
    memset(l, 0, sizeof(*l));
    l->options = options;
    l->ledger.fd = -1;
    l->arrival = options->arrivals;
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
        l->tenants = calloc(options->tenants + 1, sizeof(*l->tenants));
        err = l->sessions == NULL || l->tenants == NULL ? -ENOMEM : 0;
    }
    return err;
}

int source_load_start(struct source_load *l)
{
    l->started = l->now = clock_mono();
    l->ends = l->options->duration != 0 ? l->started + l->options->duration : USEC_NEVER;
    l->next_arrival = is_open(l) ? l->started + arrivals_next(&l->arrival) : USEC_NEVER;
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
    for (uint32_t i = 0; l->tenants != NULL && i < l->options->tenants; i++) {
        free(l->tenants[i].answer);
    }
    free(l->tenants);
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
    return l->is_stopping || (!has_new(l, is_open(l) ? l->next_arrival : clock_mono()) &&
                              l->arrivals.count == 0 && l->reoffers.count == 0);
}

void source_load_stop(struct source_load *l)
{
    l->is_stopping = true;
    wake_idle(l, true);
}

bool source_load_take(struct source_load *l, struct source_offer *ret)
{
    if (l->is_stopping) {
        return false;
    }
    usec_t now = clock_mono();
    if (queue_pop(&l->reoffers, now, ret)) {
        l->reoffered++;
        return true;
    }
    if (is_open(l)) {
        return queue_pop(&l->arrivals, now, ret);
    }
    if (!has_new(l, now)) {
        return false;
    }
    *ret = (struct source_offer){.number = l->next_number++, .due = now};
    return true;
}

static struct source_tenant *tenant_of(const struct source_load *l, uint64_t number)
{
    return &l->tenants[source_message_tenant(&l->template, number)];
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

static int end_load_line(struct source_load *l, struct buf *line)
{
    buf_append_str(line, "}\n");
    int err = line->failed ? -ENOMEM : ledger_write(&l->ledger, buf_slice(line));
    buf_fini(line);
    return err;
}

int source_load_offered(struct source_load *l, struct source_offer *offer)
{
    l->tally.offered++;
    l->under_way++;
    offer->begun = clock_mono();
    if (l->options->tenants > 0) {
        tenant_of(l, offer->number)->tally.offered++;
    }
    if (l->first_offer == 0) {
        l->first_offer = offer->begun;
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
    source_message_sender(&l->template, offer->number, &address);
    report_string(&line, buf_slice(&address));
    buf_append_str(&line, ", \"recipients\": [");
    uint32_t count = source_message_recipients(&l->template, offer->number);
    for (uint32_t i = 0; i < count; i++) {
        buf_clear(&address);
        source_message_recipient(&l->template, offer->number, i, &address);
        buf_append_str(&line, i == 0 ? "" : ", ");
        report_string(&line, buf_slice(&address));
    }
    buf_fini(&address);
    source_message_hash(&l->template, offer->number, hash);
    buf_printf(&line, "], \"sha256\": \"%s\"", hash);
    return end_load_line(l, &line);
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
    int err = end_load_line(l, &line);
    if (err != 0) {
        log_error("ledger: %s", err_str(err));
    }
}

/* What was offered again counts from its first time: the answer that it was due came late. */
static void note_answer(struct source_load *l, const struct source_offer *offer, usec_t now)
{
    uint64_t answer = (uint64_t)(now - offer->due);
    l->last_ack = now;
    histogram_add(&l->answer, answer);
    histogram_add(&l->service, (uint64_t)(now - offer->begun));
    if (l->options->tenants > 0) {
        struct source_tenant *tenant = tenant_of(l, offer->number);
        if (tenant->answer == NULL) {
            tenant->answer = calloc(1, sizeof(*tenant->answer));
        }
        if (tenant->answer == NULL) {
            abort(); /* as in queue_push */
        }
        histogram_add(tenant->answer, answer);
    }
}

const char *source_fate_name(enum source_fate fate)
{
    static const char *const names[] = {"acked", "refused", "deferred", "unknown", "unsent"};
    return names[fate];
}

void source_load_settle(struct source_load *l, const struct source_offer *offer,
                        enum source_fate fate, struct slice text, struct slice refused)
{
    usec_t now = clock_mono();
    l->now = now;
    l->under_way--;
    l->tally.fates[fate]++;
    if (l->options->tenants > 0) {
        tenant_of(l, offer->number)->tally.fates[fate]++;
    }
    for (size_t i = 0; i < refused.len; i++) {
        l->refused_recipients += refused.data[i] == '\n' ? 1 : 0;
    }
    write_fate(l, offer->number, source_fate_name(fate), text, refused);
    if (fate == SOURCE_ACKED) {
        note_answer(l, offer, now);
        return;
    }
    source_load_problem(l, source_fate_name(fate), text);
    if (l->options->does_reoffer && fate != SOURCE_REFUSED) {
        struct source_offer again = *offer;
        again.ready = fate == SOURCE_DEFERRED ? now + REOFFER_WAIT : now;
        queue_push(&l->reoffers, &again);
    }
}

void source_load_problem(struct source_load *l, const char *what, struct slice why)
{
    int len = why.len < 150 ? (int)why.len : 150;
    (void)snprintf(l->last_problem, sizeof(l->last_problem), "%s: %.*s", what, len,
                   len > 0 ? why.data : "");
}
