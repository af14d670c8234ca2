/* The thread and its letters; which message becomes active next is activator_take.c.
 *
 * Who owns what: a message belongs to the activator from the letter that brings it until its parts
 * are in the schedulers' mailboxes; from then on its account is the spool writer's. The set `held`
 * is the activator's alone. It also has active messages of the incoming class: a scan may see the
 * commit that defers such a message before the letter that says that it has settled. */
#include "engine/activator/activator.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/id_set.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/activator/activation.h"
#include "engine/activator/activator_state.h"
#include "engine/activator/flow_names.h"
#include "engine/activator/recall.h"
#include "engine/activator/review.h"
#include "engine/activator/sweep.h"
#include "engine/config/config.h"
#include "engine/post/backlog.h"
#include "engine/post/in_core.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int activator_new(struct engine *engine, struct activator **ret)
{
    struct activator *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->engine = engine;
    list_init(&a->messages);
    list_init(&a->lingering);
    rota_init(&a->rota);
    a->scan_at = UINT32_MAX; /* no scan has begun */
    a->next_held = UINT64_MAX;
    atomic_store_explicit(&engine->next_held, 0, memory_order_relaxed); /* until flows are known */
    deferred_scan_init(&a->scan, spool_store_clock(engine->store), clock_wall());
    review_init(&a->review, engine);
    sweeper_init(&a->sweeper);
    a->activation.names = flow_names_new();
    a->resumed = recall_account_new();
    int err =
        a->activation.names == NULL || a->resumed == NULL ? -ENOMEM : post_init(&a->post, 1 << 16);
    if (err == 0) {
        err = spool_reader_new(engine->store, &a->reader);
    }
    a->activation.engine = engine;
    a->activation.reader = a->reader;
    if (err != 0) {
        activator_free(a);
        return err;
    }
    *ret = a;
    return 0;
}

struct mailbox *activator_box(struct activator *a)
{
    return &a->post.box;
}

struct flow_names *activator_flow_names(struct activator *a)
{
    return a->activation.names;
}

static void destroy_all(struct activator *a, struct list *messages)
{
    list_foreach_safe(m, messages, struct message, active)
    {
        in_core_abandon(a->engine, m);
        message_destroy(m);
    }
}

/* The message of a LETTER_SETTLED is still in a->messages. */
static void drop_activator_letter(const struct letter *letter)
{
    uint64_t number;
    if (letter->kind == LETTER_ARRIVED) {
        message_put(letter_take_arrived(letter));
    } else if (letter->kind == LETTER_READ) {
        free(letter_take_read(letter));
    } else if (letter->kind == LETTER_SWEEP) {
        sweep_free(letter_take_sweep(letter, &number));
    } else if (letter->kind == LETTER_RECALL) {
        recall_free(letter_take_recall(letter));
    } else if (letter->kind == LETTER_KEPT) {
        message_put(letter_take_kept(letter));
    }
}

void activator_free(struct activator *a)
{
    if (a == NULL) {
        return;
    }
    struct letter letter;
    while (post_take_left(&a->post, &letter)) {
        drop_activator_letter(&letter);
    }
    destroy_all(a, &a->messages);
    destroy_all(a, &a->lingering);
    post_fini(&a->post);
    spool_reader_free(a->reader);
    flow_names_free(a->activation.names);
    for (uint32_t i = 0; i < a->read_count; i++) {
        free(a->reads[i]);
    }
    free(a->reads);
    flow_queues_fini(&a->queues);
    rota_fini(&a->rota);
    sweeper_fini(&a->sweeper);
    recall_account_put(a->resumed);
    id_set_fini(&a->missed);
    id_set_fini(&a->held);
    free(a);
}

/* Returns a message to the writer: it is read from the spool later, in its turn or in portions. */
static void give_back(struct activator *a, struct message *m)
{
    struct flow_queue *f = flow_queues_find(&a->queues, m->position.flow);
    if (f != NULL) {
        backlog_return(&f->backlog, a->engine, m->position.time);
    }
    letter_put_returned(a->activation.to_writer, m);
}

