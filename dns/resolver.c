/* Destinations on their way from a next hop to a list of hosts: MX first, then A and AAAA of every
 * name at once, then (where wanted) the TLSA records of every host.
 * Called by a worker; asks through lookup, orders through mx.
 * Must not complete a resolution outside resolver_next().
 *
 * A resolution is in one of two lists: `active` while it waits for answers (all have the same
 * allowance, so the first one's deadline is the next), `done` until its result is pulled. */
#include "base/error.h"
#include "base/hash.h"
#include "dns/resolver_private.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a config brings, made before anything of it is used. hooks: NULL for a reader, which has no
 * lookup. errors: as resolver_new */
static int make_parts(const struct dns_config *config, struct dns_cache *cache,
                      const struct resolver_hooks *hooks, struct mx_own **ret_own,
                      struct lookup **ret_lookup)
{
    struct mx_own *own = calloc(config->own_count + 1, sizeof(*own));

    if (own == NULL) {
        return -ENOMEM;
    }
    if (config->own_count > 0) {
        memcpy(own, config->own, config->own_count * sizeof(*own));
    }
    *ret_lookup = NULL;
    int err = hooks == NULL ? 0 : lookup_new(config, cache, hooks, ret_lookup);
    if (err != 0) {
        free(own);
        return err;
    }
    *ret_own = own;
    return 0;
}

/* hooks: as make_parts. errors: as resolver_new */
static int new_resolver(const struct dns_config *config, struct dns_cache *cache,
                        const struct resolver_hooks *hooks, struct resolver **ret)
{
    struct resolver *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return -ENOMEM;
    }
    list_init(&r->active);
    list_init(&r->done);
    list_init(&r->leaving);
    r->cache = dns_cache_get(cache);
    r->config = *config;
    int err = make_parts(config, cache, hooks, &r->own, &r->lookup);
    if (err != 0) {
        resolver_free(r);
        return err;
    }
    *ret = r;
    return 0;
}

int resolver_new(const struct dns_config *config, struct dns_cache *cache,
                 const struct resolver_hooks *hooks, struct resolver **ret)
{
    int err = new_resolver(config, cache, hooks, ret);

    if (err == 0) {
        (*ret)->hooks = *hooks;
    }
    return err;
}

int resolver_new_reader(const struct dns_config *config, struct dns_cache *cache,
                        struct resolver **ret)
{
    return new_resolver(config, cache, NULL, ret);
}

int resolver_reconfigure(struct resolver *r, const struct dns_config *config,
                         struct dns_cache *cache)
{
    struct leaving_lookup *old = calloc(1, sizeof(*old));
    struct mx_own *own;
    struct lookup *lookup;

    if (old == NULL) {
        return -ENOMEM;
    }
    int err = make_parts(config, cache, r->lookup == NULL ? NULL : &r->hooks, &own, &lookup);
    if (err != 0) {
        free(old);
        return err;
    }
    list_init(&old->link);
    if (r->lookup != NULL) {
        old->lookup = r->lookup;
        list_push_back(&r->leaving, &old->link);
        r->lookup = lookup;
    } else {
        free(old);
    }
    dns_cache_get(cache);
    dns_cache_put(r->cache);
    r->cache = cache;
    r->config = *config;
    free(r->own);
    r->own = own;
    return 0;
}

static void end_leaving(struct resolver *r, struct leaving_lookup *old)
{
    struct lookup_counters counters;

    lookup_read_counters(old->lookup, &counters);
    r->past_queries += counters.queries;
    r->past_timeouts += counters.timeouts;
    list_remove(&old->link);
    lookup_free(old->lookup);
    free(old);
}

static void waiter_fini(struct lookup_waiter *waiter)
{
    lookup_forget(waiter);
    dns_rrset_put(waiter->set);
}

static void resolution_free(struct resolution *n)
{
    list_remove(&n->link);
    waiter_fini(&n->mx);
    waiter_fini(&n->txt);
    for (uint32_t i = 0; n->danes != NULL && i < n->host_count; i++) {
        waiter_fini(&n->danes[i].waiter);
    }
    for (uint32_t i = 0; n->waiters != NULL && i < n->host_count * 2; i++) {
        waiter_fini(&n->waiters[i]);
    }
    n->owner->active_count--;
    free(n->danes);
    free(n->waiters);
    free(n->hosts);
    free(n);
}

void resolver_free(struct resolver *r)
{
    if (r == NULL) {
        return;
    }
    list_foreach_safe(n, &r->active, struct resolution, link)
    {
        resolution_free(n);
    }
    list_foreach_safe(n, &r->done, struct resolution, link)
    {
        resolution_free(n);
    }
    list_foreach_safe(old, &r->leaving, struct leaving_lookup, link)
    {
        end_leaving(r, old);
    }
    lookup_free(r->lookup);
    dns_cache_put(r->cache);
    free(r->own);
    free(r);
}

