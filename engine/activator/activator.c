/* Who owns what: a message belongs to the activator from the letter that brings it until its parts
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
#include "engine/activator/deferred_scan.h"
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
#include "engine/writer/retry.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACTIVATIONS_PER_PASS = 256,
    AHEAD = 512, /* messages whose pages are asked for before they are read: 16 MB at most */
};

/* How far the kernel was asked to read a queue ahead. */
struct ahead {
    struct spool_position last;
    uint32_t count; /* messages from the scan's place to `last` */
};

struct activator {
    /* set at creation */
    struct engine *engine;
    struct post post;
    struct spool_reader *reader;

    /* activator thread only */
    struct activation activation;
    struct read_request **reads; /* to be answered when the spool can be read */
    uint32_t read_count, read_capacity;
    struct list messages;  /* active ones, with the reference that LETTER_SETTLED returns */
    struct list lingering; /* settled, but a scheduler has not let go yet */
    struct id_set held;    /* ids that a deferred scan must pass over: active or lingering */
    uint32_t active;
    struct backlog backlog; /* of incoming mail */
    bool prefers_deferred;  /* scheduler-semantics 8.1: whose turn it is */
    bool prefers_woken;     /* it is the turn of held mail and sweeps, not of the queues */
    struct deferred_scan scan;
    struct ahead ahead[SPOOL_CLASS_COUNT];
    usec_t next_scan;              /* monotonic */
    usec_t last_turn;              /* wall: of the messages that wait for their turn, the latest */
    usec_t pause_until;            /* monotonic: the spool could not be read */
    struct spool_position held_at; /* last held message looked at: those before it are active */
    uint64_t next_held; /* wall: when the first one behind held_at is due; UINT64_MAX: none */
    struct sweeper sweeper;
    struct recaller recaller;
    struct review review;
};

int activator_new(struct engine *engine, struct activator **ret)
{
    struct activator *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->engine = engine;
    list_init(&a->messages);
    list_init(&a->lingering);
    backlog_init(&a->backlog, engine);
    deferred_scan_init(&a->scan, spool_store_clock(engine->store), clock_wall());
    a->held_at.class = SPOOL_HELD;
    review_init(&a->review, engine);
    sweeper_init(&a->sweeper); /* next_held is 0, so held mail of an earlier run is looked at */
    a->activation.names = flow_names_new();
    int err = a->activation.names == NULL ? -ENOMEM : post_init(&a->post, 1 << 16);
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
        struct message *m = letter_take_arrived(letter, &number);
        if (m != NULL) {
            message_put(m);
        }
    } else if (letter->kind == LETTER_READ) {
        free(letter_take_read(letter));
    } else if (letter->kind == LETTER_SWEEP) {
        sweep_free(letter_take_sweep(letter, &number));
    } else if (letter->kind == LETTER_RECALL) {
        recall_free(letter_take_recall(letter));
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
    sweeper_fini(&a->sweeper);
    recaller_fini(&a->recaller);
    id_set_fini(&a->held);
    free(a);
}

/* --- activation ------------------------------------------------------------------------------- */

static void set_active(struct activator *a, uint32_t active)
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

static void set_next_held(struct activator *a, uint64_t time)
{
    a->next_held = time;
    atomic_store_explicit(&a->engine->next_held, time, memory_order_relaxed);
}

static void count_active(struct activator *a, struct message *m)
{
    count_class(a, m, 1);
    review_note_active(&a->review, m);
    list_push_back(&a->messages, &m->active);
    set_active(a, a->active + 1);
}

