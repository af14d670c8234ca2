/* Shedding, see sched/place/shed.h. Called where entries come to wait for limited lanes or are held for
 * their owner, where loans come in, and by the pull loop.
 *
 * The excess of a set is what its lanes cannot take within half a minute, by what they were told that
 * they may send; that of an owner what it may not send within that time, of what is held; that of a
 * destination whose quota is used up all that waits for it. When the
 * excess of all is more than a quarter of the places, those that have most of it give up the youngest
 * mail, down to seven eighths of that: so a step for each destination of a set is made once for many
 * entries. Where flows take turns each destination gives up mail of the flow that has most waiting for its weight, so
 * that the little that others have there stays. */
#include "sched/place/shed.h"

#include "sched/job.h"
#include "sched/place/site.h"
#include "sched/place/stake.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <math.h>

#define NEAR     (30 * USEC_PER_SEC)   /* what goes within that is kept */
#define TURN_MAX (3600 * USEC_PER_SEC) /* beyond that nobody knows what the lane will do */

enum {
    PARTS = 16,  /* of what a flow has at a destination: so many leave at a time */
    LOOKS = 256, /* entries for each of these, to find the flow's among others' that are younger */
};

/* Messages a second that a lane may send; HUGE_VAL: no bound, or not known yet. */
static double rate_of(const struct sched *s, const struct site_lane *l)
{
    const struct grant *g = &l->grant;
    usec_t turn = g->lent.turn > g->lent.due ? g->lent.turn : g->lent.due;
    if (g->is_limited && g->state == GRANT_WAITING && turn > s->now + NEAR) {
        return 0;
    }
    return g->is_limited && g->per_second > 0 ? g->per_second : HUGE_VAL;
}

/* Of all lanes of the set that are open. */
static double rate_of_set(const struct sched *s, const struct lane_set *set)
{
    double rate = 0;
    LANE_FOREACH(l, set->site, set->mask & set->site->alive)
    {
        rate += rate_of(s, l);
    }
    return rate;
}

int64_t shed_excess(const struct sched *s, const struct lane_set *set)
{
    uint64_t alive = set->mask & set->site->alive;
    if (set->wanted == 0 || (alive & ~set->site->limited) != 0) {
        return 0;
    }
    double near = rate_of_set(s, set) * (double)(NEAR / USEC_PER_SEC);
    return near >= (double)set->wanted ? 0 : set->wanted - (int64_t)near;
}

void shed_touch(struct sched *s, struct lane_set *set)
{
    if (!list_is_linked(&set->touched)) {
        list_push_back(&s->touched_sets, &set->touched);
    }
}

void shed_touch_all(struct sched *s, struct site *site, uint64_t lanes)
{
    list_foreach(set, &site->sets, struct lane_set, in_site)
    {
        if ((set->mask & lanes) != 0) {
            shed_touch(s, set);
        }
    }
}

static void set_excess(struct sched *s, struct lane_set *set, int64_t excess)
{
    s->excess += excess - set->excess;
    set->excess = excess;
    if (excess == 0) {
        list_remove(&set->in_excess);
    } else if (!list_is_linked(&set->in_excess)) {
        list_push_back(&s->sets_in_excess, &set->in_excess);
    }
}

void shed_leave(struct sched *s, struct lane_set *set)
{
    set_excess(s, set, 0);
    list_remove(&set->touched);
}

/* --- of owners ------------------------------------------------------------------------------------ */

/* Messages a second that it may send; HUGE_VAL: not known yet. */
static double rate_of_owner(const struct sched *s, const struct sched_owner *o)
{
    usec_t turn = o->lent.turn > o->lent.due ? o->lent.turn : o->lent.due;
    if (o->state == PURSE_WAITING && !o->is_vain && turn > s->now + NEAR) {
        return 0;
    }
    return o->per_second > 0 ? o->per_second : HUGE_VAL;
}

int64_t shed_excess_of_owner(const struct sched *s, const struct sched_owner *o)
{
    double near = rate_of_owner(s, o) * (double)(NEAR / USEC_PER_SEC);
    return near >= (double)o->waiting ? 0 : o->waiting - (int64_t)near;
}

void shed_touch_owner(struct sched *s, struct sched_owner *o)
{
    if (!list_is_linked(&o->shed_touched)) {
        list_push_back(&s->owners_to_shed, &o->shed_touched);
    }
}

