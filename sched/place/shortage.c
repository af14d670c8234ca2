/* Slots that are lacking, see the header. Called by turn (which parties lack one), stand, parking (the first
 * job that could use one) and handover.
 *
 * Where slots are short they go by what flows hold (sched/flow.h), so every flow that waits at a party which
 * lacks only a slot has to be found, and one such party of it. A party comes and goes as one with each
 * connection that opens and ends there, and thousands of flows may wait at it. So it is told only to those
 * that have found out meanwhile that it was none: a flow that looks for a place takes what is none any more
 * out of its tree, and is told when it is one again. Each step is paid for by one of taking out, and a look
 * takes out at most the places that have closed since they were found open last.
 *
 * A share is told, or it is unheard, while entries wait and it was not passed (sched/turn.c). A flow with a
 * told share is one that selection looks at when there is a slot. */
#include "sched/place/shortage.h"

#include "sched/flow.h"
#include "sched/transport.h"
#include "sched/turn.h"

static uint64_t share_key(const struct tree_node *n)
{
    return turn_first_job(container_of(n, const struct share, in_seeks))->position;
}

void shortage_init_flow(struct flow *f)
{
    tree_init(&f->seeks, share_key);
    list_init(&f->loose);
}

void shortage_init_turn(struct turn *t)
{
    list_init(&t->unheard);
    list_init(&t->marked);
    list_init(&t->in_unlimited);
}

void shortage_init_share(struct share *share)
{
    tree_node_init(&share->in_seeks);
    list_init(&share->in_marked);
}

static void take_out(struct share *share)
{
    if (share->is_listed) {
        list_remove(&share->in_list);
        share->is_listed = false;
        tree_node_init(&share->in_seeks);
    } else if (tree_node_is_linked(&share->in_seeks)) {
        tree_remove(&share->flow->seeks, &share->in_seeks);
    }
}

/* It is in none. */
static void put_behind(struct list *list, struct share *share)
{
    share->is_listed = true;
    list_push_back(list, &share->in_list);
}

static bool is_filed(const struct share *share)
{
    return share->waiting > 0 && !share->is_passed;
}

static void put(struct share *share)
{
    take_out(share);
    if (!share->is_told) {
        put_behind(&share->turn->unheard, share);
    } else if (tree_is_empty(&share->queue)) {
        put_behind(&share->flow->loose, share);
    } else {
        tree_insert(&share->flow->seeks, &share->in_seeks);
    }
}

/* Only a flow that has something to look at: its marks go when there is a slot. */
static bool tell(struct sched *s, struct share *share)
{
    if (turn_blocks(share)) {
        flow_await_slot(s, share->flow);
    }
    share->is_told = tree_node_is_linked(&share->flow->in_live);
    put(share);
    return share->is_told;
}

static void untell(struct share *share)
{
    share->is_told = false;
    put(share);
}

void shortage_file(struct sched *s, struct share *share)
{
    if (!is_filed(share)) {
        share->is_told = false;
        take_out(share);
    } else if (share->turn->is_free && !tree_is_empty(&share->queue) &&
               (!share->is_told || share->is_listed)) {
        /* Its flow may have passed over what it finds there from now on. */
        (void)tell(s, share); /* it says itself whether it could */
    } else {
        put(share);
    }
}

void shortage_unfile(struct share *share)
{
    if (share_seeks(share)) {
        tree_remove(&share->flow->seeks, &share->in_seeks);
    }
}

void shortage_begin(struct sched *s, struct turn *t)
{
    list_foreach_safe(share, &t->unheard, struct share, in_list)
    {
        if (!tell(s, share)) {
            turn_pass_share(s, share); /* until something of its flow changes */
        }
    }
}

void shortage_ride(struct sched *s, struct turn *t)
{
    list_foreach_safe(share, &t->unheard, struct share, in_list)
    {
        if (share->tag == share->flow->tag) {
            (void)tell(s, share); /* it says itself whether it could */
        }
    }
    list_foreach_safe(marked, &t->marked, struct share, in_marked)
    {
        list_remove(&marked->in_marked);
        if (is_filed(marked) && marked->tag == marked->flow->tag) {
            (void)tell(s, marked); /* it says itself whether it could */
        }
    }
}

void shortage_ask_again(struct sched *s, struct share *share)
{
    if (is_filed(share) && share->turn->is_free) {
        (void)tell(s, share); /* it says itself whether it could */
    }
}

void shortage_mark(struct share *share)
{
    if (share->is_told && (!share->turn->is_free || tree_is_empty(&share->queue))) {
        untell(share);
    } else if (share->is_told && !list_is_linked(&share->in_marked)) {
        list_push_back(&share->turn->marked, &share->in_marked);
    }
}

void shortage_rest(struct flow *f)
{
    while (!tree_is_empty(&f->seeks)) {
        untell(container_of(f->seeks.first, struct share, in_seeks));
    }
    while (!list_is_empty(&f->loose)) {
        untell(list_first(&f->loose, struct share, in_list));
    }
}

struct share *shortage_first(struct flow *f)
{
    while (!tree_is_empty(&f->seeks)) {
        struct share *share = container_of(f->seeks.first, struct share, in_seeks);
        if (share->turn->is_free) {
            return share;
        }
        untell(share);
    }
    return NULL;
}

const struct share *shortage_next(const struct share *share)
{
    const struct tree_node *n = tree_next(&share->in_seeks);
    return n == NULL ? NULL : container_of(n, const struct share, in_seeks);
}

const char *shortage_check(const struct share *share)
{
    const struct turn *t = share->turn;
    bool seeks = share_seeks(share), is_listed = share->is_listed;
    bool has_jobs = !tree_is_empty(&share->queue);
    if (is_filed(share) != (seeks || is_listed) || (seeks && is_listed)) {
        return "a share is told of a shortage, or will be";
    }
    if ((share->is_told && has_jobs) != seeks || (share->is_told && !is_filed(share))) {
        return "a share that was told of a shortage";
    }
    if (share->is_told && !tree_node_is_linked(&share->flow->in_live)) {
        return "a flow that could use a slot is looked at";
    }
    return t->is_free && is_filed(share) && has_jobs && !share->is_told
               ? "a flow knows where it could use a slot"
               : NULL;
}
