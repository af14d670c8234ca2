/* Goes through one message's recipients and its schedulers' jobs. Called by why_report.c; the view
 * of the spool stays open meanwhile, so it does little for each recipient. */
#include "engine/report/why_message.h"

#include "base/error.h"
#include "base/plural.h"
#include "engine/census/clerk_walk.h"
#include "engine/config/config.h"
#include "engine/event/reply_line.h"
#include "engine/http/api.h"
#include "engine/http/clerk.h"
#include "engine/post/message.h"
#include "engine/report/why_destination.h"
#include "engine/report/why_gate.h"
#include "engine/report/why_reply.h"
#include "engine/schedule/destination_site.h"
#include "engine/schedule/sched_thread.h"
#include "engine/spool/spool_signing.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "engine/writer/retry.h"
#include "net/dkim/dkim_signature.h"
#include "sched/sched.h"

#include <stdio.h>
#include <string.h>

enum {
    GROUPS_MAX = 24,
    BEFORE_MAX = 1000000, /* messages counted that stand in front of the one asked about */
};

/* Recipients of the message in the same state and for the same destination. */
struct group {
    enum queue_state state;
    bool is_routed;
    uint32_t transport;
    char destination[256], domain[256];
    uint64_t count;
    bool has_reason;
    uint32_t newest; /* a recipient with a reason */
};

struct view {
    struct why *why;
    struct queue_walk walk;
    const struct spool_envelope *envelope;
    struct group groups[GROUPS_MAX];
    size_t group_count;
    uint64_t others; /* recipients of further groups */
    uint64_t undone;
};

static void keep_value(char *ret, size_t bytes, struct slice text)
{
    size_t len = text.len < bytes - 1 ? text.len : bytes - 1;
    if (len > 0) {
        memcpy(ret, text.data, len);
    }
    ret[len] = '\0';
}

/* NULL: there are too many */
static struct group *group_of(struct view *v)
{
    const struct queue_recipient *r = &v->walk.recipient;
    const struct slice transport = r->facts[SELECTOR_TRANSPORT];
    const struct slice destination = r->facts[SELECTOR_DESTINATION];
    uint32_t index = (uint32_t)config_transport_find(v->why->config, transport);
    for (size_t i = 0; i < v->group_count; i++) {
        struct group *g = &v->groups[i];
        if (g->state == r->state && g->is_routed == (transport.len > 0) &&
            (!g->is_routed || g->transport == index) &&
            slice_eq(slice_of(g->destination), destination)) {
            return g;
        }
    }
    if (v->group_count == GROUPS_MAX) {
        return NULL;
    }
    struct group *g = &v->groups[v->group_count++];
    *g = (struct group){.state = r->state, .is_routed = transport.len > 0, .transport = index};
    keep_value(g->destination, sizeof(g->destination), destination);
    keep_value(g->domain, sizeof(g->domain), r->facts[SELECTOR_DOMAIN]);
    return g;
}

static void gather(struct view *v)
{
    while (queue_walk_recipient(&v->walk)) {
        const struct queue_recipient *r = &v->walk.recipient;
        struct group *g = group_of(v);
        v->undone++;
        if (g == NULL) {
            v->others++;
            continue;
        }
        g->count++;
        if (r->is_deferred) {
            g->has_reason = true;
            g->newest = r->index;
        }
    }
}

/* --- states ----------------------------------------------------------------------------------- */

/* Wall; in the past: the scan is under way. */
static usec_t next_scan(const struct why *w)
{
    usec_t at = atomic_load_explicit(&w->clerk->engine->next_scan, memory_order_relaxed);
    return w->now + (at - clock_mono());
}

/* That its mail has in the schedulers. */
static uint16_t pool_of(const struct view *v)
{
    const struct source_table *t = settings_of(v->why->clerk->engine)->sources;
    return source_table_kept(t, source_table_pool(t, v->envelope->tenant),
                             v->walk.message.retry.source);
}

/* A receiver greylisted it, and wants to see the same source again. */
static void put_kept_source(const struct view *v)
{
    const struct source_table *t = settings_of(v->why->clerk->engine)->sources;
    const char *source = t->pools[pool_of(v)].source;
    if (source != NULL) {
        (void)why_link(v->why, 0, "it was greylisted, and goes from source \"%s\" again", source);
    }
}

static void put_scan(struct view *v)
{
    const struct config *c = v->why->config;
    char span[WHY_SPAN_TEXT];
    json_t *link =
        why_link(v->why, 1, "what is due is found by a scan of deferred mail, at most %s later",
                 why_span_text(c->queue_run_delay, span));
    why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "queue_run_delay", c->queue_run_delay);
}

