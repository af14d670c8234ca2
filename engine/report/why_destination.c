/* Turns the scheduler's view of a destination into causes. Called by why_report.c; changes
 * nothing. */
#include "engine/report/why_destination.h"

#include "base/history.h"
#include "dns/ip.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "engine/http/clerk.h"
#include "engine/limit/limits.h"
#include "engine/order/order_book.h"
#include "engine/report/why_lane.h"
#include "engine/schedule/destination_site.h"
#include "engine/schedule/dispatch.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/limit/rate_text.h"
#include "sched/sched.h"

#include <stdio.h>

enum { HOSTS_SHOWN = 10 };

/* What the links of one destination share. */
struct subject {
    struct why *w;
    int level;
    uint32_t transport;
    const struct config_transport *config;
    const struct sched *core;
    struct sched_destination_view d;
    struct slice site; /* whose windows it shares; "": none's */
};

static void limit_number(const struct subject *s, json_t *link, const char *option, int64_t value)
{
    why_number(s->w, link, CONFIG_SECTION_TRANSPORT, s->transport, option, value);
}

static void limit_span(const struct subject *s, json_t *link, const char *option, usec_t value)
{
    why_span(s->w, link, CONFIG_SECTION_TRANSPORT, s->transport, option, value);
}

/* Monotonic to wall. */
static usec_t wall_of(usec_t mono)
{
    return clock_wall() + (mono - clock_mono());
}

/* The hosts that are not tried for now. A scheduler does not publish which of them a destination
 * has: those of a name are all of the transport, those of an address literal itself. */
static void put_hosts(const struct subject *s, struct slice name)
{
    bool is_literal = name.len > 0 && name.data[0] == '[';
    struct sched_host_view v;
    uint64_t cursor = 0;
    unsigned shown = 0;
    while (shown < HOSTS_SHOWN && sched_view_hosts(s->core, &cursor, &v)) {
        char address[IP_TEXT_MAX], text[IP_TEXT_MAX + 16];
        struct ip ip;
        uint16_t port;
        if (v.state != SCHED_HOST_RETRY) {
            continue;
        }
        dispatch_read_server(v.key, v.key_len, &ip, &port);
        (void)snprintf(text, sizeof(text), "[%s]:%u", ip_text(&ip, address), port);
        if (is_literal && !slice_eq(slice_of(text), name)) {
            continue;
        }
        json_t *link =
            why_link(s->w, s->level + 1, "host %s of transport %s failed %d %s", text,
                     s->config->name, v.failures, v.failures == 1 ? "time" : "times in a row");
        why_span(s->w, link, CONFIG_SECTION_GLOBAL, 0, "minimal_backoff_time",
                 s->config->sched.minimal_backoff_time);
        why_until(s->w, link, wall_of(v.retry_until));
        why_next(link, "then it is tried again");
        shown++;
    }
}

/* The newest change of its window for this cause; false when the history has none any more. */
static bool last_change(const struct subject *s, enum sched_change_cause cause,
                        struct sched_thread_change *ret)
{
    const struct engine *e = s->w->clerk->engine;
    const struct history *h = sched_thread_changes(e->scheds[s->transport % e->sched_count]);
    uint64_t begin = history_begin(h);
    for (uint64_t i = history_end(h); i > begin; i--) {
        if (history_get(h, i - 1, ret) && ret->transport == s->transport &&
            ret->change.cause == cause &&
            destination_site_is_of(&ret->change, s->d.name, s->site)) {
            return true;
        }
    }
    return false;
}

/* "TEXT, 3m ago"; without such a change the text that is given. */
static void because_change(const struct subject *s, json_t *link, enum sched_change_cause cause,
                           const char *otherwise)
{
    struct sched_thread_change change;
    char text[sizeof(change.change.text) + WHY_SPAN_TEXT + 32], age[WHY_SPAN_TEXT];
    if (last_change(s, cause, &change) && change.change.text[0] != '\0') {
        (void)snprintf(text, sizeof(text), "%s (%s ago)", change.change.text,
                       why_span_text(s->w->now - change.time, age));
        otherwise = text;
    }
    why_because(link, slice_of(otherwise));
}

static void put_dead(const struct subject *s)
{
    const struct sched_config *c = &s->config->sched;
    json_t *link =
        why_link(s->w, s->level, SLICE_FMT " by %s is dead", SLICE_ARG(s->d.name), s->config->name);
    because_change(s, link, SCHED_CHANGE_DEAD, sched_why_text(s->d.why));
    why_span(s->w, link, CONFIG_SECTION_GLOBAL, 0, "minimal_backoff_time", c->minimal_backoff_time);
    why_until(s->w, link, wall_of(s->d.state_until));
    why_next(link, "then it is tried again with a window of %d; its mail is deferred meanwhile",
             c->initial_destination_concurrency);
    link = why_link(s->w, s->level + 1, "so many windows full of failures make it dead");
    limit_number(s, link, "destination_concurrency_failed_cohort_limit",
                 c->destination_concurrency_failed_cohort_limit);
    put_hosts(s, s->d.name);
}

