/* Destinations on their way from a next hop to a list of hosts: MX first, then A and AAAA of every
 * name at once, then (where wanted) the TLSA records of every host.
 * Called by a worker; asks through lookup, orders through mx.
 * Must not complete a resolution outside resolver_next().
 *
 * A resolution is in one of two lists: `active` while it waits for answers (all have the same
 * allowance, so the first one's deadline is the next), `done` until its result is pulled. */
#include "dns/resolver.h"

#include "base/error.h"
#include "base/list.h"
#include "dns/dane.h"
#include "dns/lookup.h"
#include "dns/nexthop.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What has been found out about a resolution. */
enum finding {
    FINDING_NONE,     /* still asking */
    FINDING_BAD_NAME, /* the next hop is not one */
    FINDING_LITERAL,  /* an IP address, nothing to ask */
    FINDING_NO_MX,    /* the MX question failed for another reason than "there are none" */
    FINDING_NULL_MX,
    FINDING_NO_NAME, /* no MX record names a possible host */
    FINDING_HOSTS,   /* all addresses are answered: order them */
    FINDING_LATE,    /* deadline */
    FINDING_NO_MEMORY,
};

/* The TLSA lookup of one host. */
struct dane_lookup {
    struct dane dane;
    struct lookup_waiter waiter; /* its set: the answer asked for last */
    bool is_asking;
};

struct resolution {
    struct list link;
    struct resolver *owner;
    void *user;
    usec_t deadline;
    enum finding finding;
    struct nexthop hop;
    char label[DNS_NAME_MAX + 1]; /* printable name for messages */
    uint32_t pending;             /* answers awaited */
    struct lookup_waiter mx;
    uint16_t best_preference;
    uint32_t host_count;
    struct mx_host *hosts;         /* [host_count] */
    struct lookup_waiter *waiters; /* [host_count * 2]: A and AAAA of each */
    bool wants_dane;
    struct dane_lookup *danes; /* [host_count], once addresses are known and if wanted */
    struct lookup_waiter txt;  /* asked together with mx */
};

struct resolver {
    /* set at creation */
    struct lookup *lookup;
    struct dns_cache *cache;
    struct dns_config config; /* servers are not kept */
    struct mx_own *own;
    /* owner thread only */
    struct list active;
    struct list done;
    uint32_t active_count;
    uint64_t resolutions;
    struct mx_random random;
};

void dns_config_defaults(struct dns_config *ret)
{
    *ret = (struct dns_config){
        .query_timeout = 5 * USEC_PER_SEC,
        .query_tries = 3,
        .deadline = 60 * USEC_PER_SEC,
        .query_limit = 1000,
        .families = DNS_FAMILIES_ALL,
        .prefer = MX_FAMILY_ANY,
        .address_limit = 5,
    };
}

int resolver_new(const struct dns_config *config, struct dns_cache *cache,
                 const struct resolver_hooks *hooks, struct resolver **ret)
{
    struct resolver *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        return -ENOMEM;
    }
    list_init(&r->active);
    list_init(&r->done);
    r->cache = cache;
    r->config = *config;
    r->random.state = config->seed;
    int err = -ENOMEM;
    r->own = calloc(config->own_count + 1, sizeof(*r->own));
    if (r->own == NULL) {
        goto out;
    }
    if (config->own_count > 0) {
        memcpy(r->own, config->own, config->own_count * sizeof(*r->own));
    }
    err = lookup_new(config, cache, hooks, &r->lookup);
    if (err != 0) {
        goto out;
    }
    *ret = r;
    return 0;
out:
    resolver_free(r);
    return err;
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
    lookup_free(r->lookup);
    free(r->own);
    free(r);
}

static void resolution_done(struct resolution *n, enum finding finding)
{
    n->finding = finding;
    list_remove(&n->link);
    list_push_back(&n->owner->done, &n->link);
}

