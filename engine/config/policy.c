/* Owns the overlay of transports' options by providers and domains. Called by settings when they are
 * made, by workers and schedulers for each resolution; must not know who keeps what it says. */
#include "engine/config/policy.h"

#include "base/hash.h"
#include "dns/nexthop.h"
#include "engine/config/config_section.h"
#include "engine/config/provider.h"
#include "engine/config/router.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 128, DOMAIN_BYTES_MAX = 255 };

/* A policy of a domain, in the list of its section. Any thread; immutable once it is in the list. */
struct node {
    struct policy policy;
    struct node *next;
};

/* An option that receivers may set. */
struct overlay {
    const struct config_option *option;
    size_t bytes;
    bool is_rate;  /* the smallest of all holds */
    bool is_least; /* the same of a number; 0: none */
};

struct policy_table {
    const struct config *config;
    struct provider_table *providers;
    struct overlay overlays[64];
    size_t overlay_count;
    /* In config_receiver.set: */
    uint64_t lane_bits;            /* options that shape a lane */
    uint64_t client_bits;          /* options of the SMTP client's sessions */
    struct policy *policies;       /* [transports][providers + 1], the last without a provider */
    _Atomic(struct node *) *lists; /* [domains] */
    uint32_t *domains;             /* [mask + 1] index of a domain + 1; 0: free */
    size_t mask;
    uint64_t seed;
};

/* --- overlay ---------------------------------------------------------------------------------- */

static size_t value_bytes(enum config_type type)
{
    switch ((int)type) {
    case CONFIG_TYPE_INT:
        return sizeof(int);
    case CONFIG_TYPE_BOOL:
        return sizeof(bool);
    case CONFIG_TYPE_TIME:
        return sizeof(usec_t);
    case CONFIG_TYPE_CHOICE:
        return sizeof(unsigned);
    case CONFIG_TYPE_RATE:
    case CONFIG_TYPE_QUOTA:
        return sizeof(struct rate_rule);
    case CONFIG_TYPE_TEXT:
    case CONFIG_TYPE_FEEDBACK:
        return sizeof(char *);
    default:
        assert(false && "no receiver has an option of this type");
        return 0;
    }
}

static void find_overlays(struct policy_table *t)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (!o->is_receivers) {
            continue;
        }
        assert(t->overlay_count < sizeof(t->overlays) / sizeof(t->overlays[0]));
        size_t smtp = offsetof(struct config_transport, smtp);
        bool is_client = (o->offset >= smtp && o->offset < smtp + sizeof(struct config_smtp)) ||
                         o->offset == offsetof(struct config_transport, sched.pipeline_depth);
        t->client_bits |= is_client ? 1ULL << t->overlay_count : 0;
        t->lane_bits |= o->is_lanes ? 1ULL << t->overlay_count : 0;
        t->overlays[t->overlay_count++] = (struct overlay){
            o, value_bytes(o->type), o->type == CONFIG_TYPE_RATE || o->type == CONFIG_TYPE_QUOTA,
            o->offset == offsetof(struct config_transport, sched.destination_recipient_limit)};
    }
}

/* Less goes by a than by b in the long run; of the same less at once. */
static bool is_smaller(const struct rate_rule *a, const struct rate_rule *b)
{
    if (a->count == 0 || b->count == 0) {
        return a->count > 0;
    }
    /* Both products are less than 10^9 times the microseconds of a day: 2^67. */
    __int128 x = (__int128)a->count * b->span;
    __int128 y = (__int128)b->count * a->span;
    if (x != y) {
        return x < y;
    }
    return a->burst != b->burst && a->burst > 0 && (b->burst == 0 || a->burst < b->burst);
}

static bool is_less(const int *a, const int *b)
{
    return *a > 0 && (*b == 0 || *a < *b);
}

static void *field(struct config_transport *options, const struct overlay *o)
{
    return (char *)options + o->option->offset;
}

static const void *const_field(const struct config_transport *options, const struct overlay *o)
{
    return (const char *)options + o->option->offset;
}

