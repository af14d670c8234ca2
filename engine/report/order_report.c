/* Owns nothing; the first clerk is the owner of the order book and runs all handlers here but those
 * that count. Orders are told to who carries them out by letters. Must not deliver or bounce. */
#include "engine/report/order_report.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/activator/sweep.h"
#include "engine/census/clerk_walk.h"
#include "engine/census/order_count.h"
#include "engine/http/clerk.h"
#include "engine/nodes/nodes.h"
#include "engine/nodes/shared_orders.h"
#include "engine/order/order_book.h"
#include "engine/order/suspension.h"
#include "engine/post/letter.h"
#include "engine/report/order_request.h"
#include "engine/report/order_warning.h"
#include "engine/state/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The clock may be set: an end is looked at again before long. */
#define EXPIRE_WAIT_MAX (60 * USEC_PER_SEC)
/* How often it is asked whether mail was reviewed. */
#define NOTE_INTERVAL (5 * USEC_PER_SEC)

enum {
    DESCRIPTION_TEXT = 300,
    TENANT_ORDERS_MAX = 100, /* in force, of one tenant's tokens */
};

/* --- telling others --------------------------------------------------------------------------- */

static void send_sweep(struct clerk *k, enum sweep_kind kind, const struct selector *selector)
{
    struct sweep *s = sweep_new(kind, selector);
    if (s == NULL) {
        log_error("out of memory: mail in the queue meets changed orders when it is due");
        return;
    }
    sweep_count(s, &k->engine->sweeps);
    letter_put_sweep(k->to_activator, s, order_book_wanted_review(k->engine->orders));
}

/* Of routes and sources only the order knew what they were when it held the mail. */
static void send_review(struct clerk *k, const struct selector *selector)
{
    const struct selector lasting = {{
        [SELECTOR_TENANT] = selector->value[SELECTOR_TENANT],
        [SELECTOR_CAMPAIGN] = selector->value[SELECTOR_CAMPAIGN],
        [SELECTOR_DOMAIN] = selector->value[SELECTOR_DOMAIN],
    }}; /* the values stay the other's */
    send_sweep(k, SWEEP_REVIEW, &lasting);
}

/* By way of the activator: what it has given them before it heard of the order comes first. */
static void tell_schedulers(struct clerk *k)
{
    letter_put_orders_changed(k->to_activator);
}

static void revive(struct clerk *k, const struct selector *selector)
{
    for (uint32_t i = 0; i < k->engine->sched_count; i++) {
        struct sweep *s = sweep_new(SWEEP_FLUSH, selector);
        if (s == NULL) {
            log_error("out of memory: dead destinations wait for their time");
            return;
        }
        letter_put_revive(&k->to_scheds[i], s);
    }
}

static const struct order *find_order(const struct clerk *k, uint64_t id, uint64_t *ret_matched)
{
    const struct order *o =
        id == 0 ? NULL : order_book_next(k->engine->orders, id - 1, ret_matched);
    return o != NULL && o->id == id ? o : NULL;
}

/* --- orders of other nodes -------------------------------------------------------------------- */

static const struct order *find_shared(const struct clerk *k, uint64_t shared)
{
    const struct order *o;
    for (uint64_t id = 0; (o = order_book_next(k->engine->orders, id, NULL)) != NULL; id = o->id) {
        if (o->shared == shared) {
            return o;
        }
    }
    return NULL;
}

/* An order has come into force: who carries it out hears of it. */
static void enforce(struct clerk *k, const struct order *o)
{
    tell_schedulers(k);
    if (o->kind != ORDER_SUSPEND) {
        send_sweep(k, SWEEP_APPLY, &o->selector);
    }
}

/* An order is not in force any more. o: stays readable until the handler ends */
static void release(struct clerk *k, const struct order *o)
{
    tell_schedulers(k); /* a source that it closed may be used again */
    if (o->kind == ORDER_SUSPEND) {
        send_review(k, &o->selector);
    }
}

