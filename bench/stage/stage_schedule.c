/* The scheduling of one message: submitted, pulled, reported as delivered, finished. Called by
 * sluice-instructions. Plays the shell as engine/sched_thread does, with a queue that never runs
 * dry until the last message was submitted. */
#include "bench/stage/stage.h"
#include "sched/sched.h"

#include <stdio.h>
#include <stdlib.h>

#define AHEAD         200 /* messages in the core */
#define MANY          50
#define SITES         5
#define SOURCES       3
#define IN_FLIGHT_MAX 1024
#define NAME_BYTES    40
#define LENT_MAX      20 /* messages, by one answer to SCHED_ASK */
#define ODD           UINT64_C(0x9e3779b97f4a7c15)

/* Who gets the messages, and from where. */
struct schedule_plan {
    const char *stage;
    uint32_t destinations;
    uint32_t sites;   /* 0: each destination is on its own */
    uint32_t sources; /* 0: the one that a core begins with */
    int window_limit; /* of each lane; 0: none, so that nothing waits for long */
    bool is_limited;  /* the lanes of the sites send what is lent to them, as under a rate */
    uint32_t tenants; /* 0: all mail is of one flow */
};

struct schedule {
    const char *stage;
    const struct schedule_plan *plan;
    struct sched *core;
    uint32_t destinations;
    char names[MANY][NAME_BYTES];
    struct sched_entry *flight[IN_FLIGHT_MAX]; /* oldest first, from flight_first on */
    uint32_t flight_first, flight_count;
    uint64_t submitted, delivered, finished;
    bool has_failed;
    usec_t now;
};

static void *allocate_stage_memory(void *ctx, size_t size)
{
    return malloc(size);
}

static void release_stage_memory(void *ctx, void *obj)
{
    free(obj);
}

static void release_stage_hosts(void *ctx, void *hosts)
{
}

static void fail_schedule(struct schedule *s, const char *what)
{
    s->has_failed = true;
    (void)stage_fail(s->stage, what);
}

static void submit_message(struct schedule *s)
{
    /* In no order that repeats: each tenant writes to all. */
    uint64_t number = s->plan->tenants > 0 ? s->submitted * ODD >> 32 : s->submitted;
    const char *name = s->names[number % s->destinations];
    const struct sched_recipient to = {slice_of(name), slice_of(name + 2), 0, 0};
    struct sched_message part = {
        .id = ++s->submitted, .handle = s, .recipients = &to, .recipient_count = 1};
    if (s->plan->tenants > 0) {
        part.flow.class = SCHED_NORMAL;
        part.flow.tenant = 1 + (uint32_t)(number / s->destinations % s->plan->tenants);
    }
    if (sched_submit(s->core, &part, s->now) != 0) {
        fail_schedule(s, "a message was not taken");
    }
}

static void limit_lanes(struct schedule *s, struct slice site)
{
    for (uint32_t i = 0; i < s->plan->sources; i++) {
        const struct sched_lane_key lane = {site, i + 1};
        if (!sched_lane_limit(s->core, lane, true, s->now)) {
            fail_schedule(s, "a lane is not known");
        }
    }
}

static void resolved(struct schedule *s, struct sched_destination *d)
{
    struct slice name = sched_destination_name(d);
    struct sched_server server = {.key_len = 6};
    char site[] = "site0";
    if (s->plan->sites > 0) {
        site[4] = (char)('a' + (uint8_t)name.data[1] % s->plan->sites);
        name = slice_make(site, 5);
    }
    for (size_t i = 0; i < name.len; i++) {
        server.key[i % 6] = (uint8_t)(server.key[i % 6] * 31 + name.data[i]);
    }
    const struct sched_hosts_result r = {
        .destination = d,
        .resolution = SCHED_RESOLVED,
        .hosts = s,
        .expires = USEC_NEVER,
        .servers = &server,
        .server_count = 1,
        .site = s->plan->sites > 0 ? name : SLICE(""),
    };
    sched_resolved(s->core, &r, s->now);
    if (s->plan->is_limited) {
        limit_lanes(s, name);
    }
}

static void lend(struct schedule *s, const struct sched_loan *ask)
{
    const struct sched_grant lent = {
        .messages = ask->wanted < LENT_MAX ? ask->wanted : LENT_MAX,
        .connects = SCHED_NO_BOUND_OF_CONNECTS,
        .recipients = SCHED_NO_BOUND,
        .from = s->now,
        .until = s->now + 10 * USEC_PER_MSEC,
        .per_second = 2000,
        .is_ample = true,
    };
    if (!sched_lane_grant(s->core, ask->lane, &lent, s->now)) {
        fail_schedule(s, "a lane asked and does not take");
    }
}

