#include "tests/sim/sched_driver.h"

#include "sched/candidate.h"
#include "sched/sched.h"
#include "sched/transport.h"
#include "tests/sim/sched_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES    64
#define RECIPIENTS  24
#define CONNECTIONS 16
#define DOMAINS     6
#define WIDE        24 /* addresses of a message to everyone */

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum recipient_state { UNREAD, WAITING, BUSY, SETTLED };

struct message {
    bool is_active, is_reading;
    uint32_t count, read;
    struct sched_recipient recipients[RECIPIENTS];
    enum recipient_state states[RECIPIENTS];
};

struct connection_model {
    bool is_open;
    struct sched_entry *entry; /* NULL: idle */
    struct sched_destination *destination;
};

struct question {
    struct sched_destination *destination;
    struct question *next;
};

struct driver {
    const uint8_t *data;
    size_t size, at;
    struct sched_config config;
    struct sched *sched;
    usec_t now;
    uint64_t next_id;
    struct message messages[MESSAGES]; /* of id at id % MESSAGES */
    struct connection_model connections[CONNECTIONS];
    struct question *questions;
    unsigned busy;
    bool is_kind; /* nothing fails any more: what waits must be selected */
    long objects, hosts;
    long fail_after; /* allocations; < 0: never */
};

static void *allocate(void *ctx, size_t size)
{
    struct driver *d = ctx;
    if (d->fail_after == 0) {
        return NULL;
    }
    d->fail_after -= d->fail_after > 0;
    d->objects++;
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    struct driver *d = ctx;
    d->objects--;
    free(obj);
}

/* Hosts are counted objects of one byte, so that a late or double release is seen by ASan. */
static void release_hosts(void *ctx, void *hosts)
{
    struct driver *d = ctx;
    d->hosts--;
    free(hosts);
}

static bool has_input(const struct driver *d)
{
    return d->at < d->size;
}

static unsigned take(struct driver *d, unsigned below)
{
    if (!has_input(d)) {
        return 0;
    }
    return d->data[d->at++] % below;
}

static void check_candidate(struct driver *d)
{
    struct sched *s = d->sched;
    if (s->current != NULL && s->config.delivery_slot_cost >= 2) {
        REQUIRE(candidate_search(s, s->current) == sched_oracle_candidate(s, s->current));
    }
}

static void check(struct driver *d)
{
    struct sched_fault fault;
    if (sched_check(d->sched, &fault) != 0) {
        (void)fprintf(stderr, "sched_check: %s\n", fault.text);
        abort();
    }
    REQUIRE(sched_in_flight(d->sched) == d->busy);
    check_candidate(d);
}

static struct message *message_of(struct driver *d, uint64_t id)
{
    return &d->messages[id % MESSAGES];
}

static struct sched_feedback take_feedback(struct driver *d)
{
    static const double bases[] = {1, 0.5, 0, 1.0 / 3};
    return (struct sched_feedback){(enum sched_feedback_kind)take(d, 3), bases[take(d, 4)]};
}