static void resolution_done(struct resolution *n, enum finding finding)
{
    n->finding = finding;
    list_remove(&n->link);
    list_push_back(&n->owner->done, &n->link);
}

/* A reader's way to an answer. */
static bool read_cache(struct resolution *n, struct slice name, enum dns_type type,
                       struct lookup_waiter *waiter, usec_t now)
{
    const struct dns_rrset *known = dns_cache_peek(n->owner->cache, name, type, now);

    if (known == NULL) {
        return false;
    }
    waiter->set = dns_rrset_get(known);
    n->known++;
    return true;
}

/* returns: false when there is no answer and none will come */
static bool ask_lookup(struct resolution *n, struct slice name, enum dns_type type,
                       struct lookup_waiter *waiter, usec_t now)
{
    waiter->asker = n;
    if (n->owner->lookup == NULL) {
        return read_cache(n, name, type, waiter, now);
    }
    if (lookup_ask(n->owner->lookup, name, type, waiter, now) != 0) {
        return false;
    }
    n->pending += waiter->is_waiting;
    return true;
}

/* Take the answers that are there and ask what follows from them, of all hosts at once. */
static void go_on_with_dane(struct resolution *n, usec_t now)
{
    for (uint32_t h = 0; h < n->host_count; h++) {
        struct dane_lookup *d = &n->danes[h];
        struct dns_name name;
        enum dns_type type;
        for (;;) {
            if (d->is_asking) {
                d->is_asking = false;
                dane_answer(&d->dane, d->waiter.set);
            }
            if (!dane_next(&d->dane, &name, &type)) {
                break;
            }
            waiter_fini(&d->waiter);
            d->waiter = (struct lookup_waiter){.set = NULL};
            if (!ask_lookup(n, dns_name_slice(&name), type, &d->waiter, now)) {
                resolution_done(n, FINDING_NO_MEMORY);
                return;
            }
            d->is_asking = true;
            if (d->waiter.is_waiting) {
                break;
            }
        }
    }
    if (n->pending == 0) {
        resolution_done(n, FINDING_HOSTS);
    }
}

/* All addresses are answered. */
static void use_addresses(struct resolution *n, usec_t now)
{
    bool is_mx_authentic = n->mx.set == NULL || n->mx.set->is_authentic;

    if (!n->wants_dane || !is_mx_authentic) {
        resolution_done(n, FINDING_HOSTS);
        return;
    }
    n->danes = calloc(n->host_count, sizeof(*n->danes));
    if (n->danes == NULL) {
        resolution_done(n, FINDING_NO_MEMORY);
        return;
    }
    for (uint32_t h = 0; h < n->host_count; h++) {
        dane_begin(&n->danes[h].dane, n->hosts[h].name, n->hop.port, n->waiters[(size_t)h * 2].set,
                   n->waiters[(size_t)h * 2 + 1].set);
    }
    go_on_with_dane(n, now);
}

/* Ask for the addresses of n->hosts, all at once. */
static void ask_addresses(struct resolution *n, usec_t now)
{
    enum dns_families families = n->owner->config.families;

    n->waiters = calloc((size_t)n->host_count * 2, sizeof(*n->waiters));
    if (n->waiters == NULL) {
        resolution_done(n, FINDING_NO_MEMORY);
        return;
    }
    for (uint32_t h = 0; h < n->host_count; h++) {
        struct slice name = n->hosts[h].name;
        if ((families != DNS_FAMILIES_IPV6 &&
             !ask_lookup(n, name, DNS_TYPE_A, &n->waiters[(size_t)h * 2], now)) ||
            (families != DNS_FAMILIES_IPV4 &&
             !ask_lookup(n, name, DNS_TYPE_AAAA, &n->waiters[(size_t)h * 2 + 1], now))) {
            resolution_done(n, FINDING_NO_MEMORY);
            return;
        }
    }
    if (n->pending == 0) {
        use_addresses(n, now);
    }
}

/* The name itself is the only host: "[host]", or a domain without MX (RFC 5321 5.1). */
static void ask_name_itself(struct resolution *n, usec_t now)
{
    n->hosts = calloc(1, sizeof(*n->hosts));
    if (n->hosts == NULL) {
        resolution_done(n, FINDING_NO_MEMORY);
        return;
    }
    n->hosts[0].name = dns_name_slice(&n->hop.name);
    n->host_count = 1;
    ask_addresses(n, now);
}

