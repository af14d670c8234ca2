/* Which message becomes active next. Called by the activator's thread, once a pass; letters are
 * activator.c's. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/activator/activator_state.h"
#include "engine/config/config.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/writer/retry.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    ACTIVATIONS_PER_PASS = 256,
    LOOKS_PER_PASS = 500, /* bounds the records that may each need a read of the disk */
    AHEAD = 512, /* messages whose pages are asked for before they are read: 16 MB at most, of all
                  * flows together as long as there are no more of them than half of that */
};

/* --- flows ------------------------------------------------------------------------------------ */

struct rota_room activator_room(const struct activator *a)
{
    return (struct rota_room){
        .places = (uint32_t)settings_of(a->engine)->config->message_active_limit,
        .used = a->active,
    };
}

static uint32_t weight_of(void *ctx, struct slice tenant)
{
    const struct activator *a = ctx;
    return config_tenant_weight(settings_of(a->engine)->config, tenant);
}

static void follow_settings(struct activator *a)
{
    const struct settings *s = settings_of(a->engine);
    if (s->serial != a->serial) {
        a->serial = s->serial;
        a->rota.floor = (uint32_t)s->config->class_floor;
        rota_weigh(&a->rota, weight_of, a);
    }
}

/* Some flow is not known for want of memory, or as the spool could not be read. */
static void know_flows_later(struct activator *a)
{
    a->knows_flows = false;
    a->know_flows_at = clock_mono() + USEC_PER_SEC;
}

static int bind_to(struct activator *a, struct flow_queue *f, enum mail_class class,
                   struct slice tenant)
{
    struct rota_flow *turn = &f->turn;
    if (turn->party != NULL && (turn->active > 0 || flow_queue_has_mail(f))) {
        return 0; /* the number is in use, so it is the same flow's */
    }
    if (rota_is_bound(turn, class, tenant)) {
        return 0;
    }
    rota_rest(&a->rota, turn);
    return rota_bind(&a->rota, turn, class, tenant, weight_of(a, tenant));
}

/* Binds a flow of which only the number is at hand. errors: -ENOMEM, those of the reader */
static int bind_stored(struct activator *a, struct flow_queue *f)
{
    struct spool_flow flow = {.class = MAIL_NORMAL, .tenant = SLICE("")};
    if (f->turn.party != NULL && (f->turn.active > 0 || flow_queue_has_mail(f))) {
        return 0;
    }
    bool was_active = spool_reader_is_active(a->reader);
    int err = was_active ? 0 : spool_reader_begin(a->reader);
    if (err != 0) {
        return err;
    }
    err = spool_read_flow(a->reader, f->backlog.flow, &flow);
    if (err == ERR_MISSING || err == ERR_CORRUPT) {
        err = 0; /* damaged: it goes with nobody's, whatever the number is */
    }
    err = err == 0 ? bind_to(a, f, flow.class, flow.tenant) : err;
    if (!was_active) {
        spool_reader_end(a->reader);
    }
    return err;
}

struct flow_queue *activator_queue(struct activator *a, const struct spool_position *position,
                                   const struct spool_envelope *e)
{
    const bool is_new = flow_queues_find(&a->queues, position->flow) == NULL;
    struct flow_queue *f = flow_queues_obtain(&a->queues, position->flow);
    int err = f == NULL ? -ENOMEM : 0;
    if (is_new && f != NULL) {
        f->next_held = UINT64_MAX;
    }
    if (err == 0) {
        err = e != NULL ? bind_to(a, f, spool_mail_class(e->flags), e->tenant) : bind_stored(a, f);
    }
    if (err != 0) {
        know_flows_later(a);
    }
    return err == 0 ? f : NULL;
}

void activator_refresh(struct activator *a, struct flow_queue *f)
{
    if (flow_queue_has_mail(f)) {
        if (rota_wait(&a->rota, &f->turn) != 0) {
            know_flows_later(a);
        }
        return;
    }
    rota_rest(&a->rota, &f->turn);
    if (f->turn.active == 0) {
        flow_queue_rest(f);
    }
}

