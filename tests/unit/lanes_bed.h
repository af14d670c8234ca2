/* The lanes of a core with limits, without threads: the test is the scheduler thread. Included by one
 * test program each. */
#ifndef TESTS_UNIT_LANES_BED_H
#define TESTS_UNIT_LANES_BED_H

#include "base/error.h"
#include "base/mailbox.h"
#include "base/rcu.h"
#include "engine/config/policy.h"
#include "engine/config/router.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_report.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/message.h"
#include "engine/schedule/lanes.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/sched.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>
#include <string.h>

#define SECOND USEC_PER_SEC
#define SLOTS  10

/* A configuration in force. */
struct state {
    struct sample sample;
    struct settings settings;
};

static struct state first, second;
static struct engine *engine;
static struct mailbox box;
static struct sched *core;
static struct lanes lanes;
static struct message *message;
static const char *site = "mx"; /* that answers of the resolver name */
static uint64_t next_id;
static usec_t now;

static inline void *lend(void *ctx, size_t size)
{
    return malloc(size);
}

static inline void take_back(void *ctx, void *obj)
{
    free(obj);
}

static inline void release_hosts(void *ctx, void *hosts)
{
}

static inline void load(struct state *s, const char *options, const struct source_table *before,
                        uint64_t serial)
{
    char text[1024], error[SOURCE_TABLE_TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   "source a { address = 127.0.0.1 }\n"
                   "source b { address = 127.0.0.2 }\n"
                   "pool one { sources = {a} }\n"
                   "pool two { sources = {a, b} }\n"
                   "transport t { %s }\n"
                   "route \"*\" { transport = t }\n",
                   options);
    sample_load(&s->sample, text);
    if (s->sample.err != 0) {
        fail_msg("%s", s->sample.said);
    }
    s->settings = (struct settings){.config = s->sample.config, .serial = serial};
    assert_int_equal(policy_table_new(s->sample.config, &s->settings.policies), 0);
    assert_int_equal(source_table_new(s->sample.config, before, &s->settings.sources, error), 0);
}

static inline void unload(struct state *s)
{
    if (s->sample.config != NULL) {
        source_table_free(s->settings.sources);
        policy_table_free(s->settings.policies);
        config_free(s->sample.config);
    }
    memset(s, 0, sizeof(*s));
}

/* As engine/schedule/core_sources does. */
static inline void use(struct state *s)
{
    const struct source_table *t = s->settings.sources;
    uint64_t pools[8];
    uint16_t weights[8 * SCHED_SOURCES_MAX] = {0};
    assert_true(t->pool_count <= 8);
    source_table_masks(t, s->settings.config, 0, 0, pools);
    const struct transport_sources *from = &t->transports[0];
    bool is_weighed = source_table_weights(t, s->settings.config, 0, weights);
    const struct sched_pools all = {pools, is_weighed ? weights : NULL, t->pool_count};
    assert_int_equal(sched_set_sources(core, from->given, from->count, &all, now), 0);
    engine->settings = &s->settings;
}

static inline void begin(const char *options)
{
    const struct sched_host host = {.alloc = lend, .release = take_back, .retire = take_back};
    const struct limits_config limits = {.lane_memory = 3600 * SECOND, .seed = 1};
    const struct spool_envelope e = {.id = 1, .recipient_count = 1, .sender = SLICE("s@y")};
    struct sched_config config;
    now = SECOND;
    next_id = 1;
    site = "mx";
    load(&first, options, NULL, 1);
    sched_config_defaults(&config);
    config.process_limit = SLOTS;
    config.must_resolve = config.awaits_end = true;
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    assert_non_null(engine);
    memset(engine, 0, sizeof(*engine));
    engine->limits = limits_new(&limits);
    core = sched_new(&config, &host, release_hosts, now);
    message = message_new_whole(&e, SLICE("\0\3a@x"));
    assert_true(engine->limits != NULL && core != NULL && message != NULL);
    assert_int_equal(mailbox_init(&box, 16), 0);
    use(&first);
    const struct lanes_config l = {.engine = engine,
                                   .box = &box,
                                   .sched = core,
                                   .transport = 0,
                                   .name = "smtp",
                                   .slot_count = SLOTS / 2};
    assert_int_equal(lanes_init(&lanes, &l), 0);
    assert_int_equal(lanes_grow(&lanes, SLOTS), 0);
    assert_int_equal(lanes.slot_count, SLOTS);
}

