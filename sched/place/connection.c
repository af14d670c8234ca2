/* Connection slots. Called by placement, the report path and the timers. A connection carries
 * several entries when the shell has measured that it can (sched_outcome.depth). */
#include "sched/place/connection.h"

#include "sched/parking.h"
#include "sched/place/handover.h"
#include "sched/place/placement.h"
#include "sched/place/site.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>

/* Keys of the sets of one party: by preference, by source, then the latest first. */
#define ORDER_BITS  48
#define SERIAL_BITS 42

static uint64_t order_key(const struct tree_node *n)
{
    return container_of(n, const struct connection, in_placement)->order;
}

int connection_grow(struct sched *s, uint32_t count)
{
    for (uint32_t i = 0; i * CONNECTION_BLOCK < count; i++) {
        if (s->connections[i] == NULL) {
            s->connections[i] =
                s->host.alloc(s->host.ctx, CONNECTION_BLOCK * sizeof(struct connection));
        }
        if (s->connections[i] == NULL) {
            return -ENOMEM;
        }
    }
    for (; s->connection_count < count; s->connection_count++) {
        struct connection *c = connection_at(s, s->connection_count);
        *c = (struct connection){.state = CONNECTION_FREE, .number = s->connection_count};
        list_init(&c->in_age);
        list_init(&c->in_lane);
        list_init(&c->in_host);
        list_init(&c->in_flow);
        list_init(&c->entries);
        tree_node_init(&c->in_placement);
        action_init(&c->close);
        list_push_back(&s->free_connections, &c->in_transport);
    }
    return 0;
}

void connection_fini_all(struct sched *s)
{
    for (uint32_t i = 0; i < CONNECTION_BLOCKS && s->connections[i] != NULL; i++) {
        s->host.release(s->host.ctx, s->connections[i]);
        s->connections[i] = NULL;
    }
}

bool connection_has_slot(const struct sched *s)
{
    return s->shared.connections - s->shared.idle < (uint64_t)s->config.process_limit;
}

int connection_depth(const struct sched *s, const struct connection *c)
{
    /* A rate delay follows each single entry. */
    bool is_single = (!c->is_apart && s->config.destination_rate_delay > 0) || c->is_single ||
                     s->config.transport_rate_delay > 0 || c->is_out_of_step ||
                     (c->host != NULL && c->host->is_out_of_step);
    int most = is_single ? 1 : s->config.pipeline_depth;
    return c->depth < most ? c->depth : most;
}

/* --- limits of its own ------------------------------------------------------------------------ */

static usec_t idle_limit(const struct sched *s, const struct connection *c)
{
    return c->is_apart ? c->idle_limit : s->config.connection_idle_limit;
}

int connection_reuse_limit(const struct sched *s, const struct connection *c)
{
    return c->is_apart ? c->reuse_limit : s->config.connection_reuse_limit;
}

/* The next time at which one with limits of its own may be over. */
static usec_t apart_until(const struct connection *c)
{
    usec_t until = USEC_NEVER;
    if (c->age_limit > 0 && list_is_linked(&c->in_age)) {
        until = c->opened + c->age_limit;
    }
    if (c->state == CONNECTION_IDLE && c->idle_since + c->idle_limit < until) {
        until = c->idle_since + c->idle_limit;
    }
    return until;
}

static void arm_apart(struct sched *s, struct connection *c)
{
    if (c->is_apart) {
        usec_t until = apart_until(c);
        heap_move(&s->apart_timers, &c->timer, until);
        s->none_expires = until < s->none_expires ? until : s->none_expires;
    }
}

/* Without memory for its timer, the config's limits are its. */
static void take_terms(struct sched *s, struct connection *c, const struct sched_terms *t)
{
    c->is_single = t != NULL && t->rate_delay > 0;
    c->is_apart = t != NULL && heap_insert(&s->apart_timers, &c->timer, USEC_NEVER) == 0;
    if (c->is_apart) {
        c->idle_limit = t->connection_idle_limit;
        c->age_limit = t->connection_age_limit;
        c->reuse_limit = t->connection_reuse_limit;
    }
}

static void enter_idle(struct sched *s, struct connection *c)
{
    c->idle_since = s->now;
    list_push_back(c->is_apart ? &s->idle_apart : &s->idle_connections, &c->in_transport);
    shared_add(&c->lane->idle_connections, 1);
    shared_add(&s->shared.idle, 1);
    arm_apart(s, c);
}

