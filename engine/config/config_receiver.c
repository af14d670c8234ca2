/* Owns the rules about what each receiver and source gets: providers, domains and warm-up. Called by
 * config_check.c, when pools and transports are known; must not know who keeps a rate. */
#include "base/error.h"
#include "dns/nexthop.h"
#include "engine/config/config_load.h"
#include "engine/config/config_section.h"
#include "engine/config/label.h"
#include "engine/config/provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- options of both -------------------------------------------------------------------------- */

static bool sets(const struct config_receiver *r, const char *option)
{
    const struct config_option *o = config_option_find(CONFIG_SECTION_TRANSPORT, option);
    return (r->set >> config_option_receiver_bit(o) & 1) != 0;
}

/* Whether the feedback of this section may come to be read under the rule: its own, else that of a
 * section which is wider. */
static bool meets_rule(const struct config *c, const struct config_receiver *r, bool is_domain,
                       enum sched_feedback_rule rule)
{
    static const char *const option = "concurrency_feedback_rule";
    if (sets(r, option)) {
        return r->options.sched.concurrency_feedback_rule == rule;
    }
    for (size_t i = 0; i < c->transport_count; i++) {
        if (c->transports[i].sched.concurrency_feedback_rule == rule) {
            return true;
        }
    }
    for (size_t i = 0; is_domain && i < c->provider_count; i++) {
        if (sets(&c->providers[i], option) &&
            c->providers[i].options.sched.concurrency_feedback_rule == rule) {
            return true;
        }
    }
    return false;
}

static void check_feedback(struct config_loader *l, const struct config *c,
                           enum config_section section, size_t index, const char *option,
                           const char *text)
{
    static const enum sched_feedback_rule rules[] = {SCHED_RULE_README, SCHED_RULE_POSTFIX3};
    const struct config_receiver *r = config_section_at(c, section, index);
    struct sched_feedback parsed;
    for (size_t i = 0; text != NULL && i < sizeof(rules) / sizeof(rules[0]); i++) {
        bool is_domain = section == CONFIG_SECTION_DOMAIN;
        if (meets_rule(c, r, is_domain, rules[i]) &&
            sched_feedback_parse(text, rules[i], &parsed) < 0) {
            config_complain(
                l, config_place_of(l, section, index, option), option,
                "\"%.60s\" is not a feedback of 0 to 1; write NUMBER, NUMBER/NUMBER%s", text,
                rules[i] == SCHED_RULE_README ? ", NUMBER/concurrency or NUMBER/sqrt_concurrency"
                                              : " or NUMBER/concurrency, as the rule is postfix3");
            return;
        }
    }
}

static void check_options(struct config_loader *l, const struct config *c,
                          enum config_section section, size_t index)
{
    const struct config_receiver *r = config_section_at(c, section, index);
    check_feedback(l, c, section, index, "destination_concurrency_positive_feedback",
                   r->options.positive_feedback);
    check_feedback(l, c, section, index, "destination_concurrency_negative_feedback",
                   r->options.negative_feedback);
}

/* --- providers -------------------------------------------------------------------------------- */

static void check_provider(struct config_loader *l, const struct config *c, size_t index)
{
    static const char *const option = "smtp_tls_security_level";
    const struct config_receiver *p = &c->providers[index];
    enum config_tls_level level = p->options.smtp.smtp_tls_security_level;
    config_check_name(l, CONFIG_SECTION_PROVIDER, index, p->options.name);
    check_options(l, c, CONFIG_SECTION_PROVIDER, index);
    if (sets(p, option) && (level == CONFIG_TLS_DANE || level == CONFIG_TLS_MTA_STS)) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_PROVIDER, index, option), option,
                        "\"%s\" is asked for before the hosts, and so the provider, are known; "
                        "write it in transport, route or domain, or none, may, encrypt or verify "
                        "here",
                        level == CONFIG_TLS_DANE ? "dane" : "mta-sts");
    }
}

/* errors: -ENOMEM */
static int check_overlaps(struct config_loader *l, const struct config *c)
{
    struct provider_table *table = NULL;
    struct provider_overlap *overlaps = calloc(c->provider_count + 1, sizeof(*overlaps));
    int err = overlaps == NULL ? -ENOMEM : provider_table_of(c, &table);
    err = err < 0 ? err : provider_table_overlaps(table, overlaps);
    if (err == ERR_LIMIT) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_PROVIDER, 0, NULL), "provider",
                        "all providers together have too many patterns to be compared; write "
                        "fewer, such as one *.example.com for many hosts");
        err = 0;
    }
    for (size_t i = 0; i < c->provider_count && err == 0; i++) {
        const struct provider_overlap *o = &overlaps[i];
        const char *option = o->is_domain ? "domains" : "mx";
        if (o->is_found) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_PROVIDER, i, option), option,
                            "\"" SLICE_FMT "\" can be the same name as \"" SLICE_FMT
                            "\" of provider \"%.64s\"; keep it in one of them",
                            SLICE_ARG(o->pattern), SLICE_ARG(o->other_pattern),
                            c->providers[o->other].options.name);
        }
    }
    provider_table_free(table);
    free(overlaps);
    return err;
}

