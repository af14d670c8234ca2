/* See the header. */
#include "engine/schedule/receiver.h"

#include "base/hash.h"
#include "dns/hosts.h"
#include "dns/nexthop.h"
#include "dns/rrset.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/outbound/tls_policy.h"
#include "engine/state/settings.h"

#include <stdio.h>
#include <string.h>

enum { DANE_TA = 2 }; /* RFC 7218: the usage that a name is judged by as well */

/* --- the site --------------------------------------------------------------------------------- */

static void add(struct receiver *r, struct slice text)
{
    if (r->site_len + text.len <= sizeof(r->site)) {
        memcpy(r->site + r->site_len, text.data, text.len);
        r->site_len += text.len;
    }
}

static void set_site(struct receiver *r, struct slice before, struct slice text)
{
    r->site_len = 0;
    if (text.len > 0 && before.len + text.len <= sizeof(r->site)) {
        add(r, before);
        add(r, text);
    }
}

static void find_site(const struct receiver_question *q, struct receiver *r)
{
    struct nexthop hop;
    char port[sizeof(":65535")];
    if (!q->settings->config->transports[q->transport].site_rollup) {
        set_site(r, SLICE("domain:"), q->destination);
        return;
    }
    if (nexthop_parse(q->nexthop, 0, &hop) != 0 || !hop.wants_mx) {
        set_site(r, SLICE(""), q->nexthop);
        return;
    }
    set_site(r, SLICE(""), dns_hosts_best(q->hosts));
    if (r->site_len > 0 && hop.port != 0) {
        int len = snprintf(port, sizeof(port), ":%u", (unsigned)hop.port);
        add(r, slice_of_printed(port, sizeof(port), len));
    }
    if (r->site_len == 0) { /* more names than a site has room for */
        set_site(r, SLICE("domain:"), q->destination);
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
    const struct config_smtp *smtp = &s->config->transports[q->transport].smtp;
    enum config_tls_level wanted = router_tls_level(s->router, q->transport, q->nexthop);
    const uint8_t has_policy = q->hosts->policy.len > 0;
    uint64_t hash = hash_of(seed, &has_policy, sizeof(has_policy));
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

void receiver_find(const struct receiver_question *q, uint64_t seed, struct receiver *ret,
                   struct sched_server *ret_servers)
{
    find_site(q, ret);
    number_all(q, seed, ret, ret_servers);
}