/* NULL: none is idle. */
static struct connection *longest_idle(const struct sched *s)
{
    const struct list *lists[] = {&s->idle_connections, &s->idle_apart};
    struct connection *longest = NULL;
    for (size_t i = 0; i < 2; i++) {
        struct connection *c =
            list_is_empty(lists[i]) ? NULL : list_first(lists[i], struct connection, in_transport);
        if (c != NULL && (longest == NULL || c->idle_since < longest->idle_since)) {
            longest = c;
        }
    }
    return longest;
}

/* --- where placement finds it ----------------------------------------------------------------- */

static bool takes_no_more(const struct connection *c)
{
    return c->is_closing || c->is_retired || c->is_draining;
}

bool connection_has_room(const struct sched *s, const struct connection *c)
{
    return c->state == CONNECTION_BUSY && !takes_no_more(c) && !c->lane->is_shut &&
           c->in_flight < connection_depth(s, c);
}

static struct tree *placement_tree(const struct connection *c)
{
    return c->state == CONNECTION_IDLE ? &c->party->idle : &c->party->roomy;
}

static void unfile(struct connection *c)
{
    if (tree_node_is_linked(&c->in_placement)) {
        tree_remove(placement_tree(c), &c->in_placement);
    }
}

/* Where placement finds it, if at all; its party is to be counted anew. */
static void refile(struct sched *s, struct connection *c)
{
    unfile(c);
    uint64_t serial = c->state == CONNECTION_IDLE ? ++s->serial : c->serial;
    if (c->state == CONNECTION_IDLE || connection_has_room(s, c)) {
        c->order = (uint64_t)c->preference << ORDER_BITS | (uint64_t)c->source << SERIAL_BITS |
                   ((UINT64_C(1) << SERIAL_BITS) - 1 - serial);
        struct tree *t = placement_tree(c);
        if (tree_is_empty(t)) {
            tree_init(t, order_key);
        }
        tree_insert(t, &c->in_placement);
    }
}

static void file(struct sched *s, struct connection *c)
{
    refile(s, c);
    party_recount(s, c->party);
}

/* What those of a host can carry has changed. */
static void file_busy(struct sched *s, struct destdb_host *h)
{
    list_foreach(c, &h->open, struct connection, in_host)
    {
        if (c->state == CONNECTION_BUSY) {
            file(s, c);
        }
    }
}

/* Those of a host may carry several entries again: jobs that were passed over for want of that are
 * looked at once more. */
static void widen_busy(struct sched *s, struct destdb_host *h)
{
    file_busy(s, h);
    list_foreach(c, &h->open, struct connection, in_host)
    {
        if (c->state == CONNECTION_BUSY) {
            party_reconsider(s, c->party);
        }
    }
}

struct connection *connection_first(const struct party *p, const struct tree *t, struct lane *lane,
                                    uint16_t group, uint64_t tried)
{
    uint64_t from = (uint64_t)group << ORDER_BITS;
    if (lane != NULL) {
        from |= (uint64_t)lane_at_site(lane)->source << SERIAL_BITS;
    }
    for (const struct tree_node *n = tree_find_from(t, from); n != NULL; n = tree_next(n)) {
        struct connection *c = container_of(n, struct connection, in_placement);
        if (c->preference != group || (lane != NULL && c->lane != lane)) {
            break;
        }
        if (tried == 0 || (server_mask(p, c->host) & tried) == 0) {
            return c;
        }
    }
    return NULL;
}

/* A loan begins and ends for all connections of a lane: their parties are counted anew once for those
 * that follow each other, and those that have no room either way are only looked at. */
void connection_refile_all(struct sched *s, const struct lane *lane)
{
    struct party *changed = NULL;
    list_foreach(c, &lane->open, struct connection, in_lane)
    {
        if (c->state != CONNECTION_BUSY) {
            continue;
        }
        if (changed != NULL && changed != c->party) {
            party_recount(s, changed);
        }
        changed = c->party;
        if (tree_node_is_linked(&c->in_placement) || connection_has_room(s, c)) {
            refile(s, c);
        }
    }
    if (changed != NULL) {
        party_recount(s, changed);
    }
}

