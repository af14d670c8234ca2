/* Claims, see the header. Called by turn (what opens and closes, what is paid), selection and handover. */
#include "sched/place/claim.h"

#include "sched/destination.h"
#include "sched/flow.h"
#include "sched/job.h"
#include "sched/place/connection.h"
#include "sched/place/site.h"
#include "sched/transport.h"
#include "sched/turn.h"

#define OWED 8 /* recipients, at most, to whoever was not due a slot when it had the turn */

enum { CLAIMS_LOOKED_AT = 4, SHARES_LOOKED_AT = 8 }; /* one selection costs no more */

bool claim_stands(const struct turn *t)
{
    return list_is_linked(&t->in_claims);
}

/* Its next entry takes a slot, or an idle connection that is as good as one. */
static bool needs_slot(const struct turn *t, enum openness need)
{
    return need == OPEN_SLOT ||
           (need == OPEN_NOW && t->party != NULL && placement_is_idle(t->party));
}

void claim_update(struct sched *s, struct turn *t, enum openness need)
{
    if (need == OPEN_NOT) {
        list_remove(&t->in_claims);
        t->was_closed = true;
    } else if (t->was_closed && needs_slot(t, need)) {
        t->was_closed = false;
        list_push_back(&s->flows.claims, &t->in_claims);
    }
}

/* There is something to look at, as turn.c's next_share. */
static bool may_look(struct sched *s, struct share *share)
{
    struct flow *f = share->flow;
    if (turn_blocks(share)) {
        job_unblock_all(s, f);
    }
    return f->is_live || f->passed_without_slot;
}

/* Of the flow's class: the first in turn that is not too far ahead of it where slots are given. NULL: none. */
static struct share *claimant(struct sched *s, struct turn *t, const struct flow *f)
{
    struct tree_node *n = t->waiting[f->key.class].first;
    for (int looks = 0; n != NULL && looks < SHARES_LOOKED_AT; looks++) {
        struct share *share = container_of(n, struct share, in_turn);
        n = tree_next(n);
        if (!flow_is_due(s, share->flow, f)) {
            continue;
        }
        if (share->flow == f || may_look(s, share)) {
            return share;
        }
        turn_pass_share(s, share);
    }
    return NULL;
}

static bool is_last_slot(const struct sched *s)
{
    return s->shared.connections - s->shared.idle + 1 >= (uint64_t)s->config.process_limit;
}

static const struct turn *turn_of(const struct peer *p)
{
    const struct party *q = p->destination->party;
    bool is_shared = q->site != NULL && shared_party_of(q)->shares_lanes && q->work != OPEN_NOW;
    return is_shared ? shared_party_of(q)->set->flow_turn : q->turn;
}

bool claim_precedes(struct sched *s, const struct flow *f, const struct peer *p)
{
    const struct turn *to = turn_of(p);
    if (s->flows.has_claimed || !is_last_slot(s) ||
        !needs_slot(to, p->destination->party->work == OPEN_NOW ? OPEN_NOW : OPEN_SLOT)) {
        return false;
    }
    int looks = 0;
    list_foreach_safe(t, &s->flows.claims, struct turn, in_claims)
    {
        if (looks++ == CLAIMS_LOOKED_AT) {
            break;
        }
        if (tree_is_empty(&t->waiting[f->key.class])) {
            list_remove(&t->in_claims); /* those behind it are looked at as well, in time */
            list_push_back(&s->flows.claims, &t->in_claims);
            continue;
        }
        struct share *share = claimant(s, t, f);
        if (share != NULL && share->flow == f) {
            return false;
        }
        if (share != NULL) {
            if (++s->flows.claims_granted > s->config.process_limit) {
                s->flows.claims_granted = 0;
                return false;
            }
            t->claimant = share;
            s->flows.claim = t;
            s->flows.has_claimed = true;
            turn_touch_one(s, t);
            return true;
        }
        list_remove(&t->in_claims);
        turn_touch_one(s, t);
    }
    return false;
}

struct flow *claim_flow(struct sched *s)
{
    struct turn *t = s->flows.claim;
    if (t == NULL) {
        return NULL;
    }
    if (t->claimant == NULL || t->whose != t->claimant) {
        claim_end(s);
        return NULL;
    }
    return t->claimant->flow;
}

void claim_end(struct sched *s)
{
    struct turn *t = s->flows.claim;
    if (t != NULL) {
        s->flows.claim = NULL;
        t->claimant = NULL;
        turn_touch_one(s, t);
    }
}

void claim_pay(struct turn *t, const struct share *served)
{
    struct tree *waiting = &t->waiting[served->flow->key.class];
    while (t->claimant == served && !tree_is_empty(waiting)) {
        struct share *first = container_of(waiting->first, struct share, in_turn);
        if (first->start + turn_price(first, OWED) >= served->start) {
            return;
        }
        tree_remove(waiting, &first->in_turn);
        first->start = served->start - turn_price(first, OWED);
        tree_insert(waiting, &first->in_turn);
    }
}

void claim_forget(struct sched *s, struct turn *t)
{
    list_remove(&t->in_claims);
    if (s->flows.claim == t) {
        s->flows.claim = NULL;
    }
}

const char *claim_check(const struct sched *s)
{
    if (s->flows.claim != NULL) {
        return "a claim is looked at by one selection";
    }
    list_foreach(t, &s->flows.claims, const struct turn, in_claims)
    {
        const struct turn *there = t->party != NULL ? t->party->turn : t->set->flow_turn;
        if (there != t) {
            return "who claims a slot is there";
        }
    }
    return NULL;
}
