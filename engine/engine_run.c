/* Start and stop. Order of start: everything is built by main alone, then threads start from the
 * spool outwards; order of stop: intake first, then dispatch, then connections, and the spool
 * writer last, so that every result that is known becomes durable. */
#include "engine/engine_run.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/process.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "dns/resolver.h"
#include "engine/activator/activator.h"
#include "engine/census/queue_figures.h"
#include "engine/config/config.h"
#include "engine/feed/event_feed.h"
#include "engine/gather/gather.h"
#include "engine/heard/return_book.h"
#include "engine/http/clerk.h"
#include "engine/http/http.h"
#include "engine/http/inject.h"
#include "engine/inbound/auth.h"
#include "engine/inbound/hearer.h"
#include "engine/inbound/listener.h"
#include "engine/lane/lane_memory.h"
#include "engine/limit/limits.h"
#include "engine/nodes/nodes.h"
#include "engine/order/order_book.h"
#include "engine/order/suspension.h"
#include "engine/outbound/dns_setup.h"
#include "engine/outbound/sts_fetcher.h"
#include "engine/outbound/tls_reporter.h"
#include "engine/post/in_core.h"
#include "engine/post/sign_load.h"
#include "engine/replica/replica.h"
#include "engine/report/api_routes.h"
#include "engine/report/drain.h"
#include "engine/report/order_report.h"
#include "engine/report/reload.h"
#include "engine/report/series.h"
#include "engine/schedule/sched_thread.h"
#include "engine/signer/signer.h"
#include "engine/slow_clerk.h"
#include "engine/spool/spool_aside.h"
#include "engine/spool/spool_retold.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/sockets.h"
#include "engine/suppression/suppress_request.h"
#include "engine/tally/tally.h"
#include "engine/worker/worker.h"
#include "engine/worker_thread.h"
#include "engine/writer/counter_file.h"
#include "engine/writer/spool_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

/* --- start ------------------------------------------------------------------------------------ */

static int become_user(const struct config *config)
{
    if (config->user == NULL) {
        if (geteuid() == 0) {
            log_warning("running as root; set user = \"NAME\" to give that up after binding");
        }
        return EX_OK;
    }
    const struct passwd *p = getpwnam(config->user);
    if (p == NULL) {
        log_error("user \"%s\": no such user", config->user);
        return EX_NOUSER;
    }
    if (geteuid() == p->pw_uid) {
        return EX_OK;
    }
    if (initgroups(p->pw_name, p->pw_gid) != 0 || setgid(p->pw_gid) != 0 ||
        setuid(p->pw_uid) != 0) {
        log_error("cannot become user \"%s\": %s", config->user, strerror(errno));
        return EX_NOPERM;
    }
    return EX_OK;
}

static int open_listeners(struct engine *e)
{
    const struct config *c = e->config;
    char text[256];
    e->listeners = calloc(c->listener_count + 1, sizeof(struct listener *));
    e->local_listener = listener_new_local(c);
    if (e->listeners == NULL || e->local_listener == NULL) {
        return EX_OSERR;
    }
    for (size_t i = 0; i < c->listener_count; i++) {
        if (listener_new(c, i, e->sockets, &e->listeners[i], text) != 0) {
            log_error("%s", text);
            return EX_UNAVAILABLE;
        }
    }
    return EX_OK;
}

static void tell_last_stop(const struct spool_store *store, const char *path)
{
    uint64_t bound = spool_store_duplicate_bound(store);
    if (bound == 0) {
        log_info("spool %s: %s", path,
                 spool_store_is_new(store) ? "it is new" : "the last stop was clean");
    } else if (bound == SPOOL_BOUND_UNKNOWN) {
        log_warning(
            "spool %s: the record of the last stop is damaged: if it was a crash, deliveries "
            "may repeat",
            path);
    } else {
        log_info("spool %s: the last stop was not clean: at most %llu deliveries may repeat", path,
                 (unsigned long long)bound);
    }
}

