/* Turns, see sched/turn.h. Called by entry (what waits, what was selected), parking (jobs), site
 * (destinations that move), destination, lane_set and host_queue (what opens), and by the pull loop.
 *
 * Whose turn it is, is decided before each selection, for the parties that were touched since. At an open
 * party it is that of the share with the smallest tag whose flow has something to look at. When selection
 * finds nothing of a flow, for whatever reason (its messages are capped, their owner may not send), it is
 * passed where it had the turn, and the next one has it: so no room stays empty that any flow could
 * use. It is asked again when something of the flow changes, or of its destinations there. So each
 * event gives the turn to one flow, however many wait, and costs O(log n).
 *
 * A party that has room when no slot is left is short of one until it is closed. Nobody has the turn there: slots
 * are the transport's, and go by what flows hold wherever they wait. Were it only looked for among flows that
 * have a turn, then one that has it and holds many connections elsewhere, and so gets its next one last, would keep
 * all others of the party waiting until slots are plenty. What goes by a slot has no price at the party: whoever was
 * preferred there, because it held nothing elsewhere, would otherwise wait for as long afterwards. */
#include "sched/turn.h"

#include "sched/destination.h"
#include "sched/job.h"
#include "sched/parking.h"
#include "sched/place/claim.h"
#include "sched/place/handover.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/place/stake.h"
#include "sched/transport.h"

#include <assert.h>

#define UNIT    (UINT64_C(1) << 20) /* of tags, for each recipient at weight 1 */
#define GOES_ON 8 /* recipients that it may be ahead by who goes on with its connection */

/* --- order ---------------------------------------------------------------------------------------- */

static uint64_t peer_key(const struct tree_node *n)
{
    return container_of(n, const struct peer, in_parked)->job->position;
}

static uint64_t stand_key(const struct tree_node *n)
{
    return peer_key(container_of(n, const struct standing, in_queue)->stand->parked.first);
}

static uint64_t share_key(const struct tree_node *n)
{
    return container_of(n, const struct share, in_turn)->start;
}

static uint64_t barred_key(const struct tree_node *n)
{
    return container_of(n, const struct turn, in_barred)->barred_until;
}

static uint64_t turn_key(const struct tree_node *n)
{
    return stand_key(container_of(n, const struct turn, in_ready)->whose->queue.first);
}

struct job *turn_first_job(const struct share *share)
{
    const struct standing *first =
        container_of(share->queue.first, const struct standing, in_queue);
    return container_of(first->stand->parked.first, struct peer, in_parked)->job;
}

void turn_init_trees(struct turn *t)
{
    for (int i = 0; i < SCHED_CLASSES; i++) {
        tree_init(&t->waiting[i], share_key);
    }
    tree_init(&t->barred, barred_key);
}

void turn_init_share(struct share *share)
{
    tree_init(&share->queue, stand_key);
}

void turn_init_stand(struct stand *stand)
{
    tree_init(&stand->parked, peer_key);
}

void turn_init_flow(struct flow *f)
{
    tree_init(&f->turns[OPEN_NOW], turn_key);
    tree_init(&f->turns[OPEN_SLOT], turn_key);
}

static void unready(struct turn *t)
{
    if (tree_node_is_linked(&t->in_ready)) {
        tree_remove(&t->whose->flow->turns[t->ready_in], &t->in_ready);
    }
}

static void make_ready(struct turn *t)
{
    if (t->whose != NULL && !tree_is_empty(&t->whose->queue)) {
        tree_insert(&t->whose->flow->turns[t->ready_in], &t->in_ready);
    }
}

void turn_give(struct turn *t, struct share *whose, enum openness need)
{
    unready(t);
    list_remove(&t->in_flow);
    t->whose = whose;
    t->ready_in = need;
    if (whose != NULL) {
        list_push_back(&whose->flow->holds, &t->in_flow);
    }
    make_ready(t);
}

struct job *turn_first(const struct flow *f, enum openness need)
{
    const struct tree_node *n = f->turns[need].first;
    return n == NULL ? NULL : turn_first_job(container_of(n, const struct turn, in_ready)->whose);
}

static NONNULL_RET struct stand *stand_of(const struct peer *p)
{
    struct stand *stand = p->stand;
    assert(stand != NULL);
    return stand;
}

/* Who gets a place in the windows of its lanes is decided for all such parties of a set together. */
static bool shares_lanes(const struct party *p)
{
    return p->site != NULL && shared_party_of(p)->shares_lanes;
}

