/* The cap on the workers of one message. Called by selection before it takes an entry, and after
 * each report: nothing else frees a worker or leaves a connection idle. */
#include "sched/gate.h"

#include "sched/transport.h"

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

static bool can_ride(const struct job *j)
{
    list_foreach(p, &j->peers, const struct peer, link)
    {
        if (peer_is_waiting(p) && p->destination->work == OPEN_NOW) {
            return true;
        }
    }
    return false;
}

/* A gated job has an entry in flight, so there are not more of them than these. */
void gate_reconsider(struct sched *s)
{
    if (!is_on(s)) {
        return;
    }
    struct tree_node *n = s->aside.first;
    while (n != NULL) {
        struct job *j = container_of(n, struct job, in_place);
        n = tree_next(n);
        if (j->is_gated && (gate_allows(s, j) || can_ride(j))) {
            job_unblock(s, j);
        }
    }
}