static void take_arrival(struct activator *a, struct message *m)
{
    const struct spool_position position = m->position;
    struct flow_queue *f = activator_queue(a, &position, &m->envelope);
    if (f == NULL) {
        give_back(a, m);
        return;
    }
    if (backlog_has_passed(&f->backlog, position.time) || id_set_has(&a->held, m->envelope.id)) {
        /* A scan or a sweep activated it before this letter came; LETTER_SETTLED comes behind. */
        message_put(m);
        return;
    }
    if (!a->knows_flows || !backlog_is_empty(&f->backlog) || !activator_may_enter(a, f) ||
        m->envelope.recipient_count > activation_limit(&a->activation) ||
        activator_activate_fresh(a, f, m) != 0) {
        give_back(a, m);
        return;
    }
    backlog_pass(&f->backlog, position.time);
}

/* The tables have a new message of the flow. */
static void take_queued(struct activator *a, uint32_t flow, uint64_t place)
{
    const struct spool_position position = {SPOOL_INCOMING, place, 0, flow};
    struct flow_queue *f = activator_queue(a, &position, NULL);
    if (f != NULL && !backlog_has_passed(&f->backlog, place)) {
        backlog_grow(&f->backlog, a->engine);
        activator_refresh(a, f);
    }
}

/* A message waits for its turn: the scans come each second until the last of these has come. */
static void wake_for_turn(struct activator *a, usec_t turn)
{
    usec_t soon = clock_mono() + USEC_PER_SEC;
    a->last_turn = turn > a->last_turn ? turn : a->last_turn;
    a->next_scan = soon < a->next_scan ? soon : a->next_scan;
}

static void forget(struct activator *a, struct message *m)
{
    struct flow_queue *f = flow_queues_find(&a->queues, m->position.flow);
    list_remove(&m->active);
    id_set_remove(&a->held, m->envelope.id);
    assert(f != NULL); /* it had a place */
    f->next_due = 0;   /* it may have been deferred */
    if (m->held_until != 0) {
        review_note_held(&a->review, m);
        activator_wake_held(a, f, (uint64_t)m->held_until, m->envelope.id);
    }
    if (m->turn != 0) {
        wake_for_turn(a, m->turn);
    }
    bool is_called =
        recall_take_missed(&a->missed, m->envelope.id) || review_is_turn_old(&a->review, m);
    if (is_called && m->turn != 0) {
        const struct spool_position deferred = {SPOOL_DEFERRED, (uint64_t)m->turn, m->envelope.id,
                                                m->position.flow};
        activator_call(a, f, &deferred);
    }
    flow_names_give_back(a->activation.names, &m->flow);
    if (m->is_returned) {
        surplus_returned(a, m);
    }
    message_put(m);
}

/* The writer has settled m (NULL: one that was not loaded). A scheduler may still await the report
 * of its part: until it lets go, m is in `lingering`, lest the message becomes active twice. */
static void take_settled(struct activator *a, struct message *m, uint64_t id)
{
    assert(a->active > 0);
    if (m == NULL) {
        activator_set_active(a, a->active - 1);
        sweeper_retry(&a->sweeper);
        id_set_remove(&a->held, id);
        id_set_remove(&a->missed, id); /* it is held now, or damaged */
        review_note_unloaded_settled(&a->review);
        return;
    }
    activator_uncount(a, m);
    in_core_settled(m);
    surplus_settled(a, m);
    if (message_is_last(m)) {
        forget(a, m);
    } else {
        list_remove(&m->active);
        list_push_back(&a->lingering, &m->active);
    }
}

static void forget_lingering(struct activator *a)
{
    list_foreach_safe(m, &a->lingering, struct message, active)
    {
        if (message_is_last(m)) {
            forget(a, m);
        }
    }
}

