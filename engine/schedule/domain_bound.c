/* Counts messages of domains that have rates or a quota inside a provider. Called by sched_thread.c for what
 * its core hands out and gets back; must not know how limits keep them. */
#include "engine/schedule/domain_bound.h"

#include "engine/config/policy.h"
#include "engine/limit/limits.h"
#include "engine/post/delivery.h"
#include "engine/schedule/core.h"
#include "engine/schedule/dispatch.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

/* In lower case; "" is no domain's. */
static struct slice key_of(struct slice nexthop, char room[LIMITS_NAME_MAX])
{
    if (nexthop.len > LIMITS_NAME_MAX) {
        return SLICE("");
    }
    slice_lower(nexthop, room);
    return slice_make(room, nexthop.len);
}

static uint32_t recipients_of(const struct sched_entry *e)
{
    uint32_t count;
    (void)sched_entry_indexes(e, &count);
    return count;
}

static bool is_bound(const struct policy_bounds *b)
{
    return b->messages.count > 0 || b->recipients.count > 0 || b->quota.count > 0;
}

enum domain_bound domain_bound_take(const struct dispatch *p, const struct core *c,
                                    const struct sched_action *a, usec_t now)
{
    const struct settings *settings = settings_of(p->engine);
    if (!sched_destination_is_bound(a->destination) || dispatch_is_displaced(p, a->entry)) {
        return DOMAIN_UNCOUNTED; /* what is displaced has been counted */
    }
    const struct config_receiver *section =
        policy_domain(settings->policies, sched_destination_nexthop(a->destination));
    struct policy_bounds bounds = {.messages.count = 0};
    if (section != NULL) {
        policy_domain_bounds(section, &bounds);
    }
    if (!is_bound(&bounds)) {
        return DOMAIN_UNCOUNTED; /* its hosts are asked for again, and its terms are others then */
    }
    const struct limit_domain domain = {slice_of(section->options.name), bounds.messages,
                                        bounds.recipients, bounds.quota, settings->serial};
    const struct limit_domain_ask ask = {recipients_of(a->entry), now, clock_wall()};
    struct limit_domain_answer answer;
    limits_domain_take(c->lanes.borrower, &domain, &ask, &answer);
    if (answer.until > now) {
        const bool is_quota = answer.why == LIMIT_BY_QUOTA;
        const struct sched_bound bound = {answer.until, answer.turn,
                                          is_quota ? SCHED_WHY_QUOTA : SCHED_WHY_RATE};
        sched_bound_wait(c->sched, a->entry, &bound, now);
    }
    return answer.is_taken ? DOMAIN_COUNTED : DOMAIN_FULL;
}

void domain_bound_heard(struct engine *e, struct sched *s, struct delivery *d, usec_t now)
{
    static const struct sched_bound none = {.until = 0};
    char room[LIMITS_NAME_MAX];
    if (!d->is_counted || d->again || (d->was_sent && !d->is_throttled)) {
        return;
    }
    d->is_counted = false;
    limits_domain_give_back(e->limits, key_of(d->nexthop, room), recipients_of(d->entry),
                            d->dispatched);
    sched_bound_wait(s, d->entry, &none, now);
}
