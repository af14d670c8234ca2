/* Owns the life of settings: made of a configuration, counted, freed with the last reference.
 * Called by main at start and at a reload, and by whoever holds a reference; must not publish. */
#include "engine/state/settings.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "dns/cache.h"
#include "engine/config/config.h"
#include "engine/config/config_change.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "engine/heard/return_book.h"
#include "engine/key/key_ring.h"
#include "engine/reply/reply_set.h"
#include "engine/state/client_settings.h"
#include "engine/state/source_table.h"
#include "engine/state/tls_clients.h"
#include "engine/state/tokens.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(SETTINGS_TEXT_MAX >= PASSWORD_TEXT_MAX &&
                  SETTINGS_TEXT_MAX >= LISTENER_RULES_TEXT_MAX &&
                  SETTINGS_TEXT_MAX >= SOURCE_TABLE_TEXT_MAX,
              "all complaints fit");

/* How many recipients' results the duplicate bound lets wait for their commit, beside the entries
 * in flight: enough for some hundred commits, so that the bound never slows a healthy spool. */
enum { RESULTS_HEADROOM = 2000 };

/* An entry that is NULL is not written: others may read it. */
static void forget_last(struct settings *s)
{
    for (size_t i = 0; s->last != NULL && i < s->transport_count; i++) {
        struct settings *last = s->last[i];
        if (last != NULL) {
            s->last[i] = NULL;
            atomic_fetch_sub_explicit(&last->lasts, 1, memory_order_acq_rel);
            settings_put(last);
        }
    }
}

static void settings_free(struct settings *s)
{
    client_settings_free(s->config, s->client_configs);
    source_table_free(s->sources);
    passwords_free(s->config, &s->passwords);
    tls_clients_close(s->config, s->tls_clients);
    for (size_t i = 0; s->listeners != NULL && i <= s->listener_count; i++) {
        listener_rules_fini(&s->listeners[i].own);
        settings_put(s->listeners[i].owner);
    }
    for (size_t i = 0; s->doors != NULL && i < s->door_count; i++) {
        tokens_free(s->doors[i].tokens);
        settings_put(s->doors[i].owner);
    }
    free(s->doors);
    free(s->listeners);
    forget_last(s);
    free(s->last);
    free(s->generations);
    key_ring_free(s->keys);
    reply_set_free(s->replies);
    router_free(s->router);
    policy_table_free(s->policies);
    dns_cache_put(s->dns_cache);
    config_free(s->owned);
    free(s);
}

/* --- listeners -------------------------------------------------------------------------------- */

/* Whether mail to the domain can be routed by the settings in force. Sessions ask it for each
 * recipient, to refuse one in the dialogue rather than bounce it later. */
static bool has_route(const void *engine, struct slice domain)
{
    struct route_result route;
    return router_route(settings_of(engine)->router, domain, SLICE(""), &route);
}

static int make_listener(struct settings *s, const struct engine *engine, struct settings *before,
                         size_t index, char *ret_text)
{
    const struct config *c = s->config;
    struct settings_listener *l = &s->listeners[index];
    const struct config_listener *section = NULL;
    for (size_t i = 0; i < c->listener_count && index < s->listener_count; i++) {
        if (strcmp(c->listeners[i].name, engine->config->listeners[index].name) == 0) {
            section = &c->listeners[i];
        }
    }
    if (section == NULL && index < s->listener_count) {
        const struct settings_listener *last = &before->listeners[index];
        l->owner = settings_get(last->owner != NULL ? last->owner : before);
        l->rules = last->rules;
        return 0;
    }
    int err = listener_rules_init(&l->own, c, section, ret_text);
    l->own.smtp.has_route = has_route;
    l->own.smtp.routes = engine;
    l->rules = &l->own;
    return err;
}