/* Others are told of flows that wait for their turn with held mail as well. */
static void set_next_held(struct activator *a, uint64_t time)
{
    a->next_held = time;
    atomic_store_explicit(&a->engine->next_held, a->held_flows > 0 ? 0 : time,
                          memory_order_relaxed);
}

/* What an earlier run has left in the flow, if anything, is found when it is its turn. */
static int know_flow(struct activator *a, uint32_t number)
{
    const struct spool_position position = {SPOOL_INCOMING, 0, 0, number};
    struct flow_queue *f = activator_queue(a, &position, NULL);
    if (f == NULL) {
        return -ENOMEM;
    }
    backlog_grow(&f->backlog, a->engine);
    f->next_due = f->next_held = 0;
    set_next_held(a, 0);
    activator_refresh(a, f);
    return 0;
}

/* The reader is open. Until all flows are known no mail becomes active from memory, as there may be
 * mail of its flow in front of it. */
static void know_flows(struct activator *a)
{
    struct spool_flow flow;
    a->knows_flows = true;
    int err = know_flow(a, 0);
    for (uint32_t after = 0; err == 0; after = flow.number) {
        err = spool_next_flow(a->reader, after, &flow);
        err = err == 0 ? know_flow(a, flow.number) : err;
    }
    if (err != ERR_MISSING) {
        know_flows_later(a);
    }
}

/* --- activation ------------------------------------------------------------------------------- */

void activator_set_active(struct activator *a, uint32_t active)
{
    a->active = active;
    atomic_store_explicit(&a->engine->active_messages, active, memory_order_relaxed);
}

/* A load and a store are enough, as only this thread writes the counter. */
static void count_class(struct activator *a, const struct message *m, int by)
{
    _Atomic uint64_t *count = &a->engine->active_of[m->position.class];
    atomic_store_explicit(count,
                          atomic_load_explicit(count, memory_order_relaxed) + (uint64_t)(int64_t)by,
                          memory_order_relaxed);
}

static void count_active(struct activator *a, struct flow_queue *f, struct message *m)
{
    count_class(a, m, 1);
    rota_count(&a->rota, &f->turn, 1);
    review_note_active(&a->review, m);
    list_push_back(&a->messages, &m->active);
    list_push_back(&f->messages, &m->in_flow);
    activator_set_active(a, a->active + 1);
}

void activator_uncount(struct activator *a, struct message *m)
{
    struct flow_queue *f = flow_queues_find(&a->queues, m->position.flow);
    assert(f != NULL); /* it had a place */
    activator_set_active(a, a->active - 1);
    sweeper_retry(&a->sweeper);
    count_class(a, m, -1);
    rota_count(&a->rota, &f->turn, -1);
    list_remove(&m->in_flow);
    if (f->turn.active == 0 && !flow_queue_has_mail(f)) {
        flow_queue_rest(f);
    }
}

int activator_activate_fresh(struct activator *a, struct flow_queue *f, struct message *m)
{
    if (!id_set_add(&a->held, m->envelope.id)) {
        return -ENOMEM;
    }
    int err = activation_fresh(&a->activation, m);
    if (err != 0) {
        id_set_remove(&a->held, m->envelope.id);
        return err;
    }
    count_active(a, f, m);
    return 0;
}

/* A message goes to the writer without having been loaded, and counts as active until LETTER_SETTLED.
 * Returns a copy of its place for the letter. NULL: out of memory, nothing happened */
static struct spool_position *count_unloaded(struct activator *a,
                                             const struct spool_position *position)
{
    struct spool_position *copy = malloc(sizeof(*copy));
    if (copy == NULL || !id_set_add(&a->held, position->id)) {
        free(copy);
        return NULL;
    }
    *copy = *position;
    review_note_unloaded(&a->review);
    activator_set_active(a, a->active + 1);
    return copy;
}

