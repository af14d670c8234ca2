/* Owns: the struct sched of each of its transports, and the account of which worker holds which
 * connection. Shares: its mailbox (ring), in_flight (atomic counter), and what sched.h lets any
 * thread read under RCU. */
#include "engine/schedule/sched_thread.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/history.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "dns/hosts.h"
#include "engine/activator/activation.h"
#include "engine/activator/sweep.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/schedule/absent.h"
#include "engine/schedule/core.h"
#include "engine/schedule/core_sources.h"
#include "engine/schedule/dispatch.h"
#include "engine/schedule/domain_bound.h"
#include "engine/schedule/lanes.h"
#include "engine/schedule/receiver.h"
#include "engine/schedule/weights.h"
#include "engine/schedule/withdrawal.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "engine/worker/worker.h"
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS_PER_PASS = 2048, ACTIONS_PER_PASS = 1024, CHANGES_KEPT = 4096, PLACES_KEPT = 1024 };

static const usec_t reports_patience = 5 * USEC_PER_MSEC;

struct sched_thread {
    /* set at creation */
    struct engine *engine;
    uint32_t index;
    uint64_t seed; /* of numbers that cores are told */
    struct post post;
    struct core *cores; /* [core_room]; the owner's, but for those that main prepares */
    uint32_t core_room;
    struct history *changes;    /* written by the owner, read by anybody */
    struct history *places;     /* likewise */
    _Atomic int64_t held_since; /* wall; 0: it may select. Written by the owner */

    /* owner thread only */
    uint32_t core_count;                     /* cores that it has taken over; all before them too */
    struct outbox *to_writer, *to_activator; /* of the post */
    struct submission *retry;                /* LETTER_MORE that memory was too short for */
    struct dispatch dispatch;
    bool has_dozed;  /* the thread has dozed, and no letter came since */
    bool was_held;   /* engine_may_dispatch kept this pass from selecting entries */
    uint64_t serial; /* of the settings that its cores have */
    usec_t now;
};

/* --- creation --------------------------------------------------------------------------------- */

static void publish_entry_limit(struct sched_thread *t)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < t->core_count; i++) {
        most = t->cores[i].entry_limit > most ? t->cores[i].entry_limit : most;
    }
    /* Sequentially consistent: see engine_may_dispatch. */
    atomic_store(&t->engine->entry_limits[t->index], most);
}

/* Makes the cores of all transports of this thread that have none. errors: -ENOMEM; those that were
 * made stay, and are used by the transports that get their numbers */
static int prepare_cores(struct sched_thread *t, const struct settings *s, usec_t now)
{
    uint32_t step = t->engine->sched_count;
    int err = 0;
    for (uint32_t i = t->index; i < s->transport_count && err == 0; i += step) {
        struct core *c = &t->cores[i / step];
        err = c->sched != NULL
                  ? 0
                  : core_init(c, &(const struct core_start){t->engine, s, &t->post.box, i, now});
    }
    return err;
}

int sched_thread_prepare(struct sched_thread *t, const struct settings *settings)
{
    return prepare_cores(t, settings, 0);
}

/* Takes over cores that main has prepared, up to the one of this number. The letter, or the settings
 * of which it tells, come behind their preparation. */
static void take_cores(struct sched_thread *t, uint32_t count)
{
    if (count > t->core_count) {
        t->core_count = count;
        publish_entry_limit(t);
    }
}

int sched_thread_new(struct engine *engine, uint32_t index, struct sched_thread **ret)
{
    struct sched_thread *t = calloc(1, sizeof(*t));
    uint32_t room = (uint32_t)config_transport_room(engine->config);
    if (t == NULL) {
        return -ENOMEM;
    }
    t->engine = engine;
    t->index = index;
    t->seed = hash_random_seed();
    t->serial = engine->settings->serial;
    dispatch_init(&t->dispatch, engine);
    t->core_room = room / engine->sched_count + 1;
    t->cores = calloc(t->core_room, sizeof(*t->cores));
    t->changes = history_new(CHANGES_KEPT, sizeof(struct sched_thread_change));
    t->places = history_new(PLACES_KEPT, sizeof(struct receiver_place));
    bool has_all = t->cores != NULL && t->changes != NULL && t->places != NULL;
    int err = has_all ? post_init(&t->post, 1 << 16) : -ENOMEM;
    if (err == 0) {
        err = prepare_cores(t, engine->settings, clock_mono()); /* no thread runs yet */
    }
    while (err == 0 && t->cores[t->core_count].sched != NULL) {
        t->core_count++;
    }
    publish_entry_limit(t);
    if (err != 0) {
        sched_thread_free(t);
        return err;
    }
    *ret = t;
    return 0;
}