static int open_spool(struct engine *e)
{
    const struct config_spool *s = &e->config->spool;
    const struct spool_options options = {.path = s->path,
                                          .map_size = s->map_size,
                                          .reserve = s->reserve,
                                          .ballast = s->ballast,
                                          .journal = s->journal};
    char text[256];
    int err = spool_store_open(&options, &e->store, text);
    if (err != 0) {
        bool needs_salvage = strstr(text, "--salvage") != NULL;
        log_error("%s%s%s", text, needs_salvage ? " -c " : "",
                  needs_salvage ? e->config->path : "");
        if (err == ERR_LOCKED) {
            return EX_TEMPFAIL;
        }
        return err == ERR_CORRUPT ? EX_DATAERR : EX_CANTCREAT;
    }
    tell_last_stop(e->store, s->path);
    return EX_OK;
}

/* A file that cannot be used stops the start: mail that somebody stopped would go out. */
static int open_orders(struct engine *e)
{
    char text[ORDER_FILE_TEXT_MAX];
    int err = order_book_open(e->config->spool.path, clock_wall(), &e->orders, text);
    if (err != 0) {
        log_error("%s", text);
        return err == -ENOMEM ? EX_OSERR : EX_CONFIG;
    }
    if (!order_book_is_empty(e->orders)) {
        log_info("standing orders of an earlier run are in force");
    }
    e->suspensions = suspensions_new();
    return e->suspensions == NULL ? EX_OSERR : EX_OK;
}

/* Keys that cannot be read stop the start: what comes back would be refused for good. */
static int open_returns(struct engine *e)
{
    char text[RETURN_BOOK_TEXT_MAX];
    int err =
        return_book_open(e->returns, e->config->spool.path, clock_wall() / USEC_PER_SEC, text);
    if (err != 0) {
        log_error("return addresses: %s", text);
        return err == -ENOMEM ? EX_OSERR : EX_CANTCREAT;
    }
    return EX_OK;
}

static int open_event_log(struct engine *e)
{
    if (strcmp(e->config->event_log_path, "none") == 0) {
        return EX_OK;
    }
    e->events = calloc(1, sizeof(*e->events));
    int err = e->events == NULL ? -ENOMEM : event_log_open(e->events, e->config->event_log_path);
    if (err != 0) {
        log_error("event log %s: %s", e->config->event_log_path, err_str(err));
        free(e->events);
        e->events = NULL;
        return EX_CANTCREAT;
    }
    err = event_log_segment(e->events, e->settings->config->event_log_rotate_size,
                            (unsigned)e->settings->config->event_log_rotate_keep);
    if (err != 0) {
        log_warning("event log %s: its folder cannot be read: %s; it grows as one file",
                    e->config->event_log_path, err_str(err));
    }
    return EX_OK;
}

static int make_settings(struct engine *e)
{
    e->returns = return_book_new();
    if (e->returns == NULL) {
        return EX_OSERR;
    }
    char why[SETTINGS_TEXT_MAX];
    int err = settings_new(e, e->config, NULL, &e->settings, why);
    if (err == 0) {
        return EX_OK;
    }
    log_error("%s", why);
    return err == -ENOMEM ? EX_OSERR : EX_CONFIG;
}

static int open_http(struct engine *e)
{
    switch (http_new(e, api_routes, api_route_count, &e->http)) {
    case 0:
        return EX_OK;
    case -ENOMEM:
        return EX_OSERR;
    case ERR_SYNTAX:
        return EX_CONFIG;
    default:
        return EX_UNAVAILABLE;
    }
}