static bool is_counted(const struct config_receiver *r, const struct policy_table *t, size_t k,
                       const struct config_transport *so_far)
{
    const struct overlay *o = &t->overlays[k];
    return (r->set >> k & 1) != 0 &&
           (!o->is_rate || is_smaller(const_field(&r->options, o), const_field(so_far, o))) &&
           (!o->is_least || is_less(const_field(&r->options, o), const_field(so_far, o)));
}

static void lay_over(const struct policy_table *t, const struct config_receiver *r,
                     struct config_transport *ret)
{
    for (size_t k = 0; r != NULL && k < t->overlay_count; k++) {
        if (is_counted(r, t, k, ret)) {
            memcpy(field(ret, &t->overlays[k]), const_field(&r->options, &t->overlays[k]),
                   t->overlays[k].bytes);
        }
    }
}

/* A text that the rule does not know leaves what there was: config_check.c has read it under each
 * rule of its transports, so that can only be one that is_gone. */
static void read_feedback(const char *text, enum sched_feedback_rule rule,
                          struct sched_feedback *ret)
{
    struct sched_feedback parsed;
    if (sched_feedback_parse(text, rule, &parsed) == 0) {
        *ret = parsed;
    }
}

/* What config_check.c makes of a transport's options. */
static void complete(struct config_transport *o)
{
    struct sched_config *s = &o->sched;
    enum sched_feedback_rule rule = s->concurrency_feedback_rule;
    read_feedback(o->positive_feedback, rule, &s->destination_concurrency_positive_feedback);
    read_feedback(o->negative_feedback, rule, &s->destination_concurrency_negative_feedback);
    s->connection_idle_limit = o->smtp.smtp_connection_cache_time_limit;
    s->connection_age_limit = o->smtp.smtp_connection_reuse_time_limit;
    s->connection_reuse_limit = o->smtp.smtp_connection_reuse_count_limit;
}

static struct policy *base_policy(const struct policy_table *t, uint32_t transport, size_t provider)
{
    return &t->policies[transport * (t->config->provider_count + 1) + provider];
}

static bool sets_option(const struct config_receiver *domain, const char *option)
{
    const struct config_option *o = config_option_find(CONFIG_SECTION_TRANSPORT, option);
    return (domain->set >> config_option_receiver_bit(o) & 1) != 0;
}

/* What a domain says of concurrency, where its lanes have the windows of a provider. */
static int bound_of(const struct config_receiver *domain)
{
    static const char *const limits[] = {"destination_concurrency_limit", "site_concurrency_limit"};
    const int values[] = {domain->options.sched.destination_concurrency_limit,
                          domain->options.sched.site_concurrency_limit};
    int least = 0;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (sets_option(domain, limits[i]) && values[i] > 0 && (least == 0 || values[i] < least)) {
            least = values[i];
        }
    }
    return least;
}

void policy_domain_bounds(const struct config_receiver *domain, struct policy_bounds *ret)
{
    const struct config_limits *own = &domain->options.limits; /* what it does not set is none */
    bool has_own_lanes = is_smaller(&own->max_message_rate, &own->site_message_rate);
    *ret = (struct policy_bounds){
        .messages = has_own_lanes ? own->max_message_rate : own->site_message_rate,
        .recipients = own->max_recipient_rate,
        .quota = own->max_message_quota,
    };
}

static void set_bounds(const struct config_receiver *domain, struct policy *ret)
{
    ret->most_in_flight = bound_of(domain);
    policy_domain_bounds(domain, &ret->bounds);
}

static void make_policy(const struct policy_table *t, uint32_t transport, size_t provider,
                        const struct config_receiver *domain, struct policy *ret)
{
    const struct config *c = t->config;
    bool has_provider = provider < c->provider_count;
    *ret = (struct policy){.transport = transport,
                           .provider = provider,
                           .provider_section = has_provider ? &c->providers[provider] : NULL,
                           .domain_section = domain,
                           .options = c->transports[transport],
                           .site = ret};
    lay_over(t, ret->provider_section, &ret->options);
    lay_over(t, domain, &ret->options);
    complete(&ret->options);
    uint64_t set = (has_provider ? ret->provider_section->set : 0) | (domain ? domain->set : 0);
    ret->has_client_options = (set & t->client_bits) != 0;
    if (domain != NULL) {
        bool is_of_lane = (domain->set & t->lane_bits) != 0;
        ret->has_own_site = is_of_lane && !has_provider;
        ret->is_bounded = is_of_lane && has_provider;
        if (ret->is_bounded) {
            set_bounds(domain, ret);
        }
        ret->site = ret->has_own_site ? ret : base_policy(t, transport, provider);
    }
}

