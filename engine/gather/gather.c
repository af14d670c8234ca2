/* The thread `gather`, its life, and what reaches it from other threads.
 *
 * Concurrency: events come by a list under `lock`; all else is the thread's own. A call that the http
 * thread gave is the thread's until LETTER_ANSWER, or until the thread has ended. The module's client
 * is opened, used and closed by the thread. */
#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/gather/gather_private.h"
#include "engine/http/http.h"
#include "engine/http/inner_call.h"
#include "engine/nodes/cluster_loader.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY USEC_PER_SEC /* until this node is in the cluster */

/* --- what other threads tell ------------------------------------------------------------------ */

static struct event *event_new(struct gather *g, enum event_kind kind)
{
    struct event *e = calloc(1, sizeof(*e));
    if (e != NULL) {
        list_init(&e->link);
        e->kind = kind;
        e->gather = g;
        buf_init(&e->bytes, 0);
    }
    return e;
}

static void event_free(struct event *e)
{
    if (e != NULL) {
        buf_fini(&e->bytes);
        free(e);
    }
}

/* What it takes of memory. */
static size_t event_size(const struct event *e)
{
    return sizeof(*e) + e->bytes.len;
}

static void put_event(struct event *e)
{
    struct gather *g = e->gather;
    (void)pthread_mutex_lock(&g->lock);
    list_push_back(&g->events, &e->link);
    g->event_bytes += event_size(e);
    (void)pthread_mutex_unlock(&g->lock);
    mailbox_wake(&g->post.box);
}

