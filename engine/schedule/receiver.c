/* See the header. */
#include "engine/schedule/receiver.h"

#include "base/hash.h"
#include "base/history.h"
#include "base/log.h"
#include "dns/hosts.h"
#include "dns/nexthop.h"
#include "dns/rrset.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/outbound/tls_policy.h"
#include "engine/post/delivery.h"
#include "engine/state/settings.h"

#include <stdio.h>
#include <string.h>

enum { DANE_TA = 2 }; /* RFC 7218: the usage that a name is judged by as well */

/* --- the site --------------------------------------------------------------------------------- */

/* Puts the texts one behind the other; without room for all of them there is no site. */
static void set_site(struct receiver *r, struct slice a, struct slice b, struct slice c)
{
    r->site_len = 0;
    if (a.len + b.len + c.len <= sizeof(r->site)) {
        memcpy(r->site, a.data, a.len);
        memcpy(r->site + a.len, b.data, b.len);
        memcpy(r->site + a.len + b.len, c.data, c.len);
        r->site_len = a.len + b.len + c.len;
    }
}

static void set_own(const struct receiver_question *q, struct receiver *r)
{
    set_site(r, SLICE("domain:"), q->destination, SLICE(""));
}

/* Of several sets of hosts that a provider's domains have, each has learned its own. */
static void set_provider(const struct receiver_question *q, struct receiver *r)
{
    const struct policy *p = r->options;
    struct slice name = slice_of(p->provider_section->options.name);
    char text[80]; /* config_check_name limits the name to 64 */
    if (policy_is_by_domains(q->settings->policies, p->provider)) {
        int len = snprintf(text, sizeof(text), SLICE_FMT "/", SLICE_ARG(name));
        name = slice_of_printed(text, sizeof(text), len);
        set_site(r, SLICE("provider:"), name, dns_hosts_best(q->hosts));
    } else {
        set_site(r, SLICE("provider:"), name, SLICE(""));
    }
}

static void set_hosts(const struct receiver_question *q, uint16_t port, struct receiver *r)
{
    char text[sizeof(":65535")];
    int len = port == 0 ? 0 : snprintf(text, sizeof(text), ":%u", (unsigned)port);
    set_site(r, SLICE(""), dns_hosts_best(q->hosts), slice_of_printed(text, sizeof(text), len));
}

static void find_site(const struct receiver_question *q, struct receiver *r)
{
    uint16_t port = 0;
    const struct policy *p = r->options;
    bool is_apart = !q->settings->config->transports[q->transport].site_rollup;
    bool is_joined = p != NULL && p->provider_section != NULL;
    bool has_mx = nexthop_wants_mx(q->nexthop, &port); /* it has hosts: the name is one */
    if (is_apart || (q->stands_apart && !is_joined) || (p != NULL && p->has_own_site)) {
        set_own(q, r);
    } else if (!has_mx) {
        set_site(r, SLICE(""), q->nexthop, SLICE(""));
    } else if (q->hosts->facts.names.len == 0) { /* they are too many */
        set_own(q, r);
    } else if (p != NULL && p->provider_section != NULL) {
        set_provider(q, r);
    } else {
        set_hosts(q, port, r);
    }
    if (r->site_len == 0) {
        set_own(q, r);
    }
}

/* --- what TLS has to prove -------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t hash, const void *data, size_t len)
{
    return hash_bytes(data, len, hash);
}

/* Its certificate may be for the destination instead of the host (tls_policy_connection). */
static bool is_judged_by_nexthop(const struct dns_host *h)
{
    for (uint32_t i = 0; i < h->tlsa->count; i++) {
        if (h->tlsa->tlsa[i].usage == DANE_TA) {
            return true;
        }
    }
    return false;
}

