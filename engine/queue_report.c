/* Reads the schedulers' views and the atomics of struct engine under RCU, and the spool through a
 * reader that is open for one page of an answer at a time. */
#include "engine/queue_report.h"

#include "base/error.h"
#include "base/rcu.h"
#include "engine/answer.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "engine/host_report.h"
#include "engine/message.h"
#include "engine/router.h"
#include "engine/sched_thread.h"
#include "engine/settings.h"
#include "engine/spool_store.h"
#include "sched/sched.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LIST_DEFAULT = 1000,
    LIST_MAX = 100000,
    PAGE = 500, /* messages read in one view of the spool */
};

struct queue_report {
    struct engine *engine;
    struct spool_reader *reader;
    uint64_t *active; /* ids that schedulers hold, sorted; for one request */
    size_t active_count;
};

/* --- which messages are active -------------------------------------------------------------------
 */

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void read_active(struct queue_report *q)
{
    const struct engine *e = q->engine;
    size_t capacity = 0;
    free(q->active);
    q->active = NULL;
    q->active_count = 0;
    for (uint32_t t = 0; t < e->config->transport_count; t++) {
        const struct sched *s = sched_thread_core(e->scheds[t % e->sched_count], t);
        struct sched_job_view job;
        uint64_t cursor = 0;
        while (sched_view_jobs(s, &cursor, &job)) {
            if (q->active_count == capacity) {
                capacity = capacity == 0 ? 1024 : capacity * 2;
                uint64_t *grown = realloc(q->active, capacity * sizeof(*grown));
                if (grown == NULL) {
                    return; /* some active ones are then shown as incoming */
                }
                q->active = grown;
            }
            q->active[q->active_count++] = job.message_id;
        }
    }
    if (q->active_count > 0) {
        qsort(q->active, q->active_count, sizeof(*q->active), compare_ids);
    }
}

static bool is_active(const struct queue_report *q, uint64_t id)
{
    return q->active_count > 0 &&
           bsearch(&id, q->active, q->active_count, sizeof(*q->active), compare_ids) != NULL;
}

/* --- messages ----------------------------------------------------------------------------------
 */

struct recipient_count {
    uint32_t pending;
    uint32_t newest; /* index of a recipient with a reason */
    bool has_reason;
};

static void count_recipients(struct queue_report *q, const struct spool_envelope *e,
                             struct recipient_count *ret)
{
    uint32_t batches = (e->recipient_count + SPOOL_BATCH_RECIPIENTS - 1) / SPOOL_BATCH_RECIPIENTS;
    *ret = (struct recipient_count){.pending = e->recipient_count};
    for (uint32_t b = 0; b < batches; b++) {
        struct slice states;
        if (spool_read_states(q->reader, e->id, b, &states) != 0) {
            continue; /* none stored: all pending */
        }
        for (size_t i = 0; i < states.len; i++) {
            if (states.data[i] == SPOOL_RECIPIENT_DELIVERED ||
                states.data[i] == SPOOL_RECIPIENT_FAILED) {
                ret->pending--;
            } else if (states.data[i] == SPOOL_RECIPIENT_DEFERRED) {
                ret->has_reason = true;
                ret->newest = b * SPOOL_BATCH_RECIPIENTS + (uint32_t)i;
            }
        }
    }
}