static void put_window(const struct subject *s)
{
    const struct sched_config *c = &s->config->sched;
    bool is_at_limit =
        c->destination_concurrency_limit > 0 && s->d.window >= c->destination_concurrency_limit;
    json_t *link = why_link(s->w, s->level,
                            "the window of " SLICE_FMT " by %s is full: %d of %d connections busy",
                            SLICE_ARG(s->d.name), s->config->name, s->d.busy, s->d.window);
    why_next(link, "the next delivery starts when one of the %d in flight ends", s->d.in_flight);
    if (is_at_limit) {
        why_because(link, SLICE("it is as large as it may be"));
        limit_number(s, link, "destination_concurrency_limit", c->destination_concurrency_limit);
    } else {
        because_change(s, link, SCHED_CHANGE_NEGATIVE, "feedback has not made it larger yet");
        why_word(s->w, link, CONFIG_SECTION_TRANSPORT, s->transport,
                 "destination_concurrency_positive_feedback", s->config->positive_feedback);
        link = why_link(s->w, s->level + 1, "a window begins with");
        limit_number(s, link, "initial_destination_concurrency",
                     c->initial_destination_concurrency);
        link = why_link(s->w, s->level + 1, "and grows up to (0: without end)");
        limit_number(s, link, "destination_concurrency_limit", c->destination_concurrency_limit);
    }
}

static void put_hold(const struct subject *s)
{
    json_t *link = why_link(s->w, s->level, "transport %s is on hold", s->config->name);
    why_word(s->w, link, CONFIG_SECTION_TRANSPORT, s->transport, "hold", "yes");
    why_next(link, "nothing goes out by it until the configuration says otherwise");
}

static void put_process_limit(const struct subject *s)
{
    struct sched_counters n;
    sched_view_counters(s->core, &n);
    json_t *link = why_link(s->w, s->level, "all connections of transport %s are busy: %llu of %d",
                            s->config->name, (unsigned long long)(n.connections - n.idle),
                            s->config->sched.process_limit);
    limit_number(s, link, "process_limit", s->config->sched.process_limit);
    why_next(link, "the next delivery starts when one of them ends");
}

/* Wall: when the quota of a domain inside a provider lets the next message go; 0: nothing was counted. */
static usec_t quota_due_of(const struct subject *s, const struct config_receiver *section)
{
    const struct limit_meter_key key = {LIMIT_OF_DOMAIN, slice_of(section->options.name)};
    struct limits_meter_view v;
    return limits_meter_view(s->w->clerk->engine->limits, &key, clock_wall(), &v) ? v.quota_due : 0;
}

/* A rate or quota of its `domain` section, which inside a provider is a bound beside those of its lanes. */
static void put_domain_bounds(const struct subject *s, json_t *link)
{
    static const char *const options[] = {"max_message_quota", "max_message_rate",
                                          "site_message_rate", "max_recipient_rate"};
    const struct settings *settings = settings_of(s->w->clerk->engine);
    const struct config_receiver *section = policy_domain(settings->policies, s->d.name);
    if (section == NULL || settings->config != s->w->config) {
        return;
    }
    const struct config_limits *l = &section->options.limits;
    const struct rate_rule *rules[] = {&l->max_message_quota, &l->max_message_rate,
                                       &l->site_message_rate, &l->max_recipient_rate};
    bool is_quota = s->d.why == SCHED_WHY_QUOTA;
    unsigned i = is_quota ? 0 : 1, end = is_quota ? 1 : 4;
    while (i < end && rules[i]->count == 0) {
        i++;
    }
    if (i == end) {
        return;
    }
    char text[RATE_TEXT_BYTES];
    rate_print(rules[i], text);
    why_word(s->w, link, CONFIG_SECTION_DOMAIN, (size_t)(section - settings->config->domains),
             options[i], text);
    usec_t until = s->d.state_until > 0 ? wall_of(s->d.state_until) : 0;
    if (is_quota) {
        until = quota_due_of(s, section);
    }
    if (until > s->w->now) {
        why_until(s->w, link, until);
        why_next(link, "then its next message goes");
    }
}

