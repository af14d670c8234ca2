/* The cap on the workers of one message. Called by selection before it takes an entry, and after
 * each report: nothing else frees a worker. */
#include "sched/gate.h"

#include "sched/transport.h"

bool gate_is_on(const struct sched *s)
{
    return s->config.max_message_concurrency > 0 || s->config.scale_max_concurrency > 0;
}

bool gate_allows(const struct sched *s, const struct job *j)
{
    if (!gate_is_on(s)) {
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
    if (gate_is_on(s)) {
        reconsider_all(s);
    }
}