static void leave_idle(struct sched *s, struct connection *c)
{
    assert(c->state == CONNECTION_IDLE);
    list_remove(&c->in_transport);
    unfile(c);
    shared_sub(&c->lane->idle_connections, 1);
    shared_sub(&s->shared.idle, 1);
}

/* Neither in flight nor idle any more. The slot most recently used is used first. */
static void set_free(struct sched *s, struct connection *c)
{
    struct party *p = c->party;
    struct lane *lane = c->lane;
    unfile(c);
    list_remove(&c->in_age);
    heap_remove(&s->apart_timers, &c->timer);
    c->is_apart = false;
    list_remove(&c->in_lane);
    shared_sub(&lane->connections, 1);
    party_count_connection(p, -1);
    shared_sub(&s->shared.connections, 1);
    if (c->host != NULL) {
        destdb_closed(s, c->host, c);
    }
    s->sources.at[c->source].uses--;
    c->host = NULL;
    c->party = NULL;
    c->lane = NULL;
    c->state = CONNECTION_FREE;
    list_push_front(&s->free_connections, &c->in_transport);
    party_recount(s, p);
    party_review_lane(s, p, lane);
}

static void end_idle(struct sched *s, struct connection *c)
{
    leave_idle(s, c);
    set_free(s, c);
    action_queue(s, &c->close, SCHED_CLOSE);
}

/* End an idle connection; its party may have been there for nothing else. */
static void give_way(struct sched *s, struct connection *c)
{
    struct party *other = c->party;
    end_idle(s, c);
    party_settle(s, other);
}

/* The one that has been idle longest; nothing is in flight on it, so no entry waits for it in
 * particular. */
static void make_connection_room(struct sched *s)
{
    struct connection *c = longest_idle(s);
    assert(c != NULL);
    give_way(s, c);
}

/* The same among those of a host that has as many connections as it may. */
static void make_room_at(struct sched *s, struct destdb_host *h)
{
    struct connection *longest = NULL;
    list_foreach(c, &h->open, struct connection, in_host)
    {
        if (c->state == CONNECTION_IDLE &&
            (longest == NULL || c->idle_since <= longest->idle_since)) {
            longest = c;
        }
    }
    assert(longest != NULL);
    give_way(s, longest);
}

/* The same among those of a lane that has as many as its ceiling lets it have. */
static void make_room_on(struct sched *s, struct lane *lane)
{
    struct connection *longest = NULL;
    list_foreach(c, &lane->open, struct connection, in_lane)
    {
        if (c->state == CONNECTION_IDLE &&
            (longest == NULL || c->idle_since <= longest->idle_since)) {
            longest = c;
        }
    }
    assert(longest != NULL);
    give_way(s, longest);
}

struct connection *connection_open(struct sched *s, const struct sched_destination *d,
                                   struct lane *lane, uint32_t server)
{
    struct party *p = d->party;
    struct destdb_host *h = p->server_count == 0 ? NULL : p->servers[server].host;
    int limit = s->config.host_concurrency_limit;
    if (h != NULL && limit > 0 && h->connections >= limit) {
        make_room_at(s, h);
    }
    int ceiling = p->site == NULL ? 0 : lane_at_site(lane)->most_connections;
    if (ceiling > 0 && lane->connections >= ceiling) {
        make_room_on(s, lane);
    }
    if (s->shared.connections >= (uint64_t)s->config.process_limit) {
        make_connection_room(s);
    }
    struct connection *c = list_first(&s->free_connections, struct connection, in_transport);
    list_remove(&c->in_transport);
    c->party = p;
    c->lane = lane;
    c->name = h == NULL ? 0 : p->servers[server].name;
    c->host = h;
    c->server = server;
    c->source = party_source(s, p, lane);
    s->sources.at[c->source].uses++;
    c->preference = h == NULL ? 0 : p->servers[server].preference;
    c->opened = s->now;
    c->serial = ++s->serial;
    c->depth = 1;
    c->carried = 0;
    c->is_new = true;
    c->is_live = c->is_out_of_step = false;
    c->is_closing = c->is_retired = c->is_draining = c->is_ending = false;
    take_terms(s, c, d->terms == NULL ? NULL : &d->terms->given);
    c->state = CONNECTION_IDLE;
    list_push_back(c->is_apart ? &s->open_apart : &s->open_connections, &c->in_age);
    list_push_front(&lane->open, &c->in_lane);
    shared_add(&lane->connections, 1);
    party_count_connection(p, 1);
    shared_add(&s->shared.connections, 1);
    if (h != NULL && destdb_back_in_step(s, h)) {
        widen_busy(s, h);
    }
    if (h != NULL) {
        destdb_opened(s, h, c);
    }
    enter_idle(s, c);
    return c;
}

