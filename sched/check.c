/* Every invariant of the core, walked from the root (scheduler-semantics section 11 and the counts
 * of this implementation). Called by tests, the simulator and debug builds; changes nothing. */
#include "base/error.h"
#include "sched/candidate.h"
#include "sched/gate.h"
#include "sched/place/handover.h"
#include "sched/place/site_check.h"
#include "sched/recipient_pool.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <string.h>

struct tally {
    uint64_t destinations, of_recipients, dead, waiting, in_flight, connections, idle;
    uint64_t jobs, recipients, recipients_in_flight;
    int64_t slots;
    int with_work[OPEN_COUNT];
};

static int fault(struct sched_fault *ret, const char *text)
{
    size_t len = strnlen(text, sizeof(ret->text) - 1);
    memcpy(ret->text, text, len);
    ret->text[len] = '\0';
    return ERR_CORRUPT;
}

#define HOLD_TRUE(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return fault(ret, #condition);                                                         \
        }                                                                                          \
    } while (false)

static int check_window(const struct sched *s, const struct sched_destination *d,
                        struct sched_fault *ret)
{
    HOLD_TRUE(d->lane.window >= WINDOW_SUSPENDED);
    HOLD_TRUE(s->rule.limit == 0 || d->lane.window <= s->rule.limit);
    HOLD_TRUE(d->lane.window > 0 ? d->timer.key == terms_wake_at(s, d)
                                 : d->timer.key != USEC_NEVER);
    HOLD_TRUE((d->lane.window == WINDOW_DEAD) == (d->reason != NULL));
    HOLD_TRUE(d->lane.window != WINDOW_DEAD || list_is_empty(&d->todo));
    HOLD_TRUE(d->timer.position != 0);
    HOLD_TRUE(d->lane.feedback.success >= -0.5 && d->lane.feedback.fail_cohorts >= 0);
    HOLD_TRUE(!s->config.must_resolve || d->lacks_hosts == (d->hosts == NULL));
    HOLD_TRUE(d->resolve.kind == SCHED_NONE || d->is_resolving);
    HOLD_TRUE(!d->lacks_hosts || d->waiting == 0 || d->is_resolving || s->hold);
    HOLD_TRUE(d->party != &d->own || d->own.work == placement_openness(s, &d->own));
    HOLD_TRUE(!d->is_pinned && d->scratch == NULL);
    HOLD_TRUE((d->round != 0) == (s->config.scheduler == SCHED_BY_TURNS));
    return 0;
}

/* The sets that placement chooses from hold what they should, in their order. */
static int check_set(const struct tree *t, int count, struct sched_fault *ret)
{
    uint64_t last = 0;
    if (count == 0) {
        HOLD_TRUE(tree_is_empty(t));
        return 0;
    }
    for (const struct tree_node *n = t->first; n != NULL; n = tree_next(n)) {
        const struct connection *c = container_of(n, const struct connection, in_placement);
        HOLD_TRUE(c->order > last && c->order >> 48 == c->preference);
        last = c->order;
        count--;
    }
    HOLD_TRUE(count == 0);
    return 0;
}

/* Entries in flight that no server is left for, whether EXHAUSTED was pulled or not.
 *
 * d               only its own; NULL: all
 * ret_recipients  of theirs; may be NULL */
static int count_exhausted(const struct sched *s, const struct sched_destination *d,
                           uint64_t *ret_recipients)
{
    int count = 0;
    uint64_t recipients = 0;
    list_foreach(e, &s->exhausted, const struct sched_entry, place.link)
    {
        bool is_counted = d == NULL || entry_destination(e) == d;
        count += is_counted;
        recipients += is_counted ? e->count : 0;
    }
    list_foreach(p, &s->pending, const struct pending, link)
    {
        if (p->kind == SCHED_EXHAUSTED) {
            const struct sched_entry *e = container_of(p, const struct sched_entry, place);
            bool is_counted = d == NULL || entry_destination(e) == d;
            count += is_counted;
            recipients += is_counted ? e->count : 0;
        }
    }
    if (ret_recipients != NULL) {
        *ret_recipients = recipients;
    }
    return count;
}