static void submission_free(struct submission *s)
{
    settings_put(s->settings);
    free(s);
}

static void drop_letter(const struct letter *letter)
{
    if (letter->kind == LETTER_SUBMIT) {
        struct submission *s = letter_take_submit(letter);
        message_put(s->message);
        submission_free(s);
    } else if (letter->kind == LETTER_MORE) {
        submission_free(letter_take_more(letter));
    } else if (letter->kind == LETTER_REPORT) {
        dispatch_free_delivery(letter_take_report(letter));
    } else if (letter->kind == LETTER_RESOLVED) {
        struct resolution *r = letter_take_resolved(letter);
        dns_hosts_put(r->hosts);
        free(r);
    } else if (letter->kind == LETTER_REVIVE) {
        sweep_free(letter_take_revive(letter));
    } else if (letter->kind == LETTER_GIVE_WAY) {
        message_put(letter_take_give_way(letter));
    }
}

void sched_thread_free(struct sched_thread *t)
{
    if (t == NULL) {
        return;
    }
    struct letter letter;
    while (post_take_left(&t->post, &letter)) {
        drop_letter(&letter);
    }
    post_fini(&t->post);
    for (uint32_t i = 0; t->cores != NULL && i < t->core_room; i++) {
        core_fini(&t->cores[i]);
    }
    dispatch_fini(&t->dispatch);
    free(t->cores);
    history_free(t->changes);
    history_free(t->places);
    while (t->retry != NULL) {
        struct submission *next = t->retry->next;
        submission_free(t->retry);
        t->retry = next;
    }
    free(t);
}

struct mailbox *sched_thread_box(struct sched_thread *t)
{
    return &t->post.box;
}

const struct sched *sched_thread_core(const struct sched_thread *t, uint32_t transport)
{
    assert(transport / t->engine->sched_count < t->core_room);
    return rcu_load(&t->cores[transport / t->engine->sched_count].sched);
}

const struct history *sched_thread_changes(const struct sched_thread *t)
{
    return t->changes;
}

const struct history *sched_thread_places(const struct sched_thread *t)
{
    return t->places;
}

usec_t sched_thread_held_since(const struct sched_thread *t)
{
    return atomic_load_explicit(&t->held_since, memory_order_relaxed);
}

uint32_t sched_thread_in_flight(const struct sched_thread *t)
{
    return atomic_load_explicit(&t->dispatch.in_flight, memory_order_relaxed);
}

static struct core *core_of(struct sched_thread *t, uint32_t transport)
{
    uint32_t place = transport / t->engine->sched_count;
    take_cores(t, place + 1); /* its mail may come before the settings do */
    return &t->cores[place];
}

/* --- letters in ------------------------------------------------------------------------------- */
static void act(struct sched_thread *t, struct core *c, const struct sched_action *a);

/* The core could not take the message: its recipients wait for the next queue run. */
static void defer_submission(struct sched_thread *t, struct submission *s, struct slice why)
{
    struct result *r = result_new(s->message, s->count);
    if (r != NULL) {
        r->transport = s->transport;
        r->done = clock_wall();
    }
    for (uint32_t i = 0; r != NULL && i < s->count; i++) {
        result_add(r, s->recipients[i].index, RESULT_DEFERRED, 0, "4.3.0", why);
    }
    result_send(t->to_writer, r, s->message, s->count, RESULT_WAS_LOADED);
    if (s->unread > 0) {
        result_send(t->to_writer, NULL, s->message, s->unread, 0);
    }
    message_put(s->message);
}