/* Its receiver, a rate or a quota lets through too little to keep it in memory: nobody tried it. */
static void put_turn(struct view *v)
{
    const struct spool_retry *retry = &v->walk.message.retry;
    json_t *link;
    if (retry->due > v->why->now) {
        link = why_link(v->why, 0, "it was not tried, and comes back when its turn is near");
        why_until(v->why, link, retry->due);
    } else {
        link = why_link(v->why, 0,
                        "it was not tried; its turn is near, and it waits for a place among "
                        "the active messages");
    }
    why_because(link,
                SLICE("what its lanes may send lets it through no sooner, and others wait for the "
                      "same"));
    why_next(link, "this is no attempt and counts as none");
}

/* Tell when the next attempt is due and which options made that time, which settle.c has
 * computed. */
static void put_due(struct view *v)
{
    const struct config *c = v->why->config;
    const struct spool_retry *retry = &v->walk.message.retry;
    usec_t created = v->envelope->created;
    usec_t low = c->minimal_backoff_time, high = c->maximal_backoff_time;
    char span[WHY_SPAN_TEXT];
    usec_t scan = next_scan(v->why);
    json_t *link;
    if (retry->is_paced) {
        put_turn(v);
        put_scan(v);
        put_kept_source(v);
        return;
    }
    if (retry->due > v->why->now) {
        link = why_link(v->why, 0, "attempt %u failed; the next one is due", retry->attempts);
        why_until(v->why, link, retry->due);
    } else if (scan > v->why->now) {
        link = why_link(v->why, 0, "attempt %u failed; the next one is overdue, next scan in %s",
                        retry->attempts, why_span_text(scan - v->why->now, span));
        why_until(v->why, link, scan);
    } else {
        link = why_link(v->why, 0,
                        "attempt %u failed; the next one is overdue, and waits for a place among "
                        "the active messages",
                        retry->attempts);
    }
    if (retry->deferred != 0 && retry->due - retry->deferred > retry_longest(low, high)) {
        why_because(link,
                    SLICE("it was deferred for longer than it would be now: it comes when it "
                          "has waited the longest time, or in turn within that of the reload"));
        why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "maximal_backoff_time", high);
    } else if (low >= high || retry->due - low - created <= low) {
        why_because(link, SLICE("a young message waits the least time"));
        why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "minimal_backoff_time", low);
    } else if (retry->due - high - created >= high) {
        why_because(link, SLICE("an old message waits the longest time"));
        why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "maximal_backoff_time", high);
    } else {
        why_because(link, SLICE("a message waits as long as it was old at its last attempt, within "
                                "minimal_backoff_time and maximal_backoff_time"));
        why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "maximal_backoff_time", high);
    }
    put_scan(v);
    put_kept_source(v);
}

/* The number of its flow. false: it shares one, and nobody knows which */
static bool find_flow(const struct view *v, uint32_t *ret)
{
    const struct spool_envelope *e = v->envelope;
    struct spool_flow flow = {.class = MAIL_NORMAL, .tenant = SLICE(""), .campaign = SLICE("")};
    int err = 0;
    while (err == 0 &&
           !(flow.class == spool_mail_class(e->flags) && slice_ieq(flow.tenant, e->tenant) &&
             slice_ieq(flow.campaign, e->campaign))) {
        err = spool_next_flow(v->walk.from.reader, flow.number, &flow);
    }
    *ret = flow.number;
    return err == 0;
}

/* Messages in front of it among the new ones of its flow. */
static void put_place(struct view *v)
{
    struct spool_position at = {.class = SPOOL_INCOMING};
    uint64_t before = 0;
    if (!find_flow(v, &at.flow)) {
        return;
    }
    while (before < BEFORE_MAX && spool_scan_flow(v->walk.from.reader, &at, &at) == 0 &&
           at.id != v->envelope->id) {
        before++;
    }
    uint64_t active =
        atomic_load_explicit(&v->why->clerk->engine->active_messages, memory_order_relaxed);
    /* Active ones stand in the queue as well. */
    before = before > active ? before - active : 0;
    (void)why_link(v->why, 1, "about %llu %s in front of it%s", (unsigned long long)before,
                   plural(before, "message is", "messages are"),
                   before == BEFORE_MAX ? " at least" : "");
}

static void put_incoming(struct view *v)
{
    json_t *link = why_link(v->why, 0, "it waits in the queue to become active");
    why_next(link, "new and deferred messages become active in turn as others end");
    if (v->why->owner.len > 0) {
        return;
    }
    if (!why_memory(v->why, 1)) {
        (void)why_link(v->why, 1, "no limit keeps it: it is about to become active");
    }
    put_place(v);
}