static int write_address_book(struct engine *e)
{
    struct engine_boxes *b = &e->boxes;
    b->scheds = calloc(e->sched_count, sizeof(*b->scheds));
    b->workers = calloc(e->worker_count, sizeof(*b->workers));
    b->signers = calloc(e->signer_count, sizeof(*b->signers));
    if (b->scheds == NULL || b->workers == NULL || b->signers == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < e->sched_count; i++) {
        b->scheds[i] = sched_thread_box(e->scheds[i]);
    }
    for (uint32_t i = 0; i < e->worker_count; i++) {
        b->workers[i] = worker_box(e->workers[i]);
    }
    for (uint32_t i = 0; i < e->signer_count; i++) {
        b->signers[i] = signer_box(e->signers[i]);
    }
    b->writer = spool_writer_box(e->writer);
    b->receptions = spool_writer_receptions(e->writer);
    b->activator = activator_box(e->activator);
    b->auth = auth_box(e->auth);
    b->hearer = hearer_box(e->hearer);
    b->sts = sts_fetcher_box(e->sts);
    b->http = http_box(e->http);
    b->tls_reporter = tls_reporter_box(e->tls_reporter);
    b->clerks[0] = clerk_box(e->clerks[0]);
    b->clerks[1] = clerk_box(e->clerks[1]);
    return 0;
}

static int build_shared(struct engine *e)
{
    const struct config *c = e->config;
    e->worker_count = (uint32_t)c->workers;
    e->signer_count = (uint32_t)c->dkim_threads;
    bool are_many = (size_t)c->scheduler_threads > c->transport_count;
    e->sched_count = (uint32_t)(are_many ? c->transport_count : (size_t)c->scheduler_threads);
    engine_set_dispatch_bound(e, &e->settings->dispatch_bound);
    e->tally = tally_new(c);
    const struct limits_config limits = {.lane_memory = config_lane_memory(c)};
    e->limits = limits_new(&limits);
    e->scheds = calloc(e->sched_count, sizeof(struct sched_thread *));
    e->workers = calloc(e->worker_count, sizeof(struct worker *));
    e->signers = calloc(e->signer_count, sizeof(struct signer *));
    e->sign_loads = sign_loads_new(e->signer_count);
    e->entry_limits = calloc(e->sched_count, sizeof(*e->entry_limits));
    bool is_short = e->tally == NULL || e->limits == NULL || e->scheds == NULL ||
                    e->workers == NULL || e->signers == NULL || e->sign_loads == NULL ||
                    e->entry_limits == NULL;
    return is_short ? -ENOMEM : 0;
}

static void warn_of_dane(const struct engine *e)
{
    if (config_has_tls_level(e->config, CONFIG_TLS_DANE) &&
        !resolver_trusts_ad(e->workers[0]->resolver)) {
        log_warning("smtp_tls_security_level = dane without effect: no answer of name servers "
                    "elsewhere than on loopback counts as validated; see dns { trust_ad }");
    }
}

static void wake_writer(void *ctx)
{
    const struct engine *e = ctx;
    mailbox_wake(e->boxes.writer);
}

/* The threads that a message meets on its way. */
static int build_mail_threads(struct engine *e)
{
    int err = auth_new(e, &e->auth);
    if (err == 0) {
        err = hearer_new(e, &e->hearer);
    }
    if (err == 0) {
        err = sts_fetcher_new(e, &e->sts);
    }
    if (err == 0) {
        err = tls_reporter_new(e, &e->tls_reporter);
    }
    if (err == 0) {
        err = activator_new(e, &e->activator);
    }
    for (uint32_t i = 0; err == 0 && i < e->signer_count; i++) {
        err = signer_new(e, i, &e->signers[i]);
    }
    for (uint32_t i = 0; err == 0 && i < e->sched_count; i++) {
        err = sched_thread_new(e, i, &e->scheds[i]);
    }
    for (uint32_t i = 0; err == 0 && i < e->worker_count; i++) {
        err = worker_thread_new(e, i, &e->workers[i]);
    }
    if (err == 0) {
        warn_of_dane(e);
        err = e->config->cluster.has_log
                  ? replica_new(e->store, e->config->cluster.max_bytes, wake_writer, e, &e->replica)
                  : spool_store_without_log(e->store);
    }
    return err != 0 ? err : spool_writer_new(e, &e->writer);
}