/* Where there are more hosts than have room, next hops with the same MX records get the same ones, so
 * that they can use the same connections; other ones an hour later, so that all get their part. */
static void seed_choice(struct resolution *n, usec_t now)
{
    const struct dns_rrset *mx = n->mx.set;
    uint64_t seed = n->owner->config.seed ^ (uint64_t)(now / (3600 * USEC_PER_SEC));

    for (uint32_t i = 0; mx != NULL && i < mx->count; i++) {
        seed = hash_bytes(mx->mx[i].name.data, mx->mx[i].name.len, seed ^ mx->mx[i].preference);
    }
    n->random.state = seed;
}

static void ask_mx_hosts(struct resolution *n, usec_t now)
{
    struct mx_host hosts[MX_HOSTS_MAX];
    uint32_t count = 0;

    enum mx_verdict verdict = mx_select(n->mx.set, &n->random, hosts, &count, &n->best_preference);
    if (verdict != MX_OK) {
        resolution_done(n, verdict == MX_NULL ? FINDING_NULL_MX : FINDING_NO_NAME);
        return;
    }
    n->hosts = malloc(count * sizeof(*n->hosts));
    if (n->hosts == NULL) {
        resolution_done(n, FINDING_NO_MEMORY);
        return;
    }
    memcpy(n->hosts, hosts, count * sizeof(*hosts));
    n->host_count = count;
    ask_addresses(n, now);
}

/* Only "there are no MX records" leads to the name itself; other failures say nothing about it. */
static void use_mx_answer(struct resolution *n, usec_t now)
{
    if (n->mx.set == NULL) {
        resolution_done(n, FINDING_NO_MEMORY);
        return;
    }
    seed_choice(n, now);
    switch (n->mx.set->status) {
    case DNS_FOUND:
        ask_mx_hosts(n, now);
        break;
    case DNS_NODATA:
    case DNS_NXDOMAIN:
    case DNS_ALIAS_LOOP:
        ask_name_itself(n, now);
        break;
    case DNS_SERVFAIL:
    case DNS_TIMEOUT:
    case DNS_MALFORMED:
    case DNS_UNRECOVERABLE:
    case DNS_STATUS_COUNT:
        resolution_done(n, FINDING_NO_MX);
        break;
    }
}

/* Go on with a resolution one of whose waiters got its answer. */
static void resolution_answered(struct resolution *n, usec_t now)
{
    assert(n->pending > 0);
    n->pending--;
    if (n->pending > 0 || n->finding != FINDING_NONE) {
        return;
    }
    if (n->waiters == NULL) {
        use_mx_answer(n, now);
    } else if (n->danes == NULL) {
        use_addresses(n, now);
    } else {
        go_on_with_dane(n, now);
    }
}

/* What messages call the destination: its name, or what was given instead of one. */
static void set_label(struct resolution *n, struct slice nexthop)
{
    struct slice text = n->hop.name.len > 0 ? dns_name_slice(&n->hop.name) : nexthop;
    size_t len = text.len < DNS_NAME_MAX ? text.len : DNS_NAME_MAX;

    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)text.data[i];
        n->label[i] = (char)(b > ' ' && b < 0x7f ? b : '?');
    }
    n->label[len] = '\0';
}

/* A label that makes the name too long stands before nothing. */
static bool ask_txt(struct resolution *n, const char *label, usec_t now)
{
    char text[DNS_NAME_MAX + 64];
    struct dns_name name;

    int len = snprintf(text, sizeof(text), "%s.%s", label, n->hop.name.text);
    return len < 0 || (size_t)len >= sizeof(text) ||
           dns_name_from_text(slice_make(text, (size_t)len), &name) != 0 ||
           ask_lookup(n, dns_name_slice(&name), DNS_TYPE_TXT, &n->txt, now);
}

static void begin_lookups(struct resolution *n, const char *txt_label, usec_t now)
{
    if (n->hop.ip.family != 0) {
        resolution_done(n, FINDING_LITERAL);
    } else if (!n->hop.wants_mx) {
        ask_name_itself(n, now);
    } else if (!ask_lookup(n, dns_name_slice(&n->hop.name), DNS_TYPE_MX, &n->mx, now) ||
               (txt_label != NULL && !ask_txt(n, txt_label, now))) {
        resolution_done(n, FINDING_NO_MEMORY);
    } else if (n->pending == 0) {
        use_mx_answer(n, now);
    }
}

