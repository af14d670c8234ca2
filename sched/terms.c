/* Owns the terms that a destination has of its own. Called by destination; must not know who names
 * them. */
#include "sched/terms.h"

#include "sched/candidate.h"
#include "sched/division.h"
#include "sched/entry.h"
#include "sched/place/shed.h"

#include <string.h>

static bool is_same_rate(const struct rate_rule *a, const struct rate_rule *b)
{
    return a->count == b->count && a->burst == b->burst && a->span == b->span;
}

static bool is_same_bound(const struct sched_terms *a, const struct sched_terms *b)
{
    return is_same_rate(&a->messages, &b->messages) &&
           is_same_rate(&a->recipients, &b->recipients) && is_same_rate(&a->quota, &b->quota);
}

static bool is_same(const struct sched_terms *a, const struct sched_terms *b)
{
    return a->recipient_limit == b->recipient_limit && a->most_in_flight == b->most_in_flight &&
           a->rate_delay == b->rate_delay && a->connection_idle_limit == b->connection_idle_limit &&
           a->connection_age_limit == b->connection_age_limit &&
           a->connection_reuse_limit == b->connection_reuse_limit && is_same_bound(a, b);
}

void terms_free(struct sched *s, struct sched_destination *d)
{
    if (d->terms != NULL) {
        shed_leave_destination(s, d->terms);
        s->host.release(s->host.ctx, d->terms);
        d->terms = NULL;
    }
}

/* --- rates and quota -------------------------------------------------------------------------- */

static void begin(struct terms *own, const struct sched_terms *t, const struct terms *before)
{
    own->given = *t;
    own->waits = (struct sched_bound){0};
    if (before != NULL && is_same_bound(&before->given, t)) {
        own->waits = before->waits;
    }
    own->excess = 0;
    list_init(&own->in_excess);
}

usec_t terms_wake_at(const struct sched *s, const struct sched_destination *d)
{
    (void)s;
    return d->paced_until > 0 ? d->paced_until : USEC_NEVER;
}

/* Whether it may go on, and the timer for that; dead and suspended ones have theirs. */
static void pace(struct sched *s, struct sched_destination *d)
{
    usec_t until = d->terms == NULL ? 0 : d->terms->waits.until;
    bool waits = until > s->now;
    shared_set(&d->paced_until, waits ? until : 0);
    shared_set(&d->lacks_quota, waits && d->terms->waits.why == SCHED_WHY_QUOTA);
    if (d->lane.window > 0) {
        destination_arm(s, d, USEC_NEVER);
    }
}

void sched_bound_wait(struct sched *s, const struct sched_entry *e, const struct sched_bound *b,
                      usec_t now)
{
    struct sched_destination *d = entry_destination(e);
    transport_enter(s, now);
    s->resume_job = NULL;
    if (!sched_destination_is_bound(d)) {
        return;
    }
    d->terms->waits = b->until > s->now ? *b : (struct sched_bound){0};
    pace(s, d);
    destination_recount(s, d);
    destination_reconsider(s, d);
}

void terms_ask_again(struct sched *s, struct sched_destination *d)
{
    if (d->paced_until > 0) {
        d->terms->waits = (struct sched_bound){0};
        pace(s, d);
        destination_recount(s, d);
    }
}

bool sched_destination_is_bound(const struct sched_destination *d)
{
    const struct sched_terms *t = d->terms == NULL ? NULL : &d->terms->given;
    return t != NULL && (t->messages.count > 0 || t->recipients.count > 0 || t->quota.count > 0);
}

bool sched_destination_waits(const struct sched_destination *d)
{
    return d->lacks_quota;
}

/* --- terms ------------------------------------------------------------------------------------ */

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
    struct terms *own = NULL;
    struct entry_queue pieces;
    if (t == NULL ? d->terms == NULL : d->terms != NULL && is_same(&d->terms->given, t)) {
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
    if (own != NULL) {
        begin(own, t, d->terms);
        own->destination = d;
    }
    terms_free(s, d);
    d->terms = own;
    pace(s, d);
    shared_set(&d->most_in_flight, t == NULL ? 0 : t->most_in_flight);
    refile_jobs(s, d);
    destination_refit(s, d);
}
