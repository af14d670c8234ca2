/* See the header. Called by connection (who holds what), selection (when nothing is found) and stand.
 *
 * A flow waits for a connection at parties that lack only a slot (sched/place/shortage.h). It is given
 * one by the flow that keeps most for its weight, if that one keeps no less than it afterwards; or, when
 * it holds none at all, by whoever keeps most: then more flows wait than there are connections, and each
 * has one for a depth's worth. Of another class than that whose turn it is, lower ones give first. What was
 * given over and is not free yet counts as provided, so no more drain than are wanted. */
#include "sched/place/handover.h"

#include "sched/destination.h"
#include "sched/flow.h"
#include "sched/place/claim.h"
#include "sched/place/connection.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/shared.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>

#define YIELD_PART 8 /* of the busy connections of a site: so many yield their places at a time */

enum {
    FLOWS_LOOKED_AT = 16,
    PLACES_LOOKED_AT = 4
}; /* of those that wait: one pass costs no more */

/* So that two numbers of connections differ at any two weights up to 1,000. */
#define KEPT_UNIT 1000000

static uint32_t kept(const struct flow *f)
{
    return f->held - f->giving;
}

void handover_file(struct sched *s, struct flow *f)
{
    struct tree *t = &s->flows.holders[f->key.class];
    if (tree_node_is_linked(&f->in_holders)) {
        tree_remove(t, &f->in_holders);
    }
    if (kept(f) > 0) {
        f->keeps = (uint64_t)kept(f) * KEPT_UNIT / f->weight;
        tree_insert(t, &f->in_holders);
    }
}

void handover_hold(struct sched *s, struct flow *f, struct connection *c)
{
    c->flow = f;
    list_push_back(&f->connections, &c->in_flow);
    flow_take(s, f);
}

void handover_release(struct sched *s, struct connection *c)
{
    struct flow *f = c->flow;
    list_remove(&c->in_flow);
    if (c->is_given) {
        c->is_given = false;
        f->giving--;
        s->flows.giving--;
    }
    c->flow = NULL;
    flow_hold(s, f, -1);
}

void handover_begin(struct sched *s)
{
    for (uint32_t i = 0; i < s->connection_count; i++) {
        struct connection *c = connection_at(s, i);
        if (c->state == CONNECTION_BUSY && c->flow == NULL) {
            handover_hold(s, &s->flow, c);
        }
    }
}

void handover_end(struct sched *s)
{
    for (uint32_t i = 0; i < s->connection_count; i++) {
        struct connection *c = connection_at(s, i);
        if (c->flow != NULL) {
            handover_release(s, c);
        }
    }
}

/* Of all lanes of the set. */
static int64_t windows_left_of(const struct sched *s, const struct lane_set *set)
{
    const struct site *site = set->site;
    int64_t sum = 0, limit = site_limit(s, site);
    LANE_FOREACH(l, site, set->mask & site->fresh)
    {
        int64_t left = (int64_t)l->lane.window - l->lane.busy;
        sum += left > 0 ? left : 0;
    }
    int64_t most = limit > 0 ? limit - site->busy : sum;
    return most < sum ? most : sum;
}

/* Of all lanes that whoever has the turn may use. */
static int64_t windows_left(const struct sched *s, const struct turn *t)
{
    if (t->set != NULL) {
        return windows_left_of(s, t->set);
    }
    if (t->party->site != NULL) {
        return windows_left_of(s, shared_party_of(t->party)->set);
    }
    const struct lane *lane = &party_owner(t->party)->lane;
    return (int64_t)lane->window - lane->busy;
}

/* Connections that the flow could use at a party at once, at least, besides those that this pass has found for
 * others: as many as entries wait and windows have room for. */
static uint32_t wanted_at(const struct sched *s, const struct share *share)
{
    struct turn *t = share->turn;
    if (t->pass != s->flows.pass) {
        t->pass = s->flows.pass;
        t->found = 0;
    }
    int64_t left = windows_left(s, t) - t->found;
    left = left > 0 ? left : 0;
    return left < share->waiting ? (uint32_t)left : share->waiting;
}

static struct flow *greatest(const struct sched *s, int class)
{
    const struct tree_node *n = s->flows.holders[class].last;
    return n == NULL ? NULL : container_of(n, struct flow, in_holders);
}

