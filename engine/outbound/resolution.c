/* See the header. A resolution's user pointer in the resolver is the resolution itself; whether it
 * waits for its hosts or for the policy's host says `question`. */
#include "engine/outbound/resolution.h"

#include "base/error.h"
#include "base/log.h"
#include "dns/hosts.h"
#include "dns/nexthop.h"
#include "dns/resolver.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "engine/outbound/dns_setup.h"
#include "engine/outbound/outbound_tls.h"
#include "engine/outbound/resolution_reader.h"
#include "engine/outbound/sts_fetcher.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/worker/worker.h"
#include "net/mta_sts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Back to the scheduler. */
static void finish_resolution(struct worker *w, struct resolution *r)
{
    list_remove(&r->link);
    letter_put_resolved(&w->to_scheds[r->transport % w->engine->sched_count], r);
}

static void fail_soft(struct resolution *r, usec_t expires, const char *status, const char *text)
{
    dns_hosts_put(r->hosts);
    r->hosts = NULL;
    r->outcome = SCHED_RESOLVE_SOFT;
    r->expires = expires;
    (void)snprintf(r->reason.status, sizeof(r->reason.status), "%s", status);
    (void)snprintf(r->reason.text, sizeof(r->reason.text), "%s", text);
}

static enum config_tls_level wanted_tls_level(const struct engine *e, const struct resolution *r)
{
    const struct settings *s = settings_for(settings_of(e), r->transport);
    const struct policy *options =
        policy_of(s->policies, r->transport, slice_of(r->nexthop), SLICE(""));
    return options == NULL ? router_tls_level(s->router, r->transport, slice_of(r->nexthop))
                           : policy_tls_level(s->router, options, slice_of(r->nexthop));
}

/* --- MTA-STS ---------------------------------------------------------------------------------- */

static void send_question(struct worker *w, struct resolution *r, struct sts_question *q)
{
    r->question = NULL;
    letter_put_sts_question(w->to_sts, q);
}

static void set_id(struct sts_question *q, const struct dns_rrset *txt)
{
    struct slice id;
    if (txt != NULL && txt->status == DNS_FOUND && mta_sts_record(txt->txt, txt->count, &id) == 0) {
        memcpy(q->id, id.data, id.len); /* the rest is zero */
    }
}

/* Where the policy is given out: asked for as a host with brackets, that is without MX. */
static bool ask_policy_host(struct worker *w, struct resolution *r, const struct sts_question *q)
{
    char host[DNS_NAME_MAX + 32];
    (void)snprintf(host, sizeof(host), "[" MTA_STS_HOST_LABEL ".%s]", q->domain); /* it fits */
    return resolver_start(w->resolver, slice_of(host), 443, NULL, r, w->now) == 0;
}

/* Hosts are known: find out which of them the domain's policy allows. returns false when there is
 * nothing to find out. */
static bool begin_policy(struct worker *w, struct resolution *r, const struct dns_rrset *txt)
{
    struct nexthop hop;
    if (r->outcome != SCHED_RESOLVED || wanted_tls_level(w->engine, r) != CONFIG_TLS_MTA_STS ||
        nexthop_parse(slice_of(r->nexthop), 0, &hop) != 0 || !hop.wants_mx) {
        return false;
    }
    struct sts_question *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        fail_soft(r, w->now, "4.3.0", "out of memory");
        return false;
    }
    memcpy(q->domain, hop.name.text, sizeof(q->domain));
    q->worker = (uint16_t)w->index;
    q->transport = r->transport;
    q->resolution = r;
    set_id(q, txt);
    r->question = q;
    if (q->id[0] == '\0' || !ask_policy_host(w, r, q)) {
        send_question(w, r, q);
    }
    return true;
}

static void take_policy_host(struct worker *w, struct resolution *r,
                             const struct dns_result *result)
{
    struct sts_question *q = r->question;
    if (result->verdict == DNS_OK) {
        for (uint32_t i = 0; i < result->hosts->count && i < STS_ADDRESSES_MAX; i++) {
            q->addresses[q->address_count++] = result->hosts->list[i].ip;
        }
        dns_hosts_put(result->hosts);
    }
    send_question(w, r, q);
}

static void note_test(const struct sts_question *q, const struct dns_host *host)
{
    log_info("mta-sts: %s: host " SLICE_FMT " is not in the policy, which is in testing", q->domain,
             SLICE_ARG(host->name));
}

/* What does not bind is remembered with the hosts where somebody counts sessions. Without memory for
 * that they stay as they are. */
