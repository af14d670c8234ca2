/* Owns the http thread and its loop. Started and stopped by engine_run.c. Must not know what routes
 * mean; it must never wait for anything but its poller. */
#include "engine/http/http.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/http/api_private.h"
#include "engine/http/http_private.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    BOX_LETTERS = 4096, /* more than there are calls */
    EVENTS_PER_PASS = 256,
    LAST_RUNS = 10, /* of a daemon that stops, so that answers leave */
};

#define LOOK_PERIOD USEC_PER_SEC /* at the deadlines of connections */

struct mailbox *http_box(struct http *h)
{
    return &h->box;
}

void http_answer(struct http *h, struct api_call *c)
{
    (void)h; /* the call knows its connection */
    http_exchange_resume(c);
}

static void take_letter(struct http *h, const struct letter *letter)
{
    switch (letter->kind) {
    case LETTER_ANSWER:
        http_answer(h, letter->body);
        break;
    case LETTER_INNER:
        http_exchange_begin_inner(h, letter->body);
        break;
    case LETTER_STORED:
    case LETTER_STAGED:
        h->injector.take_stored(h->injector.ctx, letter->body);
        break;
    default:
        assert(false && "unknown letter to the http thread");
    }
}

static void on_box(struct poller_watch *watch, unsigned events)
{
    (void)watch; /* the pass looks into the mailbox anyway */
    (void)events;
}

static void take_letters(struct http *h)
{
    struct letter letter;
    while (mailbox_take(&h->box, &letter)) {
        take_letter(h, &letter);
    }
}

static void run_daemons(struct http *h)
{
    for (size_t i = 0; i < h->door_count; i++) {
        struct http_door *d = &h->doors[i];
        MHD_UNSIGNED_LONG_LONG millis;
        /* Each run costs system calls, also of a daemon that nobody uses. */
        if (d->is_due || (MHD_get_timeout(d->daemon, &millis) == MHD_YES && millis == 0)) {
            d->is_due = false;
            (void)MHD_run(d->daemon); /* MHD_NO: it is stopping, which it is not */
        }
    }
}

static bool flush_outboxes(struct http *h)
{
    bool is_done = true;
    for (uint32_t i = 0; i < h->engine->worker_count; i++) {
        is_done = outbox_flush(&h->to_workers[i]) && is_done;
    }
    for (int i = 0; i < HTTP_CLERKS; i++) {
        is_done = outbox_flush(&h->to_clerks[i]) && is_done;
    }
    return h->injector.flush(h->injector.ctx) && is_done;
}

static usec_t sleep_time(struct http *h, bool is_flushed)
{
    usec_t now = clock_mono();
    usec_t wake = http_door_wake_at(h);
    wake = !list_is_empty(&h->connections) && h->look_at < wake ? h->look_at : wake;
    if (!is_flushed && now + 10 * USEC_PER_MSEC < wake) {
        wake = now + 10 * USEC_PER_MSEC;
    }
    usec_t sleep = USEC_NEVER;
    if (wake != USEC_NEVER) {
        sleep = wake > now ? wake - now : 0;
    }
    for (size_t i = 0; i < h->door_count; i++) {
        MHD_UNSIGNED_LONG_LONG millis;
        if (MHD_get_timeout(h->doors[i].daemon, &millis) == MHD_YES &&
            (usec_t)millis * USEC_PER_MSEC < sleep) {
            sleep = (usec_t)millis * USEC_PER_MSEC;
        }
    }
    return sleep;
}

static void wait_for_events(struct http *h, usec_t timeout)
{
    waker_prepare(&h->box.waker);
    if (ring_count(h->box.ring) > 0 || atomic_load(&h->is_stopping)) {
        timeout = 0;
    }
    rcu_sleep();
    int fetched = poller_wait(&h->poller, timeout);
    rcu_awake();
    waker_finish(&h->box.waker);
    if (fetched < 0) {
        log_error("http: epoll: %s", err_str(fetched));
    }
}

/* Answers all calls that are left and closes the doors. A daemon cannot be stopped while one of its
 * connections is suspended; the clerks that could have answered these calls have ended. */
static void end(struct http *h)
{
    take_letters(h);
    while (!list_is_empty(&h->running)) {
        struct api_call *c = list_first(&h->running, struct api_call, link);
        if (!api_is_answered(c)) {
            api_error(c, 503, "unavailable", "the daemon is stopping");
        }
        http_exchange_resume(c);
    }
    for (int i = 0; i < LAST_RUNS; i++) {
        for (size_t door = 0; door < h->door_count; door++) {
            h->doors[door].is_due = true; /* the poller is not asked any more: run all daemons */
        }
        run_daemons(h);
    }
    for (size_t i = 0; i < h->door_count; i++) {
        http_door_close(&h->doors[i]);
    }
    poller_remove(&h->poller, &h->box_watch);
}