/* Entries in flight on connections of sites. */
static int count_abroad(const struct sched *s, const struct sched_destination *d)
{
    int count = 0;
    /* One that never was at a site has none, and a walk over all connections for each destination
     * takes minutes where there are many of both. The totals would show a wrong mark. */
    for (uint32_t i = 0; d->was_at_site && i < s->connection_count; i++) {
        const struct connection *c = connection_at(s, i);
        if (c->state == CONNECTION_FREE || c->lane == &d->lane) {
            continue;
        }
        list_foreach(e, &c->entries, const struct sched_entry, place.link)
        {
            count += entry_destination(e) == d;
        }
        count += s->undelivered != NULL && s->undelivered->connection == i &&
                 entry_destination(s->undelivered) == d;
    }
    return count;
}

/* Its connections and all that is in flight for it. */
static int check_carried(const struct sched *s, const struct sched_destination *d, struct tally *t,
                         struct sched_fault *ret)
{
    int busy = 0, idle = 0, roomy = 0, in_flight = 0;
    uint64_t last = UINT64_MAX;
    list_foreach(c, &d->lane.open, const struct connection, in_lane)
    {
        HOLD_TRUE(c->lane == &d->lane && c->party == &d->own && c->serial < last);
        last = c->serial;
        busy += c->state == CONNECTION_BUSY;
        idle += c->state == CONNECTION_IDLE;
        roomy += connection_has_room(s, c);
        in_flight += c->in_flight;
    }
    list_foreach(e, &d->displaced, const struct sched_entry, place.link)
    {
        HOLD_TRUE(e->state == ENTRY_DISPLACED && e->connection == ENTRY_NO_CONNECTION);
        HOLD_TRUE(entry_destination(e) == d && e->place.kind == SCHED_NONE);
        t->recipients_in_flight += e->count;
        in_flight++;
    }
    in_flight += count_exhausted(s, d, NULL) + count_abroad(s, d);
    HOLD_TRUE(d->in_flight == in_flight && d->lane.busy == busy &&
              d->lane.idle_connections == idle);
    HOLD_TRUE(d->lane.in_flight <= in_flight);
    HOLD_TRUE(d->lane.connections == busy + idle);
    HOLD_TRUE(list_is_empty(&d->displaced) !=
              (list_is_linked(&d->in_displaced) && !d->is_lingering));
    /* A window that shrank is held to: the connections beyond it take nothing more. */
    HOLD_TRUE(d->lane.window <= 0 || roomy <= d->lane.window);
    HOLD_TRUE(s->config.pipeline_depth > 1 || roomy == 0);
    int err = check_set(&d->own.idle, idle, ret);
    return err == 0 ? check_set(&d->own.roomy, roomy, ret) : err;
}

static int check_servers(const struct sched *s, const struct sched_destination *d,
                         struct sched_fault *ret)
{
    uint16_t group = 0;
    bool can_try = server_group(s, &d->own, 0, &group);
    HOLD_TRUE(can_try == !d->own.is_unreachable);
    HOLD_TRUE(!can_try || group == d->own.group);
    bool has_room = d->own.server_count == 0;
    for (uint32_t i = 0; i < d->own.server_count; i++) {
        const struct server *server = &d->own.servers[i];
        HOLD_TRUE(server->party == &d->own && list_is_linked(&server->in_host));
        HOLD_TRUE(server->is_wanted ==
                  (d->own.work == OPEN_HOST && server->preference == d->own.group &&
                   !destdb_host_is_waiting(server->host)));
        HOLD_TRUE(tree_node_is_linked(&server->in_queue) ==
                  (server->is_wanted && destination_is_sought(d)));
        has_room = has_room || (server->preference == group && !server->host->is_full &&
                                !destdb_host_is_waiting(server->host));
    }
    HOLD_TRUE(!can_try || has_room == server_has_room(&d->own, party_room(s, &d->own)));
    HOLD_TRUE(!d->party->is_unreachable || d->lane.window == WINDOW_DEAD ||
              d->waiting + d->in_flight == 0 || list_is_linked(&d->in_unreachable));
    HOLD_TRUE(s->config.must_resolve || d->own.server_count == 0);
    return 0;
}

