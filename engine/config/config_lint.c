/* Owns the rules of taste: each looks at a snapshot that is right, and says nothing about defaults.
 * Called by `sluice check`. */
#include "engine/config/config_lint.h"

#include "base/hash.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

enum { SEEN_MAX = 64 };

struct lint {
    const struct config *config;
    const struct config_sink *sink;
    uint64_t seen[SEEN_MAX]; /* hashes of what was said: a line at the top level is one for all */
    size_t seen_count;
};

static bool is_news(struct lint *l, const char *line)
{
    uint64_t hash = hash_bytes(line, strlen(line), 0);
    for (size_t i = 0; i < l->seen_count; i++) {
        if (l->seen[i] == hash) {
            return false;
        }
    }
    if (l->seen_count < SEEN_MAX) {
        l->seen[l->seen_count++] = hash;
    }
    return true;
}

PRINTF_LIKE(5, 6)
static void warn(struct lint *l, enum config_section section, size_t index, const char *option,
                 const char *fmt, ...)
{
    char at[CONFIG_ORIGIN_BYTES], message[1024], line[CONFIG_ORIGIN_BYTES + 1200];
    const char *key = option == NULL ? config_sections[section].name : option;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap); /* cut where it is too long */
    va_end(ap);
    bool is_placed = config_origin(l->config, section, index, option, at) ||
                     config_origin(l->config, section, index, NULL, at);
    (void)snprintf(line, sizeof(line), "%s: %s: warning: %s", is_placed ? at : l->config->path, key,
                   message);
    if (is_news(l, line)) {
        l->sink->complain(l->sink->ctx, true, line);
    }
}

static bool is_set(struct lint *l, enum config_section section, size_t index, const char *option)
{
    char at[CONFIG_ORIGIN_BYTES];
    return config_origin(l->config, section, index, option, at);
}

/* --- what nothing leads to -------------------------------------------------------------------- */

static void check_use(struct lint *l)
{
    const struct config *c = l->config;
    for (size_t i = 0; i < c->transport_count; i++) {
        bool is_used = false;
        for (size_t r = 0; r < c->route_count; r++) {
            is_used = is_used || c->routes[r].transport == i;
        }
        if (!is_used) {
            warn(l, CONFIG_SECTION_TRANSPORT, i, NULL,
                 "no route leads to transport \"%s\"; add one, or remove it",
                 c->transports[i].name);
        }
    }
    for (size_t i = 0; i < c->egress_pool_count; i++) {
        bool is_used = false;
        for (size_t t = 0; t < c->transport_count; t++) {
            is_used = is_used || c->transports[t].pool == &c->egress_pools[i];
        }
        for (size_t t = 0; t < c->tenant_count; t++) {
            is_used = is_used || c->tenants[t].pool == &c->egress_pools[i];
        }
        if (!is_used) {
            warn(l, CONFIG_SECTION_POOL, i, NULL,
                 "no transport has source_pool = \"%s\", and no tenant pool; name it in one, or "
                 "remove "
                 "it",
                 c->egress_pools[i].name);
        }
    }
    for (size_t i = 0; i < c->egress_source_count; i++) {
        bool is_used = false;
        for (size_t p = 0; p < c->egress_pool_count; p++) {
            for (size_t m = 0; m < c->egress_pools[p].source_names.count; m++) {
                is_used = is_used || c->egress_pools[p].sources[m] == &c->egress_sources[i];
            }
        }
        if (!is_used) {
            warn(l, CONFIG_SECTION_SOURCE, i, NULL,
                 "no pool has source \"%s\"; add it to one, or remove it",
                 c->egress_sources[i].name);
        }
    }
}

/* --- routes ----------------------------------------------------------------------------------- */

static const struct config_route *find_route(const struct config *c, const char *pattern)
{
    size_t i = config_section_find_title(c, CONFIG_SECTION_ROUTE, pattern);
    return i < c->route_count ? &c->routes[i] : NULL;
}

