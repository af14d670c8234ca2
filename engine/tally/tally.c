/* Which counters a reception and a result move. Called by the spool writer; must stay cheap for a
 * recipient that is delivered, and must not call into the rest of the engine. */
#include "engine/tally/tally.h"

#include "base/hash.h"
#include "engine/config/config.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/tally/queue_count.h"
#include "engine/tally/responses.h"

#include <stdlib.h>

#define MS   USEC_PER_MSEC
#define SEC  USEC_PER_SEC
#define MIN  (60 * SEC)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

const usec_t tally_span_bounds[TALLY_SPAN_BOUNDS] = {
    1 * MS,   2 * MS,    5 * MS,   10 * MS,  20 * MS,  50 * MS,  100 * MS, 200 * MS,
    500 * MS, 1 * SEC,   2 * SEC,  5 * SEC,  10 * SEC, 20 * SEC, 30 * SEC, 1 * MIN,
    2 * MIN,  5 * MIN,   10 * MIN, 20 * MIN, 30 * MIN, 1 * HOUR, 2 * HOUR, 4 * HOUR,
    8 * HOUR, 12 * HOUR, 1 * DAY,  2 * DAY,  3 * DAY,  5 * DAY,  7 * DAY,
};

static uint32_t highest_bit(uint64_t n)
{
    return 63 - (uint32_t)__builtin_clzll(n | 1);
}

static void init_bounds(struct tally *t)
{
    for (uint32_t bit = 0; bit < 64; bit++) {
        while (t->first_bounds[bit] < TALLY_SPAN_BOUNDS &&
               (uint64_t)tally_span_bounds[t->first_bounds[bit]] < 1ULL << bit) {
            t->first_bounds[bit]++;
        }
    }
}

static void add_span(const struct tally *t, struct tally_spans *s, usec_t from, usec_t to,
                     uint64_t times)
{
    usec_t span = to > from ? to - from : 0; /* the wall clock may have been set back */
    uint32_t bucket = t->first_bounds[highest_bit((uint64_t)span)];
    while (bucket < TALLY_SPAN_BOUNDS && tally_span_bounds[bucket] < span) {
        bucket++;
    }
    tally_add(&s->buckets[bucket], times);
    tally_add(&s->sum, (uint64_t)span * times);
}

uint16_t tally_tenant(struct tally *t, const struct spool_envelope *e)
{
    return (uint16_t)(tally_table_find(t->tenants, e->tenant) + 1);
}

void tally_received(struct tally *t, uint16_t tenant, const struct spool_envelope *e)
{
    struct tally_row *row = tally_table_row(t->tenants, tenant - 1U);
    tally_add(&row->values[TALLY_RECEIVED], 1);
    tally_add(&row->values[TALLY_RECIPIENTS], e->recipient_count);
    tally_add(&row->values[TALLY_BYTES], e->size_bytes);
    tally_add(&t->received[spool_mail_class(e->flags)], 1);
}

void tally_lowered(struct tally *t, uint16_t tenant)
{
    tally_add(&tally_table_row(t->tenants, tenant - 1U)->values[TALLY_LOWERED], 1);
}

static struct tally_row *tenant_of(struct tally *t, struct message *m)
{
    if (m->account.tenant_row == 0) {
        m->account.tenant_row = tally_tenant(t, &m->envelope);
    }
    return tally_table_row(t->tenants, m->account.tenant_row - 1U);
}

/* Not inlined, so that the usual case, a delivery, does not pay for its large stack frame. */
static __attribute__((noinline)) void count_responses(struct tally *t, struct message *m,
                                                      const struct result *r)
{
    struct tally_row *tenant = tenant_of(t, m);
    uint32_t transport = r->transport < tally_transports(t) ? r->transport : t->room;
    _Atomic uint64_t *classes = t->classes[transport];
    for (uint32_t i = 0; i < r->count; i++) {
        const struct result_recipient *to = &r->recipients[i];
        if (to->kind != RESULT_DEFERRED && to->kind != RESULT_FAILED) {
            continue;
        }
        const struct response_sight sight = {
            .kind = to->kind,
            .code = to->code,
            .status = to->status,
            .text = to->text,
            .destination = r->destination,
            .tenant = m->envelope.tenant,
            .time = r->done,
            .class = (enum reply_class)to->class,
        };
        responses_count(t->responses, &sight);
        tally_add(&classes[to->class], 1);
        tally_add(&tenant->values[TALLY_CONTENT], to->class == REPLY_CONTENT);
        tally_add(&tenant->values[TALLY_POLICY], to->class == REPLY_POLICY);
    }
}

