#include "engine/schedule/dispatch.h"

#include "base/hash.h"
#include "dns/hosts.h"
#include "dns/mx.h"
#include "engine/limit/limits.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/reply/reply_set.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "engine/worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dispatch_init(struct dispatch *p, struct engine *e)
{
    p->engine = e;
    list_init(&p->out);
    list_init(&p->displaced);
}

void dispatch_fini(struct dispatch *p)
{
    reply_matcher_free(p->matcher);
    resolution_reader_fini(&p->known);
}

/* --- deliveries ------------------------------------------------------------------------------- */

bool dispatch_is_displaced(const struct dispatch *p, const struct sched_entry *entry)
{
    list_foreach(d, &p->displaced, const struct delivery, in_flight)
    {
        if (d->entry == entry) {
            return true;
        }
    }
    return false;
}

/* The delivery of an entry that a worker returned with `again` and that the core places once more;
 * NULL for a first placement. Entries are mostly placed again in the order of the list, so that the
 * search is short. */
static struct delivery *take_displaced(struct dispatch *p, const struct sched_entry *entry)
{
    list_foreach(d, &p->displaced, struct delivery, in_flight)
    {
        if (d->entry == entry) {
            list_remove(&d->in_flight);
            return d;
        }
    }
    return NULL;
}

static struct delivery *new_delivery(struct dispatch *p, uint16_t transport,
                                     const struct sched_action *a)
{
    struct delivery *d = calloc(1, sizeof(*d));
    uint32_t recipients;
    if (d == NULL) {
        return NULL;
    }
    (void)sched_entry_indexes(a->entry, &recipients);
    d->entry = a->entry;
    d->message = sched_entry_handle(a->entry);
    d->transport = transport;
    d->destination = sched_destination_name(a->destination);
    d->nexthop = sched_destination_nexthop(a->destination);
    d->pool = sched_destination_pool(a->destination);
    d->dispatched = clock_wall();
    d->is_charged = a->owner_user != NULL;
    engine_dispatched(p->engine, recipients);
    atomic_fetch_add_explicit(&p->in_flight, 1, memory_order_relaxed);
    return d;
}

static uint16_t next_worker(struct dispatch *p)
{
    return (uint16_t)(p->next_worker++ % p->engine->worker_count);
}

static void hand_out(struct dispatch *p, struct delivery *d, uint16_t worker)
{
    list_push_back(&p->out, &d->in_flight);
    letter_put_deliver(&p->to_workers[worker], d);
}

struct delivery *dispatch_deliver(struct dispatch *p, uint16_t transport, uint32_t generation,
                                  uint16_t *workers, const struct sched_action *a, bool has_others)
{
    struct delivery *d = take_displaced(p, a->entry);
    if (d == NULL) {
        d = new_delivery(p, transport, a);
    }
    if (d == NULL) {
        return NULL;
    }
    dns_hosts_put(d->hosts);
    d->hosts = dns_hosts_get(a->hosts);
    d->connection = a->connection;
    d->generation = generation;
    d->connection_is_new = a->connection_is_new;
    d->has_others = has_others;
    d->is_known_here = sched_destination_is_known(a->destination);
    d->server = a->server;
    d->source = a->source;
    d->server_notes = a->server_notes;
    d->is_last_server = a->is_last_server;
    d->again = d->is_refused = d->is_throttled = d->source_tried = false;
    d->taken_messages = d->taken_recipients = 0;
    if (a->connection_is_new) {
        workers[a->connection] = next_worker(p);
    }
    hand_out(p, d, workers[a->connection]);
    return d;
}

struct delivery *dispatch_hold_back(struct dispatch *p, uint16_t transport,
                                    const struct sched_action *a)
{
    struct delivery *d = new_delivery(p, transport, a);
    uint32_t recipients;
    if (d == NULL) {
        return NULL;
    }
    (void)sched_entry_indexes(d->entry, &recipients);
    engine_durable(p->engine, recipients); /* there is no result that would become so */
    d->connection = a->connection;
    d->feedback = SCHED_NEUTRAL;
    d->is_throttled = true;
    d->connection_open = !a->connection_is_new;
    list_push_back(&p->out, &d->in_flight);
    return d;
}

/* session  NULL: none decided it */
static void finish_delivery(struct dispatch *p, struct delivery *d,
                            const struct request_session *session, struct outbox *to_writer)
{
    if (p->matcher == NULL) {
        p->matcher = reply_matcher_new(); /* out of memory: its replies have no class */
    }
    const struct settings *s = settings_of(p->engine);
    const struct request_rules rules = {s->replies, p->matcher, s->serial};
    request_finish(d->request, session, &rules, to_writer);
}

struct delivery *dispatch_exhausted(struct dispatch *p, const struct sched_action *a,
                                    struct outbox *to_writer)
{
    struct delivery *d = take_displaced(p, a->entry);
    assert(d != NULL && d->request != NULL); /* a worker gives a delivery back with its request */
    finish_delivery(p, d, NULL, to_writer);
    delivery_forget_session(d);
    return d;
}