static int check_host(const struct sched *s, const struct destdb_host *h, struct sched_fault *ret)
{
    int connections = 0, busy = 0, in_flight = 0, live = 0, in_use = 0;
    uint32_t references = 0;
    int wanted = 0;
    uint64_t last = UINT64_MAX;
    list_foreach(c, &h->open, const struct connection, in_host)
    {
        HOLD_TRUE(c->host == h && c->state != CONNECTION_FREE && c->serial < last);
        last = c->serial;
        connections++;
        busy += c->state == CONNECTION_BUSY;
        in_use += !c->is_closing && !c->is_retired;
        live += c->is_live;
        in_flight += c->in_flight;
    }
    list_foreach(server, &h->users, const struct server, in_host)
    {
        HOLD_TRUE(server->host == h);
        references++;
        wanted += server->is_wanted;
    }
    HOLD_TRUE(h->connections == connections && h->busy == busy && h->live == live);
    HOLD_TRUE(h->in_flight == in_flight && h->references == references);
    int limit = s->config.host_concurrency_limit;
    HOLD_TRUE(limit == 0 || in_use <= limit);
    HOLD_TRUE(h->is_full == (limit > 0 && busy >= limit));
    HOLD_TRUE(h->wanted == wanted && h->is_useful == (!h->is_full && wanted > 0));
    HOLD_TRUE(tree_node_is_linked(&h->in_queue) == (!h->is_full && !tree_is_empty(&h->queue)));
    HOLD_TRUE(destdb_host_is_waiting(h) == list_is_linked(&h->in_retry));
    HOLD_TRUE(!destdb_host_is_waiting(h) || (live == 0 && h->retry_until > 0));
    HOLD_TRUE(h->has_record == (connections > 0 || list_is_linked(&h->in_stale)));
    HOLD_TRUE(connections == 0 || !list_is_linked(&h->in_stale));
    HOLD_TRUE(h->has_record || references > 0);
    return 0;
}

static int check_destdb(const struct sched *s, struct sched_fault *ret)
{
    uint64_t cursor = 0;
    int useful = 0;
    const struct table_node *node;
    while ((node = table_next(&s->destdb.by_key, &cursor)) != NULL) {
        const struct destdb_host *h = container_of(node, const struct destdb_host, node);
        int err = check_host(s, h, ret);
        if (err != 0) {
            return err;
        }
        useful += h->is_useful;
    }
    HOLD_TRUE(s->useful_hosts == useful);
    uint32_t stale = 0;
    usec_t last = INT64_MIN;
    list_foreach(h, &s->destdb.stale, const struct destdb_host, in_stale)
    {
        HOLD_TRUE(h->last_used >= last);
        last = h->last_used;
        stale++;
    }
    HOLD_TRUE(s->destdb.stale_count == stale);
    last = s->now;
    list_foreach(h, &s->destdb.retry, const struct destdb_host, in_retry)
    {
        HOLD_TRUE(h->retry_until >= last);
        last = h->retry_until;
    }
    return 0;
}

