/* The thread `cluster`.
 *
 * Concurrency: `seen` and all about beats are the thread's own. What the module's watchers tell comes
 * by inboxes; what others may see is `view`, under `lock`, which nobody holds while he waits for
 * anything. The client is made by the thread before it is published
 * (release, acquire by nodes_forget) and closed when the thread has ended and nobody asks any more. */
#include "engine/nodes/nodes.h"

#include "base/error.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/limit/limits_part.h"
#include "engine/nodes/cluster_clock.h"
#include "engine/nodes/cluster_loader.h"
#include "engine/nodes/fit_servers.h"
#include "engine/nodes/inbox.h"
#include "engine/nodes/lessons.h"
#include "engine/nodes/log_keeper.h"
#include "engine/nodes/node_lease.h"
#include "engine/nodes/node_numbers.h"
#include "engine/nodes/numbering.h"
#include "engine/nodes/shared_limits.h"
#include "engine/nodes/shared_orders.h"
#include "engine/nodes/taker.h"
#include "engine/nodes/unseen_numbers.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKET     NODE_NUMBERS_BUCKET
#define TIMEOUT    (2 * USEC_PER_SEC)
#define RETRY      (1 * USEC_PER_SEC)
#define INBOX_MAX  4096U
#define LOOK       (USEC_PER_SEC / 2)
#define BEATS_KEPT 64U /* that may be on their way to us */

struct seen_node {
    struct node_view view;
    struct member member;
};

struct nodes {
    /* set at creation */
    struct engine *engine;
    const struct config_cluster *config;
    const struct cluster_module *module;
    struct post post;
    char client_name[64];
    pthread_mutex_t lock;
    struct inbox inbox;
    struct lessons lessons;
    struct shared_orders orders;
    struct shared_limits limits;
    struct log_keeper *log; /* NULL: no log */
    struct taker *taker;    /* likewise */

    /* owner thread only */
    struct seen_node seen[NODES_MAX]; /* [seen_count], by name */
    size_t seen_count;
    struct node_entry own;
    uint64_t own_revision;
    struct member_ear ear;
    usec_t next_beat, next_look; /* boot time */
    usec_t sent[BEATS_KEPT];     /* likewise: when our entry was sent, by its beats */
    bool has_bucket, has_lessons, has_orders, has_limits, has_double, is_joined;
    bool told_full;
    struct numbering numbering;
    struct node_lease lease;
    struct unseen_numbers unseen;
    struct spool_reader *reader;

    /* under `lock` */
    struct nodes_view view;

    /* any thread, atomic */
    _Atomic(struct cluster_client *) client; /* NULL until the servers were found fit */
    _Atomic usec_t overlooked; /* cluster clock: when there last was a node that the view lacks */
    _Atomic bool has_dropped;  /* an entry was told for which there was no room */
    _Atomic uint16_t joined_number; /* 0: it is not joined, or has no number */
};

/* --- what the watcher tells ------------------------------------------------------------------- */

static void wake(void *ctx)
{
    struct nodes *n = ctx;
    mailbox_wake(&n->post.box);
}

static void wake_clerk(void *ctx)
{
    struct nodes *n = ctx;
    mailbox_wake(n->engine->boxes.clerks[0]);
}

static void hear_node(void *ctx, const char *key, const void *data, size_t len, uint64_t revision)
{
    struct nodes *n = ctx;
    bool is_entry = key == NULL || strcmp(key, NODE_NUMBERS_KEY) != 0;
    if (!inbox_put(&n->inbox, key, is_entry ? data : NULL, is_entry ? len : 0, revision)) {
        /* Release pairs with the acquire of read_inbox; it is told again in five seconds. */
        atomic_store_explicit(&n->has_dropped, true, memory_order_release);
    }
    if (is_entry) {
        wake(n);
    }
}

/* --- the others ------------------------------------------------------------------------------- */

/* Where the node stands, or would. */
static size_t find_place(const struct nodes *n, const char *name, bool *ret_is_there)
{
    size_t at = 0;
    while (at < n->seen_count && strcmp(n->seen[at].view.entry.name, name) < 0) {
        at++;
    }
    *ret_is_there = at < n->seen_count && strcmp(n->seen[at].view.entry.name, name) == 0;
    return at;
}

