/* The candidate search (5.5). Called by preempt for the search, and wherever the size of a job
 * changes. All that are not blocked stand behind the current job, so that the search need not ask
 * where it starts. */
#include "sched/candidate.h"

#include "sched/parking.h"
#include "sched/transport.h"

#include <assert.h>

static uint64_t size_key(uint32_t need, uint32_t total)
{
    return (uint64_t)need << 32 | total;
}

static uint64_t class_key(const struct tree_node *n)
{
    const struct size_class *c = container_of(n, const struct size_class, in_sizes);
    return size_key(c->need, c->total);
}

static uint64_t job_key(const struct tree_node *n)
{
    return container_of(n, const struct job, in_class)->position;
}

void candidate_init(struct flow *f)
{
    tree_init(&f->sizes, class_key);
    list_init(&f->irregular);
}

static struct size_class *class_of(const struct tree_node *n)
{
    return n == NULL ? NULL : container_of(n, struct size_class, in_sizes);
}

/* NULL when out of memory. */
static struct size_class *obtain_class(struct sched *s, struct flow *f, uint32_t need,
                                       uint32_t total)
{
    struct size_class *c = class_of(tree_find_from(&f->sizes, size_key(need, total)));
    if (c != NULL && c->need == need && c->total == total) {
        return c;
    }
    c = s->host.alloc(s->host.ctx, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->need = need;
    c->total = total;
    tree_init(&c->free, job_key);
    tree_init(&c->parked, job_key);
    tree_insert(&f->sizes, &c->in_sizes);
    return c;
}

static struct tree *class_tree(const struct job *j)
{
    return j->place == JOB_PARKED ? &j->size_class->parked : &j->size_class->free;
}

void candidate_withdraw(struct sched *s, struct job *j)
{
    struct size_class *c = j->size_class;
    list_remove(&j->in_irregular);
    if (c == NULL) {
        return;
    }
    tree_remove(class_tree(j), &j->in_class);
    j->size_class = NULL;
    if (tree_is_empty(&c->free) && tree_is_empty(&c->parked)) {
        tree_remove(&j->flow->sizes, &c->in_sizes);
        s->host.release(s->host.ctx, c);
    }
}

/* On the stack, where the order of the schedule is not that of age. */
static bool is_irregular(const struct job *j)
{
    return j->level > 0 || !list_is_empty(&j->children);
}

void candidate_file(struct sched *s, struct job *j)
{
    if (s->config.delivery_slot_cost < 2) {
        return;
    }
    int64_t need = job_need(j), total = job_total(j);
    bool is_there = j->place == JOB_RUNNABLE || j->place == JOB_PARKED;
    bool has_class = !is_irregular(j) && is_there && need > 0 && total <= UINT32_MAX;
    if (has_class && j->size_class != NULL && j->size_class->need == need &&
        j->size_class->total == total) {
        return;
    }
    candidate_withdraw(s, j);
    if (has_class) {
        j->size_class = obtain_class(s, j->flow, (uint32_t)need, (uint32_t)total);
    }
    if (j->size_class != NULL) {
        tree_insert(class_tree(j), &j->in_class);
    } else if (has_class || is_irregular(j) || total > UINT32_MAX) {
        /* Also without memory for its class: looked at in each search. */
        list_push_back(&j->flow->irregular, &j->in_irregular);
    }
}

void candidate_drift(struct sched *s, struct job *j)
{
    struct flow *f = j->flow;
    if (f->adrift != NULL && f->adrift != j) {
        candidate_file(s, f->adrift);
    }
    f->adrift = j;
}

/* Whole seconds, from 1; mail of the same second has the same age. */
static double age_of(const struct sched *s, const struct job *j)
{
    int64_t now = s->now / USEC_PER_SEC, queued = j->queued_time / USEC_PER_SEC;
    return (double)(now - queued + 1);
}

struct best {
    struct job *job; /* NULL: none yet */
    double score;
};

/* The higher score wins, and among equals the one that stands first. */
static void offer_job(const struct sched *s, struct best *best, struct job *j)
{
    double score = age_of(s, j) / (double)job_total(j);
    if (best->job == NULL || score > best->score ||
        (score == best->score && j->position < best->job->position)) {
        *best = (struct best){j, score};
    }
}

static struct job *first_job(const struct tree *t, uint64_t position, const struct job *except)
{
    const struct tree_node *n = tree_find_from(t, position);
    if (n == &except->in_class) {
        n = tree_next(n);
    }
    return n == NULL ? NULL : container_of(n, struct job, in_class);
}

static void offer_class(const struct sched *s, struct best *best, const struct size_class *c,
                        const struct job *owner)
{
    struct job *j = first_job(&c->free, POSITION_NONE, owner);
    if (j != NULL) {
        offer_job(s, best, j);
    }
    j = first_job(&c->parked, owner->flow->passed, owner);
    if (j != NULL) {
        offer_job(s, best, j);
    }
}

static bool may_preempt(const struct job *j, int64_t max_slots)
{
    return list_is_empty(&j->children) && !job_is_blocked(j) && job_need(j) > 0 &&
           job_need(j) <= max_slots;
}

/* No job at level 0 from here on is older. */
static double oldest_age(const struct sched *s, const struct job *owner)
{
    const struct job *j = owner;
    while (j != NULL && j->level > 0) {
        j = job_next(j);
    }
    return j == NULL ? 0 : age_of(s, j);
}

/* As the queue manager does it, which matters when jobs on the stack are older than others before
 * them: it stops at the first job at level 0 that is too young to win. */
static struct job *search_along(const struct sched *s, const struct job *owner, int64_t max_slots)
{
    struct best best = {0};
    for (struct job *j = job_next(owner); j != NULL; j = job_next(j)) {
        if (!list_is_empty(&j->children) || job_is_blocked(j)) {
            continue;
        }
        if (may_preempt(j, max_slots)) {
            offer_job(s, &best, j);
        }
        if (age_of(s, j) <= best.score && j->level == 0) {
            break;
        }
    }
    return best.job;
}

/* Some job at level 0 before it, and so the last one, is younger. */
static bool stands_behind_younger(const struct sched *s, const struct job *j,
                                  const struct job *owner)
{
    const struct job *before = j;
    do {
        if (before == owner || before->in_schedule.prev == &j->flow->schedule) {
            return false;
        }
        before = container_of(before->in_schedule.prev, const struct job, in_schedule);
    } while (before->level > 0);
    return age_of(s, before) < age_of(s, j);
}

struct job *candidate_search(struct sched *s, struct job *owner)
{
    int64_t max_slots =
        ((int64_t)owner->read_entries - owner->selected_entries + owner->slots_available) /
        s->config.delivery_slot_cost;
    if (max_slots <= 0) {
        return NULL;
    }
    struct flow *f = owner->flow;
    if (f->adrift != NULL && f->adrift != owner) {
        candidate_file(s, f->adrift);
        f->adrift = NULL;
    }
    struct best best = {0};
    list_foreach(j, &f->irregular, struct job, in_irregular)
    {
        if (j != owner && may_preempt(j, max_slots)) {
            offer_job(s, &best, j);
        }
    }
    double oldest = oldest_age(s, owner);
    for (struct size_class *c = class_of(f->sizes.first);
         c != NULL && (int64_t)c->need <= max_slots && best.score <= oldest / c->need;
         c = class_of(tree_next(&c->in_sizes))) {
        offer_class(s, &best, c, owner);
    }
    if (best.job != NULL && best.job->level > 0 && stands_behind_younger(s, best.job, owner)) {
        return search_along(s, owner, max_slots);
    }
    return best.job;
}

static void expect_node(const struct tree_node *n)
{
    if (n != NULL) {
        __builtin_prefetch(n, 1);
    }
}

static void expect_neighbours(const struct tree_node *n)
{
    expect_node(n->left);
    expect_node(n->right);
    expect_node(n->parent);
}

/* What it is taken out of: with many jobs nothing of that is in the cache. */
static void expect_links(const struct sched *s, const struct job *j)
{
    expect_neighbours(&j->in_time);
    expect_neighbours(&j->in_place);
    expect_neighbours(&j->in_class);
    __builtin_prefetch(j->in_schedule.prev, 1);
    __builtin_prefetch(j->in_schedule.next, 1);
    table_expect(&s->by_id, j->node.hash);
    if (list_is_empty(&j->peers)) {
        return;
    }
    const struct peer *p = list_first(&j->peers, const struct peer, link);
    if (p == &j->first_peer) {
        destination_expect_selection(p->destination);
        __builtin_prefetch(p->first_entry.place.link.prev, 1);
        __builtin_prefetch(p->first_entry.place.link.next, 1);
    }
}

void candidate_expect(const struct sched *s, const struct flow *f, bool has_come)
{
    const struct size_class *c = class_of(f->sizes.first);
    if (c == NULL || tree_is_empty(&c->free)) {
        return;
    }
    const struct job *j = container_of(c->free.first, const struct job, in_class);
    if (has_come) {
        expect_links(s, j);
        return;
    }
    for (size_t i = 0; i < sizeof(*j); i += 64) {
        __builtin_prefetch((const char *)j + i, 1);
    }
}