static int check_destination(const struct sched *s, const struct sched_destination *d,
                             struct tally *t, struct sched_fault *ret)
{
    int waiting = 0, held = 0;
    uint32_t limit = terms_recipient_limit(d, (uint32_t)s->config.destination_recipient_limit);
    list_foreach(e, &d->todo, const struct sched_entry, place.link)
    {
        HOLD_TRUE(e->state == ENTRY_WAITING && e->place.kind == SCHED_NONE);
        HOLD_TRUE(entry_destination(e) == d);
        HOLD_TRUE(limit == 0 || e->count <= limit);
        waiting++;
        held += job_is_linked(entry_job(e)) && entry_job(e)->place == JOB_HELD;
    }
    HOLD_TRUE(d->waiting == waiting && d->held == held);
    /* It exists for some reason. */
    HOLD_TRUE(d->waiting + d->in_flight + d->lane.connections > 0 || d->settled > 0 ||
              d->is_lingering || d->lane.window <= 0 || d->is_resolving ||
              terms_wake_at(s, d) != USEC_NEVER);
    HOLD_TRUE(destination_find(s, sched_destination_name(d), d->pool) == d);
    t->destinations++;
    t->of_recipients += d->nexthop_at > 0;
    t->with_work[d->own.work]++;
    t->dead += d->lane.window == WINDOW_DEAD;
    t->waiting += (uint64_t)d->waiting;
    t->in_flight += (uint64_t)d->in_flight;
    t->connections += (uint64_t)d->lane.connections;
    t->idle += (uint64_t)d->lane.idle_connections;
    int err = check_window(s, d, ret);
    if (err == 0) {
        err = check_carried(s, d, t, ret);
    }
    return err == 0 ? check_servers(s, d, ret) : err;
}

static int check_peers(const struct sched *s, const struct job *j, struct sched_fault *ret)
{
    uint32_t waiting = 0, entries = 0, recipients = 0;
    list_foreach(p, &j->peers, const struct peer, link)
    {
        HOLD_TRUE(p->job == j && p->entries > 0 && p->held > p->entries);
        HOLD_TRUE(p->stand ==
                  (flows_take_turns(s) ? turn_stand(s, j->flow, p->destination) : NULL));
        entries += p->entries;
        for (const struct sched_entry *e = entry_queue_first(&p->waiting); e != NULL;
             e = entry_queue_next(&p->waiting, e)) {
            HOLD_TRUE(e->state == ENTRY_WAITING && e->peer == p);
            HOLD_TRUE(e->count > 0 && e->count <= e->capacity);
            waiting++;
            recipients += e->count;
        }
    }
    HOLD_TRUE(j->waiting == waiting);
    HOLD_TRUE(j->waiting + j->busy == entries);
    HOLD_TRUE(j->rcpt_count >= (int)recipients);
    return 0;
}

static int check_job(const struct sched *s, const struct job *j, struct tally *t,
                     struct sched_fault *ret)
{
    HOLD_TRUE(j->selected_entries >= 0 && j->selected_entries <= j->read_entries);
    HOLD_TRUE(j->read_entries - j->selected_entries == (int)j->waiting);
    HOLD_TRUE(j->rcpt_count >= 0 && j->rcpt_limit >= 0);
    HOLD_TRUE(j->has_more || j->rcpt_unread == 0);
    HOLD_TRUE(job_is_linked(j) || (j->parent == NULL && list_is_empty(&j->children)));
    HOLD_TRUE(job_is_linked(j) || j->waiting == 0);
    HOLD_TRUE(job_is_linked(j) == list_is_linked(&j->in_schedule));
    HOLD_TRUE(job_is_linked(j) == tree_node_is_linked(&j->in_time));
    /* Alive, or on its way out, or about to grow. */
    bool is_finished = j->action.kind == SCHED_FINISHED;
    HOLD_TRUE(is_finished == (j->waiting + j->busy == 0 && !j->is_reading));
    HOLD_TRUE(j->action.kind != SCHED_READ || j->is_reading);
    HOLD_TRUE(!j->is_reading || j->has_more);
    HOLD_TRUE(!j->is_stalled || j->is_reading);
    HOLD_TRUE(job_find(s, j->id) == j);
    t->jobs++;
    t->recipients += (uint64_t)j->rcpt_count;
    t->slots += j->rcpt_limit;
    return check_peers(s, j, ret);
}

