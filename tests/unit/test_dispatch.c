/* A delivery on its way between a scheduler core and a worker: out, back to be placed again, and its
 * end when no server is left. The test is the worker and the spool writer. */
#include "base/post.h"
#include "base/rcu.h"
#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/limit/limits.h"
#include "engine/outbound/egress.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/reply/reply_set.h"
#include "engine/schedule/dispatch.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static struct engine *engine;
static struct settings settings; /* without rules for replies */
static struct mailbox worker_box, writer_box;
static struct mailbox *workers[] = {&worker_box};
static struct post post; /* of the scheduler thread, which is the test's */
static struct outbox *to_writer;
static struct dispatch dispatch;
static struct sched *core;
static struct message *message;
static uint16_t worker_of[10]; /* [process_limit] */

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
    dns_hosts_put(hosts);
}

static int set_up(void **state)
{
    const struct sched_host host = {.alloc = lend, .release = take_back, .retire = take_back};
    struct sched_config config;
    const struct spool_envelope e = {.id = 1, .recipient_count = 2, .sender = SLICE("s@y")};
    memset(&post, 0, sizeof(post));
    sched_config_defaults(&config);
    config.process_limit = (int)(sizeof(worker_of) / sizeof(worker_of[0]));
    config.must_resolve = config.awaits_end = true;
    engine = aligned_alloc(CACHE_LINE, sizeof(*engine));
    core = sched_new(&config, &host, release_hosts, 0);
    message = message_new_whole(&e, SLICE("\0\3a@x\0\3b@x"));
    if (engine == NULL || core == NULL || message == NULL || mailbox_init(&worker_box, 16) != 0 ||
        mailbox_init(&writer_box, 16) != 0) {
        return -1;
    }
    memset(engine, 0, sizeof(*engine));
    const struct config_sink sink = {0};
    if (reply_set_load_text(SLICE(""), "none", &sink, &settings.replies) != 0) {
        return -1;
    }
    engine->settings = &settings;
    engine->worker_count = 1;
    engine->boxes.workers = workers;
    memset(&dispatch, 0, sizeof(dispatch));
    dispatch_init(&dispatch, engine);
    int err = post_open(&post, 2);
    if (err == 0) {
        to_writer = post_write_to(&post, &writer_box);
        dispatch.to_workers = post_write_to_each(&post, workers, 1);
    }
    return err;
}

static int tear_down(void **state)
{
    post_fini(&post);
    sched_free(core);
    dispatch_fini(&dispatch);
    reply_set_free(settings.replies);
    message_put(message);
    mailbox_fini(&worker_box);
    mailbox_fini(&writer_box);
    free(engine);
    return 0;
}

static void submit(void)
{
    struct sched_recipient recipients[2];
    for (uint32_t i = 0; i < 2; i++) {
        recipients[i] = (struct sched_recipient){
            .address = message_address(message, i), .nexthop = SLICE("x"), .index = i};
    }
    const struct sched_message m = {
        .id = 1, .handle = message, .recipients = recipients, .recipient_count = 2};
    assert_int_equal(sched_submit(core, &m, 0), 0);
}

static struct sched_action pull(enum sched_action_kind kind)
{
    struct sched_action a;
    (void)sched_pull(core, &a, 0);
    assert_int_equal(a.kind, kind);
    return a;
}

/* To one server, 192.0.2.1. */
static void resolve(struct sched_destination *destination)
{
    const struct dns_host host = {
        .ip = {.family = 4, .bytes = {192, 0, 2, 1}}, .port = 25, .name = SLICE("mx.x")};
    struct dns_hosts *hosts =
        dns_hosts_new(&host, 1, &(struct dns_hosts_facts){.expires = USEC_NEVER});
    struct sched_server servers[SCHED_SERVERS_MAX];
    const struct resolution r = {.hosts = hosts};
    assert_non_null(hosts);
    const struct sched_hosts_result result = {.destination = destination,
                                              .resolution = SCHED_RESOLVED,
                                              .hosts = hosts,
                                              .servers = servers,
                                              .server_count = dispatch_list_servers(&r, servers),
                                              .expires = USEC_NEVER};
    sched_resolved(core, &result, 0);
}

