/* Flows, see sched/flow.h. Called by job (its flow), selection (which one is next), and connection (what
 * they hold).
 *
 * A flow is looked at while it has a current job. Where several take turns those stand in trees, a class
 * each, by rank: the level of the connections that they hold for their weight, and of one level by what
 * they have taken so far for their weight. Levels are as wide as one connection of the least weight, so that
 * flows of more weight are of the least level with several connections while others have none. A flow that
 * is looked at in vain leaves the tree until something of it changes, so it costs a step for each change.
 *
 * The width of levels is looked for anew after as many selections as there are flows, and all are filed
 * again when it is another one, so that a selection pays for one step of it. */
#include "sched/flow.h"

#include "base/hash.h"
#include "sched/candidate.h"
#include "sched/job.h"
#include "sched/parking.h"
#include "sched/place/handover.h"
#include "sched/place/shortage.h"
#include "sched/shared.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define WEIGHT_MAX  1000
#define PERCENT     100
#define TAG_END     ((uint64_t)1 << 48) /* of flow.rank: what was taken below, what is held above */
#define LEVEL_MAX   UINT16_MAX
#define TURNS_AHEAD 4 /* of its own, by a claim, before whoever is next */

static uint64_t live_key(const struct tree_node *n)
{
    return container_of(n, const struct flow, in_live)->rank;
}

static uint64_t holder_key(const struct tree_node *n)
{
    return container_of(n, const struct flow, in_holders)->keeps;
}

void flow_init(struct flow *f)
{
    memset(f, 0, sizeof(*f));
    f->tag = 1;
    f->weight = 1;
    job_init_lists(f);
    parking_init(f);
    candidate_init(f);
    turn_init_flow(f);
    list_init(&f->holds);
    list_init(&f->passed_shares);
    shortage_init_flow(f);
    list_init(&f->all);
    tree_node_init(&f->in_live);
    list_init(&f->connections);
    tree_node_init(&f->in_holders);
}

void flow_init_lists(struct sched *s)
{
    struct flows *all = &s->flows;
    for (int i = 0; i < SCHED_CLASSES; i++) {
        all->scales[i].unit = 1;
        tree_init(&all->live[i], live_key);
        tree_init(&all->slotless[i], live_key);
        tree_init(&all->holders[i], holder_key);
    }
    list_init(&all->touched);
    list_init(&all->unlimited);
    list_init(&all->ahead);
    list_init(&all->claims);
    list_init(&all->all);
    parking_init_ready(s);
    flow_init(&s->flow);
    s->flow.number = all->numbers = 1;
    list_push_back(&all->all, &s->flow.all);
}

int flow_init_all(struct sched *s)
{
    struct flows *all = &s->flows;
    int err = table_init(&all->by_key, &s->host);
    err = err != 0 ? err : table_init(&all->tenants, &s->host);
    err = err != 0 ? err : table_init(&all->stands, &s->host);
    err = err != 0 ? err : table_init(&all->shares, &s->host);
    return err != 0 ? err : table_init(&all->stakes, &s->host);
}

static void unlink_live(struct flow *f, struct flows *all)
{
    if (tree_node_is_linked(&f->in_live)) {
        struct tree *t = f->is_live ? all->live : all->slotless;
        tree_remove(&t[f->key.class], &f->in_live);
    }
    f->is_live = false;
}

static uint64_t level_of(const struct flow_scale *scale, const struct flow *f)
{
    uint64_t level = (uint64_t)f->held * scale->unit / f->weight;
    return level > LEVEL_MAX ? LEVEL_MAX : level;
}

/* Into the tree of those that are looked at, or that of those that lack a slot. */
static void file_live(struct sched *s, struct flow *f, bool is_live)
{
    struct flow_scale *scale = &s->flows.scales[f->key.class];
    if (!tree_node_is_linked(&f->in_live)) {
        f->taken = f->taken < scale->tag ? scale->tag : f->taken;
    }
    unlink_live(f, &s->flows);
    f->is_live = is_live;
    f->rank = level_of(scale, f) * TAG_END + f->taken;
    tree_insert(&(is_live ? s->flows.live : s->flows.slotless)[f->key.class], &f->in_live);
}