static void forget_node(struct nodes *n, const char *name)
{
    bool is_there;
    size_t at = find_place(n, name, &is_there);
    if (is_there) {
        n->seen_count--;
        memmove(&n->seen[at], &n->seen[at + 1], (n->seen_count - at) * sizeof(n->seen[0]));
        log_info("cluster: node %s was forgotten", name);
    }
}

/* Somebody else puts entries under our name. */
static void notice_double(struct nodes *n, const struct node_entry *e, uint64_t revision)
{
    if (e->start == n->own.start || e->is_leaving || revision < n->own_revision || n->has_double ||
        n->own_revision == 0) {
        return;
    }
    n->has_double = true;
    log_error("cluster: another process at %s is node %s too; give each machine a node name of its "
              "own",
              e->address, e->name);
}

/* A node is there that the view does not have, or not as it is. */
static void overlook(struct nodes *n, const char *name, uint64_t revision, usec_t now)
{
    bool is_there;
    size_t at = find_place(n, name, &is_there);
    if (is_there) {
        member_seen(&n->seen[at].member, revision, now);
    }
    atomic_store(&n->overlooked, now);
}

static void see_entry(struct nodes *n, const struct node_entry *e, uint64_t revision, usec_t now)
{
    bool is_there, is_self = strcmp(e->name, n->config->node) == 0;
    size_t at = find_place(n, e->name, &is_there);
    if (is_self && e->start == n->own.start && n->own.beats - e->beats < BEATS_KEPT) {
        member_ear_own(&n->ear, n->sent[e->beats % BEATS_KEPT]);
    }
    if (!is_there && n->seen_count == NODES_MAX) {
        if (!n->told_full) {
            log_warning("cluster: there are more than %u nodes; %s and others are not seen",
                        NODES_MAX, e->name);
        }
        n->told_full = true;
        overlook(n, e->name, revision, now);
        return;
    }
    struct seen_node *s = &n->seen[at];
    if (!is_there) {
        memmove(s + 1, s, (n->seen_count - at) * sizeof(*s));
        n->seen_count++;
        *s = (struct seen_node){.view.is_self = is_self};
        member_init(&s->member, revision, now);
        if (!is_self) {
            log_info("cluster: node %s at %s %s", e->name, e->address,
                     e->is_leaving ? "has left" : "is there");
        }
    } else if (!is_self && e->is_leaving && !s->view.entry.is_leaving) {
        log_info("cluster: node %s has left", e->name);
    } else if (!is_self && e->start != s->view.entry.start) {
        log_info("cluster: node %s at %s has started", e->name, e->address);
    }
    member_seen(&s->member, revision, now);
    s->view.entry = *e;
    s->view.revision = revision;
    s->view.seen = clock_wall();
    if (is_self) {
        notice_double(n, e, revision);
    }
}

static void note_telling(struct nodes *n, bool is_anew)
{
    n->numbering.is_known = n->numbering.is_known && !is_anew;
    for (size_t i = 0; is_anew && i < n->seen_count; i++) {
        n->seen[i].member.revision = 0; /* whatever comes next is a sign of life */
    }
}

/* Whoever said something since is not known. */
static void see_all(struct nodes *n, usec_t now)
{
    for (size_t i = 0; i < n->seen_count; i++) {
        member_init(&n->seen[i].member, n->seen[i].member.revision, now);
    }
}