/* Has the writer quarantine a damaged message. */
static int report_damage(struct activator *a, const struct spool_position *position)
{
    struct spool_position *damaged = count_unloaded(a, position);
    if (damaged == NULL) {
        return -ENOMEM;
    }
    letter_put_damaged(a->activation.to_writer, damaged);
    return 0;
}

/* An order suspends the whole message: the writer moves it, not loaded, to the held class. */
static int park(struct activator *a, const struct spool_position *position, usec_t until)
{
    struct spool_position *parked = count_unloaded(a, position);
    if (parked == NULL) {
        return -ENOMEM;
    }
    letter_put_park(a->activation.to_writer, parked, until);
    return 0;
}

/* errors: those that pass (no memory, no reader): the caller tries the message again later */
static int load_and_activate(struct activator *a, const struct spool_position *position)
{
    struct message *m;
    usec_t until;
    struct flow_queue *f = activator_queue(a, position, NULL);
    if (f == NULL) {
        return -ENOMEM;
    }
    if (activation_suspended(&a->activation, position, &until)) {
        return park(a, position, until);
    }
    if (!id_set_add(&a->held, position->id)) {
        return -ENOMEM;
    }
    int err = activation_stored(&a->activation, position, &m);
    if (err == 0) {
        count_active(a, f, m);
        return 0;
    }
    id_set_remove(&a->held, position->id);
    if (err == ERR_CORRUPT || err == ERR_MISSING) {
        return report_damage(a, position);
    }
    if (err == -ENOMEM || err == -EAGAIN || err == ERR_AGAIN) {
        return err;
    }
    /* The message's pages cannot be read. It is passed over, so that other mail can go on. */
    log_error("spool: cannot read a message: %s; it waits for the next start", err_str(err));
    return 0;
}

/* Of a message that its flow's scan has not come to. */
static int activate_out_of_turn(struct activator *a, const struct spool_position *position)
{
    struct flow_queue *f = flow_queues_find(&a->queues, position->flow);
    if (f != NULL) {
        flow_queue_forget_places(f);
    }
    return load_and_activate(a, position);
}

/* Reads the recipients that schedulers' pools have asked for; the spool reader is open. */
static void answer_reads(struct activator *a)
{
    while (a->read_count > 0) {
        struct read_request *request = a->reads[--a->read_count];
        activation_read(&a->activation, request);
        free(request);
    }
}

/* --- what to activate next -------------------------------------------------------------------- */

/* Nothing keeps mail from becoming active but want of places. */
static bool is_open(const struct activator *a)
{
    return clock_mono() >= a->pause_until &&
           (engine_gate(a->engine) & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) == 0;
}

bool activator_may_enter(struct activator *a, struct flow_queue *f)
{
    const struct rota_room room = activator_room(a);
    return is_open(a) && rota_may_enter(&a->rota, &f->turn, &room);
}

static void pause_import(struct activator *a, int err)
{
    log_error("spool: cannot read a message: %s; trying again in a second", err_str(err));
    a->pause_until = clock_mono() + USEC_PER_SEC;
}

/* How many messages of each flow the kernel is asked for. */
static uint32_t most_ahead(const struct activator *a)
{
    uint32_t flows = a->rota.waiting_flows > 0 ? a->rota.waiting_flows : 1;
    return AHEAD / flows > 2 ? AHEAD / flows : 2;
}

/* Asks the kernel for the pages of the flow's next messages, so that the disk reads many at a time.
 * from: the scan's place, behind which the next message is taken; until: where the scan ends */