static void set_owner_excess(struct sched *s, struct sched_owner *o, int64_t excess)
{
    s->excess += excess - o->excess;
    o->excess = excess;
    if (excess == 0) {
        list_remove(&o->in_excess);
    } else if (!list_is_linked(&o->in_excess)) {
        list_push_back(&s->owners_in_excess, &o->in_excess);
    }
}

void shed_leave_owner(struct sched *s, struct sched_owner *o)
{
    set_owner_excess(s, o, 0);
    list_remove(&o->shed_touched);
}

/* --- of destinations ------------------------------------------------------------------------------ */

static void set_destination_excess(struct sched *s, struct terms *t, int64_t excess)
{
    s->excess += excess - t->excess;
    s->must_shed = s->must_shed || excess > t->excess;
    t->excess = excess;
    if (excess == 0) {
        list_remove(&t->in_excess);
    } else if (!list_is_linked(&t->in_excess)) {
        list_push_back(&s->destinations_in_excess, &t->in_excess);
    }
}

void shed_count_destination(struct sched *s, struct sched_destination *d)
{
    struct terms *t = d->terms;
    bool is_far = d->lacks_quota && t->waits.turn > s->now + NEAR;
    int64_t excess = is_far ? destination_wanted(d) : 0;
    if (excess != t->excess) {
        set_destination_excess(s, t, excess);
    }
}

void shed_leave_destination(struct sched *s, struct terms *t)
{
    set_destination_excess(s, t, 0);
}

int64_t shed_excess_of_destinations(const struct sched *s)
{
    int64_t sum = 0;
    list_foreach(t, &s->destinations_in_excess, const struct terms, in_excess)
    {
        sum += t->excess;
    }
    return sum;
}

/* --- which leave ---------------------------------------------------------------------------------- */

/* Entries that a quarter of the places holds, with as many recipients as they have now. */
static int64_t entries_of_quarter(const struct sched *s)
{
    uint64_t entries = s->shared.entries_waiting + s->shared.entries_in_flight;
    int64_t places = s->config.message_recipient_limit / 4;
    int64_t quarter = places;
    if (s->shared.recipients_in_core > entries) {
        quarter =
            (int64_t)((double)places * (double)entries / (double)s->shared.recipients_in_core);
    }
    return quarter > 0 ? quarter : 1;
}

static double usec_each(double rate)
{
    return rate > 0 ? (double)USEC_PER_SEC / rate : (double)TURN_MAX;
}

/* Those that leave come back behind those that stay and those that left before.
 *
 * turn  of the one that left last */
static void begin_turns(const struct sched *s, usec_t *turn, int64_t kept, double rate)
{
    double span = (double)kept * usec_each(rate);
    usec_t first = s->now + (span < (double)TURN_MAX ? (usec_t)span : TURN_MAX);
    *turn = *turn < first ? first : *turn;
}

static usec_t next_turn(const struct sched *s, usec_t *turn, double rate)
{
    usec_t latest = s->now + TURN_MAX;
    double next = (double)*turn + usec_each(rate);
    *turn = next < (double)latest ? (usec_t)next : latest;
    return *turn;
}

/* By what those that leave now come back. */
struct shed_turns {
    usec_t *turn; /* of the one that left last */
    double rate;  /* messages a second from then on */
    struct reason *reason;
};

static const struct sched_reason text_of_lanes = {
    "4.3.2", "its receiver takes less mail at a time than there is, its turn comes later"};
static const struct sched_reason text_of_destinations = {
    "4.3.2", "the quota of its domain is used up, its turn comes later"};
static const struct sched_reason text_of_owners = {
    "4.3.2", "its tenant may send less mail at a time than there is, its turn comes later"};

/* Of the flows that wait there, the one that has most waiting for its weight at the party, which its
 * campaigns divide. NULL: flows do not take turns */
static const struct stand *richest(const struct sched *s, const struct sched_destination *d)
{
    const struct stand *best = NULL;
    double most = 0;
    if (!flows_take_turns(s)) {
        return NULL;
    }
    list_foreach(stand, &d->stands, const struct stand, in_destination)
    {
        const struct share *share = stand->at_party.share;
        double has = (double)share->waiting * stake_campaigns(share) / share->flow->weight;
        if (stand->waiting > 0 && has > most) {
            best = stand;
            most = has;
        }
    }
    return best;
}

static NONNULL_RET struct peer *peer_at(const struct list *n)
{
    return container_of(n, const struct sched_entry, place.link)->peer;
}

