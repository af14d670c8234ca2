/* The cap on the workers of one message. Called by selection before it takes an entry, and after
 * each report: nothing else frees a worker. */
#include "sched/gate.h"

#include "sched/transport.h"
#include "sched/turn.h"

static bool is_on(const struct sched *s)
{
    return s->config.max_message_concurrency > 0 || s->config.scale_max_concurrency > 0;
}

bool gate_allows(const struct sched *s, const struct job *j)
{
    if (!is_on(s)) {
        return true;
    }
    const struct sched_config *c = &s->config;
    int64_t busy = j->busy;
    int64_t active = (int64_t)(s->shared.connections - s->shared.idle);
    int64_t free_workers = c->process_limit - active;
    return busy < c->max_message_concurrency || busy < c->scale_max_concurrency * free_workers;
}

/* A gated job has an entry in flight, so there are not more of them than these. Those that may ride
 * on a connection now were unblocked with its destination, which carries their mark (5.8). */
static void reconsider_all(struct sched *s)
{
    list_foreach(f, &s->flows.all, struct flow, all)
    {
        struct tree_node *n = f->aside.first;
        while (n != NULL) {
            struct job *j = container_of(n, struct job, in_place);
            n = tree_next(n);
            if (j->is_gated && gate_allows(s, j)) {
                job_unblock(s, j);
            }
        }
    }
}

void gate_reconsider(struct sched *s)
{
    if (is_on(s)) {
        reconsider_all(s);
    }
}

/* Messages at their cap are passed over wherever they are, and marked there: two flows of such messages would wake
 * each other for ever. A place takes two turns at most, its party's and that of lanes, so a flow that was
 * woken for it twice, with nothing selected and nothing opened there since, finds nothing a third time. A
 * message at its cap has an entry in flight, and is reconsidered behind that. */
void gate_wake_for(struct sched *s, struct share *share)
{
    enum { TURNS = 2 };
    const uint32_t run = (uint32_t)s->selection_runs;
    if (!turn_blocks(share)) {
        return;
    }
    if (share->woken_in != run) {
        share->woken_in = run;
        share->wakes = 0;
    }
    if (share->wakes < TURNS) {
        share->wakes++;
    } else if (is_on(s)) {
        return;
    }
    job_unblock_all(s, share->flow);
}