static uint64_t hash_tlsa(const struct dns_rrset *tlsa, uint64_t hash)
{
    struct slice base = dane_base(tlsa);
    hash = hash_of(hash, base.data, base.len);
    for (uint32_t i = 0; i < tlsa->count; i++) {
        const struct dns_tlsa *t = &tlsa->tlsa[i];
        const uint8_t head[] = {t->usage, t->selector, t->matching};
        hash = hash_of(hash, head, sizeof(head));
        hash = hash_of(hash, t->data.data, t->data.len);
    }
    return hash;
}

static uint32_t host_number(const struct dns_host *h, enum tls_level level, uint64_t seed)
{
    uint64_t hash = hash_of(seed, h->name.data, h->name.len);
    return (uint32_t)(level == TLS_LEVEL_DANE ? hash_tlsa(h->tlsa, hash) : hash);
}

/* Each host's own level counts: of two destinations that have the same hosts one may know that their
 * records were validated, and the other not. */
static void number_all(const struct receiver_question *q, uint64_t seed, struct receiver *ret,
                       struct sched_server *ret_servers)
{
    const struct settings *s = q->settings;
    const struct policy *p = ret->options;
    const struct config_smtp *smtp = &s->config->transports[q->transport].smtp;
    enum config_tls_level wanted =
        p == NULL ? smtp->smtp_tls_security_level : policy_tls_level(s->router, p, q->nexthop);
    const uint8_t has_policy = q->hosts->policy.len > 0;
    uint64_t hash = hash_of(seed, &has_policy, sizeof(has_policy));
    if (p == NULL || p->domain_section != NULL) { /* its sessions have options of their own */
        hash = hash_of(hash, q->destination.data, q->destination.len);
    }
    for (uint32_t i = 0; i < q->hosts->count; i++) {
        const struct dns_host *h = &q->hosts->list[i];
        enum tls_level level = tls_policy_level(smtp, wanted, q->hosts, i);
        const uint8_t byte = (uint8_t)level;
        hash = hash_of(hash, &byte, sizeof(byte));
        if (level == TLS_LEVEL_DANE && is_judged_by_nexthop(h)) {
            hash = hash_of(hash, q->nexthop.data, q->nexthop.len);
        }
        ret_servers[i].name = host_number(h, level, seed);
    }
    ret->tls = (uint32_t)hash;
}

/* What its provider and domain say of its deliveries and connections. */
static void find_terms(struct receiver *r)
{
    const struct policy *p = r->options;
    r->has_terms = p != NULL && (p->provider_section != NULL || p->domain_section != NULL);
    if (r->has_terms) {
        const struct sched_config *c = &p->options.sched;
        r->terms = (struct sched_terms){
            .recipient_limit = c->destination_recipient_limit,
            .most_in_flight = p->most_in_flight,
            .rate_delay = c->destination_rate_delay,
            .connection_idle_limit = c->connection_idle_limit,
            .connection_age_limit = c->connection_age_limit,
            .connection_reuse_limit = c->connection_reuse_limit,
            .messages = p->bounds.messages,
            .recipients = p->bounds.recipients,
            .quota = p->bounds.quota,
        };
    }
}

void receiver_find(const struct receiver_question *q, uint64_t seed, struct receiver *ret,
                   struct sched_server *ret_servers)
{
    ret->options =
        policy_of(q->settings->policies, q->transport, q->nexthop, q->hosts->facts.names);
    find_site(q, ret);
    find_terms(ret);
    number_all(q, seed, ret, ret_servers);
}

/* --- answers ---------------------------------------------------------------------------------- */

void receiver_of(const struct settings *by, const struct resolution *r, bool stands_apart,
                 uint64_t seed, struct receiver *ret, struct sched_server *ret_servers)
{
    const struct receiver_question q = {
        .settings = by,
        .transport = r->transport,
        .destination = sched_destination_name(r->destination),
        .nexthop = sched_destination_nexthop(r->destination),
        .hosts = r->hosts,
        .stands_apart = stands_apart,
    };
    receiver_find(&q, seed, ret, ret_servers);
}

