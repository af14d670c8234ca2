/* See the header for who owns this; nothing here is shared but what limits.h guards. */
#include "engine/schedule/tenants.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/config/label.h"
#include "engine/limit/limits.h"
#include "engine/post/delivery.h"
#include "engine/post/message.h"
#include "engine/schedule/lanes.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS_LEAST = 64, SWEEP_LEAST = 1024 };

struct tenant {
    struct tenant *next; /* in its chain */
    uint64_t hash;
    uint64_t serial; /* of the settings that it goes by */
    bool is_limited; /* by these */
    struct limits_meter *meter;
    struct sched_owner *owner;
    struct limits_meter_loan loan;
    uint32_t name_len;
    char name[LABEL_MAX]; /* in lower case */
};

/* --- which tenants have limits ------------------------------------------------------------------ */

static struct limit_rates rates_of(const struct config_tenant *t)
{
    return t == NULL ? (struct limit_rates){.warmup = NULL}
                     : (struct limit_rates){.messages = t->max_message_rate,
                                            .recipients = t->max_recipient_rate,
                                            .quota = t->max_message_quota};
}

static bool has_limits(const struct limit_rates *r)
{
    return r->messages.count > 0 || r->recipients.count > 0 || r->quota.count > 0;
}

static bool some_are_limited(const struct config *c)
{
    for (size_t i = 0; i < c->tenant_count; i++) {
        const struct limit_rates rates = rates_of(&c->tenants[i]);
        if (has_limits(&rates)) {
            return true;
        }
    }
    return false;
}

/* --- those that are known ------------------------------------------------------------------------ */

