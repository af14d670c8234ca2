#include "engine/activator/activation.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/activator/flow_names.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/order/intercept.h"
#include "engine/order/order_book.h"
#include "engine/order/selector.h"
#include "engine/post/delivery.h"
#include "engine/post/in_core.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/sign_load.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "engine/writer/recipient_walk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_LIMIT = 5000, /* recipients a portion: bounds how long one message holds the thread */
};

uint32_t activation_limit(const struct activation *a)
{
    const struct config *c = settings_of(a->engine)->config;
    uint64_t in_core = in_core_count(a->engine);
    uint64_t limit = (uint64_t)c->message_recipient_limit;
    uint64_t room = limit > in_core ? limit - in_core : 0;
    if (room < (uint64_t)c->message_recipient_minimum) {
        room = (uint64_t)c->message_recipient_minimum;
    }
    return room < READ_LIMIT ? (uint32_t)room : READ_LIMIT;
}

/* --- submissions ------------------------------------------------------------------------------ */

/* orders: order_book_changes, asked before recipients were judged */
static struct submission *submission_new(struct message *m, uint32_t transport, uint32_t capacity,
                                         uint64_t orders)
{
    struct submission *s = malloc(sizeof(*s) + (size_t)capacity * sizeof(struct sched_recipient));
    if (s != NULL) {
        *s = (struct submission){.message = m, .transport = (uint16_t)transport, .orders = orders};
    }
    return s;
}

/* A nexthop that a route of the configuration names lies in the settings. A reload may replace them
 * before the scheduler has copied the nexthop, so the submission holds a reference. */
static void keep_settings(struct submission *s, struct settings *settings,
                          const struct route_result *route)
{
    if (s->settings == NULL && route->route->nexthop[0] != '\0') {
        s->settings = settings_get(settings);
    }
}

static struct outbox *to_sched(const struct activation *a, const struct submission *s)
{
    return &a->to_scheds[s->transport % a->engine->sched_count];
}

/* First recipients go by way of a thread that signs the message, when there are keys; all of a message
 * by the same one. */
static void send_submission(const struct activation *a, const struct settings *settings,
                            struct submission *s)
{
    if (settings->keys != NULL) {
        const struct engine *e = a->engine;
        struct message *m = s->message;
        if (m->signer == 0) {
            m->signer = (uint16_t)(1 + sign_load_pick(e->sign_loads, e->signer_count));
        }
        sign_load_add(&e->sign_loads[m->signer - 1]);
        letter_put_sign(&a->to_signers[m->signer - 1], s);
    } else {
        letter_put_submit(to_sched(a, s), s);
    }
}

/* From which sources the message may go: those of its tenant, and of these the one that a receiver
 * wants to see again. */
static uint16_t pool_of(const struct settings *settings, const struct message *m)
{
    uint16_t pool = source_table_pool(settings->sources, m->envelope.tenant);
    return m->retry.source == 0 ? pool
                                : source_table_kept(settings->sources, pool, m->retry.source);
}

/* --- a whole message -------------------------------------------------------------------------- */

static void fail_unrouted(struct activation *a, struct message *m, uint32_t count,
                          const struct route_result *routes)
{
    struct result *r = result_new(m, count);
    if (r != NULL) {
        r->done = clock_wall();
    }
    for (uint32_t i = 0; r != NULL && i < m->envelope.recipient_count; i++) {
        if (routes[i].route == NULL) {
            result_add(r, i, RESULT_FAILED, 0, "5.1.2",
                       SLICE("no route to the recipient's domain"));
        }
    }
    result_send(a->to_writer, r, m, count, RESULT_WAS_LOADED);
}

/* What the recipients of a message were judged by. */
struct judgement {
    struct settings *settings; /* that made the routes */
    const struct route_result *routes;
    uint64_t orders; /* order_book_changes before it */
};