static void note_policy(const struct worker *w, struct resolution *r, const struct sts_question *q,
                        const bool *keep)
{
    bool outside[MX_TARGETS_MAX];
    bool is_testing = q->has_policy && q->policy.mode == MTA_STS_TESTING;
    if (!outbound_tls_is_counted(settings_of(w->engine)) ||
        (!is_testing && q->failure == TLS_FAILURE_NONE)) {
        return;
    }
    for (uint32_t i = 0; i < r->hosts->count; i++) {
        outside[i] = is_testing && !keep[i];
    }
    struct dns_hosts *noted = dns_hosts_try(
        r->hosts, is_testing ? slice_of(q->answer_id) : SLICE(""), (uint8_t)q->failure, outside);
    if (noted != NULL) {
        dns_hosts_put(r->hosts);
        r->hosts = noted;
    }
}

static void apply_policy(struct worker *w, struct resolution *r, const struct sts_question *q)
{
    bool keep[MX_TARGETS_MAX] = {false};
    uint32_t kept = 0;
    if (q->has_failed) {
        fail_soft(r, w->now, "4.3.0", "out of memory");
        return;
    }
    if (!q->has_policy || q->policy.mode == MTA_STS_NONE) {
        note_policy(w, r, q, keep);
        return;
    }
    for (uint32_t i = 0; i < r->hosts->count; i++) {
        keep[i] = mta_sts_policy_allows(&q->policy, r->hosts->list[i].name);
        kept += keep[i];
        if (!keep[i] && q->policy.mode == MTA_STS_TESTING) {
            note_test(q, &r->hosts->list[i]);
        }
    }
    if (q->policy.mode == MTA_STS_TESTING) {
        note_policy(w, r, q, keep);
        return;
    }
    if (kept == 0) {
        const struct tls_session session = {
            .domain = slice_of(q->domain),
            .basis = TLS_BASIS_STS,
            .policy_domain = slice_of(q->domain),
            .policy = slice_of(q->answer_id),
            .failure = TLS_FAILURE_VALIDATION,
            .reason = SLICE("no MX host is in the policy"),
        };
        outbound_tls_add(w, settings_of(w->engine), &session);
        char text[DNS_NAME_MAX + 64];
        (void)snprintf(text, sizeof(text), "No MX host of %s is in its MTA-STS policy", q->domain);
        fail_soft(r, w->now, "4.7.5", text);
        return;
    }
    struct dns_hosts *allowed = dns_hosts_restrict(r->hosts, keep, slice_of(q->answer_id));
    if (allowed == NULL) {
        fail_soft(r, w->now, "4.3.0", "out of memory");
        return;
    }
    dns_hosts_put(r->hosts);
    r->hosts = allowed;
}

void resolution_take_policy(struct worker *w, struct sts_question *q)
{
    struct resolution *r = q->resolution;
    apply_policy(w, r, q);
    sts_question_free(q);
    finish_resolution(w, r);
}

/* --- hosts ------------------------------------------------------------------------------------ */

/* The resolver asks for the addresses that any transport may use: what its own transport, or the
 * provider or domain, does not use goes here. */
static void keep_protocols(const struct engine *e, struct resolution *r, usec_t now)
{
    const struct settings *s = settings_for(settings_of(e), r->transport);
    const struct policy *p =
        policy_of(s->policies, r->transport, slice_of(r->nexthop), r->hosts->facts.names);
    const struct config_transport *of =
        p != NULL ? &p->options : &s->config->transports[r->transport];
    enum config_protocols wanted = of->smtp.inet_protocols;
    bool keep[MX_TARGETS_MAX] = {false};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->hosts->count; i++) {
        enum config_protocols other =
            r->hosts->list[i].ip.family == 6 ? CONFIG_PROTOCOLS_IPV4 : CONFIG_PROTOCOLS_IPV6;
        keep[i] = wanted != other;
        kept += keep[i];
    }
    if (kept == r->hosts->count) {
        return;
    }
    if (kept == 0) {
        fail_soft(r, now, "4.4.1", "none of its hosts has an address that inet_protocols allows");
        return;
    }
    struct dns_hosts *left = dns_hosts_restrict(r->hosts, keep, SLICE(""));
    if (left == NULL) {
        fail_soft(r, now, "4.3.0", "out of memory");
        return;
    }
    dns_hosts_put(r->hosts);
    r->hosts = left;
}