static void configure(struct driver *d)
{
    struct sched_config *c = &d->config;
    sched_config_defaults(c);
    c->concurrency_feedback_rule = (enum sched_feedback_rule)take(d, 2);
    c->initial_destination_concurrency = 1 + (int)take(d, 5);
    c->destination_concurrency_limit = (int)take(d, 6);
    c->destination_concurrency_positive_feedback = take_feedback(d);
    c->destination_concurrency_negative_feedback = take_feedback(d);
    c->destination_concurrency_failed_cohort_limit = (int)take(d, 4);
    c->destination_recipient_limit = (int)take(d, 4);
    c->destination_rate_delay = take(d, 4) == 0 ? 3 * USEC_PER_SEC : 0;
    c->transport_rate_delay = take(d, 8) == 0 ? 2 * USEC_PER_SEC : 0;
    c->delivery_slot_cost = (int)take(d, 6);
    c->delivery_slot_loan = (int)take(d, 4);
    c->delivery_slot_discount = (int)take(d, 3) * 50;
    c->minimum_delivery_slots = (int)take(d, 3);
    c->recipient_limit = (int)take(d, 30);
    c->extra_recipient_limit = (int)take(d, 10);
    c->recipient_refill_limit = 1 + (int)take(d, 6);
    c->recipient_refill_delay = USEC_PER_SEC * (1 + take(d, 5));
    c->message_recipient_limit = 1 + (int)take(d, 30);
    c->message_recipient_minimum = 1 + (int)take(d, 5);
    c->minimal_backoff_time = USEC_PER_SEC * (1 + take(d, 20));
    c->process_limit = 1 + (int)take(d, CONNECTIONS);
    c->connection_idle_limit = USEC_PER_SEC * take(d, 8);
    c->must_resolve = take(d, 2) == 0;
    c->unasked_selection = take(d, 2) == 0;
    c->feedback_debug = take(d, 2) == 0;
    c->max_message_concurrency = take(d, 4) == 0 ? (int)take(d, 4) : 0;
    c->scale_max_concurrency = take(d, 4) == 0 ? (int)take(d, 4) : 0;
}

static struct sched_message next_part(struct driver *d, uint64_t id, uint32_t limit)
{
    struct message *m = message_of(d, id);
    uint32_t left = m->count - m->read;
    uint32_t count = left < limit ? left : limit;
    struct sched_message part = {
        .id = id,
        .handle = m,
        .recipients = m->recipients + m->read,
        .recipient_count = count,
        .unread_count = left - count,
        .more = count == limit,
    };
    return part;
}

static void accepted(struct message *m, const struct sched_message *part)
{
    for (uint32_t i = 0; i < part->recipient_count; i++) {
        REQUIRE(m->states[m->read] == UNREAD);
        m->states[m->read++] = WAITING;
    }
}

static void submit(struct driver *d)
{
    static const struct {
        const char *address, *nexthop;
    } to[WIDE] = {
        {"u@d0", "d0"},         {"Ab@d1", "d1"},        {"u@d2", "d2"},   {"v@d3", "d3"},
        {"w@d4", "d4"},         {"x@d5", "d5"},         {"nobody", "d0"}, {"u@D0", "d0"},
        {"u@d0.e", "d0"},       {"b@e1", "d1"},         {"u@d6", "d6"},   {"u@d7", "d7"},
        {"u@far.d8", "far.d8"}, {"u@far.d9", "far.d9"}, {"u@d10", "d10"}, {"u@d11", "d11"},
        {"u@d12", "d12"},       {"u@d13", "d13"},       {"u@d14", "d14"}, {"u@d15", "d15"},
        {"u@d16", "d16"},       {"u@d17", "d17"},       {"u@d18", "d18"}, {"u@d19", "d19"},
    };
    uint64_t id = d->next_id;
    struct message *m = message_of(d, id);
    if (m->is_active) {
        return;
    }
    *m = (struct message){.count = take(d, RECIPIENTS)};
    unsigned number = take(d, 256), domains = number < 252 ? 1 + number % DOMAINS : WIDE;
    for (uint32_t i = 0; i < m->count; i++) {
        unsigned which = number == UINT8_MAX ? i % WIDE : take(d, domains);
        m->recipients[i] =
            (struct sched_recipient){slice_of(to[which].address), slice_of(to[which].nexthop), i};
    }
    struct sched_message part = next_part(d, id, sched_read_limit(d->sched));
    if (sched_submit(d->sched, &part, d->now) == 0) {
        m->is_active = true;
        accepted(m, &part);
        d->next_id++;
    }
}

static void read_more(struct driver *d, uint64_t id, uint32_t wanted)
{
    struct message *m = message_of(d, id);
    struct sched_message part = next_part(d, id, wanted);
    if (sched_submit_more(d->sched, &part, d->now) == 0) {
        m->is_reading = false;
        accepted(m, &part);
    }
}