/* A message of the flow is held until some time. */
static void take_held_letter(struct activator *a, uint32_t flow, uint64_t until)
{
    const struct spool_position position = {SPOOL_HELD, until, 0, flow};
    struct flow_queue *f = activator_queue(a, &position, NULL);
    if (f != NULL) {
        activator_wake_held(a, f, until, 1);
    }
}

/* The tables have deferred mail of the flow that no scan knows of. */
static void take_deferred_letter(struct activator *a, uint32_t flow)
{
    const struct spool_position position = {SPOOL_DEFERRED, 0, 0, flow};
    struct flow_queue *f = activator_queue(a, &position, NULL);
    if (f != NULL) {
        f->next_due = 0;
    }
}

/* Some of the messages, which are of one flow. Without memory they come at their turns. */
static void call_back(struct activator *a, const struct recall *all, uint32_t first, uint32_t count)
{
    struct flow_queue *f = activator_queue(a, &all->at[first], NULL);
    struct recall *r = f == NULL ? NULL : recall_new(count, all->account);
    if (r == NULL) {
        log_error("out of memory: messages come at their turns, and not before");
        return;
    }
    memcpy(r->at, &all->at[first], count * sizeof(r->at[0]));
    r->count = count;
    recall_line_add(&f->called, r);
    activator_refresh(a, f);
}

/* A scheduler calls messages back: each to the line of its flow. */
static void take_recall(struct activator *a, struct recall *r)
{
    for (uint32_t first = 0, end; first < r->count; first = end) {
        for (end = first + 1; end < r->count && r->at[end].flow == r->at[first].flow; end++) {
        }
        call_back(a, r, first, end - first);
    }
    recall_free(r);
}

static void add_read(struct activator *a, struct read_request *request)
{
    if (a->read_count == a->read_capacity) {
        uint32_t capacity = a->read_capacity == 0 ? 64 : a->read_capacity * 2;
        struct read_request **grown = realloc(a->reads, capacity * sizeof(*grown));
        if (grown == NULL) {
            log_error("out of memory: recipients of a message wait for the next start");
            free(request);
            return;
        }
        a->reads = grown;
        a->read_capacity = capacity;
    }
    a->reads[a->read_count++] = request;
}

/* The schedulers must get the letter behind the mail submitted by the earlier orders, from here. */
static void pass_on_orders(struct activator *a)
{
    for (uint32_t i = 0; i < a->engine->sched_count; i++) {
        letter_put_orders(&a->activation.to_scheds[i]);
    }
}

