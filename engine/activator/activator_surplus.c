/* Asks schedulers for messages, and puts the scans of flows back to those that went. Called by the
 * activator's thread; who has too much is decided by rota.c. */
#include "engine/activator/activator_surplus.h"

#include "engine/activator/activator_state.h"
#include "engine/config/config.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <assert.h>

enum {
    PLAN_MOST = 512, /* places a plan: bounds what was given back for a flow that has no more mail */
    PLAN_PART = 32,  /* and so is a part of all places */
};
static const usec_t pause_even = 250 * USEC_PER_MSEC;
static const usec_t pause_vain = 50 * USEC_PER_MSEC; /* a plan takes up to some ms: a step for each flow */
static const usec_t pause_kept = USEC_PER_SEC;

/* Whether somebody waits for a place, and there is none. */
static bool is_wanted(const struct activator *a)
{
    const struct rota_room room = activator_room(a);
    return a->rota.waiting_flows > 0 && !rota_has_room(&room) &&
           (engine_gate(a->engine) & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) == 0;
}

/* Asks the youngest message of the flow, which is the last to be asked the next time. */
static void ask(struct activator *a, struct flow_queue *f)
{
    assert(!list_is_empty(&f->messages)); /* the flow has places */
    struct message *m = list_last(&f->messages, struct message, in_flow);
    list_remove(&m->in_flow);
    list_push_front(&f->messages, &m->in_flow);
    if (m->is_asked || m->whole_at == MESSAGE_IN_PARTS) {
        rota_fix(&f->turn);
        return;
    }
    m->is_asked = true;
    a->surplus.asked++;
    message_get(m);
    letter_put_give_way(&a->activation.to_scheds[m->whole_at % a->engine->sched_count], m);
}

void surplus_ask(struct activator *a)
{
    struct rota_flow *from[PLAN_MOST];
    struct surplus *s = &a->surplus;
    const usec_t now = clock_mono();
    if (s->asked > 0 || now < s->next || !is_wanted(a)) {
        return;
    }
    if (now >= s->forget_kept) {
        rota_unfix(&a->rota);
        s->forget_kept = now + pause_kept;
    }
    const struct rota_room room = activator_room(a);
    uint32_t most = room.places / PLAN_PART < PLAN_MOST ? room.places / PLAN_PART : PLAN_MOST;
    uint32_t count = rota_plan(&a->rota, &room, from, most > 0 ? most : 1);
    for (uint32_t i = 0; i < count; i++) {
        ask(a, flow_queue_of(from[i]));
    }
    s->next = now + (count > 0 ? pause_vain : pause_even);
}

usec_t surplus_wake_at(const struct activator *a)
{
    return a->surplus.asked == 0 && is_wanted(a) ? a->surplus.next : USEC_NEVER;
}

static void answered(struct activator *a, struct message *m)
{
    assert(m->is_asked && a->surplus.asked > 0);
    m->is_asked = false;
    a->surplus.asked--;
}

void surplus_kept(struct activator *a, struct message *m)
{
    struct flow_queue *f = flow_queues_find(&a->queues, m->position.flow);
    assert(f != NULL);
    answered(a, m);
    rota_fix(&f->turn);
    message_put(m);
}

void surplus_settled(struct activator *a, struct message *m)
{
    if (m->is_returned) {
        answered(a, m);
        a->surplus.next = 0; /* there may be more */
    }
}

/* The scan of the flow that is under way, or was last, goes on at the message. */
static void reopen_deferred(const struct activator *a, struct flow_queue *f,
                            const struct spool_position *p)
{
    struct flow_cursors *c = flow_queue_cursors(f);
    if (c == NULL) {
        return; /* the next scan finds it */
    }
    struct deferred_place *at = &c->deferred;
    if (!f->has_deferred) {
        deferred_scan_enter(&a->scan, at, p->flow);
        at->time = UINT64_MAX;
    }
    if (p->time < at->time || (p->time == at->time && p->id <= at->id)) {
        at->time = p->time;
        at->id = p->id - 1;
    }
    at->next_due = 0;
    f->has_deferred = true;
}

void surplus_returned(struct activator *a, const struct message *m)
{
    const struct spool_position *p = &m->position;
    struct flow_queue *f = flow_queues_find(&a->queues, p->flow);
    assert(f != NULL);
    if (p->class == SPOOL_INCOMING) {
        backlog_reopen(&f->backlog, a->engine, p->time);
    } else if (p->class == SPOOL_DEFERRED && p->time <= a->scan.until) {
        reopen_deferred(a, f, p);
    } else if (p->class == SPOOL_HELD && p->time <= (uint64_t)clock_wall()) {
        activator_wake_held(a, f, p->time, p->id);
    } else {
        activator_call(a, f, p); /* resumed, flushed or called back before its time */
    }
    activator_refresh(a, f);
}