/* --- domains ---------------------------------------------------------------------------------- */

/* Where the domain is or would be. */
static size_t place_of(const struct policy_table *t, struct slice name)
{
    size_t at = (size_t)hash_bytes(name.data, name.len, t->seed) & t->mask;
    while (t->domains[at] != 0 &&
           !slice_eq(slice_of(t->config->domains[t->domains[at] - 1].options.name), name)) {
        at = (at + 1) & t->mask;
    }
    return at;
}

static int index_domains(struct policy_table *t)
{
    size_t size = 8, count = t->config->domain_count;
    while (size < 2 * count) {
        size *= 2;
    }
    t->seed = hash_random_seed();
    t->mask = size - 1;
    t->domains = calloc(size, sizeof(*t->domains));
    t->lists = calloc(count + 1, sizeof(*t->lists));
    if (t->domains == NULL || t->lists == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        t->domains[place_of(t, slice_of(t->config->domains[i].options.name))] = (uint32_t)i + 1;
    }
    return 0;
}

/* The domain's index, or the count of domains. */
static size_t find_domain(const struct policy_table *t, struct slice name)
{
    char lower[DOMAIN_BYTES_MAX];
    size_t count = t->config->domain_count;
    if (count == 0 || name.len == 0 || name.len > sizeof(lower)) {
        return count;
    }
    slice_lower(name, lower);
    uint32_t found = t->domains[place_of(t, slice_make(lower, name.len))];
    return found == 0 ? count : found - 1;
}

static const struct policy *find_in(struct node *list, uint32_t transport, size_t provider)
{
    for (; list != NULL; list = list->next) {
        if (list->policy.transport == transport && list->policy.provider == provider) {
            return &list->policy;
        }
    }
    return NULL;
}

static const struct policy *domain_policy(const struct policy_table *t, uint32_t transport,
                                          size_t provider, size_t domain)
{
    /* Acquire: what the release of the exchange below wrote before. */
    struct node *head = atomic_load_explicit(&t->lists[domain], memory_order_acquire);
    const struct policy *found = find_in(head, transport, provider);
    if (found != NULL) {
        return found;
    }
    struct node *node = malloc(sizeof(*node));
    if (node == NULL) {
        return NULL;
    }
    make_policy(t, transport, provider, &t->config->domains[domain], &node->policy);
    do {
        found = find_in(head, transport, provider);
        if (found != NULL) { /* another thread was first */
            free(node);
            return found;
        }
        node->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&t->lists[domain], &head, node,
                                                    memory_order_release, memory_order_acquire));
    return &node->policy;
}

/* --- the calls -------------------------------------------------------------------------------- */

int policy_table_new(const struct config *c, struct policy_table **ret)
{
    struct policy_table *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return -ENOMEM;
    }
    t->config = c;
    find_overlays(t);
    t->policies = calloc(c->transport_count * (c->provider_count + 1) + 1, sizeof(*t->policies));
    int err = t->policies == NULL ? -ENOMEM : provider_table_of(c, &t->providers);
    err = err < 0 ? err : index_domains(t);
    for (size_t i = 0; i < c->transport_count && err == 0; i++) {
        for (size_t p = 0; p <= c->provider_count; p++) {
            make_policy(t, (uint32_t)i, p, NULL, base_policy(t, (uint32_t)i, p));
        }
    }
    if (err < 0) {
        policy_table_free(t);
        return err;
    }
    *ret = t;
    return 0;
}