/* What the youngest message of the flow has waiting there, from `*at` on, which is put in front of it. NULL:
 * nothing of it was met in so many looks. */
static struct peer *next_youngest(const struct sched_destination *d, const struct flow *f,
                                  const struct list **at, int64_t *looks)
{
    const struct list *n = *at;
    while (n != &d->todo && *looks > 0 && peer_at(n)->job->flow != f) {
        n = n->prev;
        --*looks;
    }
    struct peer *p = n != &d->todo && *looks > 0 ? peer_at(n) : NULL;
    while (p != NULL && n != &d->todo && peer_at(n) == p) {
        n = n->prev;
    }
    *at = n;
    return p;
}

/* Entries of one message leave in their order. Returns how many left. */
static int64_t shed_peer(struct sched *s, struct peer *p, usec_t *turn, double rate,
                         struct reason *reason)
{
    int64_t count = 0;
    /* The peer may be gone with its last one. */
    for (bool is_last = false; !is_last; count++) {
        struct sched_entry *e = entry_queue_first(&p->waiting);
        is_last = e == p->waiting.last;
        entry_shed(s, e, next_turn(s, turn, rate), reason);
    }
    return count;
}

/* The youngest message of the destination, of the flow that has most; where there are several, some of
 * them, so that it is seldom looked for who that is. Where too many of others are younger it is theirs. Returns
 * how many entries left. */
static int64_t shed_youngest(struct sched *s, struct sched_destination *d, int64_t most,
                             struct shed_turns *turns)
{
    const struct stand *stand = richest(s, d);
    if (stand == NULL) {
        return shed_peer(s, peer_at(d->todo.prev), turns->turn, turns->rate, turns->reason);
    }
    const struct flow *f =
        stand->at_party.share->flow; /* it is there while some of it waits here */
    const struct list *at = d->todo.prev;
    int64_t has = stand->waiting, part = 1 + has / PARTS, count = 0;
    part = part < most ? part : most;
    int64_t looks = LOOKS * part;
    while (count < part && has > 0) {
        struct peer *p = next_youngest(d, f, &at, &looks);
        bool is_its = p != NULL;
        p = is_its ? p : peer_at(d->todo.prev); /* from now on: there are no more looks */
        int64_t left = shed_peer(s, p, turns->turn, turns->rate, turns->reason);
        has -= is_its ? left : 0;
        count += left;
    }
    return count;
}

/* The last destinations first, each its youngest, in turn. */
static void shed_from_party(struct sched *s, struct shared_party *q, int64_t *left,
                            struct shed_turns *turns)
{
    bool did_shed = true;
    while (*left > 0 && did_shed) {
        did_shed = false;
        list_foreach_safe(d, &q->members, struct sched_destination, in_party)
        {
            if (*left > 0 && d->is_willing && d->waiting > 0) {
                bool was_pinned = d->is_pinned;
                d->is_pinned = true;
                *left -= shed_youngest(s, d, *left, turns);
                d->is_pinned = was_pinned;
                destination_settle(s, d);
                did_shed = true;
            }
        }
    }
}

static void shed_from(struct sched *s, struct lane_set *set, int64_t count)
{
    struct site *site = set->site;
    bool was_pinned = site->is_pinned;
    double rate = rate_of_set(s, set);
    struct reason *reason = reason_new(s, &text_of_lanes, true);
    struct shed_turns turns = {&site->shed_turn, rate, reason};
    begin_turns(s, &site->shed_turn, set->wanted - count, rate);
    site->is_pinned = true;
    set->parties++; /* it stays while it is looked at */
    list_foreach_safe(q, &site->parties, struct shared_party, in_site)
    {
        if (q->set == set && count > 0) {
            bool was_party_pinned = q->is_pinned;
            q->is_pinned = true;
            shed_from_party(s, q, &count, &turns);
            q->is_pinned = was_party_pinned;
            site_settle_party(s, &q->party);
        }
    }
    set_excess(s, set, shed_excess(s, set));
    lane_set_put(s, set);
    site->is_pinned = was_pinned;
    site_settle(s, site);
    reason_put(s, reason);
}

/* All that waits of the message. Its last entry may take the job with it. */
static int64_t shed_job(struct sched *s, struct sched_owner *o, struct job *j, double rate,
                        struct reason *reason)
{
    int64_t left = j->waiting, count = left;
    list_foreach_safe(p, &j->peers, struct peer, link)
    {
        struct sched_entry *e;
        while (left > 0 && (e = entry_queue_first(&p->waiting)) != NULL) {
            left--;
            bool is_last = e == p->waiting.last;
            entry_shed(s, e, next_turn(s, &o->shed_turn, rate), reason);
            if (is_last) {
                break; /* the peer may be gone */
            }
        }
        if (left == 0) {
            break; /* the job may be, too */
        }
    }
    return count;
}