static void take_action(struct schedule *s, const struct sched_action *a)
{
    switch (a->kind) {
    case SCHED_DELIVER:
        if (s->flight_count == IN_FLIGHT_MAX) {
            fail_schedule(s, "more entries are in flight than the limits allow");
            return;
        }
        s->flight[(s->flight_first + s->flight_count++) % IN_FLIGHT_MAX] = a->entry;
        break;
    case SCHED_RESOLVE:
        resolved(s, a->destination);
        break;
    case SCHED_FINISHED:
        s->finished++;
        break;
    case SCHED_ASK:
        lend(s, a->loan);
        break;
    case SCHED_RETURN: /* what is left is nobody else's */
        break;
    case SCHED_LANE_GONE: /* no lane has a user */
    case SCHED_OWNER_ASKS:
    case SCHED_OWNER_RETURNS: /* nor is any owner there */
    case SCHED_NONE:
    case SCHED_CLOSE:
    case SCHED_DEFER:
    case SCHED_BOUNCE:
    case SCHED_READ:
    case SCHED_EXHAUSTED:
    default:
        fail_schedule(s, "the core wants what nobody gave a reason for");
    }
}

static void pull_actions(struct schedule *s)
{
    struct sched_action a;
    while (!s->has_failed && sched_pull(s->core, &a, s->now)) {
        take_action(s, &a);
    }
}

static void report_schedule(struct schedule *s)
{
    if (s->flight_count == 0) {
        fail_schedule(s, "messages wait and none is in flight");
        return;
    }
    struct sched_entry *entry = s->flight[s->flight_first];
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(entry, &count);
    if (count != 1 || indexes[0] != 0 || sched_entry_handle(entry) != s) {
        fail_schedule(s, "another entry came out than went in");
    }
    const struct sched_outcome o = {
        .entry = entry, .feedback = SCHED_POSITIVE, .connection_open = true, .depth = 2};
    s->flight_first = (s->flight_first + 1) % IN_FLIGHT_MAX;
    s->flight_count--;
    s->delivered++;
    sched_report(s->core, &o, s->now);
}

static bool prepare_schedule(struct schedule *s, const struct schedule_plan *plan)
{
    static const struct schedule zero;
    struct sched_source sources[SOURCES];
    struct sched_config c;
    const struct sched_host host = {allocate_stage_memory, release_stage_memory,
                                    release_stage_memory, NULL};
    *s = zero;
    s->plan = plan;
    s->stage = plan->stage;
    s->destinations = plan->destinations;
    for (uint32_t i = 0; i < plan->destinations; i++) {
        (void)snprintf(s->names[i], NAME_BYTES, "u@d%u.example.test", i);
    }
    sched_config_defaults(&c);
    c.must_resolve = true;
    if (plan->sites > 0) {
        c.process_limit = IN_FLIGHT_MAX; /* room for the windows of all lanes: none is closed */
        c.destination_concurrency_limit = plan->window_limit;
    }
    s->core = sched_new(&c, &host, release_stage_hosts, 0);
    if (s->core == NULL) {
        return stage_fail(plan->stage, "out of memory");
    }
    for (uint32_t i = 0; i < plan->sources; i++) {
        sources[i] = (struct sched_source){i + 1, (uint16_t)(i + 1), 1};
    }
    if (plan->sources > 0 &&
        sched_set_sources(s->core, sources, plan->sources, NULL, s->now) != 0) {
        sched_free(s->core);
        return stage_fail(plan->stage, "the sources were not taken");
    }
    return true;
}

static bool run_schedule(const struct schedule_plan *plan, uint64_t messages)
{
    struct schedule s;
    if (!prepare_schedule(&s, plan)) {
        return false;
    }
    while (!s.has_failed && s.finished < messages) {
        while (s.submitted < messages && s.submitted - s.finished < AHEAD) {
            submit_message(&s);
        }
        pull_actions(&s);
        s.now += 50;
        report_schedule(&s);
        pull_actions(&s);
    }
    sched_free(s.core);
    return !s.has_failed &&
           (s.delivered == messages || stage_fail(plan->stage, "not all messages came out"));
}

bool stage_schedule(const struct stage_message *m, uint64_t messages)
{
    static const struct schedule_plan plan = {.stage = "schedule", .destinations = 1};
    (void)m; /* the core sees names only */
    return run_schedule(&plan, messages);
}

bool stage_schedule_many(const struct stage_message *m, uint64_t messages)
{
    static const struct schedule_plan plan = {.stage = "schedule-50", .destinations = MANY};
    (void)m;
    return run_schedule(&plan, messages);
}

bool stage_schedule_site(const struct stage_message *m, uint64_t messages)
{
    static const struct schedule_plan plan = {
        .stage = "schedule-site", .destinations = MANY, .sites = SITES};
    (void)m;
    return run_schedule(&plan, messages);
}

bool stage_schedule_lanes(const struct stage_message *m, uint64_t messages)
{
    static const struct schedule_plan plan = {.stage = "schedule-lanes",
                                              .destinations = MANY,
                                              .sites = SITES,
                                              .sources = SOURCES,
                                              .window_limit = 5,
                                              .is_limited = true};
    (void)m;
    return run_schedule(&plan, messages);
}

bool stage_schedule_flows(const struct stage_message *m, uint64_t messages)
{
    static const struct schedule_plan plan = {.stage = "schedule-flows",
                                              .destinations = 10,
                                              .sites = 10,
                                              .window_limit = 5,
                                              .tenants = 20};
    (void)m;
    return run_schedule(&plan, messages);
}