/* The next letter of a box; NULL: there is none. */
static void *take(struct mailbox *box, uint32_t kind)
{
    struct letter letter;
    if (!mailbox_take(box, &letter)) {
        return NULL;
    }
    assert_int_equal(letter.kind, kind);
    assert_non_null(letter.body);
    return letter.body;
}

static void report(struct delivery *d)
{
    struct sched_outcome outcome;
    dispatch_outcome(d, &outcome);
    sched_report(core, &outcome, 0);
    dispatch_reported(&dispatch, d);
}

/* As a worker whose connect fails: the delivery comes back, to go to another server. */
static void fail_to_connect(struct delivery *d)
{
    const struct config_smtp options = {0};
    const struct egress from = {0};
    d->request = request_new(d);
    if (d->request == NULL) {
        fail_msg("out of memory");
        return;
    }
    request_begin_server(d->request, &options, false, false);
    const struct request_session session = {.host = &d->hosts->list[d->server], .address = ""};
    const struct request_unreached unreached = {&session, &from, "Connection refused", false};
    assert_false(request_unreachable(d->request, &unreached));
    d->again = d->server_tried = d->server_failed = true;
    d->feedback = SCHED_NEUTRAL;
}

static void what_no_server_is_left_for_ends_without_a_worker(void **state)
{
    post_assert_owner(&post);
    submit();
    resolve(pull(SCHED_RESOLVE).destination);
    struct sched_action a = pull(SCHED_DELIVER);
    assert_non_null(dispatch_deliver(&dispatch, 0, 0, worker_of, &a, false));
    assert_true(post_flush(&post));
    struct delivery *d = take(&worker_box, LETTER_DELIVER);
    if (d == NULL) {
        fail_msg("no delivery came to the worker");
        return;
    }
    fail_to_connect(d);
    d->taken_messages = d->taken_recipients = 1; /* as if it had accepted MAIL before */
    d->connection_open = false;
    report(d);
    assert_int_equal(atomic_load(&dispatch.in_flight), 1);
    a = pull(SCHED_EXHAUSTED);
    d = dispatch_exhausted(&dispatch, &a, to_writer);
    /* Its lane has heard that; the place of its connection may have another one. */
    assert_int_equal(d->taken_messages + d->taken_recipients, 0);
    assert_true(d->connection_open && !d->connection_ends && !d->is_refused && !d->is_lent);
    report(d);
    assert_true(post_flush(&post));
    assert_null(take(&worker_box, LETTER_DELIVER));
    struct result *r = take(&writer_box, LETTER_RESULT);
    if (r == NULL) {
        fail_msg("no result came to the writer");
        return;
    }
    assert_null(take(&writer_box, LETTER_RESULT));
    assert_ptr_equal(r->message, message);
    assert_true(r->has_dispatch && slice_eq(r->destination, SLICE("x")));
    assert_int_equal(r->count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(r->recipients[i].index, i);
        assert_int_equal(r->recipients[i].kind, RESULT_DEFERRED);
        assert_true(slice_eq(result_text(r, &r->recipients[i]),
                             SLICE("connect to mx.x[192.0.2.1]:25: Connection refused")));
    }
    result_free(r);
    assert_int_equal(atomic_load(&engine->undurable), 2); /* until the result is durable */
    assert_int_equal(atomic_load(&dispatch.in_flight), 0);
    assert_int_equal(sched_in_flight(core), 0);
    assert_ptr_equal(pull(SCHED_FINISHED).handle, message);
}