static json_t *message_object(struct queue_report *q, const struct spool_envelope *e)
{
    char id[MESSAGE_ID_TEXT];
    struct spool_retry retry = {0};
    struct recipient_count count;
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    message_id_format(e->id, id);
    if (spool_read_retry(q->reader, e->id, &retry) != 0) {
        retry = (struct spool_retry){0}; /* damaged: shown as never tried */
    }
    count_recipients(q, e, &count);
    answer_set_text(o, "id", slice_of(id));
    answer_set_time(o, "created", e->created);
    answer_set_text(o, "sender", e->sender);
    answer_set_number(o, "size", e->size_bytes);
    answer_set_number(o, "recipients", e->recipient_count);
    answer_set_number(o, "pending", count.pending);
    bool is_deferred = retry.attempts > 0;
    answer_set_text(o, "state",
                    is_active(q, e->id) ? SLICE("active")
                    : is_deferred       ? SLICE("deferred")
                                        : SLICE("incoming"));
    if (is_deferred) {
        answer_set_time(o, "due", retry.due);
    }
    answer_set_number(o, "attempts", retry.attempts);
    struct spool_reason reason;
    if (count.has_reason && spool_read_reason(q->reader, e->id, count.newest, &reason) == 0) {
        char text[1200];
        int len = reason.code == 0
                      ? snprintf(text, sizeof(text), SLICE_FMT " " SLICE_FMT,
                                 SLICE_ARG(reason.status), SLICE_ARG(reason.text))
                      : snprintf(text, sizeof(text), "%u " SLICE_FMT " " SLICE_FMT, reason.code,
                                 SLICE_ARG(reason.status), SLICE_ARG(reason.text));
        size_t shown = len < 0 ? 0 : (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1;
        answer_set_text(o, "last_reply", slice_make(text, shown));
    }
    return o;
}

/* The spool may be in the hands of the writer for a moment (being reopened). */
static bool begin_reading(struct queue_report *q)
{
    for (int i = 0; i < 200; i++) {
        if (spool_reader_begin(q->reader) == 0) {
            return true;
        }
        rcu_sleep();
        (void)usleep(10 * 1000); /* shorter is as good */
        rcu_awake();
    }
    return false;
}

static void answer_list(struct queue_report *q, struct answer *a, uint64_t after, uint64_t limit)
{
    bool is_at_end = false;
    read_active(q);
    while (!is_at_end && limit > 0 && !a->has_failed) {
        if (!begin_reading(q)) {
            answer_error(a, "unavailable", "the spool is being reopened");
            return;
        }
        for (int i = 0; i < PAGE && limit > 0; i++) {
            struct spool_envelope e;
            struct slice body;
            uint64_t id;
            if (spool_next_message(q->reader, after, &id) != 0) {
                is_at_end = true;
                break;
            }
            after = id;
            if (spool_read_message(q->reader, id, &e, &body) == 0) {
                answer_put(a, message_object(q, &e));
                limit--;
            }
        }
        spool_reader_end(q->reader); /* a slow client never pins pages */
        answer_flush(a);
    }
    answer_end(a, !is_at_end);
}

static json_t *recipient_object(struct queue_report *q, uint64_t id, struct slice address,
                                uint32_t index, int state)
{
    static const char *const states[] = {"pending", "deferred", "delivered", "failed"};
    struct route_result route;
    struct spool_reason reason;
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    answer_set_text(o, "recipient", address);
    answer_set_number(o, "index", index);
    answer_set_text(o, "state", slice_of(state >= 0 && state < 4 ? states[state] : "pending"));
    if (router_route(settings_of(q->engine)->router, router_domain(address), &route)) {
        answer_set_text(o, "transport",
                        slice_of(q->engine->config->transports[route.transport].name));
        answer_set_text(o, "destination", route.nexthop);
    }
    if (spool_read_reason(q->reader, id, index, &reason) == 0) {
        answer_set_time(o, "time", reason.time);
        if (reason.code != 0) {
            answer_set_number(o, "code", reason.code);
        }
        answer_set_text(o, "status", reason.status);
        answer_set_text(o, "reply", reason.text);
        if (reason.remote_mta.len > 0) {
            answer_set_text(o, "remote_mta", reason.remote_mta);
        }
    }
    return o;
}

/* Begins with the reader open and ends it. */
static void show_recipients(struct queue_report *q, struct answer *a, uint64_t id, uint32_t count)
{
    uint32_t batches = (count + SPOOL_BATCH_RECIPIENTS - 1) / SPOOL_BATCH_RECIPIENTS;
    for (uint32_t b = 0; b < batches && !a->has_failed; b++) {
        struct slice packed, states = SLICE(""), address;
        if (answer_is_long(a)) {
            spool_reader_end(q->reader);
            answer_flush(a);
            if (!begin_reading(q)) {
                a->has_failed = true; /* no end line */
                return;
            }
        }
        if (spool_read_recipients(q->reader, id, b, &packed) != 0) {
            break;
        }
        if (spool_read_states(q->reader, id, b, &states) != 0) {
            states = SLICE("");
        }
        for (uint32_t i = 0; spool_packed_next(&packed, &address); i++) {
            int state = i < states.len ? states.data[i] : SPOOL_RECIPIENT_PENDING;
            answer_put(a, recipient_object(q, id, address, b * SPOOL_BATCH_RECIPIENTS + i, state));
        }
    }
    spool_reader_end(q->reader);
}

static void answer_show(struct queue_report *q, struct answer *a, uint64_t id)
{
    struct spool_envelope e;
    struct slice body;
    const struct config *config = settings_of(q->engine)->config;
    read_active(q);
    if (!begin_reading(q)) {
        answer_error(a, "unavailable", "the spool is being reopened");
        return;
    }
    int err = spool_read_message(q->reader, id, &e, &body);
    json_t *o = err == 0 ? message_object(q, &e) : NULL;
    if (o != NULL) {
        usec_t lifetime =
            e.sender.len == 0 ? config->bounce_queue_lifetime : config->maximal_queue_lifetime;
        answer_set_time(o, "expires", e.created + lifetime);
        answer_set_text(o, "peer_name", e.peer_name);
        answer_set_text(o, "peer_address", e.peer_address);
        answer_set_text(o, "protocol", e.protocol);
        answer_set_text(o, "auth_user", e.auth_user);
        answer_put(a, o);
        show_recipients(q, a, id, e.recipient_count);
    } else {
        spool_reader_end(q->reader);
    }
    if (err != 0) {
        answer_error(a, err == ERR_MISSING ? "missing" : "unavailable",
                     err == ERR_MISSING ? "no such message" : err_str(err));
        return;
    }
    answer_end(a, false);
}

/* --- counts ------------------------------------------------------------------------------------
 */

static void put_destinations(struct queue_report *q, struct answer *a, uint32_t transport,
                             struct sched_counters *total)
{
    static const char *const states[SCHED_DESTINATION_STATE_COUNT] = {"ready", "dead", "suspended",
                                                                      "resolving"};
    const struct engine *e = q->engine;
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    struct sched_destination_view d;
    struct sched_counters counters;
    uint64_t cursor = 0;
    while (sched_view_destinations(s, &cursor, &d)) {
        json_t *o = json_pack(
            "{s:s, s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I}", "transport",
            e->config->transports[transport].name, "destination", answer_text(d.name), "state",
            states[d.state], "why", sched_why_text(d.why), "window", d.window, "busy", d.busy,
            "in_flight", d.in_flight, "todo", d.todo, "connections", d.connections, "idle", d.idle,
            "delivered", (json_int_t)d.delivered, "deferred", (json_int_t)d.deferred);
        if (o != NULL &&
            (d.state == SCHED_DESTINATION_DEAD || d.state == SCHED_DESTINATION_SUSPENDED)) {
            answer_set_time(o, "until", clock_wall() + (d.state_until - clock_mono()));
        }
        answer_put(a, o);
        if (answer_is_long(a)) {
            answer_flush(a); /* the cursor outlives it, d does not and is not used again */
        }
    }
    sched_view_counters(s, &counters);
    total->destinations += counters.destinations;
    total->dead += counters.dead;
    total->entries_waiting += counters.entries_waiting;
    total->entries_in_flight += counters.entries_in_flight;
    total->connections += counters.connections;
    total->idle += counters.idle;
    total->recipients_in_core += counters.recipients_in_core;
}

static void answer_counts(struct queue_report *q, struct answer *a)
{
    struct spool_counts spool = {0};
    struct sched_counters total = {0};
    const struct engine *e = q->engine;
    if (!begin_reading(q)) {
        answer_error(a, "unavailable", "the spool is being reopened");
        return;
    }
    int err = spool_read_counts(q->reader, &spool);
    spool_reader_end(q->reader);
    if (err != 0) {
        answer_error(a, "unavailable", err_str(err));
        return;
    }
    for (uint32_t t = 0; t < e->config->transport_count; t++) {
        put_destinations(q, a, t, &total);
    }
    json_t *o = json_pack("{s:b}", "totals", 1);
    if (o != NULL) {
        answer_set_number(o, "messages", spool.messages);
        answer_set_number(o, "incoming", spool.incoming);
        answer_set_number(o, "deferred", spool.deferred);
        answer_set_number(o, "quarantined", spool.quarantined);
        answer_set_number(o, "active",
                          atomic_load_explicit(&e->active_messages, memory_order_relaxed));
        answer_set_number(o, "recipients_in_core", total.recipients_in_core);
        answer_set_number(o, "entries_waiting", total.entries_waiting);
        answer_set_number(o, "entries_in_flight", total.entries_in_flight);
        answer_set_number(o, "connections", total.connections);
        answer_set_number(o, "idle", total.idle);
        answer_set_number(o, "destinations", total.destinations);
        answer_set_number(o, "dead", total.dead);
        answer_set_number(o, "used_bytes", spool.used_bytes);
        answer_set_number(o, "map_bytes", spool.map_bytes);
        answer_set_number(o, "received", atomic_load_explicit(&e->received, memory_order_relaxed));
        answer_set_number(o, "delivered",
                          atomic_load_explicit(&e->delivered, memory_order_relaxed));
        answer_set_number(o, "deferrals", atomic_load_explicit(&e->deferred, memory_order_relaxed));
        answer_set_number(o, "failed", atomic_load_explicit(&e->failed, memory_order_relaxed));
        answer_set_number(o, "ambiguous",
                          atomic_load_explicit(&e->ambiguous, memory_order_relaxed));
    }
    answer_put(a, o);
    answer_end(a, false);
}

/* --- requests ----------------------------------------------------------------------------------
 */

static bool parse_number(struct slice s, uint64_t *ret)
{
    uint64_t n = 0;
    if (s.len == 0 || s.len > 19) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return false;
        }
        n = n * 10 + (uint64_t)(s.data[i] - '0');
    }
    *ret = n;
    return true;
}