/* Whose mail it takes turns with there. */
static void put_turns(struct why *w, const struct sched *s, const struct sched_flow_key *own)
{
    struct sched_flow_view f;
    uint64_t cursor = 0;
    uint32_t others = 0, of_class = 0, weight = 1;
    while (sched_view_flows(s, &cursor, &f)) {
        bool is_class = f.key.class == own->class;
        if (is_class && f.key.tenant == own->tenant && f.key.campaign == own->campaign) {
            weight = f.weight;
        } else if (f.jobs > 0) {
            others++;
            of_class += is_class;
        }
    }
    if (others > 0) {
        json_t *link = why_link(w, 1,
                                "it takes turns with %u other %s (class, tenant and campaign), %u "
                                "of its class; its tenant weighs %u",
                                others, plural(others, "flow", "flows"), of_class, weight);
        why_next(link, "sluice tenants shows what each has in memory");
    }
}

/* The message's jobs, one for each transport it goes by. */
static void put_active(struct why *w, uint64_t id)
{
    const struct engine *e = w->clerk->engine;
    for (uint32_t t = 0; t < w->transport_count; t++) {
        const struct sched *s = sched_thread_core(e->scheds[t % e->sched_count], t);
        struct sched_job_view job;
        uint64_t cursor = 0;
        while (sched_view_jobs(s, &cursor, &job)) {
            if (job.message_id != id) {
                continue;
            }
            json_t *link = why_link(w, 0, "the scheduler of %s has it: %u %s waiting, %u in flight",
                                    w->config->transports[t].name, job.waiting,
                                    plural(job.waiting, "delivery", "deliveries"), job.in_flight);
            if (job.waiting > 0 && job.why != SCHED_WHY_NOTHING) {
                why_because(link, slice_of(sched_why_text(job.why)));
            }
            if (job.waiting > 0) {
                put_turns(w, s, &job.flow);
            }
        }
    }
}

static void put_jobs(struct view *v)
{
    put_active(v->why, v->envelope->id);
}

static void put_scheduled(struct view *v)
{
    json_t *link = why_link(v->why, 0, "its sender wants it delivered later");
    why_until(v->why, link, v->envelope->not_before);
}

static void put_expiry(struct view *v)
{
    const struct config *c = v->why->config;
    const struct message m = {.envelope = *v->envelope};
    bool is_bounce = v->envelope->sender.len == 0;
    const struct config_tenant *tenant = config_tenant_find(c, v->envelope->tenant);
    bool is_tenants = tenant != NULL && tenant->has_lifetime &&
                      (!is_bounce || tenant->maximal_queue_lifetime < c->bounce_queue_lifetime);
    json_t *link = why_link(v->why, 0, "it is given up when it is too old");
    if (v->envelope->expires != 0) {
        why_because(link, SLICE("its sender said when"));
    } else if (is_tenants) {
        why_span(v->why, link, CONFIG_SECTION_TENANT, (size_t)(tenant - c->tenants),
                 "maximal_queue_lifetime", tenant->maximal_queue_lifetime);
    } else if (is_bounce) {
        why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "bounce_queue_lifetime",
                 c->bounce_queue_lifetime);
    } else {
        why_span(v->why, link, CONFIG_SECTION_GLOBAL, 0, "maximal_queue_lifetime",
                 c->maximal_queue_lifetime);
    }
    why_until(v->why, link, message_expires(&m, c));
    why_next(link, is_bounce ? "a notice that cannot be delivered is dropped"
                             : "then it goes back to its sender");
}

/* --- groups ----------------------------------------------------------------------------------- */

static void put_group(struct view *v, const struct group *g)
{
    struct spool_reason reason;
    json_t *link;
    if (g->is_routed) {
        link = why_link(v->why, 0, "%llu %s for %s by %s: %s", (unsigned long long)g->count,
                        plural(g->count, "recipient", "recipients"), g->destination,
                        v->why->config->transports[g->transport].name, queue_state_text(g->state));
    } else {
        link = why_link(v->why, 0, "%llu %s in %s: %s, and no route leads there any more",
                        (unsigned long long)g->count, plural(g->count, "recipient", "recipients"),
                        g->domain, queue_state_text(g->state));
    }
    if (g->has_reason &&
        spool_read_reason(v->walk.from.reader, v->envelope->id, g->newest, &reason) == 0) {
        char text[REPLY_LINE_MAX];
        why_reply(v->why, link,
                  slice_of(reply_line(reason.code, reason.status, reason.text, text)));
    }
    if (g->state == QUEUE_SUSPENDED) {
        const struct slice facts[SELECTOR_COUNT] = {
            [SELECTOR_TENANT] = v->envelope->tenant,
            [SELECTOR_CAMPAIGN] = v->envelope->campaign,
            [SELECTOR_DOMAIN] = slice_of(g->domain),
            [SELECTOR_DESTINATION] = slice_of(g->destination),
            [SELECTOR_TRANSPORT] =
                g->is_routed ? slice_of(v->why->config->transports[g->transport].name) : SLICE(""),
        };
        struct destination_site site = {.key = SLICE("")};
        if (g->is_routed) {
            destination_site_find(v->why->clerk->engine, g->transport, slice_of(g->destination),
                                  &site);
        }
        (void)why_orders(v->why, 1, facts, site.key);
    } else if (g->is_routed && g->state != QUEUE_SCHEDULED && v->why->owner.len > 0) {
        (void)why_link(
            v->why, 1,
            "what its receiver allows is shared with other tenants, and told to operators");
    } else if (g->is_routed && g->state != QUEUE_SCHEDULED) {
        (void)why_destination(v->why, 1, g->transport, slice_of(g->destination), pool_of(v));
    }
}