/* As a worker whose server says this to MAIL, on a connection that it closes then. */
static void refuse_mail(struct delivery *d, const struct outcome_verdict *v, bool is_last)
{
    const struct config_smtp options = {0};
    const struct smtp_client_features features = {0};
    const struct request_session session = {
        .host = &d->hosts->list[d->server], .address = "192.0.2.1", .source = SLICE("ip1")};
    struct reply_matcher *matcher = reply_matcher_new();
    const struct request_rules rules = {settings.replies, matcher, 0};
    d->request = request_new(d);
    if (d->request == NULL || matcher == NULL) {
        fail_msg("out of memory");
        return;
    }
    request_begin_server(d->request, &options, is_last, false);
    request_greeted(d->request, &options);
    (void)request_begin_transaction(d->request, &features, NULL);
    bool is_wider = request_weigh(d->request, v, &session, &rules);
    request_rest(d->request, v, is_wider);
    request_count_taken(d->request);
    assert_true(is_wider);
    assert_int_equal(d->request->outcome.undecided, 2);
    d->is_refused = true;
    reply_matcher_free(matcher);
}

static const struct outcome_verdict throttled = {
    .class = OUTCOME_SOFT,
    .scope = OUTCOME_SCOPE_SITE,
    .stage = OUTCOME_STAGE_MAIL,
    .code = 421,
    .status = {"4.7.0"},
    .text = {"host mx.x[192.0.2.1] said: 421 4.7.0 slow down, retry in 60 seconds",
             sizeof("host mx.x[192.0.2.1] said: 421 4.7.0 slow down, retry in 60 seconds") - 1},
};

static const struct limit_verdict as_said = {.fate = LIMIT_FATE_CODE, .keeps_feedback = true};

static struct delivery *deliver_refused(bool is_last)
{
    post_assert_owner(&post);
    submit();
    resolve(pull(SCHED_RESOLVE).destination);
    struct sched_action a = pull(SCHED_DELIVER);
    assert_non_null(dispatch_deliver(&dispatch, 0, 0, worker_of, &a, false));
    assert_true(post_flush(&post));
    struct delivery *d = take(&worker_box, LETTER_DELIVER);
    if (d == NULL) {
        fail_msg("no delivery came to the worker");
        return NULL;
    }
    refuse_mail(d, &throttled, is_last);
    assert_int_equal(d->request->refusal->class, REPLY_THROTTLED);
    assert_int_equal(d->request->refusal->scope, REPLY_MESSAGES);
    assert_int_equal(d->request->refusal->hint, 60 * USEC_PER_SEC);
    assert_int_equal(d->taken_messages, 0);
    return d;
}

static void what_is_held_gets_its_result_from_the_scheduler(void **state)
{
    post_assert_owner(&post);
    struct delivery *d = deliver_refused(true);
    dispatch_settle_refusal(&dispatch, d, &as_said, to_writer);
    assert_int_equal(d->feedback, SCHED_NEGATIVE); /* as a 421 to MAIL always was */
    report(d);
    assert_true(post_flush(&post));
    struct result *r = take(&writer_box, LETTER_RESULT);
    if (r == NULL) {
        fail_msg("no result came to the writer");
        return;
    }
    assert_true(slice_eq(r->host_name, SLICE("mx.x")) && slice_eq(r->source, SLICE("ip1")));
    assert_int_equal(r->count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(r->recipients[i].kind, RESULT_DEFERRED);
        assert_int_equal(r->recipients[i].class, REPLY_THROTTLED);
        assert_true(slice_eq(result_text(r, &r->recipients[i]), throttled.text));
    }
    result_free(r);
    assert_int_equal(atomic_load(&dispatch.in_flight), 0);
    assert_ptr_equal(pull(SCHED_FINISHED).handle, message);
}