void receiver_note(struct history *places, const struct resolution *r,
                   const struct receiver *receiver)
{
    struct receiver_place place = {.transport = r->transport};
    struct slice name = sched_destination_name(r->destination);
    size_t len = name.len < sizeof(place.destination) ? name.len : sizeof(place.destination) - 1;
    if (receiver->site_len < sizeof(place.site)) {
        memcpy(place.destination, name.data, len);
        memcpy(place.site, receiver->site, receiver->site_len);
        history_put(places, &place);
    }
}

/* --- windows of sites ------------------------------------------------------------------------- */

static void configure(struct sched *s, struct slice site, const struct policy *p, usec_t now)
{
    bool has_own = p != NULL && (p->provider_section != NULL || p->has_own_site);
    if (!sched_site_configure(s, site, has_own ? &p->site->options.sched : NULL, now)) {
        log_error("out of memory: the site " SLICE_FMT " has the windows of its transport",
                  SLICE_ARG(site));
    }
}

void receiver_configure(struct sched *s, const struct receiver *r, usec_t now)
{
    const struct policy *p = r->options;
    if (p != NULL && (p->provider_section != NULL || p->has_own_site)) {
        configure(s, slice_make(r->site, r->site_len), p, now);
    }
}

/* The text behind the mark. */
static bool has_mark(struct slice site, struct slice mark, struct slice *ret)
{
    if (site.len <= mark.len || memcmp(site.data, mark.data, mark.len) != 0) {
        return false;
    }
    *ret = slice_from(site, mark.len);
    return true;
}

bool receiver_is_by_hosts(struct slice site)
{
    struct slice rest;
    return site.len > 0 && !has_mark(site, SLICE("provider:"), &rest) &&
           !has_mark(site, SLICE("domain:"), &rest);
}

void receiver_limits(struct slice site, struct slice *ret_name, struct slice *ret_hosts)
{
    struct slice provider;
    *ret_name = site;
    *ret_hosts = SLICE("");
    if (has_mark(site, SLICE("provider:"), &provider)) {
        size_t at = site.len - provider.len + slice_find(provider, '/');
        *ret_name = slice_to(site, at);
        *ret_hosts = at < site.len ? slice_from(site, at + 1) : SLICE("");
    }
}

size_t receiver_provider(const struct config *c, struct slice site)
{
    struct slice name;
    size_t i = 0;
    if (!has_mark(site, SLICE("provider:"), &name)) {
        return c->provider_count;
    }
    name = slice_to(name, slice_find(name, '/'));
    while (i < c->provider_count && !slice_eq(slice_of(c->providers[i].options.name), name)) {
        i++;
    }
    return i;
}

/* NULL: none but the transport's. */
static const struct policy *policy_of_site(const struct settings *by, uint32_t transport,
                                           struct slice site)
{
    struct slice name;
    if (has_mark(site, SLICE("domain:"), &name)) {
        return policy_find(by->policies, transport, policy_no_provider(by->policies), name);
    }
    size_t provider = receiver_provider(by->config, site);
    return provider == by->config->provider_count
               ? NULL
               : policy_find(by->policies, transport, provider, SLICE(""));
}

const struct policy *receiver_policy(const struct settings *by, uint32_t transport,
                                     struct slice site)
{
    const struct policy *p = policy_of_site(by, transport, site);
    if (p == NULL) {
        p = policy_find(by->policies, transport, policy_no_provider(by->policies), SLICE(""));
    }
    return p == NULL ? NULL : p->site;
}

void receiver_configure_all(struct sched *s, const struct settings *by, uint32_t transport,
                            usec_t now)
{
    struct sched_site_view v;
    uint64_t cursor = 0;
    while (sched_view_sites(s, &cursor, &v)) {
        configure(s, v.key, policy_of_site(by, transport, v.key), now);
    }
}
