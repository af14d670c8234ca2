/* Owns the thread "feed" and the list of consumers.
 *
 * Any thread that is online under RCU may walk through the list. A new consumer is put in front by
 * compare-and-swap, by any thread; the feed thread alone takes one out, and frees it after a grace
 * period. A plan of a reload is handed over through an atomic pointer: main puts it there, the feed
 * thread takes it out. */
#include "engine/feed/event_feed.h"

#include "base/error.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/event/event_log.h"
#include "engine/feed/feed_plan.h"
#include "engine/feed/webhook.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINES_AT_ONCE = 1000 };
static const usec_t look_interval = 100 * USEC_PER_MSEC;
/* How long a stop may take to hand on the last events; the next start hands on the rest. */
static const usec_t farewell = USEC_PER_SEC;
/* After a consumer could not be made. */
static const usec_t make_interval = USEC_PER_SEC;

struct event_feed {
    /* set at creation */
    struct engine *engine;
    struct event_log *log;
    struct post post; /* for its naps: it gets no letters */
    CURLM *multi;
    char *folder;

    /* feed thread only */
    struct feed_plan *plan; /* by which all consumers but those that leave were made */
    bool is_settled;        /* they are all that the plan wants, and nobody leaves */
    usec_t settle_at;       /* monotonic: when it is tried again */

    /* main puts, the feed thread takes */
    _Atomic(struct feed_plan *) next_plan;

    /* any thread, atomic */
    _Atomic(struct event_consumer *) consumers;
};

struct subscriber {
    struct event_consumer consumer;
    event_feed_call *call;
    void *ctx;
};

/* Acquire pairs with the release of publish_consumer. */
static struct event_consumer *first_consumer(struct event_feed *f)
{
    return atomic_load_explicit(&f->consumers, memory_order_acquire);
}

static struct event_consumer *after(struct event_consumer *c)
{
    return atomic_load_explicit(&c->next, memory_order_relaxed);
}

static void publish_consumer(struct event_feed *f, struct event_consumer *c)
{
    struct event_consumer *first = first_consumer(f);
    do {
        atomic_store_explicit(&c->next, first, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&f->consumers, &first, c, memory_order_acq_rel,
                                                    memory_order_acquire));
}

/* --- subscribers ------------------------------------------------------------------------------ */

static bool subscriber_step(struct event_consumer *c, usec_t now, bool is_last)
{
    struct subscriber *s = (struct subscriber *)(void *)c; /* its first member */
    unsigned budget = LINES_AT_ONCE;
    uint64_t done = 0;
    struct slice line;
    struct event_position before = c->cursor.position;
    int err = 0;
    if (now < c->retry_at) {
        return false;
    }
    while ((err = event_consumer_next(c, &budget, &line)) == 0) {
        if (s->call(s->ctx, line) != 0) {
            c->cursor.position = before;
            break;
        }
        before = c->cursor.position;
        done++;
    }
    bool has_failed = err == 0 || err != ERR_AGAIN;
    event_consumer_ack(c, done, now);
    if (has_failed) {
        event_consumer_fail(c, err == 0 ? -ECANCELED : err, now);
        event_consumer_rewind(c);
    }
    return !has_failed && budget == 0;
}

static void subscriber_free(struct event_consumer *c)
{
    event_consumer_fini(c);
    free(c);
}

static bool is_consumer_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 64 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len;
}

int event_feed_subscribe(struct event_feed *f, const char *name, event_feed_call *call, void *ctx)
{
    char file[EVENT_CONSUMER_NAME_MAX];
    if (f == NULL || !is_consumer_name(name)) {
        return f == NULL ? ERR_MISSING : -EINVAL;
    }
    (void)snprintf(file, sizeof(file), "subscriber-%s", name);
    for (struct event_consumer *c = first_consumer(f); c != NULL; c = after(c)) {
        if (strcmp(c->name, file) == 0) {
            return -EEXIST;
        }
    }
    struct subscriber *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->call = call;
    s->ctx = ctx;
    s->consumer.kind = "subscriber";
    s->consumer.step = subscriber_step;
    s->consumer.free = subscriber_free;
    struct event_consumer_place at = {f->folder, f->log, {0, 0}};
    int err = event_position_end(f->log->path, &at.begin);
    err = err != 0 ? err : event_consumer_init(&s->consumer, &at, file, name, NULL);
    if (err != 0) {
        subscriber_free(&s->consumer);
        return err;
    }
    publish_consumer(f, &s->consumer);
    mailbox_wake(&f->post.box);
    return 0;
}

