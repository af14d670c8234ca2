/* Owns the loop of a worker's thread and its start and stop. Called by engine_run.c. Must not know
 * what a connection is about: that is inbound.c and outbound.c. */
#include "engine/worker_thread.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rcu.h"
#include "dns/resolver.h"
#include "engine/config/config.h"
#include "engine/inbound/acceptor.h"
#include "engine/inbound/auth.h"
#include "engine/inbound/inbound.h"
#include "engine/outbound/dns_setup.h"
#include "engine/outbound/outbound.h"
#include "engine/outbound/outbound_tls.h"
#include "engine/outbound/resolution.h"
#include "engine/outbound/sts_fetcher.h"
#include "engine/post/delivery.h"
#include "engine/post/hearing.h"
#include "engine/post/letter.h"
#include "engine/reply/reply_set.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/trace/flight_recorder.h"
#include "engine/trace/recording.h"
#include "engine/trace/trace_question.h"
#include "engine/worker/worker.h"
#include "net/tls_session_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVENTS_PER_PASS = 256,
    DELIVERIES_PER_PASS = 32, /* events of outbound connections: a client waits for each step of its
                               * session, and for a delivery nobody does */
    LETTERS_PER_PASS = 1024,
    TLS_SESSIONS = 10000,
    DNS_WATCHES = 64, /* sockets of the resolver: one or two a server, and TCP ones */
};

struct worker_dns_watch {
    struct poller_watch watch;
    struct worker *worker;
    int fd; /* -1: free */
};

/* --- the resolver's sockets ------------------------------------------------------------------- */

static void on_dns_socket(struct poller_watch *watch, unsigned events)
{
    struct worker_dns_watch *dw = container_of(watch, struct worker_dns_watch, watch);
    resolver_fd_event(dw->worker->resolver, dw->fd, (events & (POLLER_READ | POLLER_HANGUP)) != 0,
                      (events & POLLER_WRITE) != 0, dw->worker->now);
}

static struct worker_dns_watch *dns_watch(struct worker *w, int fd)
{
    struct worker_dns_watch *unused = NULL;
    for (int i = 0; i < DNS_WATCHES; i++) {
        if (w->dns_watches[i].fd == fd) {
            return &w->dns_watches[i];
        }
        if (unused == NULL && w->dns_watches[i].fd == -1) {
            unused = &w->dns_watches[i];
        }
    }
    return unused;
}

static void watch_dns(void *ctx, int fd, bool want_read, bool want_write)
{
    struct worker *w = ctx;
    struct worker_dns_watch *dw = dns_watch(w, fd);
    unsigned wants = (want_read ? POLLER_READ : 0u) | (want_write ? POLLER_WRITE : 0u);
    if (dw == NULL) {
        return; /* the query times out and is asked again */
    }
    if (wants == 0) {
        poller_remove(&w->poller, &dw->watch);
        dw->fd = -1;
        return;
    }
    if (poller_has(&dw->watch) && poller_change(&w->poller, &dw->watch, wants) == 0) {
        return;
    }
    poller_remove(&w->poller, &dw->watch);
    dw->worker = w;
    dw->fd = fd;
    if (poller_watch(&w->poller, &dw->watch, fd, wants, on_dns_socket) != 0) {
        dw->fd = -1;
    }
}

/* --- letters ---------------------------------------------------------------------------------- */

static void take_worker_letter(struct worker *w, const struct letter *letter) ON_ROLE(w->post)
{
    switch (letter->kind) {
    case LETTER_STORED:
        inbound_stored(w, letter_take_stored(letter));
        break;
    case LETTER_STAGED:
        inbound_stored(w, letter_take_staged(letter));
        break;
    case LETTER_DELIVER:
        outbound_deliver(w, letter_take_deliver(letter));
        break;
    case LETTER_RESOLVE:
        resolution_start(w, letter_take_resolve(letter));
        break;
    case LETTER_CLOSE: {
        const struct letter_close close = letter_take_close(letter);
        outbound_close(w, close.transport, close.connection, close.is_awaited);
        break;
    }
    case LETTER_ADOPT:
        acceptor_adopt(w, letter_take_adopt(letter));
        break;
    case LETTER_HEARING_DONE:
        inbound_heard(w, letter_take_hearing_done(letter));
        break;
    case LETTER_AUTHENTICATED:
        inbound_authenticated(w, letter_take_authenticated(letter));
        break;
    case LETTER_STS_ANSWER:
        resolution_take_policy(w, letter_take_sts_answer(letter));
        break;
    case LETTER_TLS_COLLECT:
        outbound_tls_hand_over(w);
        break;
    case LETTER_TRACE:
        trace_question_answer(letter_take_trace(letter), w);
        break;
    default:
        assert(false && "unknown letter to a worker");
    }
}