/* --- what waits ----------------------------------------------------------------------------------- */

void turn_touch_one(struct sched *s, struct turn *t)
{
    if (!list_is_linked(&t->touched)) {
        list_push_back(&s->flows.touched, &t->touched);
    }
}

static void file_share(struct sched *s, struct share *share)
{
    struct turn *t = share->turn;
    struct tree *waiting = &t->waiting[share->flow->key.class];
    if (share_is_in_line(share)) {
        tree_remove(waiting, &share->in_turn);
    }
    if (share->waiting > 0 && !share->is_passed) {
        tree_insert(waiting, &share->in_turn);
    } else if (t->whose == share) {
        turn_give(t, NULL, OPEN_NOT);
    }
    turn_touch_one(s, t);
}

/* Whether it waits has changed, or whether it was passed. */
static void file_anew(struct sched *s, struct share *share)
{
    file_share(s, share);
    shortage_file(s, share);
}

static void end_pass(struct share *share)
{
    list_remove(&share->in_passed);
    list_remove(&share->in_flow);
    share->is_passed = false;
    tree_node_init(&share->in_turn);
}

void turn_ask_again(struct sched *s, struct share *share)
{
    if (share->is_passed) {
        end_pass(share);
        file_anew(s, share);
    }
    shortage_ask_again(s, share);
}

void turn_count_share(struct sched *s, struct share *share, int change)
{
    bool was_waiting = share->waiting > 0;
    share->waiting += (uint32_t)change;
    bool is_waiting = share->waiting > 0;
    if (is_waiting == was_waiting) {
        return;
    }
    if (share->stake != NULL) {
        share->stake->waiting += is_waiting ? 1 : (uint32_t)-1;
    }
    if (is_waiting) {
        uint64_t now = share->turn->served[share->flow->key.class];
        share->start = share->start < now ? now : share->start;
    } else if (share->is_passed) {
        end_pass(share);
    }
    file_anew(s, share);
}

/* Out of all that is in the order of its first job. */
static void unfile(struct standing *at)
{
    if (at == NULL || at->share == NULL) {
        return;
    }
    struct share *share = at->share;
    if (share->turn->whose == share) {
        unready(share->turn);
    }
    shortage_unfile(share);
    if (tree_node_is_linked(&at->in_queue)) {
        tree_remove(&share->queue, &at->in_queue);
    }
}

static void file(struct sched *s, struct standing *at, bool is_there)
{
    if (at == NULL || at->share == NULL) {
        return;
    }
    struct share *share = at->share;
    if (is_there) {
        tree_insert(&share->queue, &at->in_queue);
    }
    if (share->turn->whose == share) {
        make_ready(share->turn);
    }
    shortage_file(s, share);
}

/* Both may be in one tree of the flow: none goes into it while the other stands there by a job that was first. */
static void refile(struct sched *s, struct stand *stand, bool is_at_party, bool is_at_lanes)
{
    unfile(&stand->at_party);
    unfile(stand->at_lanes);
    file(s, &stand->at_party, is_at_party);
    file(s, stand->at_lanes, is_at_lanes);
}

bool turn_is_sought(const struct stand *stand)
{
    const struct sched_destination *d = stand->destination;
    return !tree_is_empty(&stand->parked) && (d->party == &d->own || d->is_willing);
}

void turn_unfile_stand(struct sched *s, struct stand *stand)
{
    refile(s, stand, false, false);
}

void turn_file_stand(struct sched *s, struct stand *stand)
{
    bool is_sought = turn_is_sought(stand);
    refile(s, stand, is_sought, is_sought && shares_lanes(stand->destination->party));
}

void turn_count_waiting(struct sched *s, const struct peer *p, int change)
{
    struct stand *stand = stand_of(p);
    stand->waiting += (uint32_t)change;
    for (int i = 0; i < 2; i++) {
        struct share *share = i == 0 ? stand->at_party.share : turn_share_at_lanes(stand);
        if (share != NULL) {
            turn_count_share(s, share, change);
            if (change > 0) {
                turn_ask_again(s, share);
            }
        }
    }
}

/* --- what it costs -------------------------------------------------------------------------------- */

uint64_t turn_price(const struct share *share, uint32_t recipients)
{
    return UNIT * recipients * stake_campaigns(share) / share->flow->weight;
}

/* The tag of the one whose turn it was: at lanes others may have been served before it. */
static uint64_t virtual_time(const struct turn *t, const struct share *served)
{
    const struct tree_node *n = t->waiting[served->flow->key.class].first;
    bool is_first = t->set == NULL || n == NULL || served->start <= share_key(n);
    return is_first ? served->start : share_key(n);
}