/* It waits as if it had not been tried: no result, no attempt, and it is not lost either. */
static void what_is_throttled_waits_again(void **state)
{
    post_assert_owner(&post);
    const struct limit_verdict v = {
        .fate = LIMIT_FATE_AGAIN, .is_throttled = true, .is_negative = true};
    struct delivery *d = deliver_refused(true);
    assert_int_equal(atomic_load(&engine->undurable), 2);
    dispatch_settle_refusal(&dispatch, d, &v, to_writer);
    assert_int_equal(d->feedback, SCHED_SLOWER);
    d->connection_open = true;
    report(d);
    assert_true(post_flush(&post));
    assert_null(take(&writer_box, LETTER_RESULT));
    assert_int_equal(atomic_load(&engine->undurable), 0);
    assert_int_equal(atomic_load(&dispatch.in_flight), 0);
    struct sched_action a = pull(SCHED_DELIVER);
    assert_false(a.connection_is_new);
    assert_non_null(dispatch_deliver(&dispatch, 0, 0, worker_of, &a, false));
    assert_true(post_flush(&post));
    d = take(&worker_box, LETTER_DELIVER);
    if (d == NULL) {
        fail_msg("no delivery came to the worker");
        return;
    }
    assert_int_equal(atomic_load(&engine->undurable), 2);
    refuse_mail(d, &throttled, true);
    const struct limit_verdict bounce = {.fate = LIMIT_FATE_BOUNCE};
    dispatch_settle_refusal(&dispatch, d, &bounce, to_writer);
    assert_int_equal(d->feedback, SCHED_NEUTRAL);
    report(d);
    assert_true(post_flush(&post));
    struct result *r = take(&writer_box, LETTER_RESULT);
    if (r == NULL) {
        fail_msg("no result came to the writer");
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(r->recipients[i].kind, RESULT_FAILED);
        assert_string_equal(r->recipients[i].status, "5.7.0");
    }
    result_free(r);
    assert_ptr_equal(pull(SCHED_FINISHED).handle, message);
}

/* The same when its connection was gone at first: nothing of that is left in the report. */
static void what_came_back_and_is_throttled_waits_again(void **state)
{
    const struct limit_verdict v = {.fate = LIMIT_FATE_AGAIN, .is_throttled = true};
    struct delivery *d = NULL;
    post_assert_owner(&post);
    submit();
    resolve(pull(SCHED_RESOLVE).destination);
    for (int i = 0; i < 2; i++) {
        struct sched_action a = pull(SCHED_DELIVER);
        assert_non_null(dispatch_deliver(&dispatch, 0, 0, worker_of, &a, false));
        assert_true(post_flush(&post));
        d = take(&worker_box, LETTER_DELIVER);
        if (d == NULL) {
            fail_msg("no delivery came to the worker");
            return;
        }
        if (i == 0) {
            d->again = true;
            report(d);
        }
    }
    refuse_mail(d, &throttled, true);
    dispatch_settle_refusal(&dispatch, d, &v, to_writer);
    report(d);
    assert_int_equal(atomic_load(&engine->undurable), 0);
    assert_int_equal(atomic_load(&dispatch.in_flight), 0);
    struct sched_action a = pull(SCHED_DELIVER);
    assert_non_null(dispatch_deliver(&dispatch, 0, 0, worker_of, &a, false));
    assert_int_equal(atomic_load(&engine->undurable), 2);
    assert_true(post_flush(&post));
    d = take(&worker_box, LETTER_DELIVER);
    if (d == NULL) {
        fail_msg("no delivery came to the worker");
        return;
    }
    d->has_deferred = true;
    report(d);
    assert_ptr_equal(pull(SCHED_FINISHED).handle, message);
}

static void what_is_held_goes_to_the_next_server(void **state)
{
    post_assert_owner(&post);
    struct delivery *d = deliver_refused(false);
    dispatch_settle_refusal(&dispatch, d, &as_said, to_writer);
    assert_true(d->again && d->server_tried && !d->is_refused);
    assert_int_equal(d->feedback, SCHED_NEUTRAL);
    report(d);
    struct sched_action a = pull(SCHED_EXHAUSTED); /* there is no other one */
    report(dispatch_exhausted(&dispatch, &a, to_writer));
    assert_true(post_flush(&post));
    struct result *r = take(&writer_box, LETTER_RESULT);
    if (r == NULL) {
        fail_msg("no result came to the writer");
        return;
    }
    assert_true(slice_eq(result_text(r, &r->recipients[0]), throttled.text));
    result_free(r);
    assert_ptr_equal(pull(SCHED_FINISHED).handle, message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_held_gets_its_result_from_the_scheduler, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_throttled_waits_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_came_back_and_is_throttled_waits_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_held_goes_to_the_next_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_no_server_is_left_for_ends_without_a_worker, set_up,
                                        tear_down),
    };
    rcu_start();
    rcu_join(); /* as a scheduler thread, which reads the settings */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    rcu_stop();
    return failed;
}