static void on_box(struct poller_watch *watch, unsigned events)
{
    (void)watch; /* the pass looks into the mailbox anyway */
    (void)events;
}

/* --- a pass ----------------------------------------------------------------------------------- */

static void pass(struct worker *w) ON_ROLE(w->post)
{
    struct letter letter;
    (void)poller_dispatch(&w->poller);
    for (int i = 0; i < LETTERS_PER_PASS && post_take(&w->post, &letter); i++) {
        take_worker_letter(w, &letter);
    }
    if (atomic_load_explicit(&w->is_draining, memory_order_relaxed) && !w->was_draining) {
        w->was_draining = true;
        acceptor_close(w);
        inbound_drain(w);
    }
    inbound_resume(w);
    acceptor_resume(w);
    /* The view of the spool may be older than a message that a letter of this pass brought. */
    worker_end_reader(w);
    if (settings_of(w->engine) != w->resolver_settings) {
        (void)recording_of(w); /* gives memory back, also where nothing is connected any more */
        resolution_follow(w);
    }
    worker_run_ready(w);
    (void)timeout_queue_run(&w->timeouts, w->now); /* how many does not matter */
    resolver_tick(w->resolver, w->now);
    resolution_take_results(w);
}

static usec_t sleep_time(struct worker *w, bool is_flushed)
{
    usec_t now = clock_mono();
    usec_t wake = timeout_queue_next(&w->timeouts);
    usec_t dns = resolver_wake_at(w->resolver);
    wake = dns < wake ? dns : wake;
    wake = w->accept_at < wake ? w->accept_at : wake;
    if (!list_is_empty(&w->ready)) {
        /* While the spool is closed, connections that send a body ask for a reader in each pass: a
         * pause keeps them from spinning. */
        return w->lacks_reader ? 10 * USEC_PER_MSEC : 0;
    }
    if (poller_has_events(&w->poller)) {
        return 0;
    }
    if (!is_flushed || !list_is_empty(&w->paused)) {
        wake = now + USEC_PER_MSEC < wake ? now + USEC_PER_MSEC : wake;
    }
    if (wake == USEC_NEVER) {
        return USEC_NEVER;
    }
    return wake > now ? wake - now : 0;
}

static void drop_letter(const struct letter *letter)
{
    if (letter->kind == LETTER_STORED) {
        intake_free(letter_take_stored(letter));
    } else if (letter->kind == LETTER_STAGED) {
        intake_free(letter_take_staged(letter));
    } else if (letter->kind == LETTER_HEARING_DONE) {
        hearing_free(letter_take_hearing_done(letter));
    } else if (letter->kind == LETTER_AUTHENTICATED) {
        auth_request_free(letter_take_authenticated(letter));
    } else if (letter->kind == LETTER_RESOLVE) {
        free(letter_take_resolve(letter));
    } else if (letter->kind == LETTER_STS_ANSWER) {
        sts_question_free(letter_take_sts_answer(letter));
    } else if (letter->kind == LETTER_TRACE) {
        trace_question_drop(letter_take_trace(letter));
    }
}

/* Sends back the letters whose sender waits for an answer; the mailbox frees the others. */
static void end(struct worker *w) ON_ROLE(w->post)
{
    struct letter letter;
    acceptor_close(w);
    inbound_close_all(w);
    outbound_close_all(w);
    outbound_tls_hand_over(w);
    while (post_take(&w->post, &letter)) {
        if (letter.kind == LETTER_DELIVER) {
            struct delivery *d = letter_take_deliver(&letter);
            d->has_deferred = true;
            outbound_return(w, d);
        } else {
            drop_letter(&letter);
        }
    }
}

static void run_worker(void *arg)
{
    struct worker *w = arg;
    post_assert_owner(&w->post);
    while (!post_must_end(&w->post)) {
        w->now = clock_mono();
        w->lacks_reader = false;
        pass(w);
        worker_end_reader(w);
        bool is_flushed = post_flush(&w->post);
        usec_t timeout = sleep_time(w, is_flushed);
        int fetched;
        if (timeout == 0) {
            rcu_pass();
            fetched = poller_wait(&w->poller, 0);
        } else {
            bool may_sleep = post_nap_prepare(&w->post);
            bool must_drain = atomic_load(&w->is_draining) && !w->was_draining;
            timeout = may_sleep && !must_drain ? timeout : 0;
            rcu_sleep();
            fetched = poller_wait(&w->poller, timeout);
            rcu_awake();
            post_nap_finish(&w->post);
        }
        if (fetched < 0) {
            log_error("worker %u: epoll: %s", w->index, err_str(fetched));
        }
    }
    end(w);
    (void)post_flush(&w->post); /* what does not fit is dropped: its mail is in the spool */
}