/* The route that would match what `r` matches if `r` were not there; NULL: none. */
static const struct config_route *next_best(const struct config *c, const struct config_route *r)
{
    const char *at = r->pattern[0] == '[' ? NULL : strchr(r->pattern + (r->pattern[0] == '.'), '.');
    while (at != NULL && at[1] != '\0') {
        const struct config_route *found = find_route(c, at);
        if (found != NULL) {
            return found;
        }
        at = strchr(at + 1, '.');
    }
    return find_route(c, "*");
}

static void check_routes(struct lint *l)
{
    const struct config *c = l->config;
    char at[CONFIG_ORIGIN_BYTES];
    for (size_t i = 0; i < c->route_count; i++) {
        const struct config_route *r = &c->routes[i];
        const struct config_route *other = strcmp(r->pattern, "*") == 0 ? NULL : next_best(c, r);
        bool is_literal = r->pattern[0] == '['; /* "*" does not take all of them */
        if (other != NULL && !is_literal && other->transport == r->transport &&
            strcmp(other->nexthop, r->nexthop) == 0 &&
            config_route_tls_level(c, other) == config_route_tls_level(c, r)) {
            (void)config_origin(c, CONFIG_SECTION_ROUTE, (size_t)(other - c->routes), NULL, at);
            warn(l, CONFIG_SECTION_ROUTE, i, NULL,
                 "route \"%.80s\" changes nothing: route \"%.80s\" (%s) leads to the same; remove "
                 "it",
                 r->pattern, other->pattern, at);
        }
    }
}

/* --- limits ----------------------------------------------------------------------------------- */

/* What other schedulers than the default one do not heed. */
static void check_scheduler(struct lint *l, size_t i)
{
    static const char *const slots[] = {"delivery_slot_cost", "delivery_slot_loan",
                                        "delivery_slot_discount", "minimum_delivery_slots"};
    const enum config_section section = CONFIG_SECTION_TRANSPORT;
    const struct sched_config *s = &l->config->transports[i].sched;
    bool knows_flows = s->scheduler != SCHED_BY_TURNS;
    for (size_t n = 0; s->scheduler != SCHED_BY_PREEMPTION && n < sizeof(slots) / sizeof(slots[0]);
         n++) {
        if (is_set(l, section, i, slots[n])) {
            warn(l, section, i, slots[n], "used only with scheduler preemptive; remove it");
        }
    }
    if (!knows_flows && (s->max_message_concurrency > 0 || s->scale_max_concurrency > 0)) {
        warn(l, section, i,
             s->max_message_concurrency > 0 ? "max_message_concurrency" : "scale_max_concurrency",
             "not used with scheduler round_robin; remove it");
    }
    if (!knows_flows && l->config->tenant_count > 0) {
        warn(l, section, i, "scheduler",
             "with round_robin destinations take turns whatever the class and the tenant of a "
             "message; use preemptive or fifo");
    }
}