static inline void end(void)
{
    lanes_fini(&lanes);
    struct limit_lane_report r;
    uint32_t at = 0;
    while (limits_report(engine->limits, &at, &r, 1, now, clock_wall()) > 0) {
        assert_int_equal(r.holds, 0);
        assert_int_equal(r.open_connections, 0);
    }
    sched_free(core);
    limits_free(engine->limits);
    mailbox_fini(&box);
    message_put(message);
    free(engine);
    unload(&second);
    unload(&first);
}

/* --- the scheduler thread ----------------------------------------------------------------------- */

static inline void submit(const char *nexthop)
{
    const struct sched_recipient to = {
        .address = SLICE("a@x"), .nexthop = slice_of(nexthop), .index = 0};
    const struct sched_message m = {
        .id = next_id++, .handle = message, .recipients = &to, .recipient_count = 1};
    assert_int_equal(sched_submit(core, &m, now), 0);
}

/* Two hosts. */
static inline void resolve(struct sched_destination *d)
{
    const struct settings *s = engine->settings;
    struct sched_server servers[2] = {{.key_len = 1, .key = {1}}, {.key_len = 1, .key = {2}}};
    const struct sched_hosts_result r = {.destination = d,
                                         .resolution = SCHED_RESOLVED,
                                         .hosts = &lanes,
                                         .expires = now + 60 * SECOND,
                                         .servers = servers,
                                         .server_count = 2,
                                         .site = slice_of(site)};
    const struct policy *p =
        policy_of(s->policies, 0, sched_destination_nexthop(d), slice_of(site));
    const struct lanes_site found = {
        .key = r.site, .name = r.site, .policy = p->site, .settings = s};
    sched_resolved(core, &r, now);
    lanes_found(&lanes, &found, now);
    lanes_follow(&lanes, now);
}

/* The next action that is not the shell's own business. */
static inline struct sched_action pull(void)
{
    struct sched_action a;
    lanes_follow(&lanes, now);
    while (sched_pull(core, &a, now)) {
        switch (a.kind) {
        case SCHED_RESOLVE:
            resolve(a.destination);
            break;
        case SCHED_ASK:
            lanes_ask(&lanes, &a, now);
            break;
        case SCHED_RETURN:
            lanes_return(&a, now);
            break;
        case SCHED_LANE_GONE:
            lanes_gone(&a, now);
            break;
        case SCHED_CLOSE:
            if (!a.end_is_awaited) {
                lanes_closed(&lanes, a.connection, now);
            }
            return a;
        case SCHED_FINISHED:
            break;
        case SCHED_DELIVER:
        case SCHED_EXHAUSTED:
        case SCHED_DEFER:
        case SCHED_BOUNCE:
        case SCHED_READ:
        case SCHED_OWNER_ASKS:
        case SCHED_OWNER_RETURNS: /* nobody is limited */
        case SCHED_NONE:
        default:
            return a;
        }
    }
    return a;
}

/* Past the connections that end; their workers say so at once. */
static inline struct sched_action pull_past_ends(void)
{
    struct sched_action a;
    while ((a = pull()).kind == SCHED_CLOSE) {
        if (a.end_is_awaited) {
            lanes_closed(&lanes, a.connection, now);
            sched_connection_closed(core, a.connection, now);
        }
    }
    return a;
}

static inline void settle(void)
{
    assert_int_equal(pull_past_ends().kind, SCHED_NONE);
}

static inline struct delivery deliver(void)
{
    struct sched_action a = pull_past_ends();
    assert_int_equal(a.kind, SCHED_DELIVER);
    struct delivery d = {.entry = a.entry,
                         .message = message,
                         .connection = a.connection,
                         .connection_is_new = a.connection_is_new,
                         .source = a.source,
                         .destination = sched_destination_name(a.destination),
                         .connection_open = true};
    lanes_deliver(&lanes, &a, &d, now);
    return d;
}

static inline void report(struct delivery *d)
{
    lanes_heard(&lanes, d, now);
    lanes_parted(&lanes, d, now);
    const struct sched_outcome o = {.entry = d->entry,
                                    .feedback = d->feedback,
                                    .has_deferred = d->has_deferred,
                                    .connection_open = d->connection_open,
                                    .connection_ends = d->connection_ends,
                                    .again = d->again,
                                    .server_failed = d->server_failed,
                                    .server_tried = d->server_tried,
                                    .depth = d->depth};
    sched_report(core, &o, now);
}

#endif
