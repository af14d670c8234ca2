/* Purses, see sched/purse.h. Called by selection and parking (jobs), entry (what waits), the public
 * calls and the pull loop. Knows nothing of rates: who lends says what may go when.
 *
 * A job is held when selection meets it, not before, and one that is let go and finds its destinations
 * closed waits for these as any other does: it is met again when one of them opens. So a job takes a
 * step for each time that it is met, and none in between, whoever waits for what. How many steps a
 * loan may cost is bounded: when those that were let go have all found closed destinations, what was
 * lent goes back, and the rest try later, or when the next one is met. */
#include "sched/purse.h"

#include "sched/parking.h"
#include "sched/place/shed.h"
#include "sched/preempt.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>

/* Jobs that one loan lets go in vain. */
#define TRIES_MOST 64
/* What was lent in vain is not asked for again before, unless a job is met. */
#define PAUSE_IN_VAIN (100 * USEC_PER_MSEC)
/* An answer that has no time in the future. */
#define PAUSE_LEAST USEC_PER_MSEC

static uint64_t job_key(const struct tree_node *n)
{
    return container_of(n, const struct job, in_place)->position;
}

/* --- owners ------------------------------------------------------------------------------------- */

void purse_init_all(struct sched *s)
{
    list_init(&s->owners.unused);
    list_init(&s->touched_owners);
    list_init(&s->owners_to_shed);
    list_init(&s->owners_in_excess);
    list_init(&s->lent_owners);
    heap_init(&s->owner_timers, s->host.alloc, s->host.release, s->host.ctx);
}

/* errors: -ENOMEM */
static int grow(struct sched *s)
{
    struct owners *all = &s->owners;
    uint32_t room = all->room == 0 ? 16 : 2 * all->room;
    if (all->count < all->room) {
        return 0;
    }
    struct sched_owner **at = s->host.alloc(s->host.ctx, room * sizeof(*at));
    if (at == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        at[i] = all->at[i];
    }
    if (all->at != NULL) {
        s->host.release(s->host.ctx, all->at);
    }
    all->at = at;
    all->room = room;
    return 0;
}

/* With a place; NULL when out of memory. Place 0 is nobody's. */
static struct sched_owner *obtain_place(struct sched *s)
{
    struct owners *all = &s->owners;
    if (!list_is_empty(&all->unused)) {
        struct sched_owner *o = list_first(&all->unused, struct sched_owner, touched);
        list_remove(&o->touched);
        return o;
    }
    struct sched_owner *o = grow(s) != 0 ? NULL : s->host.alloc(s->host.ctx, sizeof(*o));
    if (o != NULL) {
        all->count = all->count == 0 ? 1 : all->count;
        all->at[0] = NULL;
        o->place = all->count;
        all->at[all->count++] = o;
    }
    return o;
}

/* Its place and its memory stay for the next one. */
static void put_place(struct sched *s, struct sched_owner *o)
{
    list_init(&o->touched);
    list_push_back(&s->owners.unused, &o->touched);
}

struct sched_owner *sched_owner_new(struct sched *s, void *user)
{
    struct sched_owner *o = obtain_place(s);
    if (o == NULL) {
        return NULL;
    }
    *o = (struct sched_owner){.user = user, .place = o->place};
    action_init(&o->ask);
    action_init(&o->back);
    list_init(&o->touched);
    list_init(&o->shed_touched);
    list_init(&o->in_excess);
    list_init(&o->in_lent);
    tree_init(&o->held, job_key);
    if (heap_insert(&s->owner_timers, &o->timer, USEC_NEVER) != 0) {
        put_place(s, o);
        return NULL;
    }
    return o;
}

bool sched_owner_is_idle(const struct sched_owner *o)
{
    return o->jobs == 0 && o->state != PURSE_LENT && o->back.kind == SCHED_NONE;
}