/* --- domains ---------------------------------------------------------------------------------- */

static void check_domain(struct config_loader *l, struct config *c, size_t index)
{
    char *name = c->domains[index].options.name;
    size_t len = strlen(name);
    struct nexthop n;
    struct ip bare;
    slice_lower(slice_of(name), name);
    if (len > 1 && name[len - 1] == '.') {
        name[len - 1] = '\0'; /* a fully qualified name is the same domain */
    }
    if (nexthop_parse(slice_of(name), 0, &n) < 0 || !n.wants_mx || n.port != 0 ||
        ip_parse(slice_of(name), &bare) == 0) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_DOMAIN, index, NULL), "domain",
                        "\"%.80s\" is not a recipients' domain; write its name, such as "
                        "example.com; patterns of domains stand in provider { domains = }",
                        name);
    }
    check_options(l, c, CONFIG_SECTION_DOMAIN, index);
}

static int compare_domains(const void *a, const void *b)
{
    const struct config_receiver *const *x = a;
    const struct config_receiver *const *y = b;
    int order = strcmp((*x)->options.name, (*y)->options.name);
    if (order != 0) {
        return order;
    }
    return *x < *y ? -1 : 1;
}

/* Titles that differ in case, or by a last dot, are the same domain. errors: -ENOMEM */
static int check_duplicate_domains(struct config_loader *l, const struct config *c)
{
    const struct config_receiver **sorted = calloc(c->domain_count + 1, sizeof(*sorted));
    if (sorted == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->domain_count; i++) {
        sorted[i] = &c->domains[i];
    }
    qsort(sorted, c->domain_count, sizeof(*sorted), compare_domains);
    for (size_t i = 1; i < c->domain_count; i++) {
        if (strcmp(sorted[i - 1]->options.name, sorted[i]->options.name) == 0) {
            size_t index = (size_t)(sorted[i] - c->domains);
            config_complain(l, config_place_of(l, CONFIG_SECTION_DOMAIN, index, NULL), "domain",
                            "there is a domain \"%.80s\" already; keep one of them",
                            sorted[i]->options.name);
        }
    }
    free(sorted);
    return 0;
}

int config_check_receivers(struct config_loader *l, struct config *c)
{
    for (size_t i = 0; i < c->provider_count; i++) {
        check_provider(l, c, i);
    }
    for (size_t i = 0; i < c->domain_count; i++) {
        check_domain(l, c, i);
    }
    int err = check_overlaps(l, c);
    return err < 0 ? err : check_duplicate_domains(l, c);
}

/* --- sources ---------------------------------------------------------------------------------- */

static bool is_set(const struct config *c, size_t source, const char *option)
{
    char at[CONFIG_ORIGIN_BYTES];
    return config_origin(c, CONFIG_SECTION_SOURCE, source, option, at);
}

int config_check_warmup(struct config_loader *l, struct config *c, size_t index)
{
    struct config_egress_source *s = &c->egress_sources[index];
    size_t count = s->warmup_steps.count;
    bool has_steps = is_set(c, index, "warmup");
    bool has_since = is_set(c, index, "since");
    if (has_steps != has_since) {
        const char *is = has_steps ? "warmup" : "since";
        config_complain(l, config_place_of(l, CONFIG_SECTION_SOURCE, index, is), is,
                        "it needs %s beside it; write both, such as warmup = {\"50/d\", \"100/d\", "
                        "\"none\"} and since = 2026-12-01",
                        has_steps ? "since" : "warmup");
        return 0;
    }
    if (count > QUOTA_STEPS_MAX) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_SOURCE, index, "warmup"), "warmup",
                        "there are %zu days; write %d at most, the last one is for all that follow",
                        count, QUOTA_STEPS_MAX);
        return 0;
    }
    if (count > 0 && s->max_message_quota.count > 0) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_SOURCE, index, "max_message_quota"),
                        "max_message_quota",
                        "warmup is the quota of source \"%.64s\" already; remove one of them, or "
                        "write this one as the last day of warmup",
                        s->name);
    }
    s->warmup = count == 0 ? NULL : calloc(1, sizeof(*s->warmup));
    if (count > 0 && s->warmup == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        s->warmup->steps[i] = s->warmup_steps.items[i].count;
        s->warmup->count = (uint32_t)count;
        s->warmup->since = s->warmup_since;
    }
    return 0;
}