/* --- reports ---------------------------------------------------------------------------------- */

void event_feed_look(struct event_feed *f,
                     void (*see)(void *ctx, const struct event_feed_report *r), void *ctx)
{
    for (struct event_consumer *c = f == NULL ? NULL : first_consumer(f); c != NULL; c = after(c)) {
        usec_t oldest = atomic_load_explicit(&c->oldest, memory_order_relaxed);
        usec_t now = clock_wall();
        struct event_feed_report r = {
            .kind = c->kind,
            .name = c->name,
            .title = c->title,
            .position = {atomic_load_explicit(&c->segment, memory_order_relaxed),
                         atomic_load_explicit(&c->offset, memory_order_relaxed)},
            .behind = oldest != 0 && oldest < now ? now - oldest : 0,
            .events = atomic_load_explicit(&c->events, memory_order_relaxed),
            .failures = atomic_load_explicit(&c->failures, memory_order_relaxed),
            .gaps = atomic_load_explicit(&c->gaps, memory_order_relaxed),
            .failing_since = atomic_load_explicit(&c->failing_since, memory_order_relaxed),
        };
        event_consumer_why(atomic_load_explicit(&c->why, memory_order_relaxed), r.why);
        if (event_position_behind(f->log->path, r.position, &r.behind_bytes) != 0) {
            r.behind_bytes = 0; /* a folder that cannot be read holds nothing to read */
        }
        see(ctx, &r);
    }
}

/* --- plans ------------------------------------------------------------------------------------ */

int event_feed_plan(struct event_feed *f, struct settings *settings, struct feed_plan **ret)
{
    *ret = NULL;
    return f == NULL ? 0 : feed_plan_new(f->log, settings, ret);
}

void event_feed_follow(struct event_feed *f, struct feed_plan *plan)
{
    if (f == NULL) {
        return;
    }
    struct feed_plan *older = atomic_exchange_explicit(&f->next_plan, NULL, memory_order_acquire);
    if (older != NULL) {
        plan->begin = older->begin; /* what was new in that one must not miss a line */
        feed_plan_free(older);
    }
    /* Release pairs with the acquire of `take_plan`. */
    atomic_store_explicit(&f->next_plan, plan, memory_order_release);
    mailbox_wake(&f->post.box);
}

/* Of the newest plan: who is not as it wants them leaves. */
static void take_plan(struct event_feed *f)
{
    struct feed_plan *plan = atomic_exchange_explicit(&f->next_plan, NULL, memory_order_acquire);
    if (plan == NULL) {
        return;
    }
    for (struct event_consumer *c = first_consumer(f); c != NULL; c = after(c)) {
        c->is_leaving =
            c->is_leaving || (c->section_title != NULL && !feed_plan_keeps(f->plan, plan, c));
    }
    feed_plan_free(f->plan);
    f->plan = plan;
    f->is_settled = false;
    f->settle_at = 0;
}