/* Of those that are held, the last on the schedule first. */
static void shed_from_owner(struct sched *s, struct sched_owner *o, int64_t count)
{
    double rate = rate_of_owner(s, o);
    struct reason *reason = reason_new(s, &text_of_owners, true);
    begin_turns(s, &o->shed_turn, o->waiting - count, rate);
    const struct tree_node *n = o->held.last;
    while (count > 0 && n != NULL) {
        struct job *j = container_of(n, struct job, in_place);
        n = tree_previous(n);
        count -= shed_job(s, o, j, rate, reason);
    }
    set_owner_excess(s, o, shed_excess_of_owner(s, o));
    reason_put(s, reason);
}

/* All come back when the quota is there again. */
static void shed_from_destination(struct sched *s, struct terms *t, int64_t count)
{
    struct sched_destination *d = t->destination;
    struct reason *reason = reason_new(s, &text_of_destinations, true);
    bool was_pinned = d->is_pinned;
    usec_t turn = t->waits.turn;
    struct shed_turns turns = {&turn, HUGE_VAL, reason};
    d->is_pinned = true;
    while (count > 0 && d->waiting > 0) {
        count -= shed_youngest(s, d, count, &turns);
    }
    d->is_pinned = was_pinned;
    destination_settle(s, d);
    reason_put(s, reason);
}

/* The set with most of it, of some. A step for each set that has some. */
static struct lane_set *greatest(const struct sched *s)
{
    struct lane_set *best = NULL;
    list_foreach(set, &s->sets_in_excess, struct lane_set, in_excess)
    {
        best = best == NULL || set->excess > best->excess ? set : best;
    }
    return best;
}

static struct sched_owner *greatest_owner(const struct sched *s)
{
    struct sched_owner *best = NULL;
    list_foreach(o, &s->owners_in_excess, struct sched_owner, in_excess)
    {
        best = best == NULL || o->excess > best->excess ? o : best;
    }
    return best;
}

static struct terms *greatest_destination(const struct sched *s)
{
    struct terms *best = NULL;
    list_foreach(t, &s->destinations_in_excess, struct terms, in_excess)
    {
        best = best == NULL || t->excess > best->excess ? t : best;
    }
    return best;
}

/* Whoever has most gives up so many, or all of its own. */
static void shed_some(struct sched *s, int64_t over)
{
    struct lane_set *set = greatest(s);
    struct sched_owner *o = greatest_owner(s);
    struct terms *t = greatest_destination(s);
    int64_t of_set = set == NULL ? 0 : set->excess;
    int64_t of_owner = o == NULL ? 0 : o->excess;
    if (t != NULL && t->excess >= of_set && t->excess >= of_owner) {
        shed_from_destination(s, t, over < t->excess ? over : t->excess);
    } else if (o != NULL && of_owner >= of_set) {
        shed_from_owner(s, o, over < of_owner ? over : of_owner);
    } else {
        shed_from(s, set, over < of_set ? over : of_set);
    }
}

void shed_run(struct sched *s)
{
    s->must_shed = false;
    while (!list_is_empty(&s->touched_sets)) {
        struct lane_set *set = list_first(&s->touched_sets, struct lane_set, touched);
        list_remove(&set->touched);
        set_excess(s, set, shed_excess(s, set));
    }
    while (!list_is_empty(&s->owners_to_shed)) {
        struct sched_owner *o = list_first(&s->owners_to_shed, struct sched_owner, shed_touched);
        list_remove(&o->shed_touched);
        set_owner_excess(s, o, shed_excess_of_owner(s, o));
    }
    int64_t quarter = entries_of_quarter(s);
    if (s->excess <= quarter || s->hold) {
        return;
    }
    list_foreach_safe(set, &s->sets_in_excess, struct lane_set, in_excess)
    {
        set_excess(s, set, shed_excess(s, set)); /* what was sent meanwhile touches nothing */
    }
    int64_t target = quarter - quarter / 8;
    while (s->excess > target) {
        int64_t before = s->excess;
        shed_some(s, before - target);
        if (s->excess >= before) {
            break; /* what is left of it is not in any destination that could be sent now */
        }
    }
}