static struct sched_message core_message(const struct submission *s, struct sched_owner *owner)
{
    return (struct sched_message){
        .id = s->message->envelope.id,
        .handle = s->message,
        .recipients = s->recipients,
        .recipient_count = s->count,
        .unread_count = s->unread,
        .more = s->unread > 0,
        .owner = owner,
        .flow = s->message->flow,
    };
}

/* All recipients of a message have the same one. */
static bool has_pool(struct sched_thread *t, struct core *c, const struct submission *s)
{
    return s->count == 0 || core_sources_have(&c->sources, c->sched, t->engine, c->transport,
                                              s->recipients[0].pool, t->now);
}

static void take_submission(struct sched_thread *t, struct submission *s)
{
    struct core *c = core_of(t, s->transport);
    struct sched_owner *owner;
    bool has_owner = tenants_owner(&c->tenants, s->message->envelope.tenant, t->now, &owner);
    struct sched_message m = core_message(s, owner);
    m.weight = weights_of(t->engine, c->sched, s->message);
    if (!has_pool(t, c, s)) {
        defer_submission(t, s, SLICE("sources of its pool cannot be used yet"));
    } else if (!has_owner || sched_submit(c->sched, &m, t->now) != 0) {
        defer_submission(t, s, SLICE("out of memory"));
    } else {
        c->unread += m.more;
        withdrawal_apply_newer(t->engine, c->sched, s, t->now);
    }
    submission_free(s);
}

/* The answer to a SCHED_READ. */
static void take_more(struct sched_thread *t, struct submission *s)
{
    const struct sched_message m = core_message(s, NULL); /* its owner is known */
    struct core *c = core_of(t, s->transport);
    if (!has_pool(t, c, s) || sched_submit_more(c->sched, &m, t->now) != 0) {
        s->next = t->retry;
        t->retry = s;
        return;
    }
    c->unread -= !m.more;
    submission_free(s);
}

static void retry_more(struct sched_thread *t)
{
    struct submission *s = t->retry;
    t->retry = NULL;
    while (s != NULL) {
        struct submission *next = s->next;
        take_more(t, s);
        s = next;
    }
}

/* A delivery ends, or waits again: its lane has heard all of it. */
static void end_delivery(struct sched_thread *t, struct delivery *d)
{
    struct core *c = core_of(t, d->transport);
    struct sched_outcome outcome;
    tenants_heard(&c->tenants, d, t->now);
    domain_bound_heard(t->engine, c->sched, d, t->now);
    dispatch_outcome(d, &outcome);
    sched_report(c->sched, &outcome, t->now);
    dispatch_reported(&t->dispatch, d);
}

static void take_report(struct sched_thread *t, struct delivery *d)
{
    struct core *c = core_of(t, d->transport);
    lanes_heard(&c->lanes, d, t->now);
    if (d->is_refused) {
        struct limit_verdict verdict;
        lanes_refused(&c->lanes, d, t->now, &verdict);
        if (verdict.stands_apart) {
            apart_add(&c->apart, d->destination, t->now);
            sched_resolve_again(c->sched, d->entry, t->now);
        }
        dispatch_settle_refusal(&t->dispatch, d, &verdict, t->to_writer);
    }
    lanes_parted(&c->lanes, d, t->now);
    end_delivery(t, d);
}

static void take_resolution(struct sched_thread *t, struct resolution *r)
{
    if (r->generation < core_of(t, r->transport)->generation) {
        dispatch_resolve_again(&t->dispatch, r); /* a reload changed sources or TLS levels */
        return;
    }
    const struct settings *settings = settings_for(settings_of(t->engine), r->transport);
    core_sources_check_reach(settings, r);
    struct sched_server servers[SCHED_SERVERS_MAX];
    struct receiver receiver = {.site_len = 0};
    struct sched_hosts_result result = {
        .destination = r->destination,
        .resolution = r->outcome,
        .hosts = r->hosts,
        .servers = servers,
        .server_count = dispatch_list_servers(r, servers),
        .expires = r->expires,
        .reason = &r->reason,
    };
    if (r->outcome == SCHED_RESOLVED) {
        struct slice name = sched_destination_name(r->destination);
        bool stands_apart = apart_has(&core_of(t, r->transport)->apart, name, t->now);
        receiver_of(settings, r, stands_apart, t->seed, &receiver, servers);
        receiver_note(t->places, r, &receiver);
        result.site = slice_make(receiver.site, receiver.site_len);
        result.tls = receiver.tls;
        result.terms = receiver.has_terms ? &receiver.terms : NULL;
    }
    struct core *c = core_of(t, r->transport);
    c->asked -= r->is_first;
    sched_resolved(c->sched, &result, t->now); /* the hosts are the core's now, and may be gone */
    if (result.site.len > 0) {
        receiver_configure(c->sched, &receiver, t->now);
        core_hold_lanes(c, result.site, receiver.options == NULL ? NULL : receiver.options->site,
                        settings, t->now);
    }
    free(r);
}

