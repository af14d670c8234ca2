#include "tests/sim/sched_work.h"

#include "sched/transport.h"

/* A worker for the job, or an idle connection that it may ride on. */
static bool is_within_cap(const struct sched *s, const struct job *j,
                          const struct sched_destination *d)
{
    const struct sched_config *c = &s->config;
    if (c->max_message_concurrency == 0 && c->scale_max_concurrency == 0) {
        return true;
    }
    int64_t in_flight = j->busy;
    int64_t free_workers = c->process_limit - (int64_t)s->shared.entries_in_flight;
    return in_flight < c->max_message_concurrency ||
           in_flight < c->scale_max_concurrency * free_workers || !list_is_empty(&d->idle);
}

/* A rate delay that runs or waits for its first entry bars all. */
static bool is_barred(const struct sched *s)
{
    return s->hold || (s->config.transport_rate_delay > 0 && s->rate != RATE_FREE);
}

bool sched_work_is_ready(const struct sched *s)
{
    if (is_barred(s)) {
        return false;
    }
    list_foreach(d, &s->destinations, const struct sched_destination, all)
    {
        bool is_open = d->window > d->busy && (!s->config.must_resolve || d->hosts != NULL);
        list_foreach(e, &d->todo, const struct sched_entry, place.link)
        {
            if (is_open && is_within_cap(s, e->peer->job, d)) {
                return true;
            }
        }
    }
    return false;
}