static void check_sched(struct lint *l, size_t i)
{
    const enum config_section section = CONFIG_SECTION_TRANSPORT;
    const struct sched_config *s = &l->config->transports[i].sched;
    if (s->recipient_limit > s->message_recipient_limit &&
        (is_set(l, section, i, "recipient_limit") ||
         is_set(l, CONFIG_SECTION_GLOBAL, 0, "message_recipient_limit"))) {
        warn(
            l, section, i, "recipient_limit",
            "%d is more than message_recipient_limit (%d), so the pool is never full; lower it, or "
            "raise that one",
            s->recipient_limit, s->message_recipient_limit);
    }
    if (s->destination_concurrency_limit > s->process_limit &&
        is_set(l, section, i, "destination_concurrency_limit")) {
        warn(l, section, i, "destination_concurrency_limit",
             "%d is more than process_limit (%d), which ends before; raise that one",
             s->destination_concurrency_limit, s->process_limit);
    }
    if (s->destination_concurrency_limit > 0 &&
        s->initial_destination_concurrency > s->destination_concurrency_limit &&
        is_set(l, section, i, "initial_destination_concurrency")) {
        warn(l, section, i, "initial_destination_concurrency",
             "%d is more than destination_concurrency_limit (%d), which is used instead",
             s->initial_destination_concurrency, s->destination_concurrency_limit);
    }
    if (s->host_concurrency_limit > s->process_limit) {
        warn(l, section, i, "host_concurrency_limit",
             "%d is more than process_limit (%d), which ends before; lower it",
             s->host_concurrency_limit, s->process_limit);
    }
    if (s->recipient_refill_limit > s->recipient_limit && s->recipient_limit > 0) {
        warn(l, section, i, "recipient_refill_limit",
             "%d never fit into recipient_limit (%d), so that only recipient_refill_delay counts; "
             "lower it",
             s->recipient_refill_limit, s->recipient_limit);
    }
    if (s->destination_rate_delay > 0 && is_set(l, section, i, "destination_concurrency_limit") &&
        s->destination_concurrency_limit != 1) {
        warn(l, section, i, "destination_concurrency_limit",
             "with destination_rate_delay it is always 1; remove one of them");
    }
    if (s->connection_idle_limit > s->connection_age_limit) {
        warn(l, section, i, "smtp_connection_cache_time_limit",
             "it is longer than smtp_connection_reuse_time_limit, which ends before; lower it");
    }
}

static void check_times(struct lint *l)
{
    const enum config_section section = CONFIG_SECTION_GLOBAL;
    const struct config *c = l->config;
    if (c->delay_warning_time > 0 && c->delay_warning_time >= c->maximal_queue_lifetime) {
        warn(l, section, 0, "delay_warning_time",
             "mail is returned before it comes to that (maximal_queue_lifetime); write less");
    }
    if (c->queue_run_delay > c->maximal_backoff_time) {
        warn(l, section, 0, "queue_run_delay",
             "it is longer than maximal_backoff_time, so that this is the time between attempts; "
             "write less");
    }
}

/* RFC 5321 section 4.5.3.2: at least so much. */
static void check_timeouts(struct lint *l, size_t i)
{
    const struct config_smtp *s = &l->config->transports[i].smtp;
    const struct {
        const char *option;
        usec_t value;
        int minimum; /* seconds */
    } rows[] = {
        {"smtp_helo_timeout", s->smtp_helo_timeout, 300},
        {"smtp_mail_timeout", s->smtp_mail_timeout, 300},
        {"smtp_rcpt_timeout", s->smtp_rcpt_timeout, 300},
        {"smtp_data_init_timeout", s->smtp_data_init_timeout, 120},
        {"smtp_data_xfer_timeout", s->smtp_data_xfer_timeout, 180},
        {"smtp_data_done_timeout", s->smtp_data_done_timeout, 600},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        long long seconds = (long long)(rows[r].value / USEC_PER_SEC);
        if (seconds < rows[r].minimum || seconds > 3600) {
            warn(l, CONFIG_SECTION_TRANSPORT, i, rows[r].option,
                 seconds > 3600 ? "%llds holds a connection for more than an hour; RFC 5321 asks "
                                  "for %ds"
                                : "%llds is less than RFC 5321 asks for (%ds): slow servers get "
                                  "their mail twice, or not at all",
                 seconds, rows[r].minimum);
        }
    }
}

/* --- names and files -------------------------------------------------------------------------- */

static void check_name(struct lint *l, enum config_section section, size_t index,
                       const char *option, const char *name)
{
    if (name != NULL && name[0] != '[' && strchr(name, '.') == NULL) {
        warn(l, section, index, option,
             "\"%.80s\" is not fully qualified, and many receivers refuse it in EHLO; write a name "
             "with its domain",
             name);
    }
}