/* A connection of a worker has ended. If the core has closed that slot meanwhile and opened it on
 * another worker, the letter is about the old connection and is ignored. (If it opened it on the
 * same worker, that worker's letters come in order, and the core ignores the loss of a busy slot.) */
static void take_loss(struct sched_thread *t, struct letter_lost lost)
{
    struct core *c = core_of(t, lost.transport);
    if (c->workers[lost.connection] == lost.worker) {
        lanes_closed(&c->lanes, lost.connection, t->now);
        sched_connection_closed(c->sched, lost.connection, t->now);
    }
}

static void take_settings(struct sched_thread *t, struct settings *s)
{
    for (uint32_t i = t->index; i < s->transport_count; i += t->engine->sched_count) {
        (void)core_of(t, i);
    }
    for (uint32_t i = 0; i < t->core_count && t->cores[i].transport < s->transport_count; i++) {
        struct core *c = &t->cores[i];
        /* What the core has decided by its old settings, such as turns of mail that leaves memory, goes out before
         * t->serial names the new ones. */
        for (struct sched_action decided; sched_pull_pending(c->sched, &decided, t->now);) {
            act(t, c, &decided);
        }
        if (core_reconfigure(c, s, t->now) != 0) {
            log_error("transport %s: out of memory: its limits stay as they were",
                      s->config->transports[c->transport].name);
        }
        core_sources_set(&c->sources, c->sched, t->engine, settings_of(t->engine), c->transport,
                         t->now);
        receiver_configure_all(c->sched, settings_for(s, c->transport), c->transport, t->now);
        core_follow_rules(c, settings_for(s, c->transport), t->now);
        tenants_set(&c->tenants, s, t->now);
        weights_set(t->engine, c->sched, s, t->now);
        if (c->generation != s->generations[c->transport]) {
            c->generation = s->generations[c->transport];
            sched_forget_hosts(c->sched, t->now);
        }
    }
    t->serial = s->serial;
    publish_entry_limit(t);
    dispatch_follow(&t->dispatch, s);
    mailbox_wake(t->engine->boxes.writer); /* the writer may lower the bound now */
    settings_put(s);
}

static void take_scheduler_letter(struct sched_thread *t, const struct letter *letter)
    ON_ROLE(t->post)
{
    switch (letter->kind) {
    case LETTER_SUBMIT:
        take_submission(t, letter_take_submit(letter));
        break;
    case LETTER_MORE:
        take_more(t, letter_take_more(letter));
        break;
    case LETTER_REPORT:
        take_report(t, letter_take_report(letter));
        break;
    case LETTER_SETTINGS:
        take_settings(t, letter_take_settings(letter));
        break;
    case LETTER_RESOLVED:
        take_resolution(t, letter_take_resolved(letter));
        break;
    case LETTER_LOST:
        take_loss(t, letter_take_lost(letter));
        break;
    case LETTER_REVIVE: {
        struct sweep *wanted = letter_take_revive(letter);
        for (uint32_t i = 0; i < t->core_count; i++) {
            withdrawal_revive(t->cores[i].sched, &wanted->selector, t->now);
        }
        sweep_free(wanted);
        break;
    }
    case LETTER_GIVE_WAY: {
        struct message *m = letter_take_give_way(letter);
        withdrawal_give_way(core_of(t, m->whole_at)->sched, t->to_activator, m, t->now);
        break;
    }
    case LETTER_ORDERS:
        for (uint32_t i = 0; i < t->core_count; i++) {
            struct core *c = &t->cores[i];
            withdrawal_apply(t->engine, c->sched, c->transport, t->now);
            core_sources_set(&c->sources, c->sched, t->engine, settings_of(t->engine), c->transport,
                             t->now);
        }
        break;
    default:
        assert(false && "unknown letter to a scheduler");
    }
}