void sched_owner_free(struct sched *s, struct sched_owner *o)
{
    if (o == NULL) {
        return;
    }
    assert(sched_owner_is_idle(o) && tree_is_empty(&o->held));
    action_cancel(&o->ask);
    list_remove(&o->touched);
    shed_leave_owner(s, o);
    heap_remove(&s->owner_timers, &o->timer);
    put_place(s, o);
}

void purse_fini_all(struct sched *s)
{
    for (uint32_t i = 1; i < s->owners.count; i++) {
        s->host.release(s->host.ctx, s->owners.at[i]);
    }
    if (s->owners.at != NULL) {
        s->host.release(s->host.ctx, s->owners.at);
    }
    heap_fini(&s->owner_timers);
}

struct sched_owner *purse_of(const struct sched *s, const struct job *j)
{
    return j->owner == 0 ? NULL : s->owners.at[j->owner];
}

/* Of a job that has one. */
static NONNULL_RET struct sched_owner *owner_of(const struct sched *s, const struct job *j)
{
    return s->owners.at[j->owner];
}

/* --- what is lent --------------------------------------------------------------------------------- */

static bool is_usable(const struct sched *s, const struct sched_owner *o)
{
    return o->state == PURSE_LENT && o->lent.messages > 0 && o->lent.recipients > 0 &&
           s->now >= o->lent.from && s->now < o->lent.until;
}

bool purse_allows(const struct sched *s, const struct job *j)
{
    const struct sched_owner *o = purse_of(s, j);
    return o == NULL || is_usable(s, o);
}

static void touch(struct sched *s, struct sched_owner *o)
{
    if (!list_is_linked(&o->touched)) {
        list_push_back(&s->touched_owners, &o->touched);
    }
}

void purse_use(struct sched *s, const struct job *j, uint32_t recipients)
{
    struct sched_owner *o = purse_of(s, j);
    if (o == NULL) {
        return;
    }
    assert(is_usable(s, o));
    o->lent.messages--;
    o->is_used = true;
    o->tries = 0;
    o->going -= o->going > 0;
    if (o->lent.recipients != SCHED_NO_BOUND) {
        o->lent.recipients -= recipients;
    }
    touch(s, o);
}

static void arm_purse(struct sched *s, struct sched_owner *o)
{
    usec_t until = USEC_NEVER;
    if (o->state == PURSE_WAITING) {
        until = o->lent.due;
    } else if (o->state == PURSE_LENT) {
        until = s->now < o->lent.from ? o->lent.from : o->lent.until;
    }
    if (until != o->timer.key) {
        heap_move(&s->owner_timers, &o->timer, until);
    }
}

static void ask(struct sched *s, struct sched_owner *o)
{
    o->state = PURSE_ASKED;
    o->is_vain = false;
    action_queue(s, &o->ask, SCHED_OWNER_ASKS);
}

static void give_back(struct sched *s, struct sched_owner *o)
{
    struct sched_grant *lent = &o->lent;
    assert(o->state == PURSE_LENT && o->back.kind == SCHED_NONE);
    o->state = PURSE_NONE;
    list_remove(&o->in_lent);
    o->left = (struct sched_units){.messages = lent->messages};
    if (lent->recipients != SCHED_NO_BOUND && lent->recipients < 0) {
        o->owed += (uint32_t)-lent->recipients;
    } else if (lent->recipients != SCHED_NO_BOUND) {
        o->left.recipients = (uint32_t)lent->recipients;
    }
    lent->messages = 0;
    if (o->left.messages + o->left.recipients > 0) {
        action_queue(s, &o->back, SCHED_OWNER_RETURNS);
    }
}

static bool has_open_destination(const struct sched *s, const struct job *j)
{
    list_foreach(p, &j->peers, const struct peer, link)
    {
        if (peer_is_waiting(p) && peer_is_open(s, p)) {
            return true;
        }
    }
    return false;
}