static uint32_t lower_name(struct slice name, char *ret)
{
    uint32_t len = name.len < LABEL_MAX ? (uint32_t)name.len : LABEL_MAX;
    for (uint32_t i = 0; i < len; i++) {
        char c = name.data[i];
        ret[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    return len;
}

static struct tenant **chain_of(const struct tenants *t, uint64_t hash)
{
    return &t->chains[hash & (t->chain_count - 1)];
}

static struct tenant *find_tenant(const struct tenants *t, const struct tenant *key)
{
    struct tenant *at = t->chain_count == 0 ? NULL : *chain_of(t, key->hash);
    while (at != NULL && (at->hash != key->hash || at->name_len != key->name_len ||
                          memcmp(at->name, key->name, key->name_len) != 0)) {
        at = at->next;
    }
    return at;
}

/* More chains; without memory they become longer. false: there are none at all. */
static bool grow(struct tenants *t)
{
    uint32_t count = t->chain_count == 0 ? CHAINS_LEAST : 2 * t->chain_count;
    struct tenant **chains =
        t->count < t->chain_count ? NULL : calloc(count, sizeof(struct tenant *));
    if (chains == NULL) {
        return t->chain_count > 0;
    }
    for (uint32_t i = 0; i < t->chain_count; i++) {
        struct tenant *at = t->chains[i];
        while (at != NULL) {
            struct tenant *next = at->next, **to = &chains[at->hash & (count - 1)];
            at->next = *to;
            *to = at;
            at = next;
        }
    }
    free(t->chains);
    t->chains = chains;
    t->chain_count = count;
    return true;
}

static void free_tenant(struct tenants *t, struct tenant *at)
{
    limits_meter_put(t->engine->limits, at->meter);
    free(at);
    t->count--;
}

/* Those that have no mail here, and that nothing is lent to. */
static void sweep(struct tenants *t)
{
    for (uint32_t i = 0; i < t->chain_count; i++) {
        struct tenant **at = &t->chains[i];
        while (*at != NULL) {
            struct tenant *one = *at;
            if (!sched_owner_is_idle(one->owner)) {
                at = &one->next;
                continue;
            }
            *at = one->next;
            sched_owner_free(t->sched, one->owner);
            free_tenant(t, one);
        }
    }
    t->sweep_at = 2 * t->count > SWEEP_LEAST ? 2 * t->count : SWEEP_LEAST;
}

/* By these settings. Without memory for it the limits stay as they were. errors: -ENOMEM */
static int follow(struct tenants *t, struct tenant *at, const struct settings *s, usec_t now)
{
    struct slice name = slice_make(at->name, at->name_len);
    const struct limit_rates rates = rates_of(config_tenant_find(s->config, name));
    struct limits_meter *meter;
    int err = limits_meter_get(t->engine->limits, &(struct limit_meter_key){LIMIT_OF_TENANT, name},
                               &rates, s->serial, now, &meter);
    if (err != 0) {
        return err;
    }
    limits_meter_put(t->engine->limits, at->meter);
    at->meter = meter;
    at->is_limited = has_limits(&rates);
    at->serial = s->serial;
    return 0;
}

/* NULL: no memory */
static struct tenant *add_tenant(struct tenants *t, const struct tenant *key,
                                 const struct settings *s, usec_t now)
{
    struct tenant *one = grow(t) ? malloc(sizeof(*one)) : NULL;
    if (one == NULL) {
        return NULL;
    }
    *one = *key;
    one->owner = follow(t, one, s, now) == 0 ? sched_owner_new(t->sched, one) : NULL;
    if (one->owner == NULL) {
        limits_meter_put(t->engine->limits, one->meter);
        free(one);
        return NULL;
    }
    struct tenant **chain = chain_of(t, one->hash);
    one->next = *chain;
    *chain = one;
    t->count++;
    return one;
}

static void set_key(struct tenant *key, struct slice name)
{
    *key = (struct tenant){.name_len = 0};
    key->name_len = lower_name(name, key->name);
    key->hash = hash_checksum(key->name, key->name_len);
}

bool tenants_owner(struct tenants *t, struct slice name, usec_t now, struct sched_owner **ret)
{
    *ret = NULL;
    if (!t->are_limited) {
        return true;
    }
    struct tenant key;
    set_key(&key, name);
    struct tenant *one = find_tenant(t, &key);
    if (one == NULL) {
        const struct settings *s = settings_of(t->engine);
        const struct limit_rates rates = rates_of(config_tenant_find(s->config, name));
        if (!has_limits(&rates)) {
            return true;
        }
        if (t->count >= t->sweep_at) {
            sweep(t);
        }
        one = add_tenant(t, &key, s, now);
    }
    if (one == NULL) {
        return false;
    }
    *ret = one->is_limited ? one->owner : NULL;
    return true;
}

/* --- life ----------------------------------------------------------------------------------------- */

void tenants_init(struct tenants *t, const struct tenants_config *config,
                  const struct settings *settings)
{
    *t = (struct tenants){.engine = config->engine,
                          .sched = config->sched,
                          .borrower = config->borrower,
                          .are_limited = some_are_limited(settings->config),
                          .sweep_at = SWEEP_LEAST};
}

void tenants_fini(struct tenants *t)
{
    for (uint32_t i = 0; i < t->chain_count; i++) {
        while (t->chains[i] != NULL) {
            struct tenant *one = t->chains[i];
            t->chains[i] = one->next;
            limits_meter_repay(t->borrower, one->meter, &one->loan, &one->loan.left);
            free_tenant(t, one);
        }
    }
    free(t->chains);
    *t = (struct tenants){.count = 0};
}

/* Messages that wait have the owners that they would get now. */
static void own_all(struct tenants *t, usec_t now)
{
    struct sched_job_view v;
    uint64_t cursor = 0;
    while (sched_view_jobs(t->sched, &cursor, &v)) {
        const struct message *m = v.handle;
        struct sched_owner *owner;
        if (tenants_owner(t, m->envelope.tenant, now, &owner)) {
            sched_own(t->sched, v.message_id, owner, now);
        } else {
            log_error("out of memory: mail of a tenant stays without its limits");
        }
    }
}

void tenants_set(struct tenants *t, const struct settings *s, usec_t now)
{
    bool were_limited = t->are_limited;
    t->are_limited = some_are_limited(s->config);
    if (!were_limited && !t->are_limited) {
        return;
    }
    for (uint32_t i = 0; i < t->chain_count; i++) {
        for (struct tenant *at = t->chains[i]; at != NULL; at = at->next) {
            if (at->serial < s->serial && follow(t, at, s, now) != 0) {
                log_error("out of memory: the limits of a tenant stay as they were");
            }
            sched_owner_ask_again(t->sched, at->owner, now);
        }
    }
    own_all(t, now);
    sweep(t);
}

/* --- loans ---------------------------------------------------------------------------------------- */

void tenants_ask(struct tenants *t, const struct sched_action *a, usec_t now)
{
    struct tenant *one = a->owner_user;
    const struct limits_meter_ask ask = {.messages = a->loan->wanted,
                                         .owed = a->loan->recipients_owed,
                                         .now = now,
                                         .wall = clock_wall()};
    struct limit_grant lent;
    limits_meter_lend(t->borrower, one->meter, &ask, &one->loan, &lent);
    const struct sched_grant grant = {
        .messages = lent.messages,
        .connects = SCHED_NO_BOUND_OF_CONNECTS,
        .recipients = lent.recipients == LIMIT_UNBOUNDED ? SCHED_NO_BOUND : lent.recipients,
        .from = lent.from,
        .until = lent.until,
        .due = lent.due,
        .turn = lent.turn,
        .per_second = isfinite(lent.per_second) ? lent.per_second : 0,
        .why = lent.why == LIMIT_BY_QUOTA ? SCHED_WHY_TENANT_QUOTA : SCHED_WHY_TENANT_RATE,
    };
    if (!sched_owner_grant(t->sched, one->owner, &grant, now)) {
        limits_meter_repay(t->borrower, one->meter, &one->loan, &one->loan.left);
    }
}

void tenants_return(struct tenants *t, const struct sched_action *a)
{
    struct tenant *one = a->owner_user;
    const struct limit_units left = {a->loan->left.messages, a->loan->left.recipients, 0};
    limits_meter_repay(t->borrower, one->meter, &one->loan, &left);
}

void tenants_heard(struct tenants *t, struct delivery *d, usec_t now)
{
    d->was_sent = d->was_sent || d->taken_messages > 0;
    if (!d->is_charged || d->again || (d->was_sent && !d->is_throttled)) {
        return;
    }
    struct tenant key;
    set_key(&key, d->message->envelope.tenant);
    struct tenant *one = find_tenant(t, &key);
    struct limit_units unsent = {.messages = 1};
    (void)sched_entry_indexes(d->entry, &unsent.recipients);
    if (one != NULL) {
        limits_meter_give_back(t->engine->limits, one->meter, &unsent,
                               clock_wall() - (now - d->sent_at));
    }
    d->is_charged = false;
}
