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
           rates->connects.count == 0 && rates->quota.count == 0 && rates->warmup == NULL &&
           rates->connections == 0;
}

bool limits_meter_is_limited(const struct limits_meter *m)
{
    bool is_limited = has_quota(&m->quota) || m->seats.limit > 0;
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

/* Is it the smaller one? No limit is the greatest. */
static bool is_below(const struct rate_rule *a, const struct rate_rule *b)
{
    if (a->count == 0 || b->count == 0) {
        return b->count == 0 && a->count > 0;
    }
    double mine = (double)a->count / (double)a->span, other = (double)b->count / (double)b->span;
    return mine < other || (mine <= other && a->burst < b->burst);
}

static int set_quota(struct limits_meter *m, const struct limit_rates *rates, bool is_newer)
{
    bool is_new_quota = !rule_is(&m->quota.rule, &rates->quota) &&
                        (is_newer || is_below(&rates->quota, &m->quota.rule));
    bool is_new_warmup =
        !warmup_is(m->warmup, rates->warmup) && (is_newer || rates->warmup != NULL);
    struct quota_warmup *own = m->warmup;
    if (!is_new_quota && !is_new_warmup) {
        return 0;
    }
    if (is_new_warmup && rates->warmup != NULL) {
        own = malloc(sizeof(*own));
        if (own == NULL) {
            return -ENOMEM;
        }
        *own = *rates->warmup;
    } else if (is_new_warmup) {
        own = NULL;
    }
    struct rate_rule rule = is_new_quota ? rates->quota : m->quota.rule;
    bool was_limited = has_quota(&m->quota);
    if (was_limited) {
        m->gone_quota = quota_export(&m->quota);
    }
    quota_change(&m->quota, &rule, own);
    if (!was_limited && m->gone_quota.span > 0) {
        quota_import(&m->quota, &m->gone_quota);
    }
    if (own != m->warmup) {
        free(m->warmup);
    }
    m->warmup = own;
    m->edition++;
    if (m->parts[LIMITS_PART_QUOTA] != NULL) {
        m->parts[LIMITS_PART_QUOTA]->used_up_at = 0; /* it may be greater */
    }
    return 0;
}

static void change_rate(struct rate *r, struct rate *gone, const struct rate_rule *rule, usec_t now)
{
    if (r->rule.count > 0 && rule->count == 0) {
        *gone = *r;
    } else if (r->rule.count == 0 && gone->rule.count > 0) {
        *r = *gone;
    }
    rate_change(r, rule, now);
}

/* The smaller one holds; 0: no limit. */
static int set_connections(struct limits *l, struct limits_meter *m, uint32_t limit, bool is_newer,
                           usec_t now) ON_ROLE(l->lock)
{
    uint32_t is = m->seats.limit;
    if (!l->parts.is_on || limit == is || !(is_newer || (limit > 0 && (is == 0 || limit < is)))) {
        return 0;
    }
    const struct rate_rule rule = {.count = limit};
    int err = limits_part_configure(l, m, LIMITS_PART_CONNECTIONS, &rule);
    if (err != 0) {
        return err;
    }
    m->seats.limit = limit;
    if (limit > 0 && limits_seats_held(m, now) > 0) { /* they need a part, or are to end */
        (void)limits_part_due(m, LIMITS_PART_CONNECTIONS, now);
        limits_seats_fit(l, m, now);
    }
    return 0;
}

static int set_rates(struct limits *l, struct limits_meter *m,
                     const struct limits_meter_rules *rules, usec_t now) ON_ROLE(l->lock)
{
    const struct limit_rates *rates = rules->rates;
    const struct rate_rule *wanted[LIMITS_UNITS] = {[PACE_MESSAGES] = &rates->messages,
                                                    [PACE_RECIPIENTS] = &rates->recipients,
                                                    [PACE_CONNECTS] = &rates->connects};
    if (rules->serial < m->serial) {
        return 0; /* somebody has not heard of the reload yet */
    }
    bool is_newer = rules->serial > m->serial || m->references == 0;
    int err = set_quota(m, rates, is_newer);
    err = err != 0 ? err : limits_chunk_configure(l, m);
    err = err != 0 ? err : set_connections(l, m, rates->connections, is_newer, now);
    for (unsigned i = 0; i < LIMITS_UNITS && err == 0; i++) {
        const struct rate_rule *now_is = limits_meter_rule(m, i);
        if (!rule_is(now_is, wanted[i]) && (is_newer || is_below(wanted[i], now_is))) {
            err = limits_part_configure(l, m, i, wanted[i]);
            if (err != 0) {
                break;
            }
            change_rate(&m->rates[i], &m->gone_rates[i], wanted[i], now);
            m->edition++;
            m->next_turn = 0; /* all turns are gone */
        }
    }
    m->serial = err == 0 ? rules->serial : m->serial;
    return err;
}

static struct limits_meter *find_meter(struct limits *l, const struct limit_meter_key *key,
                                       uint64_t hash) ON_ROLE(l->lock)
{
    struct limits_link *at = limits_table_chain(&l->meter_table, hash);
    for (; at != NULL; at = at->next) {
        struct limits_meter *m = container_of(at, struct limits_meter, link);
        if (at->hash == hash && m->owner == key->owner &&
            slice_eq(slice_make(m->name, m->name_len), key->name)) {
            return m;
        }
    }
    return NULL;
}

struct limits_meter *limits_meter_find(struct limits *l, const struct limit_meter_key *key)
{
    return find_meter(l, key, hash_bytes(key->name.data, key->name.len, l->seed + key->owner));
}

static struct limits_meter *make_meter(struct limits *l, const struct limit_meter_key *key,
                                       uint64_t hash, usec_t now) ON_ROLE(l->lock)
{
    static const struct rate_rule none;
    struct limits_meter *m = calloc(1, sizeof(*m) + key->name.len);
    if (m == NULL) {
        return NULL;
    }
    m->owner = key->owner;
    m->name_len = key->name.len;
    memcpy(m->name, key->name.data, key->name.len);
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        rate_init(&m->rates[i], &none, now);
    }
    quota_init(&m->quota, &none, NULL);
    list_init(&m->seats.lanes);
    list_push_back(&l->idle_meters, &m->idle);
    limits_table_add(&l->meter_table, &m->link, hash);
    return m;
}