/* In the order of the schedule, until as many as may go find an open destination. */
static void let_some_go(struct sched *s, struct sched_owner *o)
{
    o->going = o->runnable == 0 ? 0 : o->going;
    while (is_usable(s, o) && o->going < o->lent.messages && o->tries < TRIES_MOST &&
           o->waiting > 0) {
        struct job *j = container_of(o->held.first, struct job, in_place);
        o->tries++;
        job_unblock(s, j);
        preempt_invalidate(j->flow);
        o->going += has_open_destination(s, j);
    }
}

bool purse_retry(struct sched *s)
{
    bool has_more = false;
    list_foreach(o, &s->lent_owners, struct sched_owner, in_lent)
    {
        if (is_usable(s, o) && o->tries < TRIES_MOST && o->waiting > 0) {
            o->going = 0;
            touch(s, o);
            has_more = true;
        }
    }
    return has_more;
}

static void pause_in_vain(struct sched *s, struct sched_owner *o)
{
    o->state = PURSE_WAITING;
    o->is_vain = true;
    o->lent.due = s->now + PAUSE_IN_VAIN;
}

/* What it was lent is used up, over, or not needed. */
static void settle_loan(struct sched *s, struct sched_owner *o)
{
    bool is_over = s->now >= o->lent.until || o->lent.messages == 0 || o->lent.recipients <= 0;
    bool is_wanted = o->runnable > 0 || o->waiting > 0;
    /* All that were let go have found closed destinations, and those that are left would too. */
    bool is_tried = o->runnable == 0 && o->tries >= TRIES_MOST && is_wanted;
    if (!is_over && is_wanted && !is_tried) {
        return;
    }
    give_back(s, o);
    if (is_tried || (is_wanted && !o->is_used)) {
        pause_in_vain(s, o);
    }
}

static void settle(struct sched *s, struct sched_owner *o)
{
    let_some_go(s, o);
    if (o->state == PURSE_LENT) {
        settle_loan(s, o);
    }
    if (o->state == PURSE_WAITING && s->now >= o->lent.due) {
        o->state = PURSE_NONE;
    }
    bool is_wanted = o->waiting > 0 && !s->hold;
    if (o->state == PURSE_NONE && is_wanted) {
        ask(s, o);
    } else if (o->ask.kind != SCHED_NONE && !is_wanted) {
        action_cancel(&o->ask);
        o->state = PURSE_NONE;
    }
    arm_purse(s, o);
}

void purse_settle_all(struct sched *s)
{
    while (!list_is_empty(&s->touched_owners)) {
        struct sched_owner *o = list_first(&s->touched_owners, struct sched_owner, touched);
        settle(s, o);
        list_remove(&o->touched); /* letting jobs go has touched it */
    }
}

void purse_touch_all(struct sched *s)
{
    for (uint32_t i = 1; i < s->owners.count; i++) {
        if (s->owners.at[i]->timer.position != 0) {
            touch(s, s->owners.at[i]);
        }
    }
}

/* --- jobs ----------------------------------------------------------------------------------------- */

/* What is held is no reason for a destination to look for a connection, or for its lanes to ask. */
static void count_at_destinations(struct sched *s, const struct job *j, int sign)
{
    list_foreach(p, &j->peers, struct peer, link)
    {
        int count = 0;
        for (const struct sched_entry *e = entry_queue_first(&p->waiting); e != NULL;
             e = entry_queue_next(&p->waiting, e)) {
            count++;
        }
        if (count > 0) {
            shared_add(&p->destination->held, sign * count);
            destination_recount(s, p->destination);
        }
    }
}

bool purse_hold(struct sched *s, struct job *j)
{
    struct sched_owner *o = owner_of(s, j);
    parking_hold(s, j, &o->held);
    j->is_gated = false;
    shared_set(&j->why, o->why == SCHED_WHY_NOTHING ? SCHED_WHY_TENANT_RATE : o->why);
    o->waiting += j->waiting;
    count_at_destinations(s, j, 1);
    shed_touch_owner(s, o);
    touch(s, o);
    bool may_ask = o->state == PURSE_NONE || (o->state == PURSE_WAITING && o->is_vain);
    if (may_ask) {
        ask(s, o);
        arm_purse(s, o);
        return true;
    }
    return false;
}