static int check_schedule(const struct flow *f, bool is_first_current, struct tally *t,
                          struct sched_fault *ret)
{
    bool has_current = f->current == NULL;
    usec_t last = INT64_MIN;
    for (const struct job *j = list_first(&f->schedule, struct job, in_schedule);
         &j->in_schedule != &f->schedule; j = list_next(j, struct job, in_schedule)) {
        HOLD_TRUE(job_is_linked(j) && j->flow == f);
        has_current = has_current || f->current == j;
        if (j->level == 0) {
            HOLD_TRUE(j->parent == NULL && j->queued_time >= last);
            last = j->queued_time;
        }
        list_foreach(child, &j->children, const struct job, in_children)
        {
            HOLD_TRUE(child->parent == j && child->level > j->level);
        }
        if (j->parent != NULL) {
            bool precedes = false;
            for (const struct job *k = j; k != NULL && !precedes; k = job_next(k)) {
                precedes = k == j->parent;
            }
            HOLD_TRUE(precedes);
        }
        t->jobs++;
    }
    HOLD_TRUE(has_current);
    HOLD_TRUE(!is_first_current || list_is_empty(&f->schedule) ||
              f->current == list_first(&f->schedule, struct job, in_schedule));
    return 0;
}

static int check_by_time(const struct sched *s, const struct flow *f, struct tally *t,
                         struct sched_fault *ret)
{
    usec_t last = INT64_MIN;
    for (const struct tree_node *n = f->by_time.first; n != NULL; n = tree_next(n)) {
        const struct job *j = container_of(n, const struct job, in_time);
        HOLD_TRUE(job_is_linked(j) && j->queued_time >= last);
        HOLD_TRUE(tree_node_is_linked(&j->in_unread) == (j->has_more || s->next_unread == j));
        last = j->queued_time;
        t->jobs++;
    }
    const struct tree_node *first = f->by_time.first;
    usec_t oldest = first == NULL ? 0 : container_of(first, const struct job, in_time)->queued_time;
    HOLD_TRUE(f->oldest == oldest);
    return 0;
}

static int check_unread(const struct sched *s, struct sched_fault *ret)
{
    usec_t last = INT64_MIN;
    for (const struct tree_node *n = s->unread.first; n != NULL; n = tree_next(n)) {
        const struct job *j = container_of(n, const struct job, in_unread);
        HOLD_TRUE(job_is_linked(j) && j->queued_time >= last);
        last = j->queued_time;
    }
    HOLD_TRUE(s->next_unread == NULL || job_is_linked(s->next_unread));
    return 0;
}

/* Where flows take turns: it waits, and its flow has the turn at an open destination. What was touched, or
 * had no slot when its flow was looked at last, is settled before the next selection. */
static bool may_go(const struct sched *s, const struct peer *p)
{
    if (!flows_take_turns(s)) {
        return peer_is_waiting(p) && destination_is_open(s, p->destination);
    }
    const struct party *party = p->destination->party;
    const struct turn *t = party->turn;
    const struct turn *lanes = party->site == NULL ? NULL : shared_party_of(party)->set->flow_turn;
    return peer_is_waiting(p) && !list_is_linked(&t->touched) &&
           (lanes == NULL || !list_is_linked(&lanes->touched)) &&
           !p->job->flow->passed_without_slot && peer_is_open(s, p);
}

static int check_parked(const struct sched *s, const struct job *j, struct sched_fault *ret)
{
    HOLD_TRUE(!j->is_reading && !j->is_gated && j->waiting > 0);
    HOLD_TRUE(!recipient_pool_can_read(s, j));
    list_foreach(p, &j->peers, const struct peer, link)
    {
        HOLD_TRUE(tree_node_is_linked(&p->in_parked) == peer_is_waiting(p));
        if (flows_take_turns(s)) {
            HOLD_TRUE(!may_go(s, p) ||
                      (!job_is_blocked(j) && turn_finds(s, p->destination, j->flow)));
            continue;
        }
        /* Selection finds it when it can go on. */
        HOLD_TRUE(!peer_is_waiting(p) || !destination_is_open(s, p->destination) ||
                  (!job_is_blocked(j) && (p->destination->party->work == OPEN_HOST ||
                                          tree_node_is_linked(&p->destination->own.in_ready))));
    }
    return 0;
}

