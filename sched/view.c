/* What other threads see of a scheduler. Called on any thread that is online under RCU; reads only
 * what is constant after publication, and the relaxed fields of sched/shared.h. */
#include "sched/shared.h"
#include "sched/transport.h"

#include <string.h>

static enum sched_destination_state destination_state(const struct sched_destination *d, int window)
{
    if (window == WINDOW_DEAD) {
        return SCHED_DESTINATION_DEAD;
    }
    if (window == WINDOW_SUSPENDED) {
        return SCHED_DESTINATION_SUSPENDED;
    }
    return shared_get(&d->lacks_hosts) && shared_get(&d->waiting) > 0 ? SCHED_DESTINATION_RESOLVING
                                                                      : SCHED_DESTINATION_READY;
}

static enum sched_why why_dead(enum sched_why bar)
{
    return bar == SCHED_WHY_HOST_RETRY || bar == SCHED_WHY_LANE_CLOSED ? bar : SCHED_WHY_DEAD;
}

/* Why its first waiting entry is not on its way: the first bar in the order in which selection
 * meets them. */
static enum sched_why why_of(const struct sched *s, const struct sched_destination_view *v,
                             enum sched_why bar, bool is_held)
{
    if (v->todo == 0) {
        return v->state == SCHED_DESTINATION_DEAD ? why_dead(bar) : SCHED_WHY_NOTHING;
    }
    switch (v->state) {
    case SCHED_DESTINATION_DEAD:
        return why_dead(bar);
    case SCHED_DESTINATION_SUSPENDED:
        return SCHED_WHY_RATE_DELAY;
    case SCHED_DESTINATION_RESOLVING:
        return SCHED_WHY_RESOLVING;
    case SCHED_DESTINATION_READY:
    case SCHED_DESTINATION_STATE_COUNT:
        break;
    }
    if (shared_get(&s->hold)) {
        return SCHED_WHY_HOLD;
    }
    if (is_held) {
        return SCHED_WHY_TENANT_RATE;
    }
    if (bar >= SCHED_WHY_LANE_CLOSED && bar < SCHED_WHY_COUNT) {
        return bar; /* of its lanes */
    }
    if (v->window <= v->busy) {
        return SCHED_WHY_WINDOW;
    }
    if (shared_get(&s->transport_rate_delay) > 0) {
        return SCHED_WHY_TRANSPORT_RATE_DELAY;
    }
    if (shared_get(&s->shared.connections) >=
        (uint64_t)shared_get(&s->process_limit) + shared_get(&s->shared.idle)) {
        return SCHED_WHY_PROCESS_LIMIT;
    }
    return bar;
}

static enum sched_why bar_of(const struct party *p)
{
    if (shared_get(&p->is_unreachable)) {
        return SCHED_WHY_HOST_RETRY;
    }
    if (!server_has_room(p, SITE_FAMILIES)) {
        return SCHED_WHY_HOST_LIMIT;
    }
    return p->site == NULL ? SCHED_WHY_NOTHING : lane_set_why(shared_party_of(p)->set);
}

/* The lanes of its site, together: those that are alive may send, and all have connections. */
static void fill_from_site(const struct party *p, struct sched_destination_view *v)
{
    const struct site *site = p->site;
    const struct lane_array *lanes = __atomic_load_n(&site->lanes, __ATOMIC_ACQUIRE);
    usec_t until = 0;
    v->window = v->busy = v->connections = v->idle = 0;
    for (uint32_t i = 0; lanes != NULL && i < lanes->count; i++) {
        const struct site_lane *l = lane_find(site, i);
        if (l == NULL) {
            continue;
        }
        int window = shared_get(&l->is_closed) ? 0 : shared_get(&l->lane.window);
        usec_t away = shared_get(&l->state_until);
        v->window = lane_add_window(v->window, window > 0 ? window : 0);
        v->busy += shared_get(&l->lane.busy);
        v->connections += shared_get(&l->lane.connections);
        v->idle += shared_get(&l->lane.idle_connections);
        until = away > 0 && (until == 0 || away < until) ? away : until;
    }
    if (v->state == SCHED_DESTINATION_READY && shared_get(&shared_party_of(p)->set->is_barred)) {
        v->state = SCHED_DESTINATION_DEAD;
        v->state_until = until;
    }
}

