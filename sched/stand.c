/* Stands of flows at destinations, and their shares at parties: which there are. Called by peer (flows
 * that come and go), site (destinations that move) and flow (the second one comes). What they mean for
 * whose turn it is, is in sched/turn.c.
 *
 * Most stands have their share for themselves, and are found by it; only those of a share with several are in a
 * table of their own besides.
 *
 * A destination can always leave its site, also without memory. A stand whose share at the site has
 * another stand as well has a share at its destination's own party meanwhile, which it does not use; one
 * that has its share for itself takes the memory of that along. The turn of the own party is kept as
 * long as there are stands of its destination, and the tables have room for what may come. */
#include "sched/destination.h"
#include "sched/job.h"
#include "sched/parking.h"
#include "sched/place/claim.h"
#include "sched/place/handover.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/place/stake.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* --- which there are ------------------------------------------------------------------------------ */

struct pair_key {
    const void *a, *b;
};

uint64_t turn_hash(const struct sched *s, uint64_t a, uint64_t b)
{
    uint64_t hash = (a * UINT64_C(0x9e3779b97f4a7c15) + b) ^ s->hash_seed;
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* the mixer of splitmix64 */
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static bool stand_matches(const struct table_node *node, const void *key)
{
    const struct stand *stand = container_of(node, const struct stand, node);
    const struct pair_key *k = key;
    return stand->flow == k->a && stand->destination == k->b;
}

static bool share_matches(const struct table_node *node, const void *key)
{
    const struct share *share = container_of(node, const struct share, node);
    const struct pair_key *k = key;
    return share->flow == k->a && share->turn == k->b;
}

/* NULL: it has none at the destination's party. */
static struct share *share_at(const struct sched *s, const struct flow *f,
                              const struct sched_destination *d)
{
    const struct turn *t = d->party->turn;
    return t == NULL ? NULL : turn_share(s, f, t);
}

/* share: of the destination's party, or NULL */
static struct stand *stand_of_share(const struct sched *s, const struct share *share,
                                    const struct sched_destination *d)
{
    if (share == NULL) {
        return NULL;
    }
    if (share->only != NULL) {
        return share->only->destination == d ? share->only : NULL;
    }
    const struct pair_key key = {share->flow, d};
    uint64_t hash = turn_hash(s, share->flow->number, d->node.hash);
    struct table_node *node = table_find(&s->flows.stands, hash, stand_matches, &key);
    return node == NULL ? NULL : container_of(node, struct stand, node);
}

struct stand *turn_stand(const struct sched *s, const struct flow *f,
                         const struct sched_destination *d)
{
    return stand_of_share(s, share_at(s, f, d), d);
}

/* Where a turn is: at a party, or else at the lanes of a set. */
struct at {
    struct party *party;
    struct lane_set *set;
};

static struct at at_party(struct party *p)
{
    return (struct at){.party = p};
}

static struct at at_lanes(const struct party *p)
{
    return (struct at){.set = shared_party_of(p)->set};
}

static bool has_lanes(const struct party *p)
{
    return p->site != NULL && shared_party_of(p)->set->is_shared;
}

static struct turn **turn_at(struct at at)
{
    return at.party != NULL ? &at.party->turn : &at.set->flow_turn;
}

static struct turn *obtain_turn(struct sched *s, struct at at)
{
    struct turn *t = *turn_at(at);
    if (t != NULL) {
        return t;
    }
    t = s->host.alloc(s->host.ctx, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    memset(t, 0, sizeof(*t));
    t->party = at.party;
    t->set = at.set;
    t->number = ++s->flows.numbers;
    turn_init_trees(t);
    shortage_init_turn(t);
    tree_node_init(&t->in_ready);
    list_init(&t->in_flow);
    list_init(&t->passed);
    list_init(&t->touched);
    list_init(&t->in_ahead);
    list_init(&t->in_claims);
    tree_node_init(&t->in_barred);
    *turn_at(at) = t;
    return t;
}

static void settle_turn(struct sched *s, struct turn *t)
{
    if (t->holders == 0) {
        list_remove(&t->touched);
        list_remove(&t->in_unlimited);
        list_remove(&t->in_ahead);
        claim_forget(s, t);
        turn_unbar(t);
        *turn_at((struct at){t->party, t->set}) = NULL;
        s->host.release(s->host.ctx, t);
    }
}

static void let_turn_go(struct sched *s, struct turn *t)
{
    t->holders--;
    settle_turn(s, t);
}

struct share *turn_share(const struct sched *s, const struct flow *f, const struct turn *t)
{
    const struct pair_key key = {f, t};
    struct table_node *node =
        table_find(&s->flows.shares, turn_hash(s, f->number, t->number), share_matches, &key);
    return node == NULL ? NULL : container_of(node, struct share, node);
}

/* The tables have room for it and its stake. brought: NULL unless its flow's shares bring one */
static void place_share(struct sched *s, struct share *share, struct stake *brought, struct flow *f,
                        struct turn *t)
{
    memset(share, 0, sizeof(*share));
    share->flow = f;
    share->turn = t;
    stake_join(s, share, brought);
    share->node.hash = turn_hash(s, f->number, t->number);
    turn_init_share(share);
    shortage_init_share(share);
    tree_node_init(&share->in_turn);
    t->holders++;
    table_insert(&s->flows.shares, &share->node);
}

/* Returns the memory of its stake, or as much; NULL: it brought none. */
static struct stake *displace_share(struct sched *s, struct share *share)
{
    struct turn *t = share->turn;
    assert(share->stands == 0 && share->waiting == 0 && tree_is_empty(&share->queue) &&
           !share->is_passed && !share->is_listed);
    if (t->whose == share) {
        turn_give(t, NULL, OPEN_NOT);
    }
    list_remove(&share->in_marked);
    t->last = t->last == share ? NULL : t->last;
    t->claimant = t->claimant == share ? NULL : t->claimant;
    table_remove(&s->flows.shares, &share->node);
    struct stake *left = stake_leave(s, share);
    let_turn_go(s, t);
    return left;
}

static struct share *new_share(struct sched *s, struct flow *f, struct turn *t)
{
    struct share *share = NULL;
    struct stake *stake = NULL;
    if (table_reserve(&s->flows.shares) != 0) {
        return NULL;
    }
    if (stake_is_brought_by(f)) {
        stake = table_reserve(&s->flows.stakes) != 0 ? NULL
                                                     : s->host.alloc(s->host.ctx, sizeof(*stake));
        if (stake == NULL) {
            return NULL;
        }
    }
    share = s->host.alloc(s->host.ctx, sizeof(*share));
    if (share != NULL) {
        place_share(s, share, stake, f, t);
    } else {
        stake_release(s, stake);
    }
    return share;
}

/* With one stand more. share: the one that the flow has there, or NULL. NULL: no memory */
static struct share *enter_turn(struct sched *s, struct flow *f, struct turn *t,
                                struct share *share)
{
    share = share == NULL ? new_share(s, f, t) : share;
    if (share != NULL) {
        share->stands++;
    } else {
        settle_turn(s, t);
    }
    return share;
}

static struct share *obtain_share(struct sched *s, struct flow *f, struct at at)
{
    struct turn *t = obtain_turn(s, at);
    return t == NULL ? NULL : enter_turn(s, f, t, turn_share(s, f, t));
}

static void put_share(struct sched *s, struct share *share)
{
    assert(share->stands > 0);
    share->stands--;
    if (share->stands == 0) {
        stake_release(s, displace_share(s, share));
        s->host.release(s->host.ctx, share);
    }
}

/* --- the way back to its own party ---------------------------------------------------------------- */

static bool promise_own(struct sched *s, const struct flow *f)
{
    if (table_promise(&s->flows.shares) != 0) {
        return false;
    }
    if (stake_is_brought_by(f) && table_promise(&s->flows.stakes) != 0) {
        table_take_back(&s->flows.shares);
        return false;
    }
    return true;
}

static void take_back_own(struct sched *s, const struct flow *f)
{
    table_take_back(&s->flows.shares);
    if (stake_is_brought_by(f)) {
        table_take_back(&s->flows.stakes);
    }
}

/* It does not depend on the share that it has any more. false: no memory */
static bool give_own(struct sched *s, struct stand *stand)
{
    struct turn *t = obtain_turn(s, at_party(&stand->destination->own));
    stand->own = t == NULL ? NULL : enter_turn(s, stand->flow, t, NULL);
    if (stand->own == NULL) {
        return false;
    }
    stand->own->only = stand;
    take_back_own(s, stand->flow);
    return true;
}

/* It is found by itself, and has a share to go back to. false: no memory */
static bool become_one_of_several(struct sched *s, struct stand *stand)
{
    if (stand->own == NULL && !give_own(s, stand)) {
        return false;
    }
    if (stand->is_in_table) {
        return true;
    }
    if (table_reserve(&s->flows.stands) != 0) {
        return false;
    }
    stand->node.hash = turn_hash(s, stand->flow->number, stand->destination->node.hash);
    table_insert(&s->flows.stands, &stand->node);
    stand->is_in_table = true;
    return true;
}

/* The stand, which was counted, comes to a share at a site. false: no memory */
static bool come_to_share(struct sched *s, struct stand *stand, struct share *share)
{
    if (share->stands == 1) {
        share->only = stand;
        return true;
    }
    if (share->only != NULL && !become_one_of_several(s, share->only)) {
        return false;
    }
    share->only = NULL;
    return become_one_of_several(s, stand);
}

/* --- stands --------------------------------------------------------------------------------------- */

static void init_standing(struct standing *at, struct stand *stand)
{
    *at = (struct standing){.stand = stand};
    tree_node_init(&at->in_queue);
}

/* It can stand at lanes. false: no memory */
static bool reserve_lanes(struct sched *s, struct stand *stand)
{
    if (stand->at_lanes == NULL) {
        stand->at_lanes = s->host.alloc(s->host.ctx, sizeof(*stand->at_lanes));
        if (stand->at_lanes == NULL) {
            return false;
        }
        init_standing(stand->at_lanes, stand);
    }
    return true;
}

/* Unless it stands there. */
static void forget_lanes(struct sched *s, struct stand *stand)
{
    if (stand->at_lanes != NULL && stand->at_lanes->share == NULL) {
        s->host.release(s->host.ctx, stand->at_lanes);
        stand->at_lanes = NULL;
    }
}

/* What was counted there is not any more. */
static void quit_lanes(struct sched *s, struct stand *stand)
{
    struct share *lanes = turn_share_at_lanes(stand);
    if (lanes != NULL) {
        stand->at_lanes->share = NULL;
        put_share(s, lanes);
    }
}

/* Nothing of it is counted there yet. false: no memory */
static bool enter_lanes(struct sched *s, struct stand *stand, const struct party *p)
{
    if (!reserve_lanes(s, stand)) {
        return false;
    }
    stand->at_lanes->share = obtain_share(s, stand->flow, at_lanes(p));
    forget_lanes(s, stand);
    return stand->at_lanes != NULL;
}

static void drop_stand(struct sched *s, struct stand *stand)
{
    struct turn *t = stand->destination->own.turn;
    if (stand->at_party.share != NULL && stand->at_party.share != stand->own) {
        put_share(s, stand->at_party.share);
    }
    quit_lanes(s, stand);
    forget_lanes(s, stand);
    if (stand->own != NULL) {
        put_share(s, stand->own);
    } else {
        take_back_own(s, stand->flow);
    }
    if (stand->is_in_table) {
        table_remove(&s->flows.stands, &stand->node);
    }
    let_turn_go(s, t);
    s->host.release(s->host.ctx, stand);
}

/* It has its share, and what it needs to leave that. share: of its flow at the party, or NULL */
static bool take_place(struct sched *s, struct stand *stand, struct share *share)
{
    struct sched_destination *d = stand->destination;
    if (d->party == &d->own) {
        stand->at_party.share = give_own(s, stand) ? stand->own : NULL;
        return stand->at_party.share != NULL;
    }
    struct turn *t = obtain_turn(s, at_party(d->party));
    share = t == NULL ? NULL : enter_turn(s, stand->flow, t, share);
    if (share == NULL) {
        return false;
    }
    stand->at_party.share = share;
    if (has_lanes(d->party) && !enter_lanes(s, stand, d->party)) {
        return false;
    }
    return come_to_share(s, stand, share);
}

/* share: of the flow at the destination's party, or NULL */
static struct stand *new_stand(struct sched *s, struct flow *f, struct sched_destination *d,
                               struct share *share)
{
    struct turn *t = obtain_turn(s, at_party(&d->own));
    struct stand *stand = NULL;
    if (t == NULL) {
        return NULL;
    }
    if (promise_own(s, f)) {
        stand = s->host.alloc(s->host.ctx, sizeof(*stand));
        if (stand == NULL) {
            take_back_own(s, f);
        }
    }
    if (stand == NULL) {
        settle_turn(s, t);
        return NULL;
    }
    memset(stand, 0, sizeof(*stand));
    stand->flow = f;
    stand->destination = d;
    init_standing(&stand->at_party, stand);
    t->holders++;
    if (!take_place(s, stand, share)) {
        drop_stand(s, stand);
        return NULL;
    }
    turn_init_stand(stand);
    list_push_back(&d->stands, &stand->in_destination);
    return stand;
}

struct stand *turn_add_peer(struct sched *s, struct flow *f, struct sched_destination *d)
{
    struct share *share = share_at(s, f, d);
    struct stand *stand = stand_of_share(s, share, d);
    stand = stand == NULL ? new_stand(s, f, d, share) : stand;
    if (stand != NULL) {
        stand->peers++;
    }
    return stand;
}

void turn_remove_peer(struct sched *s, struct peer *p)
{
    struct stand *stand = p->stand;
    assert(stand != NULL);
    p->stand = NULL;
    stand->peers--;
    if (stand->peers > 0) {
        return;
    }
    assert(stand->waiting == 0 && tree_is_empty(&stand->parked));
    list_remove(&stand->in_destination);
    drop_stand(s, stand);
}

/* --- destinations that move ----------------------------------------------------------------------- */

static void put_staged(struct sched *s, struct stand *stand, struct share *share,
                       struct share *lanes)
{
    put_share(s, share);
    if (lanes != NULL) {
        put_share(s, lanes);
    }
    forget_lanes(s, stand);
}

/* false: no memory */
static bool stage_stand(struct sched *s, struct stand *stand, struct party *to)
{
    struct share *share = obtain_share(s, stand->flow, at_party(to));
    if (share == NULL) {
        return false;
    }
    struct share *lanes = NULL;
    if (has_lanes(to) && reserve_lanes(s, stand)) {
        lanes = obtain_share(s, stand->flow, at_lanes(to));
    }
    if ((lanes == NULL && has_lanes(to)) || !come_to_share(s, stand, share)) {
        put_staged(s, stand, share, lanes);
        return false;
    }
    return true;
}

int turn_stage(struct sched *s, struct sched_destination *d, struct party *to)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        if (stage_stand(s, stand, to)) {
            continue;
        }
        for (struct list *at = stand->in_destination.prev; at != &d->stands; at = at->prev) {
            struct stand *staged = container_of(at, struct stand, in_destination);
            const struct flow *f = staged->flow;
            const struct turn *lanes = shared_party_of(to)->set->flow_turn;
            put_staged(s, staged, turn_share(s, f, to->turn),
                       has_lanes(to) ? turn_share(s, f, lanes) : NULL);
        }
        return -ENOMEM;
    }
    return 0;
}