static void move(struct message *m, const uint32_t *indexes, uint32_t count,
                 enum recipient_state from, enum recipient_state to)
{
    REQUIRE(m->is_active && count > 0);
    for (uint32_t i = 0; i < count; i++) {
        REQUIRE(indexes[i] < m->count && m->states[indexes[i]] == from);
        m->states[indexes[i]] = to;
    }
}

static void deliver(struct driver *d, const struct sched_action *a)
{
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(a->entry, &count);
    int limit = d->config.destination_recipient_limit;
    REQUIRE(limit == 0 || count <= (uint32_t)limit);
    REQUIRE(sched_entry_message_id(a->entry) == a->message_id);
    REQUIRE(sched_destination_nexthop(a->destination).data[0] != '@');
    move(a->handle, indexes, count, WAITING, BUSY);
    REQUIRE(a->connection < (uint32_t)d->config.process_limit);
    struct connection_model *c = &d->connections[a->connection];
    REQUIRE(c->entry == NULL && c->is_open == !a->connection_is_new);
    REQUIRE(a->connection_is_new || c->destination == a->destination);
    *c = (struct connection_model){true, a->entry, a->destination};
    REQUIRE((a->hosts != NULL) == d->config.must_resolve || !a->connection_is_new);
    d->busy++;
}

static void ask(struct driver *d, struct sched_destination *destination)
{
    for (struct question *q = d->questions; q != NULL; q = q->next) {
        REQUIRE(q->destination != destination);
    }
    struct question *q = malloc(sizeof(*q));
    REQUIRE(q != NULL);
    *q = (struct question){destination, d->questions};
    d->questions = q;
}

static void finish(struct message *m)
{
    REQUIRE(m->is_active && !m->is_reading && m->read == m->count);
    for (uint32_t i = 0; i < m->count; i++) {
        REQUIRE(m->states[i] == SETTLED);
    }
    m->is_active = false;
}

static void act(struct driver *d, const struct sched_action *a)
{
    struct message *m = a->handle;
    REQUIRE(m == NULL || m == message_of(d, a->message_id));
    switch (a->kind) {
    case SCHED_DELIVER:
        deliver(d, a);
        break;
    case SCHED_RESOLVE:
        REQUIRE(d->config.must_resolve);
        ask(d, a->destination);
        break;
    case SCHED_CLOSE:
        REQUIRE(d->connections[a->connection].is_open);
        REQUIRE(d->connections[a->connection].entry == NULL);
        d->connections[a->connection] = (struct connection_model){0};
        break;
    case SCHED_DEFER:
    case SCHED_BOUNCE:
        REQUIRE(!d->is_kind && a->reason->text[0] != '\0' && a->destination != NULL);
        REQUIRE(sched_destination_name(a->destination).len > 0);
        move(m, a->indexes, a->index_count, WAITING, SETTLED);
        break;
    case SCHED_READ:
        REQUIRE(m->is_active && !m->is_reading && a->wanted > 0);
        m->is_reading = true;
        if (take(d, 3) != 0) {
            read_more(d, a->message_id, a->wanted);
        }
        break;
    case SCHED_FINISHED:
        finish(m);
        break;
    case SCHED_NONE:
    default:
        REQUIRE(false);
    }
}

static void pull(struct driver *d, unsigned most)
{
    struct sched_action a;
    for (; most > 0; most--) {
        if (!sched_pull(d->sched, &a, d->now)) {
            REQUIRE(a.kind == SCHED_NONE && sched_wake_at(d->sched) > d->now);
            REQUIRE(d->busy == (unsigned)d->config.process_limit ||
                    !sched_oracle_has_work(d->sched));
            return;
        }
        act(d, &a);
        check(d);
    }
}