static bool next_word(struct slice *line, struct slice *ret)
{
    *line = slice_trim(*line);
    size_t end = slice_find(*line, ' ');
    *ret = slice_to(*line, end);
    *line = slice_from(*line, end);
    return ret->len > 0;
}

static void request_list(struct queue_report *q, struct answer *a, struct slice arguments)
{
    uint64_t limit = LIST_DEFAULT, after = 0;
    struct slice word;
    while (next_word(&arguments, &word)) {
        size_t equals = slice_find(word, '=');
        struct slice key = slice_to(word, equals);
        struct slice value = equals < word.len ? slice_from(word, equals + 1) : SLICE("");
        bool is_good = slice_eq(key, SLICE("limit"))
                           ? parse_number(value, &limit) && limit >= 1 && limit <= LIST_MAX
                           : slice_eq(key, SLICE("after")) && message_id_parse(value, &after);
        if (!is_good) {
            answer_error(a, "usage", "usage: queue list [limit=1..100000] [after=ID]");
            return;
        }
    }
    answer_list(q, a, after, limit);
}

static void serve(struct queue_report *q, struct answer *a, struct slice line)
{
    struct slice word, verb;
    uint64_t id;
    if (!next_word(&line, &word) || !slice_eq(word, SLICE("queue")) || !next_word(&line, &verb)) {
        answer_error(a, "usage", "unknown request");
    } else if (slice_eq(verb, SLICE("list"))) {
        request_list(q, a, line);
    } else if (slice_eq(verb, SLICE("counts"))) {
        answer_counts(q, a);
    } else if (slice_eq(verb, SLICE("hosts"))) {
        host_report_answer(q->engine, a, slice_trim(line));
    } else if (slice_eq(verb, SLICE("show")) && next_word(&line, &word) &&
               message_id_parse(word, &id)) {
        answer_show(q, a, id);
    } else {
        answer_error(a, "usage", "usage: queue list | queue counts | queue hosts | queue show ID");
    }
}

void queue_report_answer(struct queue_report *q, int fd, struct slice request)
{
    struct answer a;
    answer_init(&a, fd);
    serve(q, &a, request);
    answer_fini(&a);
}

int queue_report_new(struct engine *engine, struct queue_report **ret)
{
    struct queue_report *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        return -ENOMEM;
    }
    q->engine = engine;
    int err = spool_reader_new(engine->store, &q->reader);
    if (err != 0) {
        free(q);
        return err;
    }
    *ret = q;
    return 0;
}

void queue_report_free(struct queue_report *q)
{
    if (q != NULL) {
        spool_reader_free(q->reader);
        free(q->active);
        free(q);
    }
}
