/* Worlds of many destinations, flows, sites and sources, most of them with a cap on the entries of one message:
 * random operations on the scheduler core, with all of its invariants looked at now and then, and in the end
 * nothing fails any more, time goes on, and all must go. What selection would look for without end shows by
 * the timeout of the test. usage: sched_capped [SEED [WORLDS]]
 *
 * sched_random has small worlds, and a model that knows what each of them may do. Here few things are held to
 * one, and there are enough flows at one place that those whose messages are at their cap stand beside each other. */
#include "base/hash.h"
#include "sched/sched.h"
#include "tests/sim/core_shell.h"
#include "tests/sim/require.h"
#include "tests/sim/sched_oracle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From a seed with which few worlds find each fault that such worlds have found: flows of capped messages that wake
 * each other for ever (ten of the first 60), mail that is left though it could go (1682), a flow that is
 * not looked at though it could use a slot (1662). */
#define SEED 1501
#ifdef SLUICE_SANITIZED
#define WORLDS 60
#else
#define WORLDS 200
#endif
#define STEPS        700
#define CHECK_EVERY  64
#define DESTINATIONS 400
#define USERS        8
#define RECIPIENTS   400 /* of a message */
#define SITES        60
#define CLASSES      3
#define TENANTS      300
#define SOURCES      5
#define ROUNDS       100000 /* of a world's end; each ends an entry, or lets time go on */

static const struct sched_reason refused = {"4.4.1", "refused"};

/* What an address and its nexthop are read from, and the names of sites. */
static char addresses[DESTINATIONS][USERS][16];
static char sites[SITES][8];

struct flight {
    struct sched_entry *entry;
    bool is_exhausted;
};

struct world {
    uint64_t random;
    struct sched *sched;
    struct sched_config config;
    usec_t now;
    uint32_t destinations, sites, classes, tenants, campaigns, lists;
    uint64_t messages, finished;
    struct flight *flights;
    uint32_t flight_count, flight_room;
    struct sched_destination **questions;
    uint32_t question_count, question_room;
    long objects;
    bool is_ending;
    uint64_t digest; /* of all actions: the same for two cores that decide alike */
};

static uint32_t draw(struct world *w, uint32_t below)
{
    return core_shell_draw(&w->random, below);
}

/* Once in so many times. */
static bool is_rare(struct world *w, uint32_t times)
{
    return draw(w, times) == 0;
}

static usec_t draw_seconds(struct world *w, uint32_t below)
{
    return USEC_PER_SEC * draw(w, below);
}

static void *allocate(void *ctx, size_t size)
{
    struct world *w = ctx;
    w->objects++;
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    struct world *w = ctx;
    w->objects--;
    free(obj);
}

static void *grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room) {
        return array;
    }
    *room = *room == 0 ? 64 : 2 * *room;
    void *grown = realloc(array, *room * size);
    REQUIRE(grown != NULL);
    return grown;
}

static void check(const struct world *w)
{
    struct sched_fault fault;
    if (sched_check(w->sched, &fault) != 0) {
        (void)fprintf(stderr, "sched_check: %s\n", fault.text);
        abort();
    }
}

/* --- what there is ------------------------------------------------------------------------------- */

static void configure(struct world *w)
{
    struct sched_config *c = &w->config;
    c->initial_destination_concurrency = 1 + (int)draw(w, 5);
    c->destination_concurrency_limit = 1 + (int)draw(w, 20);
    c->process_limit = 2 + (int)draw(w, 150);
    c->pipeline_depth = 1 + (int)draw(w, 6);
    c->host_concurrency_limit = is_rare(w, 3) ? 1 + (int)draw(w, 10) : 0;
    c->site_concurrency_limit = is_rare(w, 3) ? 1 + (int)draw(w, 20) : 0;
    c->destination_recipient_limit = is_rare(w, 3) ? (int)draw(w, 50) : 1 + (int)draw(w, 5);
    c->recipient_limit = 10000 + (int)draw(w, 100000);
    c->class_floor = (int)draw(w, 40);
    c->minimal_backoff_time = USEC_PER_SEC + draw_seconds(w, 10);
    c->connection_idle_limit = draw_seconds(w, 5);
    c->max_message_concurrency = is_rare(w, 8) ? 0 : 1 + (int)draw(w, 5);
    c->lane_memory = is_rare(w, 2) ? 10 * USEC_PER_SEC : 0;
}