/* false: its next room is that of a slot, and has no price. */
static bool charge(struct sched *s, struct share *share, uint32_t recipients)
{
    struct turn *t = share->turn;
    uint32_t class = share->flow->key.class;
    bool waits[SCHED_CLASSES];
    if (t->is_free) {
        turn_touch_one(s, t); /* further entries may ride along */
        return false;
    }
    for (int i = 0; i < SCHED_CLASSES; i++) {
        waits[i] = !tree_is_empty(&t->waiting[i]);
    }
    if (t->claimant == NULL || class == flow_pick_class(s, &t->floors, waits)) {
        flow_charge_class(s, &t->floors, waits, class, recipients);
    }
    uint64_t now = virtual_time(t, share);
    t->served[class] = now > t->served[class] ? now : t->served[class];
    claim_pay(t, share);
    share->start += turn_price(share, recipients);
    t->last = NULL;
    if (share->waiting > 1) {
        file_share(s, share);
    } else if (share_is_in_line(share)) {
        tree_remove(&t->waiting[class],
                    &share->in_turn); /* its last entry: it is counted out next */
        turn_touch_one(s, t);         /* before its lanes are */
    }
    return true;
}

void turn_charge(struct sched *s, struct sched_entry *e)
{
    const struct stand *stand = stand_of(e->peer);
    e->is_charged = charge(s, stand->at_party.share, e->count);
    struct share *lanes = turn_share_at_lanes(stand);
    e->is_charged_at_lanes = lanes != NULL && charge(s, lanes, e->count);
}

static void give_share_back(struct sched *s, struct share *share, uint32_t recipients)
{
    uint64_t now = share->turn->served[share->flow->key.class],
             paid = turn_price(share, recipients);
    share->start = share->start > now + paid ? share->start - paid : now;
    file_share(s, share);
}

void turn_give_back(struct sched *s, struct sched_entry *e)
{
    const struct stand *stand = stand_of(e->peer);
    if (e->is_charged) {
        give_share_back(s, stand->at_party.share, e->count);
    }
    struct share *lanes = turn_share_at_lanes(stand);
    if (e->is_charged_at_lanes && lanes != NULL) {
        give_share_back(s, lanes, e->count);
    }
    e->is_charged = e->is_charged_at_lanes = false;
}

/* --- jobs ----------------------------------------------------------------------------------------- */

void turn_park(struct sched *s, struct peer *p)
{
    struct stand *stand = stand_of(p);
    tree_insert(&stand->parked, &p->in_parked);
    if (stand->parked.first == &p->in_parked) {
        turn_file_stand(s, stand);
    }
}

void turn_unpark(struct sched *s, struct peer *p)
{
    struct stand *stand = stand_of(p);
    bool was_first = stand->parked.first == &p->in_parked;
    tree_remove(&stand->parked, &p->in_parked);
    if (was_first) {
        turn_file_stand(s, stand);
    }
}

static void mark(struct share *share, uint64_t tag)
{
    share->tag = tag;
    shortage_mark(share);
}

void turn_mark(struct sched *s, const struct peer *p)
{
    const struct stand *stand = stand_of(p);
    mark(stand->at_party.share, p->job->flow->tag);
    struct share *lanes = turn_share_at_lanes(stand);
    if (lanes != NULL) {
        mark(lanes, p->job->flow->tag);
    }
}

void turn_review_stand(struct sched *s, struct stand *stand)
{
    for (int i = 0; i < 2; i++) {
        struct share *share = i == 0 ? stand->at_party.share : turn_share_at_lanes(stand);
        if (share != NULL) {
            turn_ask_again(s, share);
            turn_touch_one(s, share->turn);
        }
    }
}

void turn_file_member(struct sched *s, struct sched_destination *d)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        turn_file_stand(s, stand);
        turn_review_stand(s, stand);
    }
}

/* --- whose it is ---------------------------------------------------------------------------------- */

static enum openness openness_of_party(const struct sched *s, const struct party *p)
{
    switch (p->work) {
    case OPEN_NOW:
        return OPEN_NOW;
    case OPEN_SLOT:
        return p->site == NULL || (shared_party_of(p)->set->room & p->families) != 0 ? OPEN_SLOT
                                                                                     : OPEN_NOT;
    case OPEN_HOST:
        return server_has_room(p, party_room(s, p)) ? OPEN_SLOT : OPEN_NOT;
    case OPEN_NOT:
    case OPEN_COUNT:
    default:
        return OPEN_NOT;
    }
}

