/* Owns the way from a configuration file to settings in force. Called by the main loop, and by the
 * clerk that has such a request; builds nothing that is not in settings.c. */
#include "engine/report/reload.h"

#include "base/error.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "base/waker.h"
#include "engine/config/config.h"
#include "engine/config/config_change.h"
#include "engine/feed/event_feed.h"
#include "engine/feed/feed_plan.h"
#include "engine/http/clerk.h"
#include "engine/http/http.h"
#include "engine/limit/limits.h"
#include "engine/outbound/dns_setup.h"
#include "engine/post/letter.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct reload_result {
    bool is_done;     /* other settings are in force */
    json_t *errors;   /* texts */
    json_t *warnings; /* texts */
    json_t *restart;  /* objects: option, at, why */
    uint64_t serial;  /* of the settings in force afterwards */
};

struct reloader {
    /* set at creation */
    struct engine *engine;
    pthread_t main;

    /* main only */
    struct post post;         /* main sends letters and gets none */
    struct outbox *to_writer; /* of the post */
    struct outbox *to_scheds; /* [engine->sched_count] */

    /* any thread, atomic: who waits for an answer, or NULL; after the end, a mark */
    struct reload_question *_Atomic asked;
};

struct reload_question {
    struct waker waker; /* of who asks */
    _Atomic bool is_answered;
    _Atomic int holders; /* who asked, and main: the last of the two frees the question */
    bool is_closed;      /* the daemon stops */
    struct reload_result result;
};

/* Stands in `asked` when no question is answered any more, because the daemon stops. */
static struct reload_question closed;

/* --- what is said about it -------------------------------------------------------------------- */

static void result_init(struct reload_result *ret)
{
    *ret = (struct reload_result){
        .errors = json_array(), .warnings = json_array(), .restart = json_array()};
}

static void result_fini(struct reload_result *r)
{
    json_decref(r->errors);
    json_decref(r->warnings);
    json_decref(r->restart);
}

/* Out of memory leaves it to the log. */
static void add_complaint(void *ctx, bool is_warning, const char *line)
{
    struct reload_result *r = ctx;
    (void)json_array_append_new(is_warning ? r->warnings : r->errors, api_text(slice_of(line)));
    if (is_warning) {
        log_warning("reload: %s", line);
    } else {
        log_error("reload: %s", line);
    }
}

static void add_restart(void *ctx, const char *option, const char *at, const char *why)
{
    struct reload_result *r = ctx;
    json_t *o = json_object();
    api_set_text(o, "option", slice_of(option));
    api_set_text(o, "at", slice_of(at));
    api_set_text(o, "why", slice_of(why));
    (void)json_array_append_new(r->restart, o);
    log_warning("reload: %s: %s: %s", at, option, why);
}

/* --- the reload ------------------------------------------------------------------------------- */

/* A full ring is being emptied, so this ends. */
static void flush_letters(struct reloader *r)
{
    const struct timespec tick = {.tv_nsec = 1000000};
    post_assert_owner(&r->post);
    while (!post_flush(&r->post)) {
        (void)nanosleep(&tick, NULL); /* a signal only shortens it */
    }
}

static void release_reload(struct rcu_retired *self)
{
    settings_put(container_of(self, struct settings, retired));
}

/* What is read and made before anything of it is in force. */
struct candidate {
    struct config *config;
    struct settings *settings; /* NULL: not made yet; they own the config */
    struct feed_plan *plan;    /* NULL: nobody reads the event log */
    struct http_change *doors; /* NULL: they stay as they are */
    bool trusts_ad;            /* of its name servers an answer can be authentic */
};

/* Schedulers hear of it by letter, everybody else with the next pass. */
static void put_in_force(struct reloader *r, const struct candidate *c)
{
    struct engine *e = r->engine;
    struct settings *old = e->settings, *fresh = c->settings;
    rcu_publish(&e->settings, fresh);
    event_feed_follow(e->feed, c->plan);
    http_change_apply(e->http, c->doors);
    limits_set_memory_span(e->limits, config_lane_memory(c->config));
    for (uint32_t i = 0; i < e->sched_count; i++) {
        letter_put_settings(&r->to_scheds[i], settings_get(fresh));
    }
    flush_letters(r);
    mailbox_wake(e->boxes.writer); /* the bound on what a crash can repeat */
    engine_wake_all(e);
    rcu_join();
    rcu_retire(&old->retired, release_reload);
    rcu_leave();
}