static void check_secret(struct lint *l, enum config_section section, size_t index,
                         const char *option)
{
    const struct config_option *o = config_option_find(section, option);
    const char *path = *(char *const *)config_section_value(l->config, section, o, index);
    struct stat s;
    if (path != NULL && stat(path, &s) == 0 && (s.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0) {
        warn(l, section, index, option, "%.300s: others can %s it (mode %04o); chmod 0640 or 0600",
             path, (s.st_mode & (S_IWOTH | S_IWGRP)) != 0 ? "change" : "read", s.st_mode & 07777);
    }
}

static void check_files(struct lint *l)
{
    static const struct {
        enum config_section section;
        const char *option;
    } secrets[] = {
        {CONFIG_SECTION_LISTENER, "tls_key"},
        {CONFIG_SECTION_LISTENER, "users"},
        {CONFIG_SECTION_HTTP, "tls_key"},
        {CONFIG_SECTION_HTTP, "tokens_file"},
        {CONFIG_SECTION_WEBHOOK, "secret_file"},
        {CONFIG_SECTION_SOURCE, "socks5_password_file"},
        {CONFIG_SECTION_TRANSPORT, "smtp_auth_password_file"},
        {CONFIG_SECTION_TRANSPORT, "smtp_tls_key_file"},
    };
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        size_t count = config_section_count(l->config, secrets[i].section);
        for (size_t n = 0; n < count; n++) {
            check_secret(l, secrets[i].section, n, secrets[i].option);
        }
    }
}

/* What a door without tokens answered before doors had rights. */
static void check_doors(struct lint *l)
{
    for (size_t i = 0; i < l->config->http_door_count; i++) {
        const struct config_http *h = &l->config->http_doors[i];
        if (h->tokens_file != NULL && h->trust_loopback) {
            warn(l, CONFIG_SECTION_HTTP, i, "trust_loopback",
                 "tokens_file asks everybody for a token, on loopback too, so that this does "
                 "nothing; remove one of the two");
        }
        if (h->tokens_file == NULL && !is_set(l, CONFIG_SECTION_HTTP, i, "trust_loopback")) {
            warn(l, CONFIG_SECTION_HTTP, i, "trust_loopback",
                 "without tokens_file this door is for looking and injecting only, and answers "
                 "orders, lanes, flush and reload with 403, which it did not before; write "
                 "trust_loopback = no if that is right, = yes for all as before, or tokens_file");
        }
    }
}

static void check_names(struct lint *l)
{
    const struct config *c = l->config;
    check_name(l, CONFIG_SECTION_GLOBAL, 0, "hostname", c->hostname);
    for (size_t i = 0; i < c->egress_source_count; i++) {
        check_name(l, CONFIG_SECTION_SOURCE, i, "helo_name", c->egress_sources[i].helo_name);
    }
    for (size_t i = 0; i < c->transport_count; i++) {
        if (is_set(l, CONFIG_SECTION_TRANSPORT, i, "smtp_helo_name")) {
            check_name(l, CONFIG_SECTION_TRANSPORT, i, "smtp_helo_name",
                       c->transports[i].smtp.smtp_helo_name);
        }
    }
}

/* --- receivers -------------------------------------------------------------------------------- */

static void check_providers(struct lint *l)
{
    for (size_t i = 0; i < l->config->provider_count; i++) {
        const struct config_receiver *p = &l->config->providers[i];
        if (p->mx.count == 0 && p->domains.count == 0) {
            warn(l, CONFIG_SECTION_PROVIDER, i, NULL,
                 "provider \"%s\" has neither mx nor domains, so nothing is its mail; write them, "
                 "or "
                 "remove it",
                 p->options.name);
        }
    }
}

/* An option of a provider: a rate, or a limit of which the smallest holds, may never count. */
static void check_rate(struct lint *l, const struct policy_table *t, size_t provider,
                       const struct config_option *o)
{
    const struct config *c = l->config;
    for (size_t i = 0; i < c->transport_count; i++) {
        const struct policy *p = policy_find(t, (uint32_t)i, provider, SLICE(""));
        if (policy_origin(t, p, o).section == CONFIG_SECTION_PROVIDER) {
            return;
        }
    }
    if (c->transport_count > 0) {
        warn(l, CONFIG_SECTION_PROVIDER, provider, o->name,
             "each transport has one that is no larger, and the smallest holds; remove one");
    }
}