/* errors: of order_book_remove */
static int lift_of_others(struct clerk *k, uint64_t shared)
{
    const struct order *o = find_shared(k, shared);
    int err = o == NULL ? 0 : order_book_remove(k->engine->orders, o->id);
    if (o != NULL && err == 0) {
        log_info("order %llu was lifted at another node", (unsigned long long)o->id);
        release(k, o);
        shared_orders_forget(nodes_orders(k->engine->nodes), shared);
    }
    return err;
}

/* errors: of order_book_add */
static int give_of_others(struct clerk *k, struct order *wanted, uint64_t revision)
{
    char text[DESCRIPTION_TEXT];
    uint64_t id;
    if (find_shared(k, wanted->shared) != NULL) {
        return 0;
    }
    int err = order_book_add(k->engine->orders, wanted, &id);
    const struct order *o = err == 0 ? find_order(k, id, NULL) : NULL;
    if (o != NULL) {
        order_describe(o, text, sizeof(text));
        log_info("order %llu, given at another node by %s: %s for %lld s: %s",
                 (unsigned long long)id, o->by, text,
                 (long long)((o->until - clock_wall()) / USEC_PER_SEC), o->reason);
        enforce(k, o);
        shared_orders_know(nodes_orders(k->engine->nodes), o, revision);
    }
    return err;
}

/* Returns when to try again what could not be written; USEC_NEVER: all is done. */
static usec_t obey_others(struct clerk *k)
{
    struct shared_orders *s = nodes_orders(k->engine->nodes);
    struct order_wish *w;
    const struct order *o;
    if (s == NULL) {
        return USEC_NEVER;
    }
    for (uint64_t id = 0;
         !s->is_filled && (o = order_book_next(k->engine->orders, id, NULL)) != NULL; id = o->id) {
        shared_orders_know(s, o, 0);
    }
    s->is_filled = true;
    while ((w = shared_orders_wish(s)) != NULL) {
        int err = w->is_lift ? lift_of_others(k, w->order.shared)
                             : give_of_others(k, &w->order, w->revision);
        if (err != 0 && err != ERR_LIMIT) {
            log_error("an order of another node could not be written: %s", err_str(err));
            return clock_mono() + NOTE_INTERVAL;
        }
        if (err == ERR_LIMIT) {
            log_error("an order of another node is not obeyed: there are %d orders here",
                      ORDER_COUNT_MAX);
        }
        shared_orders_wish_done(s);
    }
    return USEC_NEVER;
}

/* Names of nodes that are not known to obey it yet. */
static json_t *awaited_list(const struct engine *e, uint64_t shared)
{
    char name[NODE_ENTRY_NAME_MAX + 1];
    json_t *list = json_array();
    size_t at = 0;
    while (list != NULL && nodes_awaited(e->nodes, shared, &at, name)) {
        (void)json_array_append_new(list, json_string(name)); /* out of memory leaves it out */
    }
    return list;
}

static bool forget_over(struct clerk *k, const struct order *o)
{
    if (o->shared != 0 && k->engine->nodes != NULL) {
        shared_orders_forget(nodes_orders(k->engine->nodes), o->shared);
    }
    return true;
}

/* --- ends ------------------------------------------------------------------------------------- */

usec_t order_report_expire(struct clerk *k)
{
    struct order_book *book = k->engine->orders;
    usec_t again = obey_others(k);
    if (suspensions_are_asked(k->engine->suspensions) &&
        suspensions_take(k->engine->suspensions, book, clock_wall()) > 0) {
        tell_schedulers(k);
    }
    usec_t now = clock_wall(), first = USEC_NEVER;
    const struct order *o;
    bool has_ended = false;
    for (uint64_t id = 0; (o = order_book_next(book, id, NULL)) != NULL; id = o->id) {
        if (o->until <= now) {
            char text[DESCRIPTION_TEXT];
            order_describe(o, text, sizeof(text));
            log_info("order %llu is over: %s", (unsigned long long)o->id, text);
            has_ended = forget_over(k, o);
        } else if (o->until < first) {
            first = o->until;
        }
    }
    if (has_ended) {
        (void)order_book_expire(book, now); /* what could not be written has no effect anyway */
    }
    order_book_note_matched(book, clock_mono());
    bool must_note = order_book_note_review(book);
    if (first == USEC_NEVER && !must_note) {
        return again;
    }
    usec_t wait =
        first == USEC_NEVER || first - now > EXPIRE_WAIT_MAX ? EXPIRE_WAIT_MAX : first - now;
    wait = must_note && wait > NOTE_INTERVAL ? NOTE_INTERVAL : wait;
    return clock_mono() + wait < again ? clock_mono() + wait : again;
}

