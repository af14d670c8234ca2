/* The public calls of the core: what a shell says, in the order in which the nouns must hear it,
 * and the pull loop. Holds no rule of its own. */
#include "sched/sched.h"

#include "sched/batch.h"
#include "sched/candidate.h"
#include "sched/division.h"
#include "sched/gate.h"
#include "sched/parking.h"
#include "sched/place/handover.h"
#include "sched/place/host_queue.h"
#include "sched/place/placement.h"
#include "sched/place/shed.h"
#include "sched/preempt.h"
#include "sched/reconfigure.h"
#include "sched/selection.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct sched *sched_new(const struct sched_config *config, const struct sched_host *host,
                        void (*release_hosts)(void *ctx, void *hosts), usec_t now)
{
    struct sched *s = host->alloc(host->ctx, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    memset(s, 0, sizeof(*s));
    s->host = *host;
    s->release_hosts = release_hosts;
    s->now = now;
    reconfigure_set(s, config);
    s->rcpt_unused = config->recipient_limit;
    s->shared.pool_unused = config->recipient_limit;
    flow_init_lists(s);
    job_init_unread(s);
    host_queue_init(s);
    site_init_all(s);
    source_init(s);
    list_init(&s->destinations);
    list_init(&s->pending);
    list_init(&s->unreachable);
    list_init(&s->displaced);
    list_init(&s->displaced_waiting);
    list_init(&s->lingering);
    list_init(&s->touched_lanes);
    list_init(&s->touched_sets);
    list_init(&s->sets_in_excess);
    list_init(&s->destinations_in_excess);
    purse_init_all(s);
    list_init(&s->starved_lanes);
    list_init(&s->exhausted);
    list_init(&s->free_connections);
    list_init(&s->idle_connections);
    list_init(&s->open_connections);
    list_init(&s->idle_apart);
    list_init(&s->open_apart);
    heap_init(&s->apart_timers, host->alloc, host->release, host->ctx);
    s->random = s->hash_seed = config->hash_seed;
    s->spare_reason = (struct reason){
        .references = 1,
        .text = {"4.3.0", "delivery temporarily suspended: out of memory for the reason"}};
    heap_init(&s->timers, host->alloc, host->release, host->ctx);
    if (destdb_init(s) != 0 || flow_init_all(s) != 0 || table_init(&s->by_name, &s->host) != 0 ||
        table_init(&s->by_id, &s->host) != 0 || table_init(&s->sites, &s->host) != 0 ||
        table_init(&s->by_list, &s->host) != 0 ||
        connection_grow(s, (uint32_t)config->process_limit) != 0 ||
        (config->feedback_debug && debug_init(s) != 0) || change_init(s) != 0) {
        sched_free(s);
        return NULL;
    }
    return s;
}

static void free_job(struct sched *s, struct job *j)
{
    list_foreach_safe(p, &j->peers, struct peer, link)
    {
        struct sched_entry *e;
        while ((e = entry_queue_pop(&p->waiting)) != NULL) {
            if (flows_take_turns(s)) {
                turn_count_waiting(s, p, -1);
            }
            entry_free(s, e);
        }
        p->entries = 0;
        peer_remove(s, p);
    }
    j->level = JOB_UNLINKED;
    job_free(s, j);
}

void sched_free(struct sched *s)
{
    if (s == NULL) {
        return;
    }
    assert(s->shared.entries_in_flight == 0);
    transport_enter(s, s->now);
    struct sched_action ignored;
    while (action_take(s, &ignored)) {
        transport_enter(s, s->now);
    }
    uint64_t cursor = 0;
    struct table_node *node;
    while (s->by_id.slots != NULL && (node = table_next(&s->by_id, &cursor)) != NULL) {
        struct job *j = container_of(node, struct job, node);
        if (job_is_linked(j)) {
            candidate_withdraw(s, j);
            parking_remove(s, j);
        }
        free_job(s, j);
    }
    list_foreach_safe(d, &s->destinations, struct sched_destination, all)
    {
        destination_free(s, d);
    }
    site_free_all(s);
    while (action_take(s, &ignored)) { /* of lanes that the shell knows */
    }
    assert(s->held_hosts == NULL);
    batch_fini(s);
    purse_fini_all(s);
    source_tried_fini(s);
    source_fini(s);
    destdb_fini(s);
    connection_fini_all(s);
    debug_fini(s);
    change_fini(s);
    heap_fini(&s->timers);
    heap_fini(&s->apart_timers);
    table_fini(&s->by_name);
    table_fini(&s->by_id);
    table_fini(&s->sites);
    table_fini(&s->by_list);
    flow_fini_all(s);
    s->host.retire(s->host.ctx, s);
}

uint32_t sched_read_limit(const struct sched *s)
{
    int64_t limit = s->config.message_recipient_limit - (int64_t)s->shared.recipients_in_core;
    if (limit < s->config.message_recipient_minimum) {
        limit = s->config.message_recipient_minimum;
    }
    return limit > BATCH_LIMIT ? BATCH_LIMIT : (uint32_t)limit;
}

int sched_submit(struct sched *s, const struct sched_message *m, usec_t now)
{
    transport_enter(s, now);
    assert(job_find(s, m->id) == NULL);
    assert(m->recipient_count > 0 || !m->more);
    if (table_reserve(&s->by_id) != 0) {
        return -ENOMEM;
    }
    struct job *j = job_new(s, m);
    if (j == NULL) {
        return -ENOMEM;
    }
    /* Readers must not see it before it is known to stay: added last. */
    if (batch_add(s, j, m) != 0) {
        purse_own(s, j, NULL);
        job_leave_flow(s, j);
        s->host.release(s->host.ctx, j);
        return -ENOMEM;
    }
    s->resume_job = NULL;
    table_insert(&s->by_id, &j->node);
    shared_add(&s->shared.jobs, 1);
    return 0;
}

int sched_submit_more(struct sched *s, const struct sched_message *m, usec_t now)
{
    transport_enter(s, now);
    struct job *j = job_find(s, m->id);
    assert(j != NULL && j->is_reading && j->action.kind == SCHED_NONE);
    assert(m->recipient_count > 0 || !m->more);
    int err = batch_add(s, j, m);
    if (err != 0) {
        return err;
    }
    if (s->resume_job != j) {
        s->resume_job = NULL;
    }
    return 0;
}

/* Looking at jobs in vain costs a step for each of them, so that is left out when no destination
 * has both work and room (7.1, without its quirk of negative room). */
static bool may_select(struct sched *s)
{
    bool has_slot = connection_has_slot(s);
    int open = s->with_work[OPEN_NOW] + s->with_work[OPEN_SLOT] + s->useful_hosts;
    if (!has_slot && flows_take_turns(s) && open > 0 && flow_is_any_live(s) && !s->hold) {
        return transport_rate_allows(s); /* who lacks a slot is found by looking */
    }
    if (s->hold) {
        return false;
    }
    if ((!has_slot && s->with_work[OPEN_NOW] == 0) || (open == 0 && !s->config.unasked_selection)) {
        if (flows_take_turns(s)) {
            handover_run(s);
        }
        transport_rate_cancel(s);
        return false;
    }
    return transport_rate_allows(s);
}

static bool select_one(struct sched *s)
{
    struct sched_entry *e = NULL;
    enum selection found;
    s->selection_runs++;
    if (s->config.scheduler == SCHED_BY_TURNS) {
        found = selection_by_turns(s, &e);
    } else if (flows_take_turns(s)) {
        found = selection_in_turn(s, &e);
    } else {
        s->flow.passed_without_slot |= !connection_has_slot(s);
        found = selection_run(s, &s->flow, &e);
    }
    switch (found) {
    case SELECTION_CLAIMED: /* not outside of sched/selection.c */
    case SELECTION_NONE:
        s->rate = RATE_FREE;
        return false;
    case SELECTION_READS:
    case SELECTION_ASKS:
        return true;
    case SELECTION_ENTRY:
    default:
        break;
    }
    s->rate = RATE_BUSY;
    placement_place(s, e, s->needs_connection);
    return true;
}

/* What waits for loans, and what must leave memory for want of them. */
static void settle_loans(struct sched *s)
{
    if (!list_is_empty(&s->touched_sets) || !list_is_empty(&s->owners_to_shed) || s->must_shed) {
        shed_run(s);
    }
    if (!list_is_empty(&s->touched_owners)) {
        purse_settle_all(s); /* what it lets go the lanes are wanted for */
    }
    if (!list_is_empty(&s->touched_lanes)) {
        grant_settle_all(s);
    }
}

/* A selection that found nothing has held jobs, or used up those that were let go. */
static bool has_news_of_owners(struct sched *s)
{
    return s->owners.count > 0 &&
           (purse_retry(s) || !list_is_empty(&s->touched_owners) ||
            !list_is_empty(&s->owners_to_shed) || !list_is_empty(&s->touched_lanes) ||
            !list_is_empty(&s->touched_sets) || s->must_shed);
}

/* What drains takes nothing more, and its lane wants less. */
static bool has_given_over(struct sched *s)
{
    bool has_given = flows_take_turns(s) && s->flows.has_given;
    s->flows.has_given = false;
    return has_given;
}

bool sched_pull(struct sched *s, struct sched_action *ret, usec_t now)
{
    transport_enter(s, now);
    do {
        settle_loans(s);
        if (action_take(s, ret)) {
            return true;
        }
        if (placement_take_displaced(s)) {
            return action_take(s, ret);
        }
        if (may_select(s) && select_one(s)) {
            return action_take(s, ret);
        }
    } while (has_given_over(s) || has_news_of_owners(s));
    *ret = (struct sched_action){.kind = SCHED_NONE};
    return false;
}

bool sched_pull_pending(struct sched *s, struct sched_action *ret, usec_t now)
{
    transport_enter(s, now);
    settle_loans(s);
    if (action_take(s, ret)) {
        return true;
    }
    if (placement_take_displaced(s)) {
        return action_take(s, ret);
    }
    *ret = (struct sched_action){.kind = SCHED_NONE};
    return false;
}

bool sched_has_selected(const struct sched *s)
{
    return s->undelivered != NULL;
}

/* Of the connection that carries it; without one, of its destination. */
static struct party *party_of_entry(const struct sched *s, const struct sched_entry *e)
{
    if (e->connection != ENTRY_NO_CONNECTION) {
        return connection_at(s, e->connection)->party;
    }
    return entry_destination(e)->party;
}

/* At a site: that of the connection that carries it, or carried it last. NULL: it is gone. */
static struct site_lane *lane_of_entry(const struct sched *s, const struct sched_entry *e,
                                       const struct party *from)
{
    if (e->connection != ENTRY_NO_CONNECTION) {
        return lane_at_site(connection_at(s, e->connection)->lane);
    }
    return lane_find(from->site, e->source);
}

static void pin_party(struct party *p)
{
    shared_party_of(p)->is_pinned = true;
}

/* The connection that an entry was reported on may be all that it was there for. */
static void unpin_party(struct sched *s, struct party *p)
{
    struct shared_party *q = shared_party_of(p);
    q->is_pinned = false;
    party_reconsider(s, p);
    site_settle_party(s, p);
}

static void teach_destination(struct sched *s, struct sched_destination *d,
                              const struct sched_outcome *o)
{
    switch (o->feedback) {
    case SCHED_POSITIVE:
        destination_succeed(s, d);
        break;
    case SCHED_NEGATIVE:
        destination_fail(s, d, o->reason);
        break;
    case SCHED_SLOWER:
        destination_slow(s, d, o->reason);
        break;
    case SCHED_NEUTRAL:
    default:
        break;
    }
}

static void teach_lane(struct sched *s, struct site_lane *l, const struct sched_outcome *o)
{
    switch (o->feedback) {
    case SCHED_POSITIVE:
        lane_succeed(s, l);
        break;
    case SCHED_NEGATIVE:
        lane_fail(s, l, o->reason);
        break;
    case SCHED_SLOWER:
        lane_slow(s, l, o->reason);
        break;
    case SCHED_NEUTRAL:
    default:
        break;
    }
}

/* The set that selection looks at, and what stands beside it among the members: when nothing else waits for it, it
 * goes from there. */
static void expect_end(const struct sched_destination *d, const struct party *from)
{
    const struct lane_set *set = shared_party_of(from)->set;
    __builtin_prefetch(set, 1);
    __builtin_prefetch(set->counts, 1);
    if (d->waiting == 0) {
        __builtin_prefetch(d->in_party.prev, 1);
        __builtin_prefetch(d->in_party.next, 1);
        __builtin_prefetch(shared_party_of(from)->members.next, 1);
    }
}

/* Feedback is about the lane of its last connection. An entry that is in flight still on a
 * connection that its destination had before it came to a site teaches nothing. */
static void learn_feedback(struct sched *s, const struct sched_entry *e,
                           const struct sched_outcome *o, struct party *from, struct site_lane *l)
{
    struct sched_destination *d = entry_destination(e);
    if (from->site == NULL) {
        if (d->party == &d->own) {
            teach_destination(s, d, o);
        }
        return;
    }
    if (l != NULL) {
        teach_lane(s, l, o);
    }
}

/* Its server, unless the connection's host is none of the destination's any more. */
static void set_aside(struct sched *s, struct sched_entry *e, const struct sched_outcome *o)
{
    struct sched_destination *d = entry_destination(e);
    struct party *from = party_of_entry(s, e);
    bool is_own = from->site == NULL;
    if (!is_own) {
        pin_party(from);
    }
    if (o->server_tried) {
        e->tried |= server_mask(d->party, connection_at(s, e->connection)->host);
    }
    if (o->source_tried) {
        source_tried_add(s, e, e->source);
    }
    connection_report(s, e, o, connection_at(s, e->connection)->lane->window);
    placement_displace(s, e);
    destination_reconsider(s, d);
    if (!is_own) {
        unpin_party(s, from);
    }
}

static void count_report(struct sched_destination *d, const struct sched_outcome *o)
{
    if (o->throttled) {
        return;
    }
    if (o->has_deferred || o->feedback == SCHED_NEGATIVE || o->feedback == SCHED_SLOWER) {
        shared_add(&d->deferred, 1);
    } else {
        shared_add(&d->delivered, 1);
    }
}

void sched_report(struct sched *s, const struct sched_outcome *o, usec_t now)
{
    transport_enter(s, now);
    struct sched_entry *e = o->entry;
    if (e->state == ENTRY_DISPLACED) {
        placement_withdraw(s, e);
    }
    assert(e->state == ENTRY_BUSY && e->place.kind == SCHED_NONE);
    struct sched_destination *d = entry_destination(e);
    struct party *from = party_of_entry(s, e);
    bool is_own = from->site == NULL;
    struct site_lane *l = is_own ? NULL : lane_of_entry(s, e, from);
    if (!is_own) {
        expect_end(d, from);
    }
    int window = l == NULL ? d->lane.window : l->lane.window;
    s->resume_job = NULL;
    if (o->again) {
        assert(o->feedback == SCHED_NEUTRAL && e->connection != ENTRY_NO_CONNECTION);
        set_aside(s, e, o);
        gate_reconsider(s);
        return;
    }
    s->rate = RATE_FREE;
    shared_add(&s->shared.reports, 1);
    assert(!o->throttled || o->feedback == SCHED_NEUTRAL || o->feedback == SCHED_SLOWER);
    count_report(d, o);
    if (!is_own) {
        pin_party(from);
    }
    learn_feedback(s, e, o, from, l);
    if (e->connection != ENTRY_NO_CONNECTION) {
        connection_report(s, e, o, window);
    }
    if (o->throttled) {
        entry_return(s, e);
    } else {
        entry_complete(s, e);
    }
    if (!is_own) {
        unpin_party(s, from); /* of its own it may have gone with its destination */
    }
    gate_reconsider(s);
}

void sched_resolved(struct sched *s, const struct sched_hosts_result *r, usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    destination_resolved(s, r->destination, r);
}

void sched_connection_closed(struct sched *s, uint32_t connection, usec_t now)
{
    transport_enter(s, now);
    connection_lose(s, connection);
    gate_reconsider(s);
}

usec_t sched_wake_at(const struct sched *s)
{
    return transport_wake_at(s);
}

void sched_flush(struct sched *s, usec_t now)
{
    transport_enter(s, now);
    destdb_flush(s);
    list_foreach_safe(d, &s->destinations, struct sched_destination, all)
    {
        if (destination_is_dead(d)) {
            destination_revive(s, d);
            destination_settle(s, d);
        }
    }
    list_foreach_safe(site, &s->all_sites, struct site, all)
    {
        (void)lane_revive_all(s, site); /* whether any was dead */
        site_settle(s, site);
    }
}

void sched_flush_hosts(struct sched *s, usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    destdb_flush(s);
}

/* By name; those that were named with recipient limit 1 may have a nexthop in common, which no
 * table leads to, also when the limit is another one by now. */
bool sched_revive(struct sched *s, struct slice destination, usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    bool was_dead = false;
    for (uint32_t pool = 0; pool < s->pool_most; pool++) {
        struct sched_destination *found = destination_find(s, destination, (uint16_t)pool);
        was_dead |= found != NULL && destination_retry(s, found);
    }
    if (s->recipient_destinations > 0) {
        list_foreach_safe(d, &s->destinations, struct sched_destination, all)
        {
            was_dead |= destination_is_called(d, destination) && destination_retry(s, d);
        }
    }
    return was_dead;
}

void sched_withdraw(struct sched *s, uint64_t message_id, struct slice destination,
                    const struct sched_reason *reason, usec_t now)
{
    transport_enter(s, now);
    struct job *j = job_find(s, message_id);
    if (j == NULL || j->waiting == 0) {
        return;
    }
    s->resume_job = NULL;
    preempt_invalidate(j->flow);
    struct reason *copy = reason_new(s, reason, false);
    job_withdraw(s, j, destination, copy);
    reason_put(s, copy);
}

bool sched_withdraw_untouched(struct sched *s, uint64_t message_id,
                              const struct sched_reason *reason, usec_t now)
{
    transport_enter(s, now);
    const struct job *j = job_find(s, message_id);
    if (j == NULL || j->selected_entries > 0 || j->has_more || j->is_reading ||
        j->rcpt_unread > 0 || (int64_t)j->waiting != j->read_entries) {
        return false;
    }
    sched_withdraw(s, message_id, SLICE(""), reason, now);
    return true;
}

void sched_set_hold(struct sched *s, bool hold, usec_t now)
{
    transport_enter(s, now);
    shared_set(&s->hold, hold);
    site_touch_all(s);
    purse_touch_all(s);
    list_foreach_safe(d, &s->destinations, struct sched_destination, all)
    {
        if (d->waiting > 0) {
            destination_want_hosts(s, d);
        }
    }
}

int sched_reconfigure(struct sched *s, const struct sched_config *config, usec_t now)
{
    transport_enter(s, now);
    struct entry_queue pieces;
    int err = connection_grow(s, (uint32_t)config->process_limit);
    if (err == 0 && config->feedback_debug) {
        err = debug_init(s);
    }
    if (err == 0) {
        err = division_stage(s, (uint32_t)config->destination_recipient_limit, &pieces);
    }
    if (err == 0) {
        reconfigure(s, config, &pieces);
    }
    if (!s->config.feedback_debug) {
        debug_fini(s);
    }
    return err;
}

void sched_resolve_again(struct sched *s, const struct sched_entry *e, usec_t now)
{
    struct sched_destination *d = entry_destination(e);
    transport_enter(s, now);
    d->hosts_expire = now;
    destination_refresh_hosts(s, d);
}

void sched_forget_hosts(struct sched *s, usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    list_foreach_safe(d, &s->destinations, struct sched_destination, all)
    {
        destination_forget_hosts(s, d);
    }
    site_forget_hosts(s);
}

uint32_t sched_in_flight(const struct sched *s)
{
    /* One may be selected whose DELIVER waits behind the CLOSE that makes room for it. */
    bool is_ahead = s->undelivered != NULL && !s->undelivered_is_back;
    return (uint32_t)s->shared.entries_in_flight - is_ahead;
}

uint64_t sched_entry_message_id(const struct sched_entry *e)
{
    return entry_job(e)->id;
}

void *sched_entry_handle(const struct sched_entry *e)
{
    return entry_job(e)->handle;
}

const uint32_t *sched_entry_indexes(const struct sched_entry *e, uint32_t *ret_count)
{
    *ret_count = e->count;
    return e->capacity > ENTRY_INLINE_INDEXES ? e->indexes : e->inline_indexes;
}

struct slice sched_destination_name(const struct sched_destination *d)
{
    return slice_make(d->name, d->name_len);
}

struct slice sched_destination_nexthop(const struct sched_destination *d)
{
    return slice_make(d->name + d->nexthop_at, d->name_len - d->nexthop_at);
}

bool sched_destination_is_known(const struct sched_destination *d)
{
    return d->delivered > 0;
}

uint16_t sched_destination_pool(const struct sched_destination *d)
{
    return d->pool;
}