/* The memory of a share that nobody else uses goes along: it has no turn then. */
static void leave_share(struct sched *s, struct stand *stand, struct share *share)
{
    if (stand->own != NULL) {
        put_share(s, share);
        return;
    }
    assert(share->stands == 1);
    share->stands = 0;
    share->stake = displace_share(s, share);
    share->turn = NULL;
    stand->own = share;
}

static void leave_lanes(struct sched *s, struct stand *stand)
{
    struct share *lanes = turn_share_at_lanes(stand);
    if (lanes != NULL) {
        turn_count_share(s, lanes, -(int)stand->waiting);
        quit_lanes(s, stand);
    }
}

void turn_leave(struct sched *s, struct sched_destination *d)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        struct share *share = stand->at_party.share;
        turn_unfile_stand(s, stand);
        turn_count_share(s, share, -(int)stand->waiting);
        stand->at_party.share = NULL;
        stand->was_marked = share->tag == stand->flow->tag;
        if (d->party != &d->own) {
            leave_share(s, stand, share); /* that of its own party stays */
        }
        leave_lanes(s, stand);
    }
}

/* What it took along becomes its share, or is not needed. */
static void use_taken(struct sched *s, struct stand *stand, bool is_own)
{
    struct share *taken = stand->own;
    if (taken == NULL || taken->turn != NULL) {
        return;
    }
    if (is_own) {
        place_share(s, taken, taken->stake, stand->flow, stand->destination->own.turn);
        taken->stands = 1;
        taken->only = stand;
        take_back_own(s, stand->flow);
    } else {
        stand->own = NULL;
        stake_release(s, taken->stake);
        s->host.release(s->host.ctx, taken);
    }
}