/* Whether there was something. */
static bool read_inbox(struct nodes *n)
{
    struct told *next, *first = inbox_take(&n->inbox);
    usec_t now = cluster_clock(); /* none of them came later */
    if (atomic_exchange_explicit(&n->has_dropped, false, memory_order_acquire)) {
        see_all(n, now);
    }
    for (struct told *t = first; t != NULL; t = next) {
        struct node_entry e;
        next = t->next;
        note_telling(n, inbox_is_anew(&n->inbox, t));
        if (t->revision > 0) {
            member_ear_told(&n->ear, t->revision, now);
        }
        if (t->key[0] == '\0' || strcmp(t->key, NODE_NUMBERS_KEY) == 0) {
            /* no node's */
        } else if (!t->is_put) {
            forget_node(n, t->key);
        } else if (node_entry_read(slice_make(t->value, t->len), &e) == 0 &&
                   strcmp(e.name, t->key) == 0) {
            see_entry(n, &e, t->revision, now);
        } else {
            overlook(n, t->key, t->revision, now);
            log_warning("cluster: the entry of node %s is of no version that is known here",
                        t->key);
        }
        free(t);
    }
    return first != NULL; /* compared only: it is freed */
}

/* What a node is now that said nothing since. One that left is not missed. true: one may be more silent than was
 * heard, which our next entry shows */
static bool judge_nodes(struct nodes *n, usec_t now)
{
    bool is_in_doubt = false;
    for (size_t i = 0; i < n->seen_count; i++) {
        struct seen_node *s = &n->seen[i];
        enum member_state was = s->view.state;
        bool is_missed = !s->view.entry.is_leaving && !s->view.is_self;
        s->view.state = member_look(&s->member, n->ear.heard);
        is_in_doubt |= is_missed && member_look(&s->member, now) != s->view.state;
        if (s->view.state != was && is_missed) {
            log_info("cluster: node %s is %s", s->view.entry.name,
                     member_state_text(s->view.state));
        }
    }
    return is_in_doubt;
}

/* --- joining ---------------------------------------------------------------------------------- */

static void refuse(struct nodes *n, const char *text)
{
    (void)pthread_mutex_lock(&n->lock);
    bool is_known = strcmp(text, n->view.refusal) == 0;
    (void)snprintf(n->view.refusal, sizeof(n->view.refusal), "%s", text);
    (void)pthread_mutex_unlock(&n->lock);
    if (!is_known) {
        log_error("cluster: %s; this node stays alone", text);
    }
}

struct cluster_options nodes_options(const struct nodes *n)
{
    return cluster_loader_options(n->config, n->client_name, TIMEOUT);
}

/* errors: of the module's open; ERR_AGAIN: no server that will do answers yet */
static int open_client(struct nodes *n)
{
    struct cluster_client *client = NULL;
    const struct cluster_options options = nodes_options(n);
    char text[FIT_SERVERS_TEXT];
    int err = fit_servers_look(n->module, &options, text);
    if (err == 0) {
        err = n->module->open(&options, &client);
        (void)snprintf(text, sizeof(text), "the client %s", err_str(err));
    }
    if (err != 0 && text[0] != '\0') {
        refuse(n, text);
    }
    if (err != 0) {
        return err;
    }
    (void)pthread_mutex_lock(&n->lock);
    n->view.refusal[0] = '\0';
    (void)pthread_mutex_unlock(&n->lock);
    atomic_store_explicit(&n->client, client, memory_order_release);
    return 0;
}

static struct cluster_client *client_of(const struct nodes *n)
{
    return atomic_load_explicit(&n->client, memory_order_acquire);
}

static int open_bucket(struct nodes *n, struct cluster_client *client)
{
    int err = n->module->is_connected(client)
                  ? cluster_module_follow(n->module, client, BUCKET, hear_node, n)
                  : ERR_CLOSED;
    n->has_bucket = err == 0;
    return err;
}

/* --- the lease and shares of limits ----------------------------------------------------------- */

static bool is_late(void *ctx, uint16_t number)
{
    struct nodes *n = ctx;
    bool is_seen = false;
    for (size_t i = 0; i < n->seen_count; i++) {
        const struct node_view *v = &n->seen[i].view;
        if (v->entry.number == number && v->state == MEMBER_ALIVE) {
            return false;
        }
        is_seen = is_seen || v->entry.number == number;
    }
    return is_seen || unseen_numbers_meet(&n->unseen, number, atomic_load(&n->overlooked),
                                          n->ear.heard, cluster_clock());
}