static int make_listeners(struct settings *s, const struct engine *engine, struct settings *before,
                          char *ret_text)
{
    s->listener_count = engine->config->listener_count;
    s->listeners = calloc(s->listener_count + 1, sizeof(*s->listeners));
    int err = s->listeners == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i <= s->listener_count && err == 0; i++) {
        err = make_listener(s, engine, before, i, ret_text);
    }
    return err;
}

/* --- DNS -------------------------------------------------------------------------------------- */

/* Options of the cache; all others of the section are a resolver's. */
static bool has_same_cache(const struct config_dns *a, const struct config_dns *b)
{
    return a->cache_size == b->cache_size && a->cache_max_ttl == b->cache_max_ttl &&
           a->cache_negative_ttl == b->cache_negative_ttl;
}

/* errors: NULL when out of memory */
static struct dns_cache *make_cache(const struct config_dns *c)
{
    struct dns_cache_config config;
    dns_cache_config_defaults(&config);
    config.entry_limit = (uint32_t)c->cache_size;
    config.positive_ttl_max = c->cache_max_ttl;
    if (c->cache_negative_ttl < config.negative_ttl_max) {
        config.negative_ttl_max = c->cache_negative_ttl;
    }
    if (config.negative_ttl_min > config.negative_ttl_max) {
        config.negative_ttl_min = config.negative_ttl_max;
    }
    config.hash_seed = hash_random_seed();
    return dns_cache_new(&config);
}

static int set_cache(struct settings *s, const struct settings *before)
{
    bool is_kept = before != NULL && has_same_cache(&before->config->dns, &s->config->dns);
    s->dns_cache = is_kept ? dns_cache_get(before->dns_cache) : make_cache(&s->config->dns);
    return s->dns_cache == NULL ? -ENOMEM : 0;
}

/* --- doors ------------------------------------------------------------------------------------ */

/* The section of a door of the start, as it is now or was last. */
static void find_door(struct settings *s, const struct engine *engine, struct settings *before,
                      size_t index)
{
    const struct config *c = s->config;
    struct settings_door *d = &s->doors[index];
    for (size_t i = 0; i < c->http_door_count; i++) {
        if (strcmp(c->http_doors[i].name, engine->config->http_doors[index].name) == 0) {
            d->section = &c->http_doors[i];
            return;
        }
    }
    const struct settings_door *last = &before->doors[index];
    d->owner = settings_get(last->owner != NULL ? last->owner : before);
    d->section = last->section;
}

static int make_doors(struct settings *s, const struct engine *engine, struct settings *before,
                      char *ret_text)
{
    char why[512];
    s->doors = calloc(engine->config->http_door_count + 1, sizeof(*s->doors));
    int err = s->doors == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < engine->config->http_door_count && err == 0; i++) {
        struct settings_door *d = &s->doors[i];
        find_door(s, engine, before, i);
        s->door_count = i + 1;
        if (d->section->tokens_file != NULL) {
            err = tokens_load(d->section->tokens_file, &d->tokens, why);
        }
        if (err != 0) {
            (void)snprintf(ret_text, SETTINGS_TEXT_MAX, "http \"%.60s\": %s", d->section->name,
                           why);
        }
    }
    return err;
}

/* --- rules for replies, keys that sign ---------------------------------------------------------- */

struct complaints {
    char *text; /* SETTINGS_TEXT_MAX: the first one */
    unsigned count;
};

static void hear(void *ctx, bool is_warning, const char *line)
{
    struct complaints *c = ctx;
    if (is_warning) {
        return; /* `sluice check` tells them */
    }
    if (c->count++ == 0) {
        (void)snprintf(c->text, SETTINGS_TEXT_MAX - 60, "%s", line); /* cut if long */
    }
}

static void count_complaints(const struct complaints *c)
{
    if (c->count > 1) {
        size_t len = strlen(c->text);
        (void)snprintf(c->text + len, SETTINGS_TEXT_MAX - len, " (sluice check tells %u mistakes)",
                       c->count);
    }
}

