/* Owns the thread "feed" and the list of consumers, which only grows until the end: any thread may
 * walk through it, a new one is put in front by compare-and-swap. */
#include "engine/feed/event_feed.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "base/waker.h"
#include "engine/config/config.h"
#include "engine/event/event_log.h"
#include "engine/feed/account_consumer.h"
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

struct event_feed {
    /* set at creation */
    struct event_log *log;
    struct waker waker;
    struct thread thread;
    CURLM *multi;
    char *folder;

    /* any thread, atomic */
    _Atomic bool is_stopping;
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
    const struct event_consumer_place at = {f->folder, f->log};
    int err = event_consumer_init(&s->consumer, &at, file, name, NULL);
    if (err != 0) {
        subscriber_free(&s->consumer);
        return err;
    }
    publish_consumer(f, &s->consumer);
    waker_kick(&f->waker);
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
        has_more = c->step(c, clock_mono(), is_last) || has_more;
        *ret_has_busy = *ret_has_busy || (c->is_busy != NULL && c->is_busy(c));
    }
    return has_more;
}

static void nap(struct event_feed *f, bool has_transfers)
{
    usec_t wait = first_consumer(f) == NULL ? USEC_NEVER : clock_mono() + look_interval;
    struct curl_waitfd wakeup = {.fd = f->waker.fd, .events = CURL_WAIT_POLLIN};
    waker_prepare(&f->waker);
    if (!atomic_load(&f->is_stopping)) {
        int timeout = wait == USEC_NEVER && !has_transfers ? 3600000 : (int)(look_interval / 1000);
        (void)curl_multi_poll(f->multi, &wakeup, 1, timeout, NULL);
    }
    waker_finish(&f->waker);
    waker_clear(&f->waker);
}

/* The last lines are in the log: hand them on, so that the next start repeats none. */
static void say_farewell(struct event_feed *f)
{
    usec_t end = clock_mono() + farewell;
    bool has_busy = true;
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
    while (!atomic_load(&f->is_stopping)) {
        bool has_more = step_all(f, false, &has_busy);
        if (has_busy) {
            has_more = take_transfers(f) || has_more;
        }
        tell_needed(f);
        if (!has_more) {
            nap(f, has_busy);
        }
    }
    say_farewell(f);
    rcu_awake();
}

/* --- life ------------------------------------------------------------------------------------- */

static int add_consumers(struct event_feed *f, struct engine *engine)
{
    const struct config *config = engine->config;
    const struct event_consumer_place at = {f->folder, f->log};
    /* Those of the start: nothing is replaced before the first thread runs. */
    const struct slice *secrets = engine->settings->passwords.webhooks;
    struct event_consumer *c = NULL;
    int err = 0;
    for (size_t i = 0; i < config->webhook_count && err == 0; i++) {
        err = webhook_new(&config->webhooks[i], secrets[i], &at, f->multi, &c);
        if (err == 0) {
            publish_consumer(f, c);
        }
    }
    for (size_t i = 0; i < config->csv_count && err == 0; i++) {
        err = account_consumer_new(&config->csvs[i], engine, &at, &c);
        if (err == 0) {
            publish_consumer(f, c);
        }
    }
    return err;
}

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
    f->log = engine->events;
    int err = waker_init_polled(&f->waker);
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
    err = err == 0 ? add_consumers(f, engine) : err;
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
    waker_fini(&f->waker);
    free(f->folder);
    free(f);
}

int event_feed_start(struct event_feed *f)
{
    return thread_start(&f->thread, "feed", run_feed, f);
}

void event_feed_stop(struct event_feed *f)
{
    atomic_store(&f->is_stopping, true);
    waker_kick(&f->waker);
    thread_join(&f->thread);
}