/* The least weight of those that wait may be another one by now; and tags do not grow for ever. */
static void measure_class(struct sched *s, uint32_t class)
{
    struct flow_scale *scale = &s->flows.scales[class];
    uint32_t unit = WEIGHT_MAX;
    list_foreach(f, &s->flows.all, const struct flow, all)
    {
        bool is_less =
            f->key.class == class && tree_node_is_linked(&f->in_live) && f->weight < unit;
        unit = is_less ? f->weight : unit;
    }
    scale->charges = 0;
    uint64_t passed = scale->tag > TAG_END / 2 ? scale->tag : 0;
    if (unit == scale->unit && passed == 0) {
        return;
    }
    scale->unit = unit;
    scale->tag -= passed;
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        if (f->key.class == class) {
            f->taken -= f->taken < passed ? f->taken : passed;
            if (tree_node_is_linked(&f->in_live)) {
                file_live(s, f, f->is_live);
            }
        }
    }
}

static bool tenant_matches(const struct table_node *node, const void *key)
{
    const struct flow_tenant *t = container_of(node, const struct flow_tenant, node);
    const struct sched_flow_key *k = key;
    return t->tenant == k->tenant && t->class == k->class;
}

static struct flow_tenant *new_tenant(struct sched *s, const struct flow *f, uint64_t hash)
{
    struct flow_tenant *t = NULL;
    if (table_reserve(&s->flows.tenants) == 0) {
        t = s->host.alloc(s->host.ctx, sizeof(*t));
    }
    if (t != NULL) {
        *t = (struct flow_tenant){
            .node.hash = hash, .class = f->key.class, .tenant = f->key.tenant, .first = f};
        table_insert(&s->flows.tenants, &t->node);
    }
    return t;
}

/* errors: -ENOMEM */
static MUST_USE int join_tenant(struct sched *s, struct flow *f)
{
    uint64_t number = (uint64_t)f->key.class << 32 | f->key.tenant;
    uint64_t hash = hash_bytes(&number, sizeof(number), s->hash_seed);
    struct table_node *node = table_find(&s->flows.tenants, hash, tenant_matches, &f->key);
    f->tenant =
        node != NULL ? container_of(node, struct flow_tenant, node) : new_tenant(s, f, hash);
    if (f->tenant == NULL) {
        return -ENOMEM;
    }
    f->tenant->flows++;
    return 0;
}

static void leave_tenant(struct sched *s, struct flow *f)
{
    struct flow_tenant *t = f->tenant;
    if (t == NULL) {
        return;
    }
    f->tenant = NULL;
    t->first = t->first == f ? NULL : t->first;
    t->flows--;
    if (t->flows == 0) {
        table_remove(&s->flows.tenants, &t->node);
        s->host.release(s->host.ctx, t);
    }
}

static void free_flow(struct sched *s, struct flow *f)
{
    assert(list_is_empty(&f->holds) && list_is_empty(&f->passed_shares));
    assert(tree_is_empty(&f->seeks) && list_is_empty(&f->loose));
    unlink_live(f, &s->flows);
    leave_tenant(s, f);
    list_remove(&f->all);
    if (f != &s->flow) {
        table_remove(&s->flows.by_key, &f->node);
        s->host.retire(s->host.ctx, f);
    }
}

void flow_fini_all(struct sched *s)
{
    list_foreach_safe(f, &s->flows.all, struct flow, all)
    {
        free_flow(s, f);
    }
    table_fini(&s->flows.by_key);
    table_fini(&s->flows.tenants);
    table_fini(&s->flows.stands);
    table_fini(&s->flows.shares);
    table_fini(&s->flows.stakes);
}

static bool is_same(const struct sched_flow_key *a, const struct sched_flow_key *b)
{
    return a->tenant == b->tenant && a->campaign == b->campaign && a->class == b->class;
}

static bool key_matches(const struct table_node *node, const void *key)
{
    return is_same(&container_of(node, const struct flow, node)->key, key);
}

/* false: no memory, nothing changed */
static bool begin_turns(struct sched *s)
{
    if (!flows_take_turns(s) && (join_tenant(s, &s->flow) != 0 || turn_begin(s) != 0)) {
        leave_tenant(s, &s->flow);
        return false;
    }
    return true;
}

static struct flow *flow_new(struct sched *s, const struct sched_flow_key *key, uint64_t hash)
{
    struct flow *f = NULL;
    if (table_reserve(&s->flows.by_key) == 0 && begin_turns(s)) {
        f = s->host.alloc(s->host.ctx, sizeof(*f));
    }
    if (f == NULL) {
        return NULL;
    }
    flow_init(f);
    f->key = *key;
    if (join_tenant(s, f) != 0) {
        s->host.release(s->host.ctx, f);
        return NULL;
    }
    f->node.hash = hash;
    f->number = ++s->flows.numbers;
    table_insert(&s->flows.by_key, &f->node);
    list_push_back(&s->flows.all, &f->all);
    return f;
}

