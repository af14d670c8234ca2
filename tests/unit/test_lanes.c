/* The lanes of a core, between it and struct limits: connections and acceptances are counted once, what
 * was lent and not used comes back, and nothing is left of a lane that is gone. The test is the
 * scheduler thread, and says what a worker would. */
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

static void *lend(void *ctx, size_t size)
{
    return malloc(size);
}

static void take_back(void *ctx, void *obj)
{
    free(obj);
}

static void release_hosts(void *ctx, void *hosts)
{
}

static void load(struct state *s, const char *options, const struct source_table *before,
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

static void unload(struct state *s)
{
    if (s->sample.config != NULL) {
        source_table_free(s->settings.sources);
        policy_table_free(s->settings.policies);
        config_free(s->sample.config);
    }
    memset(s, 0, sizeof(*s));
}

/* As engine/schedule/core_sources does. */
static void use(struct state *s)
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

static void begin(const char *options)
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
    const struct lanes_config l = {
        .engine = engine, .box = &box, .sched = core, .transport = 0, .slot_count = SLOTS / 2};
    assert_int_equal(lanes_init(&lanes, &l), 0);
    assert_int_equal(lanes_grow(&lanes, SLOTS), 0);
    assert_int_equal(lanes.slot_count, SLOTS);
}

static void end(void)
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

static void submit(const char *nexthop)
{
    const struct sched_recipient to = {
        .address = SLICE("a@x"), .nexthop = slice_of(nexthop), .index = 0};
    const struct sched_message m = {
        .id = next_id++, .handle = message, .recipients = &to, .recipient_count = 1};
    assert_int_equal(sched_submit(core, &m, now), 0);
}

/* Two hosts. */
static void resolve(struct sched_destination *d)
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
static struct sched_action pull(void)
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
static struct sched_action pull_past_ends(void)
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

static void settle(void)
{
    assert_int_equal(pull_past_ends().kind, SCHED_NONE);
}

static struct delivery deliver(void)
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

static void report(struct delivery *d)
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

/* What a worker reports of a message that the server took. */
static void accept_one(struct delivery *d)
{
    d->depth = 1;
    d->taken_messages = d->taken_recipients = 1;
    d->feedback = SCHED_POSITIVE;
}

/* No connection: it is to go to the next server. */
static void fail_to_connect(struct delivery *d)
{
    d->connection_open = false;
    d->again = d->server_tried = d->server_failed = true;
    d->feedback = SCHED_NEUTRAL;
}

static struct limit_lane_report look(const char *source)
{
    struct limit_lane_report r;
    const struct limit_key key = {
        .source = slice_of(source), .site = slice_of(site), .hosts = SLICE("")};
    if (!limits_report_lane(engine->limits, &key, now, clock_wall(), &r)) {
        fail_msg("no lane of %s at %s", source, site);
    }
    return r;
}

static uint32_t lanes_held(void)
{
    struct limit_lane_report r;
    uint32_t at = 0, held = 0;
    while (limits_report(engine->limits, &at, &r, 1, now, clock_wall()) > 0) {
        held += r.holds;
    }
    return held;
}

/* --- connections and what they carry ------------------------------------------------------------ */

static void a_connection_counts_once_whatever_it_carries(void **state)
{
    begin("source_pool = one");
    submit("x");
    submit("x");
    struct delivery d = deliver();
    const struct lane_slot *slot = &lanes.slots[d.connection];
    assert_true(d.connection_is_new);
    assert_non_null(slot->lane);
    assert_int_equal(look("a").open_connections, 0); /* it is not made yet */
    struct delivery e = deliver();
    assert_true(e.connection_is_new && e.connection != d.connection);
    accept_one(&d);
    report(&d);
    assert_int_equal(look("a").open_connections, 1);
    submit("x");
    d = deliver();
    assert_false(d.connection_is_new);
    assert_ptr_equal(&lanes.slots[d.connection], slot);
    accept_one(&d);
    d.taken_messages = 2; /* its first MAIL was reset */
    d.connection_open = false;
    d.connection_ends = true;
    report(&d);
    assert_int_equal(slot->messages, 3);
    assert_int_equal(look("a").open_connections, 1); /* its end is awaited */
    lanes_closed(&lanes, d.connection, now);
    sched_connection_closed(core, d.connection, now);
    assert_int_equal(look("a").open_connections, 0);
    assert_null(slot->lane);
    lanes_closed(&lanes, d.connection, now); /* nobody is there any more */
    accept_one(&e);
    e.connection_open = false;
    report(&e);
    assert_int_equal(look("a").open_connections, 0);
    (void)pull();
    end();
}