int limits_meter_take(struct limits *l, const struct limits_meter_rules *rules, usec_t now,
                      struct limits_meter **ret)
{
    const struct limit_meter_key *key = &rules->key;
    uint64_t hash = hash_bytes(key->name.data, key->name.len, l->seed + key->owner);
    struct limits_meter *m = find_meter(l, key, hash);
    if (m == NULL) {
        m = make_meter(l, key, hash, now);
    }
    int err = m == NULL ? -ENOMEM : set_rates(l, m, rules, now);
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
    for (unsigned i = 0; i < LIMITS_PARTS; i++) {
        limits_part_free(l, m, i);
    }
    free(m->warmup);
    free(m);
}

static bool is_ahead(const struct rate *r, usec_t now)
{
    return r->rule.count > 0 && r->used_until > now;
}

static bool is_used(const struct quota_state *state, usec_t wall)
{
    return state->span > 0 && state->used > 0 && state->window >= wall / state->span;
}

/* Does what was used still count? */
static bool is_in_use(const struct limits_meter *m, usec_t now, usec_t wall)
{
    bool is_any = false;
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        is_any = is_any || is_ahead(&m->rates[i], now) || is_ahead(&m->gone_rates[i], now);
    }
    struct quota_state quota = quota_export(&m->quota);
    return is_any || is_used(&quota, wall) || is_used(&m->gone_quota, wall);
}

void limits_meter_forget_idle(struct limits *l, usec_t now)
{
    for (unsigned i = 0; i < SWEEP_STEPS && !list_is_empty(&l->idle_meters); i++) {
        struct limits_meter *m = list_first(&l->idle_meters, struct limits_meter, idle);
        if (l->meter_table.count < l->config.lanes_max + IDLE_METERS_MAX &&
            (is_in_use(m, now, l->wall) || limits_part_is_used(m))) {
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
        limits_quota_return(m, amount, wall / quota_export(&m->quota).span);
    }
}

int limits_meter_get(struct limits *l, const struct limit_meter_key *key,
                     const struct limit_rates *rates, uint64_t serial, usec_t now,
                     struct limits_meter **ret)
{
    const struct limits_meter_rules rules = {*key, rates, serial};
    if (key->name.len > LIMITS_NAME_MAX) {
        return -ENAMETOOLONG;
    }
    limits_enter(l);
    int err = limits_meter_take(l, &rules, now, ret);
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