void purse_let_go(struct sched *s, struct job *j)
{
    struct sched_owner *o = owner_of(s, j);
    tree_remove(&o->held, &j->in_place);
    o->waiting -= j->waiting;
    count_at_destinations(s, j, -1);
    shed_touch_owner(s, o);
    touch(s, o);
}

void purse_count_waiting(struct sched *s, const struct peer *p, int change)
{
    struct sched_owner *o = purse_of(s, p->job);
    if (o != NULL && p->job->place == JOB_HELD) {
        o->waiting += change;
        shared_add(&p->destination->held, change);
        shed_touch_owner(s, o);
        touch(s, o);
    }
}

void purse_count_runnable(struct sched *s, const struct job *j, int change)
{
    struct sched_owner *o = purse_of(s, j);
    if (o != NULL) {
        o->runnable += (uint32_t)change;
        touch(s, o);
    }
}

void purse_own(struct sched *s, struct job *j, struct sched_owner *o)
{
    struct sched_owner *before = purse_of(s, j);
    if (before != NULL) {
        before->jobs--;
        touch(s, before);
    }
    j->owner = o == NULL ? 0 : o->place;
    if (o != NULL) {
        o->jobs++;
    }
}

/* --- what the shell says ------------------------------------------------------------------------ */

void sched_own(struct sched *s, uint64_t message_id, struct sched_owner *o, usec_t now)
{
    transport_enter(s, now);
    struct job *j = job_find(s, message_id);
    if (j == NULL || purse_of(s, j) == o) {
        return;
    }
    s->resume_job = NULL;
    bool is_linked = job_is_linked(j);
    if (is_linked && j->place == JOB_HELD) {
        job_unblock(s, j);
        preempt_invalidate(j->flow);
    }
    int runnable = is_linked && j->place == JOB_RUNNABLE;
    purse_count_runnable(s, j, -runnable);
    purse_own(s, j, o);
    purse_count_runnable(s, j, runnable);
}

bool sched_owner_grant(struct sched *s, struct sched_owner *o, const struct sched_grant *lent,
                       usec_t now)
{
    transport_enter(s, now);
    if (o->state != PURSE_ASKED || o->ask.kind != SCHED_NONE) {
        return false;
    }
    o->lent = *lent;
    o->owed = 0; /* it was asked for with the rest */
    o->per_second = lent->per_second > 0 ? lent->per_second : o->per_second;
    o->tries = 0;
    o->why = lent->why;
    o->going = 0;
    o->is_used = false;
    if (lent->messages > 0) {
        o->state = PURSE_LENT;
        list_push_back(&s->lent_owners, &o->in_lent);
    } else {
        o->state = PURSE_WAITING;
        o->lent.due = lent->due > s->now ? lent->due : s->now + PAUSE_LEAST;
    }
    arm_purse(s, o);
    shed_touch_owner(s, o);
    touch(s, o);
    return true;
}

void sched_owner_ask_again(struct sched *s, struct sched_owner *o, usec_t now)
{
    transport_enter(s, now);
    if (o->state == PURSE_WAITING) {
        o->state = PURSE_NONE;
        shed_touch_owner(s, o);
        touch(s, o);
    }
}

void purse_fill(struct sched *s, struct pending *p, struct sched_action *ret)
{
    struct sched_loan *loan = &s->loan;
    *loan = (struct sched_loan){0};
    struct sched_owner *o;
    if (ret->kind == SCHED_OWNER_ASKS) {
        o = container_of(p, struct sched_owner, ask);
        int64_t most = (int64_t)s->config.process_limit * s->config.pipeline_depth;
        most = most < UINT32_MAX ? most : UINT32_MAX;
        loan->wanted = (uint32_t)(o->waiting < most ? o->waiting : most);
        loan->recipients_owed = o->owed;
        loan->has_connection = true;
    } else {
        o = container_of(p, struct sched_owner, back);
        loan->left = o->left;
        o->left = (struct sched_units){0};
    }
    ret->loan = loan;
    ret->owner_user = o->user;
}