static void set_sources(struct world *w)
{
    struct sched_source sources[SOURCES];
    uint16_t weights[2 * SCHED_SOURCES_MAX];
    uint32_t count = 1 + draw(w, SOURCES), first = draw(w, 3);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t families = (uint8_t)(is_rare(w, 4) ? 1 + draw(w, 2) : 3);
        const uint16_t weight = (uint16_t)(1 + draw(w, 5));
        sources[i] = (struct sched_source){first + i, weight, families};
    }
    for (uint32_t i = 0; i < 2 * SCHED_SOURCES_MAX; i++) {
        weights[i] = (uint16_t)draw(w, 4);
    }
    uint64_t pools[2];
    for (int i = 0; i < 2; i++) {
        pools[i] = 1 + draw(w, (1U << count) - 1);
    }
    struct sched_pools p = {.sources = pools, .count = 1 + draw(w, 2)};
    p.weights = is_rare(w, 2) ? weights : NULL;
    const int err = sched_set_sources(w->sched, sources, count, &p, w->now);
    REQUIRE(err == 0 || err == -EBUSY); /* what is in flight may need all connections */
}

static void submit(struct world *w)
{
    struct sched_recipient recipients[RECIPIENTS];
    const uint32_t limit = sched_read_limit(w->sched), base = draw(w, w->destinations);
    const uint32_t spread = is_rare(w, 2) ? 1 + w->destinations / 20 : w->destinations;
    uint32_t count = 1 + draw(w, is_rare(w, 8) ? RECIPIENTS : 40);
    count = count < limit ? count : limit;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t d = (base + draw(w, spread)) % w->destinations;
        const char *address = addresses[d][draw(w, USERS)];
        recipients[i] = (struct sched_recipient){.address = slice_of(address),
                                                 .nexthop = slice_of(strchr(address, '@') + 1),
                                                 .index = i,
                                                 .pool = (uint16_t)(d % 7 == 0 ? draw(w, 2) : 0)};
    }
    const struct sched_message m = {
        .id = w->messages + 1,
        .handle = w,
        .recipients = recipients,
        .recipient_count = count,
        .flow = {draw(w, w->classes), draw(w, w->tenants), draw(w, w->campaigns)},
        .weight = (uint16_t)(is_rare(w, 4) ? 1 + draw(w, 1000) : 0)};
    if (count > 0) {
        REQUIRE(sched_submit(w->sched, &m, w->now) == 0);
        w->messages++;
    }
}

/* --- what the shell answers ------------------------------------------------------------------------ */

/* Of a nexthop "d17", 17. */
static uint32_t number_of(struct slice nexthop)
{
    uint32_t number = 0;
    for (size_t i = 1; i < nexthop.len; i++) {
        number = 10 * number + (uint32_t)(nexthop.data[i] - '0');
    }
    return number;
}

static void resolve(struct world *w)
{
    if (w->question_count == 0) {
        return;
    }
    struct sched_destination **asked = &w->questions[draw(w, w->question_count)];
    struct sched_destination *d = *asked;
    *asked = w->questions[--w->question_count];
    const uint32_t usual = number_of(sched_destination_nexthop(d)) % w->sites;
    const uint32_t site = is_rare(w, 10) ? draw(w, w->sites) : usual;
    const uint32_t count = 1 + draw(w, 3), list = draw(w, w->lists);
    struct sched_server servers[3];
    for (uint32_t i = 0; i < count; i++) {
        servers[i] = (struct sched_server){.key = {(uint8_t)site, (uint8_t)(list + i)},
                                           .key_len = 2,
                                           .preference = (uint16_t)(i / 2)};
    }
    const struct sched_terms terms = {.recipient_limit = (int)draw(w, 3),
                                      .most_in_flight = (int)draw(w, 4)};
    const bool is_soft = is_rare(w, 30) && !w->is_ending;
    const struct sched_hosts_result result = {
        .destination = d,
        .resolution = is_soft ? SCHED_RESOLVE_SOFT : SCHED_RESOLVED,
        .hosts = is_soft ? NULL : w,
        .expires = w->now + USEC_PER_SEC + draw_seconds(w, 60),
        .reason = &refused,
        .servers = servers,
        .server_count = count,
        .site = is_rare(w, 5) ? SLICE("") : slice_of(sites[site]),
        .tls = is_rare(w, 12),
        .terms = is_rare(w, 6) ? &terms : NULL};
    sched_resolved(w->sched, &result, w->now);
}