/* --- objects ---------------------------------------------------------------------------------- */

/* NULL: out of memory. id 0: a dry run */
static json_t *order_object(const struct engine *e, const struct order *o, uint64_t matched)
{
    char id[24];
    json_t *object = json_object();
    if (object == NULL || selector_to_json(&o->selector, object) != 0) {
        json_decref(object);
        return NULL;
    }
    if (o->id != 0) {
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)o->id);
        api_set_text(object, "id", slice_of(id));
    }
    if (o->site != NULL) {
        api_set_text(object, "site", slice_of(o->site));
    }
    api_set_text(object, "order", slice_of(order_kind_text(o->kind)));
    api_set_text(object, "reason", slice_of(o->reason));
    api_set_text(object, "by", slice_of(o->by));
    api_set_time(object, "created", o->created);
    api_set_time(object, "until", o->until);
    usec_t left = o->until - clock_wall();
    /* out of memory leaves it out */
    (void)json_object_set_new(object, "remaining", api_time(left > 0 ? left : 0));
    if (o->is_once) {
        (void)json_object_set_new(object, "once", json_true()); /* out of memory leaves it out */
    }
    if (o->id != 0) {
        api_set_number(object, "matched", matched);
    }
    if (o->id != 0 && o->shared != 0 && e->nodes != NULL) {
        /* out of memory leaves it out */
        (void)json_object_set_new(object, "awaited", awaited_list(e, o->shared));
    }
    return object;
}

void order_report_list(struct clerk *k, struct api_call *c)
{
    const struct order *o;
    uint64_t matched;
    (void)order_report_expire(k); /* asked again after the call */
    for (uint64_t id = 0; (o = order_book_next(k->engine->orders, id, &matched)) != NULL;
         id = o->id) {
        if (!order_is_visible(o, api_tenant(c))) {
            continue;
        }
        json_t *object = order_object(k->engine, o, matched);
        bool has_warnings =
            object != NULL && api_tenant(c).len == 0; /* they name what others have */
        json_t *warnings = has_warnings ? order_warning_of_config(k, &o->selector) : NULL;
        if (warnings != NULL) {
            /* out of memory leaves it out */
            (void)json_object_set_new(object, "warnings", warnings);
        }
        api_put(c, object);
    }
    api_end(c, false);
}

/* Decimal, as in answers. 0: it is none. */
static uint64_t parse_id(struct slice text)
{
    uint64_t id = 0;
    if (text.len == 0 || text.len > 18) {
        return 0;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return 0;
        }
        id = id * 10 + (uint64_t)(text.data[i] - '0');
    }
    return id;
}

/* --- counting ----------------------------------------------------------------------------------
 * On the other clerk, which walks through the spool; `kept` is the object to be completed. */

/* false: the call was answered
 *
 * before   as in order_count_take
 * ret      recipients; may be NULL */