/* Others may put a new one in front at any time. */
static void unlink_consumer(struct event_feed *f, struct event_consumer *c)
{
    struct event_consumer *first = c;
    struct event_consumer *next = after(c);
    if (atomic_compare_exchange_strong_explicit(&f->consumers, &first, next, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return;
    }
    while (after(first) != c) {
        first = after(first);
    }
    atomic_store_explicit(&first->next, next, memory_order_release);
}

static void release_consumer(struct rcu_retired *self)
{
    struct event_consumer *c = container_of(self, struct event_consumer, retired);
    c->free(c);
}

/* The consumer of a section, with the figures of the one before, or NULL. errors: of feed_plan_make
 */
static int make_consumer(struct event_feed *f, size_t number, const struct event_consumer *before)
{
    const struct event_consumer_place at = {f->folder, f->log, f->plan->begin};
    struct event_consumer *c = NULL;
    int err = feed_plan_make(f->plan, number, f->engine, &at, f->multi, &c);
    if (err == 0) {
        if (before != NULL) {
            event_consumer_inherit(c, before);
        }
        publish_consumer(f, c);
    }
    return err;
}

/* The list without this one, which has nothing under way. */
static int let_consumer_go(struct event_feed *f, struct event_consumer *c)
{
    size_t number = feed_plan_find(f->plan, c);
    bool is_wanted = number < feed_plan_count(f->plan);
    if (!c->is_saved) {
        event_consumer_save(c, clock_mono());
    }
    log_info("%s %s: %s", c->kind, c->title,
             is_wanted ? "goes on with other options" : "is gone; its place in the log is kept");
    unlink_consumer(f, c);
    int err = is_wanted ? make_consumer(f, number, c) : 0;
    rcu_retire(&c->retired, release_consumer);
    return err;
}

static bool has_consumer(struct event_feed *f, size_t number)
{
    struct event_consumer *c = first_consumer(f);
    while (c != NULL && feed_plan_find(f->plan, c) != number) {
        c = after(c);
    }
    return c != NULL;
}

static int make_missing_consumers(struct event_feed *f)
{
    int err = 0;
    for (size_t i = 0; i < feed_plan_count(f->plan) && err == 0; i++) {
        err = has_consumer(f, i) ? 0 : make_consumer(f, i, NULL);
    }
    return err;
}

/* Makes the consumers what the plan wants, as far as that is possible by now. */
static void settle_consumers(struct event_feed *f, usec_t now)
{
    struct event_consumer *next;
    bool is_waiting = false;
    int err = 0;
    take_plan(f);
    if (f->is_settled || now < f->settle_at) {
        return;
    }
    for (struct event_consumer *c = first_consumer(f); c != NULL; c = next) {
        bool is_busy = c->is_busy != NULL && c->is_busy(c);
        next = after(c);
        is_waiting = is_waiting || (c->is_leaving && is_busy);
        if (c->is_leaving && !is_busy) {
            int failure = let_consumer_go(f, c);
            err = err != 0 ? err : failure;
        }
    }
    err = err != 0 ? err : make_missing_consumers(f);
    if (err != 0) {
        log_error("event feed: a consumer cannot be made: %s; it is tried again", err_str(err));
        f->settle_at = now + make_interval;
    }
    f->is_settled = err == 0 && !is_waiting;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Tells the spool writer the first segment that some consumer still needs, so that it is kept. */
static void tell_needed(struct event_feed *f)
{
    uint64_t needed = UINT64_MAX;
    for (struct event_consumer *c = first_consumer(f); c != NULL; c = after(c)) {
        needed = c->acked.segment < needed ? c->acked.segment : needed;
    }
    atomic_store_explicit(&f->log->needed, needed, memory_order_relaxed);
}

/* returns true when one ended, whose consumer may go on */
static bool take_transfers(struct event_feed *f)
{
    bool has_ended = false;
    int running;
    int left;
    const CURLMsg *m;
    (void)curl_multi_perform(f->multi, &running); /* failures are those of transfers */
    while ((m = curl_multi_info_read(f->multi, &left)) != NULL) {
        if (m->msg == CURLMSG_DONE) {
            webhook_done(m->easy_handle, m->data.result, clock_mono());
            has_ended = true;
        }
    }
    return has_ended;
}

/* returns true when there is more to do at once */
static bool step_all(struct event_feed *f, bool is_last, bool *ret_has_busy)
{
    bool has_more = false;
    *ret_has_busy = false;
    for (struct event_consumer *c = first_consumer(f); c != NULL; c = after(c)) {
        has_more = (!c->is_leaving && c->step(c, clock_mono(), is_last)) || has_more;
        *ret_has_busy = *ret_has_busy || (c->is_busy != NULL && c->is_busy(c));
    }
    return has_more;
}

static void nap_feed(struct event_feed *f, bool has_transfers) ON_ROLE(f->post)
{
    struct curl_waitfd wakeup = {.fd = post_fd(&f->post), .events = CURL_WAIT_POLLIN};
    bool may_sleep = post_nap_prepare(&f->post);
    /* Looked at behind post_nap_prepare, lest a consumer or a plan that is published before it waits
     * an hour for its first look. */
    bool has_work = has_transfers || first_consumer(f) != NULL || !f->is_settled;
    if (may_sleep && atomic_load(&f->next_plan) == NULL) {
        int timeout = has_work ? (int)(look_interval / 1000) : 3600000;
        (void)curl_multi_poll(f->multi, &wakeup, 1, timeout, NULL);
    }
    post_nap_finish(&f->post);
    post_clear(&f->post);
}

/* The last lines are in the log: hand them on, so that the next start repeats none. */
static void say_farewell(struct event_feed *f)
{
    usec_t end = clock_mono() + farewell;
    bool has_busy = true;
    /* A consumer of the last reload has to have its place before the next start. */
    settle_consumers(f, clock_mono());
    while (clock_mono() < end) {
        bool has_more = step_all(f, true, &has_busy);
        has_more = take_transfers(f) || has_more;
        if (!has_more && !has_busy) {
            break;
        }
        if (!has_more) {
            (void)curl_multi_poll(f->multi, NULL, 0, 20, NULL);
        }
    }
    for (struct event_consumer *c = first_consumer(f); c != NULL; c = after(c)) {
        if (!c->is_saved) {
            event_consumer_save(c, clock_mono());
        }
    }
}

static void run_feed(void *arg)
{
    struct event_feed *f = arg;
    bool has_busy;
    rcu_sleep(); /* reads nothing under RCU */
    post_assert_owner(&f->post);
    while (!post_must_end(&f->post)) {
        settle_consumers(f, clock_mono());
        bool has_more = step_all(f, false, &has_busy);
        if (has_busy) {
            has_more = take_transfers(f) || has_more;
        }
        tell_needed(f);
        if (!has_more) {
            nap_feed(f, has_busy);
        }
    }
    say_farewell(f);
    rcu_awake();
}

/* --- life ------------------------------------------------------------------------------------- */

int event_feed_new(struct engine *engine, struct event_feed **ret)
{
    const struct config *config = engine->config;
    bool has_consumers = config->webhook_count + config->csv_count > 0;
    if (engine->events == NULL || engine->events->number == 0) {
        if (has_consumers) {
            log_error("event log %s: not a regular file, so webhook and csv cannot read from it",
                      config->event_log_path);
        }
        *ret = NULL;
        return has_consumers ? ERR_MISSING : 0;
    }
    struct event_feed *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return -ENOMEM;
    }
    f->engine = engine;
    f->log = engine->events;
    int err = post_init_polled(&f->post, 1);
    if (err != 0) {
        free(f);
        return err;
    }
    err = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -ENOMEM;
    f->multi = curl_multi_init();
    if (err == 0 && (f->multi == NULL || asprintf(&f->folder, "%s/feed", config->spool.path) < 0)) {
        err = -ENOMEM;
    }
    if (err == 0 && mkdir(f->folder, 0700) != 0 && errno != EEXIST) {
        err = -errno;
    }
    /* The settings of the start: nothing replaces them before the first thread runs. */
    err = err == 0 ? feed_plan_new(f->log, engine->settings, &f->plan) : err;
    err = err == 0 ? make_missing_consumers(f) : err;
    f->is_settled = true;
    if (err != 0) {
        event_feed_free(f);
        return err;
    }
    tell_needed(f);
    *ret = f;
    return 0;
}

void event_feed_free(struct event_feed *f)
{
    if (f == NULL) {
        return;
    }
    struct event_consumer *c = first_consumer(f);
    while (c != NULL) {
        struct event_consumer *next = after(c);
        c->free(c);
        c = next;
    }
    if (f->multi != NULL) {
        (void)curl_multi_cleanup(f->multi); /* its transfers are gone */
    }
    curl_global_cleanup();
    feed_plan_free(f->plan);
    feed_plan_free(atomic_load(&f->next_plan)); /* of a reload that the thread did not see */
    post_fini(&f->post);
    free(f->folder);
    free(f);
}

int event_feed_start(struct event_feed *f)
{
    return post_start(&f->post, "feed", run_feed, f);
}

void event_feed_stop(struct event_feed *f)
{
    post_stop(&f->post);
}
