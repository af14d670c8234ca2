/* Four threads read a scheduler's views while its owner never rests: submissions, deliveries on a
 * hundred connections, deaths and revivals, resolutions that work, fail and find nothing, and
 * destinations that come and go by the thousand. Each reader checks what it reads. Meant for
 * ThreadSanitizer and AddressSanitizer. STRESS_SECONDS sets how long (default 3). */
#include "base/clock.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "sched/sched.h"
#include "tests/chance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READERS = 4,
    CONNECTIONS = 100,
    ROUND_MESSAGES = 30,
    RECIPIENTS_MAX = 5,
    JOBS_MAX = 3000,
    RESOLVING_MAX = 4096,
    NAME_MAX_BYTES = 24,
};

#define CHECK(is_so)                                                                               \
    do {                                                                                           \
        if (!(is_so)) {                                                                            \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #is_so);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct object {
    struct rcu_retired retired;
    max_align_t body[];
};

static void *allocate(void *ctx, size_t size)
{
    (void)ctx;
    struct object *o = malloc(sizeof(*o) + size);
    return o == NULL ? NULL : o->body;
}

static void release(void *ctx, void *body)
{
    (void)ctx;
    if (body != NULL) {
        free(container_of(body, struct object, body));
    }
}

static void release_retired(struct rcu_retired *retired)
{
    free(container_of(retired, struct object, retired));
}

static void retire(void *ctx, void *body)
{
    (void)ctx;
    if (body != NULL) {
        rcu_retire(&container_of(body, struct object, body)->retired, release_retired);
    }
}

static int hosts_alive; /* owner only */

static void release_hosts(void *ctx, void *hosts)
{
    (void)ctx;
    free(hosts);
    hosts_alive--;
}

/* --- readers ---------------------------------------------------------------------------------- */

struct reader {
    struct thread thread;
    const struct sched *sched;
    uint64_t walks, destinations, jobs, hosts, found;
};

static _Atomic bool is_over;

static void check_destination(const struct sched_destination_view *v)
{
    CHECK(v->name.len > 1 && v->name.len < NAME_MAX_BYTES && v->name.data[0] == 'd');
    for (size_t i = 1; i < v->name.len; i++) {
        CHECK(v->name.data[i] >= '0' && v->name.data[i] <= '9');
    }
    CHECK(v->state < SCHED_DESTINATION_STATE_COUNT && v->why < SCHED_WHY_COUNT);
    CHECK(v->window >= 0 && v->busy >= 0 && v->todo >= 0);
    CHECK(v->connections >= 0 && v->connections <= CONNECTIONS);
    CHECK(v->idle >= 0 && v->idle <= CONNECTIONS);
}

static void walk(struct reader *r)
{
    struct sched_destination_view v;
    struct sched_job_view j;
    struct sched_counters c;
    char name[NAME_MAX_BYTES];
    size_t len = 0;
    for (uint64_t cursor = 0; sched_view_destinations(r->sched, &cursor, &v);) {
        check_destination(&v);
        len = v.name.len;
        memcpy(name, v.name.data, len);
        r->destinations++;
    }
    if (len > 0 && sched_view_destination(r->sched, slice_make(name, len), &v)) {
        check_destination(&v);
        CHECK(slice_eq(v.name, slice_make(name, len)));
        r->found++;
    }
    for (uint64_t cursor = 0; sched_view_jobs(r->sched, &cursor, &j);) {
        CHECK(j.message_id > 0 && j.recipients <= RECIPIENTS_MAX);
        CHECK(j.waiting <= RECIPIENTS_MAX && j.in_flight <= RECIPIENTS_MAX);
        r->jobs++;
    }
    struct sched_host_view h;
    for (uint64_t cursor = 0; sched_view_hosts(r->sched, &cursor, &h);) {
        CHECK(h.key_len == 2 && h.key[0] == 'h' && h.state < SCHED_HOST_STATE_COUNT);
        CHECK(h.connections >= 0 && h.connections <= CONNECTIONS);
        CHECK(h.in_flight >= 0 && h.in_flight <= CONNECTIONS && h.failures >= 0);
        r->hosts++;
    }
    sched_view_counters(r->sched, &c);
    CHECK(c.entries_in_flight <= CONNECTIONS && c.connections <= CONNECTIONS);
    CHECK(c.idle <= CONNECTIONS && c.dead <= c.destinations + JOBS_MAX * RECIPIENTS_MAX);
    r->walks++;
}

static void read_on(void *arg)
{
    struct reader *r = arg;
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        walk(r);
        rcu_pass();
    }
}