static void join_share(struct sched *s, struct stand *stand, struct standing *at,
                       struct share *share)
{
    assert(share != NULL);
    at->share = share;
    turn_count_share(s, share, (int)stand->waiting);
    if (stand->was_marked) {
        share->tag = stand->flow->tag;
    }
}

void turn_arrive(struct sched *s, struct sched_destination *d)
{
    bool is_own = d->party == &d->own;
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        use_taken(s, stand, is_own);
        join_share(s, stand, &stand->at_party,
                   is_own ? stand->own : turn_share(s, stand->flow, d->party->turn));
        if (has_lanes(d->party)) {
            const struct turn *lanes = shared_party_of(d->party)->set->flow_turn;
            join_share(s, stand, stand->at_lanes, turn_share(s, stand->flow, lanes));
        }
        forget_lanes(s, stand);
        turn_file_stand(s, stand);
        turn_review_stand(s, stand);
    }
}

/* --- lanes that several parties share ------------------------------------------------------------- */

/* Those of its only party. false: no memory */
static bool add_lanes(struct sched *s, const struct party *p)
{
    list_foreach(d, &shared_party_of(p)->members, struct sched_destination, in_party)
    {
        list_foreach(stand, &d->stands, struct stand, in_destination)
        {
            if (!enter_lanes(s, stand, p)) {
                return false;
            }
        }
    }
    return true;
}

