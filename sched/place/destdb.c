/* Hosts, see sched/place/destdb.h. Called by connection and server; tells the destinations of a
 * host when it may not be tried, and when it may again. */
#include "sched/place/destdb.h"

#include "base/hash.h"
#include "sched/place/host_queue.h"
#include "sched/transport.h"

#include <assert.h>
#include <string.h>

/* A record serves two choices, the oldest among closed hosts and none that failed lately; both are
 * about the load of now, and mail that comes less often than hourly does not need spreading. */
#define KEEP_TIME (3600 * USEC_PER_SEC)
/* About 16 MB; when more hosts than that are contacted within an hour, the oldest go first. */
#define KEEP_MAX 65536
/* Records forgotten by one call: bounds its time, and is more than one call can make. */
#define COLLECT_MAX 16

struct host_key {
    const uint8_t *bytes;
    uint8_t len;
};

static bool key_matches(const struct table_node *node, const void *key)
{
    const struct destdb_host *h = container_of(node, const struct destdb_host, node);
    const struct host_key *k = key;
    return h->key_len == k->len && memcmp(h->key, k->bytes, k->len) == 0;
}

int destdb_init(struct sched *s)
{
    list_init(&s->destdb.stale);
    list_init(&s->destdb.retry);
    int err = table_init(&s->destdb.by_key, &s->host);
    s->destdb.is_open = err == 0;
    return err;
}

static void host_free(struct sched *s, struct destdb_host *h)
{
    table_remove(&s->destdb.by_key, &h->node);
    s->host.retire(s->host.ctx, h);
}

void destdb_fini(struct sched *s)
{
    if (!s->destdb.is_open) {
        return;
    }
    uint64_t cursor = 0;
    struct table_node *node;
    while ((node = table_next(&s->destdb.by_key, &cursor)) != NULL) {
        struct destdb_host *h = container_of(node, struct destdb_host, node);
        assert(h->references == 0);
        host_free(s, h);
    }
    table_fini(&s->destdb.by_key);
}

struct destdb_host *destdb_obtain(struct sched *s, const struct sched_server *server)
{
    assert(server->key_len <= SCHED_SERVER_KEY_MAX);
    const struct host_key key = {server->key, server->key_len};
    uint64_t hash = hash_bytes(key.bytes, key.len, s->hash_seed);
    struct table_node *node = table_find(&s->destdb.by_key, hash, key_matches, &key);
    struct destdb_host *h;
    if (node != NULL) {
        h = container_of(node, struct destdb_host, node);
        h->references++;
        return h;
    }
    h = s->host.alloc(s->host.ctx, sizeof(*h));
    if (h == NULL) {
        return NULL;
    }
    memset(h, 0, sizeof(*h));
    list_init(&h->open);
    list_init(&h->users);
    list_init(&h->in_stale);
    list_init(&h->in_retry);
    host_queue_init_host(h);
    memcpy(h->key, key.bytes, key.len);
    h->key_len = key.len;
    h->node.hash = hash;
    h->references = 1;
    if (table_reserve(&s->destdb.by_key) != 0) {
        s->host.release(s->host.ctx, h);
        return NULL;
    }
    table_insert(&s->destdb.by_key, &h->node);
    return h;
}

static void free_if_unused(struct sched *s, struct destdb_host *h)
{
    if (h->references == 0 && h->connections == 0 && !h->has_record) {
        host_free(s, h);
    }
}

void destdb_put(struct sched *s, struct destdb_host *h)
{
    assert(h->references > 0);
    h->references--;
    free_if_unused(s, h);
}

/* Which hosts its destinations may try has changed. A step for each of them: once for each time
 * that the host is given up or comes back. */
static void tell_users(struct sched *s, struct destdb_host *h)
{
    list_foreach(server, &h->users, struct server, in_host)
    {
        server_review(s, server->party);
    }
}

static void recount_full(struct sched *s, struct destdb_host *h)
{
    int limit = s->config.host_concurrency_limit;
    bool is_full = limit > 0 && h->busy >= limit;
    if (is_full != h->is_full) {
        shared_set(&h->is_full, is_full);
        if (is_full) {
            host_queue_filled(s, h);
        } else {
            host_queue_opened(s, h);
        }
    }
}

void destdb_refit(struct sched *s)
{
    uint64_t cursor = 0;
    struct table_node *node;
    while ((node = table_next(&s->destdb.by_key, &cursor)) != NULL) {
        struct destdb_host *h = container_of(node, struct destdb_host, node);
        connection_fit_host(s, h);
        recount_full(s, h);
    }
}

static void leave_stale(struct sched *s, struct destdb_host *h)
{
    if (list_is_linked(&h->in_stale)) {
        list_remove(&h->in_stale);
        s->destdb.stale_count--;
    }
}

void destdb_opened(struct sched *s, struct destdb_host *h, struct connection *c)
{
    leave_stale(s, h);
    shared_add(&h->connections, 1);
    shared_set(&h->has_record, true);
    h->last_connect = s->now;
    list_push_front(&h->open, &c->in_host);
}

void destdb_busy(struct sched *s, struct destdb_host *h)
{
    shared_add(&h->busy, 1);
    recount_full(s, h);
}