/* Hands all recipients of one transport to its scheduler. */
static void submit_whole(struct activation *a, struct message *m, uint32_t transport,
                         uint32_t count, const struct judgement *by)
{
    struct settings *settings = by->settings;
    const struct route_result *routes = by->routes;
    struct submission *s = submission_new(m, transport, count, by->orders);
    if (s == NULL) {
        result_send(a->to_writer, NULL, m, count, RESULT_WAS_LOADED);
        return;
    }
    message_get(m);
    const uint16_t pool = pool_of(settings, m);
    for (uint32_t i = 0; i < m->envelope.recipient_count; i++) {
        if (routes[i].route != NULL && routes[i].transport == transport) {
            s->recipients[s->count++] = (struct sched_recipient){.address = message_address(m, i),
                                                                 .nexthop = routes[i].nexthop,
                                                                 .index = i,
                                                                 .pool = pool};
            keep_settings(s, settings, &routes[i]);
        }
    }
    send_submission(a, settings, s);
}

/* Whether the lists of suppressed recipients must be asked. The number of their changes is noted with the
 * message first: what is added later is looked up before its attempt (outbound.c). */
static bool asks_suppressions(const struct activation *a, struct message *m)
{
    m->suppress_seen = spool_reader_is_active(a->reader) ? spool_suppress_seen(a->reader)
                                                         : spool_suppress_changes(a->engine->store);
    return spool_suppress_count(a->engine->store) > 0;
}

/* Whether a standing order or a list of suppressed recipients keeps this one from delivery; then it is
 * taken. The reader is in a pass when suppressions are asked for. */
static bool keeps_back(struct activation *a, struct intercept *to, const struct sched_recipient *r,
                       size_t transport, bool asks)
{
    struct order_verdict verdict;
    struct spool_suppression found;
    const struct message *m = to->message;
    const struct slice address = r->address;
    const uint32_t index = r->index;
    const struct intercept_way way = {router_domain(address), r->nexthop, SLICE(""), transport};
    if (intercept_judge(a->engine, &m->envelope, &way, &verdict)) {
        intercept_take(to, index, &verdict);
        return true;
    }
    if (!asks) {
        return false;
    }
    usec_t now = clock_wall();
    int err = spool_reader_is_active(a->reader)
                  ? spool_suppress_find(a->reader, m->envelope.tenant, address, now, &found)
                  : ERR_AGAIN;
    if (err == 0) {
        intercept_suppress(to, index, &found);
    } else if (err != ERR_MISSING) {
        verdict =
            (struct order_verdict){.kind = ORDER_SUSPEND,
                                   .until = now + USEC_PER_SEC,
                                   .reason = "the list of suppressed recipients cannot be read"};
        intercept_take(to, index, &verdict);
    }
    return err != ERR_MISSING;
}

int activation_fresh(struct activation *a, struct message *m)
{
    uint32_t total = m->envelope.recipient_count;
    /* Asked for once: a reload may publish new settings at any moment, and all routes of this
     * message must come from the same ones. */
    struct settings *settings = settings_of(a->engine);
    uint32_t transports = (uint32_t)settings->transport_count;
    struct route_result *routes = calloc(total, sizeof(*routes));
    uint32_t *counts = calloc(transports + 1, sizeof(*counts));
    const struct judgement by = {settings, routes, order_book_changes(a->engine->orders)};
    if (routes == NULL || counts == NULL) {
        free(routes);
        free(counts);
        return -ENOMEM;
    }
    struct intercept intercept;
    m->activated = clock_wall();
    m->flow = flow_names_take(a->names, &m->envelope);
    bool asks = asks_suppressions(a, m);
    bool has_begun =
        asks && !spool_reader_is_active(a->reader) && spool_reader_begin(a->reader) == 0;
    message_account_open(&m->account, total, 0);
    in_core_add(a->engine, m, total);
    intercept_init(&intercept, a->engine, a->to_writer, m, true);
    for (uint32_t i = 0; i < total; i++) {
        struct sched_recipient r = {.address = message_address(m, i), .index = i};
        struct slice domain = router_domain(r.address);
        bool is_routed = router_route(settings->router, domain, m->envelope.tenant, &routes[i]);
        r.nexthop = routes[i].nexthop;
        if (!is_routed) {
            routes[i] = (struct route_result){0};
        } else if (keeps_back(a, &intercept, &r, routes[i].transport, asks)) {
            routes[i].transport = SIZE_MAX; /* this recipient goes to no transport */
            continue;
        }
        counts[is_routed ? routes[i].transport : transports]++;
    }
    if (has_begun) {
        spool_reader_end(a->reader);
    }
    intercept_flush(&intercept);
    for (uint32_t t = 0; t < transports; t++) {
        if (counts[t] > 0) {
            m->whole_at = counts[t] == total ? (uint16_t)t : MESSAGE_IN_PARTS;
            submit_whole(a, m, t, counts[t], &by);
        }
    }
    if (counts[transports] > 0) {
        fail_unrouted(a, m, counts[transports], routes);
    }
    free(routes);
    free(counts);
    return 0;
}