static bool ask(struct resolution *n, struct slice name, enum dns_type type,
                struct lookup_waiter *waiter, usec_t now)
{
    waiter->asker = n;
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
            if (!ask(n, dns_name_slice(&name), type, &d->waiter, now)) {
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
             !ask(n, name, DNS_TYPE_A, &n->waiters[(size_t)h * 2], now)) ||
            (families != DNS_FAMILIES_IPV4 &&
             !ask(n, name, DNS_TYPE_AAAA, &n->waiters[(size_t)h * 2 + 1], now))) {
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

static void ask_mx_hosts(struct resolution *n, usec_t now)
{
    struct mx_host hosts[MX_HOSTS_MAX];
    uint32_t count = 0;

    enum mx_verdict verdict =
        mx_select(n->mx.set, &n->owner->random, hosts, &count, &n->best_preference);
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

/* A waiter of this resolution got its answer. */
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
           ask(n, dns_name_slice(&name), DNS_TYPE_TXT, &n->txt, now);
}

static void begin(struct resolution *n, const char *txt_label, usec_t now)
{
    if (n->hop.ip.family != 0) {
        resolution_done(n, FINDING_LITERAL);
    } else if (!n->hop.wants_mx) {
        ask_name_itself(n, now);
    } else if (!ask(n, dns_name_slice(&n->hop.name), DNS_TYPE_MX, &n->mx, now) ||
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
        begin(n, wants == NULL ? NULL : wants->txt_label, now);
    }
    return 0;
}

static void fail(struct dns_result *ret, enum dns_verdict verdict, const char *status)
{
    ret->verdict = verdict;
    (void)snprintf(ret->status, sizeof(ret->status), "%s", status); /* all of them fit */
}

static usec_t retry_at(const struct resolution *n, enum dns_status status, usec_t now)
{
    return dns_cache_expiry(n->owner->cache, status, 0, now);
}

/* A question that failed.  source   scheduler-semantics of Postfix: 4.4.3, 5.4.3, 5.4.4 */
static void fail_question(const struct dns_rrset *set, struct dns_result *ret)
{
    if (dns_status_is_soft(set->status)) {
        fail(ret, DNS_SOFT, "4.4.3");
    } else {
        fail(ret, DNS_HARD, set->status == DNS_UNRECOVERABLE ? "5.4.3" : "5.4.4");
    }
    ret->expires = set->expires;
    if (set->status == DNS_ALIAS_LOOP) {
        (void)snprintf(ret->text, sizeof(ret->text), "Name server loop for " SLICE_FMT,
                       SLICE_ARG(set->name)); /* the name is bounded */
        return;
    }
    (void)snprintf(ret->text, sizeof(ret->text),
                   "Host or domain name not found. Name service error for name=" SLICE_FMT
                   " type=%s: %s",
                   SLICE_ARG(set->name), dns_type_text(set->type), dns_status_text(set->status));
}

/* The failure that explains best why there is no address: one for now before one for good, "no
 * such record" before "no such name". */
static const struct dns_rrset *worst_answer(const struct resolution *n)
{
    const struct dns_rrset *worst = NULL;

    for (uint32_t i = 0; i < n->host_count * 2; i++) {
        const struct dns_rrset *set = n->waiters[i].set;
        if (set == NULL || set->status == DNS_FOUND) {
            continue;
        }
        if (worst == NULL ||
            (dns_status_is_soft(set->status) && !dns_status_is_soft(worst->status))) {
            worst = set;
        }
    }
    return worst;
}

/* Every host that has an address has a TLSA lookup that failed: sending without it would be what an
 * attacker waits for (RFC 7672 2.1.1). */
static void fail_tlsa(const struct resolution *n, struct dns_result *ret, usec_t now)
{
    fail(ret, DNS_SOFT, "4.7.5");
    ret->expires = retry_at(n, DNS_SERVFAIL, now);
    (void)snprintf(ret->text, sizeof(ret->text), "TLSA lookup error for the mail hosts of %s",
                   n->label);
}

static void fail_order(const struct resolution *n, enum mx_verdict verdict, struct dns_result *ret,
                       usec_t now)
{
    const struct dns_rrset *worst = worst_answer(n);

    switch (verdict) {
    case MX_SOFT:
    case MX_NO_HOST:
        if (worst != NULL) {
            fail_question(worst, ret);
            break;
        }
        fail(ret, DNS_SOFT, "4.3.0");
        ret->expires = retry_at(n, DNS_SERVFAIL, now);
        (void)snprintf(ret->text, sizeof(ret->text), "no memory to resolve %s", n->label);
        break;
    case MX_LOOP:
        fail(ret, DNS_HARD, "5.4.6");
        ret->expires = retry_at(n, DNS_NODATA, now);
        (void)snprintf(ret->text, sizeof(ret->text), "mail for %s loops back to myself", n->label);
        break;
    case MX_NO_PRIMARY:
        fail(ret, DNS_SOFT, "4.4.4");
        ret->expires = retry_at(n, DNS_SERVFAIL, now);
        (void)snprintf(ret->text, sizeof(ret->text), "unable to find primary relay for %s",
                       n->label);
        break;
    case MX_OK:
    case MX_NULL:
    case MX_VERDICT_COUNT:
        assert(false);
        break;
    }
}

/* Give the hosts what was found for them; returns when the first of it expires, but not before the
 * least TTL from now: slow answers must not make a list that is stale at birth. */
static usec_t fill_hosts(struct resolution *n, usec_t now)
{
    usec_t earliest = dns_cache_expiry(n->owner->cache, DNS_FOUND, 0, now);
    usec_t expires = n->mx.set == NULL ? USEC_NEVER : n->mx.set->expires;

    if (n->txt.set != NULL && n->txt.set->expires < expires) {
        expires = n->txt.set->expires;
    }
    for (uint32_t i = 0; n->danes != NULL && i < n->host_count; i++) {
        const struct dns_rrset *tlsa = n->danes[i].waiter.set;
        expires = tlsa != NULL && tlsa->expires < expires ? tlsa->expires : expires;
    }

    for (uint32_t i = 0; i < n->host_count * 2; i++) {
        struct mx_host *host = &n->hosts[i / 2];
        const struct dns_rrset *set = n->waiters[i].set;
        if (set == NULL) {
            continue;
        }
        if (set->status == DNS_FOUND) {
            host->ips[i % 2] = set->ips;
            host->ip_counts[i % 2] = set->count;
            expires = set->expires < expires ? set->expires : expires;
        }
        host->has_soft_failure = host->has_soft_failure || dns_status_is_soft(set->status);
    }
    return expires < earliest ? earliest : expires;
}

static bool is_authentic(const struct resolution *n, const struct mx_target *target)
{
    const struct dns_rrset *set =
        n->waiters[(size_t)target->host * 2 + (target->ip.family == 6)].set;

    return set->is_authentic && (n->mx.set == NULL || n->mx.set->is_authentic);
}

static void succeed(struct resolution *n, const struct dns_host *list, uint32_t count,
                    usec_t expires, struct dns_result *ret, usec_t now)
{
    bool has_mx = n->mx.set != NULL && n->mx.set->status == DNS_FOUND;

    ret->hosts = dns_hosts_new(list, count, has_mx, expires);
    if (ret->hosts == NULL) {
        fail(ret, DNS_SOFT, "4.3.0");
        ret->expires = retry_at(n, DNS_SERVFAIL, now);
        (void)snprintf(ret->text, sizeof(ret->text), "no memory to resolve %s", n->label);
        return;
    }
    ret->verdict = DNS_OK;
    ret->expires = expires;
}

static void conclude_literal(struct resolution *n, struct dns_result *ret, usec_t now)
{
    char text[IP_TEXT_MAX];
    struct dns_host host = {
        .ip = n->hop.ip, .port = n->hop.port, .name = slice_of(ip_text(&n->hop.ip, text))};

    succeed(n, &host, 1, USEC_NEVER, ret, now);
}

static void conclude_hosts(struct resolution *n, struct dns_result *ret, usec_t now)
{
    const struct dns_config *config = &n->owner->config;
    const struct mx_policy policy = {
        .own = n->owner->own,
        .own_count = config->own_count,
        .port = n->hop.port,
        .has_scope_check = n->hop.wants_mx,
        .allow_loopback = config->allow_loopback,
        .family = config->prefer,
        .balance_limit = config->address_limit,
    };
    struct mx_target targets[MX_TARGETS_MAX];
    struct dns_host list[MX_TARGETS_MAX];
    uint32_t count = 0;

    usec_t expires = fill_hosts(n, now);
    enum mx_verdict verdict = mx_order(&policy, n->hosts, n->host_count, n->best_preference,
                                       &n->owner->random, targets, &count);
    if (verdict != MX_OK) {
        fail_order(n, verdict, ret, now);
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct dane_lookup *d = n->danes == NULL ? NULL : &n->danes[targets[i].host];
        enum dns_dane dane = d == NULL ? DNS_DANE_NONE : d->dane.result;
        if (dane == DNS_DANE_FAILED) {
            continue;
        }
        list[kept++] = (struct dns_host){
            .ip = targets[i].ip,
            .port = n->hop.port,
            .preference = targets[i].preference,
            .is_authentic = is_authentic(n, &targets[i]),
            .dane = dane,
            .tlsa = dane == DNS_DANE_NONE ? NULL : d->waiter.set,
            .name = n->hosts[targets[i].host].name,
        };
    }
    if (kept == 0) {
        fail_tlsa(n, ret, now);
        return;
    }
    succeed(n, list, kept, expires, ret, now);
}

static void conclude(struct resolution *n, struct dns_result *ret, usec_t now)
{
    *ret = (struct dns_result){.user = n->user};
    switch (n->finding) {
    case FINDING_LITERAL:
        conclude_literal(n, ret, now);
        break;
    case FINDING_HOSTS:
        conclude_hosts(n, ret, now);
        break;
    case FINDING_NO_MX:
        fail_question(n->mx.set, ret);
        break;
    case FINDING_BAD_NAME:
        fail(ret, DNS_HARD, "5.1.2");
        ret->expires = retry_at(n, DNS_NXDOMAIN, now);
        (void)snprintf(ret->text, sizeof(ret->text), "Bad destination system address: %s",
                       n->label);
        break;
    case FINDING_NULL_MX:
        fail(ret, DNS_HARD, "5.1.10");
        ret->expires = n->mx.set->expires;
        (void)snprintf(ret->text, sizeof(ret->text), "Domain %s does not accept mail (nullMX)",
                       n->label);
        break;
    case FINDING_NO_NAME:
        fail(ret, DNS_HARD, "5.4.4");
        ret->expires = n->mx.set->expires;
        (void)snprintf(ret->text, sizeof(ret->text),
                       "Host or domain name not found. Name service error for name=%s type=MX: "
                       "Malformed or unexpected name server reply",
                       n->label);
        break;
    case FINDING_LATE:
        fail(ret, DNS_SOFT, "4.4.3");
        ret->expires = retry_at(n, DNS_TIMEOUT, now);
        (void)snprintf(ret->text, sizeof(ret->text),
                       "Host or domain name not found. Name service error for name=%s type=%s: %s",
                       n->label, n->waiters == NULL ? "MX" : "A", dns_status_text(DNS_TIMEOUT));
        break;
    case FINDING_NONE:
    case FINDING_NO_MEMORY:
        fail(ret, DNS_SOFT, "4.3.0");
        ret->expires = retry_at(n, DNS_SERVFAIL, now);
        (void)snprintf(ret->text, sizeof(ret->text), "no memory to resolve %s", n->label);
        break;
    }
}

bool resolver_next(struct resolver *r, struct dns_result *ret, usec_t now)
{
    struct lookup_waiter *waiter;

    while ((waiter = lookup_next(r->lookup, now)) != NULL) {
        resolution_answered(waiter->asker, now);
    }
    if (list_is_empty(&r->done)) {
        return false;
    }
    struct resolution *n = list_first(&r->done, struct resolution, link);
    conclude(n, ret, now);
    ret->txt = n->txt.set;
    n->txt.set = NULL;
    resolution_free(n);
    return true;
}

void resolver_fd_event(struct resolver *r, int fd, bool is_readable, bool is_writable, usec_t now)
{
    lookup_fd_event(r->lookup, fd, is_readable, is_writable, now);
}

void resolver_tick(struct resolver *r, usec_t now)
{
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
        .queries = counters.queries,
        .timeouts = counters.timeouts,
        .active = r->active_count,
        .outstanding = counters.outstanding,
        .waiting = counters.waiting,
    };
}

bool resolver_trusts_ad(const struct resolver *r)
{
    return lookup_trusts_ad(r->lookup);
}