void destdb_idle(struct sched *s, struct destdb_host *h)
{
    shared_sub(&h->busy, 1);
    recount_full(s, h);
}

void destdb_closed(struct sched *s, struct destdb_host *h, struct connection *c)
{
    list_remove(&c->in_host);
    shared_sub(&h->connections, 1);
    h->live -= c->is_live;
    if (h->connections == 0) {
        h->last_used = s->now;
        list_push_back(&s->destdb.stale, &h->in_stale);
        s->destdb.stale_count++;
    }
}

static void leave_retry(struct sched *s, struct destdb_host *h)
{
    if (destdb_host_is_waiting(h)) {
        list_remove(&h->in_retry);
        shared_set(&h->is_waiting, false);
        tell_users(s, h);
    }
}

/* One window's worth of failures, of the windows as they are by now but no smaller than in the
 * beginning: a destination alone is declared dead by its own rule about then, and many destinations
 * of one host do not each pay their own timeouts. */
void destdb_failed(struct sched *s, struct destdb_host *h, int window)
{
    const struct sched_config *c = &s->config;
    if (h->live > 0) {
        return;
    }
    shared_add(&h->failures, 1);
    h->fail_cohorts += 1.0 / (window > 0 ? window : c->initial_destination_concurrency);
    int cohorts = c->destination_concurrency_failed_cohort_limit;
    if (cohorts == 0 || h->fail_cohorts < cohorts ||
        h->failures < cohorts * c->initial_destination_concurrency) {
        return;
    }
    bool was_waiting = destdb_host_is_waiting(h);
    list_remove(&h->in_retry);
    shared_set(&h->retry_until, s->now + c->minimal_backoff_time);
    /* At the end, unless minimal_backoff_time has become shorter. */
    struct list *at = s->destdb.retry.prev;
    while (at != &s->destdb.retry &&
           container_of(at, struct destdb_host, in_retry)->retry_until > h->retry_until) {
        at = at->prev;
    }
    list_insert_after(at, &h->in_retry);
    shared_set(&h->is_waiting, true);
    if (!was_waiting) {
        tell_users(s, h);
    }
}

void destdb_succeeded(struct sched *s, struct destdb_host *h, bool is_first)
{
    h->live += is_first;
    if (h->failures > 0) {
        shared_set(&h->failures, 0);
        h->fail_cohorts = 0;
        shared_set(&h->retry_until, 0);
        leave_retry(s, h);
    }
}

/* What was true an hour ago is worth finding out again, however busy the host is. */
void destdb_note(struct sched *s, struct destdb_host *h, uint32_t notes)
{
    if (notes != 0) {
        shared_set(&h->notes, destdb_notes(h, s->now) | notes);
        shared_set(&h->notes_until, s->now + KEEP_TIME);
    }
}

/* A loss of any kind with several entries in flight counts as such (engine/outbound), so it must
 * not stay with a host that is never without a connection. */
bool destdb_out_of_step(struct sched *s, struct destdb_host *h)
{
    bool is_news = !h->is_out_of_step;
    shared_set(&h->is_out_of_step, true);
    h->in_step_at = s->now + KEEP_TIME;
    return is_news;
}

bool destdb_back_in_step(struct sched *s, struct destdb_host *h)
{
    if (!h->is_out_of_step || s->now < h->in_step_at) {
        return false;
    }
    shared_set(&h->is_out_of_step, false);
    return true;
}

static void forget_host(struct sched *s, struct destdb_host *h)
{
    assert(h->connections == 0 && h->has_record);
    leave_stale(s, h);
    shared_set(&h->failures, 0);
    h->fail_cohorts = 0;
    shared_set(&h->retry_until, 0);
    shared_set(&h->notes, 0);
    shared_set(&h->is_out_of_step, false);
    shared_set(&h->has_record, false);
    leave_retry(s, h);
    free_if_unused(s, h);
}

static bool is_expired(const struct sched *s, const struct destdb_host *h)
{
    return s->destdb.stale_count > KEEP_MAX ||
           (h->last_used + KEEP_TIME <= s->now && !destdb_host_is_waiting(h));
}

void destdb_tick(struct sched *s)
{
    while (destdb_wake_at(s) <= s->now) {
        leave_retry(s, list_first(&s->destdb.retry, struct destdb_host, in_retry));
    }
    for (int i = 0; i < COLLECT_MAX && !list_is_empty(&s->destdb.stale); i++) {
        struct destdb_host *h = list_first(&s->destdb.stale, struct destdb_host, in_stale);
        if (!is_expired(s, h)) {
            break;
        }
        forget_host(s, h);
    }
}

usec_t destdb_wake_at(const struct sched *s)
{
    if (list_is_empty(&s->destdb.retry)) {
        return USEC_NEVER;
    }
    return list_first(&s->destdb.retry, struct destdb_host, in_retry)->retry_until;
}

void destdb_retry(struct sched *s, struct destdb_host *h)
{
    if (destdb_host_is_waiting(h)) {
        shared_set(&h->retry_until, s->now);
        leave_retry(s, h);
    }
}

void destdb_flush(struct sched *s)
{
    while (!list_is_empty(&s->destdb.retry)) {
        destdb_retry(s, list_first(&s->destdb.retry, struct destdb_host, in_retry));
    }
}