/* Nothing is counted there yet. */
static void remove_lanes(struct sched *s, const struct party *p)
{
    list_foreach(d, &shared_party_of(p)->members, struct sched_destination, in_party)
    {
        list_foreach(stand, &d->stands, struct stand, in_destination)
        {
            quit_lanes(s, stand);
            forget_lanes(s, stand);
        }
    }
}

/* Whoever was served at the party has paid for it at the lanes: said once of each share, which stands where its tag
 * says as soon as something of it waits. */
static void count_lanes(struct sched *s, const struct party *p)
{
    list_foreach(d, &shared_party_of(p)->members, struct sched_destination, in_party)
    {
        list_foreach(stand, &d->stands, struct stand, in_destination)
        {
            struct share *lanes = stand->at_lanes->share;
            if (lanes->waiting == 0) {
                lanes->start = stand->at_party.share->start;
                lanes->tag = stand->at_party.share->tag;
            }
            turn_count_share(s, lanes, (int)stand->waiting);
        }
    }
}

int turn_begin_lanes(struct sched *s, struct lane_set *set)
{
    assert(set->parties == 1 && set->flow_turn == NULL);
    list_foreach(q, &set->site->parties, struct shared_party, in_site)
    {
        const struct turn *from = q->party.turn;
        if (q->set != set || from == NULL) {
            continue;
        }
        if (!add_lanes(s, &q->party)) {
            remove_lanes(s, &q->party);
            return -ENOMEM;
        }
        if (set->flow_turn != NULL) {
            memcpy(set->flow_turn->served, from->served, sizeof(from->served));
            set->flow_turn->floors = from->floors;
        }
        count_lanes(s, &q->party);
    }
    return 0;
}