struct flow *flow_obtain(struct sched *s, const struct sched_flow_key *key)
{
    struct flow *f = &s->flow;
    assert(key->class < SCHED_CLASSES);
    if (!is_same(&f->key, key)) {
        if (!flows_take_turns(s) && f->jobs == 0) {
            shared_set(&f->key.class, key->class);
            shared_set(&f->key.tenant, key->tenant);
            shared_set(&f->key.campaign, key->campaign);
            shared_set(&f->weight, 1);
        } else {
            uint64_t hash = hash_bytes(key, sizeof(*key), s->hash_seed);
            struct table_node *node = table_find(&s->flows.by_key, hash, key_matches, key);
            f = node == NULL ? flow_new(s, key, hash) : container_of(node, struct flow, node);
        }
    }
    if (f != NULL) {
        shared_add(&f->jobs, 1);
    }
    return f;
}

static struct flow *find_flow(const struct sched *s, const struct sched_flow_key *key)
{
    uint64_t hash = hash_bytes(key, sizeof(*key), s->hash_seed);
    struct table_node *node = table_find(&s->flows.by_key, hash, key_matches, key);
    return node == NULL ? NULL : container_of(node, struct flow, node);
}

bool sched_knows_flow(const struct sched *s, const struct sched_flow_key *key)
{
    const struct flow *f = is_same(&s->flow.key, key) ? &s->flow : find_flow(s, key);
    return f != NULL && f->jobs > 0;
}

static void free_unused(struct sched *s, struct flow *f)
{
    if (f->jobs == 0 && f->held == 0 && f != &s->flow) {
        free_flow(s, f);
    }
}

void flow_put(struct sched *s, struct flow *f)
{
    assert(f->jobs > 0);
    shared_sub(&f->jobs, 1);
    free_unused(s, f);
    /* The last job of all: the next one may be the only flow's again. */
    if (flows_take_turns(s) && s->by_id.count == 0) {
        unlink_live(&s->flow, &s->flows);
        leave_tenant(s, &s->flow);
        handover_end(s);
        s->flows.take_turns = false;
        s->flows.floors = (struct floors){0};
    }
}

void flow_hold(struct sched *s, struct flow *f, int change)
{
    shared_add(&f->held, (uint32_t)change);
    if (tree_node_is_linked(&f->in_live)) {
        file_live(s, f, f->is_live);
    }
    handover_file(s, f);
    free_unused(s, f);
}

void flow_weigh(struct sched *s, struct flow *f, uint16_t weight)
{
    assert(weight >= 1 && weight <= WEIGHT_MAX);
    shared_set(&f->weight, weight);
    flow_hold(s, f, 0);
}

void sched_tenant_weight(struct sched *s, uint32_t tenant, uint16_t weight, usec_t now)
{
    transport_enter(s, now);
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        if (f->key.tenant == tenant) {
            flow_weigh(s, f, weight);
        }
    }
}

/* --- which one is next ---------------------------------------------------------------------------- */

bool flow_has_current(struct sched *s)
{
    if (!flows_take_turns(s)) {
        return s->flow.current != NULL;
    }
    turn_settle_all(s); /* what has opened lets flows go on */
    for (int i = 0; i < SCHED_CLASSES; i++) {
        if (!tree_is_empty(&s->flows.live[i]) || !tree_is_empty(&s->flows.slotless[i])) {
            return true;
        }
    }
    return false;
}

void flow_wake(struct sched *s, struct flow *f)
{
    if (!f->is_live) {
        file_live(s, f, true);
    }
    if (!list_is_empty(&f->passed_shares)) {
        turn_retry(s, f);
    }
}

void flow_await_slot(struct sched *s, struct flow *f)
{
    f->passed_without_slot = true;
    if (!tree_node_is_linked(&f->in_live)) {
        file_live(s, f, false);
    }
}

void flow_rest(struct sched *s, struct flow *f)
{
    if (f->passed_without_slot) {
        file_live(s, f, false);
    } else {
        unlink_live(f, &s->flows);
    }
}