static void candidate_free(struct candidate *c)
{
    feed_plan_free(c->plan);
    http_change_free(c->doors);
    if (c->settings != NULL) {
        settings_put(c->settings);
    } else {
        config_free(c->config);
    }
}

/* Tell which changes need a restart, and which options have no effect on this machine. */
static void tell_limits(struct reloader *r, const struct config *config, bool trusts_ad,
                        struct reload_result *result)
{
    struct engine *e = r->engine;
    const struct config_change_sink sink = {.tell = add_restart, .ctx = result};
    config_change_list(e->config, config, &sink);
    if (e->feed == NULL) {
        config_change_list_feeds(config, &sink);
    }
    if (config_has_tls_level(config, CONFIG_TLS_DANE) && !trusts_ad) {
        add_complaint(result, true,
                      "smtp_tls_security_level = dane without effect: no answer of name servers "
                      "elsewhere than on loopback counts as validated; see dns { trust_ad }");
    }
}

/* returns false when it has been said why not; what was made by then is in the candidate */
static bool make(struct reloader *r, struct candidate *c, struct reload_result *result)
{
    struct engine *e = r->engine;
    char why[CONFIG_CHANGE_TEXT_MAX];
    char text[SETTINGS_TEXT_MAX];
    if (config_change_arrange(e->settings->config, c->config, config_transport_room(e->config),
                              why) != 0) {
        add_complaint(result, false, why);
        return false;
    }
    if (settings_new(e, c->config, e->settings, &c->settings, text) != 0) {
        add_complaint(result, false, text);
        return false;
    }
    c->settings->owned = c->config;
    int err = dns_setup_try(c->settings, &c->trusts_ad);
    if (err != 0) {
        (void)snprintf(text, sizeof(text), "dns: no resolver can be made of this: %s",
                       err_str(err));
        add_complaint(result, false, text);
        return false;
    }
    err = event_feed_plan(e->feed, c->settings, &c->plan);
    if (err != 0) {
        (void)snprintf(text, sizeof(text), "the end of the event log cannot be found: %s",
                       err_str(err));
        add_complaint(result, false, text);
    }
    if (err == 0) {
        err = http_change_new(e->http, c->settings, &c->doors, text);
        if (err != 0) {
            add_complaint(result, false, text);
        }
    }
    for (uint32_t i = 0; err == 0 && i < e->sched_count; i++) {
        err = sched_thread_prepare(e->scheds[i], c->settings);
    }
    return err == 0; /* without a complaint: out of memory */
}

static void reload(struct reloader *r, struct reload_result *result)
{
    const char *path = r->engine->config->path;
    const struct config_sink sink = {.complain = add_complaint, .ctx = result};
    struct candidate c = {.config = NULL};
    if (config_load(path, &sink, &c.config) == 0 && make(r, &c, result)) {
        tell_limits(r, c.config, c.trusts_ad, result);
        put_in_force(r, &c);
        result->is_done = true;
        log_info("reload: %s is in force", path);
    } else {
        candidate_free(&c);
        if (json_array_size(result->errors) == 0) {
            add_complaint(result, false, "out of memory");
        }
        log_error("reload: %s: the old configuration stays in force", path);
    }
    result->serial = r->engine->settings->serial;
}

/* --- the main thread -------------------------------------------------------------------------- */

int reloader_new(struct engine *engine, struct reloader **ret)
{
    struct reloader *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return -ENOMEM;
    }
    r->engine = engine;
    r->main = pthread_self();
    int err = post_open(&r->post, 1 + engine->sched_count);
    if (err != 0) {
        reloader_free(r);
        return err;
    }
    r->to_writer = post_write_to(&r->post, engine->boxes.writer);
    r->to_scheds = post_write_to_each(&r->post, engine->boxes.scheds, engine->sched_count);
    *ret = r;
    return 0;
}

void reloader_free(struct reloader *r)
{
    if (r == NULL) {
        return;
    }
    post_fini(&r->post);
    free(r);
}