static bool add_count(struct clerk *k, struct api_call *c, json_t *kept, usec_t before,
                      uint64_t *ret)
{
    struct selector selector;
    struct order_count found = {0};
    const char *word, *kind = json_string_value(json_object_get(kept, "order"));
    selector_init(&selector);
    int err = selector_from_json(&selector, kept, &word);
    if (err == 0) {
        err = order_count_take(k, kind == NULL ? ORDER_NONE : order_kind_find(slice_of(kind)),
                               &selector, before, &found);
    }
    if (err == 0 && found.recipients == 0 && api_tenant(c).len == 0) {
        json_t *warnings = order_warning_list(k, &selector);
        if (warnings != NULL) {
            (void)json_object_set_new(kept, "warnings", warnings); /* out of memory leaves it out */
        }
    }
    selector_fini(&selector);
    if (err != 0) {
        clerk_walk_error(k, c, err);
        return false;
    }
    json_t *count = json_object();
    if (count != NULL) {
        api_set_number(count, "messages", found.messages);
        api_set_number(count, "recipients", found.recipients);
    }
    (void)json_object_set_new(kept, "would_match", count); /* out of memory leaves it out */
    if (ret != NULL) {
        *ret = found.recipients;
    }
    return true;
}

static void count_dry_run(struct clerk *k, struct api_call *c)
{
    json_t *kept = clerk_kept(c);
    if (add_count(k, c, kept, 0, NULL)) {
        api_object(c, 200, json_incref(kept));
    }
}

/* The order stands, whatever comes of the count. What was queued when it was given is where its own
 * count begins. */
static void count_given(struct clerk *k, struct api_call *c)
{
    json_t *kept = clerk_kept(c);
    uint64_t recipients, id = parse_id(slice_of(json_string_value(json_object_get(kept, "id"))));
    const struct order *o = find_order(k, id, NULL);
    usec_t given = o == NULL ? 0 : o->created;
    if (add_count(k, c, kept, given, &recipients)) {
        order_book_count(k->engine->orders, id, recipients);
        /* out of memory leaves it out */
        (void)json_object_set_new(kept, "matched", json_integer((json_int_t)recipients));
    }
    api_object(c, 201, json_incref(kept));
}

/* --- giving and lifting ----------------------------------------------------------------------- */

/* 422 or 503 */
static void refuse_order(struct api_call *c, int err, const char *text)
{
    if (err == -ENOMEM) {
        api_error(c, 503, "unavailable", "out of memory");
    } else {
        api_error(c, 422, "wrong", "%s", text);
    }
}

/* An order of somebody who is bound to a tenant is the tenant's, and about nothing else. false: the
 * call was answered */
static bool bind_order(struct api_call *c, struct order *o)
{
    struct slice tenant = api_tenant(c);
    const char *named = o->selector.value[SELECTOR_TENANT];
    if (tenant.len == 0) {
        return true;
    }
    if (named != NULL && !api_may_name(c, slice_of(named))) {
        return false;
    }
    int err = selector_set(&o->selector, slice_of(selector_word_text(SELECTOR_TENANT)), tenant);
    err = err != 0 ? err : order_set_text(&o->owner, tenant, LABEL_MAX);
    if (err != 0) {
        refuse_order(c, err, "the tenant of the token");
    }
    return err == 0;
}

/* false: the call was answered. r: order_fini(&r->order) in any case */
static bool read_order(const struct engine *e, struct api_call *c, struct order_request *r,
                       char text[static ORDER_REQUEST_TEXT_MAX])
{
    int err = order_request_read(api_body(c), api_who(c), clock_wall(), r, text);
    if (err != 0) {
        refuse_order(c, err, text);
        return false;
    }
    if (e->nodes != NULL && !r->is_here) {
        r->order.shared = shared_orders_draw();
    }
    return bind_order(c, &r->order);
}

/* Whether there is room for another order of the one who gives it, so that one tenant does not take
 * all the room there is. */
static bool has_room(const struct clerk *k, const struct order *wanted)
{
    const struct order *o;
    unsigned count = 0;
    for (uint64_t id = 0; (o = order_book_next(k->engine->orders, id, NULL)) != NULL; id = o->id) {
        count += wanted->owner != NULL && o->owner != NULL && strcmp(o->owner, wanted->owner) == 0;
    }
    return count < TENANT_ORDERS_MAX;
}