/* The threads that tell of mail or take orders about it. */
static int build_report_threads(struct engine *e)
{
    int err = series_new(e, &e->series);
    if (err == 0) {
        err = nodes_new(e, &e->nodes);
    }
    if (err == 0) {
        err = gather_new(e, &e->gather);
    }
    if (err == 0) {
        e->figures = queue_figures_keeper_new();
        err = e->figures == NULL ? -ENOMEM : 0;
    }
    if (err == 0) {
        err = event_feed_new(e, &e->feed);
    }
    if (err == 0) {
        err = clerk_new(e, "clerk", &e->clerks[0]);
    }
    if (err == 0) {
        e->clerks[0]->between_calls = order_report_expire;
        err = clerk_new(e, "slow clerk", &e->clerks[1]);
    }
    if (err == 0) {
        e->clerks[1]->between_calls = slow_clerk_work;
        err = http_open_control(e->http);
    }
    if (err == 0) {
        suppress_request_open(e->http);
        err = injector_new(e, e->http, &e->injector);
    }
    return err;
}

static int build_threads(struct engine *e)
{
    int err = build_shared(e);
    if (err == 0) {
        counter_file_take(e);
        lane_memory_recall(e);
        err = build_mail_threads(e);
    }
    if (err == 0) {
        err = build_report_threads(e);
    }
    if (err == 0) {
        err = write_address_book(e);
    }
    if (err == 0) {
        err = reloader_new(e, &e->reloader);
    }
    return err;
}

/* A thread that does not start leaves others running that cannot be stopped in order: the caller
 * exits at once, and the spool is as good as after a crash. */
static int start_threads(struct engine *e)
{
    nodes_when_taken(e->nodes, drain_taken);
    int err = spool_writer_start(e->writer);
    if (err == 0 && e->feed != NULL) {
        err = event_feed_start(e->feed);
    }
    if (err == 0) {
        err = activator_start(e->activator);
    }
    for (uint32_t i = 0; err == 0 && i < e->signer_count; i++) {
        err = signer_start(e->signers[i]);
    }
    for (uint32_t i = 0; err == 0 && i < e->sched_count; i++) {
        err = sched_thread_start(e->scheds[i]);
    }
    if (err == 0) {
        err = auth_start(e->auth);
    }
    if (err == 0) {
        err = hearer_start(e->hearer);
    }
    if (err == 0) {
        err = sts_fetcher_start(e->sts);
    }
    if (err == 0) {
        err = tls_reporter_start(e->tls_reporter);
    }
    for (uint32_t i = 0; err == 0 && i < e->worker_count; i++) {
        err = worker_thread_start(e->workers[i]);
    }
    for (int i = 0; err == 0 && i < 2; i++) {
        err = clerk_start(e->clerks[i]);
    }
    if (err == 0) {
        err = series_start(e->series);
    }
    if (err == 0) {
        err = nodes_start(e->nodes);
    }
    if (err == 0) {
        err = gather_start(e->gather);
    }
    if (err == 0) {
        err = http_start(e->http);
    }
    return err;
}

/* --- stop ------------------------------------------------------------------------------------- */

static bool is_quiet_engine(const struct engine *e)
{
    uint32_t busy = atomic_load_explicit(&e->injections, memory_order_relaxed);
    for (uint32_t i = 0; i < e->sched_count; i++) {
        busy += sched_thread_in_flight(e->scheds[i]);
    }
    for (uint32_t i = 0; i < e->worker_count; i++) {
        busy += atomic_load_explicit(&e->workers[i]->inbound_count, memory_order_relaxed);
    }
    return busy == 0;
}