static bool has_state(const struct view *v, enum queue_state state)
{
    for (size_t i = 0; i < v->group_count; i++) {
        if (v->groups[i].state == state) {
            return true;
        }
    }
    return false;
}

/* Known from the first attempt on. */
static void put_signatures(const struct view *v)
{
    struct spool_signing record;
    struct dkim_signer s;
    if (spool_read_signing(v->walk.from.reader, v->envelope->id, &record) != 0) {
        return;
    }
    while (dkim_signature_next(&record.fields, &s)) {
        char domain[256], selector[64], algorithm[32];
        keep_value(domain, sizeof(domain), s.domain);
        keep_value(selector, sizeof(selector), s.selector);
        keep_value(algorithm, sizeof(algorithm), s.algorithm);
        json_t *link = why_link(v->why, 0, "it goes out signed by %s (selector %s, %s)", domain,
                                selector, algorithm);
        if (record.expires != 0) {
            why_until(v->why, link, record.expires);
        }
    }
}

static void put_all(struct view *v)
{
    static void (*const parts[QUEUE_STATE_COUNT])(struct view *) = {
        [QUEUE_INCOMING] = put_incoming,
        [QUEUE_ACTIVE] = put_jobs,
        [QUEUE_DEFERRED] = put_due,
        [QUEUE_SCHEDULED] = put_scheduled,
    };
    for (size_t i = 0; i < v->group_count; i++) {
        put_group(v, &v->groups[i]);
    }
    if (v->others > 0) {
        (void)why_link(v->why, 0, "%llu %s for further destinations", (unsigned long long)v->others,
                       plural(v->others, "recipient", "recipients"));
    }
    for (enum queue_state state = 0; state < QUEUE_STATE_COUNT; state++) {
        if (parts[state] != NULL && has_state(v, state)) {
            parts[state](v);
        }
    }
    if (v->undone == 0) {
        (void)why_link(v->why, 0, "all its recipients are done: it is about to leave the queue");
    } else {
        put_signatures(v);
        put_expiry(v);
    }
}

static void put_about(const struct view *v, const char *id)
{
    json_t *about = v->why->about;
    api_set_text(about, "message", slice_of(id));
    api_set_text(about, "sender", v->envelope->sender);
    api_set_text(about, "tenant", v->envelope->tenant);
    api_set_text(about, "campaign", v->envelope->campaign);
    api_set_time(about, "created", v->envelope->created);
    api_set_number(about, "recipients", v->envelope->recipient_count);
    api_set_number(about, "pending", v->undone);
}

/* The spool cannot be read, and what schedulers have of the message can. */
static void put_without_spool(struct why *w, uint64_t id)
{
    char text[MESSAGE_ID_TEXT];
    why_refresh(w);
    message_id_format(id, text);
    api_set_text(w->about, "message", slice_of(text));
    why_gates(w, 0);
    put_active(w, id);
}

int why_message(struct why *w, uint64_t id)
{
    static const struct queue_filter any;
    char text[MESSAGE_ID_TEXT];
    struct queue_source from;
    struct view v = {.why = w};
    clerk_source(w->clerk, &from);
    queue_walk_begin(&v.walk, &from, &any, id - 1, true);
    bool is_there = queue_walk_next(&v.walk) && v.walk.message.envelope.id == id;
    int err = 0;
    if (!is_there) {
        err = v.walk.error != 0 ? v.walk.error : ERR_MISSING;
    }
    if (err == 0) {
        why_refresh(w); /* waiting for the spool may have let a reload happen */
        v.envelope = &v.walk.message.envelope;
        gather(&v);
        message_id_format(id, text);
        put_about(&v, text);
        why_gates(w, 0);
        put_all(&v);
    }
    queue_walk_end(&v.walk);
    if (err == ERR_AGAIN && w->owner.len == 0) {
        put_without_spool(w, id);
    }
    return err;
}