uint32_t flow_pick_class(const struct sched *s, const struct floors *floors,
                         const bool waits[SCHED_CLASSES])
{
    int64_t due = PERCENT - s->config.class_floor;
    bool has_lower = waits[SCHED_NORMAL] || waits[SCHED_BULK];
    if (waits[SCHED_URGENT] && (!has_lower || floors->of_lower < due)) {
        return SCHED_URGENT;
    }
    bool is_normal = waits[SCHED_NORMAL] && (!waits[SCHED_BULK] || floors->of_bulk < due);
    return is_normal ? SCHED_NORMAL : SCHED_BULK;
}

/* What the lower ones are owed grows while they wait and a higher one is served. */
static void charge_floor(int64_t *owed, bool waits, bool is_lower, bool is_higher, int64_t floor,
                         int64_t units)
{
    if (!waits && *owed > 0) {
        *owed = 0;
    }
    if (waits && is_higher) {
        *owed += floor * units;
    } else if (is_lower) {
        *owed -= (PERCENT - floor) * units;
        int64_t least =
            -PERCENT * units; /* what it took beyond its due while nobody waited is free */
        *owed = *owed < least ? least : *owed;
    }
}

void flow_charge_class(const struct sched *s, struct floors *floors,
                       const bool waits[SCHED_CLASSES], uint32_t class, uint32_t units)
{
    int64_t floor = s->config.class_floor;
    bool has_lower = waits[SCHED_NORMAL] || waits[SCHED_BULK];
    charge_floor(&floors->of_lower, has_lower, class != SCHED_URGENT && waits[SCHED_URGENT],
                 class == SCHED_URGENT, floor, units);
    charge_floor(&floors->of_bulk, waits[SCHED_BULK], class == SCHED_BULK && waits[SCHED_NORMAL],
                 class == SCHED_NORMAL, floor, units);
}

static bool has_flows(const struct sched *s, int class, bool with_slotless)
{
    return !tree_is_empty(&s->flows.live[class]) ||
           (with_slotless && !tree_is_empty(&s->flows.slotless[class]));
}

bool flow_is_any_live(const struct sched *s)
{
    for (int i = 0; i < SCHED_CLASSES; i++) {
        if (has_flows(s, i, false)) {
            return true;
        }
    }
    return false;
}

void flow_look_again(struct sched *s, struct flow *f)
{
    if (f->passed_without_slot && connection_has_slot(s)) {
        f->passed_without_slot = false;
        job_unblock_all(s, f);
        flow_wake(s, f);
    }
}

struct flow *flow_pick(struct sched *s)
{
    bool has_slot = connection_has_slot(s), is_any = false, waits[SCHED_CLASSES];
    for (int i = 0; i < SCHED_CLASSES; i++) {
        waits[i] = has_flows(s, i, has_slot);
        is_any = is_any || waits[i];
    }
    if (!is_any) {
        return NULL;
    }
    uint32_t class = flow_pick_class(s, &s->flows.floors, waits);
    const struct tree_node *n = s->flows.live[class].first;
    const struct tree_node *other = has_slot ? s->flows.slotless[class].first : NULL;
    /* Of equals who waited for a slot goes first: the others had theirs. */
    if (n == NULL || (other != NULL && live_key(other) <= live_key(n))) {
        n = other;
    }
    struct flow *f = container_of(n, struct flow, in_live);
    flow_look_again(s, f);
    return f;
}

bool flow_is_due(const struct sched *s, const struct flow *f, const struct flow *other)
{
    const struct flow_scale *scale = &s->flows.scales[f->key.class];
    uint64_t level = level_of(scale, f), least = level_of(scale, other);
    uint64_t taken = f->taken < scale->tag ? scale->tag : f->taken;
    return level < least ||
           (level == least && taken <= other->taken + TURNS_AHEAD * WEIGHT_MAX / f->weight);
}

void flow_charge(struct sched *s, struct flow *f)
{
    bool waits[SCHED_CLASSES];
    uint32_t class = f->key.class;
    for (int i = 0; i < SCHED_CLASSES; i++) {
        waits[i] = has_flows(s, i, true);
    }
    flow_charge_class(s, &s->flows.floors, waits, class, 1);
    if (++s->flows.scales[class].charges > s->flows.by_key.count) {
        measure_class(s, class);
    }
}

void flow_take(struct sched *s, struct flow *f)
{
    if (!s->flows.has_claimed) { /* else others are before it */
        s->flows.scales[f->key.class].tag = f->taken;
    }
    f->taken += WEIGHT_MAX / f->weight;
    flow_hold(s, f, 1);
}