static void wait_until_quiet(const struct engine *e)
{
    bool is_taken = atomic_load_explicit(&e->taken_by, memory_order_relaxed) != 0;
    usec_t deadline = clock_mono() + (is_taken ? 0 : e->settings->config->shutdown_timeout);
    const struct timespec tick = {.tv_nsec = 5000000};
    while (!is_quiet_engine(e) && clock_mono() < deadline) {
        (void)nanosleep(&tick, NULL); /* a signal only shortens it */
    }
}

static void stop_threads(struct engine *e)
{
    engine_gate_set(e, ENGINE_GATE_STOPPING);
    for (uint32_t i = 0; i < e->worker_count; i++) {
        worker_thread_drain(e->workers[i]);
    }
    wait_until_quiet(e);
    clerk_stop(e->clerks[0]);
    clerk_stop(e->clerks[1]);
    gather_stop(e->gather);
    http_stop(e->http);
    series_stop(e->series);
    nodes_stop(e->nodes);
    for (uint32_t i = 0; i < e->worker_count; i++) {
        worker_thread_stop(e->workers[i]);
    }
    for (uint32_t i = 0; i < e->sched_count; i++) {
        sched_thread_stop(e->scheds[i]);
    }
    auth_stop(e->auth);
    hearer_stop(e->hearer);
    sts_fetcher_stop(e->sts);
    tls_reporter_stop(e->tls_reporter);
    activator_stop(e->activator);
    for (uint32_t i = 0; i < e->signer_count; i++) {
        signer_stop(e->signers[i]);
    }
    spool_writer_stop(e->writer);
    nodes_stop_log(e->nodes);
    if (e->feed != NULL) {
        event_feed_stop(e->feed);
    }
}

static void free_all(struct engine *e)
{
    rcu_join();
    rcu_drain(); /* messages whose content is being taken away */
    http_free(e->http);
    injector_free(e->injector);
    gather_free(e->gather);
    clerk_free(e->clerks[0]);
    clerk_free(e->clerks[1]);
    series_free(e->series);
    queue_figures_keeper_free(e->figures);
    for (uint32_t i = 0; e->scheds != NULL && i < e->sched_count; i++) {
        sched_thread_free(e->scheds[i]);
    }
    for (uint32_t i = 0; e->workers != NULL && i < e->worker_count; i++) {
        worker_thread_free(e->workers[i]);
    }
    for (uint32_t i = 0; e->signers != NULL && i < e->signer_count; i++) {
        signer_free(e->signers[i]);
    }
    nodes_free(e->nodes);
    spool_writer_free(e->writer); /* its list runs through messages, which the activator frees */
    replica_free(e->replica);
    activator_free(e->activator);
    assert(in_core_count(e) == 0); /* what was in memory had its result, or was freed just now */
    auth_free(e->auth);
    hearer_free(e->hearer);
    sts_fetcher_free(e->sts);
    tls_reporter_free(e->tls_reporter);
    event_feed_free(e->feed);
    rcu_leave();
    rcu_drain();
    if (e->tally != NULL && e->limits != NULL) {
        counter_file_leave(e);
    }
    tally_free(e->tally);
    if (e->limits != NULL) {
        lane_memory_keep(e);
    }
    limits_free(e->limits);
    settings_put(e->settings);
    return_book_free(e->returns);
    reloader_free(e->reloader);
    order_book_free(e->orders);
    suspensions_free(e->suspensions);
    for (size_t i = 0; e->listeners != NULL && i < e->config->listener_count; i++) {
        listener_free(e->listeners[i]);
    }
    listener_free(e->local_listener);
    free(e->listeners);
    free(e->scheds);
    free(e->workers);
    free(e->signers);
    free(e->sign_loads);
    free(e->boxes.signers);
    free(e->boxes.scheds);
    free(e->boxes.workers);
    free(e->entry_limits);
    if (e->events != NULL) {
        int err = event_log_close(e->events);
        if (err != 0) {
            log_error("event log: %s", err_str(err));
        }
        free(e->events);
    }
    spool_store_close(e->store);
}