/* --- actions out ------------------------------------------------------------------------------ */

static void deliver(struct sched_thread *t, struct core *c, const struct sched_action *a)
{
    uint64_t suspended = withdrawal_is_due(t->engine, &t->dispatch, a);
    enum domain_bound bound =
        suspended != 0 ? DOMAIN_FULL : domain_bound_take(&t->dispatch, c, a, t->now);
    struct delivery *d = bound == DOMAIN_FULL
                             ? dispatch_hold_back(&t->dispatch, c->transport, a)
                             : dispatch_deliver(&t->dispatch, c->transport, c->generation,
                                                c->workers, a, lanes_have_others(a));
    if (d != NULL) {
        d->is_counted = d->is_counted || bound == DOMAIN_COUNTED;
        lanes_deliver(&c->lanes, a, d, t->now);
        if (bound == DOMAIN_FULL) {
            take_report(t, d);
        }
        if (suspended != 0) {
            withdrawal_at_site(c->sched, suspended, a->destination, t->now);
        }
        return;
    }
    uint32_t recipients;
    (void)sched_entry_indexes(a->entry, &recipients);
    log_error("out of memory: a delivery is deferred");
    result_send(t->to_writer, NULL, sched_entry_handle(a->entry), recipients, RESULT_WAS_LOADED);
    const struct sched_reason why = {"4.3.0", "out of memory"};
    sched_report(c->sched, &(struct sched_outcome){a->entry, .has_deferred = true, .reason = &why},
                 t->now);
}

static void resolve(struct sched_thread *t, struct core *c, const struct sched_action *a)
{
    struct resolution *known = NULL;
    if (dispatch_resolve(&t->dispatch, c->transport, a, t->now, &known)) {
        if (known != NULL) {
            take_resolution(t, known);
            lanes_follow(&c->lanes, t->now); /* what is closed there, before anything is selected */
        } else {
            c->asked += !sched_destination_is_known(a->destination);
        }
        return;
    }
    struct sched_reason reason = {"4.3.0", "next hop cannot be resolved here"};
    struct sched_hosts_result soft = {.destination = a->destination,
                                      .resolution = SCHED_RESOLVE_SOFT,
                                      .expires = t->now,
                                      .reason = &reason};
    sched_resolved(c->sched, &soft, t->now);
}

/* Sends the writer a result for recipients that the core gives up without an attempt. */
static void give_up(struct sched_thread *t, struct core *c, const struct sched_action *a,
                    enum result_kind kind)
{
    struct result *r = result_new(a->handle, a->index_count);
    if (r == NULL) {
        result_send(t->to_writer, NULL, a->handle, a->index_count, RESULT_WAS_LOADED);
        return;
    }
    r->transport = c->transport;
    r->done = clock_wall();
    if (a->destination != NULL) {
        r->destination = result_keep(r, sched_destination_name(a->destination));
    }
    if (a->is_paced) {
        kind = RESULT_PARKED;
        r->park_until = absent_turn(settings_of(t->engine)->config, a->due - t->now, r->done);
        r->is_paced = true;
        r->paced_by = t->serial;
        absent_note(&c->absent, &c->lanes, a, r->message->position.flow, t->now, r->park_until);
    } else if (kind == RESULT_DEFERRED && core_sources_is_one(t->engine, a->destination)) {
        kind = RESULT_PARKED;
        r->park_until = r->done;
        r->is_paced = r->leaves_source = true;
        r->paced_by = t->serial;
    }
    for (uint32_t i = 0; i < a->index_count; i++) {
        result_add(r, a->indexes[i], kind, 0, a->reason->status, slice_of(a->reason->text));
    }
    letter_put_result(t->to_writer, r);
}

/* Asks the activator for more recipients of a message. A LETTER_MORE always answers, even when it
 * brings no recipients (activation_read). */