/* --- the owner -------------------------------------------------------------------------------- */

struct owner {
    struct sched *sched;
    uint64_t random, next_id, jobs;
    usec_t now;
    struct sched_entry *busy[CONNECTIONS]; /* by connection */
    struct sched_destination *resolving[RESOLVING_MAX];
    uint32_t resolving_count;
};

static uint32_t pick(struct owner *o, uint32_t below)
{
    return (uint32_t)((chance_next(&o->random) >> 32) % below);
}

static void submit(struct owner *o)
{
    char addresses[RECIPIENTS_MAX][NAME_MAX_BYTES + 2];
    struct sched_recipient recipients[RECIPIENTS_MAX];
    uint32_t count = 1 + pick(o, RECIPIENTS_MAX);
    /* Most go to few destinations, so that windows fill; the rest come and go. */
    for (uint32_t i = 0; i < count; i++) {
        unsigned number = pick(o, 4) != 0 ? pick(o, 20) : 100 + pick(o, 20000);
        (void)snprintf(addresses[i], sizeof(addresses[i]), "u@d%u", number);
        recipients[i] =
            (struct sched_recipient){slice_of(addresses[i]), slice_of(addresses[i] + 2), i, 0};
    }
    const struct sched_message m = {
        .id = ++o->next_id, .recipients = recipients, .recipient_count = count};
    CHECK(sched_submit(o->sched, &m, o->now) == 0);
    o->jobs++;
}

static void act(struct owner *o, const struct sched_action *a)
{
    switch (a->kind) {
    case SCHED_DELIVER:
        CHECK(o->busy[a->connection] == NULL && a->hosts != NULL);
        o->busy[a->connection] = a->entry;
        break;
    case SCHED_RESOLVE:
        CHECK(o->resolving_count < RESOLVING_MAX);
        o->resolving[o->resolving_count++] = a->destination;
        break;
    case SCHED_FINISHED:
        o->jobs--;
        break;
    case SCHED_CLOSE:
    case SCHED_DEFER:
    case SCHED_BOUNCE:
        break;
    case SCHED_ASK:
    case SCHED_RETURN:
    case SCHED_LANE_GONE: /* no lane is limited */
    case SCHED_OWNER_ASKS:
    case SCHED_OWNER_RETURNS: /* nor is any owner */
    case SCHED_NONE:
    case SCHED_READ:
    case SCHED_EXHAUSTED:
    default:
        CHECK(false);
    }
}

static void pull_all(struct owner *o)
{
    struct sched_action a;
    while (o->resolving_count < RESOLVING_MAX && sched_pull(o->sched, &a, o->now)) {
        act(o, &a);
    }
}

static void report(struct owner *o, uint32_t connection)
{
    static const struct sched_reason reason = {"4.4.1", "stress"};
    uint32_t luck = pick(o, 10);
    const struct sched_outcome outcome = {
        .entry = o->busy[connection],
        .feedback = luck < 3   ? SCHED_NEGATIVE
                    : luck < 4 ? SCHED_NEUTRAL
                               : SCHED_POSITIVE,
        .has_deferred = luck < 5,
        .connection_open = luck >= 2,
        .server_failed = luck < 2,
        .server_notes = luck,
        .reason = &reason,
    };
    o->busy[connection] = NULL;
    sched_report(o->sched, &outcome, o->now);
}

