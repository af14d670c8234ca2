/* Owns nothing but the result being gathered. Called by activator and scheduler threads; decides
 * nothing (order_book.c does) and changes no message. */
#include "engine/order/intercept.h"

#include "base/clock.h"
#include "base/mailbox.h"
#include "engine/config/config.h"
#include "engine/post/in_core.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/suppressed.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"

#include <stdio.h>

enum { GATHERED = 64 }; /* recipients a result */

/* The verdict on scheduled mail that a sweep brought before its time: it waits until then. */
static struct order_verdict early(const struct spool_envelope *envelope)
{
    return (struct order_verdict){.kind = ORDER_SUSPEND,
                                  .until = envelope->not_before,
                                  .reason = "its sender wants it later"};
}

/* Whether the verdict of the orders would let scheduled mail go before its time. */
static bool is_before(const struct order_verdict *v, usec_t not_before)
{
    return v->kind == ORDER_NONE || (v->kind == ORDER_SUSPEND && v->until < not_before);
}

bool intercept_judge(const struct engine *e, const struct spool_envelope *envelope,
                     const struct intercept_way *way, struct order_verdict *ret)
{
    usec_t now = envelope->not_before == 0 ? 0 : clock_wall();
    bool is_early = envelope->not_before > now;
    if (order_book_is_empty(e->orders)) {
        *ret = early(envelope);
        return is_early;
    }
    const struct settings *s = settings_of(e);
    const struct order_facts facts = {
        .tenant = envelope->tenant,
        .campaign = envelope->campaign,
        .domain = way->domain,
        .destination = way->nexthop,
        .transport = slice_of(s->config->transports[way->transport].name),
        .site = way->site,
        .sources = source_table_list(s->sources, s->config, way->transport, envelope->tenant),
        .received = envelope->created,
    };
    order_book_judge(e->orders, &facts, clock_wall(), ret);
    ret->facts = facts;
    if (is_early && is_before(ret, envelope->not_before)) {
        *ret = early(envelope);
    }
    return ret->kind != ORDER_NONE;
}

bool intercept_suspends(const struct engine *e, const struct spool_envelope *envelope,
                        struct order_verdict *ret)
{
    usec_t now = clock_wall();
    *ret = (struct order_verdict){.kind = ORDER_NONE};
    struct order_facts facts = {
        .tenant = envelope->tenant, .campaign = envelope->campaign, .received = envelope->created};
    if (!order_book_is_empty(e->orders)) {
        if (order_book_may_concern(e->orders, &facts, ORDER_BOUNCE, now)) {
            return false;
        }
        facts.domain = facts.destination = facts.transport = facts.sources = SLICE("");
        facts.site = SLICE("");
        order_book_judge(e->orders, &facts, now, ret);
    }
    if (envelope->not_before > now && is_before(ret, envelope->not_before)) {
        *ret = early(envelope);
    }
    return ret->kind == ORDER_SUSPEND;
}

bool intercept_is_first(const struct order_verdict *v, const struct spool_envelope *envelope,
                        const struct spool_position *position)
{
    bool has_waited =
        position->class == SPOOL_HELD && (v->is_at_site || position->time == (uint64_t)v->until);
    return v->id != 0 &&
           (v->kind != ORDER_SUSPEND || (envelope->created > v->given && !has_waited));
}

void intercept_init(struct intercept *s, struct engine *engine, struct outbox *to_writer,
                    struct message *message, bool is_counted)
{
    *s = (struct intercept){
        .engine = engine, .to_writer = to_writer, .message = message, .is_counted = is_counted};
}

void intercept_flush(struct intercept *s)
{
    if (s->result == NULL) {
        return;
    }
    s->result->done = clock_wall();
    if (s->met > 0) {
        order_book_count(s->engine->orders, s->order, s->met);
        s->met = 0;
    }
    if (!s->is_counted) {
        in_core_add(s->engine, s->message, s->result->count);
    }
    letter_put_result(s->to_writer, s->result);
    s->result = NULL;
}

static struct result *open_result(struct intercept *s, const struct order_verdict *v,
                                  enum result_kind kind)
{
    if (s->result != NULL &&
        (s->order != v->id || s->kind != kind || s->result->count == s->result->capacity)) {
        intercept_flush(s);
    }
    if (s->result == NULL) {
        s->result = result_new(s->message, GATHERED);
        s->order = v->id;
        s->kind = kind;
        if (s->result != NULL) {
            s->result->order = v->id;
            s->result->park_until = v->until;
        }
    }
    return s->result;
}

/* The result that the recipient goes into. NULL: out of memory; it stays as stored, and is judged again
 * later. */
static struct result *take_one(struct intercept *s, const struct order_verdict *v,
                               enum result_kind kind)
{
    struct result *r = open_result(s, v, kind);
    s->taken++;
    if (r == NULL) {
        result_send(s->to_writer, NULL, s->message, 1, s->is_counted ? RESULT_WAS_LOADED : 0);
    }
    return r;
}

void intercept_suppress(struct intercept *s, uint32_t index, const struct spool_suppression *found)
{
    static const struct order_verdict no_order = {.kind = ORDER_NONE};
    struct result *r = take_one(s, &no_order, RESULT_SUPPRESSED);
    char text[SUPPRESSED_TEXT_MAX];
    if (r != NULL) {
        result_add(r, index, RESULT_SUPPRESSED, 0, "5.1.8", suppressed_text(found, text));
    }
}

void intercept_take(struct intercept *s, uint32_t index, const struct order_verdict *v)
{
    static const char *const what[] = {[ORDER_SUSPEND] = "suspended",
                                       [ORDER_BOUNCE] = "returned by the operator",
                                       [ORDER_DROP] = "dropped by the operator"};
    static const enum result_kind kinds[] = {[ORDER_SUSPEND] = RESULT_PARKED,
                                             [ORDER_BOUNCE] = RESULT_FAILED,
                                             [ORDER_DROP] = RESULT_DROPPED};
    struct result *r = take_one(s, v, kinds[v->kind]);
    if (r == NULL) {
        return;
    }
    if (intercept_is_first(v, &s->message->envelope, &s->message->position)) {
        if (v->is_by_sources) {
            order_book_count_sources(s->engine->orders, &v->facts, clock_wall(), 1);
        } else {
            s->met++;
        }
    }
    char text[400];
    int len = v->id == 0 ? snprintf(text, sizeof(text), "%s: %s", what[v->kind], v->reason)
                         : snprintf(text, sizeof(text), "%s: %s (order %llu)", what[v->kind],
                                    v->reason, (unsigned long long)v->id);
    result_add(r, index, s->kind, 0, v->kind == ORDER_SUSPEND ? "4.7.0" : "5.7.1",
               slice_of_printed(text, sizeof(text), len));
}
