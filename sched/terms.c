/* Owns the terms that a destination has of its own. Called by destination; must not know who names
 * them. */
#include "sched/terms.h"

#include "sched/candidate.h"
#include "sched/division.h"

#include <string.h>

static bool is_same(const struct sched_terms *a, const struct sched_terms *b)
{
    return a->recipient_limit == b->recipient_limit && a->most_in_flight == b->most_in_flight &&
           a->rate_delay == b->rate_delay && a->connection_idle_limit == b->connection_idle_limit &&
           a->connection_age_limit == b->connection_age_limit &&
           a->connection_reuse_limit == b->connection_reuse_limit;
}

void terms_free(struct sched *s, struct sched_destination *d)
{
    if (d->terms != NULL) {
        s->host.release(s->host.ctx, d->terms);
        d->terms = NULL;
    }
}

/* Jobs of entries that were divided have more of them. */
static void refile_jobs(struct sched *s, const struct sched_destination *d)
{
    list_foreach(e, &d->todo, const struct sched_entry, place.link)
    {
        candidate_file(s, e->peer->job);
    }
}

void terms_set(struct sched *s, struct sched_destination *d, const struct sched_terms *t)
{
    struct sched_terms *own = NULL;
    struct entry_queue pieces;
    if (t == NULL ? d->terms == NULL : d->terms != NULL && is_same(d->terms, t)) {
        return;
    }
    if (t != NULL && (own = s->host.alloc(s->host.ctx, sizeof(*own))) == NULL) {
        return;
    }
    uint32_t limit = terms_least(t, (uint32_t)s->config.destination_recipient_limit);
    if (division_stage_one(s, d, limit, &pieces) != 0) {
        s->host.release(s->host.ctx, own);
        return;
    }
    division_commit_one(s, d, limit, &pieces);
    terms_free(s, d);
    d->terms = own;
    if (own != NULL) {
        *own = *t;
    }
    shared_set(&d->most_in_flight, t == NULL ? 0 : t->most_in_flight);
    refile_jobs(s, d);
    destination_refit(s, d);
}