static void read_ahead(struct activator *a, struct flow_queue *f, const struct spool_position *from,
                       uint64_t until)
{
    struct flow_cursors *c = flow_queue_cursors(f);
    const uint32_t most = most_ahead(a);
    if (c == NULL) {
        return; /* it is read all the same */
    }
    struct read_ahead *ahead = &c->ahead[from->class];
    if (ahead->count == 0 || ahead->last.time < from->time) {
        *ahead = (struct read_ahead){.last = *from};
    }
    if (ahead->count < most / 2) {
        ahead->count +=
            spool_prefetch(a->reader, &ahead->last, until, most - ahead->count, &ahead->last);
    }
    ahead->count -= ahead->count > 0;
}

/* The incoming message of the flow behind the place. ret_is_active: it need not be activated, as a sweep
 * was before. errors: as of known_places_next, -ENOMEM */
static int next_incoming(struct activator *a, struct flow_queue *f, struct spool_position *at,
                         bool *ret_is_active)
{
    struct flow_cursors *c = flow_queue_cursors(f);
    const uint32_t most = most_ahead(a);
    if (c == NULL) {
        return -ENOMEM;
    }
    if (most > KNOWN_PLACES) {
        read_ahead(a, f, at, UINT64_MAX);
    }
    return known_places_next(&c->known, a->reader, &a->held, most > KNOWN_PLACES ? 0 : most, at,
                             ret_is_active);
}

/* returns true when a message was taken from the incoming class */
static bool take_incoming(struct activator *a, struct flow_queue *f)
{
    struct spool_position next = {SPOOL_INCOMING, f->backlog.at, UINT64_MAX, f->backlog.flow};
    bool is_active;
    if (!backlog_is_readable(&f->backlog)) {
        return false;
    }
    int err = next_incoming(a, f, &next, &is_active);
    if (err == ERR_MISSING) {
        backlog_end(&f->backlog, a->engine);
        return false;
    }
    err = err == 0 && !is_active ? load_and_activate(a, &next) : err;
    if (err != 0) {
        pause_import(a, err);
        return false;
    }
    backlog_pass(&f->backlog, next.time);
    return true;
}

static void end_deferred(struct flow_queue *f, uint64_t next_due)
{
    f->next_due = next_due;
    f->has_deferred = false;
}

/* NULL: no memory for now */
static struct flow_cursors *cursors_of(struct activator *a, struct flow_queue *f)
{
    struct flow_cursors *c = flow_queue_cursors(f);
    if (c == NULL) {
        pause_import(a, -ENOMEM);
    }
    return c;
}

static bool take_deferred(struct activator *a, struct flow_queue *f, int *looks)
{
    struct spool_position next;
    struct flow_cursors *c = f->has_deferred ? cursors_of(a, f) : NULL;
    while (c != NULL && f->has_deferred) {
        c->deferred.flow = f->backlog.flow;
        const struct spool_position from = {SPOOL_DEFERRED, c->deferred.time, c->deferred.id,
                                            f->backlog.flow};
        read_ahead(a, f, &from, a->scan.until);
        int err = deferred_scan_next(&a->scan, &c->deferred, a->reader, clock_wall(), looks, &next);
        if (err == ERR_MISSING) {
            end_deferred(f, c->deferred.next_due);
        }
        if (err != 0) {
            return false;
        }
        bool is_held = id_set_has(&a->held, next.id);
        err = is_held ? 0 : load_and_activate(a, &next);
        if (err != 0) {
            pause_import(a, err);
            return false;
        }
        deferred_scan_pass(&c->deferred, &next);
        if (!is_held) {
            return true;
        }
    }
    return false;
}

/* --- held mail -------------------------------------------------------------------------------- */

bool activator_has_held(const struct activator *a)
{
    return a->next_held != UINT64_MAX && (uint64_t)clock_wall() >= a->next_held;
}

void activator_wake_held(struct activator *a, struct flow_queue *f, uint64_t time, uint64_t id)
{
    struct flow_cursors *c = f->cursors;
    f->next_held = time < f->next_held ? time : f->next_held;
    if (c != NULL && (time < c->held_time || (time == c->held_time && id <= c->held_id))) {
        /* The cursor must not be behind it. */
        c->held_time = time;
        c->held_id = id - 1;
    }
    if (!f->has_held && f->next_held < a->next_held) {
        set_next_held(a, f->next_held);
    }
}