/* --- time ----------------------------------------------------------------------------------------- */

usec_t purse_wake_at(const struct sched *s)
{
    if (!list_is_empty(&s->touched_owners) || !list_is_empty(&s->owners_to_shed)) {
        return s->now;
    }
    const struct heap_node *node = heap_min(&s->owner_timers);
    return node == NULL ? USEC_NEVER : node->key;
}

void purse_tick(struct sched *s)
{
    struct heap_node *node;
    while ((node = heap_min(&s->owner_timers)) != NULL && node->key <= s->now) {
        settle(s, container_of(node, struct sched_owner, timer));
    }
}

/* --- checks --------------------------------------------------------------------------------------- */

static const char *check_owner(const struct sched *s, const struct sched_owner *o)
{
    int64_t waiting = 0;
    for (const struct tree_node *n = o->held.first; n != NULL; n = tree_next(n)) {
        const struct job *j = container_of(n, const struct job, in_place);
        if (j->place != JOB_HELD || j->owner != o->place || !job_is_linked(j)) {
            return "an owner holds what is not its own";
        }
        waiting += j->waiting;
    }
    if (waiting != o->waiting) {
        return "owner.waiting is the entries of the jobs that are held";
    }
    bool is_settled = !list_is_linked(&o->touched);
    bool wants = o->waiting > 0 && !s->hold;
    if (is_settled && wants && o->state == PURSE_NONE) {
        return "an owner that holds jobs asks, has been lent something, or waits";
    }
    if (is_settled && wants && is_usable(s, o) && o->runnable == 0) {
        return "what is lent to an owner lets its jobs go";
    }
    if (list_is_linked(&o->in_lent) != (o->state == PURSE_LENT)) {
        return "what is lent is listed";
    }
    bool has_timer = o->state == PURSE_WAITING || o->state == PURSE_LENT;
    if (is_settled && has_timer != (o->timer.key != USEC_NEVER)) {
        return "an owner has a timer while it waits or was lent something";
    }
    bool is_counted = o->excess >= 0 && (o->excess > 0) == list_is_linked(&o->in_excess);
    if (!is_counted || (o->excess > o->waiting && !list_is_linked(&o->shed_touched))) {
        return "owner.excess is of what is held";
    }
    return NULL;
}

int64_t purse_excess(const struct sched *s)
{
    int64_t sum = 0;
    for (uint32_t i = 1; i < s->owners.count; i++) {
        sum += s->owners.at[i]->timer.position == 0 ? 0 : s->owners.at[i]->excess;
    }
    return sum;
}

const char *purse_check(const struct sched *s)
{
    uint64_t cursor = 0, jobs = 0, runnable = 0, all_jobs = 0, all_runnable = 0;
    const struct table_node *node;
    for (uint32_t i = 1; i < s->owners.count; i++) {
        const struct sched_owner *o = s->owners.at[i];
        if (o->timer.position == 0) {
            continue; /* its place is unused */
        }
        const char *wrong = check_owner(s, o);
        if (wrong != NULL) {
            return wrong;
        }
        all_jobs += o->jobs;
        all_runnable += o->runnable;
    }
    while ((node = table_next(&s->by_id, &cursor)) != NULL) {
        const struct job *j = container_of(node, const struct job, node);
        jobs += j->owner != 0;
        runnable += j->owner != 0 && job_is_linked(j) && j->place == JOB_RUNNABLE;
    }
    return jobs == all_jobs && runnable == all_runnable ? NULL : "owners count their jobs";
}