/* A put of our entry was acknowledged that was sent then. */
static void renew_lease(struct nodes *n, struct cluster_client *client, usec_t sent)
{
    usec_t now = cluster_clock();
    if (!node_lease_renew(&n->lease, client, sent, now)) {
        return;
    }
    /* Before parts may be used again: others may have taken what we had when the lease lapsed. */
    shared_limits_heed(&n->limits, n->lease.is.lapses);
    usec_t left = n->lease.is.begun + MEMBER_SHARES_FOR - now;
    limits_part_until(n->engine->limits, clock_mono() + cluster_clock_real(left));
}

/* Our entry shows who is silent, once in a while. */
static void beat_soon(struct nodes *n, usec_t now)
{
    if (now - n->sent[n->own.beats % BEATS_KEPT] >= RETRY) {
        n->next_beat = 0;
    }
}

static bool share_limits(struct nodes *n, bool is_end)
{
    usec_t now = cluster_clock();
    enum member_right right = member_lease_right(&n->lease.is, now);
    const struct shared_limits_turn turn = {.node = n->own.number,
                                            .lapses = n->lease.is.lapses,
                                            .heard = n->ear.heard,
                                            .may_use = right == MEMBER_RIGHT_ALL,
                                            .is_end = is_end};
    if (!n->is_joined) {
        n->unseen.count = 0;
    }
    bool has_more = shared_limits_work(&n->limits, &turn, now);
    if (n->limits.is_in_doubt) {
        beat_soon(n, now);
    }
    return has_more;
}

/* What stays as it was when the spool cannot be read now. */
static void count_own(struct nodes *n)
{
    struct engine *e = n->engine;
    struct node_counts *c = &n->own.counts;
    struct spool_counts spool;
    if (spool_reader_begin(n->reader) == 0) {
        if (spool_read_counts(n->reader, &spool) == 0) {
            c->messages = spool.messages;
            n->own.has_counts = true;
        }
        spool_reader_end(n->reader);
    }
    /* Relaxed: numbers that are shown. */
    c->received = atomic_load_explicit(&e->received, memory_order_relaxed);
    c->delivered = atomic_load_explicit(&e->delivered, memory_order_relaxed);
    c->deferrals = atomic_load_explicit(&e->deferred, memory_order_relaxed);
    c->failed = atomic_load_explicit(&e->failed, memory_order_relaxed);
    c->expired = atomic_load_explicit(&e->expired, memory_order_relaxed);
}

static int put_own(struct nodes *n, struct cluster_client *client)
{
    count_own(n);
    char text[NODE_ENTRY_BYTES];
    n->own.beats++;
    size_t len = node_entry_write(&n->own, text);
    uint64_t revision = 0;
    usec_t sent = cluster_clock();
    n->sent[n->own.beats % BEATS_KEPT] = sent;
    int err = len == 0 ? -ENOMEM
                       : n->module->put(client, BUCKET, n->config->node, slice_make(text, len),
                                        &revision);
    if (err == 0) {
        n->own_revision = revision;
        renew_lease(n, client, sent);
    }
    (void)pthread_mutex_lock(&n->lock);
    n->view.puts += err == 0;
    n->view.failed_puts += err != 0;
    (void)pthread_mutex_unlock(&n->lock);
    return err;
}