/* --- the beginning -------------------------------------------------------------------------------- */

static uint32_t count_waiting(const struct peer *p)
{
    uint32_t count = 0;
    for (const struct sched_entry *e = entry_queue_first(&p->waiting); e != NULL;
         e = entry_queue_next(&p->waiting, e)) {
        count++;
    }
    return count;
}

/* Of all peers in the order of the table; the first `most` of them. Returns how many it was. */
static uint64_t add_all(struct sched *s)
{
    uint64_t done = 0, cursor = 0;
    struct table_node *node;
    while ((node = table_next(&s->by_id, &cursor)) != NULL) {
        list_foreach(p, &container_of(node, struct job, node)->peers, struct peer, link)
        {
            p->stand = turn_add_peer(s, p->job->flow, p->destination);
            if (p->stand == NULL) {
                return done;
            }
            done++;
        }
    }
    return UINT64_MAX;
}

static void remove_some(struct sched *s, uint64_t count)
{
    uint64_t cursor = 0;
    struct table_node *node;
    while (count > 0 && (node = table_next(&s->by_id, &cursor)) != NULL) {
        list_foreach(p, &container_of(node, struct job, node)->peers, struct peer, link)
        {
            if (count > 0) {
                turn_remove_peer(s, p);
                count--;
            }
        }
    }
}

static void count_all(struct sched *s)
{
    uint64_t cursor = 0;
    struct table_node *node;
    while ((node = table_next(&s->by_id, &cursor)) != NULL) {
        list_foreach(p, &container_of(node, struct job, node)->peers, struct peer, link)
        {
            turn_count_waiting(s, p, (int)count_waiting(p));
        }
    }
}

/* Nothing is parked or passed over when it begins. */
int turn_begin(struct sched *s)
{
    struct flow *f = &s->flow;
    list_foreach(j, &f->schedule, struct job, in_schedule)
    {
        if (j->place == JOB_PARKED) {
            parking_run(s, j);
        }
    }
    job_unblock_all(s, f);
    uint64_t done = add_all(s);
    if (done != UINT64_MAX) {
        remove_some(s, done);
        return -ENOMEM;
    }
    s->flows.take_turns = true;
    f->passed_without_slot = false;
    handover_begin(s);
    count_all(s);
    if (f->current != NULL) {
        flow_wake(s, f);
    }
    return 0;
}