/* Flows whose held mail may be due wait for their turn from now on. */
static void wake_flows(struct activator *a)
{
    const uint64_t now = (uint64_t)clock_wall();
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < a->queues.capacity; i++) {
        struct flow_queue *f = a->queues.by_number[i];
        if (f == NULL || f->has_held) {
            continue;
        }
        if (f->next_held <= now) {
            f->has_held = true;
            a->held_flows++;
            activator_refresh(a, f);
        } else {
            next = f->next_held < next ? f->next_held : next;
        }
    }
    set_next_held(a, next);
}

/* The next held message of the flow is due at that time. */
static void end_held(struct activator *a, struct flow_queue *f, uint64_t next)
{
    f->has_held = false;
    f->next_held = next;
    a->held_flows--;
    set_next_held(a, next < a->next_held ? next : a->next_held);
}

/* Activates the next held message whose time has come. An active one keeps its place in the class
 * until it settles; the cursor passes it, so that those behind it do not wait for it. If it is held
 * again then, activator_wake_held sets the cursor back. returns true when a message was taken */
static bool take_held(struct activator *a, struct flow_queue *f, int *looks)
{
    struct flow_cursors *c = f->has_held ? cursors_of(a, f) : NULL;
    while (c != NULL && f->has_held && --*looks >= 0) {
        const struct spool_position at = {SPOOL_HELD, c->held_time, c->held_id, f->backlog.flow};
        struct spool_position next;
        int err = spool_scan_flow(a->reader, &at, &next);
        if (err == ERR_MISSING || (err == 0 && next.time > (uint64_t)clock_wall())) {
            end_held(a, f, err == 0 ? next.time : UINT64_MAX);
            return false;
        }
        bool is_active = err == 0 && id_set_has(&a->held, next.id);
        if (err == 0 && !is_active) {
            err = load_and_activate(a, &next);
        }
        if (err != 0) {
            pause_import(a, err);
            return false;
        }
        c->held_time = next.time;
        c->held_id = next.id;
        if (!is_active) {
            return true;
        }
    }
    return false;
}

/* --- recalls ---------------------------------------------------------------------------------- */

void activator_call(struct activator *a, struct flow_queue *f, const struct spool_position *p)
{
    struct recall *r = recall_new(1, p->class == SPOOL_HELD ? a->resumed : NULL);
    if (r == NULL) {
        log_error("out of memory: a message comes at its turn, and not before");
        return;
    }
    r->at[r->count++] = *p;
    recall_line_add_first(&f->called, r);
    activator_refresh(a, f);
}

/* Activates the flow's next message that was called back. returns true when there is one */
static bool take_called(struct activator *a, struct flow_queue *f, int *looks)
{
    struct spool_position next;
    bool was_long = recall_line_is_long(&f->called);
    int err = recall_line_next(&f->called, a->reader, looks, &a->held, &a->missed, &next);
    bool is_there = err == 0;
    err = is_there ? activate_out_of_turn(a, &next) : err;
    if (is_there && err == 0) {
        recall_line_pass(&f->called);
    } else if (err != ERR_MISSING) {
        pause_import(a, err);
    }
    if (was_long && !recall_line_is_long(&f->called)) {
        sweeper_retry(&a->sweeper); /* it may bring mail of the flow again */
    }
    return is_there && err == 0;
}

/* --- sweeps ----------------------------------------------------------------------------------- */

/* Whether a message of the flow that a sweep has found may become active. */
static bool may_enter_swept(void *ctx, const struct spool_position *position)
{
    struct activator *a = ctx;
    struct flow_queue *f = activator_queue(a, position, NULL);
    return f != NULL && !recall_line_is_long(&f->called) && activator_may_enter(a, f);
}