/* --- a message of the spool ------------------------------------------------------------------- */

/* Reads the body once, so that damage is found now and the pages are in memory when a worker sends
 * the body: a page fault there would stop the worker's other connections. */
static int check_body(struct activation *a, const struct spool_envelope *e)
{
    enum { WARM_CHUNKS = 64 }; /* 4 MB; later chunks are read as they are sent */
    for (uint32_t i = 0; i < e->chunk_count && i < WARM_CHUNKS; i++) {
        struct slice chunk;
        int err = spool_read_chunk(a->reader, e->id, i, &chunk);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

struct census {
    uint32_t failed; /* stored as failed, the sender not yet told */
    uint32_t unrouted;
    uint32_t undone;
};

/* Counts recipients by transport into m->parts, and checks every record on the way. */
static int take_census(struct activation *a, struct message *m, struct census *ret)
{
    struct recipient_walk w;
    struct slice address;
    uint32_t index;
    int state;
    *ret = (struct census){0};
    recipient_walk_init(&w, a->reader, &m->envelope, 0);
    while (recipient_walk_next(&w, &index, &address, &state)) {
        struct route_result route;
        struct spool_reason reason;
        if (state == SPOOL_RECIPIENT_FAILED) {
            int err = spool_read_reason(a->reader, m->envelope.id, index, &reason);
            ret->failed += err == 0 || err == ERR_CORRUPT;
        } else if (recipient_is_undone(state)) {
            ret->undone++;
            if (router_route(m->settings->router, router_domain(address), m->envelope.tenant,
                             &route)) {
                m->parts[route.transport].unread++;
            } else {
                ret->unrouted++;
            }
        }
    }
    return w.error;
}

static int fail_stored_unrouted(struct activation *a, struct message *m, uint32_t count)
{
    struct result *r = result_new(m, count);
    struct recipient_walk w;
    struct slice address;
    uint32_t index;
    int state, err = r == NULL ? -ENOMEM : 0;
    recipient_walk_init(&w, a->reader, &m->envelope, 0);
    while (err == 0 && r->count < count && recipient_walk_next(&w, &index, &address, &state)) {
        struct route_result route;
        if (recipient_is_undone(state) && !router_route(m->settings->router, router_domain(address),
                                                        m->envelope.tenant, &route)) {
            err = message_load(m, index, address);
            result_add(r, index, RESULT_FAILED, 0, "5.1.2",
                       SLICE("no route to the recipient's domain"));
        }
    }
    if (err != 0 || w.error != 0) {
        result_free(r);
        return err != 0 ? err : w.error;
    }
    in_core_add(a->engine, m, r->count);
    r->done = clock_wall();
    letter_put_result(a->to_writer, r);
    return 0;
}

/* Reads the next recipients of a message for one transport, at most `wanted`. NULL when out of
 * memory. */
static struct submission *read_portion(struct activation *a, struct message *m, uint32_t transport,
                                       uint32_t wanted)
{
    struct message_part *part = &m->parts[transport];
    uint32_t capacity = wanted < part->unread ? wanted : part->unread;
    struct submission *s =
        submission_new(m, transport, capacity, order_book_changes(a->engine->orders));
    struct recipient_walk w;
    struct slice address;
    uint32_t index;
    int state;
    if (s == NULL) {
        return NULL;
    }
    struct intercept intercept;
    const bool asks = spool_suppress_count(a->engine->store) > 0;
    intercept_init(&intercept, a->engine, a->to_writer, m, false);
    recipient_walk_init(&w, a->reader, &m->envelope, part->next);
    const uint16_t pool = pool_of(m->settings, m);
    while (s->count < capacity && recipient_walk_next(&w, &index, &address, &state)) {
        struct route_result route;
        if (!recipient_is_undone(state) ||
            !router_route(m->settings->router, router_domain(address), m->envelope.tenant,
                          &route) ||
            route.transport != transport) {
            continue;
        }
        if (message_load(m, index, address) != 0) {
            w.index = index;
            break;
        }
        /* Where the route names no nexthop it is the domain, a view of the address in the spool's
         * map. It must point into the message's own copy instead. */
        struct slice kept = message_address(m, index);
        if (route.nexthop.data >= address.data &&
            route.nexthop.data <= address.data + address.len) {
            route.nexthop = router_domain(kept);
        }
        const struct sched_recipient r = {
            .address = kept, .nexthop = route.nexthop, .index = index, .pool = pool};
        if (keeps_back(a, &intercept, &r, transport, asks)) {
            continue;
        }
        s->recipients[s->count++] = r;
        keep_settings(s, m->settings, &route);
    }
    part->next = w.index;
    part->unread -= s->count + intercept.taken;
    if (s->count < capacity && part->unread > 0) {
        /* Out of memory or a record is damaged: the rest of the part is given up, and waits for the
         * next activation. */
        result_send(a->to_writer, NULL, m, part->unread, 0);
        part->unread = 0;
    }
    s->unread = part->unread;
    in_core_add(a->engine, m, s->count);
    intercept_flush(&intercept);
    return s;
}

/* Gives up the message's settings once no part has recipients to read, as only reading them needs
 * routes. */
static void release_settings(struct message *m)
{
    for (size_t i = 0; m->settings != NULL && i < m->settings->transport_count; i++) {
        if (m->parts[i].unread > 0) {
            return;
        }
    }
    settings_put(m->settings);
    m->settings = NULL;
}

/* undone: recipients that have to be delivered, or told of */
static void submit_parts(struct activation *a, struct message *m, uint32_t undone)
{
    uint32_t transports = (uint32_t)m->settings->transport_count, parts = 0;
    for (uint32_t t = 0; t < transports; t++) {
        parts += m->parts[t].unread > 0;
    }
    for (uint32_t t = 0; t < transports; t++) {
        if (m->parts[t].unread == 0) {
            continue;
        }
        uint32_t share = activation_limit(a) / parts;
        uint32_t minimum = (uint32_t)settings_of(a->engine)->config->message_recipient_minimum;
        struct submission *s = read_portion(a, m, t, share < minimum ? minimum : share);
        if (s != NULL && s->count == 0 && s->unread == 0) {
            free(s); /* orders keep every recipient of this part */
            continue;
        }
        if (s == NULL || s->count == 0) {
            free(s);
            result_send(a->to_writer, NULL, m, m->parts[t].unread, 0);
            m->parts[t].unread = 0;
            continue;
        }
        m->whole_at = s->count == undone ? (uint16_t)t : MESSAGE_IN_PARTS;
        message_get(m);
        send_submission(a, m->settings, s);
    }
}

int activation_stored(struct activation *a, const struct spool_position *position,
                      struct message **ret)
{
    struct spool_envelope envelope;
    struct slice body;
    const uint64_t faults = spool_faults_seen();
    int err = spool_read_message(a->reader, position->id, &envelope, &body);
    if (err == 0) {
        err = check_body(a, &envelope);
    }
    struct message *m = err == 0 ? message_new(&envelope) : NULL;
    if (m == NULL) {
        return err == 0 ? -ENOMEM : err;
    }
    struct census census = {0};
    m->position = *position;
    m->suppress_seen = spool_suppress_seen(a->reader);
    m->activated = clock_wall();
    m->settings = settings_get(settings_of(a->engine)); /* all portions use the same routes */
    m->parts = calloc(m->settings->transport_count, sizeof(*m->parts));
    err = m->parts == NULL ? -ENOMEM : spool_read_retry(a->reader, position->id, &m->retry);
    if (err == 0) {
        err = take_census(a, m, &census);
    }
    message_account_open(&m->account, census.undone, census.failed);
    if (err == 0 && spool_faults_seen() != faults) {
        err =
            ERR_AGAIN; /* what was copied was verified before, but need not be the same any more */
    }
    if (err == 0 && census.unrouted > 0) {
        err = fail_stored_unrouted(a, m, census.unrouted);
    }
    if (err != 0) {
        message_destroy(m);
        return err;
    }
    m->flow = flow_names_take(a->names, &m->envelope);
    submit_parts(a, m, census.undone + census.failed);
    release_settings(m);
    if (census.undone == 0) {
        result_send(a->to_writer, NULL, m, 0,
                    0); /* a crash came between its last result and its removal: settle it */
    }
    *ret = m;
    return 0;
}

void activation_read(struct activation *a, const struct read_request *request)
{
    struct message *m = request->message;
    struct message_part *part = &m->parts[request->transport];
    uint32_t wanted = request->wanted < READ_LIMIT ? request->wanted : READ_LIMIT;
    struct submission *s = read_portion(a, m, request->transport, wanted == 0 ? 1 : wanted);
    if (s == NULL) {
        s = submission_new(m, request->transport, 0, order_book_changes(a->engine->orders));
        if (s == NULL) {
            log_error("out of memory: recipients of a message wait for the next start");
            return;
        }
        result_send(a->to_writer, NULL, m, part->unread, 0);
        part->unread = 0;
    }
    release_settings(m);
    letter_put_more(to_sched(a, s), s);
}

/* --- questions of orders and sweeps about a message that is not active ------------------------ */

/* errors: as spool_read_message */
static int read_envelope(struct activation *a, const struct spool_position *position,
                         struct spool_envelope *ret)
{
    struct slice body;
    return spool_read_message(a->reader, position->id, ret, &body);
}

bool activation_suspended(struct activation *a, const struct spool_position *position,
                          usec_t *ret_until)
{
    struct spool_envelope e;
    struct order_verdict verdict;
    /* Without orders nothing is suspended, except that mail of the held class may come before its
     * time, brought by a sweep. */
    bool is_possible = !order_book_is_empty(a->engine->orders) || position->class == SPOOL_HELD;
    if (!is_possible || read_envelope(a, position, &e) != 0 ||
        !intercept_suspends(a->engine, &e, &verdict)) {
        return false;
    }
    const struct message m = {.envelope = e};
    usec_t expires = message_expires(&m, settings_of(a->engine)->config);
    if (expires <= clock_wall()) {
        return false; /* the message is activated, so that it settles and its sender is told */
    }
    if (position->class == SPOOL_INCOMING && intercept_is_first(&verdict, &e, position)) {
        order_book_count(a->engine->orders, verdict.id, e.recipient_count);
    }
    *ret_until = verdict.until < expires ? verdict.until : expires;
    return true;
}

static bool matches_recipient(const struct activation *a, const struct selector *wanted,
                              const struct spool_envelope *e, struct slice address)
{
    struct route_result route;
    struct slice facts[SELECTOR_COUNT] = {[SELECTOR_TENANT] = e->tenant,
                                          [SELECTOR_CAMPAIGN] = e->campaign,
                                          [SELECTOR_DOMAIN] = router_domain(address)};
    if (router_route(settings_of(a->engine)->router, router_domain(address), e->tenant, &route)) {
        facts[SELECTOR_DESTINATION] = route.nexthop;
        const struct settings *s = settings_of(a->engine);
        facts[SELECTOR_TRANSPORT] = slice_of(s->config->transports[route.transport].name);
        facts[SELECTOR_SOURCE] =
            source_table_list(s->sources, s->config, route.transport, e->tenant);
    }
    return selector_matches(wanted, facts);
}

/* Which read error a question returns: ERR_AGAIN, as the answer may be known soon. For any other
 * error the answer is no, and the message's own activation reports the damage. */
static int unread(int err)
{
    return err == ERR_AGAIN ? ERR_AGAIN : 0;
}

int activation_matches(struct activation *a, const struct spool_position *position,
                       const struct selector *wanted, bool *ret, usec_t *ret_not_before)
{
    struct spool_envelope e;
    int err = read_envelope(a, position, &e);
    *ret = false;
    if (err != 0) {
        return unread(err);
    }
    *ret_not_before = e.not_before;
    if (!selector_matches_word(wanted, SELECTOR_TENANT, e.tenant) ||
        !selector_matches_word(wanted, SELECTOR_CAMPAIGN, e.campaign)) {
        return 0;
    }
    bool is_whole = true;
    for (int word = SELECTOR_DOMAIN; word < SELECTOR_COUNT; word++) {
        is_whole = is_whole && wanted->value[word] == NULL;
    }
    struct recipient_walk w;
    struct slice address;
    uint32_t index;
    int state;
    recipient_walk_init(&w, a->reader, &e, 0);
    while (!is_whole && recipient_walk_next(&w, &index, &address, &state)) {
        is_whole = recipient_is_undone(state) && matches_recipient(a, wanted, &e, address);
    }
    *ret = is_whole;
    return unread(w.error);
}

static bool is_free(const struct activation *a, const struct spool_envelope *e,
                    const struct spool_position *position, struct slice address)
{
    struct route_result route;
    struct order_verdict verdict;
    struct slice domain = router_domain(address);
    if (!router_route(settings_of(a->engine)->router, domain, e->tenant, &route)) {
        return true;
    }
    const struct intercept_way way = {domain, route.nexthop, SLICE(""), route.transport};
    return !intercept_judge(a->engine, e, &way, &verdict) || verdict.kind != ORDER_SUSPEND ||
           (uint64_t)verdict.until < position->time;
}

int activation_is_free(struct activation *a, const struct spool_position *position, bool *ret)
{
    struct spool_envelope e;
    int err = read_envelope(a, position, &e);
    *ret = false;
    if (err != 0) {
        return unread(err);
    }
    const struct message m = {.envelope = e};
    struct recipient_walk w;
    struct slice address;
    uint32_t index;
    int state;
    *ret = (uint64_t)message_expires(&m, settings_of(a->engine)->config) < position->time;
    recipient_walk_init(&w, a->reader, &e, 0);
    while (!*ret && recipient_walk_next(&w, &index, &address, &state)) {
        *ret = recipient_is_undone(state) && is_free(a, &e, position, address);
    }
    return unread(w.error);
}

int activation_may_end(struct activation *a, const struct spool_position *position, bool *ret)
{
    struct spool_envelope e;
    *ret = false;
    if (order_book_is_empty(a->engine->orders)) {
        return 0;
    }
    int err = read_envelope(a, position, &e);
    if (err != 0) {
        return unread(err);
    }
    const struct order_facts facts = {
        .tenant = e.tenant, .campaign = e.campaign, .received = e.created};
    *ret = order_book_may_concern(a->engine->orders, &facts, ORDER_BOUNCE, clock_wall());
    return 0;
}