/* Whoever gives one to a flow that has `has` of them by now. NULL: nobody. */
static struct flow *giver(const struct sched *s, const struct flow *to, uint32_t has)
{
    int own = (int)to->key.class;
    for (int class = SCHED_CLASSES - 1; class > own; class --) {
        if (greatest(s, class) != NULL) {
            return greatest(s, class);
        }
    }
    struct flow *f = greatest(s, own);
    if (f != NULL && f != to &&
        (has == 0 || (uint64_t)(has + 1) * f->weight <= (uint64_t)(kept(f) - 1) * to->weight)) {
        return f;
    }
    for (int class = own - 1; class >= 0 && has == 0; class --) {
        if (greatest(s, class) != NULL) {
            return greatest(s, class);
        }
    }
    return NULL;
}

/* The one that it has held longest. */
static void give_one(struct sched *s, struct flow *f)
{
    struct connection *c = list_first(&f->connections, struct connection, in_flow);
    list_remove(&c->in_flow);
    c->is_given = true;
    f->giving++;
    s->flows.giving++;
    s->flows.has_given = true;
    handover_file(s, f);
    connection_drain_one(s, c);
}

/* A flow that waits, while others keep connections. */
struct recipient {
    struct flow *flow;
    uint32_t has;
    int looks;
};

/* What it could use at a place. false: nobody gives it any more
 *
 * provided   in/out: was given over before, and is for nobody as yet */
static bool provide_at(struct sched *s, struct recipient *to, const struct share *share,
                       uint32_t *provided)
{
    uint32_t wants = wanted_at(s, share);
    to->looks++;
    for (uint32_t i = 0; i < wants; i++, to->has++) {
        struct flow *from = *provided > 0 ? NULL : giver(s, to->flow, to->has);
        if (*provided > 0) {
            (*provided)--;
        } else if (from != NULL) {
            give_one(s, from);
        } else {
            return false;
        }
        share->turn->found++;
    }
    return true;
}

/* Where it has the turn, and claims a slot; and where any flow could use one. */
static void provide(struct sched *s, struct flow *f, uint32_t *provided)
{
    struct recipient to = {f, f->held, 0};
    list_foreach(t, &f->holds, struct turn, in_flow)
    {
        if (to.looks == PLACES_LOOKED_AT ||
            (claim_stands(t) && !provide_at(s, &to, t->whose, provided))) {
            return;
        }
    }
    for (const struct share *share = shortage_first(f);
         share != NULL && to.looks < PLACES_LOOKED_AT; share = shortage_next(share)) {
        if (!share->turn->is_free) {
            to.looks++;
        } else if (!provide_at(s, &to, share, provided)) {
            return;
        }
    }
}

/* The class whose turn it is to get the next slot. */
static uint32_t class_of_turn(const struct sched *s)
{
    bool waits[SCHED_CLASSES];
    for (int i = 0; i < SCHED_CLASSES; i++) {
        waits[i] = !tree_is_empty(&s->flows.slotless[i]);
    }
    return flow_pick_class(s, &s->flows.floors, waits);
}

void handover_run(struct sched *s)
{
    turn_yield_all(s);
    if (connection_has_slot(s)) {
        return;
    }
    turn_settle_all(s);
    uint32_t provided = s->flows.giving;
    s->flows.pass++;
    int looks = 0;
    const struct tree *waiting = &s->flows.slotless[class_of_turn(s)];
    for (struct tree_node *n = waiting->first; n != NULL && looks < FLOWS_LOOKED_AT;
         n = tree_next(n), looks++) {
        provide(s, container_of(n, struct flow, in_live), &provided);
    }
}

bool handover_yield(struct sched *s, struct connection *c)
{
    struct lane_set *set = shared_party_of(c->party)->set;
    bool takes_no_more = c->is_closing || c->is_retired || c->is_draining;
    int most = 1 + set->site->busy / YIELD_PART;
    if (c->state != CONNECTION_BUSY || takes_no_more || set->yielding >= most) {
        return false;
    }
    c->is_yielding = true;
    set->yielding++;
    connection_drain_one(s, c);
    return true;
}

const char *handover_check(const struct sched *s, const struct flow *f)
{
    uint32_t listed = 0, given = 0;
    list_foreach(c, &f->connections, const struct connection, in_flow)
    {
        if (c->flow != f || c->is_given) {
            return "a connection that a flow keeps";
        }
        listed++;
    }
    for (uint32_t i = 0; i < s->connection_count; i++) {
        const struct connection *c = connection_at(s, i);
        given += c->flow == f && c->is_given;
    }
    if (listed != kept(f) || given != f->giving ||
        (listed > 0) != tree_node_is_linked(&f->in_holders) ||
        (listed > 0 && f->keeps != (uint64_t)kept(f) * KEPT_UNIT / f->weight)) {
        return "what a flow keeps and gives over";
    }
    return NULL;
}