static void set_joined(struct nodes *n, bool is_joined)
{
    if (is_joined && !n->is_joined) {
        log_info("cluster: this node, %s, is in the cluster", n->config->node);
    } else if (!is_joined && n->is_joined) {
        log_warning("cluster: the servers do not answer; this node goes on alone");
    }
    n->is_joined = is_joined;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void publish(struct nodes *n)
{
    struct cluster_client *client = client_of(n);
    char server[CLUSTER_DESCRIPTION_SIZE] = "";
    bool is_connected = client != NULL && n->module->is_connected(client);
    if (client != NULL) {
        n->module->describe(client, server);
    }
    /* Relaxed: a number, which orders nothing. */
    atomic_store_explicit(&n->joined_number, n->is_joined ? n->own.number : 0,
                          memory_order_relaxed);
    (void)pthread_mutex_lock(&n->lock);
    struct nodes_view *v = &n->view;
    v->is_connected = is_connected;
    memcpy(v->server, server, sizeof(server));
    v->joined = n->is_joined && v->joined == 0 ? clock_wall() : v->joined;
    v->joined = n->is_joined ? v->joined : 0;
    v->is_joined = n->is_joined;
    v->heard = n->ear.heard;
    v->count = n->seen_count;
    for (size_t i = 0; i < n->seen_count; i++) {
        v->nodes[i] = n->seen[i].view;
    }
    if (n->has_double) {
        (void)snprintf(v->refusal, sizeof(v->refusal), "another process is node %s too",
                       n->config->node);
    }
    (void)pthread_mutex_unlock(&n->lock);
}

/* Put our entry when it is time. */
static void beat(struct nodes *n, usec_t now)
{
    struct cluster_client *client = client_of(n);
    if (now < n->next_beat) {
        return;
    }
    int err = client != NULL ? 0 : open_client(n);
    client = client_of(n);
    if (err == 0 && !n->has_bucket) {
        err = open_bucket(n, client);
    }
    if (err == 0 && !n->has_lessons) {
        err = lessons_open(&n->lessons, client);
        n->has_lessons = err == 0;
    }
    if (err == 0 && !n->has_orders) {
        err = shared_orders_open(&n->orders, client);
        n->has_orders = err == 0;
    }
    if (err == 0 && !n->has_limits) {
        err = shared_limits_open(&n->limits, client);
        n->has_limits = err == 0;
    }
    if (err == 0) {
        err = n->module->is_connected(client) ? numbering_find(&n->numbering, client) : ERR_CLOSED;
        n->own.number = n->numbering.number;
    }
    if (err == 0) {
        err = put_own(n, client);
    }
    n->numbering.is_known = n->numbering.is_known && err == 0;
    n->next_beat = now + (err == 0 ? MEMBER_BEAT : RETRY);
    set_joined(n, err == 0);
}

static void run_nodes(void *arg)
{
    struct nodes *n = arg;
    post_assert_owner(&n->post);
    rcu_sleep(); /* it reads nothing under RCU, and waits for servers */
    while (!post_must_end(&n->post)) {
        post_take_wakes(&n->post);
        beat(n, cluster_clock());
        lessons_work(&n->lessons);
        if (shared_orders_work(&n->orders, &n->own.orders)) {
            n->next_beat = 0; /* whoever gave an order waits for us to say that it holds */
        }
        bool has_read = read_inbox(n);
        usec_t now = cluster_clock();
        if (has_read || now >= n->next_look) {
            n->next_look = now + LOOK;
            if (judge_nodes(n, now)) {
                beat_soon(n, now);
            }
            publish(n);
        }
        usec_t nap = n->is_joined ? LESSONS_LOOK : RETRY;
        post_nap(&n->post, clock_mono() + (share_limits(n, false) ? 0 : nap));
    }
    struct cluster_client *client = client_of(n);
    for (usec_t end = clock_mono() + TIMEOUT; share_limits(n, true) && clock_mono() < end;) {
        /* the others need not wait for our shares */
    }
    if (client != NULL && n->has_bucket && n->module->is_connected(client)) {
        n->own.is_leaving = true;
        (void)put_own(n, client); /* else they miss it after ten seconds */
    }
    rcu_awake();
}

/* --- what the log needs of its node ----------------------------------------------------------- */

static struct cluster_client *client_for_log(void *ctx)
{
    return client_of(ctx);
}

static uint16_t number_for_log(void *ctx)
{
    struct nodes *n = ctx;
    return atomic_load_explicit(&n->joined_number, memory_order_relaxed);
}

/* Who has a spool, as the view says, which the thread `cluster` renews twice a second. */
static enum holder holder_for_taker(void *ctx, uint16_t number)
{
    struct nodes *n = ctx;
    (void)pthread_mutex_lock(&n->lock);
    enum holder holder =
        nodes_view_holder(&n->view, atomic_load(&n->overlooked), cluster_clock(), number);
    (void)pthread_mutex_unlock(&n->lock);
    return holder;
}

static int make_log(struct nodes *n, const struct cluster_log_module *module)
{
    const struct log_keeper_node node = {
        .replica = n->engine->replica,
        .name = n->config->node,
        .spool = spool_store_node(n->engine->store),
        .max_bytes = n->config->max_bytes,
        .options = nodes_options(n),
        .module = n->module,
        .client = client_for_log,
        .number = number_for_log,
        .engine = n->engine,
        .lease = &n->lease,
        .ctx = n,
    };
    const struct taker_node taker = {
        .engine = n->engine,
        .options = node.options,
        .module = n->module,
        .log_module = module,
        .client = client_for_log,
        .number = number_for_log,
        .holder = holder_for_taker,
        .ctx = n,
        .is_automatic = n->config->takeover == CONFIG_TAKEOVER_AUTOMATIC,
    };
    int err = log_keeper_new(&node, module, &n->log);
    return err != 0 ? err : taker_new(&taker, &n->taker);
}

/* --- start and stop --------------------------------------------------------------------------- */

int nodes_new(struct engine *engine, struct nodes **ret)
{
    const struct config_cluster *config = &engine->config->cluster;
    char text[CLUSTER_LOADER_TEXT];
    *ret = NULL;
    if (config->node == NULL) {
        return 0;
    }
    struct nodes *n = calloc(1, sizeof(*n));
    if (n == NULL) {
        return -ENOMEM;
    }
    cluster_clock_init();
    n->engine = engine;
    n->config = config;
    inbox_init(&n->inbox, INBOX_MAX);
    n->view.self = config->node;
    (void)snprintf(n->client_name, sizeof(n->client_name), "sluice %s", config->node);
    (void)pthread_mutex_init(&n->lock, NULL); /* cannot fail with default attributes on Linux */
    lessons_init(&n->lessons, engine->limits, NULL, config->node);
    n->lessons.wake = wake;
    n->lessons.ctx = n;
    shared_orders_init(&n->orders);
    n->orders.node = config->node;
    n->orders.wake = wake;
    n->orders.wake_owner = wake_clerk;
    n->orders.ctx = n;
    shared_limits_init(&n->limits, engine->limits, NULL);
    n->limits.wake = wake;
    n->limits.is_late = is_late;
    n->limits.ctx = n;
    limits_part_begin(engine->limits, wake, n);
    const struct cluster_log_module *log_module = NULL;
    int err = cluster_loader_load(config->module, &n->module, &log_module, text);
    if (err != 0) {
        log_error("cluster: %s", text);
    }
    n->lessons.module = n->orders.module = n->limits.module = n->module;
    node_lease_init(&n->lease, engine, n->module, config->takeover == CONFIG_TAKEOVER_AUTOMATIC);
    uint16_t spool = spool_store_node(engine->store);
    n->numbering = (struct numbering){n->module, config->node, engine->replica != NULL, spool, 0,
                                      false,     false};
    err = err != 0 ? err : spool_reader_new(engine->store, &n->reader);
    err = err != 0 ? err : post_init(&n->post, 1);
    if (err == 0 && engine->replica != NULL) {
        err = make_log(n, log_module);
    }
    if (err != 0) {
        nodes_free(n);
        return err;
    }
    (void)snprintf(n->own.name, sizeof(n->own.name), "%s", config->node);
    (void)snprintf(n->own.address, sizeof(n->own.address), "%s",
                   engine->settings->config->hostname);
    (void)snprintf(n->own.version, sizeof(n->own.version), "%s", SLUICE_VERSION);
    n->own.started = engine->started;
    if (getrandom(&n->own.start, sizeof(n->own.start), 0) != sizeof(n->own.start)) {
        n->own.start = (uint64_t)clock_wall(); /* two that start in the same microsecond */
    }
    *ret = n;
    return 0;
}

int nodes_start(struct nodes *n)
{
    int err = n == NULL ? 0 : post_open(&n->post, 1);
    if (n != NULL && err == 0 && n->log != NULL) {
        err = log_keeper_start(n->log);
        err = err != 0 ? err : taker_start(n->taker);
    }
    return n == NULL || err != 0 ? err : post_start(&n->post, "cluster", run_nodes, n);
}

void nodes_when_taken(struct nodes *n, void (*tell)(struct engine *engine, uint16_t holder))
{
    if (n != NULL) {
        n->lease.when_taken = tell;
    }
}

void nodes_stop(struct nodes *n)
{
    if (n != NULL) {
        post_stop(&n->post);
    }
}

void nodes_stop_log(struct nodes *n)
{
    if (n != NULL && n->log != NULL) {
        taker_stop(n->taker);
        log_keeper_stop(n->log);
    }
}

void nodes_free(struct nodes *n)
{
    if (n == NULL) {
        return;
    }
    if (n->module != NULL) {
        n->module->close(client_of(n)); /* its watchers tell the taker too */
    }
    taker_free(n->taker);
    log_keeper_free(n->log);
    inbox_fini(&n->inbox);
    lessons_fini(&n->lessons);
    shared_orders_fini(&n->orders);
    shared_limits_fini(&n->limits);
    spool_reader_free(n->reader);
    post_fini(&n->post);
    (void)pthread_mutex_destroy(&n->lock);
    free(n);
}

/* --- for others ------------------------------------------------------------------------------- */

void nodes_look(struct nodes *n, struct nodes_view *ret)
{
    *ret = (struct nodes_view){.self = NULL};
    if (n != NULL) {
        (void)pthread_mutex_lock(&n->lock);
        *ret = n->view;
        (void)pthread_mutex_unlock(&n->lock);
        ret->sent = atomic_load_explicit(&n->lessons.sent, memory_order_relaxed);
        ret->unsent = atomic_load_explicit(&n->lessons.unsent, memory_order_relaxed);
        ret->obeyed = atomic_load_explicit(&n->lessons.obeyed, memory_order_relaxed);
        taker_look(n->taker, &ret->taken);
        ret->limits = atomic_load_explicit(&n->limits.count, memory_order_relaxed);
        ret->limit_puts = atomic_load_explicit(&n->limits.puts, memory_order_relaxed);
    }
}

struct shared_orders *nodes_orders(struct nodes *n)
{
    return n == NULL ? NULL : &n->orders;
}

static bool obeys(const struct node_view *v, uint64_t revision)
{
    return v->is_self || v->entry.is_leaving || v->state == MEMBER_GONE ||
           (revision > 0 && v->entry.orders >= revision);
}

bool nodes_awaited(struct nodes *n, uint64_t shared, size_t *at,
                   char ret[static NODE_ENTRY_NAME_MAX + 1])
{
    uint64_t revision = shared_orders_revision(&n->orders, shared);
    bool is_found = false;
    (void)pthread_mutex_lock(&n->lock);
    for (; *at < n->view.count && !is_found; ++*at) {
        const struct node_view *v = &n->view.nodes[*at];
        is_found = !obeys(v, revision);
        if (is_found) {
            memcpy(ret, v->entry.name, sizeof(v->entry.name));
        }
    }
    (void)pthread_mutex_unlock(&n->lock);
    return is_found;
}

/* ret_number: of its spool */
static int may_forget(struct nodes *n, const char *name, uint16_t *ret_number)
{
    (void)pthread_mutex_lock(&n->lock);
    int err = nodes_view_may_forget(&n->view, name, ret_number);
    (void)pthread_mutex_unlock(&n->lock);
    return err;
}

int nodes_adopt(struct nodes *n, const char *name)
{
    uint16_t number = 0;
    int err = n == NULL ? ERR_MISSING : may_forget(n, name, &number);
    if (err == 0 && (n->taker == NULL || number == 0)) {
        err = ERR_SYNTAX;
    }
    return err != 0 ? err : taker_order(n->taker, number);
}

int nodes_forget(struct nodes *n, const char *name)
{
    struct cluster_client *client = n == NULL ? NULL : client_of(n);
    if (client == NULL) {
        return ERR_CLOSED;
    }
    uint16_t number = 0;
    int err = may_forget(n, name, &number);
    err = err != 0 ? err : numbering_drop(n->module, client, name);
    if (err != 0 && err != ERR_SYNTAX) { /* a value that is none names nobody */
        return err;
    }
    return n->module->remove(client, BUCKET, name);
}