static void fill_view(const struct sched *s, const struct sched_destination *d,
                      struct sched_destination_view *ret)
{
    const struct party *p = __atomic_load_n(&d->party, __ATOMIC_ACQUIRE);
    int window = shared_get(&d->lane.window);
    *ret = (struct sched_destination_view){
        .name = sched_destination_name(d),
        .pool = d->pool,
        .state = destination_state(d, window),
        .window = window > 0 ? window : 0,
        .busy = shared_get(&d->lane.busy),
        .in_flight = shared_get(&d->in_flight),
        .todo = shared_get(&d->waiting),
        .connections = shared_get(&d->lane.connections),
        .idle = shared_get(&d->lane.idle_connections),
        .delivered = shared_get(&d->delivered),
        .deferred = shared_get(&d->deferred),
        .state_until = shared_get(&d->state_until),
    };
    if (p->site != NULL) {
        ret->site = site_key(p->site);
        fill_from_site(p, ret);
    }
    int most = shared_get(&d->most_in_flight);
    bool is_held = ret->todo > 0 && shared_get(&d->held) >= ret->todo;
    enum sched_why bar = most > 0 && ret->in_flight >= most ? SCHED_WHY_WINDOW : bar_of(p);
    enum sched_why rate = shared_get(&d->lacks_quota) ? SCHED_WHY_QUOTA : SCHED_WHY_RATE;
    ret->why = why_of(s, ret, shared_get(&d->paced_until) > 0 ? rate : bar, is_held);
}

bool sched_view_destinations(const struct sched *s, uint64_t *cursor,
                             struct sched_destination_view *ret)
{
    struct table_node *node = table_next(&s->by_name, cursor);
    if (node == NULL) {
        return false;
    }
    fill_view(s, container_of(node, struct sched_destination, node), ret);
    return true;
}

bool sched_view_destination(const struct sched *s, struct slice name,
                            struct sched_destination_view *ret)
{
    uint32_t most = shared_get(&s->pool_most);
    for (uint32_t pool = 0; pool < most; pool++) {
        if (sched_view_destination_in(s, name, (uint16_t)pool, ret)) {
            return true;
        }
    }
    return false;
}

bool sched_view_destination_in(const struct sched *s, struct slice name, uint16_t pool,
                               struct sched_destination_view *ret)
{
    const struct sched_destination *d = destination_find(s, name, pool);
    if (d == NULL) {
        return false;
    }
    fill_view(s, d, ret);
    return true;
}

static enum sched_host_state host_state(const struct destdb_host *h)
{
    if (shared_get(&h->retry_until) > 0) {
        return SCHED_HOST_RETRY;
    }
    if (shared_get(&h->busy) > 0) {
        return SCHED_HOST_ACTIVE;
    }
    if (shared_get(&h->connections) > 0) {
        return SCHED_HOST_IDLE;
    }
    return shared_get(&h->has_record) ? SCHED_HOST_CLOSED : SCHED_HOST_UNUSED;
}

bool sched_view_hosts(const struct sched *s, uint64_t *cursor, struct sched_host_view *ret)
{
    struct table_node *node = table_next(&s->destdb.by_key, cursor);
    if (node == NULL) {
        return false;
    }
    const struct destdb_host *h = container_of(node, struct destdb_host, node);
    *ret = (struct sched_host_view){
        .key_len = h->key_len,
        .state = host_state(h),
        .connections = shared_get(&h->connections),
        .in_flight = shared_get(&h->in_flight),
        .failures = shared_get(&h->failures),
        .retry_until = shared_get(&h->retry_until),
        .notes = shared_get(&h->notes),
        .notes_until = shared_get(&h->notes_until),
        .is_out_of_step = shared_get(&h->is_out_of_step),
    };
    memcpy(ret->key, h->key, h->key_len);
    return true;
}

static struct sched_flow_key flow_key(const struct flow *f)
{
    return (struct sched_flow_key){
        .class = shared_get(&f->key.class),
        .tenant = shared_get(&f->key.tenant),
        .campaign = shared_get(&f->key.campaign),
    };
}