static void check_domain(struct lint *l, const struct policy_table *t, const struct router *r,
                         size_t index)
{
    const enum config_section section = CONFIG_SECTION_DOMAIN;
    const struct config_receiver *d = &l->config->domains[index];
    char at[CONFIG_ORIGIN_BYTES];
    struct route_result way;
    if (d->set == 0) {
        warn(l, section, index, NULL, "domain \"%s\" says nothing; remove it", d->options.name);
    } else if (!router_route(r, slice_of(d->options.name), SLICE(""), &way)) {
        warn(l, section, index, NULL, "no route leads to domain \"%s\"; add one, or remove it",
             d->options.name);
    } else if (way.route->nexthop[0] != '\0') {
        (void)config_origin(l->config, CONFIG_SECTION_ROUTE,
                            (size_t)(way.route - l->config->routes), NULL, at);
        warn(l, section, index, NULL,
             "route \"%.80s\" (%s) sends the mail of domain \"%s\" to \"%.80s\", whose options are "
             "its transport's; write them there, or remove this",
             way.route->pattern, at, d->options.name, way.route->nexthop);
    } else {
        const struct policy *p = policy_find(t, (uint32_t)way.transport, policy_no_provider(t),
                                             slice_of(d->options.name));
        for (size_t i = 0; p != NULL && i < config_option_count; i++) {
            const struct config_option *o = &config_options[i];
            if (o->is_receivers && config_section_sets(l->config, section, index, o) &&
                policy_origin(t, p, o).section != section) {
                warn(l, section, index, o->name,
                     "transport \"%s\" has one that is no larger, and the smallest holds; remove "
                     "one",
                     l->config->transports[way.transport].name);
            }
        }
    }
}

/* Connections and calendars are the provider's: of a domain in it nothing counts them. */
static void check_bound(struct lint *l, size_t index)
{
    for (size_t i = 0; l->config->provider_count > 0 && i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        bool is_lost = o->type == CONFIG_TYPE_QUOTA || strcmp(o->name, "max_connection_rate") == 0;
        if (is_lost && o->is_lanes &&
            config_section_sets(l->config, CONFIG_SECTION_DOMAIN, index, o)) {
            warn(
                l, CONFIG_SECTION_DOMAIN, index, o->name,
                "where a provider has the domain, its mail is counted with the provider's, so that "
                "this holds only without one; write it in the provider, or max_message_rate here");
        }
    }
}

static void check_receivers(struct lint *l)
{
    const struct config *c = l->config;
    struct router *router = router_new(c);
    struct policy_table *table = NULL;
    check_providers(l);
    if (router != NULL && policy_table_new(c, &table) == 0) { /* else less is said */
        for (size_t i = 0; i < c->provider_count; i++) {
            for (size_t k = 0; k < config_option_count; k++) {
                const struct config_option *o = &config_options[k];
                if (o->is_receivers && config_section_sets(c, CONFIG_SECTION_PROVIDER, i, o)) {
                    check_rate(l, table, i, o);
                }
            }
        }
        for (size_t i = 0; i < c->domain_count; i++) {
            check_domain(l, table, router, i);
            check_bound(l, i);
        }
    }
    policy_table_free(table);
    router_free(router);
}

void config_lint(const struct config *c, const struct config_sink *sink)
{
    struct lint l = {.config = c, .sink = sink};
    check_use(&l);
    check_routes(&l);
    check_times(&l);
    for (size_t i = 0; i < c->transport_count; i++) {
        check_sched(&l, i);
        check_scheduler(&l, i);
        check_timeouts(&l, i);
    }
    check_receivers(&l);
    check_doors(&l);
    check_names(&l);
    check_files(&l);
}
