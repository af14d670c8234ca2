/* From the answers of a resolution to its result: the hosts in order, or a failure worded as
 * Postfix words it. Called by resolver_next() when nothing is awaited any more. Must not ask
 * anything. */
#include "dns/resolver_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void fail_result(struct dns_result *ret, enum dns_verdict verdict, const char *status)
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
        fail_result(ret, DNS_SOFT, "4.4.3");
    } else {
        fail_result(ret, DNS_HARD, set->status == DNS_UNRECOVERABLE ? "5.4.3" : "5.4.4");
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
    fail_result(ret, DNS_SOFT, "4.7.5");
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
        fail_result(ret, DNS_SOFT, "4.3.0");
        ret->expires = retry_at(n, DNS_SERVFAIL, now);
        (void)snprintf(ret->text, sizeof(ret->text), "no memory to resolve %s", n->label);
        break;
    case MX_LOOP:
        fail_result(ret, DNS_HARD, "5.4.6");
        ret->expires = retry_at(n, DNS_NODATA, now);
        (void)snprintf(ret->text, sizeof(ret->text), "mail for %s loops back to myself", n->label);
        break;
    case MX_NO_PRIMARY:
        fail_result(ret, DNS_SOFT, "4.4.4");
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
    char names[MX_NAMES_MAX];
    struct dns_hosts_facts facts = {.has_mx = n->mx.set != NULL && n->mx.set->status == DNS_FOUND,
                                    .expires = expires};

    if (facts.has_mx) {
        facts.names = slice_make(names, mx_names(n->mx.set, names, &facts.best_len));
    } else {
        facts.names = list[0].name;
        facts.best_len = (uint32_t)facts.names.len;
    }
    ret->hosts = dns_hosts_new(list, count, &facts);
    if (ret->hosts == NULL) {
        fail_result(ret, DNS_SOFT, "4.3.0");
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

static int rank_of_family(const struct dns_host *host, enum mx_family_preference prefer)
{
    return (prefer == MX_FAMILY_IPV6) != (host->ip.family == 6);
}

static bool goes_before(const struct dns_host *a, const struct dns_host *b,
                        enum mx_family_preference prefer)
{
    if (a->preference != b->preference) {
        return a->preference < b->preference;
    }
    if (a->ip.family != b->ip.family) {
        return rank_of_family(a, prefer) < rank_of_family(b, prefer);
    }
    int order = memcmp(a->ip.bytes, b->ip.bytes, sizeof(a->ip.bytes));
    size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    if (order == 0) {
        order = memcmp(a->name.data, b->name.data, len);
    }
    return order < 0 || (order == 0 && a->name.len < b->name.len);
}

/* Insertion sort: at most MX_TARGETS_MAX. Which of equal hosts gets a connection is for the scheduler
 * to choose; here next hops that have the same hosts get the same list. */
static void arrange(struct dns_host *list, uint32_t count, enum mx_family_preference prefer)
{
    for (uint32_t i = 1; i < count; i++) {
        struct dns_host item = list[i];
        uint32_t at = i;
        for (; at > 0 && goes_before(&item, &list[at - 1], prefer); at--) {
            list[at] = list[at - 1];
        }
        list[at] = item;
    }
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
    const struct mx_hosts hosts = {n->hosts, n->host_count, n->best_preference};
    enum mx_verdict verdict = mx_order(&policy, &hosts, &n->random, targets, &count);
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
        ret->has_bad_tlsa = true;
        return;
    }
    arrange(list, kept, config->prefer);
    succeed(n, list, kept, expires, ret, now);
}

void resolver_conclude(struct resolution *n, struct dns_result *ret, usec_t now)
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
        fail_result(ret, DNS_HARD, "5.1.2");
        ret->expires = retry_at(n, DNS_NXDOMAIN, now);
        (void)snprintf(ret->text, sizeof(ret->text), "Bad destination system address: %s",
                       n->label);
        break;
    case FINDING_NULL_MX:
        fail_result(ret, DNS_HARD, "5.1.10");
        ret->expires = n->mx.set->expires;
        (void)snprintf(ret->text, sizeof(ret->text), "Domain %s does not accept mail (nullMX)",
                       n->label);
        break;
    case FINDING_NO_NAME:
        fail_result(ret, DNS_HARD, "5.4.4");
        ret->expires = n->mx.set->expires;
        (void)snprintf(ret->text, sizeof(ret->text),
                       "Host or domain name not found. Name service error for name=%s type=MX: "
                       "Malformed or unexpected name server reply",
                       n->label);
        break;
    case FINDING_LATE:
        fail_result(ret, DNS_SOFT, "4.4.3");
        ret->expires = retry_at(n, DNS_TIMEOUT, now);
        (void)snprintf(ret->text, sizeof(ret->text),
                       "Host or domain name not found. Name service error for name=%s type=%s: %s",
                       n->label, n->waiters == NULL ? "MX" : "A", dns_status_text(DNS_TIMEOUT));
        break;
    case FINDING_NONE:
    case FINDING_NO_MEMORY:
        fail_result(ret, DNS_SOFT, "4.3.0");
        ret->expires = retry_at(n, DNS_SERVFAIL, now);
        (void)snprintf(ret->text, sizeof(ret->text), "no memory to resolve %s", n->label);
        break;
    }
}