/* Put it into force and tell everybody. NULL: the call was answered */
static json_t *give(struct clerk *k, struct api_call *c, struct order *o)
{
    char text[DESCRIPTION_TEXT];
    uint64_t id, matched;
    (void)order_report_expire(k); /* makes room; asked again after the call */
    if (!has_room(k, o)) {
        api_error(c, 429, "busy", "the tenant has %d orders; resume some first", TENANT_ORDERS_MAX);
        return NULL;
    }
    int err = order_book_add(k->engine->orders, o, &id);
    if (err == ERR_LIMIT) {
        api_error(c, 429, "busy", "there are %d orders; resume some first", ORDER_COUNT_MAX);
        return NULL;
    }
    if (err != 0) {
        log_error("an order could not be written: %s", err_str(err));
        api_error(c, 503, "unavailable", "the order could not be written: %s", err_str(err));
        return NULL;
    }
    const struct order *given = find_order(k, id, &matched);
    assert(given != NULL);
    order_describe(given, text, sizeof(text));
    log_info("order %llu by %s: %s for %lld s%s: %s", (unsigned long long)id, given->by, text,
             (long long)((given->until - given->created) / USEC_PER_SEC),
             given->is_once ? ", what is queued now" : "", given->reason);
    enforce(k, given);
    if (given->shared != 0) {
        shared_orders_know(nodes_orders(k->engine->nodes), given, 0);
    }
    json_t *object = order_object(k->engine, given, matched);
    if (object == NULL) {
        api_error(c, 503, "unavailable", "out of memory; order %llu is in force",
                  (unsigned long long)id);
    }
    return object;
}

/* What is ended was counted before. */
static void give_counted(struct clerk *k, struct api_call *c)
{
    char text[ORDER_REQUEST_TEXT_MAX];
    struct order_request r;
    if (read_order(k->engine, c, &r, text)) {
        json_t *object = give(k, c, &r.order);
        if (object != NULL) {
            static const char *const found[] = {"would_match", "warnings"};
            for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
                json_t *value = json_object_get(clerk_kept(c), found[i]);
                if (value != NULL) {
                    /* out of memory leaves it out */
                    (void)json_object_set(object, found[i], value);
                }
            }
            api_object(c, 201, object);
        }
    }
    order_fini(&r.order);
}

/* Back to the owner of the book, unless it could not be counted. */
static void count_first(struct clerk *k, struct api_call *c)
{
    json_t *kept = clerk_kept(c);
    if (add_count(k, c, kept, 0, NULL)) {
        clerk_pass_on(k, c, give_counted, kept);
    }
}

/* To suspend is urgent: at once, then counted. What cannot be undone is counted before. */
void order_report_give(struct clerk *k, struct api_call *c)
{
    char text[ORDER_REQUEST_TEXT_MAX];
    struct order_request r;
    json_t *object;
    if (!read_order(k->engine, c, &r, text)) {
        order_fini(&r.order);
        return;
    }
    if (r.is_dry_run || r.order.kind != ORDER_SUSPEND) {
        object = order_object(k->engine, &r.order, 0);
        clerk_pass_on(k, c, r.is_dry_run ? count_dry_run : count_first, object);
    } else if ((object = give(k, c, &r.order)) != NULL) {
        clerk_pass_on(k, c, count_given, object);
    }
    order_fini(&r.order);
}

/* The reason of a request without a body, heap; NULL: none. false: the call was answered */
static bool take_reason(struct api_call *c, char **ret)
{
    struct slice reason;
    *ret = NULL;
    int err = api_param(c, "reason", &reason) && reason.len > 0
                  ? order_set_text(ret, reason, ORDER_REASON_MAX)
                  : 0;
    if (err != 0) {
        refuse_order(c, err, "reason: one line of at most 500 bytes");
    }
    return err == 0;
}