int resolver_start(struct resolver *r, struct slice nexthop, uint16_t default_port,
                   const struct resolver_wants *wants, void *user, usec_t now)
{
    struct resolution *n = calloc(1, sizeof(*n));

    if (n == NULL) {
        return -ENOMEM;
    }
    n->owner = r;
    n->user = user;
    n->deadline = now + r->config.deadline;
    r->active_count++;
    r->resolutions++;
    list_init(&n->link);
    list_push_back(&r->active, &n->link);
    int err = nexthop_parse(nexthop, default_port, &n->hop);
    set_label(n, nexthop);
    if (err != 0) {
        resolution_done(n, FINDING_BAD_NAME);
    } else {
        n->wants_dane = wants != NULL && wants->dane;
        begin_lookups(n, wants == NULL ? NULL : wants->txt_label, now);
    }
    return 0;
}

bool resolver_from_cache(struct resolver *r, struct slice nexthop, uint16_t default_port,
                         const struct resolver_wants *wants, struct dns_result *ret, usec_t now)
{
    assert(r->lookup == NULL);
    if (resolver_start(r, nexthop, default_port, wants, NULL, now) != 0) {
        return false;
    }
    struct resolution *n = list_first(&r->done, struct resolution, link); /* it waits for nobody */
    bool is_known = n->finding != FINDING_NO_MEMORY;
    if (is_known) {
        resolver_conclude(n, ret, now);
        ret->txt = n->txt.set;
        n->txt.set = NULL;
        dns_cache_count_hits(r->cache, n->known);
    }
    resolution_free(n);
    return is_known;
}

bool resolver_next(struct resolver *r, struct dns_result *ret, usec_t now)
{
    struct lookup_waiter *waiter;

    list_foreach_safe(old, &r->leaving, struct leaving_lookup, link)
    {
        while ((waiter = lookup_next(old->lookup, now)) != NULL) {
            resolution_answered(waiter->asker, now);
        }
        if (lookup_is_idle(old->lookup)) {
            end_leaving(r, old);
        }
    }
    while ((waiter = lookup_next(r->lookup, now)) != NULL) {
        resolution_answered(waiter->asker, now);
    }
    if (list_is_empty(&r->done)) {
        return false;
    }
    struct resolution *n = list_first(&r->done, struct resolution, link);
    resolver_conclude(n, ret, now);
    ret->txt = n->txt.set;
    n->txt.set = NULL;
    resolution_free(n);
    return true;
}

void resolver_fd_event(struct resolver *r, int fd, bool is_readable, bool is_writable, usec_t now)
{
    list_foreach_safe(old, &r->leaving, struct leaving_lookup, link)
    {
        lookup_fd_event(old->lookup, fd, is_readable, is_writable, now); /* or it is not its own */
    }
    lookup_fd_event(r->lookup, fd, is_readable, is_writable, now);
}

void resolver_tick(struct resolver *r, usec_t now)
{
    list_foreach_safe(old, &r->leaving, struct leaving_lookup, link)
    {
        lookup_tick(old->lookup, now);
    }
    lookup_tick(r->lookup, now);
    list_foreach_safe(n, &r->active, struct resolution, link)
    {
        if (n->deadline > now) {
            break;
        }
        resolution_done(n, FINDING_LATE);
    }
}

usec_t resolver_wake_at(const struct resolver *r)
{
    usec_t at = lookup_wake_at(r->lookup);

    list_foreach_safe(old, &r->leaving, struct leaving_lookup, link)
    {
        usec_t wake = lookup_is_idle(old->lookup) ? 0 : lookup_wake_at(old->lookup);
        at = wake < at ? wake : at;
    }
    if (!list_is_empty(&r->done)) {
        return 0;
    }
    if (!list_is_empty(&r->active)) {
        usec_t deadline = list_first(&r->active, struct resolution, link)->deadline;
        at = deadline < at ? deadline : at;
    }
    return at;
}

void resolver_read_counters(const struct resolver *r, struct resolver_counters *ret)
{
    struct lookup_counters counters;

    lookup_read_counters(r->lookup, &counters);
    *ret = (struct resolver_counters){
        .resolutions = r->resolutions,
        .queries = counters.queries + r->past_queries,
        .timeouts = counters.timeouts + r->past_timeouts,
        .active = r->active_count,
        .outstanding = counters.outstanding,
        .waiting = counters.waiting,
    };
    list_foreach_safe(old, &r->leaving, struct leaving_lookup, link)
    {
        lookup_read_counters(old->lookup, &counters);
        ret->queries += counters.queries;
        ret->timeouts += counters.timeouts;
        ret->outstanding += counters.outstanding;
        ret->waiting += counters.waiting;
    }
}

bool resolver_trusts_ad(const struct resolver *r)
{
    return lookup_trusts_ad(r->lookup);
}
