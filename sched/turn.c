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

#include "base/hash.h"
#include "sched/destination.h"
#include "sched/job.h"
#include "sched/parking.h"
#include "sched/place/shortage.h"
#include "sched/place/site.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define UNIT (UINT64_C(1) << 20) /* of tags, for each recipient at weight 1 */

/* --- order ---------------------------------------------------------------------------------------- */

static uint64_t peer_key(const struct tree_node *n)
{
    return container_of(n, const struct peer, in_parked)->job->position;
}

static uint64_t stand_key(const struct tree_node *n)
{
    return peer_key(container_of(n, const struct stand, in_queue)->parked.first);
}

static uint64_t share_key(const struct tree_node *n)
{
    return container_of(n, const struct share, in_turn)->start;
}

static uint64_t turn_key(const struct tree_node *n)
{
    return stand_key(container_of(n, const struct turn, in_ready)->whose->queue.first);
}

struct job *turn_first_job(const struct share *share)
{
    const struct stand *stand = container_of(share->queue.first, const struct stand, in_queue);
    return container_of(stand->parked.first, struct peer, in_parked)->job;
}

void turn_init_trees(struct turn *t)
{
    for (int i = 0; i < SCHED_CLASSES; i++) {
        tree_init(&t->waiting[i], share_key);
    }
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
    if (tree_node_is_linked(&share->in_turn)) {
        tree_remove(waiting, &share->in_turn);
    }
    if (share->waiting > 0 && !list_is_linked(&share->in_passed)) {
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

/* What selection did not find there may be there now. */
void turn_ask_again(struct sched *s, struct share *share)
{
    if (list_is_linked(&share->in_passed)) {
        list_remove(&share->in_passed);
        list_remove(&share->in_flow);
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
    share->stake->waiting += is_waiting ? 1 : (uint32_t)-1;
    if (is_waiting) {
        uint64_t now = share->turn->served[share->flow->key.class];
        share->start = share->start < now ? now : share->start;
    } else {
        list_remove(&share->in_passed);
        list_remove(&share->in_flow);
    }
    file_anew(s, share);
}

static void refile_stand(struct sched *s, struct stand *stand, bool is_there)
{
    struct share *share = stand->share;
    bool is_whose = share->turn->whose == share;
    if (is_whose) {
        unready(share->turn);
    }
    shortage_unfile(share);
    if (tree_node_is_linked(&stand->in_queue)) {
        tree_remove(&share->queue, &stand->in_queue);
    }
    if (is_there) {
        tree_insert(&share->queue, &stand->in_queue);
    }
    if (is_whose) {
        make_ready(share->turn);
    }
    shortage_file(s, share);
}

void turn_unfile_stand(struct sched *s, struct stand *stand)
{
    refile_stand(s, stand, false);
}

void turn_file_stand(struct sched *s, struct stand *stand)
{
    const struct sched_destination *d = stand->destination;
    if (stand->share != NULL) { /* else its destination is on the move */
        refile_stand(s, stand,
                     !tree_is_empty(&stand->parked) && (d->party == &d->own || d->is_willing));
    }
}

void turn_count_waiting(struct sched *s, const struct peer *p, int change)
{
    struct stand *stand = stand_of(p);
    stand->waiting += (uint32_t)change;
    turn_count_share(s, stand->share, change);
    if (change > 0) {
        turn_ask_again(s, stand->share);
    }
}

/* --- what it costs -------------------------------------------------------------------------------- */

static uint64_t price(const struct share *share, uint32_t recipients)
{
    uint64_t campaigns = share->stake->waiting > 0 ? share->stake->waiting : 1;
    return UNIT * recipients * campaigns / share->flow->weight;
}

void turn_charge(struct sched *s, struct sched_entry *e)
{
    struct share *share = stand_of(e->peer)->share;
    struct turn *t = share->turn;
    uint32_t class = share->flow->key.class;
    bool waits[SCHED_CLASSES];
    e->is_charged = !t->is_free;
    if (t->is_free) {
        turn_touch_one(s, t); /* further entries may ride along */
        return;
    }
    for (int i = 0; i < SCHED_CLASSES; i++) {
        waits[i] = !tree_is_empty(&t->waiting[i]);
    }
    flow_charge_class(s, &t->floors, waits, class, e->count);
    t->served[class] = share->start > t->served[class] ? share->start : t->served[class];
    share->start += price(share, e->count);
    file_share(s, share);
}

void turn_give_back(struct sched *s, struct sched_entry *e)
{
    struct share *share = stand_of(e->peer)->share;
    if (e->is_charged) {
        uint64_t now = share->turn->served[share->flow->key.class], paid = price(share, e->count);
        share->start = share->start > now + paid ? share->start - paid : now;
        e->is_charged = false;
        file_share(s, share);
    }
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

void turn_mark(struct sched *s, const struct peer *p)
{
    struct share *share = stand_of(p)->share;
    share->tag = p->job->flow->tag;
    shortage_mark(share);
}

void turn_file_member(struct sched *s, struct sched_destination *d)
{
    list_foreach(stand, &d->stands, struct stand, in_destination)
    {
        turn_file_stand(s, stand);
        if (stand->share != NULL) {
            turn_ask_again(s, stand->share);
            turn_touch_one(s, stand->share->turn);
        }
    }
}

/* --- whose it is ---------------------------------------------------------------------------------- */

/* What an entry of a willing destination needs to be placed now, but for a slot. */
enum openness turn_openness(const struct sched *s, const struct party *p)
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

/* NULL: nobody waits. */
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

bool turn_blocks(const struct share *share)
{
    const struct flow *f = share->flow;
    return share->tag == f->tag ||
           (!tree_is_empty(&share->queue) && turn_first_job(share)->position < f->passed);
}

void turn_pass_share(struct sched *s, struct share *share)
{
    list_push_back(&share->turn->passed, &share->in_passed);
    list_push_back(&share->flow->passed_shares, &share->in_flow);
    file_anew(s, share);
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
    if (t->is_free && !tree_is_empty(&t->party->idle)) {
        shortage_ride(s, t);
    }
}

bool turn_depends_on_slots(const struct turn *t, enum openness need)
{
    return need == OPEN_SLOT ? !t->is_short : t->is_free;
}

/* Whether its next room is that of a slot, from now on. An idle connection is as good as one. When
 * process_limit was lowered there may be one, and no slot: then it is that of a flow. */
static bool become_free(struct sched *s, struct turn *t, enum openness need)
{
    const struct party *p = t->party;
    bool was_free = t->is_free, has_slot = connection_has_slot(s);
    t->is_short = need != OPEN_NOT && (t->is_short || (need == OPEN_SLOT && !has_slot));
    t->is_free = t->is_short && (need == OPEN_SLOT || (has_slot && placement_is_idle(p)));
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
    while ((share = turn_first_share(s, t)) != NULL) {
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

static void decide(struct sched *s, struct turn *t)
{
    enum openness need = turn_openness(s, t->party);
    bool is_free = become_free(s, t, need);
    if (need != OPEN_NOT && t->has_news) {
        ask_marked(s, t);
    }
    t->has_news = false;
    if (is_free) {
        return;
    }
    struct share *share = need == OPEN_NOT ? NULL : next_share(s, t, need);
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

bool turn_allows(const struct sched *s, const struct sched_destination *d, const struct flow *f)
{
    const struct turn *t = d->party->turn;
    if (t == NULL) {
        return false;
    }
    bool is_turn = t->is_free ? connection_has_slot(s) : t->whose != NULL && t->whose->flow == f;
    return is_turn && destination_is_open(s, d);
}

bool turn_finds(const struct sched *s, const struct sched_destination *d, const struct flow *f)
{
    const struct turn *t = d->party->turn;
    const struct stand *stand = turn_stand(s, f, d);
    return t->is_free ? stand != NULL && tree_node_is_linked(&stand->share->in_seeks)
                      : tree_node_is_linked(&t->in_ready);
}

void turn_pass(struct sched *s, struct flow *f)
{
    bool has_slot = connection_has_slot(s);
    list_foreach_safe(t, &f->holds, struct turn, in_flow)
    {
        if (t->ready_in == OPEN_NOW || has_slot) {
            turn_pass_share(s, t->whose);
        }
    }
    if (!f->passed_without_slot) {
        shortage_rest(f);
    }
}

void turn_retry(struct sched *s, struct flow *f)
{
    while (!list_is_empty(&f->passed_shares)) {
        turn_ask_again(s, list_first(&f->passed_shares, struct share, in_flow));
    }
}

void turn_touch(struct sched *s, struct party *p)
{
    if (p->turn != NULL) {
        p->turn->has_news = true;
        turn_touch_one(s, p->turn);
    }
}

void turn_touch_set(struct sched *s, struct lane_set *set)
{
    list_foreach(q, &set->site->parties, struct shared_party, in_site)
    {
        if (q->set == set) {
            turn_touch(s, &q->party);
        }
    }
}

void turn_touch_host(struct sched *s, struct destdb_host *h)
{
    list_foreach(server, &h->users, struct server, in_host)
    {
        turn_touch(s, server->party);
    }
}