static void put_bar(const struct subject *s)
{
    const struct sched_config *c = &s->config->sched;
    json_t *link = why_link(s->w, s->level, SLICE_FMT " by %s: %s", SLICE_ARG(s->d.name),
                            s->config->name, sched_why_text(s->d.why));
    switch (s->d.why) {
    case SCHED_WHY_RATE_DELAY:
        limit_span(s, link, "destination_rate_delay", c->destination_rate_delay);
        why_until(s->w, link, wall_of(s->d.state_until));
        why_next(link, "then one delivery goes");
        break;
    case SCHED_WHY_TRANSPORT_RATE_DELAY:
        limit_span(s, link, "transport_rate_delay", c->transport_rate_delay);
        break;
    case SCHED_WHY_RESOLVING:
        why_span(s->w, link, CONFIG_SECTION_DNS, 0, "timeout", s->w->config->dns.timeout);
        why_next(link, "name servers are asked %d times at most", s->w->config->dns.tries);
        break;
    case SCHED_WHY_HOST_LIMIT:
        limit_number(s, link, "host_concurrency_limit", c->host_concurrency_limit);
        why_next(link, "the next delivery starts when a connection to one of its hosts is free");
        break;
    case SCHED_WHY_POOL:
        limit_number(s, link, "recipient_limit", c->recipient_limit);
        break;
    case SCHED_WHY_MESSAGE_LIMIT:
        limit_number(s, link, "max_message_concurrency", c->max_message_concurrency);
        break;
    case SCHED_WHY_HOST_RETRY:
        put_hosts(s, s->d.name);
        break;
    case SCHED_WHY_SITE_LIMIT:
        limit_number(s, link, "site_concurrency_limit", c->site_concurrency_limit);
        break;
    case SCHED_WHY_RATE:
    case SCHED_WHY_QUOTA:
        put_domain_bounds(s, link);
        break;
    case SCHED_WHY_NOTHING:
    case SCHED_WHY_TURN:
    case SCHED_WHY_LANE_CLOSED:
    case SCHED_WHY_PACE:
    case SCHED_WHY_CEILING:
    case SCHED_WHY_TENANT_RATE:
    case SCHED_WHY_TENANT_QUOTA:
    case SCHED_WHY_WINDOW:
    case SCHED_WHY_DEAD:
    case SCHED_WHY_PROCESS_LIMIT:
    case SCHED_WHY_HOLD:
    case SCHED_WHY_COUNT:
        break;
    }
}

static void put_nothing(const struct subject *s)
{
    json_t *link;
    if (s->d.todo > 0) {
        link = why_link(s->w, s->level, "nothing holds " SLICE_FMT " by %s back",
                        SLICE_ARG(s->d.name), s->config->name);
        why_because(link, SLICE("its entries are selected in turn"));
    } else if (s->d.in_flight == 0) {
        (void)why_link(s->w, s->level, "nothing waits for " SLICE_FMT " by %s in its scheduler",
                       SLICE_ARG(s->d.name), s->config->name);
    }
}

/* Where other destinations have a part in what holds it back. */
static void put_site(const struct subject *s, const struct destination_site *site)
{
    if (site->is_known && site->view.destinations > (site->is_in_core ? 1 : 0)) {
        (void)why_link(s->w, s->level,
                       "it shares the window of the site " SLICE_FMT
                       ": destinations with mail %d, waiting %d, in flight %d",
                       SLICE_ARG(site->key), site->view.destinations, site->view.todo,
                       site->view.in_flight);
    }
}

/* What its receiver, a rate or an operator makes of the lanes that it may take. */
static bool put_lanes_of(const struct subject *s, int level, int pool)
{
    const struct why_lanes q = {.transport = s->transport,
                                .site = s->site.len > 0 ? s->site : s->d.name,
                                .destination = s->d.name,
                                .pool = pool};
    return why_lanes(s->w, level, &q);
}

static bool view_destination(struct subject *s, struct slice name, int pool)
{
    return pool == WHY_ANY_POOL ? sched_view_destination(s->core, name, &s->d)
                                : sched_view_destination_in(s->core, name, (uint16_t)pool, &s->d);
}