enum openness turn_openness(const struct sched *s, const struct turn *t)
{
    if (t->set != NULL) {
        return t->set->room != 0 && t->set->seeking > 0 ? OPEN_SLOT : OPEN_NOT;
    }
    if (shares_lanes(t->party)) {
        return t->party->work == OPEN_NOW ? OPEN_NOW : OPEN_NOT;
    }
    return openness_of_party(s, t->party);
}

struct share *turn_first_share(const struct sched *s, const struct turn *t)
{
    bool waits[SCHED_CLASSES], is_any = false;
    for (int i = 0; i < SCHED_CLASSES; i++) {
        waits[i] = !tree_is_empty(&t->waiting[i]);
        is_any = is_any || waits[i];
    }
    if (!is_any) {
        return NULL;
    }
    uint32_t class = flow_pick_class(s, &t->floors, waits);
    return container_of(t->waiting[class].first, struct share, in_turn);
}

/* A new connection of the set's lanes would end an idle one. */
static bool connections_are_scarce(const struct sched *s, const struct lane_set *set)
{
    if (s->shared.connections >= (uint64_t)s->config.process_limit) {
        return true;
    }
    LANE_FOREACH(l, set->site, set->mask & set->site->present)
    {
        if (l->most_connections > 0 && l->lane.connections >= l->most_connections) {
            return true;
        }
    }
    return false;
}

void turn_vacate(struct sched *s, const struct flow *f, const struct party *p)
{
    struct turn *t = shares_lanes(p) ? shared_party_of(p)->set->flow_turn : NULL;
    if (t != NULL && connections_are_scarce(s, t->set)) {
        t->last = turn_share(s, f, t);
        t->goes_on = t->last == NULL ? 0 : turn_price(t->last, GOES_ON);
        turn_touch_one(s, t);
    }
}

struct share *turn_next_share(const struct sched *s, const struct turn *t)
{
    struct share *first = turn_first_share(s, t), *last = t->last;
    if (t->claimant != NULL && share_is_in_line(t->claimant)) {
        return t->claimant;
    }
    bool can_go_on = last != NULL && first != NULL && share_is_in_line(last) &&
                     last->flow->key.class == first->flow->key.class;
    return can_go_on && last->start <= first->start + t->goes_on ? last : first;
}

bool turn_blocks(const struct share *share)
{
    const struct flow *f = share->flow;
    return share->tag == f->tag ||
           (!tree_is_empty(&share->queue) && turn_first_job(share)->position < f->passed);
}

void turn_pass_share(struct sched *s, struct share *share)
{
    assert(share_is_in_line(share));
    tree_remove(&share->turn->waiting[share->flow->key.class], &share->in_turn);
    share->is_passed = true;
    list_push_back(&share->turn->passed, &share->in_passed);
    list_push_back(&share->flow->passed_shares, &share->in_flow);
    file_anew(s, share);
}

/* Some connection waits for mail there. */
static bool has_idle(const struct turn *t)
{
    if (t->party != NULL) {
        return !tree_is_empty(&t->party->idle);
    }
    LANE_FOREACH(l, t->set->site, t->set->mask & t->set->site->present)
    {
        if (l->lane.idle_connections > 0) {
            return true;
        }
    }
    return false;
}

/* Its capped messages ride on connections that are there. */
static void ask_marked(struct sched *s, struct turn *t)
{
    list_foreach_safe(passed, &t->passed, struct share, in_passed)
    {
        if (passed->tag == passed->flow->tag) {
            turn_ask_again(s, passed);
        }
    }
    if (t->is_free && has_idle(t)) {
        shortage_ride(s, t);
    }
}

bool turn_depends_on_slots(const struct turn *t, enum openness need)
{
    return need == OPEN_SLOT ? !t->is_short && !claim_stands(t) : t->is_free;
}

/* Whether its next room is that of a slot, from now on. An idle connection is as good as one. When
 * process_limit was lowered there may be one, and no slot: then it is that of a flow. */
static bool become_free(struct sched *s, struct turn *t, enum openness need)
{
    bool was_free = t->is_free, has_slot = connection_has_slot(s);
    t->is_short =
        need != OPEN_NOT && (t->is_short || (need == OPEN_SLOT && !has_slot && !claim_stands(t)));
    t->is_free = t->is_short && (need == OPEN_SLOT ||
                                 (has_slot && t->party != NULL && placement_is_idle(t->party)));
    list_remove(&t->in_unlimited);
    if (turn_depends_on_slots(t, need)) {
        list_push_back(&s->flows.unlimited, &t->in_unlimited);
    }
    if (t->is_free && !was_free) {
        turn_give(t, NULL, OPEN_NOT);
        shortage_begin(s, t);
    }
    return t->is_free;
}