static int load_replies(struct settings *s, char *ret_text)
{
    struct complaints complaints = {ret_text, 0};
    const struct config_sink sink = {.complain = hear, .ctx = &complaints};
    int err =
        reply_set_load(&s->config->reply_files, s->config->has_shipped_replies, &sink, &s->replies);
    count_complaints(&complaints);
    return err;
}

static int load_keys(struct settings *s, const struct settings *before, char *ret_text)
{
    struct complaints complaints = {ret_text, 0};
    const struct config_sink sink = {.complain = hear, .ctx = &complaints};
    int err = key_ring_load(s->config, before == NULL ? NULL : before->keys, &sink, &s->keys);
    count_complaints(&complaints);
    return err;
}

/* --- transports ------------------------------------------------------------------------------- */

/* The transport has the same sources by both. */
static bool has_same_passwords(const struct settings *a, const struct settings *b, size_t transport)
{
    const struct transport_sources *x = &a->sources->transports[transport];
    const struct transport_sources *y = &b->sources->transports[transport];
    bool is_same = slice_eq(a->passwords.transports[transport], b->passwords.transports[transport]);
    for (uint32_t i = 0; is_same && i < x->count; i++) {
        is_same = x->sections[i] == NULL ||
                  slice_eq(a->passwords.sources[x->sections[i] - a->config->egress_sources],
                           b->passwords.sources[y->sections[i] - b->config->egress_sources]);
    }
    return is_same;
}

/* Whether the transport connects by both settings in the same way; before: has its number */
static bool is_same_way(const struct settings *before, const struct settings *s, size_t transport)
{
    bool was_gone = before->config->transports[transport].is_gone;
    bool is_gone = s->config->transports[transport].is_gone;
    if (was_gone || is_gone) {
        return was_gone && is_gone;
    }
    return config_change_is_same_way(before->config, s->config, transport) &&
           source_table_is_same(before->sources, s->sources, transport) &&
           has_same_passwords(before, s, transport);
}

static int count_generations(struct settings *s, const struct settings *before)
{
    struct config_receiver_change receivers = {0};
    int err = before == NULL ? 0 : config_change_receivers(before->config, s->config, &receivers);
    bool has_changed = receivers.has_members || receivers.has_ways;
    bool has_rates =
        before != NULL && config_change_has_rates(before->config, s->config, &receivers);
    s->rates_serial = before == NULL || has_rates ? s->serial : before->rates_serial;
    s->transport_count = s->config->transport_count;
    s->generations = calloc(s->transport_count + 1, sizeof(*s->generations));
    for (size_t i = 0; s->generations != NULL && i < s->transport_count; i++) {
        bool is_new = before == NULL || i >= before->transport_count;
        bool is_gone = s->config->transports[i].is_gone;
        s->generations[i] = is_new ? 1
                                   : before->generations[i] +
                                         ((has_changed && !is_gone) || !is_same_way(before, s, i));
    }
    return s->generations == NULL ? -ENOMEM : err;
}

/* Lets the settings go that only others' `last` lead to: they are used for the transport that is gone
 * and no other, so nobody asks them for what was gone in their time. Without this each reload would
 * keep all earlier ones when transports come and go in turn. Only main adds to `last`, and who takes
 * an entry out lowers `lasts` first; so when both counts are the same, nobody has a reference from
 * the time when those settings were in force, and the grace period behind it is over. */
static void cut_chains(struct settings *s)
{
    for (size_t i = 0; s != NULL && i < s->transport_count; i++) {
        struct settings *last = s->last[i];
        if (last != NULL && atomic_load_explicit(&last->references, memory_order_acquire) ==
                                atomic_load_explicit(&last->lasts, memory_order_acquire)) {
            forget_last(last);
        }
    }
}