static void become_busy(struct sched *s, struct connection *c)
{
    leave_idle(s, c);
    assert(c->lane->busy < c->lane->window);
    c->state = CONNECTION_BUSY;
    arm_apart(s, c);
    party_count_busy(c->party, c->lane, 1);
    if (c->host != NULL) {
        destdb_busy(s, c->host);
    }
}

/* It is the flow's that made it busy. */
static void hold(struct sched *s, struct connection *c, const struct sched_entry *e)
{
    if (flows_take_turns(s)) {
        handover_hold(s, entry_job(e)->flow, c);
    }
}

static bool is_connection_used_up(const struct sched *s, const struct connection *c)
{
    int limit = connection_reuse_limit(s, c), ceiling = c->lane->most_carried;
    return (limit > 0 && c->carried >= limit) || (ceiling > 0 && c->carried >= ceiling);
}

void connection_carry(struct sched *s, struct connection *c, struct sched_entry *e)
{
    c->is_new = c->carried == 0;
    if (c->state == CONNECTION_IDLE) {
        become_busy(s, c);
        hold(s, c, e);
    }
    c->in_flight++;
    shared_add(&c->lane->in_flight, 1);
    c->carried++;
    if (c->host != NULL) {
        shared_add(&c->host->in_flight, 1);
    }
    e->connection = c->number;
    e->source = (uint8_t)c->source;
    if (is_connection_used_up(s, c)) {
        c->is_retired = true;
    }
    file(s, c);
    party_review_lane(s, c->party, c->lane);
}

/* Some destinations may have waited for nothing but a slot. */
static void slot_opened(struct sched *s, bool had_slot)
{
    if (!had_slot) {
        parking_slot_opened(s);
        placement_slot_opened(s);
        grant_slot_opened(s);
    }
}

/* A dead destination keeps no connection, nor does one whose hosts are gone. */
static bool may_idle(const struct sched *s, const struct connection *c)
{
    return !c->is_closing && !c->is_retired && idle_limit(s, c) > 0 &&
           party_keeps_idle(c->party, c->lane);
}

/* The server counts it until it has seen its end: one that is opened before may be one too many.
 */
static bool await_end(struct sched *s, struct connection *c)
{
    if (s->config.awaits_end && !c->is_closing && !may_idle(s, c)) {
        c->is_closing = c->is_ending = true;
        action_queue(s, &c->close, SCHED_CLOSE);
    }
    return c->is_ending;
}

/* It carries nothing any more. */
static void end_busy(struct sched *s, struct connection *c)
{
    bool had_slot = connection_has_slot(s);
    struct lane *lane = c->lane;
    const struct party *p = c->party;
    unfile(c);
    if (c->is_yielding) {
        c->is_yielding = false;
        shared_party_of(p)->set->yielding--;
    }
    if (c->flow != NULL && p->site != NULL && may_idle(s, c)) {
        turn_vacate(s, c->flow, p);
    }
    if (c->flow != NULL) {
        handover_release(s, c);
    }
    party_count_busy(c->party, lane, -1);
    if (may_idle(s, c)) {
        c->state = CONNECTION_IDLE;
        c->is_draining = false;
        enter_idle(s, c);
        if (c->host != NULL) {
            destdb_idle(s, c->host);
        }
        file(s, c);
        party_review_lane(s, p, lane);
    } else {
        if (c->host != NULL) {
            destdb_idle(s, c->host);
        }
        set_free(s, c);
        if (!c->is_closing) {
            action_queue(s, &c->close, SCHED_CLOSE);
        }
    }
    slot_opened(s, had_slot);
}