static void ask_for_more(struct sched_thread *t, struct core *c, const struct sched_action *a)
{
    struct read_request *r = malloc(sizeof(*r));
    if (r == NULL) {
        struct sched_message none = {.id = a->message_id, .handle = a->handle};
        log_error("out of memory: recipients of a message wait for the next start");
        if (sched_submit_more(c->sched, &none, t->now) != 0) {
            log_error("out of memory: a message stays open until then");
        } else {
            c->unread--;
        }
        return;
    }
    *r =
        (struct read_request){.message = a->handle, .transport = c->transport, .wanted = a->wanted};
    letter_put_read(t->to_activator, r);
}

static void act(struct sched_thread *t, struct core *c, const struct sched_action *a)
{
    switch (a->kind) {
    case SCHED_DELIVER:
        deliver(t, c, a);
        break;
    case SCHED_EXHAUSTED:
        end_delivery(t, dispatch_exhausted(&t->dispatch, a, t->to_writer));
        break;
    case SCHED_RESOLVE:
        resolve(t, c, a);
        break;
    case SCHED_CLOSE:
        dispatch_close(&t->dispatch, c->transport, c->workers, a);
        if (!a->end_is_awaited) {
            lanes_closed(&c->lanes, a->connection, t->now);
        }
        break;
    case SCHED_ASK:
        lanes_ask(&c->lanes, a, t->now);
        break;
    case SCHED_RETURN:
        lanes_return(a, t->now);
        break;
    case SCHED_LANE_GONE:
        lanes_gone(a, t->now);
        break;
    case SCHED_OWNER_ASKS:
        tenants_ask(&c->tenants, a, t->now);
        break;
    case SCHED_OWNER_RETURNS:
        tenants_return(&c->tenants, a);
        break;
    case SCHED_DEFER:
        if (a->is_withdrawn) {
            withdrawal_result(t->engine, t->to_writer, c->transport, a);
        } else {
            give_up(t, c, a, RESULT_DEFERRED);
        }
        break;
    case SCHED_BOUNCE:
        give_up(t, c, a, RESULT_FAILED);
        break;
    case SCHED_FINISHED:
        message_put(a->handle);
        break;
    case SCHED_READ:
        ask_for_more(t, c, a);
        break;
    case SCHED_NONE:
    default:
        assert(false && "unexpected action");
    }
}

/* What happened to windows since the last pass. */
static void note_changes(struct sched_thread *t, struct core *c)
{
    struct sched_thread_change note = {.transport = c->transport};
    usec_t offset = 0;
    while (sched_change_next(c->sched, &note.change)) {
        offset = offset == 0 ? clock_wall() - t->now : offset;
        note.time = note.change.time + offset;
        history_put(t->changes, &note);
    }
}

static bool may_dispatch(const struct sched_thread *t)
{
    return engine_may_dispatch(
        t->engine, atomic_load_explicit(&t->engine->entry_limits[t->index], memory_order_relaxed));
}

static void pull_actions(struct sched_thread *t, struct core *c)
{
    struct sched_action action;
    c->has_more = false;
    for (int i = 0;; i++) {
        bool may_select = may_dispatch(t);
        t->was_held = t->was_held || !may_select;
        if (!(may_select ? sched_pull(c->sched, &action, t->now)
                         : sched_pull_pending(c->sched, &action, t->now))) {
            return;
        }
        act(t, c, &action);
        /* The DELIVER of an entry that the core has selected already comes next, or soon. If the thread ended
         * before, nobody would report that entry; and a letter may say that its connection is gone. */
        if (i >= ACTIONS_PER_PASS && !sched_has_selected(c->sched)) {
            c->has_more = true;
            return;
        }
    }
}

static void pull(struct sched_thread *t, struct core *c) ON_ROLE(t->post)
{
    core_log_feedback(c);
    core_sources_tick(&c->sources, c->sched, t->engine, c->transport, t->now);
    lanes_follow(&c->lanes, t->now);
    if (c->is_gone) {
        withdrawal_give_back(c->sched, t->now);
    }
    absent_recall(&c->absent,
                  &(const struct absent_recall){c->sched, &c->lanes, t->to_activator, t->now});
    pull_actions(t, c);
    note_changes(t, c); /* pulling changes windows too, and the next pass may be far */
}