/* Its last server failed it, and meanwhile its place was given to another connection. */
static void what_is_exhausted_leaves_the_next_connection_of_its_place_alone(void **state)
{
    begin("source_pool = one");
    submit("x");
    struct delivery d = deliver();
    fail_to_connect(&d);
    report(&d);
    assert_null(lanes.slots[d.connection].lane);
    submit("y");
    struct sched_action a = pull();
    assert_int_equal(a.kind, SCHED_DELIVER); /* d again, at the other server */
    assert_ptr_equal(a.entry, d.entry);
    d.connection = a.connection;
    d.connection_is_new = a.connection_is_new;
    d.again = d.server_tried = d.server_failed = false;
    d.connection_open = true;
    lanes_deliver(&lanes, &a, &d, now);
    d.depth = 1; /* the server took its MAIL, and went away */
    d.taken_messages = d.taken_recipients = 1;
    d.connection_open = false;
    d.again = d.server_tried = true;
    report(&d);
    uint32_t place = d.connection;
    assert_null(lanes.slots[place].lane);
    assert_int_equal(look("a").open_connections, 0);
    assert_int_equal(pull_past_ends().kind, SCHED_EXHAUSTED);
    struct delivery e = deliver();
    assert_int_equal(e.connection, place);
    accept_one(&e);
    lanes_heard(&lanes, &e, now);
    assert_int_equal(lanes.slots[place].messages, 1);
    /* As dispatch_exhausted leaves it: its lane has heard all of it. */
    delivery_forget_session(&d);
    lanes_heard(&lanes, &d, now);
    lanes_parted(&lanes, &d, now);
    assert_int_equal(lanes.slots[place].messages, 1);
    assert_non_null(lanes.slots[place].lane);
    assert_int_equal(look("a").open_connections, 1);
    const struct sched_outcome o = {.entry = d.entry, .has_deferred = true};
    sched_report(core, &o, now);
    e.taken_messages = 0;
    e.connection_open = false;
    report(&e);
    assert_int_equal(look("a").open_connections, 0);
    (void)pull();
    end();
}

/* Throttled at its recipient or behind its content, a message was not let through, although its MAIL
 * was taken: to the pace it is refused and not accepted as well. It counts in its session. */
static void what_is_throttled_behind_its_mail_is_not_accepted(void **state)
{
    begin("source_pool = one");
    submit("x");
    struct delivery d = deliver();
    const struct lane_slot *slot = &lanes.slots[d.connection];
    struct refusal refusal = {.class = REPLY_THROTTLED,
                              .scope = REPLY_MESSAGES,
                              .verdict = {.stage = OUTCOME_STAGE_RCPT}};
    struct request request = {.refusal = &refusal};
    d.depth = 1;
    d.taken_messages = 1;
    d.is_refused = true;
    d.request = &request;
    lanes_heard(&lanes, &d, now);
    assert_int_equal(slot->messages, 1);
    assert_int_equal(look("a").last_accepted, 0);
    refusal.class = REPLY_MAILBOX; /* that recipient alone */
    lanes_heard(&lanes, &d, now);
    assert_int_equal(slot->messages, 2);
    assert_true(look("a").last_accepted > 0);
    d.is_refused = false;
    d.request = NULL;
    accept_one(&d);
    report(&d);
    end();
}

static void others_of_the_lane_are_known(void **state)
{
    begin("source_pool = one");
    submit("x");
    submit("x");
    struct delivery d = deliver();
    struct sched_action a = pull();
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_false(lanes_have_others(&a)); /* the first one is not made yet */
    struct delivery e = {.entry = a.entry, .message = message, .connection = a.connection};
    lanes_deliver(&lanes, &a, &e, now);
    accept_one(&d);
    report(&d);
    submit("x");
    submit("x");
    d = deliver(); /* on the first connection */
    a = pull();
    assert_true(a.kind == SCHED_DELIVER && a.connection_is_new);
    assert_true(lanes_have_others(&a));
    struct delivery f = {.entry = a.entry, .message = message, .connection = a.connection};
    lanes_deliver(&lanes, &a, &f, now);
    report(&d);
    report(&e);
    report(&f);
    assert_int_equal(look("a").open_connections, 1);
    end();
}

/* --- loans -------------------------------------------------------------------------------------- */

static void what_no_receiver_had_is_given_back(void **state)
{
    begin("source_pool = one max_message_rate = \"1/h\"");
    submit("x");
    struct delivery d = deliver();
    assert_true(d.is_lent);
    fail_to_connect(&d);
    report(&d);
    struct sched_action a = pull(); /* else it waits for an hour */
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_ptr_equal(a.entry, d.entry);
    d = (struct delivery){.entry = a.entry,
                          .message = message,
                          .connection = a.connection,
                          .destination = SLICE("x"),
                          .connection_open = true};
    lanes_deliver(&lanes, &a, &d, now);
    accept_one(&d);
    report(&d);
    submit("x");
    assert_int_equal(pull().kind, SCHED_NONE); /* that one was used */
    now += 1800 * SECOND;
    settle();
    now += 1801 * SECOND;
    d = deliver();
    accept_one(&d);
    report(&d);
    end();
}