static void report(struct driver *d, unsigned which)
{
    static const struct sched_reason reasons[] = {
        {"4.4.1", "refused"}, {"x", ""}, {"4.4444.1", "status too long"}};
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        struct connection_model *c = &d->connections[(which + i) % CONNECTIONS];
        if (c->entry == NULL) {
            continue;
        }
        unsigned kind = d->is_kind ? 7 : take(d, 8);
        struct sched_outcome o = {
            .entry = c->entry,
            .feedback = kind < 2   ? SCHED_NEGATIVE
                        : kind < 3 ? SCHED_NEUTRAL
                                   : SCHED_POSITIVE,
            .has_deferred = kind % 2 == 0,
            .connection_open = take(d, 2) == 0,
            .reason = kind == 0 ? NULL : &reasons[which % 3],
        };
        uint32_t count;
        const uint32_t *indexes = sched_entry_indexes(c->entry, &count);
        move(sched_entry_handle(c->entry), indexes, count, BUSY, SETTLED);
        c->entry = NULL;
        c->is_open = o.connection_open;
        d->busy--;
        sched_report(d->sched, &o, d->now);
        return;
    }
}

static void answer(struct driver *d, unsigned which)
{
    static const struct sched_reason reason = {"4.4.3", "timeout"};
    struct question **q = &d->questions;
    while (*q != NULL && which > 0) {
        q = &(*q)->next;
        which--;
    }
    if (*q == NULL) {
        return;
    }
    struct question *asked = *q;
    *q = asked->next;
    unsigned kind = d->is_kind ? 2 : take(d, 6);
    struct sched_hosts_result r = {
        .destination = asked->destination,
        .resolution = kind == 0   ? SCHED_RESOLVE_SOFT
                      : kind == 1 ? SCHED_RESOLVE_HARD
                                  : SCHED_RESOLVED,
        .expires = d->now + take(d, 30) * USEC_PER_SEC,
        .reason = &reason,
    };
    free(asked);
    if (r.resolution == SCHED_RESOLVED) {
        r.hosts = malloc(1);
        d->hosts++;
    }
    sched_resolved(d->sched, &r, d->now);
}

static void lose(struct driver *d, unsigned which)
{
    if (which >= (unsigned)d->config.process_limit) {
        return;
    }
    /* The core may know already, and its CLOSE may be waiting; the model follows the actions. */
    struct sched_action a;
    while (sched_pull_pending(d->sched, &a, d->now)) {
        act(d, &a);
    }
    sched_connection_closed(d->sched, which, d->now);
    if (d->connections[which].entry == NULL) {
        d->connections[which].is_open = false;
    }
}

static void answer_reads(struct driver *d)
{
    for (uint64_t id = 0; id < d->next_id; id++) {
        struct message *m = message_of(d, id);
        /* Only the youngest message of a place is there. */
        if (id + MESSAGES >= d->next_id && m->is_active && m->is_reading) {
            read_more(d, id, 1 + take(d, RECIPIENTS));
        }
    }
}

static void step(struct driver *d)
{
    switch (take(d, 14)) {
    case 0:
    case 1:
    case 2:
        submit(d);
        break;
    case 3:
    case 4:
    case 5:
        pull(d, 1 + take(d, 8));
        break;
    case 6:
    case 7:
    case 8:
        report(d, take(d, CONNECTIONS));
        break;
    case 9:
        d->now += take(d, 10) * USEC_PER_SEC / 2;
        break;
    case 10:
        answer(d, take(d, 4));
        break;
    case 11:
        lose(d, take(d, CONNECTIONS));
        break;
    case 12:
        answer_reads(d);
        break;
    default:
        switch (take(d, 4)) {
        case 0:
            sched_flush(d->sched, d->now);
            break;
        case 1:
            sched_set_hold(d->sched, take(d, 2) == 0, d->now);
            break;
        case 2:
            d->fail_after = take(d, 12);
            submit(d);
            answer_reads(d);
            report(d, take(d, CONNECTIONS));
            d->fail_after = -1;
            break;
        default:
            d->now += take(d, 60) * USEC_PER_SEC;
            break;
        }
    }
    check(d);
}