static void run_http(void *arg)
{
    struct http *h = arg;
    while (!atomic_load(&h->is_stopping)) {
        h->now = clock_mono();
        (void)poller_dispatch(&h->poller);
        waker_clear(&h->box.waker);
        take_letters(h);
        http_door_expire(h);
        if (h->now >= h->look_at) {
            http_exchange_expire(h);
            h->look_at = h->now + LOOK_PERIOD;
        }
        run_daemons(h);
        wait_for_events(h, sleep_time(h, flush_outboxes(h)));
    }
    end(h);
}

/* --- life ------------------------------------------------------------------------------------- */

int http_new(struct engine *engine, const struct api_route *routes, size_t route_count,
             struct http **ret)
{
    struct http *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return -ENOMEM;
    }
    h->engine = engine;
    h->self.engine = engine;
    h->routes = routes;
    h->route_count = route_count;
    h->accept_at = USEC_NEVER;
    h->poller.epfd = -1;
    list_init(&h->running);
    list_init(&h->arrivals);
    list_init(&h->connections);
    int err = mailbox_init_polled(&h->box, BOX_LETTERS);
    err = err != 0 ? err : poller_init(&h->poller, EVENTS_PER_PASS);
    h->doors = calloc(engine->config->http_door_count + 1, sizeof(*h->doors));
    err = err == 0 && h->doors == NULL ? -ENOMEM : err;
    for (size_t i = 0; err == 0 && i < engine->config->http_door_count; i++) {
        err = http_door_open(h, &engine->config->http_doors[i], &h->doors[h->door_count++]);
    }
    if (err != 0) {
        http_free(h);
        return err;
    }
    *ret = h;
    return 0;
}

void http_set_injector(struct http *h, const struct http_injector *injector)
{
    h->injector = *injector;
}

const struct api_route *http_routes(const struct http *h, size_t *ret_count)
{
    *ret_count = h->route_count;
    return h->routes;
}

int http_open_control(struct http *h)
{
    return http_door_open_control(h, &h->doors[h->door_count++]);
}

int http_start(struct http *h)
{
    h->to_workers = calloc(h->engine->worker_count, sizeof(*h->to_workers));
    if (h->to_workers == NULL) {
        return -ENOMEM;
    }
    int err = poller_watch(&h->poller, &h->box_watch, h->box.waker.fd, POLLER_READ, on_box);
    for (size_t i = 0; err == 0 && i < h->door_count; i++) {
        err = http_door_watch(&h->doors[i]);
    }
    if (err != 0) {
        return err;
    }
    for (uint32_t i = 0; i < h->engine->worker_count; i++) {
        outbox_init(&h->to_workers[i], h->engine->boxes.workers[i]);
    }
    for (int i = 0; i < HTTP_CLERKS; i++) {
        outbox_init(&h->to_clerks[i], h->engine->boxes.clerks[i]);
    }
    return thread_start(&h->thread, "http", run_http, h);
}

void http_stop(struct http *h)
{
    atomic_store(&h->is_stopping, true);
    waker_kick(&h->box.waker);
    thread_join(&h->thread);
}

void http_free(struct http *h)
{
    if (h == NULL) {
        return;
    }
    for (size_t i = 0; h->doors != NULL && i < h->door_count; i++) {
        http_door_close(&h->doors[i]);
    }
    for (uint32_t i = 0; h->to_workers != NULL && i < h->engine->worker_count; i++) {
        outbox_fini(&h->to_workers[i]);
    }
    for (int i = 0; i < HTTP_CLERKS; i++) {
        outbox_fini(&h->to_clerks[i]);
    }
    struct letter letter;
    while (h->box.ring != NULL && mailbox_take(&h->box, &letter)) {
        if (letter.kind == LETTER_STORED || letter.kind == LETTER_STAGED) {
            intake_free(letter.body); /* a call belongs to its connection */
        } else if (letter.kind == LETTER_INNER) {
            api_error(letter.body, 503, "unavailable", "the engine has stopped");
            http_exchange_end_inner(letter.body);
        }
    }
    poller_fini(&h->poller);
    mailbox_fini(&h->box);
    free(h->to_workers);
    free(h->doors);
    free(h);
}