static void lend(struct world *w, const struct sched_action *a)
{
    const bool is_ample = w->is_ending;
    char site[sizeof(sites[0])] = ""; /* that of the action is the core's until the next call */
    const struct slice name = a->loan->lane.site;
    REQUIRE(name.len < sizeof(site));
    memcpy(site, name.data, name.len);
    const struct sched_lane_key lane = {slice_of(site), a->loan->lane.source};
    const struct sched_grant grant = {
        .messages = draw(w, 30) + is_ample,
        .connects = is_ample || is_rare(w, 2) ? SCHED_NO_BOUND_OF_CONNECTS : draw(w, 4),
        .recipients = is_ample || is_rare(w, 2) ? SCHED_NO_BOUND : 1 + draw(w, 60),
        .from = w->now,
        .until = w->now + USEC_PER_SEC + draw_seconds(w, 5),
        .due = w->now + USEC_PER_SEC / 4,
        .turn = w->now + USEC_PER_SEC + draw_seconds(w, 3),
        .per_second = draw(w, 50),
        .why = SCHED_WHY_PACE};
    REQUIRE(sched_lane_grant(w->sched, lane, &grant, w->now));
}

static struct sched_outcome take_outcome(struct world *w, const struct flight *f)
{
    struct sched_outcome o = {.entry = f->entry,
                              .feedback = SCHED_POSITIVE,
                              .connection_open = !is_rare(w, 6),
                              .reason = &refused,
                              .depth = (uint16_t)(1 + draw(w, 6))};
    switch (w->is_ending ? UINT32_MAX : draw(w, 40)) {
    case 0:
        o.feedback = SCHED_NEGATIVE;
        o.server_failed = is_rare(w, 2);
        o.connection_open = o.connection_open && !o.server_failed;
        break;
    case 1:
        o.feedback = SCHED_SLOWER;
        break;
    case 2:
        if (!f->is_exhausted) {
            o.again = true;
            o.feedback = SCHED_NEUTRAL;
            o.server_tried = is_rare(w, 2);
            o.source_tried = is_rare(w, 2);
        }
        break;
    case 3:
        o.throttled = true;
        o.feedback = SCHED_SLOWER;
        break;
    default:
        break;
    }
    return o;
}

static void report(struct world *w)
{
    if (w->flight_count > 0) {
        struct flight *f = &w->flights[draw(w, w->flight_count)];
        const struct sched_outcome o = take_outcome(w, f);
        *f = w->flights[--w->flight_count];
        sched_report(w->sched, &o, w->now);
    }
}

/* --- what the core says ---------------------------------------------------------------------------- */

static void digest(struct world *w, const struct sched_action *a)
{
    const uint64_t what[] = {a->kind,   a->message_id,        a->connection, a->source,
                             a->server, a->connection_is_new, a->is_paced,   (uint64_t)a->due};
    const struct slice name =
        a->destination == NULL ? SLICE("") : sched_destination_name(a->destination);
    w->digest = hash_bytes(what, sizeof(what), w->digest ^ (uint64_t)w->now);
    w->digest = hash_bytes(name.data, name.len, w->digest);
}