static void take_activator_letter(struct activator *a, const struct letter *letter) ON_ROLE(a->post)
{
    uint64_t number;
    struct message *m;
    switch (letter->kind) {
    case LETTER_ARRIVED:
        take_arrival(a, letter_take_arrived(letter));
        break;
    case LETTER_QUEUED: {
        uint32_t flow = letter_take_queued(letter, &number);
        take_queued(a, flow, number);
        break;
    }
    case LETTER_SETTLED:
        m = letter_take_settled(letter, &number);
        take_settled(a, m, number);
        break;
    case LETTER_READ:
        add_read(a, letter_take_read(letter));
        break;
    case LETTER_HELD: {
        uint32_t flow = letter_take_held(letter, &number);
        take_held_letter(a, flow, number);
        break;
    }
    case LETTER_DEFERRED:
        take_deferred_letter(a, letter_take_deferred(letter));
        break;
    case LETTER_SWEEP: {
        struct sweep *s = letter_take_sweep(letter, &number);
        review_take_sweep(&a->review, s, number);
        sweeper_add(&a->sweeper, s);
        break;
    }
    case LETTER_RECALL:
        take_recall(a, letter_take_recall(letter));
        break;
    case LETTER_KEPT:
        surplus_kept(a, letter_take_kept(letter));
        break;
    case LETTER_ORDERS_CHANGED:
        pass_on_orders(a);
        break;
    default:
        assert(false && "unknown letter to the activator");
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static void nap(struct activator *a, bool is_flushed) ON_ROLE(a->post)
{
    /* A scan under way that waits for room needs no deadline: a letter comes when there is room. */
    usec_t deadline = activator_is_scanning(a) ? USEC_NEVER : a->next_scan;
    if (a->next_held != UINT64_MAX && !activator_has_held(a)) {
        /* At most a minute, as the wall clock may be set while this thread sleeps. */
        usec_t wait = (usec_t)a->next_held - clock_wall();
        wait = wait > 60 * USEC_PER_SEC ? 60 * USEC_PER_SEC : wait;
        deadline = clock_mono() + wait < deadline ? clock_mono() + wait : deadline;
    }
    if (!a->knows_flows && a->know_flows_at < deadline) {
        deadline = a->know_flows_at;
    }
    if (a->pause_until > clock_mono() && a->pause_until < deadline) {
        deadline = a->pause_until;
    }
    deadline = surplus_wake_at(a) < deadline ? surplus_wake_at(a) : deadline;
    if (!list_is_empty(&a->lingering) || a->read_count > 0) {
        deadline = clock_mono() + 20 * USEC_PER_MSEC;
    }
    if (!is_flushed) {
        deadline = clock_mono() + USEC_PER_MSEC;
    }
    bool may_sleep = post_nap_prepare(&a->post);
    if (may_sleep && !activator_has_work(a)) {
        post_nap_sleep(&a->post, deadline);
    }
    post_nap_finish(&a->post);
}

static void note_since(_Atomic int64_t *since, bool is_so)
{
    if (is_so != (atomic_load_explicit(since, memory_order_relaxed) != 0)) {
        atomic_store_explicit(since, is_so ? clock_wall() : 0, memory_order_relaxed);
    }
}

/* Publishes since when limits are reached, for reports of why mail does not become active. */
static void note_full(struct activator *a)
{
    struct engine *e = a->engine;
    const struct config *c = settings_of(e)->config;
    uint64_t recipients = in_core_count(e);
    const struct rota_room room = activator_room(a);
    note_since(&e->full_of_messages, !rota_has_room(&room) && rota_next(&a->rota, &room) == NULL);
    note_since(&e->full_of_recipients, recipients >= (uint64_t)c->message_recipient_limit);
}

static void run_activator(void *arg)
{
    enum { LETTERS_PER_PASS = 4096 };
    struct activator *a = arg;
    review_start(&a->review, &a->sweeper);
    post_assert_owner(&a->post);
    while (!post_must_end(&a->post)) {
        struct letter letter;
        for (int i = 0; i < LETTERS_PER_PASS && post_take(&a->post, &letter); i++) {
            take_activator_letter(a, &letter);
        }
        forget_lingering(a);
        review_begin(&a->review, &a->sweeper);
        activator_import(a);
        surplus_ask(a);
        if (!recall_account_is_open(a->resumed)) {
            review_end(&a->review, &a->sweeper, &a->messages, &a->lingering);
        }
        note_full(a);
        bool is_flushed = post_flush(&a->post);
        rcu_pass();
        nap(a, is_flushed);
    }
}

int activator_start(struct activator *a)
{
    struct engine *e = a->engine;
    int err = post_open(&a->post, 1 + e->sched_count + e->signer_count);
    if (err != 0) {
        return err;
    }
    a->activation.to_writer = post_write_to(&a->post, e->boxes.writer);
    a->activation.to_scheds = post_write_to_each(&a->post, e->boxes.scheds, e->sched_count);
    a->activation.to_signers = post_write_to_each(&a->post, e->boxes.signers, e->signer_count);
    return post_start(&a->post, "activator", run_activator, a);
}

void activator_stop(struct activator *a)
{
    post_stop(&a->post);
}
