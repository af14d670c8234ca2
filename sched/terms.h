/* What counts for one destination: its own terms, where the shell has named some with its hosts, else
 * those of the config. Owner thread only. */
#ifndef SCHED_TERMS_H
#define SCHED_TERMS_H

#include "sched/destination.h"
#include "sched/sched.h"
#include "sched/transport.h"

struct terms {
    struct sched_terms given;
    struct sched_bound waits; /* sched_bound_wait; until 0: it may go */
    int64_t excess;           /* of what waits: its turn is far; sched/place/shed.c */
    struct list in_excess;    /* sched.destinations_in_excess: excess > 0 */
    struct sched_destination *destination;
};

static inline usec_t terms_rate_delay(const struct sched *s, const struct sched_destination *d)
{
    return d->terms != NULL ? d->terms->given.rate_delay : s->config.destination_rate_delay;
}

/* The smaller of both.
 *
 * limit, returns   0: none */
static inline uint32_t terms_least(const struct sched_terms *t, uint32_t limit)
{
    uint32_t own = t == NULL ? 0 : (uint32_t)t->recipient_limit;
    return own > 0 && (limit == 0 || own < limit) ? own : limit;
}

/* limit: of the config; 0: none. returns the destination's */
static inline uint32_t terms_recipient_limit(const struct sched_destination *d, uint32_t limit)
{
    return terms_least(d->terms == NULL ? NULL : &d->terms->given, limit);
}

/* It may have one more entry in flight. */
static inline bool terms_allow_entry(const struct sched *s, const struct sched_destination *d)
{
    if (d->paced_until > 0) {
        return false;
    }
    if (d->in_flight == 0) {
        return true;
    }
    bool is_at_most = d->most_in_flight > 0 && d->in_flight >= d->most_in_flight;
    return terms_rate_delay(s, d) == 0 && !is_at_most;
}

/* They count from now on: entries that wait are divided to them. t: copied; NULL: the config's */
void terms_set(struct sched *s, struct sched_destination *d, const struct sched_terms *t);
/* The shell is to be asked again whether something may go (another config). */
void terms_ask_again(struct sched *s, struct sched_destination *d);
/* When it may go on; USEC_NEVER: it waits for nothing. */
usec_t terms_wake_at(const struct sched *s, const struct sched_destination *d);
void terms_free(struct sched *s, struct sched_destination *d);

#endif