/* What the report says of the connection and its host, its end aside. */
static void learn(struct sched *s, struct connection *c, const struct sched_outcome *o, int window)
{
    struct destdb_host *h = c->host;
    if (o->depth > 0) {
        c->depth = o->depth;
    }
    c->is_out_of_step |= o->is_out_of_step;
    /* What we failed at ourselves may have ended before the connection came as far. */
    bool reached_mail =
        !o->server_failed && (o->connection_open || o->depth > 0 || o->feedback != SCHED_NEUTRAL);
    bool is_first = reached_mail && !c->is_live;
    c->is_live |= reached_mail;
    if (h == NULL) {
        return;
    }
    destdb_note(s, h, o->server_notes);
    if (reached_mail) {
        destdb_succeeded(s, h, is_first);
    } else if (o->server_failed) {
        destdb_failed(s, h, window);
    }
    if (o->is_out_of_step && destdb_out_of_step(s, h)) {
        file_busy(s, h);
    }
}

void connection_report(struct sched *s, struct sched_entry *e, const struct sched_outcome *o,
                       int window)
{
    struct connection *c = connection_at(s, e->connection);
    assert(c->state == CONNECTION_BUSY && c->in_flight > 0);
    list_remove(&e->place.link);
    e->connection = ENTRY_NO_CONNECTION;
    c->in_flight--;
    shared_sub(&c->lane->in_flight, 1);
    c->lane->slowed -= c->lane->slowed > 0;
    if (c->party->site != NULL) {
        grant_room(s, lane_at_site(c->lane));
    }
    if (c->host != NULL) {
        shared_sub(&c->host->in_flight, 1);
    }
    c->is_closing |= !o->connection_open;
    c->is_ending |= s->config.awaits_end && o->connection_ends;
    learn(s, c, o, window);
    if (c->in_flight > 0 || await_end(s, c)) {
        file(s, c);
        party_review_lane(s, c->party, c->lane);
    } else {
        end_busy(s, c);
    }
}

void connection_lose(struct sched *s, uint32_t number)
{
    assert(number < s->connection_count);
    struct connection *c = connection_at(s, number);
    struct party *p = c->party;
    bool was_ending = c->is_ending;
    c->is_ending = false;
    if (c->state == CONNECTION_IDLE) {
        leave_idle(s, c);
        set_free(s, c);
    } else if (was_ending && c->in_flight == 0) {
        action_cancel(&c->close);
        end_busy(s, c);
        party_reconsider(s, p);
    } else {
        return;
    }
    party_settle(s, p);
}

void connection_close_idle(struct sched *s, struct party *p)
{
    while (!tree_is_empty(&p->idle)) {
        end_idle(s, container_of(p->idle.first, struct connection, in_placement));
    }
}

void connection_close_idle_of(struct sched *s, struct lane *lane)
{
    list_foreach_safe(c, &lane->open, struct connection, in_lane)
    {
        if (c->state == CONNECTION_IDLE) {
            give_way(s, c);
        }
    }
}

void connection_retire(struct sched *s, struct connection *c)
{
    c->is_retired = true;
    if (c->state == CONNECTION_IDLE) {
        end_idle(s, c);
    } else {
        file(s, c);
    }
}

void connection_set_preference(struct sched *s, struct connection *c, uint16_t preference)
{
    if (c->preference == preference) {
        return;
    }
    unfile(c);
    c->preference = preference;
    file(s, c);
}

void connection_drain(struct sched *s, struct lane *lane, int most)
{
    int excess = lane->busy - most;
    list_foreach(c, &lane->open, struct connection, in_lane)
    {
        excess -= c->state == CONNECTION_BUSY && takes_no_more(c);
    }
    for (struct list *at = lane->open.prev; at != &lane->open && excess > 0; at = at->prev) {
        struct connection *c = container_of(at, struct connection, in_lane);
        if (c->state == CONNECTION_BUSY && !takes_no_more(c)) {
            excess--;
            c->is_draining = true;
            file(s, c);
        }
    }
}

void connection_drain_one(struct sched *s, struct connection *c)
{
    c->is_draining = true;
    file(s, c);
}

/* Of those with the config's limits. */
static usec_t wake_common_at(const struct sched *s)
{
    usec_t at = USEC_NEVER;
    if (!list_is_empty(&s->idle_connections)) {
        at = list_first(&s->idle_connections, struct connection, in_transport)->idle_since +
             s->config.connection_idle_limit;
    }
    if (s->config.connection_age_limit > 0 && !list_is_empty(&s->open_connections)) {
        usec_t until = list_first(&s->open_connections, struct connection, in_age)->opened +
                       s->config.connection_age_limit;
        at = until < at ? until : at;
    }
    return at;
}