static void lift(struct clerk *k, struct api_call *c, const struct order *o, uint64_t matched,
                 const char *reason)
{
    char text[DESCRIPTION_TEXT];
    json_t *object = order_object(k->engine, o, matched);
    order_describe(o, text, sizeof(text));
    int err = order_book_remove(k->engine->orders, o->id);
    if (err != 0) {
        json_decref(object);
        api_error(c, 503, "unavailable", "the order is still in force: %s", err_str(err));
        return;
    }
    log_info("order %llu is lifted by %s: %s%s%s", (unsigned long long)o->id, api_who(c), text,
             reason == NULL ? "" : ": ", reason == NULL ? "" : reason);
    release(k, o); /* retired under RCU: `o` stays readable until this handler ends */
    if (o->shared != 0 && k->engine->nodes != NULL) {
        shared_orders_lift(nodes_orders(k->engine->nodes), o->shared);
    }
    api_object(c, 200, object);
}

void order_report_lift(struct clerk *k, struct api_call *c)
{
    uint64_t matched = 0;
    char *reason;
    (void)order_report_expire(k); /* asked again after the call */
    const struct order *o = find_order(k, parse_id(api_argument(c)), &matched);
    if (o == NULL || !order_is_visible(o, api_tenant(c))) {
        api_error(c, 404, "missing", "there is no such order");
    } else if (api_tenant(c).len > 0 && o->owner == NULL) {
        api_deny(c, DENIAL_RIGHT, "an operator gave this order, and only an operator ends it");
    } else if (take_reason(c, &reason)) {
        lift(k, c, o, matched, reason);
        free(reason);
    }
}

/* Under way from here on. The object becomes the answer. */
static void flush_queue(struct clerk *k, struct api_call *c, const struct selector *selector,
                        json_t *object)
{
    /* borrows the selector's texts, for the description only */
    const struct order shown = {.selector = *selector};
    char text[ORDER_REQUEST_TEXT_MAX];
    if (atomic_load_explicit(&k->engine->sweeps, memory_order_relaxed) >= SWEEPS_MAX) {
        json_decref(object);
        api_error(c, 429, "busy", "%d walks over the queue wait; flush again later", SWEEPS_MAX);
        return;
    }
    order_describe(&shown, text, sizeof(text));
    log_info("flush by %s:%s", api_who(c), text + strlen(order_kind_text(ORDER_NONE)));
    revive(k, selector);
    send_sweep(k, SWEEP_FLUSH, selector);
    api_object(c, 202, object);
}

/* What clerk_kept describes. false: out of memory */
static bool kept_selector(const struct api_call *c, struct selector *ret)
{
    const char *word;
    selector_init(ret);
    return selector_from_json(ret, clerk_kept(c), &word) == 0;
}

static void flush_named(struct clerk *k, struct api_call *c)
{
    struct selector selector;
    if (kept_selector(c, &selector)) {
        flush_queue(k, c, &selector, json_incref(clerk_kept(c)));
    } else {
        api_error(c, 503, "unavailable", "out of memory");
    }
    selector_fini(&selector);
}

/* Before the flush: mail that it sends would be gone, and its names unknown. Back to who may tell
 * other threads. */
static void warn_first(struct clerk *k, struct api_call *c)
{
    json_t *kept = clerk_kept(c), *warnings;
    struct selector selector;
    if (kept_selector(c, &selector) && (warnings = order_warning_list(k, &selector)) != NULL) {
        (void)json_object_set_new(kept, "warnings", warnings); /* out of memory leaves it out */
    }
    selector_fini(&selector);
    clerk_pass_on(k, c, flush_named, kept);
}

void order_report_flush(struct clerk *k, struct api_call *c)
{
    char text[ORDER_REQUEST_TEXT_MAX];
    struct selector selector;
    bool is_dry_run;
    json_t *object = json_object();
    int err = order_request_read_flush(api_body(c), &selector, &is_dry_run, text);
    if (err == 0 && (object == NULL || selector_to_json(&selector, object) != 0)) {
        err = -ENOMEM;
    }
    if (err != 0) {
        json_decref(object);
        refuse_order(c, err, text);
    } else if (is_dry_run) {
        clerk_pass_on(k, c, count_dry_run, object);
    } else if (selector_is_empty(&selector)) {
        flush_queue(k, c, &selector, object);
    } else {
        clerk_pass_on(k, c, warn_first, object);
    }
    selector_fini(&selector);
}