/* NULL: nobody has something to look at. */
static struct share *next_share(struct sched *s, struct turn *t, enum openness need)
{
    struct share *share;
    while ((share = turn_next_share(s, t)) != NULL) {
        struct flow *f = share->flow;
        if (turn_blocks(share)) {
            job_unblock_all(s, f);
        }
        if (f->is_live || (f->passed_without_slot && need == OPEN_SLOT)) {
            break;
        }
        turn_pass_share(s, share);
    }
    return share;
}

/* --- who rides, where others wait for a place ------------------------------------------------------- */

#define DEPTHS_AHEAD 4 /* of all connections: nobody is further ahead */

void turn_unbar(struct turn *t)
{
    if (tree_node_is_linked(&t->in_barred)) {
        tree_remove(&shared_party_of(t->party)->set->flow_turn->barred, &t->in_barred);
    }
}

/* The window of each of the lanes is used up. */
static bool windows_are_full(const struct lane_set *set)
{
    return (set->mask & set->site->room) == 0;
}

/* Who has the next place at the lanes; NULL: nobody waits, or there are places and no party needs one, or what is
 * lacking is a slot, or a new connection that none that is there would be worth. */
static const struct share *first_behind(const struct sched *s, const struct turn *lanes)
{
    const struct lane_set *set = lanes->set;
    bool is_no_place_lacking = !windows_are_full(set) && (set->room == 0 || set->seeking == 0);
    return is_no_place_lacking || lanes->is_free ? NULL : turn_first_share(s, lanes);
}

static uint64_t least_tag(const struct sched *s, const struct turn *lanes)
{
    const struct share *first = first_behind(s, lanes);
    return first == NULL ? UINT64_MAX : first->start;
}

bool turn_may_ride_again(const struct sched *s, const struct turn *t)
{
    const struct turn *lanes = shared_party_of(t->party)->set->flow_turn;
    return !list_is_linked(&lanes->touched) && t->barred_until <= least_tag(s, lanes);
}

/* Whether a flow may ride at a party whose turn it has: it is not ahead of the first one by more than so many depths
 * of all connections, and leaves a connection when it is ahead by one of one. A higher class that waits is ahead of any
 * lower one, as it has the next place. */
static bool may_ride(struct sched *s, struct turn *t, const struct share *share)
{
    const struct lane_set *set = shared_party_of(t->party)->set;
    const struct share *first = first_behind(s, set->flow_turn);
    const struct share *own = turn_share(s, share->flow, set->flow_turn);
    assert(own != NULL);
    if (first == NULL || first == own || first->flow->key.class > own->flow->key.class) {
        return true;
    }
    bool is_lower = first->flow->key.class < own->flow->key.class;
    uint64_t depth = turn_price(own, (uint32_t)s->config.pipeline_depth);
    if (!is_lower && own->start <= first->start + depth) {
        return true;
    }
    list_remove(&t->in_ahead);
    if (windows_are_full(set)) {
        t->yields = connection_with_room(t->party, NULL, t->party->group, 0);
        list_push_back(&s->flows.ahead, &t->in_ahead);
    }
    uint64_t most = depth * DEPTHS_AHEAD * (uint64_t)(set->site->busy > 1 ? set->site->busy : 1);
    if (is_lower || own->start <= first->start + most) {
        return true;
    }
    t->barred_until = own->start - most;
    tree_insert(&set->flow_turn->barred, &t->in_barred);
    return false;
}

/* Those that may ride again. */
static void touch_barred(struct sched *s, struct turn *lanes)
{
    uint64_t least = tree_is_empty(&lanes->barred) ? 0 : least_tag(s, lanes);
    while (!tree_is_empty(&lanes->barred) && barred_key(lanes->barred.first) <= least) {
        struct turn *t = container_of(lanes->barred.first, struct turn, in_barred);
        turn_unbar(t);
        turn_touch_one(s, t);
    }
}

void turn_yield_all(struct sched *s)
{
    while (!list_is_empty(&s->flows.ahead)) {
        struct turn *t = list_first(&s->flows.ahead, struct turn, in_ahead);
        list_remove(&t->in_ahead);
        struct connection *c = t->yields;
        if (c != NULL && c->party == t->party && handover_yield(s, c)) {
            s->flows.has_given = true;
        }
    }
}