usec_t connection_wake_at(const struct sched *s)
{
    const struct heap_node *first = heap_min(&s->apart_timers);
    usec_t at = wake_common_at(s);
    return first != NULL && first->key < at ? first->key : at;
}

static bool is_idle_too_long(const struct sched *s)
{
    return !list_is_empty(&s->idle_connections) &&
           list_first(&s->idle_connections, struct connection, in_transport)->idle_since +
                   s->config.connection_idle_limit <=
               s->now;
}

/* It takes no further entry, and ends when it is idle. */
static void grow_old(struct sched *s, struct connection *c)
{
    struct party *p = c->party;
    list_remove(&c->in_age);
    arm_apart(s, c);
    connection_retire(s, c);
    party_settle(s, p);
}

static void expire_apart(struct sched *s)
{
    const struct heap_node *first;
    while ((first = heap_min(&s->apart_timers)) != NULL && first->key <= s->now) {
        struct connection *c = container_of(first, struct connection, timer);
        if (c->state == CONNECTION_IDLE && c->idle_since + c->idle_limit <= s->now) {
            give_way(s, c);
        } else {
            grow_old(s, c);
        }
    }
}

/* Those that become idle or open from now on have all of the limit before them; arm_apart knows of those
 * with limits of their own. */
static usec_t none_expires_before(const struct sched *s)
{
    const struct sched_config *c = &s->config;
    usec_t limit = c->connection_idle_limit;
    if (c->connection_age_limit > 0 && c->connection_age_limit < limit) {
        limit = c->connection_age_limit;
    }
    usec_t at = connection_wake_at(s);
    return at < s->now + limit ? at : s->now + limit;
}

void connection_expire(struct sched *s)
{
    while (is_idle_too_long(s)) {
        give_way(s, list_first(&s->idle_connections, struct connection, in_transport));
    }
    while (wake_common_at(s) <= s->now) {
        grow_old(s, list_first(&s->open_connections, struct connection, in_age));
    }
    expire_apart(s);
    s->none_expires = none_expires_before(s);
}

/* --- another config --------------------------------------------------------------------------- */

/* What may still be given an entry. */
static bool is_in_use(const struct connection *c)
{
    return c->state != CONNECTION_FREE && !c->is_closing && !c->is_retired;
}

static uint64_t count_in_use(const struct list *open)
{
    uint64_t count = 0;
    list_foreach(c, open, const struct connection, in_age)
    {
        count += is_in_use(c);
    }
    return count;
}

/* The excess of the transport: idle ones first, then the oldest. */
static void fit_process_limit(struct sched *s)
{
    uint64_t limit = (uint64_t)s->config.process_limit, in_use = 0;
    while (s->shared.connections > limit && longest_idle(s) != NULL) {
        make_connection_room(s);
    }
    struct list *lists[] = {&s->open_connections, &s->open_apart};
    for (size_t i = 0; i < 2; i++) {
        in_use += count_in_use(lists[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        list_foreach(c, lists[i], struct connection, in_age)
        {
            if (in_use <= limit) {
                break;
            }
            if (is_in_use(c)) {
                connection_retire(s, c);
                in_use--;
            }
        }
    }
}

void connection_fit_host(struct sched *s, struct destdb_host *h)
{
    int limit = s->config.host_concurrency_limit, in_use = 0;
    list_foreach(c, &h->open, struct connection, in_host)
    {
        in_use += is_in_use(c);
    }
    for (int state = CONNECTION_IDLE; limit > 0 && state <= CONNECTION_BUSY; state++) {
        list_foreach_safe(c, &h->open, struct connection, in_host)
        {
            if (in_use > limit && is_in_use(c) && (int)c->state == state) {
                connection_retire(s, c);
                in_use--;
            }
        }
    }
}

void connection_refit_all(struct sched *s)
{
    fit_process_limit(s);
    for (uint32_t i = 0; i < s->connection_count; i++) {
        struct connection *c = connection_at(s, i);
        if (is_in_use(c) && is_connection_used_up(s, c)) {
            connection_retire(s, c);
        } else if (c->state != CONNECTION_FREE) {
            file(s, c);
        }
    }
}