/* The delivery comes back to be placed once more. */
static void bring_again(struct delivery *d)
{
    d->again = true;
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = false;
}

/* The held recipients have their verdicts. Those that have none yet go on: at this server, which has
 * not seen them, or at the next one. */
static void go_on(struct dispatch *p, struct delivery *d, const struct refusal *f,
                  struct outbox *to_writer)
{
    struct request *r = d->request;
    if (!request_is_undecided(r) || (!request_has_untried(r) && r->is_final)) {
        finish_delivery(p, d, &f->session, to_writer);
        return;
    }
    bring_again(d);
    d->server_tried = !request_has_untried(r) || r->was_in_vain;
}

/* Nobody's attempt: the entry waits again, as if nothing had been tried. */
static void put_back(struct dispatch *p, struct delivery *d)
{
    uint32_t recipients;
    (void)sched_entry_indexes(d->entry, &recipients);
    engine_durable(p->engine, recipients); /* there is no result that would become so */
    request_free(d->request);
    d->request = NULL;
    d->is_throttled = true;
    d->has_deferred = false;
}

/* How long recipients wait that nobody tried, where others of their entry have been decided. */
static const usec_t parked_for = 10 * USEC_PER_SEC;

static void settle_throttled(struct dispatch *p, struct delivery *d, struct outbox *to_writer)
{
    struct request *r = d->request;
    if (r->outcome.undecided == r->outcome.recipient_count) {
        put_back(p, d);
        return;
    }
    struct refusal *f = request_park_held(r, clock_wall() + parked_for);
    go_on(p, d, f, to_writer);
    free(f);
}

/* What it is for the held recipients when they go nowhere else. */
static enum outcome_class class_of(const struct limit_verdict *v, const struct refusal *f)
{
    switch (v->fate) {
    case LIMIT_FATE_CHARGED:
    case LIMIT_FATE_DEFER:
        return OUTCOME_SOFT;
    case LIMIT_FATE_BOUNCE:
        return OUTCOME_HARD;
    case LIMIT_FATE_NEXT_HOST:
    case LIMIT_FATE_OTHER_SOURCE:
        return v->bounces_at > clock_wall() ? OUTCOME_SOFT : f->verdict.class;
    case LIMIT_FATE_CODE:
    case LIMIT_FATE_AGAIN:
    case LIMIT_FATE_COUNT:
    default:
        return f->verdict.class;
    }
}

/* The window hears of a receiver that asks us to be slower by that alone. */
static void set_feedback(struct delivery *d, const struct limit_verdict *v)
{
    if (v->is_throttled) {
        d->feedback = v->is_negative && !d->again ? SCHED_SLOWER : SCHED_NEUTRAL;
        d->server_failed = false;
    } else if (!v->keeps_feedback) {
        d->feedback = SCHED_NEUTRAL;
        d->server_failed = false;
    }
}

/* It is for one source of its pool alone. */
static bool keeps_source(const struct dispatch *p, const struct delivery *d)
{
    return source_table_whole(settings_of(p->engine)->sources, d->pool) != d->pool;
}

void dispatch_settle_refusal(struct dispatch *p, struct delivery *d, const struct limit_verdict *v,
                             struct outbox *to_writer)
{
    struct request *r = d->request;
    struct refusal *f = r->refusal;
    d->is_refused = false;
    d->was_sent = true;
    r->blocked = v->first_blocked;
    r->defer_until = v->defer_span > 0 ? clock_wall() + v->defer_span : 0;
    f->falls_to = class_of(v, f);
    if (f->is_returned && v->fate == LIMIT_FATE_CODE) {
        request_returned(r);
        bring_again(d);
        d->server_tried = r->was_in_vain;
    } else if (v->fate == LIMIT_FATE_AGAIN) {
        settle_throttled(p, d, to_writer);
    } else if (v->fate == LIMIT_FATE_OTHER_SOURCE) {
        request_keep_refusal(r);
        bring_again(d);
        d->source_tried = true;
    } else if (v->fate == LIMIT_FATE_NEXT_HOST && !r->is_final) {
        request_keep_refusal(r);
        bring_again(d);
        d->server_tried = true;
    } else if (v->fate == LIMIT_FATE_DEFER && f->class == REPLY_BLOCKED && keeps_source(p, d)) {
        /* Its other sources are in another pool: it comes back at once, and goes by that. */
        f = request_park_held(r, clock_wall());
        go_on(p, d, f, to_writer);
        free(f);
    } else {
        f = request_take_refusal(r);
        go_on(p, d, f, to_writer);
        free(f);
    }
    set_feedback(d, v);
}