static void decide(struct sched *s, struct turn *t)
{
    enum openness need = turn_openness(s, t);
    if (t->party != NULL) {
        turn_unbar(t);
    }
    claim_update(s, t, need);
    bool is_free = become_free(s, t, need);
    if (need != OPEN_NOT && t->has_news) {
        ask_marked(s, t);
    }
    t->has_news = false;
    if (is_free) {
        touch_barred(s, t);
        return;
    }
    struct share *share = need == OPEN_NOT ? NULL : next_share(s, t, need);
    if (t->set != NULL) {
        touch_barred(s, t);
    } else if (share != NULL && shares_lanes(t->party) && !may_ride(s, t, share)) {
        share = NULL;
    }
    if (t->whose != share || t->ready_in != need) {
        turn_give(t, share, share == NULL ? OPEN_NOT : need);
    }
}

void turn_settle_all(struct sched *s)
{
    if (!connection_has_slot(s)) {
        while (!list_is_empty(&s->flows.unlimited)) {
            struct turn *t = list_first(&s->flows.unlimited, struct turn, in_unlimited);
            list_remove(&t->in_unlimited);
            turn_touch_one(s, t);
        }
    }
    while (!list_is_empty(&s->flows.touched)) {
        struct turn *t = list_first(&s->flows.touched, struct turn, touched);
        decide(s, t);
        list_remove(&t->touched); /* settling has touched it */
    }
}

/* The turn of the destination's lanes, where it is that which an entry of it needs; else NULL. */
static const struct turn *turn_of_lanes(const struct sched_destination *d)
{
    return shares_lanes(d->party) ? shared_party_of(d->party)->set->flow_turn : NULL;
}

static bool is_turn_of(const struct sched *s, const struct turn *t, const struct flow *f)
{
    if (t == NULL) {
        return false;
    }
    return t->is_free ? connection_has_slot(s) : t->whose != NULL && t->whose->flow == f;
}

bool turn_allows(const struct sched *s, const struct sched_destination *d, const struct flow *f)
{
    return (is_turn_of(s, d->party->turn, f) || is_turn_of(s, turn_of_lanes(d), f)) &&
           destination_is_open(s, d);
}

static bool is_found_at(const struct turn *t, const struct standing *at)
{
    return t->is_free ? at->share != NULL && share_seeks(at->share)
                      : tree_node_is_linked(&t->in_ready) && t->whose == at->share;
}

bool turn_finds(const struct sched *s, const struct sched_destination *d, const struct flow *f)
{
    const struct turn *lanes = turn_of_lanes(d);
    const struct stand *stand = turn_stand(s, f, d);
    return stand != NULL && (is_found_at(d->party->turn, &stand->at_party) ||
                             (lanes != NULL && is_found_at(lanes, stand->at_lanes)));
}

void turn_pass(struct sched *s, struct flow *f)
{
    bool has_slot = connection_has_slot(s);
    list_foreach_safe(t, &f->holds, struct turn, in_flow)
    {
        if (t->ready_in == OPEN_NOW || has_slot) {
            t->whose->passed_in = (uint32_t)s->selection_runs;
            turn_pass_share(s, t->whose);
        }
    }
    if (!f->passed_without_slot) {
        shortage_rest(f);
    }
}

void turn_retry(struct sched *s, struct flow *f)
{
    list_foreach_safe(share, &f->passed_shares, struct share, in_flow)
    {
        bool is_kept = s->flows.keeps_passed && share->passed_in == (uint32_t)s->selection_runs;
        s->flows.has_kept |= is_kept;
        if (!is_kept) {
            turn_ask_again(s, share);
        }
    }
}

static void touch_turn(struct sched *s, struct turn *t)
{
    if (t != NULL) {
        t->has_news = true;
        turn_touch_one(s, t);
    }
}

void turn_touch(struct sched *s, struct party *p)
{
    touch_turn(s, p->turn);
    if (shares_lanes(p)) {
        touch_turn(s, shared_party_of(p)->set->flow_turn);
    }
}

void turn_touch_set(struct sched *s, struct lane_set *set)
{
    touch_turn(s, set->flow_turn);
    if (set->sharing == set->parties) {
        return;
    }
    list_foreach(q, &set->site->parties, struct shared_party, in_site)
    {
        if (q->set == set && !q->shares_lanes) {
            touch_turn(s, q->party.turn);
        }
    }
}
