/* The quota of a domain inside a provider's site: a bound on one destination beside what its lanes have.
 * Called by scheduler threads for each message of such a destination; must not know its site.
 *
 * Lanes lend for all of their destinations at once, so this is counted by the message. The meter has no
 * reference in between: what was used keeps it. */
#include "engine/limit/limits_private.h"

#define QUOTA_RECHECK (300 * USEC_PER_SEC) /* the wall clock may be set */

/* due: wall; when the next one may go */
static void set_wait(usec_t due, usec_t now, usec_t wall, struct limit_domain_answer *ret)
{
    usec_t wait = due == USEC_NEVER ? USEC_NEVER - now : due - wall;
    ret->until = ret->turn = 0;
    if (wait > 0) {
        ret->until = now + (wait < QUOTA_RECHECK ? wait : QUOTA_RECHECK);
        ret->turn = now + wait;
    }
}

void limits_domain_take(struct limits *l, const struct limit_domain *domain, usec_t now,
                        usec_t wall, struct limit_domain_answer *ret)
{
    const struct limit_rates rates = {.quota = domain->quota};
    const struct limits_meter_rules rules = {
        {LIMIT_OF_DOMAIN, domain->name}, &rates, domain->serial};
    struct limits_meter *m;
    *ret = (struct limit_domain_answer){.is_taken = true};
    limits_enter(l);
    l->wall = wall;
    if (limits_meter_take(l, &rules, now, &m) == 0) {
        const struct limits_moment at = {now, wall};
        struct quota_loan lent; /* it is used at once */
        enum limit_cause why;
        usec_t due = limits_quota_lend(m, 1, &at, &lent, &why);
        ret->is_taken = due == 0;
        l->changes += ret->is_taken;
        set_wait(ret->is_taken ? quota_due(&m->quota, 1, wall) : due, now, wall, ret);
        limits_meter_drop(l, m);
    }
    limits_leave_lock(l);
}

void limits_domain_give_back(struct limits *l, struct slice name, usec_t sent_wall)
{
    const struct limit_meter_key key = {LIMIT_OF_DOMAIN, name};
    limits_enter(l);
    struct limits_meter *m = limits_meter_find(l, &key);
    if (m != NULL) {
        limits_quota_back(m, 1, sent_wall);
        l->changes++;
    }
    limits_leave_lock(l);
}
