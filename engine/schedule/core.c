/* Owns the core's memory on behalf of readers (lend); called by sched_thread.c. */
#include "engine/schedule/core.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/rcu.h"
#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/schedule/receiver.h"
#include "engine/state/settings.h"
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- what the core borrows: memory whose free can be postponed -------------------------------- */

/* Stands in front of each object lent to a core, so that retiring it needs no allocation. Its 16
 * bytes keep malloc's alignment. */
struct lent {
    struct rcu_retired retired;
};
static_assert(sizeof(struct lent) % 16 == 0, "objects of the core stay aligned");

static void *lend(void *ctx, size_t size)
{
    (void)ctx;
    struct lent *l = malloc(sizeof(*l) + size);
    return l == NULL ? NULL : l + 1;
}

static void take_back(void *ctx, void *obj)
{
    (void)ctx;
    if (obj != NULL) {
        free((struct lent *)obj - 1);
    }
}

static void free_lent(struct rcu_retired *self)
{
    free(container_of(self, struct lent, retired));
}

static void take_back_later(void *ctx, void *obj)
{
    (void)ctx;
    if (obj != NULL) {
        rcu_retire(&((struct lent *)obj - 1)->retired, free_lent);
    }
}

static void release_hosts(void *ctx, void *hosts)
{
    (void)ctx;
    dns_hosts_put(hosts);
}

/* --- creation --------------------------------------------------------------------------------- */

static struct sched_config core_config(const struct settings *s, uint32_t transport)
{
    struct sched_config config = s->config->transports[transport].sched;
    if (s->config->transports[transport].is_gone) {
        config.hold = false; /* deliveries that workers gave back have to end */
    }
    if (config.destination_recipient_limit == 0) {
        /* 0 means no limit. The duplicate bound may be passed by one entry, so the size of an entry
         * must have a limit here. */
        config.destination_recipient_limit = s->config->message_recipient_limit;
    }
    return config;
}

/* NULL: out of memory */
static struct sched *new_sched(const struct core_start *start)
{
    struct sched_config config = core_config(start->settings, start->transport);
    const struct sched_host host = {
        .alloc = lend, .release = take_back, .retire = take_back_later, .ctx = NULL};
    config.hash_seed = hash_random_seed();
    config.must_resolve = config.awaits_end = true;
    return sched_new(&config, &host, release_hosts, start->now);
}

int core_init(struct core *c, const struct core_start *start)
{
    const struct sched_config config = core_config(start->settings, start->transport);
    struct sched *sched = new_sched(start);
    if (sched == NULL) {
        return -ENOMEM;
    }
    const struct lanes_config lanes = {
        .engine = start->engine,
        .box = start->box,
        .sched = sched,
        .transport = (uint16_t)start->transport,
        .name = start->settings->config->transports[start->transport].name,
        .slot_count = (uint32_t)config.process_limit,
    };
    c->transport = (uint16_t)start->transport;
    c->generation = start->settings->generations[start->transport];
    c->worker_count = (uint32_t)config.process_limit;
    c->entry_limit = (uint32_t)config.destination_recipient_limit;
    c->workers = calloc(c->worker_count, sizeof(*c->workers));
    if (c->workers == NULL || lanes_init(&c->lanes, &lanes) != 0) {
        free(c->workers);
        *c = (struct core){.sched = NULL};
        sched_free(sched);
        return -ENOMEM;
    }
    absent_init(&c->absent);
    const struct tenants_config tenants = {
        .engine = start->engine, .sched = sched, .borrower = c->lanes.borrower};
    tenants_init(&c->tenants, &tenants, start->settings);
    c->sources.is_behind = core_sources_are_told(start->settings, start->transport);
    rcu_publish(&c->sched, sched);
    return 0;
}

void core_fini(struct core *c)
{
    if (c->sched != NULL) {
        absent_fini(&c->absent);
        tenants_fini(&c->tenants);
        lanes_fini(&c->lanes);
        sched_free(c->sched);
    }
    free(c->workers);
    core_sources_fini(&c->sources);
}

int core_reconfigure(struct core *c, const struct settings *s, usec_t now)
{
    const struct sched_config config = core_config(s, c->transport);
    uint32_t count = (uint32_t)config.process_limit;
    if (count > c->worker_count) {
        uint16_t *grown = realloc(c->workers, count * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        memset(grown + c->worker_count, 0, (count - c->worker_count) * sizeof(*grown));
        c->workers = grown;
        c->worker_count = count;
    }
    if (lanes_grow(&c->lanes, count) != 0) {
        return -ENOMEM;
    }
    int err = sched_reconfigure(c->sched, &config, now);
    if (err == 0) {
        c->is_gone = s->config->transports[c->transport].is_gone;
        c->entry_limit = c->is_gone ? 0 : (uint32_t)config.destination_recipient_limit;
    }
    return err;
}

void core_log_feedback(struct core *c)
{
    struct sched_debug d;
    while (sched_debug_next(c->sched, &d)) {
        log_info("feedback %s %s: limit %d window %d success %g failure %g fail_cohorts %g", d.name,
                 d.is_positive ? "positive" : "negative", d.limit, d.window, d.success, d.failure,
                 d.fail_cohorts);
    }
}

bool core_reports_can_wait(const struct core *c)
{
    struct sched_counters counters;
    sched_view_counters(c->sched, &counters);
    return counters.entries_waiting <= c->asked && c->unread == 0;
}

void core_hold_lanes(struct core *c, struct slice site, const struct policy *policy,
                     const struct settings *s, usec_t now)
{
    struct lanes_site lanes = {.key = site, .policy = policy, .settings = s};
    receiver_limits(site, &lanes.name, &lanes.hosts);
    if (policy != NULL) {
        lanes_found(&c->lanes, &lanes, now);
    }
}

void core_follow_rules(struct core *c, const struct settings *s, usec_t now)
{
    struct sched_site_view v;
    uint64_t cursor = 0;
    while (sched_view_sites(c->sched, &cursor, &v)) {
        core_hold_lanes(c, v.key, receiver_policy(s, c->transport, v.key), s, now);
    }
}
