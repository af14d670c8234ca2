/* Owns the terms that a destination has of its own. Called by destination; must not know who names
 * them. */
#include "sched/terms.h"

#include "sched/candidate.h"
#include "sched/division.h"
#include "sched/entry.h"
#include "sched/place/shed.h"

#include <string.h>

/* That a rate has forgotten what went matters only to a destination without mail, which goes then. It
 * is looked at in steps: the exact time would set the timer anew with each message, and wake the
 * shell for each where the rate is high. */
#define FULL_STEP (100 * USEC_PER_MSEC)

static bool is_same_rate(const struct rate_rule *a, const struct rate_rule *b)
{
    return a->count == b->count && a->burst == b->burst && a->span == b->span;
}

static bool is_same(const struct sched_terms *a, const struct sched_terms *b)
{
    return a->recipient_limit == b->recipient_limit && a->most_in_flight == b->most_in_flight &&
           a->rate_delay == b->rate_delay && a->connection_idle_limit == b->connection_idle_limit &&
           a->connection_age_limit == b->connection_age_limit &&
           a->connection_reuse_limit == b->connection_reuse_limit &&
           is_same_rate(&a->messages, &b->messages) &&
           is_same_rate(&a->recipients, &b->recipients) && is_same_rate(&a->quota, &b->quota);
}

void terms_free(struct sched *s, struct sched_destination *d)
{
    if (d->terms != NULL) {
        shed_leave_destination(s, d->terms);
        s->host.release(s->host.ctx, d->terms);
        d->terms = NULL;
    }
}

/* --- rates ------------------------------------------------------------------------------------ */

/* What went by the terms before counts by these. */
static void change_rate(struct rate *r, const struct rate *before, const struct rate_rule *rule,
                        usec_t now)
{
    if (before != NULL && before->rule.count > 0 && rule->count > 0) {
        *r = *before;
        rate_change(r, rule, now);
    } else {
        rate_init(r, rule, now);
    }
}

static void begin(const struct sched *s, struct terms *own, const struct sched_terms *t,
                  const struct terms *before)
{
    bool has_quota = before != NULL && is_same_rate(&before->given.quota, &t->quota);
    own->given = *t;
    own->quota_until = has_quota ? before->quota_until : 0;
    own->quota_turn = has_quota ? before->quota_turn : 0;
    own->excess = 0;
    list_init(&own->in_excess);
    change_rate(&own->messages, before == NULL ? NULL : &before->messages, &t->messages, s->now);
    change_rate(&own->recipients, before == NULL ? NULL : &before->recipients, &t->recipients,
                s->now);
}

static usec_t later(usec_t a, usec_t b)
{
    return a > b ? a : b;
}

static usec_t due_of(const struct terms *t)
{
    usec_t messages = t->given.messages.count > 0 ? rate_due(&t->messages) : 0;
    usec_t recipients = t->given.recipients.count > 0 ? rate_due(&t->recipients) : 0;
    return later(t->quota_until, later(messages, recipients));
}

/* Until then it is not as if nothing had gone. */
static usec_t full_of(const struct terms *t)
{
    usec_t messages = t->given.messages.count > 0 ? t->messages.used_until : 0;
    return later(messages, t->given.recipients.count > 0 ? t->recipients.used_until : 0);
}

usec_t terms_wake_at(const struct sched *s, const struct sched_destination *d)
{
    if (d->paced_until > 0) {
        return d->paced_until;
    }
    usec_t full = d->terms == NULL ? 0 : full_of(d->terms);
    full = (full + FULL_STEP - 1) / FULL_STEP * FULL_STEP;
    return full > s->now ? full : USEC_NEVER;
}

/* Whether it may go on, and the timer for that; dead and suspended ones have theirs. */
static void pace(struct sched *s, struct sched_destination *d)
{
    usec_t due = d->terms == NULL ? 0 : due_of(d->terms);
    shared_set(&d->paced_until, due > s->now ? due : 0);
    shared_set(&d->lacks_quota, d->terms != NULL && d->terms->quota_until > s->now);
    if (d->lane.window > 0) {
        destination_arm(s, d, USEC_NEVER);
    }
}

static bool has_rate(const struct sched_destination *d)
{
    return d->terms != NULL &&
           (d->terms->given.messages.count > 0 || d->terms->given.recipients.count > 0);
}

void terms_take(struct sched *s, struct sched_destination *d, uint32_t recipients)
{
    if (!has_rate(d)) {
        return;
    }
    if (d->terms->given.messages.count > 0) {
        rate_take(&d->terms->messages, 1, s->now);
    }
    if (d->terms->given.recipients.count > 0) {
        rate_take(&d->terms->recipients, recipients, s->now);
    }
    pace(s, d);
}

void terms_give_back(struct sched *s, struct sched_destination *d, uint32_t recipients)
{
    if (!has_rate(d)) {
        return;
    }
    if (d->terms->given.messages.count > 0) {
        rate_give_back(&d->terms->messages, 1);
    }
    if (d->terms->given.recipients.count > 0) {
        rate_give_back(&d->terms->recipients, recipients);
    }
    pace(s, d);
}

void sched_quota_wait(struct sched *s, const struct sched_entry *e, usec_t until, usec_t turn,
                      usec_t now)
{
    struct sched_destination *d = entry_destination(e);
    transport_enter(s, now);
    s->resume_job = NULL;
    if (!sched_destination_has_quota(d)) {
        return;
    }
    d->terms->quota_until = until > s->now ? until : 0;
    d->terms->quota_turn = turn;
    pace(s, d);
    destination_recount(s, d);
    destination_reconsider(s, d);
}

void terms_ask_again(struct sched *s, struct sched_destination *d)
{
    if (d->lacks_quota) {
        d->terms->quota_until = 0;
        pace(s, d);
        destination_recount(s, d);
    }
}

bool sched_destination_has_quota(const struct sched_destination *d)
{
    return d->terms != NULL && d->terms->given.quota.count > 0;
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
        begin(s, own, t, d->terms);
        own->destination = d;
    }
    terms_free(s, d);
    d->terms = own;
    pace(s, d);
    shared_set(&d->most_in_flight, t == NULL ? 0 : t->most_in_flight);
    refile_jobs(s, d);
    destination_refit(s, d);
}
