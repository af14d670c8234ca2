/* What other threads see: figures, reasons, and a walk beside an owner that never rests. */
#include "base/rcu.h"
#include "sched/sched.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct object {
    struct rcu_retired retired;
    max_align_t body[];
};

static void *allocate(void *ctx, size_t size)
{
    struct object *o = malloc(sizeof(*o) + size);
    return o == NULL ? NULL : o->body;
}

static void release(void *ctx, void *body)
{
    free(container_of(body, struct object, body));
}

static void release_retired(struct rcu_retired *retired)
{
    free(container_of(retired, struct object, retired));
}

static void retire(void *ctx, void *body)
{
    rcu_retire(&container_of(body, struct object, body)->retired, release_retired);
}

static void release_hosts(void *ctx, void *hosts)
{
}

static const struct sched_host host = {allocate, release, retire, NULL};

static struct sched *start(const struct sched_config *config)
{
    struct sched *s = sched_new(config, &host, release_hosts, 0);
    assert_non_null(s);
    return s;
}

static void submit(struct sched *s, uint64_t id, const char *address, usec_t now)
{
    struct sched_recipient r = {slice_of(address), slice_of(strchr(address, '@') + 1), 0, 0};
    struct sched_message m = {.id = id, .recipients = &r, .recipient_count = 1};
    assert_int_equal(sched_submit(s, &m, now), 0);
}

static struct sched_entry *pull(struct sched *s, usec_t now)
{
    struct sched_action a;
    while (sched_pull(s, &a, now)) {
        if (a.kind == SCHED_DELIVER) {
            return a.entry;
        }
    }
    return NULL;
}

static void report(struct sched *s, struct sched_entry *e, bool is_ok, usec_t now)
{
    struct sched_outcome o = {.entry = e,
                              .feedback = is_ok ? SCHED_POSITIVE : SCHED_NEGATIVE,
                              .has_deferred = !is_ok,
                              .connection_open = is_ok};
    sched_report(s, &o, now);
}

static void figures(void **state)
{
    struct sched_config c;
    sched_config_defaults(&c);
    c.initial_destination_concurrency = 1;
    c.destination_concurrency_positive_feedback.base = 0;
    c.concurrency_feedback_rule = SCHED_RULE_POSTFIX3;
    struct sched *s = start(&c);
    submit(s, 1, "a@aa", 0);
    submit(s, 2, "b@aa", 0);
    struct sched_entry *e = pull(s, 0);
    assert_null(pull(s, 0));
    struct sched_destination_view v;
    assert_true(sched_view_destination(s, SLICE("aa"), &v));
    assert_true(slice_eq(v.name, SLICE("aa")));
    assert_int_equal(v.state, SCHED_DESTINATION_READY);
    assert_int_equal(v.why, SCHED_WHY_WINDOW);
    assert_int_equal(v.window, 1);
    assert_int_equal(v.busy, 1);
    assert_int_equal(v.todo, 1);
    report(s, e, true, 0);
    assert_true(sched_view_destination(s, SLICE("aa"), &v));
    assert_int_equal(v.why, SCHED_WHY_NOTHING);
    assert_int_equal(v.delivered, 1);
    assert_int_equal(v.idle, 1);
    struct sched_job_view j;
    uint64_t cursor = 0;
    struct sched_action a;
    assert_true(sched_pull_pending(s, &a, 0)); /* FINISHED */
    assert_true(sched_view_jobs(s, &cursor, &j));
    assert_int_equal(j.message_id, 2);
    assert_int_equal(j.waiting, 1);
    assert_int_equal(j.recipients, 1);
    assert_false(sched_view_jobs(s, &cursor, &j));
    e = pull(s, 0);
    report(s, e, false, 5);
    assert_true(sched_view_destination(s, SLICE("aa"), &v));
    assert_int_equal(v.state, SCHED_DESTINATION_DEAD);
    assert_int_equal(v.why, SCHED_WHY_DEAD);
    assert_int_equal(v.deferred, 1);
    assert_true(v.state_until == 5 + c.minimal_backoff_time);
    assert_false(sched_view_destination(s, SLICE("bb"), &v));
    for (int why = 0; why < SCHED_WHY_COUNT; why++) {
        assert_true(strlen(sched_why_text((enum sched_why)why)) > 0);
    }
    sched_free(s);
    rcu_drain();
}

static atomic_bool stop;

static void *read_on(void *arg)
{
    const struct sched *s = arg;
    uint64_t seen = 0;
    rcu_join();
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        struct sched_destination_view v;
        struct sched_job_view j;
        struct sched_counters c;
        char last[32];
        for (uint64_t cursor = 0; sched_view_destinations(s, &cursor, &v);) {
            if (v.name.len >= sizeof(last) || v.window < 0 ||
                v.state > SCHED_DESTINATION_RESOLVING) {
                abort();
            }
            memcpy(last, v.name.data, v.name.len);
            seen += sched_view_destination(s, v.name, &v) ? 2 : 1; /* it may be gone */
        }
        for (uint64_t cursor = 0; sched_view_jobs(s, &cursor, &j);) {
            seen += j.recipients;
        }
        sched_view_counters(s, &c);
        rcu_pass();
    }
    rcu_leave();
    return (void *)(uintptr_t)seen;
}

static void readers_beside_the_owner(void **state)
{
    struct sched_config c;
    sched_config_defaults(&c);
    c.process_limit = 50;
    c.destination_concurrency_limit = 2;
    struct sched *s = start(&c);
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, s), 0);
    }
    struct sched_entry *busy[50] = {NULL};
    uint64_t id = 1;
    for (int round = 0; round < STRESS_ROUNDS(3000); round++) {
        usec_t now = round * USEC_PER_SEC;
        for (int i = 0; i < 40; i++) {
            char address[32];
            (void)snprintf(address, sizeof(address), "u@d%llu",
                           (unsigned long long)(id * 7919 % (unsigned)(1 + round % 700)));
            submit(s, id++, address, now);
        }
        for (int i = 0; i < 50; i++) {
            if (busy[i] != NULL) {
                report(s, busy[i], (i + round) % 11 != 0, now);
            }
            busy[i] = pull(s, now);
        }
        rcu_pass();
    }
    for (int i = 0; i < 50; i++) {
        if (busy[i] != NULL) {
            report(s, busy[i], true, INT64_C(4000) * USEC_PER_SEC);
        }
    }
    atomic_store_explicit(&stop, true, memory_order_relaxed);
    rcu_sleep();
    for (int i = 0; i < 2; i++) {
        void *seen;
        assert_int_equal(pthread_join(readers[i], &seen), 0);
        assert_non_null(seen);
    }
    rcu_awake();
    sched_free(s);
    rcu_drain();
}

static int set_up(void **state)
{
    rcu_start();
    rcu_join();
    return 0;
}

static int tear_down(void **state)
{
    rcu_leave();
    rcu_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(readers_beside_the_owner),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