static void resolve_one(struct owner *o)
{
    static const struct sched_reason reason = {"4.4.3", "stress"};
    struct sched_destination *d = o->resolving[--o->resolving_count];
    uint32_t luck = pick(o, 10);
    struct sched_hosts_result r = {
        .destination = d,
        .resolution = luck == 0   ? SCHED_RESOLVE_HARD
                      : luck == 1 ? SCHED_RESOLVE_SOFT
                                  : SCHED_RESOLVED,
        .expires = o->now + pick(o, 100) * USEC_PER_SEC,
        .reason = &reason,
    };
    if (r.resolution == SCHED_RESOLVED) {
        r.hosts = malloc(1);
        CHECK(r.hosts != NULL);
        hosts_alive++;
    }
    struct sched_server servers[3];
    for (int i = 0; i < 3; i++) {
        servers[i] = (struct sched_server){
            .key = {'h', (uint8_t)pick(o, 250)}, .key_len = 2, .preference = (uint16_t)i};
    }
    r.servers = servers;
    r.server_count = pick(o, 4);
    sched_resolved(o->sched, &r, o->now);
}

static void round_of(struct owner *o)
{
    o->now += pick(o, 1000) * USEC_PER_MSEC;
    for (int i = 0; i < ROUND_MESSAGES && o->jobs < JOBS_MAX; i++) {
        submit(o);
    }
    pull_all(o);
    for (uint32_t left = o->resolving_count, i = 0; i < left; i++) {
        resolve_one(o);
    }
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        if (o->busy[i] != NULL && pick(o, 3) != 0) {
            report(o, i);
        } else if (o->busy[i] == NULL && pick(o, 20) == 0) {
            sched_connection_closed(o->sched, i, o->now);
        }
    }
    if (pick(o, 50) == 0) {
        sched_flush(o->sched, o->now);
    }
    pull_all(o);
}

static void finish(struct owner *o)
{
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        if (o->busy[i] != NULL) {
            report(o, i);
        }
    }
    struct sched_action a;
    while (sched_pull_pending(o->sched, &a, o->now)) {
        act(o, &a);
    }
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        if (o->busy[i] != NULL) { /* its DELIVER had waited behind a CLOSE */
            report(o, i);
        }
    }
}

static struct sched *start(void)
{
    static const struct sched_host host = {allocate, release, retire, NULL};
    struct sched_config c;
    sched_config_defaults(&c);
    c.process_limit = CONNECTIONS;
    c.must_resolve = true;
    c.minimal_backoff_time = 20 * USEC_PER_SEC;
    c.connection_idle_limit = 2 * USEC_PER_SEC;
    c.host_concurrency_limit = 1;
    struct sched *s = sched_new(&c, &host, release_hosts, 0);
    CHECK(s != NULL);
    return s;
}

int main(void)
{
    const char *text = getenv("STRESS_SECONDS");
    usec_t seconds = text == NULL ? 3 : (usec_t)strtoul(text, NULL, 10);
    struct reader readers[READERS] = {0};
    static struct owner o;
    uint64_t rounds = 0;
    rcu_start();
    rcu_join();
    o.sched = start();
    o.random = 88172645463325252u;
    for (int i = 0; i < READERS; i++) {
        readers[i].sched = o.sched;
        CHECK(thread_start(&readers[i].thread, "reader", read_on, &readers[i]) == 0);
    }
    for (usec_t end = clock_mono() + seconds * USEC_PER_SEC; clock_mono() < end; rounds++) {
        round_of(&o);
        rcu_pass();
        struct sched_fault fault;
        if (rounds % 500 == 0 && sched_check(o.sched, &fault) != 0) {
            (void)fprintf(stderr, "%s\n", fault.text);
            abort();
        }
    }
    atomic_store_explicit(&is_over, true, memory_order_relaxed);
    rcu_sleep(); /* or a reader's end would wait for us */
    for (int i = 0; i < READERS; i++) {
        thread_join(&readers[i].thread);
        CHECK(readers[i].walks > 0 && readers[i].destinations > 0 && readers[i].jobs > 0);
        CHECK(readers[i].hosts > 0);
        (void)printf("reader %d: %llu walks, %llu destinations (%llu found again), %llu jobs\n", i,
                     (unsigned long long)readers[i].walks,
                     (unsigned long long)readers[i].destinations,
                     (unsigned long long)readers[i].found, (unsigned long long)readers[i].jobs);
    }
    rcu_awake();
    (void)printf("%llu rounds, %llu messages\n", (unsigned long long)rounds,
                 (unsigned long long)o.next_id);
    finish(&o);
    sched_free(o.sched);
    CHECK(hosts_alive == 0);
    rcu_leave();
    rcu_drain();
    rcu_stop();
    return 0;
}