/* NULL: there is none. */
static struct event *take_event(struct gather *g)
{
    struct event *e = NULL;
    (void)pthread_mutex_lock(&g->lock);
    if (!list_is_empty(&g->events)) {
        e = list_first(&g->events, struct event, link);
        list_remove(&e->link);
        g->event_bytes -= event_size(e);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return e;
}

/* Of another node: what there is no room for is not heard, as if it had been lost on the way. */
static void put_heard(struct gather *g, enum event_kind kind, const char *name, const void *data,
                      size_t len)
{
    struct event *e = event_new(g, kind);
    if (e == NULL) {
        return;
    }
    (void)snprintf(e->name, sizeof(e->name), "%s", name); /* it fits */
    e->is_nobody = data == NULL;
    buf_append(&e->bytes, data == NULL ? "" : data, len);
    (void)pthread_mutex_lock(&g->lock);
    bool has_room = g->event_bytes + event_size(e) <= GATHER_HELD_MAX;
    (void)pthread_mutex_unlock(&g->lock);
    if (e->bytes.failed || !has_room) {
        event_free(e);
    } else {
        put_event(e);
    }
}

static void hear_question(void *ctx, const char *reply, const void *data, size_t len)
{
    if (len <= 2 * NODE_QUESTION_TARGET_MAX) {
        put_heard(ctx, EVENT_QUESTION, reply, data, len);
    }
}

static void hear_answer(void *ctx, const char *token, const void *data, size_t len)
{
    if (len <= 2 * ANSWER_PART_BYTES) {
        put_heard(ctx, EVENT_ANSWER, token, data, data == NULL ? 0 : len);
    }
}

/* Thread: http */
static bool take_call(void *ctx, struct api_call *c)
{
    struct event *e = event_new(ctx, EVENT_CALL);
    if (e == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return false;
    }
    e->call = c;
    put_event(e);
    return true;
}

/* Thread: http */
static void take_own_answer(void *ctx, int status, struct slice body)
{
    struct event *e = ctx;
    e->status = status;
    buf_append_slice(&e->bytes, body);
    if (e->bytes.failed) {
        buf_clear(&e->bytes);
        e->status = 503;
    }
    put_event(e);
}

int gather_call_self(struct gather *g, const char *target, struct label tenant, uint64_t number,
                     bool is_served)
{
    struct event *e = event_new(g, EVENT_LOCAL);
    if (e == NULL) {
        return -ENOMEM;
    }
    const struct inner_request r = {.method = "GET",
                                    .target = target,
                                    .type = "",
                                    .body = SLICE(""),
                                    .is_from_node = true,
                                    .tenant = tenant};
    e->number = number;
    e->is_served = is_served;
    int err = inner_call_make(g->engine->http, &r, take_own_answer, e);
    if (err != 0) {
        event_free(e);
    }
    return err;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Once this node has been in the cluster, so that its servers are known to be fit. */
static void open_api(struct gather *g)
{
    struct nodes_view *v = malloc(sizeof(*v));
    bool is_joined = false;
    if (v != NULL) {
        nodes_look(g->engine->nodes, v);
        is_joined = v->is_joined;
    }
    free(v);
    if (is_joined) {
        const struct cluster_options options = nodes_options(g->engine->nodes);
        const struct cluster_api_hearer hearer = {hear_question, hear_answer, g};
        int err = g->module->open(&options, g->engine->config->cluster.node, &hearer, &g->client);
        if (err != 0) {
            log_error("cluster: no questions of other nodes: %s", err_str(err));
        }
    }
}

static void take_what_came(struct gather *g, usec_t now) ON_ROLE(g->post)
{
    struct event *e;
    while ((e = take_event(g)) != NULL) {
        switch (e->kind) {
        case EVENT_CALL:
            asking_begin(g, e->call, now);
            break;
        case EVENT_QUESTION:
            serving_begin(g, e, now);
            break;
        case EVENT_ANSWER:
            asking_hear(g, e, now);
            break;
        case EVENT_LOCAL:
            if (e->is_served) {
                serving_end(g, e);
            } else {
                asking_take_own(g, e);
            }
            break;
        }
        event_free(e);
    }
}

static bool has_events(struct gather *g)
{
    (void)pthread_mutex_lock(&g->lock);
    bool has_any = !list_is_empty(&g->events);
    (void)pthread_mutex_unlock(&g->lock);
    return has_any;
}

/* Events are looked at behind post_nap_prepare, as what keeps a thread awake must be. */
static void nap(struct gather *g, usec_t deadline) ON_ROLE(g->post)
{
    if (post_nap_prepare(&g->post) && !has_events(g)) {
        post_nap_sleep(&g->post, deadline);
    }
    post_nap_finish(&g->post);
}

static void run_gather(void *arg)
{
    struct gather *g = arg;
    usec_t try_at = 0;
    post_assert_owner(&g->post);
    rcu_sleep(); /* it reads nothing under RCU, and waits for servers */
    while (!post_must_end(&g->post)) {
        post_take_wakes(&g->post);
        usec_t now = clock_mono();
        if (g->client == NULL && now >= try_at) {
            open_api(g);
            try_at = now + RETRY;
        }
        take_what_came(g, now);
        usec_t asking = asking_expire(g, now), serving = serving_beat(g, now);
        usec_t deadline = asking < serving ? asking : serving;
        deadline = g->client == NULL && try_at < deadline ? try_at : deadline;
        if (!post_flush(&g->post)) {
            deadline = now + 10 * USEC_PER_MSEC;
        }
        nap(g, deadline);
    }
    if (g->client != NULL) {
        g->module->close(g->client);
    }
    rcu_awake();
}

/* --- life ------------------------------------------------------------------------------------- */

int gather_new(struct engine *engine, struct gather **ret)
{
    const struct config_cluster *config = &engine->config->cluster;
    const struct cluster_module *module = NULL;
    const struct cluster_log_module *log_module = NULL;
    char text[CLUSTER_LOADER_TEXT];
    *ret = NULL;
    if (config->node == NULL) {
        return 0;
    }
    struct gather *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        return -ENOMEM;
    }
    g->engine = engine;
    list_init(&g->askings);
    list_init(&g->servings);
    list_init(&g->events);
    (void)pthread_mutex_init(&g->lock, NULL); /* cannot fail with default attributes on Linux */
    int err = cluster_loader_load(config->module, &module, &log_module, text);
    if (err != 0) {
        log_error("cluster: %s", text);
    }
    err = err != 0 ? err : post_init(&g->post, 1);
    if (err != 0) {
        gather_free(g);
        return err;
    }
    g->module = module->api;
    const struct http_gatherer gatherer = {take_call, g};
    http_set_gatherer(engine->http, &gatherer);
    *ret = g;
    return 0;
}

int gather_start(struct gather *g)
{
    int err = g == NULL ? 0 : post_open(&g->post, 1);
    if (g == NULL || err != 0) {
        return err;
    }
    g->to_http = post_write_to(&g->post, g->engine->boxes.http);
    return post_start(&g->post, "gather", run_gather, g);
}

void gather_stop(struct gather *g)
{
    if (g != NULL) {
        post_stop(&g->post);
    }
}

void gather_free(struct gather *g)
{
    struct event *e;
    if (g == NULL) {
        return;
    }
    while ((e = take_event(g)) != NULL) {
        event_free(e);
    }
    asking_drop_all(g);
    serving_drop_all(g);
    post_fini(&g->post);
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}