/* errors: -ENOMEM, nothing happened: the message is still the caller's, and in the spool */
static int activate_fresh(struct activator *a, struct message *m)
{
    if (!id_set_add(&a->held, m->envelope.id)) {
        return -ENOMEM;
    }
    int err = activation_fresh(&a->activation, m);
    if (err != 0) {
        id_set_remove(&a->held, m->envelope.id);
        return err;
    }
    count_active(a, m);
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
    set_active(a, a->active + 1);
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
    if (activation_suspended(&a->activation, position, &until)) {
        return park(a, position, until);
    }
    if (!id_set_add(&a->held, position->id)) {
        return -ENOMEM;
    }
    int err = activation_stored(&a->activation, position, &m);
    if (err == 0) {
        count_active(a, m);
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

static bool has_room(const struct activator *a)
{
    return a->active < (uint32_t)settings_of(a->engine)->config->message_active_limit &&
           clock_mono() >= a->pause_until &&
           (engine_gate(a->engine) & (ENGINE_GATE_BROKEN | ENGINE_GATE_STOPPING)) == 0;
}

static void pause_import(struct activator *a, int err)
{
    log_error("spool: cannot read a message: %s; trying again in a second", err_str(err));
    a->pause_until = clock_mono() + USEC_PER_SEC;
}

/* Asks the kernel for the pages of the next messages, so that the disk reads many at a time.
 * from: the scan's place, behind which the next message is taken; until: where the scan ends */
static void read_ahead(struct activator *a, const struct spool_position *from, uint64_t until)
{
    struct ahead *ahead = &a->ahead[from->class];
    if (ahead->count == 0 || ahead->last.time < from->time) {
        *ahead = (struct ahead){.last = *from};
    }
    if (ahead->count < AHEAD / 2) {
        ahead->count += spool_prefetch(a->reader, (enum spool_class)from->class, &ahead->last,
                                       until, AHEAD - ahead->count, &ahead->last);
    }
    ahead->count -= ahead->count > 0;
}

/* returns true when a message was taken from the incoming class */
static bool take_incoming(struct activator *a)
{
    struct spool_position next;
    if (!backlog_is_readable(&a->backlog)) {
        return false;
    }
    read_ahead(a, &a->backlog.at, UINT64_MAX);
    int err = spool_scan(a->reader, SPOOL_INCOMING, &a->backlog.at, &next);
    if (err == ERR_MISSING) {
        backlog_end(&a->backlog);
        return false;
    }
    if (err != 0) {
        pause_import(a, err);
        return false;
    }
    /* A sweep may have activated this message already. */
    err = id_set_has(&a->held, next.id) ? 0 : load_and_activate(a, &next);
    if (err != 0) {
        pause_import(a, err);
        return false;
    }
    backlog_pass(&a->backlog, &next);
    return true;
}

static bool take_deferred(struct activator *a, int *looks)
{
    struct spool_position next;
    while (a->scan.is_running) {
        read_ahead(a, &a->scan.at, a->scan.until);
        if (deferred_scan_next(&a->scan, a->reader, clock_wall(), looks, &next) != 0) {
            return false;
        }
        bool is_held = id_set_has(&a->held, next.id);
        int err = is_held ? 0 : load_and_activate(a, &next);
        if (err != 0) {
            pause_import(a, err);
            return false;
        }
        deferred_scan_pass(&a->scan, &next);
        if (!is_held) {
            return true;
        }
    }
    return false;
}

/* Whether a held message may be due. */
static bool has_held(const struct activator *a)
{
    return a->next_held != UINT64_MAX && (uint64_t)clock_wall() >= a->next_held;
}

/* A message with this time is new in the held class: the cursor must not be behind it. */
static void wake_held(struct activator *a, uint64_t time)
{
    set_next_held(a, time < a->next_held ? time : a->next_held);
    if (time <= a->held_at.time) {
        a->held_at = (struct spool_position){.class = SPOOL_HELD, .time = time};
    }
}

/* Activates the next held message whose time has come. An active one keeps its place in the class
 * until it settles; the cursor passes it, so that those behind it do not wait for it. If it is held
 * again then, wake_held sets the cursor back. returns true when a message was taken */
static bool take_held(struct activator *a, int *looks)
{
    struct spool_position next;
    while (has_held(a) && has_room(a) && --*looks >= 0) {
        int err = spool_scan(a->reader, SPOOL_HELD, &a->held_at, &next);
        if (err == ERR_MISSING || (err == 0 && next.time > (uint64_t)clock_wall())) {
            set_next_held(a, err == 0 ? next.time : UINT64_MAX);
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
        a->held_at = next;
        if (!is_active) {
            return true;
        }
    }
    return false;
}

/* Activates the next message that a sweep finds, before its time. returns true when there is one */
static bool take_swept(struct activator *a, int *looks)
{
    struct spool_position next;
    while (has_room(a) && *looks > 0) {
        int err = sweeper_next(&a->sweeper, &a->activation, looks, &next);
        if (err == ERR_AGAIN) {
            pause_import(a, err);
        }
        if (err != 0) {
            return false;
        }
        if (id_set_has(&a->held, next.id)) {
            continue; /* active: LETTER_ORDERS makes the schedulers apply the orders to it */
        }
        err = load_and_activate(a, &next);
        if (err == 0) {
            return true;
        }
        sweeper_give_back(&a->sweeper, &next);
        pause_import(a, err);
    }
    return false;
}

/* Activates the next message that a scheduler calls back. returns true when there is one */
static bool take_recalled(struct activator *a, int *looks)
{
    struct spool_position next;
    if (!has_room(a)) {
        return false;
    }
    int err = recaller_next(&a->recaller, a->reader, looks, &a->held, &next);
    if (err == ERR_MISSING) {
        return false;
    }
    err = err == 0 ? load_and_activate(a, &next) : err;
    if (err != 0) {
        pause_import(a, err);
        return false;
    }
    recaller_pass(&a->recaller);
    return true;
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
    a->ahead[SPOOL_DEFERRED] = (struct ahead){0};
    a->next_scan = now + scan_span(a, c);
    atomic_store_explicit(&a->engine->next_scan, a->next_scan, memory_order_relaxed);
}

/* scheduler-semantics 8.1: try the scan whose turn it is, then the other; alternate while there is
 * room; with a full active queue new mail goes first. */
static bool take_queued(struct activator *a, int *looks)
{
    bool took_deferred = a->prefers_deferred && take_deferred(a, looks);
    bool took_incoming = !took_deferred && take_incoming(a);
    if (!took_deferred && !took_incoming) {
        took_deferred = take_deferred(a, looks);
    }
    if (took_deferred || took_incoming) {
        a->prefers_deferred = took_incoming;
    }
    return took_deferred || took_incoming;
}

static bool take_woken(struct activator *a, int *looks)
{
    return take_recalled(a, looks) || take_held(a, looks) || take_swept(a, looks);
}

/* Activates a message. Held, swept and recalled mail takes turns with the two queues, as there may be
 * millions of messages on either side: neither waits until the other side is empty. */
static bool take_next(struct activator *a, int *looks)
{
    a->prefers_woken = !a->prefers_woken;
    if (a->prefers_woken && take_woken(a, looks)) {
        return true;
    }
    if (!has_room(a)) {
        return false; /* an error began a pause */
    }
    return take_queued(a, looks) || (!a->prefers_woken && take_woken(a, looks));
}

static bool has_woken(const struct activator *a)
{
    return has_held(a) || sweeper_is_busy(&a->sweeper) || recaller_is_busy(&a->recaller);
}

static void import(struct activator *a) ON_ROLE(a->post)
{
    enum { LOOKS_PER_PASS = 500 }; /* bounds the records that may each need a read of the disk */
    int looks = LOOKS_PER_PASS;
    if (clock_mono() >= a->next_scan && !a->scan.is_running) {
        start_scan(a);
    }
    bool wants_more =
        has_room(a) && (backlog_is_readable(&a->backlog) || a->scan.is_running || has_woken(a));
    if (!wants_more && a->read_count == 0) {
        return;
    }
    if (spool_reader_begin(a->reader) != 0) {
        a->pause_until = clock_mono() + 100 * USEC_PER_MSEC; /* being reopened, or no memory */
        return;
    }
    answer_reads(a);
    for (int i = 0; i < ACTIVATIONS_PER_PASS && has_room(a) && take_next(a, &looks); i++) {
    }
    if (!has_room(a)) {
        a->prefers_deferred = false;
    }
    spool_reader_end(a->reader);
}

/* Returns a message to the writer: it is read from the spool later, in its turn or in portions. */
static void give_back(struct activator *a, struct message *m)
{
    backlog_return(&a->backlog, m->position.time);
    letter_put_returned(a->activation.to_writer, m);
}

static void take_arrival(struct activator *a, struct message *m, uint64_t sequence)
{
    if (backlog_has_passed(&a->backlog, sequence) ||
        (m != NULL && id_set_has(&a->held, m->envelope.id))) {
        /* A scan or a sweep activated it before this letter came; LETTER_SETTLED comes behind. */
        if (m != NULL) {
            message_put(m);
        }
        return;
    }
    if (m == NULL) {
        backlog_grow(&a->backlog);
        return;
    }
    struct spool_position position = m->position;
    if (!backlog_is_empty(&a->backlog) || !has_room(a) ||
        m->envelope.recipient_count > activation_limit(&a->activation) ||
        activate_fresh(a, m) != 0) {
        give_back(a, m);
        return;
    }
    backlog_pass(&a->backlog, &position);
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
    list_remove(&m->active);
    id_set_remove(&a->held, m->envelope.id);
    if (m->held_until != 0) {
        review_note_held(&a->review, m);
        wake_held(a, (uint64_t)m->held_until);
    }
    if (m->turn != 0) {
        wake_for_turn(a, m->turn);
    }
    recaller_settled(&a->recaller, m->envelope.id, m->turn, &a->engine->recalls);
    flow_names_give_back(a->activation.names, &m->flow);
    message_put(m);
}

/* The writer has settled m (NULL: one that was not loaded). A scheduler may still await the report
 * of its part: until it lets go, m is in `lingering`, lest the message becomes active twice. */
static void take_settled(struct activator *a, struct message *m, uint64_t id)
{
    assert(a->active > 0);
    set_active(a, a->active - 1);
    if (m == NULL) {
        id_set_remove(&a->held, id);
        recaller_settled(&a->recaller, id, 0, &a->engine->recalls);
        review_note_unloaded_settled(&a->review);
        return;
    }
    count_class(a, m, -1);
    in_core_settled(m);
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
        m = letter_take_arrived(letter, &number);
        take_arrival(a, m, number);
        break;
    case LETTER_SETTLED:
        m = letter_take_settled(letter, &number);
        take_settled(a, m, number);
        break;
    case LETTER_READ:
        add_read(a, letter_take_read(letter));
        break;
    case LETTER_HELD:
        wake_held(a, letter_take_held(letter));
        break;
    case LETTER_SWEEP: {
        struct sweep *s = letter_take_sweep(letter, &number);
        review_take_sweep(&a->review, s, number);
        sweeper_add(&a->sweeper, s);
        break;
    }
    case LETTER_RECALL:
        recaller_add(&a->recaller, letter_take_recall(letter));
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
    usec_t deadline = a->scan.is_running ? USEC_NEVER : a->next_scan;
    if (a->next_held != UINT64_MAX && !has_held(a)) {
        /* At most a minute, as the wall clock may be set while this thread sleeps. */
        usec_t wait = (usec_t)a->next_held - clock_wall();
        wait = wait > 60 * USEC_PER_SEC ? 60 * USEC_PER_SEC : wait;
        deadline = clock_mono() + wait < deadline ? clock_mono() + wait : deadline;
    }
    if (a->pause_until > clock_mono() && a->pause_until < deadline) {
        deadline = a->pause_until;
    }
    if (!list_is_empty(&a->lingering) || a->read_count > 0) {
        deadline = clock_mono() + 20 * USEC_PER_MSEC;
    }
    if (!is_flushed) {
        deadline = clock_mono() + USEC_PER_MSEC;
    }
    bool may_sleep = post_nap_prepare(&a->post);
    bool has_work =
        has_room(a) && (backlog_is_readable(&a->backlog) || a->scan.is_running || has_woken(a));
    if (may_sleep && !has_work) {
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
    note_since(&e->full_of_messages, a->active >= (uint32_t)c->message_active_limit);
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
        import(a);
        review_end(&a->review, &a->sweeper, &a->messages, &a->lingering);
        note_full(a);
        bool is_flushed = post_flush(&a->post);
        rcu_pass();
        nap(a, is_flushed);
    }
}

int activator_start(struct activator *a)
{
    struct engine *e = a->engine;
    int err = post_open(&a->post, 1 + e->sched_count);
    if (err != 0) {
        return err;
    }
    a->activation.to_writer = post_write_to(&a->post, e->boxes.writer);
    a->activation.to_scheds = post_write_to_each(&a->post, e->boxes.scheds, e->sched_count);
    return post_start(&a->post, "activator", run_activator, a);
}

void activator_stop(struct activator *a)
{
    post_stop(&a->post);
}