/* The first flow is in no table, and comes behind the others. */
bool sched_view_flows(const struct sched *s, uint64_t *cursor, struct sched_flow_view *ret)
{
    if (*cursor == UINT64_MAX) {
        return false;
    }
    struct table_node *node = table_next(&s->flows.by_key, cursor); /* MAX at its end */
    const struct flow *f = node == NULL ? &s->flow : container_of(node, struct flow, node);
    *ret = (struct sched_flow_view){
        .key = flow_key(f),
        .weight = shared_get(&f->weight),
        .jobs = shared_get(&f->jobs),
        .held = shared_get(&f->held),
        .waiting = shared_get(&f->waiting),
        .recipients = shared_get(&f->recipients),
        .oldest = shared_get(&f->oldest),
    };
    return true;
}

bool sched_view_jobs(const struct sched *s, uint64_t *cursor, struct sched_job_view *ret)
{
    struct table_node *node = table_next(&s->by_id, cursor);
    if (node == NULL) {
        return false;
    }
    const struct job *j = container_of(node, struct job, node);
    *ret = (struct sched_job_view){
        .message_id = j->id,
        .handle = j->handle,
        .flow = flow_key(j->flow),
        .queued = j->queued_time,
        .waiting = shared_get(&j->waiting),
        .in_flight = shared_get(&j->busy),
        .recipients = (uint32_t)shared_get(&j->rcpt_count),
        .why = shared_get(&j->why),
    };
    return true;
}

void sched_view_counters(const struct sched *s, struct sched_counters *ret)
{
    const struct sched_counters *c = &s->shared;
    *ret = (struct sched_counters){
        .destinations = shared_get(&c->destinations),
        .dead = shared_get(&c->dead),
        .sites = shared_get(&c->sites),
        .dead_sites = shared_get(&c->dead_sites),
        .jobs = shared_get(&c->jobs),
        .entries_waiting = shared_get(&c->entries_waiting),
        .entries_in_flight = shared_get(&c->entries_in_flight),
        .connections = shared_get(&c->connections),
        .idle = shared_get(&c->idle),
        .recipients_in_core = shared_get(&c->recipients_in_core),
        .selections = shared_get(&c->selections),
        .reports = shared_get(&c->reports),
        .put_back = shared_get(&c->put_back),
        .pool_unused = shared_get(&c->pool_unused),
    };
}

const char *sched_why_text(enum sched_why why)
{
    switch (why) {
    case SCHED_WHY_NOTHING:
        return "nothing holds it back";
    case SCHED_WHY_WINDOW:
        return "its concurrency window is full";
    case SCHED_WHY_DEAD:
        return "it is dead, deliveries are suspended";
    case SCHED_WHY_RATE_DELAY:
        return "its rate delay is running";
    case SCHED_WHY_RESOLVING:
        return "its hosts are being resolved";
    case SCHED_WHY_PROCESS_LIMIT:
        return "all connections of the transport are busy";
    case SCHED_WHY_HOLD:
        return "the transport is on hold";
    case SCHED_WHY_TRANSPORT_RATE_DELAY:
        return "the transport's rate delay";
    case SCHED_WHY_POOL:
        return "its recipients wait in the spool for room in the recipient pool";
    case SCHED_WHY_MESSAGE_LIMIT:
        return "its message has as many deliveries as one may have";
    case SCHED_WHY_HOST_LIMIT:
        return "its hosts have as many connections as they may have";
    case SCHED_WHY_HOST_RETRY:
        return "all of its hosts failed lately";
    case SCHED_WHY_TURN:
        return "it is the turn of other mail: of another class, tenant or campaign";
    case SCHED_WHY_LANE_CLOSED:
        return "the addresses that it may be sent from are closed there, or one is being tried";
    case SCHED_WHY_PACE:
        return "its receiver takes no more at a time";
    case SCHED_WHY_RATE:
        return "a configured rate";
    case SCHED_WHY_QUOTA:
        return "a quota is used up";
    case SCHED_WHY_SITE_LIMIT:
        return "its site has as many connections as it may have";
    case SCHED_WHY_CEILING:
        return "its receiver takes no more connections";
    case SCHED_WHY_TENANT_RATE:
        return "its tenant's rate";
    case SCHED_WHY_TENANT_QUOTA:
        return "its tenant's quota is used up";
    case SCHED_WHY_COUNT:
    default:
        return "unknown";
    }
}
