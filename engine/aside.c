/* Owns nothing but the result being gathered. Called by activator and scheduler threads; decides
 * nothing (order_book.c does) and changes no message. */
#include "engine/aside.h"

#include "base/clock.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/message.h"
#include "engine/settings.h"

#include <stdio.h>

enum { GATHERED = 64 }; /* recipients a result */

bool aside_judge(const struct engine *e, const struct spool_envelope *envelope, struct slice domain,
                 struct slice nexthop, size_t transport, struct order_verdict *ret)
{
    if (order_book_is_empty(e->orders)) {
        return false;
    }
    const struct config_transport *t = &settings_of(e)->config->transports[transport];
    const struct order_facts facts = {
        .tenant = envelope->tenant,
        .campaign = envelope->campaign,
        .domain = domain,
        .destination = nexthop,
        .transport = slice_of(t->name),
        .sources = config_transport_sources(t),
        .received = envelope->created,
    };
    order_book_judge(e->orders, &facts, clock_wall(), ret);
    return ret->kind != ORDER_NONE;
}

bool aside_suspends(const struct engine *e, const struct spool_envelope *envelope,
                    usec_t *ret_until)
{
    if (order_book_is_empty(e->orders)) {
        return false;
    }
    struct order_verdict verdict;
    struct order_facts facts = {
        .tenant = envelope->tenant, .campaign = envelope->campaign, .received = envelope->created};
    usec_t now = clock_wall();
    if (order_book_may_concern(e->orders, &facts, ORDER_BOUNCE, now)) {
        return false;
    }
    facts.domain = facts.destination = facts.transport = facts.sources = SLICE("");
    order_book_judge(e->orders, &facts, now, &verdict);
    *ret_until = verdict.until;
    return verdict.kind == ORDER_SUSPEND;
}

void aside_init(struct aside *s, struct engine *engine, struct outbox *to_writer,
                struct message *message, bool is_counted)
{
    *s = (struct aside){
        .engine = engine, .to_writer = to_writer, .message = message, .is_counted = is_counted};
}

void aside_flush(struct aside *s)
{
    if (s->result == NULL) {
        return;
    }
    s->result->done = clock_wall();
    order_book_count(s->engine->orders, s->order, s->result->count);
    if (!s->is_counted) { /* the writer takes them out with the result */
        atomic_fetch_add_explicit(&s->engine->recipients_in_core, s->result->count,
                                  memory_order_relaxed);
    }
    outbox_put_patient(s->to_writer, LETTER_RESULT, s->result, 0);
    s->result = NULL;
}

static struct result *open_result(struct aside *s, const struct order_verdict *v)
{
    static const enum result_kind kinds[] = {[ORDER_SUSPEND] = RESULT_PARKED,
                                             [ORDER_BOUNCE] = RESULT_FAILED,
                                             [ORDER_DROP] = RESULT_DROPPED};
    if (s->result != NULL && (s->order != v->id || s->result->count == s->result->capacity)) {
        aside_flush(s);
    }
    if (s->result == NULL) {
        s->result = result_new(s->message, GATHERED);
        s->order = v->id;
        s->kind = kinds[v->kind];
        if (s->result != NULL) {
            s->result->order = v->id;
            s->result->park_until = v->until;
        }
    }
    return s->result;
}

void aside_take(struct aside *s, uint32_t index, const struct order_verdict *v)
{
    static const char *const what[] = {[ORDER_SUSPEND] = "suspended",
                                       [ORDER_BOUNCE] = "returned by the operator",
                                       [ORDER_DROP] = "dropped by the operator"};
    struct result *r = open_result(s, v);
    s->taken++;
    if (r == NULL) { /* it stays as it is stored, and is judged again */
        result_send(s->to_writer, NULL, s->message, 1, s->is_counted ? RESULT_WAS_LOADED : 0);
        return;
    }
    char text[400];
    int len = snprintf(text, sizeof(text), "%s: %s (order %llu)", what[v->kind], v->reason,
                       (unsigned long long)v->id);
    size_t shown = len < 0 ? 0 : (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1;
    result_add(r, index, s->kind, 0, v->kind == ORDER_SUSPEND ? "4.7.0" : "5.7.1",
               slice_make(text, shown));
}