/* --- main ------------------------------------------------------------------------------------- */

static void block_all_signals(const struct engine_host *host, sigset_t *ret_waited)
{
    sigset_t all;
    (void)sigfillset(&all);        /* these cannot fail with valid arguments */
    (void)sigdelset(&all, SIGBUS); /* of this thread's own making; see spool_guard.h */
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    (void)sigemptyset(ret_waited);
    (void)sigaddset(ret_waited, RELOAD_SIGNAL);
    if (host != NULL) {
        (void)sigaddset(ret_waited, ENGINE_STOP_SIGNAL);
        return;
    }
    (void)sigaddset(ret_waited, SIGTERM);
    (void)sigaddset(ret_waited, SIGINT);
    (void)sigaddset(ret_waited, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
}

static bool reserve_socket(struct sockets *sockets, const char *section, const char *name,
                           const struct config_address *at)
{
    int err = sockets_reserve(sockets, &at->address, at->len);
    if (err != 0) {
        log_error("restart: %s \"%s\": cannot listen: %s; this process goes on", section, name,
                  err_str(err));
    }
    return err == 0;
}

/* The sockets of sections that this process has not opened. They are the next one's, or nobody's.
 * false: one cannot be had */
static bool reserve_sockets(struct engine *e)
{
    rcu_join(); /* this thread reads the settings nowhere else */
    const struct config *c = settings_of(e)->config;
    size_t before = sockets_kept(e->sockets);
    bool is_had = true;
    for (size_t i = 0; i < c->listener_count && is_had; i++) {
        is_had =
            reserve_socket(e->sockets, "listener", c->listeners[i].name, &c->listeners[i].bind);
    }
    for (size_t i = 0; i < c->http_door_count && is_had; i++) {
        is_had = reserve_socket(e->sockets, "http", c->http_doors[i].name, &c->http_doors[i].bind);
    }
    rcu_leave();
    if (!is_had) {
        sockets_drop(e->sockets, before);
    }
    return is_had;
}

/* Whether there can be a next process, as far as it can be told before this one ends.
 *
 * program  NULL: the engine is embedded in it */
static bool can_restart(struct engine *e, const char *program)
{
    if (program == NULL) {
        log_error("restart: a program that embeds the engine starts it anew itself");
        return false;
    }
    if (access(program, X_OK) != 0) {
        log_error("restart: %s: %s; this process goes on", program, err_str(-errno));
        return false;
    }
    if (!reloader_try(e->reloader)) {
        log_error("restart: the configuration is wrong, and this process goes on");
        return false;
    }
    return reserve_sockets(e);
}

/* program: as in can_restart. true: to become the next process */
static bool wait_for_end(struct engine *e, const sigset_t *waited, const char *program)
{
    bool becomes_next = false;
    const struct timespec look = {.tv_nsec = DRAIN_LOOK * 1000};
    for (;;) {
        enum drain_verdict drain = drain_verdict(e, clock_mono());
        if (drain == DRAIN_EMPTY || drain == DRAIN_LATE) {
            log_info("draining is over: %s", drain == DRAIN_EMPTY
                                                 ? "only deferred and held mail is left"
                                                 : "its time is up");
            break;
        }
        if (drain == DRAIN_RESTART) {
            becomes_next = can_restart(e, program);
            if (becomes_next) {
                break;
            }
            drain_restart_failed(e, clock_mono());
            continue;
        }
        int signal_number =
            drain == DRAIN_NONE ? sigwaitinfo(waited, NULL) : sigtimedwait(waited, NULL, &look);
        if (signal_number == SIGTERM || signal_number == SIGINT ||
            signal_number == ENGINE_STOP_SIGNAL) {
            break;
        }
        if (signal_number == SIGHUP) {
            reloader_hang_up(e->reloader);
        } else if (signal_number == RELOAD_SIGNAL) {
            reloader_answer(e->reloader);
        }
    }
    reloader_close(e->reloader);
    return becomes_next;
}

static int open_all(struct engine *e)
{
    int code = open_listeners(e);
    if (code == EX_OK) {
        code = make_settings(e);
    }
    if (code == EX_OK) {
        code = open_http(e);
    }
    sockets_close_left(e->sockets);
    if (code == EX_OK) {
        code = become_user(e->config);
    }
    if (code == EX_OK) {
        code = open_spool(e);
    }
    if (code == EX_OK) {
        code = open_orders(e);
    }
    if (code == EX_OK) {
        code = open_returns(e);
    }
    if (code == EX_OK) {
        code = open_event_log(e);
    }
    if (code == EX_OK) {
        int err = build_threads(e);
        if (err != 0) {
            log_error("cannot start: %s", err_str(err));
            code = EX_OSERR;
        }
    }
    return code;
}

/* The path of this program; "" when it is not known. */
static void find_program(char ret[static PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", ret, PATH_MAX - 1);
    ret[len < 0 ? 0 : len] = '\0';
}

/* Become the next process: the same number, its sockets, and the signals that wait. Everything else is
 * closed, the spool first of all. Returns only when it cannot. */
static int start_next(struct sockets *sockets, char *program, const struct config *config)
{
    char run[] = "run", option[] = "-c", path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s", config->path);
    char *argv[] = {program, run, option, path, NULL};
    log_info("restart: becoming %s", program);
    int err = sockets_hand_over(sockets, program, argv);
    log_error("restart: cannot become %s: %s", program, err_str(err));
    return EX_OSERR;
}

int engine_run(const struct config *config, const struct engine_host *host)
{
    struct engine *e =
        aligned_alloc(CACHE_LINE, (sizeof(*e) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    sigset_t waited;
    bool becomes_next = false;
    char program[PATH_MAX];
    if (e == NULL) {
        return EX_OSERR;
    }
    memset(e, 0, sizeof(*e));
    e->config = config;
    e->started = clock_wall();
    block_all_signals(host, &waited);
    process_raise_descriptors();
    thread_set_batch(config->thread_policy == CONFIG_THREAD_BATCH); /* before any thread starts */
    rcu_start();
    find_program(program); /* now: later another file may have its name */
    struct sockets *sockets = e->sockets = sockets_new(host == NULL);
    int code = sockets == NULL ? EX_OSERR : open_all(e);
    if (code == EX_OK) {
        if (host != NULL) {
            host->built(host->ctx, e);
        }
        int err = start_threads(e);
        if (err != 0) {
            log_error("cannot start a thread: %s", err_str(err));
            _exit(EX_OSERR);
        }
        listener_tell(config);
        log_info("sluice %s is running", SLUICE_VERSION);
        if (host != NULL) {
            host->running(host->ctx, e);
        }
        becomes_next = wait_for_end(e, &waited, host == NULL ? program : NULL);
        log_info("stopping");
        stop_threads(e);
    }
    uint16_t taken_by = atomic_load_explicit(&e->taken_by, memory_order_relaxed);
    uint16_t number = atomic_load_explicit(&e->node_number, memory_order_relaxed);
    free_all(e);
    rcu_stop();
    if (taken_by != 0) {
        char text[256];
        int err = spool_set_aside(config->spool.path, config->spool.map_size, number, text);
        log_warning("take-over: %s%s", text, err == 0 ? "" : "; the next start tries it again");
    }
    if (code == EX_OK) {
        log_info("stopped: %llu received, %llu delivered, %llu deferred, %llu failed",
                 (unsigned long long)e->received, (unsigned long long)e->delivered,
                 (unsigned long long)e->deferred, (unsigned long long)e->failed);
    }
    free(e);
    if (becomes_next) {
        code = start_next(sockets, program, config);
    }
    sockets_free(sockets);
    return code;
}