static void a_rate_of_another_configuration_counts_at_once(void **state)
{
    begin("source_pool = one max_message_rate = \"1/h\"");
    submit("x");
    struct delivery d = deliver();
    submit("x");
    assert_int_equal(pull().kind, SCHED_NONE);
    assert_int_equal(look("a").rates[LIMIT_OF_LANE].messages.span / SECOND, 3600);
    load(&second, "source_pool = one max_message_rate = \"1000/s\"", first.settings.sources, 2);
    use(&second);
    sched_forget_hosts(core, now); /* as after a reload: the answers name the site anew */
    settle();                      /* it asks, and is told a time that is near */
    assert_true(sched_wake_at(core) < now + 10 * USEC_PER_MSEC);
    now += 10 * USEC_PER_MSEC;
    struct delivery e = deliver();
    assert_int_equal(look("a").rates[LIMIT_OF_LANE].messages.count, 1000);
    accept_one(&d);
    report(&d);
    accept_one(&e);
    report(&e);
    assert_int_equal(lanes_held(), 1);
    settle();
    end();
}

/* --- sites and sources that change -------------------------------------------------------------- */

static void lanes_go_with_their_site(void **state)
{
    begin("source_pool = two");
    submit("x");
    struct delivery d = deliver();
    assert_int_equal(lanes_held(), 2); /* of both sources */
    now += 61 * SECOND;                /* what is known of x is out of date */
    site = "mx2";
    submit("x");
    struct delivery e = deliver(); /* by what is known, and asks */
    struct sched_action a = pull();
    assert_int_equal(a.kind, SCHED_NONE);
    submit("x");
    struct delivery f = deliver();
    assert_int_equal(lanes_held(), 4);
    site = "mx"; /* both lanes of it: one carries d and e, or each has one of them */
    accept_one(&d);
    accept_one(&e);
    d.connection_open = e.connection_open = false;
    report(&d);
    report(&e);
    settle();
    assert_int_equal(lanes_held(), 2); /* those at mx2 */
    accept_one(&f);
    f.connection_open = false;
    report(&f);
    settle();
    assert_int_equal(lanes_held(), 0);
    assert_true(list_is_empty(&lanes.all));
    end();
}

/* The core has forgotten it before its connection is over. */
static void a_lane_that_is_gone_stays_for_its_connection(void **state)
{
    begin("source_pool = one");
    submit("x");
    struct delivery d = deliver();
    accept_one(&d);
    report(&d);
    const struct sched_lane_key key = {slice_of(site), d.source};
    const struct sched_loan nothing = {.lane = {SLICE(""), 0}};
    const struct sched_action gone = {
        .kind = SCHED_LANE_GONE, .lane_user = sched_lane_user(core, key), .loan = &nothing};
    assert_non_null(gone.lane_user);
    assert_true(sched_lane_attach(core, key, NULL, now));
    lanes_gone(&gone, now);
    assert_int_equal(lanes_held(), 1);
    assert_int_equal(look("a").open_connections, 1);
    lanes_closed(&lanes, d.connection, now);
    assert_int_equal(lanes_held(), 0);
    sched_connection_closed(core, d.connection, now);
    end();
}

static void a_source_that_a_reload_takes_away_leaves_nothing(void **state)
{
    begin("source_pool = two");
    submit("x");
    submit("x");
    struct delivery d = deliver(), e = deliver(); /* one of each source: they take turns */
    assert_int_not_equal(d.source, e.source);
    accept_one(&d);
    report(&d);
    load(&second, "source_pool = one", first.settings.sources, 2);
    use(&second);
    accept_one(&e);
    report(&e);
    settle();
    submit("x");
    struct delivery f = deliver();
    accept_one(&f);
    report(&f);
    assert_int_equal(look("a").open_connections + look("a").holds, 2);
    assert_int_equal(look("b").open_connections, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_counts_once_whatever_it_carries),
        cmocka_unit_test(what_is_exhausted_leaves_the_next_connection_of_its_place_alone),
        cmocka_unit_test(what_is_throttled_behind_its_mail_is_not_accepted),
        cmocka_unit_test(others_of_the_lane_are_known),
        cmocka_unit_test(what_no_receiver_had_is_given_back),
        cmocka_unit_test(a_rate_of_another_configuration_counts_at_once),
        cmocka_unit_test(lanes_go_with_their_site),
        cmocka_unit_test(a_lane_that_is_gone_stays_for_its_connection),
        cmocka_unit_test(a_source_that_a_reload_takes_away_leaves_nothing),
    };
    rcu_start();
    rcu_join(); /* as a scheduler thread, which reads the settings */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_stop();
    return failed;
}