static void act(struct world *w, const struct sched_action *a)
{
    digest(w, a);
    switch (a->kind) {
    case SCHED_DELIVER:
    case SCHED_EXHAUSTED:
        w->flights = grow(w->flights, w->flight_count, &w->flight_room, sizeof(*w->flights));
        w->flights[w->flight_count++] = (struct flight){a->entry, a->kind == SCHED_EXHAUSTED};
        break;
    case SCHED_RESOLVE:
        w->questions = grow(w->questions, w->question_count, &w->question_room,
                            sizeof(struct sched_destination *));
        w->questions[w->question_count++] = a->destination;
        break;
    case SCHED_ASK:
        lend(w, a);
        break;
    case SCHED_FINISHED:
        w->finished++;
        break;
    case SCHED_CLOSE:
    case SCHED_DEFER:
    case SCHED_RETURN:
    case SCHED_LANE_GONE:
        break;
    case SCHED_NONE:
    case SCHED_BOUNCE:
    case SCHED_READ:
    case SCHED_OWNER_ASKS:
    case SCHED_OWNER_RETURNS:
    default:
        REQUIRE(false);
    }
}

/* At most so many actions, but for those in front of a delivery that is decided. false: there is nothing more. */
static bool pull(struct world *w, uint32_t most)
{
    struct sched_action a;
    for (; most > 0 || sched_has_selected(w->sched); most -= most > 0) {
        if (!sched_pull(w->sched, &a, w->now)) {
            return false;
        }
        act(w, &a);
    }
    return true;
}

/* --- steps ----------------------------------------------------------------------------------------- */

static struct sched_lane_key draw_lane(struct world *w)
{
    return (struct sched_lane_key){slice_of(sites[draw(w, w->sites)]), draw(w, SOURCES + 1)};
}

/* The core may not know the lane: then nothing is done. */
static void change_lane(struct world *w)
{
    const struct sched_lane_key lane = draw_lane(w);
    switch (draw(w, 6)) {
    case 0:
        (void)sched_lane_close(w->sched, lane, w->now + draw_seconds(w, 5), &refused, w->now);
        break;
    case 1:
        (void)sched_lane_open(w->sched, lane, w->now);
        break;
    case 2:
        (void)sched_lane_ceiling(w->sched, lane, draw(w, 5), 0, w->now);
        break;
    case 3: {
        const struct slice nexthop =
            slice_of(strchr(addresses[draw(w, w->destinations)][0], '@') + 1);
        const usec_t until = w->now + draw_seconds(w, 6);
        (void)sched_close_for(w->sched, lane, nexthop, until, &refused, w->now);
        break;
    }
    default:
        (void)sched_lane_limit(w->sched, lane, is_rare(w, 3), w->now);
        break;
    }
}

static void reconfigure(struct world *w)
{
    w->config.scheduler = is_rare(w, 12)  ? SCHED_BY_TURNS
                          : is_rare(w, 5) ? SCHED_BY_ARRIVAL
                                          : SCHED_BY_PREEMPTION;
    configure(w);
    REQUIRE(sched_reconfigure(w->sched, &w->config, w->now) == 0);
}

static void report_some(struct world *w)
{
    for (uint32_t i = draw(w, 30); i > 0; i--) {
        report(w);
        if (is_rare(w, 3)) {
            (void)pull(w, 2);
        }
    }
}

/* What an operator does, and other things that are rare. */
static void misc(struct world *w)
{
    (void)pull(w, 0); /* what is decided is seen before */
    switch (draw(w, 12)) {
    case 0:
    case 1:
        reconfigure(w);
        break;
    case 2:
    case 3:
        set_sources(w);
        break;
    case 4:
    case 5:
        sched_withdraw(w->sched, 1 + draw(w, (uint32_t)w->messages + 1), SLICE(""), &refused,
                       w->now);
        break;
    case 6:
        sched_flush(w->sched, w->now);
        break;
    case 7:
        sched_forget_hosts(w->sched, w->now);
        break;
    case 8:
        sched_set_hold(w->sched, is_rare(w, 3), w->now);
        break;
    default:
        sched_tenant_weight(w->sched, draw(w, w->tenants), (uint16_t)(1 + draw(w, 1000)), w->now);
        break;
    }
}