/* Publishes since when this thread may not select entries, for reports that say so. */
static void note_held(struct sched_thread *t)
{
    usec_t since = atomic_load_explicit(&t->held_since, memory_order_relaxed);
    if (t->was_held != (since != 0)) {
        atomic_store_explicit(&t->held_since, t->was_held ? clock_wall() : 0, memory_order_relaxed);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool reports_can_wait(const struct sched_thread *t)
{
    uint32_t in_flight = 0;
    for (uint32_t i = 0; i < t->core_count; i++) {
        if (!core_reports_can_wait(&t->cores[i])) {
            return false;
        }
        in_flight += sched_in_flight(t->cores[i].sched);
    }
    return in_flight > 0;
}

static void nap_scheduler(struct sched_thread *t, bool is_flushed) ON_ROLE(t->post)
{
    usec_t deadline = USEC_NEVER;
    for (uint32_t i = 0; i < t->core_count; i++) {
        usec_t wake = t->cores[i].has_more ? 0 : sched_wake_at(t->cores[i].sched);
        deadline = wake < deadline ? wake : deadline;
        wake = core_sources_wake_at(&t->cores[i].sources);
        deadline = wake < deadline ? wake : deadline;
        wake = absent_wake_at(&t->cores[i].absent);
        deadline = wake < deadline ? wake : deadline;
    }
    if (t->was_held && deadline != USEC_NEVER) {
        /* Work may be due that must not be selected: without a pause this loop would spin. */
        deadline = t->now + 100 * USEC_PER_MSEC;
    }
    if (!is_flushed || t->retry != NULL) {
        deadline = t->now + USEC_PER_MSEC;
    }
    if (deadline <= t->now) {
        return;
    }
    usec_t doze = t->has_dozed || !reports_can_wait(t) ? USEC_NEVER : t->now + reports_patience;
    t->has_dozed = t->has_dozed || doze < deadline;
    bool may_sleep = post_nap_prepare(&t->post);
    /* Who lets dispatch go on changes the count of undurable recipients or the gate, then wakes this
     * thread. may_dispatch must be asked after post_nap_prepare, or a change before it is missed. */
    bool may_go_on = t->was_held && may_dispatch(t);
    if (may_sleep && !may_go_on && doze < deadline) {
        post_nap_doze(&t->post, doze);
    } else if (may_sleep && !may_go_on) {
        post_nap_sleep(&t->post, deadline);
    }
    post_nap_finish(&t->post);
}

static void run_scheduler(void *arg)
{
    struct sched_thread *t = arg;
    post_assert_owner(&t->post);
    while (!post_must_end(&t->post)) {
        struct letter letter;
        t->now = clock_mono();
        for (int i = 0; i < LETTERS_PER_PASS && post_take(&t->post, &letter); i++) {
            take_scheduler_letter(t, &letter);
            t->has_dozed = false;
        }
        retry_more(t);
        t->was_held = false;
        for (uint32_t i = 0; i < t->core_count; i++) {
            pull(t, &t->cores[i]);
        }
        note_held(t);
        bool is_flushed = post_flush(&t->post);
        rcu_pass();
        nap_scheduler(t, is_flushed);
    }
    /* The workers have ended. The reports that they sent take their entries out of the cores. */
    struct letter letter;
    t->now = clock_mono();
    while (post_take(&t->post, &letter)) {
        take_scheduler_letter(t, &letter);
    }
    /* Other deliveries never came back: their worker had ended before it took them, or their report
     * was stuck behind a full ring. No other thread uses them any more. */
    struct delivery *d;
    while ((d = dispatch_take_left(&t->dispatch)) != NULL) {
        end_delivery(t, d);
    }
}

int sched_thread_start(struct sched_thread *t)
{
    struct engine *e = t->engine;
    int err = post_open(&t->post, 2 + e->worker_count);
    if (err != 0) {
        return err;
    }
    t->to_writer = post_write_to(&t->post, e->boxes.writer);
    t->to_activator = post_write_to(&t->post, e->boxes.activator);
    t->dispatch.to_workers = post_write_to_each(&t->post, e->boxes.workers, e->worker_count);
    return post_start(&t->post, "scheduler", run_scheduler, t);
}

void sched_thread_stop(struct sched_thread *t)
{
    post_stop(&t->post);
}
