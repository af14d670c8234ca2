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
    return &h->post.box;
}

struct outbox *http_to_writer(struct http *h)
{
    return h->to_writer;
}

struct outbox *http_to_receptions(struct http *h)
{
    return h->to_receptions;
}

void http_answer(struct http *h, struct api_call *c)
{
    (void)h; /* the call knows its connection */
    http_exchange_resume(c);
}

static void take_http_letter(struct http *h, const struct letter *letter) ON_ROLE(h->post)
{
    switch (letter->kind) {
    case LETTER_ANSWER:
        http_answer(h, letter_take_answer(letter));
        break;
    case LETTER_INNER:
        http_exchange_begin_inner(h, letter_take_inner(letter));
        break;
    case LETTER_STORED:
        h->injector.take_stored(h->injector.ctx, letter_take_stored(letter));
        break;
    case LETTER_SUPPRESSED:
        h->suppressor.take(letter_take_suppressed(letter));
        break;
    case LETTER_STAGED:
        h->injector.take_stored(h->injector.ctx, letter_take_staged(letter));
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

static void take_letters(struct http *h) ON_ROLE(h->post)
{
    struct letter letter;
    while (post_take(&h->post, &letter)) {
        take_http_letter(h, &letter);
    }
}

static void run_daemons(struct http *h)
{
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        MHD_UNSIGNED_LONG_LONG millis;
        /* Each run costs system calls, also of a daemon that nobody uses. */
        if (d->is_due || (MHD_get_timeout(d->daemon, &millis) == MHD_YES && millis == 0)) {
            d->is_due = false;
            (void)MHD_run(d->daemon); /* MHD_NO: it is stopping, which it is not */
        }
    }
}

static usec_t sleep_time(struct http *h, bool is_flushed)
{
    usec_t now = clock_mono();
    usec_t wake = http_door_wake_at(h);
    if ((!list_is_empty(&h->connections) || h->has_leaving) && h->look_at < wake) {
        wake = h->look_at;
    }
    if (!is_flushed && now + 10 * USEC_PER_MSEC < wake) {
        wake = now + 10 * USEC_PER_MSEC;
    }
    usec_t sleep = USEC_NEVER;
    if (wake != USEC_NEVER) {
        sleep = wake > now ? wake - now : 0;
    }
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        MHD_UNSIGNED_LONG_LONG millis;
        if (MHD_get_timeout(d->daemon, &millis) == MHD_YES &&
            (usec_t)millis * USEC_PER_MSEC < sleep) {
            sleep = (usec_t)millis * USEC_PER_MSEC;
        }
    }
    return sleep;
}

static void wait_for_events(struct http *h, usec_t timeout) ON_ROLE(h->post)
{
    /* Looked at behind post_nap_prepare, as every condition that keeps the thread awake. */
    if (!post_nap_prepare(&h->post) || atomic_load(&h->change) != NULL) {
        timeout = 0;
    }
    rcu_sleep();
    int fetched = poller_wait(&h->poller, timeout);
    rcu_awake();
    post_nap_finish(&h->post);
    if (fetched < 0) {
        log_error("http: epoll: %s", err_str(fetched));
    }
}

/* Answers all calls that are left and closes the doors. A daemon cannot be stopped while one of its
 * connections is suspended; the clerks that could have answered these calls have ended. */
static void end(struct http *h) ON_ROLE(h->post)
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
        list_foreach_safe(d, &h->doors, struct http_door, link)
        {
            d->is_due = true; /* the poller is not asked any more: run all daemons */
        }
        run_daemons(h);
    }
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        http_door_close(d);
    }
    poller_remove(&h->poller, &h->box_watch);
}

static void run_http(void *arg)
{
    struct http *h = arg;
    post_assert_owner(&h->post);
    while (!post_must_end(&h->post)) {
        h->now = clock_mono();
        (void)poller_dispatch(&h->poller);
        take_letters(h);
        http_change_take(h); /* behind the letters: whoever hears of a reload meets its doors */
        http_door_expire(h);
        if (h->now >= h->look_at) {
            http_exchange_expire(h);
            h->has_leaving = http_door_end_leaving(h);
            h->look_at = h->now + LOOK_PERIOD;
        }
        run_daemons(h);
        wait_for_events(h, sleep_time(h, post_flush(&h->post)));
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
    list_init(&h->doors);
    list_init(&h->running);
    list_init(&h->arrivals);
    list_init(&h->connections);
    int err = post_init_polled(&h->post, BOX_LETTERS);
    err = err != 0 ? err : poller_init(&h->poller, EVENTS_PER_PASS);
    h->newest = calloc(engine->config->http_door_count + 1, sizeof(struct http_door *));
    err = err == 0 && h->newest == NULL ? -ENOMEM : err;
    for (size_t i = 0; err == 0 && i < engine->config->http_door_count; i++) {
        err = http_door_open(h, &engine->config->http_doors[i], i, &h->newest[i]);
    }
    if (err != 0) {
        http_free(h);
        return err;
    }
    *ret = h;
    return 0;
}

void http_set_suppressor(struct http *h, const struct http_suppressor *suppressor)
{
    h->suppressor = *suppressor;
}

void http_set_gatherer(struct http *h, const struct http_gatherer *gatherer)
{
    h->gatherer = *gatherer;
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
    struct http_door *control;
    return http_door_open_control(h, &control);
}

int http_start(struct http *h)
{
    const struct engine *e = h->engine;
    int err = post_open(&h->post, e->worker_count + HTTP_CLERKS + 2);
    if (err == 0) {
        /* Edge-triggered, so that nobody has to read the eventfd (waker.h). */
        err = poller_add(&h->poller, &h->box_watch, post_fd(&h->post), on_box);
    }
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        err = err != 0 ? err : http_door_watch(d);
    }
    if (err != 0) {
        return err;
    }
    h->to_workers = post_write_to_each(&h->post, e->boxes.workers, e->worker_count);
    h->to_clerks = post_write_to_each(&h->post, e->boxes.clerks, HTTP_CLERKS);
    h->to_writer = post_write_to(&h->post, e->boxes.writer);
    h->to_receptions = post_write_to(&h->post, e->boxes.receptions);
    return post_start(&h->post, "http", run_http, h);
}

void http_stop(struct http *h)
{
    post_stop(&h->post);
}

void http_free(struct http *h)
{
    if (h == NULL) {
        return;
    }
    list_foreach_safe(d, &h->doors, struct http_door, link)
    {
        http_door_close(d);
    }
    http_change_free(atomic_load(&h->change));
    struct letter letter;
    while (post_take_left(&h->post, &letter)) {
        if (letter.kind == LETTER_STORED) {
            intake_free(letter_take_stored(&letter));
        } else if (letter.kind == LETTER_STAGED) {
            intake_free(letter_take_staged(&letter));
        } else if (letter.kind == LETTER_SUPPRESSED) {
            h->suppressor.drop(letter_take_suppressed(&letter));
        } else if (letter.kind == LETTER_INNER) {
            struct api_call *c = letter_take_inner(&letter);
            api_error(c, 503, "unavailable", "the engine has stopped");
            http_exchange_end_inner(c);
        } /* the call of a LETTER_ANSWER belongs to its connection */
    }
    poller_fini(&h->poller);
    post_fini(&h->post);
    free(h->newest);
    free(h);
}
