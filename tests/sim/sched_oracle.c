#include "tests/sim/sched_oracle.h"

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

bool sched_oracle_has_work(const struct sched *s)
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

struct job *sched_oracle_candidate(const struct sched *s, const struct job *owner)
{
    int max_slots = (owner->read_entries - owner->selected_entries + owner->slots_available) /
                    s->config.delivery_slot_cost;
    struct job *best = NULL;
    double best_score = 0;
    for (struct job *j = job_next(s, owner); max_slots > 0 && j != NULL; j = job_next(s, j)) {
        if (!list_is_empty(&j->children) || job_is_blocked(s, j)) {
            continue;
        }
        double age = (double)(s->now / USEC_PER_SEC - j->queued_time / USEC_PER_SEC + 1);
        double score = age / (double)job_total(j);
        if (job_need(j) > 0 && job_need(j) <= max_slots && score > best_score) {
            best_score = score;
            best = j;
        }
        if (age <= best_score && j->level == 0) {
            break;
        }
    }
    return best;
}