/* Activates the next message that a sweep finds, before its time. returns true when there is one */
static bool take_swept(struct activator *a, int *looks)
{
    struct spool_position next;
    while (is_open(a) && *looks > 0) {
        const struct sweep_entrance entrance = {may_enter_swept, a};
        int err = sweeper_next(&a->sweeper, &a->activation, &entrance, looks, &next);
        if (err == ERR_AGAIN) {
            pause_import(a, err);
        }
        if (err != 0) {
            return false;
        }
        if (id_set_has(&a->held, next.id)) {
            continue; /* active: LETTER_ORDERS makes the schedulers apply the orders to it */
        }
        err = activate_out_of_turn(a, &next);
        if (err == 0) {
            return true;
        }
        /* It waits in its flow's line, and keeps no other flow's mail waiting. */
        activator_call(a, flow_queues_find(&a->queues, next.flow), &next);
        pause_import(a, err);
    }
    return false;
}

/* Whether sweeps have something to do. */
static bool has_swept(const struct activator *a, bool has_places)
{
    return sweeper_is_busy(&a->sweeper) && (has_places || !sweeper_is_waiting(&a->sweeper));
}

/* --- the scan --------------------------------------------------------------------------------- */

bool activator_is_scanning(const struct activator *a)
{
    return a->scan_at < a->queues.capacity;
}

/* Mail that waits for its turn is there to the second: its receiver would have nothing to do. */
static usec_t scan_span(const struct activator *a, const struct config *c)
{
    bool has_turns = a->last_turn > clock_wall() && c->queue_run_delay > USEC_PER_SEC;
    return has_turns ? USEC_PER_SEC : c->queue_run_delay;
}

static void start_scan(struct activator *a)
{
    const struct config *c = settings_of(a->engine)->config;
    usec_t now = clock_mono();
    deferred_scan_start(&a->scan, clock_wall(), now,
                        retry_longest(c->minimal_backoff_time, c->maximal_backoff_time));
    a->scan_at = 0;
    a->next_scan = now + scan_span(a, c);
    atomic_store_explicit(&a->engine->next_scan, a->next_scan, memory_order_relaxed);
}

/* Looks at the first deferred message of a flow. One that is due, and what takes more looks than are
 * left, is for the flow's turn. */
static void look_at_flow(struct activator *a, struct flow_queue *f, int *looks)
{
    struct deferred_place at = {.next_due = f->next_due};
    struct spool_position next;
    if (f->has_deferred ? !a->scan.is_checking : !deferred_scan_wants(&a->scan, &at)) {
        return;
    }
    --*looks;
    deferred_scan_enter(&a->scan, &at, f->backlog.flow);
    int err = deferred_scan_next(&a->scan, &at, a->reader, clock_wall(), looks, &next);
    struct flow_cursors *c = err == ERR_MISSING ? NULL : flow_queue_cursors(f);
    f->next_due = err == ERR_MISSING ? at.next_due : 0;
    f->has_deferred = c != NULL;
    if (c != NULL) {
        c->deferred = at;
        c->ahead[SPOOL_DEFERRED] = (struct read_ahead){.count = 0};
    }
    activator_refresh(a, f);
}

