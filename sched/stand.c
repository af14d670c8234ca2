/* Stands of flows at destinations, and their shares at parties: which there are. Called by peer (flows
 * that come and go), site (destinations that move) and flow (the second one comes). What they mean for
 * whose turn it is, is in sched/turn.c.
 *
 * Each stand has a share at its destination's own party, whether it uses that or not, so that the
 * destination can always leave its site. */
#include "base/hash.h"
#include "sched/destination.h"
#include "sched/job.h"
#include "sched/parking.h"
#include "sched/place/handover.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* --- which there are ------------------------------------------------------------------------------ */

struct pair_key {
    const void *a, *b;
};

/* Of numbers and not of addresses: when a table grows must not depend on where memory lies. */
static uint64_t pair_hash(const struct sched *s, uint64_t a, uint64_t b)
{
    uint64_t pair[2] = {a, b};
    return hash_bytes(pair, sizeof(pair), s->hash_seed);
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

static bool stake_matches(const struct table_node *node, const void *key)
{
    const struct stake *a = container_of(node, const struct stake, node), *b = key;
    return a->turn == b->turn && a->class == b->class && a->tenant == b->tenant;
}

struct stand *turn_stand(const struct sched *s, const struct flow *f,
                         const struct sched_destination *d)
{
    const struct pair_key key = {f, d};
    struct table_node *node =
        table_find(&s->flows.stands, pair_hash(s, f->number, d->node.hash), stand_matches, &key);
    return node == NULL ? NULL : container_of(node, struct stand, node);
}

static struct turn *obtain_turn(struct sched *s, struct party *p)
{
    struct turn *t = p->turn;
    if (t == NULL) {
        t = s->host.alloc(s->host.ctx, sizeof(*t));
    }
    if (t == NULL || p->turn == t) {
        return t;
    }
    memset(t, 0, sizeof(*t));
    t->party = p;
    t->number = ++s->flows.numbers;
    turn_init_trees(t);
    shortage_init_turn(t);
    tree_node_init(&t->in_ready);
    list_init(&t->in_flow);
    list_init(&t->passed);
    list_init(&t->touched);
    p->turn = t;
    return t;
}

static void settle_turn(struct sched *s, struct turn *t)
{
    if (t->shares == 0) {
        list_remove(&t->touched);
        list_remove(&t->in_unlimited);
        t->party->turn = NULL;
        s->host.release(s->host.ctx, t);
    }
}

/* errors: NULL, no memory */
static struct stake *obtain_stake(struct sched *s, struct turn *t, const struct flow *f)
{
    const struct stake key = {.turn = t, .class = f->key.class, .tenant = f->key.tenant};
    uint64_t number = (uint64_t)f->key.class << 32 | f->key.tenant;
    uint64_t hash = pair_hash(s, number, t->number);
    struct table_node *node = table_find(&s->flows.stakes, hash, stake_matches, &key);
    struct stake *stake = node == NULL ? NULL : container_of(node, struct stake, node);
    if (stake == NULL && table_reserve(&s->flows.stakes) == 0) {
        stake = s->host.alloc(s->host.ctx, sizeof(*stake));
        if (stake != NULL) {
            *stake = key;
            stake->node.hash = hash;
            table_insert(&s->flows.stakes, &stake->node);
        }
    }
    return stake;
}

static void put_stake(struct sched *s, struct stake *stake)
{
    if (stake->shares == 0) {
        table_remove(&s->flows.stakes, &stake->node);
        s->host.release(s->host.ctx, stake);
    }
}

static struct share *find_share(const struct sched *s, const struct flow *f, const struct turn *t)
{
    const struct pair_key key = {f, t};
    struct table_node *node =
        table_find(&s->flows.shares, pair_hash(s, f->number, t->number), share_matches, &key);
    return node == NULL ? NULL : container_of(node, struct share, node);
}

static struct share *new_share(struct sched *s, struct flow *f, struct turn *t)
{
    struct stake *stake = obtain_stake(s, t, f);
    struct share *share = NULL;
    if (stake != NULL && table_reserve(&s->flows.shares) == 0) {
        share = s->host.alloc(s->host.ctx, sizeof(*share));
    }
    if (share == NULL) {
        if (stake != NULL) {
            put_stake(s, stake);
        }
        return NULL;
    }
    memset(share, 0, sizeof(*share));
    share->flow = f;
    share->turn = t;
    share->stake = stake;
    share->node.hash = pair_hash(s, f->number, t->number);
    turn_init_share(share);
    shortage_init_share(share);
    tree_node_init(&share->in_turn);
    list_init(&share->in_passed);
    list_init(&share->in_flow);
    stake->shares++;
    t->shares++;
    table_insert(&s->flows.shares, &share->node);
    return share;
}

/* With one stand more. is_new: there is none yet, as its own party is that of one stand. NULL: no
 * memory. */
static struct share *obtain_share(struct sched *s, struct flow *f, struct party *p, bool is_new)
{
    struct turn *t = obtain_turn(s, p);
    if (t == NULL) {
        return NULL;
    }
    struct share *share = is_new ? NULL : find_share(s, f, t);
    share = share == NULL ? new_share(s, f, t) : share;
    if (share != NULL) {
        share->stands++;
    } else {
        settle_turn(s, t);
    }
    return share;
}

static void put_share(struct sched *s, struct share *share)
{
    struct turn *t = share->turn;
    assert(share->stands > 0);
    share->stands--;
    if (share->stands > 0) {
        return;
    }
    assert(share->waiting == 0 && tree_is_empty(&share->queue));
    if (t->whose == share) {
        turn_give(t, NULL, OPEN_NOT);
    }
    list_remove(&share->in_passed);
    list_remove(&share->in_flow);
    list_remove(&share->in_marked);
    share->stake->shares--;
    put_stake(s, share->stake);
    table_remove(&s->flows.shares, &share->node);
    s->host.release(s->host.ctx, share);
    t->shares--;
    settle_turn(s, t);
}

/* --- stands --------------------------------------------------------------------------------------- */

static struct stand *new_stand(struct sched *s, struct flow *f, struct sched_destination *d)
{
    struct stand *stand = NULL;
    struct share *own = obtain_share(s, f, &d->own, true);
    struct share *share = own;
    if (own != NULL && d->party != &d->own) {
        share = obtain_share(s, f, d->party, false);
    }
    if (share != NULL && table_reserve(&s->flows.stands) == 0) {
        stand = s->host.alloc(s->host.ctx, sizeof(*stand));
    }
    if (stand == NULL) {
        if (share != NULL && share != own) {
            put_share(s, share);
        }
        if (own != NULL) {
            put_share(s, own);
        }
        return NULL;
    }
    memset(stand, 0, sizeof(*stand));
    stand->flow = f;
    stand->destination = d;
    stand->share = share;
    stand->own = own;
    stand->node.hash = pair_hash(s, f->number, d->node.hash);
    turn_init_stand(stand);
    tree_node_init(&stand->in_queue);
    list_push_back(&d->stands, &stand->in_destination);
    table_insert(&s->flows.stands, &stand->node);
    return stand;
}

struct stand *turn_add_peer(struct sched *s, struct flow *f, struct sched_destination *d)
{
    struct stand *stand = turn_stand(s, f, d);
    stand = stand == NULL ? new_stand(s, f, d) : stand;
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
    if (stand->share != stand->own) {
        put_share(s, stand->share);
    }
    put_share(s, stand->own);
    list_remove(&stand->in_destination);
    table_remove(&s->flows.stands, &stand->node);
    s->host.release(s->host.ctx, stand);
}

/* --- destinations that move ----------------------------------------------------------------------- */

int turn_stage(struct sched *s, struct sched_destination *d, struct party *to)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        if (obtain_share(s, stand->flow, to, false) != NULL) {
            continue;
        }
        for (struct list *at = stand->in_destination.prev; at != &d->stands; at = at->prev) {
            put_share(
                s, find_share(s, container_of(at, struct stand, in_destination)->flow, to->turn));
        }
        return -ENOMEM;
    }
    return 0;
}

void turn_leave(struct sched *s, struct sched_destination *d)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        struct share *share = stand->share;
        turn_unfile_stand(s, stand);
        turn_count_share(s, share, -(int)stand->waiting);
        stand->share = NULL;
        stand->was_marked = share->tag == stand->flow->tag;
        if (d->party != &d->own) {
            put_share(s, share); /* that of its own party stays */
        }
    }
}

void turn_arrive(struct sched *s, struct sched_destination *d)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        stand->share = find_share(s, stand->flow, d->party->turn);
        turn_count_share(s, stand->share, (int)stand->waiting);
        if (stand->was_marked) {
            stand->share->tag = stand->flow->tag;
        }
        turn_file_stand(s, stand);
        turn_ask_again(s, stand->share);
        turn_touch_one(s, stand->share->turn);
    }
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