/* Its place, and its class of candidates. */
static int check_place(const struct sched *s, const struct job *j, struct sched_fault *ret)
{
    HOLD_TRUE(s->config.scheduler != SCHED_BY_TURNS || j->place == JOB_RUNNABLE ||
              j->place == JOB_HELD);
    bool is_irregular = j->level > 0 || !list_is_empty(&j->children);
    HOLD_TRUE(tree_node_is_linked(&j->in_place) == (j->place != JOB_PARKED));
    HOLD_TRUE(j->size_class == NULL || !list_is_linked(&j->in_irregular));
    HOLD_TRUE(s->config.delivery_slot_cost < 2 ||
              is_irregular == list_is_linked(&j->in_irregular) || j->size_class == NULL);
    HOLD_TRUE(j->size_class == NULL || j == j->flow->adrift ||
              (j->size_class->need == job_need(j) && j->size_class->total == job_total(j) &&
               j->place != JOB_ASIDE && j->place != JOB_HELD && !is_irregular));
    if (j->place == JOB_PARKED) {
        return check_parked(s, j, ret);
    }
    list_foreach(p, &j->peers, const struct peer, link)
    {
        HOLD_TRUE(!tree_node_is_linked(&p->in_parked));
        HOLD_TRUE(
            !job_is_blocked(j) || j->place == JOB_HELD || !may_go(s, p) ||
            (j->is_gated && !placement_has_connection(s, p->destination) && !gate_allows(s, j)));
    }
    return 0;
}

