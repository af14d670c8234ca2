/* The invariants of turns, for sched_check; changes nothing. */
#include "sched/destination.h"
#include "sched/job.h"
#include "sched/place/claim.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/place/stake.h"
#include "sched/transport.h"
#include "sched/turn.h"

/* Outside of a selection. */
static const char *check_claim(const struct turn *t, enum openness need)
{
    if (t->claimant != NULL) {
        return "a claim is over when its selection is";
    }
    bool is_settled = !list_is_linked(&t->touched);
    if (is_settled && claim_stands(t) && (need == OPEN_NOT || t->was_closed || t->is_short)) {
        return "a party that claims a slot has a place again, and is not short of one";
    }
    return NULL;
}

static const char *check_turn(const struct sched *s, const struct turn *t)
{
    for (int class = 0; class < SCHED_CLASSES; class ++) {
        uint64_t last = 0;
        for (const struct tree_node *n = t->waiting[class].first; n != NULL; n = tree_next(n)) {
            const struct share *share = container_of(n, const struct share, in_turn);
            if (share->turn != t || share->start < last || share->waiting == 0 ||
                (int)share->flow->key.class != class || share->is_passed) {
                return "a share in its party's tree";
            }
            last = share->start;
        }
    }
    if (t->whose != NULL && (t->whose->turn != t || !share_is_in_line(t->whose))) {
        return "whose turn it is waits there";
    }
    if ((t->whose != NULL && !tree_is_empty(&t->whose->queue)) !=
        tree_node_is_linked(&t->in_ready)) {
        return "a turn is where its flow finds it";
    }
    if (t->is_free && (t->whose != NULL || !t->is_short)) {
        return "nobody has the turn where a slot is lacking";
    }
    const char *wrong = check_claim(t, turn_openness(s, t));
    if (wrong != NULL || list_is_linked(&t->touched)) {
        return wrong; /* it is settled before the next selection */
    }
    const struct share *first = turn_next_share(s, t);
    enum openness need = turn_openness(s, t);
    if ((t->is_short && need == OPEN_NOT) || (need == OPEN_SLOT && t->is_free != t->is_short) ||
        list_is_linked(&t->in_unlimited) != turn_depends_on_slots(t, need)) {
        return "what a party lacks";
    }
    bool is_barred = tree_node_is_linked(&t->in_barred);
    if (is_barred && (need == OPEN_NOT || turn_may_ride_again(s, t))) {
        return "nobody rides where others are far behind";
    }
    bool is_open = need != OPEN_NOT && first != NULL && !t->is_free && !is_barred;
    if (t->whose != (is_open ? first : NULL)) {
        return "the turn is that of the smallest tag";
    }
    return is_open && t->ready_in != need ? "what a party with a turn needs" : NULL;
}

/* Each share has the stake that is there for it, and stakes count those that wait and those that brought one. All
 * together, as a look through all shares for each stake would take too long. */
static const char *check_stakes(const struct sched *s)
{
    int64_t waiting = 0, brought = 0;
    uint64_t cursor = 0;
    const struct table_node *node;
    while ((node = table_next(&s->flows.shares, &cursor)) != NULL) {
        const struct share *share = container_of(node, const struct share, node);
        if (!stake_is_right(s, share)) {
            return "the stake of a share";
        }
        waiting += share->stake != NULL && share->waiting > 0;
        brought += share->stake != NULL && share != share->stake->first;
    }
    cursor = 0;
    while ((node = table_next(&s->flows.stakes, &cursor)) != NULL) {
        const struct stake *stake = container_of(node, const struct stake, node);
        waiting -= stake->waiting;
        brought -= stake->shares;
    }
    return waiting == 0 && brought == 0 ? NULL : "what stakes count";
}

static bool is_right(const struct standing *at, const struct turn *t, bool is_sought)
{
    return at != NULL && at->share != NULL && at->share->turn == t &&
           at->share->waiting >= at->stand->waiting &&
           tree_node_is_linked(&at->in_queue) == is_sought;
}

/* Whether it could go back to its destination's own party. */
static bool has_way_back(const struct stand *stand)
{
    const struct party *own = &stand->destination->own;
    if (stand->own == NULL) {
        return stand->at_party.share->turn->party != own && stand->at_party.share->only == stand;
    }
    return stand->own->turn == own->turn && stand->own->only == stand && stand->own->stands == 1;
}

static const char *check_stand(const struct sched *s, const struct stand *stand)
{
    const struct sched_destination *d = stand->destination;
    uint32_t waiting = 0;
    list_foreach(e, &d->todo, const struct sched_entry, place.link)
    {
        waiting += entry_job(e)->flow == stand->flow;
    }
    if (stand->waiting != waiting ||
        !is_right(&stand->at_party, d->party->turn, turn_is_sought(stand))) {
        return "a stand of a flow at a destination";
    }
    if (!has_way_back(stand)) {
        return "a stand can go to its destination's own party";
    }
    const struct share *share = stand->at_party.share;
    if (turn_stand(s, stand->flow, d) != stand || (share->only != NULL && share->stands != 1)) {
        return "a stand is found";
    }
    const struct shared_party *q = d->party == &d->own ? NULL : shared_party_of(d->party);
    if (q == NULL || !q->set->is_shared ? stand->at_lanes != NULL
                                        : !is_right(stand->at_lanes, q->set->flow_turn,
                                                    turn_is_sought(stand) && q->shares_lanes)) {
        return "a stand of a flow at the lanes of a site";
    }
    return NULL;
}

const char *turn_check(const struct sched *s)
{
    const struct flows *f = &s->flows;
    uint32_t without_own = 0, with_stakes = 0;
    if (!flows_take_turns(s)) {
        bool is_empty = f->stands.count + f->shares.count + f->stakes.count == 0 &&
                        s->flow.tenant == NULL && f->shares.promised + f->stakes.promised == 0;
        is_empty = is_empty && list_is_empty(&s->flows.claims);
        return is_empty && list_is_empty(&s->flows.touched) ? NULL : "one flow has no stands";
    }
    const char *claims = claim_check(s);
    if (claims != NULL) {
        return claims;
    }
    uint64_t cursor = 0;
    const struct table_node *node;
    while ((node = table_next(&s->flows.shares, &cursor)) != NULL) {
        const struct share *share = container_of(node, const struct share, node);
        const char *wrong = check_turn(s, share->turn);
        wrong = wrong != NULL ? wrong : shortage_check(share);
        if (wrong != NULL) {
            return wrong;
        }
    }
    const char *stakes = check_stakes(s);
    if (stakes != NULL) {
        return stakes;
    }
    cursor = 0;
    while ((node = table_next(&s->by_name, &cursor)) != NULL) {
        const struct sched_destination *d =
            container_of(node, const struct sched_destination, node);
        list_foreach(stand, &d->stands, const struct stand, in_destination)
        {
            const char *wrong = check_stand(s, stand);
            if (wrong != NULL) {
                return wrong;
            }
            without_own += stand->own == NULL;
            with_stakes += stand->own == NULL && stand->flow->tenant->first != stand->flow;
        }
    }
    return f->shares.promised == without_own && f->stakes.promised == with_stakes
               ? NULL
               : "the room kept for shares";
}
