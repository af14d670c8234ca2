/* Stakes: how many of a tenant's campaigns wait at a turn. Called by stand (shares that come and go); turn counts
 * in them. Owner thread only. */
#include "sched/place/stake.h"

#include "sched/flow.h"
#include "sched/transport.h"
#include "sched/turn.h"

static bool stake_matches(const struct table_node *node, const void *key)
{
    const struct stake *a = container_of(node, const struct stake, node), *b = key;
    return a->turn == b->turn && a->class == b->class && a->tenant == b->tenant;
}

/* With its hash. */
static struct stake key_of(const struct sched *s, const struct share *share)
{
    const struct flow_tenant *tenant = share->flow->tenant;
    uint64_t number = (uint64_t)tenant->class << 32 | tenant->tenant;
    return (struct stake){.node.hash = turn_hash(s, number, share->turn->number),
                          .turn = share->turn,
                          .class = tenant->class,
                          .tenant = tenant->tenant};
}

static struct stake *find_stake(const struct sched *s, const struct stake *key)
{
    struct table_node *node = table_find(&s->flows.stakes, key->node.hash, stake_matches, key);
    return node == NULL ? NULL : container_of(node, struct stake, node);
}

bool stake_is_brought_by(const struct flow *f)
{
    return f->tenant->first != f;
}

/* It is new: the share that the first flow of the tenant may have there since before stands in it too. */
static void take_first_in(struct sched *s, struct stake *stake, const struct flow *first)
{
    struct share *share = first == NULL ? NULL : turn_share(s, first, stake->turn);
    if (share != NULL) {
        share->stake = stake;
        stake->first = share;
        stake->waiting = share->waiting > 0;
    }
}

void stake_join(struct sched *s, struct share *share, struct stake *brought)
{
    const struct flow_tenant *tenant = share->flow->tenant;
    if (brought == NULL && tenant->flows == 1) {
        return;
    }
    const struct stake key = key_of(s, share);
    struct stake *stake = find_stake(s, &key);
    stake = stake == NULL ? brought : stake;
    share->stake = stake;
    if (stake == NULL) {
        return;
    }
    if (brought == NULL) {
        stake->first = share;
        return;
    }
    if (stake == brought) {
        *stake = key;
        table_insert(&s->flows.stakes, &stake->node);
        take_first_in(s, stake, tenant->first);
    } else {
        brought->spare = stake->spare;
        stake->spare = brought;
    }
    stake->shares++;
}

struct stake *stake_leave(struct sched *s, struct share *share)
{
    struct stake *stake = share->stake;
    share->stake = NULL;
    if (stake == NULL) {
        return NULL;
    }
    if (stake->first == share) {
        stake->first = NULL;
        return NULL;
    }
    stake->shares--;
    if (stake->shares == 0) {
        table_remove(&s->flows.stakes, &stake->node);
        if (stake->first != NULL) {
            stake->first->stake = NULL;
        }
        return stake;
    }
    struct stake *spare = stake->spare;
    stake->spare = spare->spare;
    return spare;
}

uint32_t stake_campaigns(const struct share *share)
{
    const struct stake *stake = share->stake;
    return stake != NULL && stake->waiting > 0 ? stake->waiting : 1;
}

void stake_release(struct sched *s, struct stake *stake)
{
    if (stake != NULL) {
        s->host.release(s->host.ctx, stake);
    }
}

bool stake_is_right(const struct sched *s, const struct share *share)
{
    const struct stake key = key_of(s, share), *stake = find_stake(s, &key);
    bool is_first = share->flow == share->flow->tenant->first;
    if (share->stake != stake || (stake == NULL && !is_first)) {
        return false;
    }
    uint32_t own = share->waiting > 0;
    return stake == NULL ||
           ((stake->first == share) == is_first && stake->shares > 0 && stake->waiting >= own &&
            stake->waiting <= stake->shares + (stake->first != NULL));
}