static void count_spans(struct tally *t, const struct message *m, const struct result *r,
                        uint64_t delivered)
{
    struct tally_spans *spans = t->spans[r->transport];
    add_span(t, &spans[TALLY_QUEUE_TIME], m->envelope.created, r->done, delivered);
    if (r->dispatched != 0) {
        add_span(t, &spans[TALLY_DELIVERY_TIME], r->dispatched, r->done, 1);
    }
}

/* Recipients from *at on that share a kind, which is counted in the rows; moves *at behind them. */
static uint64_t count_run(const struct result *r, uint32_t *at, struct tally_row *tenant,
                          struct tally_row *transport, struct tally_row *source)
{
    static const enum tally_value values[RESULT_KIND_COUNT] = {
        [RESULT_DELIVERED] = TALLY_DELIVERED,
        [RESULT_DEFERRED] = TALLY_DEFERRED,
        [RESULT_FAILED] = TALLY_FAILED,
        [RESULT_DROPPED] = TALLY_DROPPED,
        [RESULT_SUPPRESSED] = TALLY_SUPPRESSED,
        [RESULT_PARKED] = TALLY_VALUE_COUNT, /* not counted: nobody tried */
    };
    uint32_t first = *at;
    uint8_t kind = r->recipients[first].kind;
    do {
        ++*at;
    } while (*at < r->count && r->recipients[*at].kind == kind);
    if (values[kind] == TALLY_VALUE_COUNT) {
        return *at - first;
    }
    tally_add(&tenant->values[values[kind]], *at - first);
    tally_add(&transport->values[values[kind]], *at - first);
    if (source != NULL) {
        tally_add(&source->values[values[kind]], *at - first);
    }
    return *at - first;
}

void tally_result(struct tally *t, struct message *m, const struct result *r)
{
    bool is_routed = r->transport < tally_transports(t);
    struct tally_row *tenant = tenant_of(t, m), *source = NULL;
    struct tally_row *transport = is_routed ? t->transport_rows[r->transport]
                                            : tally_table_row(t->transports, TALLY_ROW_NONE);
    if (r->dispatched != 0) { /* 0: given up without an attempt, so no source was used */
        source = tally_table_row(t->sources, tally_table_find(t->sources, r->source));
    }
    uint64_t delivered = 0;
    for (uint32_t i = 0; i < r->count;) {
        bool is_delivered = r->recipients[i].kind == RESULT_DELIVERED;
        uint64_t run = count_run(r, &i, tenant, transport, source);
        delivered += is_delivered ? run : 0;
    }
    if (delivered > 0 && is_routed) {
        count_spans(t, m, r, delivered);
    }
    if (delivered < r->count) {
        count_responses(t, m, r);
    }
}

void tally_expired(struct tally *t, struct message *m, uint64_t recipients)
{
    tally_add(&tenant_of(t, m)->values[TALLY_EXPIRED], recipients);
}

void tally_add_transports(struct tally *t, const struct config *config)
{
    uint32_t count = tally_transports(t);
    for (; count < config->transport_count && count < t->room; count++) {
        struct slice name = slice_of(config->transports[count].name);
        t->transport_rows[count] =
            tally_table_row(t->transports, tally_table_find(t->transports, name));
    }
    atomic_store_explicit(&t->transport_count, count, memory_order_release);
}

struct tally *tally_new(const struct config *config)
{
    size_t count = config_transport_room(config);
    uint64_t seed = hash_random_seed();
    struct tally *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    t->tenants = tally_table_new(seed);
    t->transports = tally_table_new(seed);
    t->sources = tally_table_new(seed);
    t->responses = responses_new(seed);
    t->queued = queue_count_new();
    t->transport_rows = calloc(count + 1, sizeof(*t->transport_rows));
    t->spans = calloc(count + 1, sizeof(*t->spans));
    t->classes = calloc(count + 1, sizeof(*t->classes));
    if (t->tenants == NULL || t->transports == NULL || t->sources == NULL || t->responses == NULL ||
        t->queued == NULL || t->transport_rows == NULL || t->spans == NULL || t->classes == NULL) {
        tally_free(t);
        return NULL;
    }
    init_bounds(t);
    t->room = (uint32_t)count;
    tally_add_transports(t, config);
    return t;
}

void tally_free(struct tally *t)
{
    if (t != NULL) {
        tally_table_free(t->tenants);
        tally_table_free(t->transports);
        tally_table_free(t->sources);
        responses_free(t->responses);
        queue_count_free(t->queued);
        free(t->transport_rows);
        free(t->spans);
        free(t->classes);
        free(t);
    }
}