/* Everything comes to an end when it is answered and time passes; in one of two ways, by the size
 * of the input. Either everything fails, or nothing does, and then no destination is dead or ends:
 * every entry is selected once its window is open. */
static void drain(struct driver *d)
{
    sched_set_hold(d->sched, false, d->now);
    if (d->size % 2 == 0) {
        sched_flush(d->sched, d->now);
        struct sched_action a;
        while (sched_pull_pending(d->sched, &a, d->now)) {
            act(d, &a);
        }
        d->is_kind = true;
    }
    for (unsigned round = 0;; round++) {
        REQUIRE(round < 100000);
        pull(d, UINT32_MAX);
        bool is_done = true;
        for (unsigned i = 0; i < MESSAGES; i++) {
            is_done = is_done && !d->messages[i].is_active;
        }
        if (is_done) {
            break;
        }
        answer_reads(d);
        answer(d, 0);
        report(d, round);
        check(d);
        usec_t wake = sched_wake_at(d->sched);
        if (d->busy == 0 && d->questions == NULL && wake != USEC_NEVER && wake > d->now) {
            d->now = wake;
        }
    }
    while (d->questions != NULL) {
        answer(d, 0);
        check(d);
    }
}

static void walk(const struct driver *d)
{
    struct sched_counters c;
    struct sched_destination_view v;
    struct sched_job_view j;
    uint64_t cursor = 0, destinations = 0, jobs = 0, waiting = 0;
    sched_view_counters(d->sched, &c);
    while (sched_view_destinations(d->sched, &cursor, &v)) {
        destinations++;
        waiting += (uint64_t)v.todo;
        REQUIRE(sched_why_text(v.why) != NULL && v.busy >= 0 && v.idle <= v.connections);
        struct sched_destination_view same;
        REQUIRE(sched_view_destination(d->sched, v.name, &same) && same.todo == v.todo);
    }
    cursor = 0;
    while (sched_view_jobs(d->sched, &cursor, &j)) {
        REQUIRE(sched_why_text(j.why) != NULL && j.recipients >= j.waiting + j.in_flight);
        jobs++;
    }
    struct sched_debug record;
    while (sched_debug_next(d->sched, &record)) {
        REQUIRE(d->config.feedback_debug && record.window >= 0);
    }
    REQUIRE(destinations == c.destinations && jobs == c.jobs && waiting == c.entries_waiting);
}

/* Only what is in flight is waited for. */
static void abandon(struct driver *d)
{
    while (d->busy > 0) {
        report(d, 0);
        check(d);
    }
    /* One may be selected whose DELIVER was not pulled; other actions are left. */
    struct sched_action a;
    while (d->sched->undelivered != NULL && sched_pull_pending(d->sched, &a, d->now)) {
        act(d, &a);
    }
    while (d->busy > 0) {
        report(d, 0);
    }
    while (d->questions != NULL) {
        struct question *q = d->questions;
        d->questions = q->next;
        free(q);
    }
}

/* With memory for less and less of it, by the size of the input. */
static void start(struct driver *d)
{
    const struct sched_host host = {allocate, release, release, d};
    d->fail_after = (long)(d->size % 8);
    sched_free(sched_new(&d->config, &host, release_hosts, 0));
    REQUIRE(d->objects == 0);
    d->fail_after = -1;
    d->sched = sched_new(&d->config, &host, release_hosts, 0);
    REQUIRE(d->sched != NULL);
}

void sched_driver_run(const uint8_t *data, size_t size)
{
    struct driver *d = calloc(1, sizeof(*d));
    REQUIRE(d != NULL);
    d->data = data;
    d->size = size;
    configure(d);
    start(d);
    while (has_input(d)) {
        step(d);
    }
    walk(d);
    if (d->size % 8 == 7) {
        abandon(d);
    } else {
        drain(d);
    }
    sched_free(d->sched);
    REQUIRE(d->objects == 0 && d->hosts == 0);
    free(d);
}