bool why_destination(struct why *w, int level, uint32_t transport, struct slice name, int pool)
{
    const struct engine *e = w->clerk->engine;
    struct subject s = {
        .w = w,
        .level = level,
        .transport = transport,
        .config = &w->config->transports[transport],
        .core = sched_thread_core(e->scheds[transport % e->sched_count], transport),
    };
    struct destination_site site;
    destination_site_find(e, transport, name, &site);
    s.site = site.key;
    if (!site.is_in_core && site.is_known && site.view.state == SCHED_LANE_DEAD) {
        s.d = (struct sched_destination_view){
            .name = name, .why = SCHED_WHY_DEAD, .state_until = site.view.state_until};
        put_site(&s, &site);
        if (!put_lanes_of(&s, level, pool)) { /* closed lanes take nothing either */
            put_dead(&s);
        }
        return true;
    }
    if (!view_destination(&s, name, pool)) {
        s.d = (struct sched_destination_view){.name = name};
        if (put_lanes_of(&s, level, pool)) {
            return true;
        }
        if (name.len > 0 && name.data[0] == '[') {
            s.level = level - 1;
            /* the hosts of an address literal are known even when no mail waits for them */
            put_hosts(&s, name);
        }
        return false;
    }
    if (s.d.todo > 0 || s.d.in_flight > 0) {
        (void)why_link(w, level,
                       SLICE_FMT " by %s: %d waiting, %d in flight, %d of %d connections of its "
                                 "window busy",
                       SLICE_ARG(s.d.name), s.config->name, s.d.todo, s.d.in_flight, s.d.busy,
                       s.d.window);
        s.level = level + 1;
    }
    put_site(&s, &site);
    if (s.config->sched.hold) {
        put_hold(&s);
    } else if (s.d.state == SCHED_DESTINATION_DEAD) {
        put_dead(&s);
    } else if (s.d.why == SCHED_WHY_WINDOW) {
        put_window(&s);
    } else if (s.d.why == SCHED_WHY_PROCESS_LIMIT) {
        put_process_limit(&s);
    } else if (s.d.why == SCHED_WHY_NOTHING) {
        put_nothing(&s);
    } else {
        put_bar(&s);
    }
    (void)put_lanes_of(&s, s.level + 1, pool); /* it is known either way */
    return true;
}

void why_tls(struct why *w, int level, uint32_t transport, struct slice name)
{
    const struct config_option *option =
        config_option_find(CONFIG_SECTION_TRANSPORT, "smtp_tls_security_level");
    const struct router *router = settings_of(w->clerk->engine)->router;
    const char *word = option->choices[router_tls_level(router, transport, name)];
    const struct config_route *route = router_level_route(router, transport, name);
    json_t *link =
        why_link(w, level, "deliveries to " SLICE_FMT " by %s have to satisfy TLS level %s",
                 SLICE_ARG(name), w->config->transports[transport].name, word);
    why_word(w, link, route != NULL ? CONFIG_SECTION_ROUTE : CONFIG_SECTION_TRANSPORT,
             route != NULL ? (size_t)(route - w->config->routes) : transport,
             "smtp_tls_security_level", word);
}

static void order_selector_text(const struct order *o, char *text, size_t bytes)
{
    size_t len = 0;
    text[0] = '\0';
    for (enum selector_word word = 0; word < SELECTOR_COUNT && len < bytes; word++) {
        if (o->selector.value[word] != NULL) {
            int added = snprintf(text + len, bytes - len, "%s%s %s", len == 0 ? "" : ", ",
                                 selector_word_text(word), o->selector.value[word]);
            len += added > 0 ? (size_t)added : 0;
        }
    }
    if (o->site != NULL && len < bytes) {
        (void)snprintf(text + len, bytes - len, "%ssite %.400s", len == 0 ? "" : ", ", o->site);
    }
}

static bool agrees(const struct order *o, const struct slice facts[static SELECTOR_COUNT],
                   struct slice site)
{
    if (o->site != NULL && facts[SELECTOR_DESTINATION].len > 0 &&
        !slice_eq(slice_of(o->site), site)) {
        return false;
    }
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        if (facts[word].len > 0 && !selector_matches_word(&o->selector, word, facts[word])) {
            return false;
        }
    }
    return facts[SELECTOR_TENANT].len == 0 || order_is_of(o, facts[SELECTOR_TENANT]);
}

unsigned why_orders(struct why *w, int level, const struct slice facts[static SELECTOR_COUNT],
                    struct slice site)
{
    unsigned count = 0;
    const struct order *o;
    for (uint64_t after = 0; (o = order_book_next(w->clerk->engine->orders, after, NULL)) != NULL;
         after = o->id) {
        char text[1000];
        if (o->until <= w->now || !agrees(o, facts, site)) {
            continue;
        }
        if (!order_is_visible(o, label_slice(&w->owner))) {
            json_t *held = why_link(w, level, "an order about more than this tenant holds it: %s",
                                    order_kind_text(o->kind));
            why_until(w, held, o->until);
            count++;
            continue;
        }
        order_selector_text(o, text, sizeof(text));
        json_t *link = why_link(w, level, "order %llu: %s %s", (unsigned long long)o->id,
                                order_kind_text(o->kind), text);
        why_because(link, slice_of(o->reason));
        why_until(w, link, o->until);
        why_next(link, "given by %s; sluice resume %llu ends it", o->by, (unsigned long long)o->id);
        count++;
    }
    return count;
}