void dispatch_close(struct dispatch *p, uint16_t transport, const uint16_t *workers,
                    const struct sched_action *a)
{
    const struct letter_close close = {
        .transport = transport, .connection = a->connection, .is_awaited = a->end_is_awaited};
    letter_put_close(&p->to_workers[workers[a->connection]], &close);
}

void dispatch_outcome(const struct delivery *d, struct sched_outcome *ret)
{
    *ret = (struct sched_outcome){
        .entry = d->entry,
        .feedback = d->feedback,
        .has_deferred = d->has_deferred,
        .connection_open = d->connection_open,
        .connection_ends = d->connection_ends,
        .reason = &d->reason,
        .again = d->again,
        .throttled = d->is_throttled,
        .server_failed = d->server_failed,
        .server_tried = d->server_tried,
        .source_tried = d->source_tried,
        .is_out_of_step = d->is_out_of_step,
        .depth = d->depth,
        .server_notes = d->server_notes,
    };
}

void dispatch_reported(struct dispatch *p, struct delivery *d)
{
    list_remove(&d->in_flight);
    if (d->again) {
        list_push_back(&p->displaced, &d->in_flight);
        return;
    }
    atomic_fetch_sub_explicit(&p->in_flight, 1, memory_order_relaxed);
    dispatch_free_delivery(d);
}

struct delivery *dispatch_take_left(struct dispatch *p)
{
    struct list *from = list_is_empty(&p->out) ? &p->displaced : &p->out;
    if (list_is_empty(from)) {
        return NULL;
    }
    struct delivery *d = list_first(from, struct delivery, in_flight);
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = true;
    d->connection_open = d->connection_ends = d->again = d->is_refused = false;
    d->is_throttled = d->source_tried = false;
    return d;
}

void dispatch_free_delivery(struct delivery *d)
{
    request_free(d->request);
    dns_hosts_put(d->hosts);
    free(d);
}

/* --- hosts ------------------------------------------------------------------------------------ */

/* Sends the question to a worker chosen by the nexthop, so that one resolver sees all questions for
 * that nexthop and can join equal ones. */
static void send_question(struct dispatch *p, struct resolution *r)
{
    uint64_t worker = hash_bytes(r->nexthop, strlen(r->nexthop), 0) % p->engine->worker_count;
    letter_put_resolve(&p->to_workers[worker], r);
}

bool dispatch_resolve(struct dispatch *p, uint16_t transport, const struct sched_action *a,
                      usec_t now, struct resolution **ret_known)
{
    struct slice nexthop = sched_destination_nexthop(a->destination);
    struct resolution *r = calloc(1, sizeof(*r));
    if (r == NULL || nexthop.len >= sizeof(r->nexthop)) {
        free(r);
        return false;
    }
    r->destination = a->destination;
    r->transport = transport;
    memcpy(r->nexthop, nexthop.data, nexthop.len);
    if (resolution_reader_find(&p->known, p->engine, r, now)) {
        *ret_known = r;
    } else {
        *ret_known = NULL;
        r->is_first = !sched_destination_is_known(a->destination);
        send_question(p, r);
    }
    return true;
}

void dispatch_follow(struct dispatch *p, struct settings *s)
{
    if (p->known.resolver != NULL) {
        (void)resolution_reader_follow(&p->known, s); /* else the next question tries it again */
    }
}

void dispatch_resolve_again(struct dispatch *p, struct resolution *r)
{
    dns_hosts_put(r->hosts);
    r->hosts = NULL;
    send_question(p, r);
}

uint32_t dispatch_list_servers(const struct resolution *r, struct sched_server *ret)
{
    static_assert(MX_TARGETS_MAX <= SCHED_SERVERS_MAX, "every host has its place");
    static_assert(sizeof(r->hosts->list[0].ip.bytes) + sizeof(uint16_t) <= SCHED_SERVER_KEY_MAX,
                  "address and port fit");
    uint32_t count = r->hosts == NULL ? 0 : r->hosts->count;
    for (uint32_t i = 0; i < count; i++) {
        const struct dns_host *host = &r->hosts->list[i];
        size_t len = host->ip.family == 6 ? 16 : 4;
        ret[i] = (struct sched_server){.preference = host->preference,
                                       .families = host->ip.family == 6 ? 2 : 1};
        memcpy(ret[i].key, host->ip.bytes, len); /* dispatch_read_server reads it */
        memcpy(ret[i].key + len, &host->port, sizeof(host->port));
        ret[i].key_len = (uint8_t)(len + sizeof(host->port));
    }
    return count;
}

void dispatch_read_server(const uint8_t *key, size_t len, struct ip *ret_ip, uint16_t *ret_port)
{
    assert(len == 4 + sizeof(*ret_port) || len == 16 + sizeof(*ret_port));
    size_t ip_len = len - sizeof(*ret_port);
    *ret_ip = (struct ip){.family = ip_len == 16 ? 6 : 4};
    memcpy(ret_ip->bytes, key, ip_len);
    memcpy(ret_port, key + ip_len, sizeof(*ret_port));
}