static void take_hosts(const struct engine *e, struct resolution *r,
                       const struct dns_result *result, usec_t now)
{
    if (result->verdict == DNS_OK) {
        r->outcome = SCHED_RESOLVED;
    } else {
        r->outcome = result->verdict == DNS_SOFT ? SCHED_RESOLVE_SOFT : SCHED_RESOLVE_HARD;
    }
    r->hosts = result->verdict == DNS_OK ? result->hosts : NULL;
    r->expires = result->expires;
    if (result->verdict != DNS_OK) {
        memcpy(r->reason.status, result->status, sizeof(r->reason.status));
        memcpy(r->reason.text, result->text, sizeof(r->reason.text));
    }
    if (r->hosts != NULL) {
        keep_protocols(e, r, now);
    }
}

void resolution_take_results(struct worker *w)
{
    struct dns_result result;
    while (resolver_next(w->resolver, &result, w->now)) {
        struct resolution *r = result.user;
        if (r->question != NULL) {
            take_policy_host(w, r, &result);
        } else {
            take_hosts(w->engine, r, &result, w->now);
            if (result.verdict != DNS_OK && result.has_bad_tlsa) {
                outbound_tls_count_bad_tlsa(w, slice_of(r->nexthop), result.text);
            }
            if (!begin_policy(w, r, result.txt)) {
                finish_resolution(w, r);
            }
        }
        dns_rrset_put(result.txt);
    }
}

void resolution_follow(struct worker *w)
{
    struct settings *now = settings_of(w->engine);
    if (now == w->resolver_settings) {
        return;
    }
    int err = dns_setup_follow(w->resolver, w->resolver_settings, now);
    if (err != 0) {
        log_error("worker %u: name servers stay as they were until the next reload: %s", w->index,
                  err_str(err));
    }
    settings_put(w->resolver_settings);
    w->resolver_settings = settings_get(now);
}

/* Where a next hop names none. */
static uint16_t port_of(const struct engine *e, const struct resolution *r)
{
    const struct settings *by = settings_for(settings_of(e), r->transport);
    return (uint16_t)by->config->transports[r->transport].smtp.smtp_tcp_port;
}

void resolution_start(struct worker *w, struct resolution *r)
{
    /* Read before the other settings: if a reload comes in between, the answer has the old
     * generation, and the scheduler asks again. */
    r->generation = settings_of(w->engine)->generations[r->transport];
    resolution_follow(w);
    enum config_tls_level level = wanted_tls_level(w->engine, r);
    const struct resolver_wants wants = {
        .dane = level == CONFIG_TLS_DANE,
        .txt_label = level == CONFIG_TLS_MTA_STS ? MTA_STS_LABEL : NULL,
    };
    list_init(&r->link);
    list_push_back(&w->resolving, &r->link);
    if (resolver_start(w->resolver, slice_of(r->nexthop), port_of(w->engine, r), &wants, r,
                       w->now) != 0) {
        fail_soft(r, w->now, "4.3.0", "out of memory");
        finish_resolution(w, r);
    }
}

/* --- what is known already -------------------------------------------------------------------- */

bool resolution_reader_follow(struct resolution_reader *d, struct settings *now)
{
    if (d->settings == now) {
        return true;
    }
    int err = d->resolver == NULL ? dns_setup_reader(now, &d->resolver)
                                  : dns_setup_follow(d->resolver, d->settings, now);
    if (err != 0) {
        return false; /* the workers, who are asked then, say why */
    }
    settings_put(d->settings);
    d->settings = settings_get(now);
    return true;
}

void resolution_reader_fini(struct resolution_reader *d)
{
    resolver_free(d->resolver);
    settings_put(d->settings);
    *d = (struct resolution_reader){.resolver = NULL};
}

bool resolution_reader_find(struct resolution_reader *d, const struct engine *e,
                            struct resolution *r, usec_t now)
{
    struct dns_result result;
    r->generation = settings_of(e)->generations[r->transport];
    enum config_tls_level level = wanted_tls_level(e, r);
    const struct resolver_wants wants = {.dane = level == CONFIG_TLS_DANE};
    if (level == CONFIG_TLS_MTA_STS || !resolution_reader_follow(d, settings_of(e)) ||
        !resolver_from_cache(d->resolver, slice_of(r->nexthop), port_of(e, r), &wants, &result,
                             now)) {
        return false;
    }
    take_hosts(e, r, &result, now);
    return true;
}

void resolution_free(struct resolution *r)
{
    list_remove(&r->link);
    sts_question_free(r->question);
    dns_hosts_put(r->hosts);
    free(r);
}