/* All that stand before the current job are blocked; positions grow. */
static int check_positions(const struct sched *s, const struct flow *f, struct sched_fault *ret)
{
    uint64_t last = POSITION_NONE;
    bool is_passed = true;
    list_foreach(j, &f->schedule, const struct job, in_schedule)
    {
        HOLD_TRUE(j->position > last);
        last = j->position;
        is_passed = is_passed && f->current != j;
        HOLD_TRUE(!is_passed || job_is_blocked(j));
        int err = check_place(s, j, ret);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int check_connection(const struct sched *s, const struct connection *c, struct tally *t,
                            struct sched_fault *ret)
{
    const struct sched_entry *undelivered = s->undelivered;
    int in_flight = 0;
    if (undelivered != NULL && undelivered->connection == c->number) {
        HOLD_TRUE(undelivered->place.kind == SCHED_DELIVER);
        t->recipients_in_flight += undelivered->count;
        in_flight++;
    }
    list_foreach(e, &c->entries, const struct sched_entry, place.link)
    {
        HOLD_TRUE(e->state == ENTRY_BUSY && e->connection == c->number);
        HOLD_TRUE(e->place.kind == SCHED_NONE);
        HOLD_TRUE(c->party->site != NULL || &entry_destination(e)->own == c->party);
        t->recipients_in_flight += e->count;
        in_flight++;
    }
    bool is_open = c->state != CONNECTION_FREE;
    HOLD_TRUE(is_open == (c->party != NULL) && is_open == (c->lane != NULL));
    HOLD_TRUE(is_open == list_is_linked(&c->in_lane));
    HOLD_TRUE((c->host != NULL) == list_is_linked(&c->in_host));
    HOLD_TRUE(c->in_flight == in_flight);
    HOLD_TRUE((c->state == CONNECTION_BUSY) == (in_flight > 0 || c->is_ending));
    HOLD_TRUE(!c->is_ending || (s->config.awaits_end && c->is_closing));
    HOLD_TRUE(in_flight <= s->depth_max);
    HOLD_TRUE(tree_node_is_linked(&c->in_placement) ==
              (c->state == CONNECTION_IDLE || connection_has_room(s, c)));
    int limit = connection_reuse_limit(s, c);
    HOLD_TRUE(c->is_apart == (c->timer.position != 0) && (is_open || !c->is_apart));
    HOLD_TRUE(!is_open || limit == 0 || c->carried <= limit || c->is_retired || c->is_closing);
    HOLD_TRUE(c->state != CONNECTION_IDLE || (!c->is_closing && !c->is_retired && c->is_live));
    return 0;
}

static int check_connections(const struct sched *s, struct tally *t, struct sched_fault *ret)
{
    uint64_t idle = 0, busy = 0, in_use = 0;
    size_t listed = 0;
    for (uint32_t i = 0; i < s->connection_count; i++) {
        const struct connection *c = connection_at(s, i);
        HOLD_TRUE(c->number == i);
        in_use += c->state != CONNECTION_FREE && !c->is_closing && !c->is_retired;
        idle += c->state == CONNECTION_IDLE;
        busy += c->state == CONNECTION_BUSY;
        int err = check_connection(s, c, t, ret);
        if (err != 0) {
            return err;
        }
    }
    uint64_t recipients = 0;
    (void)count_exhausted(s, NULL, &recipients);
    recipients += t->recipients_in_flight;
    list_foreach(c, &s->free_connections, const struct connection, in_transport)
    {
        HOLD_TRUE(c->state == CONNECTION_FREE);
        listed++;
    }
    usec_t last = INT64_MIN;
    list_foreach(c, &s->idle_connections, const struct connection, in_transport)
    {
        HOLD_TRUE(c->state == CONNECTION_IDLE && !c->is_apart && c->idle_since >= last);
        last = c->idle_since;
        listed++;
    }
    last = INT64_MIN;
    list_foreach(c, &s->idle_apart, const struct connection, in_transport)
    {
        HOLD_TRUE(c->state == CONNECTION_IDLE && c->is_apart && c->idle_since >= last);
        last = c->idle_since;
        listed++;
    }
    HOLD_TRUE(listed + busy == s->connection_count);
    HOLD_TRUE(idle + busy == 0 || s->none_expires <= connection_wake_at(s));
    HOLD_TRUE(in_use <= (uint64_t)s->config.process_limit);
    HOLD_TRUE(s->shared.idle == idle && s->shared.connections == idle + busy);
    list_foreach(e, &s->destinations, const struct sched_destination, all)
    {
        list_foreach(w, &e->todo, const struct sched_entry, place.link)
        {
            recipients += w->count;
        }
    }
    HOLD_TRUE(s->shared.recipients_in_core == recipients);
    return 0;
}

static int check_counts(const struct sched *s, const struct tally *t, struct sched_fault *ret)
{
    HOLD_TRUE(s->shared.destinations == t->destinations && s->by_name.count == t->destinations);
    HOLD_TRUE(s->timers.count == t->destinations);
    HOLD_TRUE(s->recipient_destinations == t->of_recipients);
    HOLD_TRUE(s->shared.dead == t->dead);
    HOLD_TRUE(memcmp(s->with_work, t->with_work, sizeof(t->with_work)) == 0);
    HOLD_TRUE(s->shared.entries_waiting == t->waiting);
    HOLD_TRUE(s->shared.entries_in_flight == t->in_flight);
    HOLD_TRUE(s->shared.connections == t->connections && s->shared.idle == t->idle);
    HOLD_TRUE(s->shared.jobs == t->jobs && s->by_id.count == t->jobs);
    HOLD_TRUE(s->shared.recipients_in_core == t->recipients);
    HOLD_TRUE(s->rcpt_unused + t->slots == s->config.recipient_limit);
    HOLD_TRUE(s->rcpt_unused >= -s->overdraft_max);
    HOLD_TRUE(s->shared.pool_unused == s->rcpt_unused);
    return 0;
}

/* It is looked at while it has a current job. */
static int check_flow(const struct sched *s, const struct flow *f, struct sched_fault *ret)
{
    uint32_t held = 0, jobs = 0;
    for (uint32_t i = 0; i < s->connection_count; i++) {
        const struct connection *c = connection_at(s, i);
        held += c->flow == f;
        HOLD_TRUE(c->flow == NULL || c->state == CONNECTION_BUSY);
    }
    uint64_t cursor = 0;
    const struct table_node *node;
    while ((node = table_next(&s->by_id, &cursor)) != NULL) {
        jobs += container_of(node, const struct job, node)->flow == f;
    }
    HOLD_TRUE(f->held == held && f->jobs == jobs && f->tag % 2 == 1);
    HOLD_TRUE(f == &s->flow || f->jobs + f->held > 0);
    HOLD_TRUE(flows_take_turns(s) || jobs == 0 || f == &s->flow);
    HOLD_TRUE(!flows_take_turns(s) || f->current == NULL || f->is_live);
    HOLD_TRUE(!f->is_live || tree_node_is_linked(&f->in_live));
    const char *wrong = handover_check(s, f);
    if (wrong != NULL) {
        return fault(ret, wrong);
    }
    return 0;
}

static int check_jobs(const struct sched *s, struct tally *t, struct sched_fault *ret)
{
    struct tally scheduled = {0}, timed = {0};
    bool is_round = s->config.scheduler == SCHED_BY_TURNS; /* no job is passed over */
    uint64_t waiting = 0, recipients = 0;
    int err = 0;
    list_foreach(f, &s->flows.all, const struct flow, all)
    {
        waiting += f->waiting;
        recipients += f->recipients;
        err = err != 0 ? err : check_flow(s, f, ret);
        err = err != 0 ? err : check_schedule(f, is_round, &scheduled, ret);
        err = err != 0 ? err : check_by_time(s, f, &timed, ret);
        err = err != 0 ? err : check_positions(s, f, ret);
    }
    err = err != 0 ? err : check_unread(s, ret);
    if (err != 0) {
        return err;
    }
    HOLD_TRUE(waiting == s->shared.entries_waiting && recipients == s->shared.recipients_in_core);
    uint64_t linked = 0, cursor = 0;
    const struct table_node *node;
    while ((node = table_next(&s->by_id, &cursor)) != NULL) {
        const struct job *j = container_of(node, const struct job, node);
        linked += job_is_linked(j);
        err = check_job(s, j, t, ret);
        if (err != 0) {
            return err;
        }
    }
    HOLD_TRUE(scheduled.jobs == linked && timed.jobs == linked);
    return 0;
}

int sched_check(const struct sched *s, struct sched_fault *ret)
{
    struct tally t = {0};
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        int err = check_destination(s, d, &t, ret);
        if (err != 0) {
            return err;
        }
    }
    struct site_tally sites = {0};
    const char *wrong = site_check(s, &sites);
    if (wrong != NULL) {
        return fault(ret, wrong);
    }
    wrong = purse_check(s);
    wrong = wrong != NULL ? wrong : turn_check(s);
    if (wrong != NULL) {
        return fault(ret, wrong);
    }
    HOLD_TRUE(s->shared.sites == sites.sites && s->shared.dead_sites == sites.dead);
    t.connections += sites.connections;
    t.idle += sites.idle;
    t.with_work[OPEN_NOT] += sites.none;
    t.with_work[OPEN_NOW] += sites.now;
    t.with_work[OPEN_SLOT] += sites.slots;
    t.with_work[OPEN_HOST] += sites.hosts;
    int err = check_jobs(s, &t, ret);
    if (err == 0) {
        err = check_connections(s, &t, ret);
    }
    if (err == 0) {
        err = check_destdb(s, ret);
    }
    if (err == 0) {
        err = check_counts(s, &t, ret);
    }
    list_foreach(p, &s->pending, const struct pending, link)
    {
        HOLD_TRUE(p->kind != SCHED_NONE);
    }
    HOLD_TRUE(s->undelivered == NULL || s->undelivered->state == ENTRY_BUSY);
    return err;
}