static void look_for_deferred(struct activator *a, int *looks)
{
    while (a->scan_at<a->queues.capacity && * looks> 0) {
        struct flow_queue *f = a->queues.by_number[a->scan_at++];
        if (f != NULL && f->turn.party != NULL) {
            look_at_flow(a, f, looks);
        }
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

/* scheduler-semantics 8.1: try the scan whose turn it is, then the other; alternate while there is
 * room; with a full active queue new mail goes first. */
static bool take_queued(struct activator *a, struct flow_queue *f, int *looks)
{
    f->prefers_deferred = f->prefers_deferred && f->fulls == a->fulls;
    bool took_deferred = f->prefers_deferred && take_deferred(a, f, looks);
    bool took_incoming = !took_deferred && is_open(a) && take_incoming(a, f);
    if (!took_deferred && !took_incoming && is_open(a)) {
        took_deferred = take_deferred(a, f, looks);
    }
    if (took_deferred || took_incoming) {
        f->prefers_deferred = took_incoming;
        f->fulls = a->fulls;
    }
    return took_deferred || took_incoming;
}

static bool take_woken(struct activator *a, struct flow_queue *f, int *looks)
{
    f->prefers_called = !f->prefers_called;
    bool took = f->prefers_called && take_called(a, f, looks);
    took = took || (is_open(a) && take_held(a, f, looks));
    return took || (is_open(a) && !f->prefers_called && take_called(a, f, looks));
}

/* Activates a message of the flow. Mail that was held or called back takes turns with the two queues:
 * neither waits until the other side is empty. */
static bool take_of(struct activator *a, struct flow_queue *f, int *looks)
{
    f->prefers_woken = !f->prefers_woken;
    bool took = f->prefers_woken && take_woken(a, f, looks);
    took = took || (is_open(a) && take_queued(a, f, looks));
    took = took || (is_open(a) && !f->prefers_woken && take_woken(a, f, looks));
    activator_refresh(a, f);
    return took;
}

/* Activates a message of the flow whose turn it is. */
static bool take_turn(struct activator *a, int *looks)
{
    while (*looks > 0 && is_open(a)) {
        const struct rota_room room = activator_room(a);
        struct rota_flow *turn = rota_next(&a->rota, &room);
        if (turn == NULL) {
            return false;
        }
        --*looks; /* flows that turn out to have no mail are not for nothing either */
        if (take_of(a, flow_queue_of(turn), looks)) {
            ++*looks;
            rota_pass(&a->rota, turn);
            return true;
        }
    }
    return false;
}

/* Activates a message. Swept mail takes turns with the flows, as there may be millions of messages on
 * either side: neither waits until the other side is empty. */
static bool take_next(struct activator *a, int *looks)
{
    const struct rota_room room = activator_room(a);
    if (!has_swept(a, rota_has_room(&room)) && rota_next(&a->rota, &room) == NULL) {
        return false;
    }
    a->prefers_swept = !a->prefers_swept;
    if (a->prefers_swept && take_swept(a, looks)) {
        return true;
    }
    if (!is_open(a)) {
        return false; /* an error began a pause */
    }
    return take_turn(a, looks) || (!a->prefers_swept && take_swept(a, looks));
}

bool activator_has_work(const struct activator *a)
{
    const struct rota_room room = activator_room(a);
    return is_open(a) && (rota_next(&a->rota, &room) != NULL || a->scan_at < a->queues.capacity ||
                          activator_has_held(a) || has_swept(a, rota_has_room(&room)));
}

void activator_import(struct activator *a)
{
    int looks = LOOKS_PER_PASS;
    bool is_due = !a->knows_flows && clock_mono() >= a->know_flows_at;
    follow_settings(a);
    if (clock_mono() >= a->next_scan && !activator_is_scanning(a)) {
        start_scan(a);
    }
    if (!activator_has_work(a) && a->read_count == 0 && !is_due) {
        return;
    }
    if (spool_reader_begin(a->reader) != 0) {
        a->pause_until = clock_mono() + 100 * USEC_PER_MSEC; /* being reopened, or no memory */
        return;
    }
    if (is_due) {
        know_flows(a);
    }
    answer_reads(a);
    if (is_open(a) && activator_has_held(a)) {
        wake_flows(a);
    }
    if (is_open(a)) {
        look_for_deferred(a, &looks);
    }
    for (int i = 0; i < ACTIVATIONS_PER_PASS && is_open(a) && take_next(a, &looks); i++) {
    }
    const struct rota_room room = activator_room(a);
    a->fulls = (uint16_t)(a->fulls + !rota_has_room(&room));
    spool_reader_end(a->reader);
}
