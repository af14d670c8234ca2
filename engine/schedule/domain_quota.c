/* Counts messages of domains that have a quota inside a provider. Called by sched_thread.c for what its
 * core hands out and gets back; must not know how limits keep a quota. */
#include "engine/schedule/domain_quota.h"

#include "engine/config/policy.h"
#include "engine/limit/limits.h"
#include "engine/post/delivery.h"
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

enum domain_quota domain_quota_take(const struct dispatch *p, struct sched *s,
                                    const struct sched_action *a, usec_t now)
{
    char room[LIMITS_NAME_MAX];
    const struct settings *settings = settings_of(p->engine);
    if (!sched_destination_has_quota(a->destination) || dispatch_is_displaced(p, a->entry)) {
        return DOMAIN_UNCOUNTED; /* what is displaced has been counted */
    }
    struct slice name = key_of(sched_destination_nexthop(a->destination), room);
    const struct config_receiver *section = policy_domain(settings->policies, name);
    if (section == NULL || section->options.limits.max_message_quota.count == 0) {
        return DOMAIN_UNCOUNTED; /* its hosts are asked for again, and its terms are others then */
    }
    const struct limit_domain domain = {name, section->options.limits.max_message_quota,
                                        settings->serial};
    struct limit_domain_answer answer;
    limits_domain_take(p->engine->limits, &domain, now, clock_wall(), &answer);
    if (answer.until > now) {
        sched_quota_wait(s, a->entry, answer.until, answer.turn, now);
    }
    return answer.is_taken ? DOMAIN_COUNTED : DOMAIN_FULL;
}

void domain_quota_heard(struct engine *e, struct sched *s, struct delivery *d, usec_t now)
{
    char room[LIMITS_NAME_MAX];
    if (!d->is_counted || d->again || (d->was_sent && !d->is_throttled)) {
        return;
    }
    d->is_counted = false;
    limits_domain_give_back(e->limits, key_of(d->nexthop, room), d->dispatched);
    sched_quota_wait(s, d->entry, 0, 0, now);
}
