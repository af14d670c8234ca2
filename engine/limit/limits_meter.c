/* The configured rates and the quota of one lane, site, source, tenant or domain. Called with the
 * lock held by whoever holds, lends or reloads; must not know what was learned. A meter without
 * references stays for as long as what was used of it still counts: until its schedule is not ahead
 * of the clock any more, and until the window of its quota is over. */
#include "base/hash.h"
#include "engine/limit/limits_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_METERS_MAX 100000U
#define SWEEP_STEPS     4

static bool has_quota(const struct quota *q)
{
    return q->warmup != NULL || q->rule.count > 0;
}

bool limit_rates_are_none(const struct limit_rates *rates)
{
    return rates->messages.count == 0 && rates->recipients.count == 0 &&
           rates->connects.count == 0 && rates->quota.count == 0 && rates->warmup == NULL;
}

bool limits_meter_is_limited(const struct limits_meter *m)
{
    bool is_limited = has_quota(&m->quota);
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        is_limited = is_limited || m->rates[i].rule.count > 0;
    }
    return is_limited;
}

static bool rule_is(const struct rate_rule *a, const struct rate_rule *b)
{
    return a->count == b->count && a->burst == b->burst && a->span == b->span;
}

static bool warmup_is(const struct quota_warmup *a, const struct quota_warmup *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return a->count == b->count && a->since == b->since &&
           memcmp(a->steps, b->steps, a->count * sizeof(a->steps[0])) == 0;
}

static int set_quota(struct limits_meter *m, const struct limit_rates *rates)
{
    if (rule_is(&m->quota.rule, &rates->quota) && warmup_is(m->warmup, rates->warmup)) {
        return 0;
    }
    struct quota_warmup *own = NULL;
    if (rates->warmup != NULL) {
        own = malloc(sizeof(*own));
        if (own == NULL) {
            return -ENOMEM;
        }
        *own = *rates->warmup;
    }
    quota_change(&m->quota, &rates->quota, own);
    free(m->warmup);
    m->warmup = own;
    m->edition++;
    return 0;
}

int limits_meter_set(struct limits_meter *m, const struct limit_rates *rates, usec_t now)
{
    const struct rate_rule *rules[LIMITS_UNITS] = {[PACE_MESSAGES] = &rates->messages,
                                                   [PACE_RECIPIENTS] = &rates->recipients,
                                                   [PACE_CONNECTS] = &rates->connects};
    int err = set_quota(m, rates);
    for (unsigned i = 0; i < LIMITS_UNITS && err == 0; i++) {
        if (!rule_is(&m->rates[i].rule, rules[i])) {
            rate_change(&m->rates[i], rules[i], now);
            m->edition++;
        }
    }
    return err;
}

static struct limits_meter *find_meter(struct limits *l, enum limit_owner owner, struct slice name,
                                       uint64_t hash) ON_ROLE(l->lock)
{
    struct limits_link *at = limits_table_chain(&l->meter_table, hash);
    for (; at != NULL; at = at->next) {
        struct limits_meter *m = container_of(at, struct limits_meter, link);
        if (at->hash == hash && m->owner == owner &&
            slice_eq(slice_make(m->name, m->name_len), name)) {
            return m;
        }
    }
    return NULL;
}

static struct limits_meter *make_meter(struct limits *l, enum limit_owner owner, struct slice name,
                                       uint64_t hash, usec_t now) ON_ROLE(l->lock)
{
    static const struct rate_rule none;
    struct limits_meter *m = calloc(1, sizeof(*m) + name.len);
    if (m == NULL) {
        return NULL;
    }
    m->owner = owner;
    m->name_len = name.len;
    memcpy(m->name, name.data, name.len);
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        rate_init(&m->rates[i], &none, now);
    }
    quota_init(&m->quota, &none, NULL);
    list_push_back(&l->idle_meters, &m->idle);
    limits_table_add(&l->meter_table, &m->link, hash);
    return m;
}

/* A reference to the meter of that name, which is made when there is none, with these rates. */
int limits_meter_take(struct limits *l, enum limit_owner owner, struct slice name,
                      const struct limit_rates *rates, usec_t now, struct limits_meter **ret)
{
    uint64_t hash = hash_bytes(name.data, name.len, l->seed + owner);
    struct limits_meter *m = find_meter(l, owner, name, hash);
    if (m == NULL) {
        m = make_meter(l, owner, name, hash, now);
    }
    int err = m == NULL ? -ENOMEM : limits_meter_set(m, rates, now);
    if (err != 0) {
        return err; /* one that was made is idle, and forgotten as others are */
    }
    m->references++;
    list_remove(&m->idle);
    *ret = m;
    return 0;
}

void limits_meter_drop(struct limits *l, struct limits_meter *m)
{
    assert(m->references > 0);
    if (--m->references == 0) {
        list_push_back(&l->idle_meters, &m->idle);
    }
}

void limits_meter_free(struct limits *l, struct limits_meter *m)
{
    limits_table_remove(&l->meter_table, &m->link);
    list_remove(&m->idle);
    free(m->warmup);
    free(m);
}

/* Does what was used still count? */
static bool is_in_use(struct limits_meter *m, usec_t now, usec_t wall)
{
    bool is_ahead = false;
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        is_ahead = is_ahead || (m->rates[i].rule.count > 0 && m->rates[i].used_until > now);
    }
    if (is_ahead || !has_quota(&m->quota)) {
        return is_ahead;
    }
    bool is_counted = quota_left(&m->quota, wall) < UINT64_MAX; /* turns to the present window */
    return is_counted && m->quota.used > 0;
}

void limits_meter_forget_idle(struct limits *l, usec_t now)
{
    for (unsigned i = 0; i < SWEEP_STEPS && !list_is_empty(&l->idle_meters); i++) {
        struct limits_meter *m = list_first(&l->idle_meters, struct limits_meter, idle);
        if (l->meter_table.count < l->config.lanes_max + IDLE_METERS_MAX &&
            is_in_use(m, now, l->wall)) {
            list_remove(&m->idle);
            list_push_back(&l->idle_meters, &m->idle);
        } else {
            limits_meter_free(l, m);
        }
    }
}

/* Undoes what was taken at that time. */
void limits_quota_back(struct limits_meter *m, uint32_t amount, usec_t wall)
{
    if (has_quota(&m->quota)) {
        quota_give_back(&m->quota, amount, wall / quota_export(&m->quota).span);
    }
}

int limits_meter_get(struct limits *l, enum limit_owner owner, struct slice name,
                     const struct limit_rates *rates, usec_t now, struct limits_meter **ret)
{
    if (name.len > LIMITS_NAME_MAX) {
        return -ENAMETOOLONG;
    }
    limits_enter(l);
    int err = limits_meter_take(l, owner, name, rates, now, ret);
    limits_leave_lock(l);
    return err;
}

void limits_meter_put(struct limits *l, struct limits_meter *m)
{
    if (m != NULL) {
        limits_enter(l);
        limits_meter_drop(l, m);
        limits_leave_lock(l);
    }
}