/* --- life ------------------------------------------------------------------------------------- */

static int init_dns(struct worker *w)
{
    const struct resolver_hooks hooks = {.watch = watch_dns, .ctx = w};
    w->dns_watches = calloc(DNS_WATCHES, sizeof(*w->dns_watches));
    if (w->dns_watches == NULL) {
        return -ENOMEM;
    }
    for (int i = 0; i < DNS_WATCHES; i++) {
        w->dns_watches[i].fd = -1;
    }
    /* No thread runs yet that could replace the settings. */
    w->resolver_settings = settings_get(w->engine->settings);
    return dns_setup_resolver(w->resolver_settings, &hooks, &w->resolver);
}

int worker_thread_new(struct engine *engine, uint32_t index, struct worker **ret)
{
    struct worker *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    w->engine = engine;
    w->index = index;
    list_init(&w->inbounds);
    list_init(&w->outbounds);
    list_init(&w->ready);
    list_init(&w->paused);
    list_init(&w->hearing);
    list_init(&w->resolving);
    timeout_queue_init(&w->timeouts);
    w->poller.epfd = -1;
    w->now = clock_mono();
    w->accept_at = USEC_NEVER;
    w->input = malloc(WORKER_READ_BYTES);
    w->sessions = tls_session_cache_new(TLS_SESSIONS, hash_random_seed());
    w->matcher = reply_matcher_new();
    int err = w->input == NULL || w->sessions == NULL || w->matcher == NULL
                  ? -ENOMEM
                  : post_init_polled(&w->post, 1 << 16);
    if (err == 0) {
        err = poller_init(&w->poller, EVENTS_PER_PASS);
        w->poller.turn = DELIVERIES_PER_PASS;
    }
    if (err == 0) {
        err = spool_reader_new(engine->store, &w->reader);
    }
    if (err == 0) {
        err = init_dns(w);
    }
    if (err != 0) {
        worker_thread_free(w);
        return err;
    }
    *ret = w;
    return 0;
}

int worker_thread_start(struct worker *w)
{
    struct engine *e = w->engine;
    int err = post_open(&w->post, 6 + e->sched_count);
    if (err != 0) {
        return err;
    }
    w->to_receptions = post_write_to(&w->post, e->boxes.receptions);
    w->to_writer = post_write_to(&w->post, e->boxes.writer);
    w->to_auth = post_write_to(&w->post, e->boxes.auth);
    w->to_hearer = post_write_to(&w->post, e->boxes.hearer);
    w->to_sts = post_write_to(&w->post, e->boxes.sts);
    w->to_tls_reporter = post_write_to(&w->post, e->boxes.tls_reporter);
    w->to_scheds = post_write_to_each(&w->post, e->boxes.scheds, e->sched_count);
    /* Edge-triggered, so that nobody has to read the eventfd (waker.h). */
    err = poller_add(&w->poller, &w->box_watch, post_fd(&w->post), on_box);
    if (err == 0) {
        err = acceptor_listen(w);
    }
    if (err == 0) {
        err = outbound_start(w);
    }
    return err == 0 ? post_start(&w->post, "worker", run_worker, w) : err;
}

void worker_thread_drain(struct worker *w)
{
    atomic_store(&w->is_draining, true);
    mailbox_wake(&w->post.box);
}

void worker_thread_stop(struct worker *w)
{
    post_stop(&w->post);
}

void worker_thread_free(struct worker *w)
{
    if (w == NULL) {
        return;
    }
    struct letter letter;
    while (post_take_left(&w->post, &letter)) {
        drop_letter(&letter);
    }
    resolver_free(w->resolver);
    settings_put(w->resolver_settings);
    list_foreach_safe(r, &w->resolving, struct resolution, link)
    {
        resolution_free(r);
    }
    poller_remove(&w->poller, &w->box_watch);
    post_fini(&w->post);
    spool_reader_free(w->reader);
    tls_session_cache_free(w->sessions);
    tls_tally_free(w->tls_tally);
    flight_recorder_free(w->recorder);
    timeout_queue_fini(&w->timeouts);
    poller_fini(&w->poller);
    free(w->listeners);
    free(w->dns_watches);
    free(w->input);
    reply_matcher_free(w->matcher);
    free(w);
}