/* before: has all that are gone */
static int keep_last(struct settings *s, struct settings *before)
{
    cut_chains(before);
    s->last = calloc(s->transport_count + 1, sizeof(struct settings *));
    for (size_t i = 0; s->last != NULL && i < s->transport_count; i++) {
        if (s->config->transports[i].is_gone) {
            s->last[i] = settings_get(settings_for(before, i));
            atomic_fetch_add_explicit(&s->last[i]->lasts, 1, memory_order_relaxed);
        }
    }
    return s->last == NULL ? -ENOMEM : 0;
}

/* What can be in flight at once decides what a crash can repeat. */
static void set_bound(struct settings *s)
{
    uint64_t in_flight = 0, largest = 0;
    for (size_t i = 0; i < s->transport_count; i++) {
        const struct sched_config *t = &s->config->transports[i].sched;
        uint64_t entry = t->destination_recipient_limit > 0
                             ? (uint64_t)t->destination_recipient_limit
                             : (uint64_t)s->config->message_recipient_limit;
        if (!s->config->transports[i].is_gone) {
            in_flight += (uint64_t)t->process_limit * entry;
            largest = entry > largest ? entry : largest;
        }
    }
    s->dispatch_bound =
        (struct dispatch_bound){.undurable = in_flight + RESULTS_HEADROOM, .entry = largest};
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Return addresses need keys before the first is written, and listeners to know them by. */
static int want_returns(const struct engine *engine, const struct config *config,
                        char ret_text[static SETTINGS_TEXT_MAX])
{
    char why[RETURN_BOOK_TEXT_MAX];
    if (!config->has_return_tokens || engine->returns == NULL) {
        return 0;
    }
    int err = return_book_want(engine->returns, clock_wall() / USEC_PER_SEC, why);
    if (err != 0) {
        (void)snprintf(ret_text, SETTINGS_TEXT_MAX, "return addresses: %s", why);
    }
    return err;
}

int settings_new(const struct engine *engine, const struct config *config, struct settings *before,
                 struct settings **ret, char ret_text[static SETTINGS_TEXT_MAX])
{
    struct settings *s = calloc(1, sizeof(*s));
    (void)snprintf(ret_text, SETTINGS_TEXT_MAX, "out of memory");
    if (s == NULL) {
        return -ENOMEM;
    }
    s->config = config;
    s->serial = before == NULL ? 1 : before->serial + 1;
    atomic_init(&s->references, 1);
    s->router = router_new(config);
    int err = s->router == NULL ? -ENOMEM : policy_table_new(config, &s->policies);
    err = err != 0 ? err : load_replies(s, ret_text);
    err = err != 0 ? err : load_keys(s, before, ret_text);
    err = err != 0 ? err : want_returns(engine, config, ret_text);
    err = err != 0 ? err : set_cache(s, before);
    err = err != 0 ? err : make_listeners(s, engine, before, ret_text);
    err = err != 0 ? err : make_doors(s, engine, before, ret_text);
    err = err != 0 ? err : tls_clients_open(config, &s->tls_clients, ret_text);
    err = err != 0 ? err : passwords_load(config, &s->passwords, ret_text);
    if (err == 0) {
        (void)snprintf(ret_text, SETTINGS_TEXT_MAX, "out of memory");
        err = source_table_new(config, before == NULL ? NULL : before->sources, &s->sources,
                               ret_text);
    }
    err =
        err != 0 ? err : client_settings_new(config, s->sources, &s->passwords, &s->client_configs);
    err = err != 0 ? err : count_generations(s, before);
    err = err != 0 ? err : keep_last(s, before);
    if (err != 0) {
        settings_free(s);
        return err;
    }
    set_bound(s);
    *ret = s;
    return 0;
}

struct settings *settings_get(struct settings *s)
{
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
    return s;
}

void settings_put(struct settings *s)
{
    if (s == NULL) {
        return;
    }
    /* Release and acquire: all reads by other holders happen before the last one frees it. */
    if (atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 1) {
        settings_free(s);
    }
}