void policy_table_free(struct policy_table *t)
{
    if (t == NULL) {
        return;
    }
    for (size_t i = 0; t->lists != NULL && i < t->config->domain_count; i++) {
        struct node *node = atomic_load_explicit(&t->lists[i], memory_order_relaxed);
        while (node != NULL) {
            struct node *next = node->next;
            free(node);
            node = next;
        }
    }
    provider_table_free(t->providers);
    free(t->policies);
    free(t->lists);
    free(t->domains);
    free(t);
}

size_t policy_no_provider(const struct policy_table *t)
{
    return t->config->provider_count;
}

size_t policy_provider(const struct policy_table *t, struct slice domain, const struct slice *hosts,
                       size_t host_count)
{
    return provider_find(t->providers, domain, hosts, host_count);
}

bool policy_is_by_domains(const struct policy_table *t, size_t provider)
{
    return provider < t->config->provider_count && t->config->providers[provider].mx.count == 0;
}

const struct policy *policy_find(const struct policy_table *t, uint32_t transport, size_t provider,
                                 struct slice domain)
{
    assert(transport < t->config->transport_count && provider <= t->config->provider_count);
    size_t found = find_domain(t, domain);
    return found == t->config->domain_count ? base_policy(t, transport, provider)
                                            : domain_policy(t, transport, provider, found);
}

const struct config_receiver *policy_domain(const struct policy_table *t, struct slice domain)
{
    size_t found = find_domain(t, domain);
    return found == t->config->domain_count ? NULL : &t->config->domains[found];
}

/* Sections are for the receivers of a name's mail, not for a host or a port that a route gives. */
static bool is_mail_domain(struct slice nexthop)
{
    struct nexthop hop;
    return nexthop_parse(nexthop, 0, &hop) == 0 && hop.wants_mx && hop.port == 0;
}

const struct policy *policy_of(const struct policy_table *t, uint32_t transport,
                               struct slice nexthop, struct slice names)
{
    const size_t none = t->config->provider_count;
    struct slice hosts[NAMES_MAX];
    size_t count = 0;
    while (names.len > 0 && count < NAMES_MAX) {
        size_t comma = slice_find(names, ',');
        hosts[count++] = slice_to(names, comma);
        names = slice_from(names, comma < names.len ? comma + 1 : comma);
    }
    if (names.len > 0) {
        count = 0; /* some of them may be no provider's */
    }
    /* Most are in no section: looking costs less than reading the name does. */
    size_t provider = policy_provider(t, nexthop, hosts, count);
    bool has_section = provider < none || find_domain(t, nexthop) < t->config->domain_count;
    return has_section && is_mail_domain(nexthop) ? policy_find(t, transport, provider, nexthop)
                                                  : base_policy(t, transport, none);
}

enum config_tls_level policy_tls_level(const struct router *r, const struct policy *p,
                                       struct slice nexthop)
{
    const struct config_receiver *d = p->domain_section;
    if (d != NULL && sets_option(d, "smtp_tls_security_level")) {
        return d->options.smtp.smtp_tls_security_level;
    }
    enum config_tls_level level = router_route_level(r, p->transport, nexthop);
    return level != CONFIG_TLS_OF_TRANSPORT ? level : p->options.smtp.smtp_tls_security_level;
}

struct policy_origin policy_origin(const struct policy_table *t, const struct policy *p,
                                   const struct config_option *o)
{
    const struct config *c = t->config;
    struct policy_origin origin = {CONFIG_SECTION_TRANSPORT, p->transport};
    if (!o->is_receivers) {
        return origin;
    }
    size_t k = config_option_receiver_bit(o);
    struct config_transport options = c->transports[p->transport];
    if (p->provider_section != NULL && is_counted(p->provider_section, t, k, &options)) {
        origin = (struct policy_origin){CONFIG_SECTION_PROVIDER, p->provider};
    }
    lay_over(t, p->provider_section, &options);
    if (p->domain_section != NULL && is_counted(p->domain_section, t, k, &options)) {
        origin =
            (struct policy_origin){CONFIG_SECTION_DOMAIN, (size_t)(p->domain_section - c->domains)};
    }
    return origin;
}