void reloader_hang_up(struct reloader *r)
{
    struct reload_result result;
    letter_put_rotate(r->to_writer);
    (void)outbox_flush(r->to_writer); /* a full ring takes it with the next signal */
    result_init(&result);
    reload(r, &result);
    result_fini(&result);
}

bool reloader_try(struct reloader *r)
{
    struct reload_result result;
    result_init(&result);
    reload(r, &result);
    bool is_done = result.is_done;
    result_fini(&result);
    return is_done;
}

static void question_put(struct reload_question *q)
{
    if (atomic_fetch_sub_explicit(&q->holders, 1, memory_order_acq_rel) == 1) {
        result_fini(&q->result);
        waker_fini(&q->waker);
        free(q);
    }
}

static void finish_question(struct reload_question *q)
{
    /* Release: the result comes before. */
    atomic_store_explicit(&q->is_answered, true, memory_order_release);
    waker_kick(&q->waker);
    question_put(q);
}

void reloader_answer(struct reloader *r)
{
    /* Acquire pairs with the release of who asked. */
    struct reload_question *q = atomic_exchange_explicit(&r->asked, NULL, memory_order_acq_rel);
    if (q != NULL) {
        reload(r, &q->result);
        finish_question(q);
    }
}

void reloader_wake(struct reloader *r)
{
    (void)pthread_kill(r->main, RELOAD_SIGNAL); /* cannot fail: main ends after the clerks */
}

void reloader_close(struct reloader *r)
{
    struct reload_question *q = atomic_exchange_explicit(&r->asked, &closed, memory_order_acq_rel);
    if (q != NULL) {
        q->is_closed = true;
        finish_question(q);
    }
}

/* --- who asks --------------------------------------------------------------------------------- */

static struct reload_question *question_new(void)
{
    struct reload_question *q = calloc(1, sizeof(*q));
    if (q != NULL) {
        waker_init(&q->waker);
        result_init(&q->result);
        atomic_init(&q->holders, 2);
    }
    return q;
}

static bool is_answered(const struct reload_question *q)
{
    return atomic_load_explicit(&q->is_answered, memory_order_acquire);
}

/* A clerk's thread sleeps meanwhile. */
static void await_answer(struct reload_question *q)
{
    rcu_sleep();
    while (!is_answered(q)) {
        waker_prepare(&q->waker);
        if (!is_answered(q)) {
            waker_wait(&q->waker, USEC_NEVER);
        }
        waker_finish(&q->waker);
    }
    rcu_awake();
}

static void describe_reload(struct api_call *c, const struct engine *e,
                            const struct reload_result *r)
{
    json_t *o = json_object();
    if (o == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    if (r->is_done) {
        (void)json_object_set_new(o, "reloaded", json_true()); /* members that fail are missing */
        (void)json_object_set(o, "restart", r->restart);
    } else {
        api_set_text(o, "error",
                     SLICE("the configuration has mistakes; the old one stays in force"));
        api_set_text(o, "code", SLICE("wrong"));
        (void)json_object_set(o, "complaints", r->errors);
    }
    (void)json_object_set(o, "warnings", r->warnings);
    api_set_text(o, "file", slice_of(e->config->path));
    api_set_number(o, "serial", r->serial);
    api_object(c, r->is_done ? 200 : 422, o);
}

void reload_run(struct clerk *k, struct api_call *c)
{
    struct reloader *r = k->engine->reloader;
    struct reload_question *q = question_new();
    struct reload_question *none = NULL;
    if (q == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    if (!atomic_compare_exchange_strong_explicit(&r->asked, &none, q, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        atomic_store(&q->holders, 1);
        question_put(q);
        api_error(c, none == &closed ? 503 : 429, none == &closed ? "unavailable" : "busy",
                  none == &closed ? "the daemon stops" : "another reload is under way");
        return;
    }
    log_info("reload: asked for by %s", api_who(c));
    reloader_wake(r);
    await_answer(q);
    if (q->is_closed) {
        api_error(c, 503, "unavailable", "the daemon stops");
    } else {
        describe_reload(c, k->engine, &q->result);
    }
    question_put(q);
}