static void step(struct world *w)
{
    switch (draw(w, 20)) {
    case 0:
    case 1:
        submit(w);
        break;
    case 2:
    case 3:
    case 4:
        for (uint32_t i = draw(w, 80); i > 0; i--) {
            resolve(w);
        }
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        report_some(w);
        break;
    case 9:
        w->now += draw(w, 3 * USEC_PER_SEC / 2);
        break;
    case 10:
    case 11:
        (void)pull(w, 0);
        change_lane(w);
        break;
    case 12:
        misc(w);
        break;
    default:
        if (!pull(w, 1 + draw(w, 100))) {
            REQUIRE(!sched_oracle_has_work_within_cap(w->sched));
        }
        break;
    }
}

/* --- a world --------------------------------------------------------------------------------------- */

static void open_lanes(struct world *w)
{
    for (uint32_t site = 0; site < w->sites; site++) {
        for (uint32_t source = 0; source < SOURCES + 3; source++) {
            const struct sched_lane_key lane = {slice_of(sites[site]), source};
            /* The core may know none such. */
            (void)sched_lane_open(w->sched, lane, w->now);
            (void)sched_lane_ceiling(w->sched, lane, 0, 0, w->now);
        }
    }
}

/* Everything is reported and answered well, and time goes on: then all messages end. */
static void drain(struct world *w)
{
    (void)pull(w, 0);
    w->is_ending = true;
    sched_set_hold(w->sched, false, w->now);
    open_lanes(w);
    for (uint32_t round = 0; w->finished < w->messages || w->question_count > 0; round++) {
        REQUIRE(round < ROUNDS);
        (void)pull(w, UINT32_MAX);
        const bool is_answered = w->flight_count + w->question_count > 0;
        report(w);
        resolve(w);
        const usec_t wake = sched_wake_at(w->sched);
        if (!is_answered && w->finished < w->messages) {
            REQUIRE(wake != USEC_NEVER);
            w->now = wake > w->now ? wake : w->now;
        }
    }
    REQUIRE(!pull(w, UINT32_MAX) && w->finished == w->messages);
}

static uint64_t run(uint64_t seed)
{
    struct world w = {.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1, .now = 1};
    const struct sched_host host = {allocate, release, release, &w};
    (void)draw(&w, 2);
    sched_config_defaults(&w.config);
    configure(&w);
    w.config.must_resolve = true;
    w.config.hash_seed = draw(&w, 1000000);
    w.destinations = 10 + draw(&w, is_rare(&w, 3) ? DESTINATIONS - 10 : 50);
    w.sites = 1 + draw(&w, is_rare(&w, 2) ? SITES : 4);
    w.tenants = 1 + draw(&w, is_rare(&w, 2) ? TENANTS : 5);
    w.classes = 1 + draw(&w, CLASSES);
    w.campaigns = 1 + draw(&w, 4);
    w.lists = 1 + draw(&w, 4);
    w.sched = sched_new(&w.config, &host, core_shell_release_hosts, w.now);
    REQUIRE(w.sched != NULL);
    if (!is_rare(&w, 3)) {
        set_sources(&w);
    }
    for (int i = 0; i < STEPS; i++) {
        step(&w);
        if (i % CHECK_EVERY == 0) {
            check(&w);
        }
    }
    check(&w);
    drain(&w);
    check(&w);
    sched_free(w.sched);
    REQUIRE(w.objects == 0);
    free(w.flights);
    free(w.questions);
    return w.digest;
}

static void write_names(void)
{
    for (int i = 0; i < DESTINATIONS; i++) {
        for (int user = 0; user < USERS; user++) {
            (void)snprintf(addresses[i][user], sizeof(addresses[i][user]), "u%d@d%d", user, i);
        }
    }
    for (int i = 0; i < SITES; i++) {
        (void)snprintf(sites[i], sizeof(sites[i]), "s%d", i);
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : SEED;
    const uint64_t worlds = argc > 2 ? strtoull(argv[2], NULL, 10) : WORLDS;
    uint64_t checksum = 0;
    write_names();
    for (uint64_t i = 0; i < worlds; i++) {
        if (i % 100 == 0) {
            (void)printf("seed %llu\n", (unsigned long long)(seed + i));
            (void)fflush(stdout);
        }
        checksum = (checksum << 1 | checksum >> 63) ^ run(seed + i);
    }
    (void)printf("checksum %016llx\n", (unsigned long long)checksum);
    return 0;
}
