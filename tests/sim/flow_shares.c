/* Flows share what they wait for, as docs/scheduler.md says: random flows, weights, sizes and windows, all
 * backlogged. usage: flow_shares [SEED [RUNS]]
 *
 * At each destination, for any two of one class and over any time, what they were given differs by no
 * more than Li/wi + Lj/wj recipients, L the largest entry, while no connection is lacking. Where connections
 * are short, and those of before are over, each holds at most 1/wi and one of the least weight more for its
 * weight than any other, whichever destinations it has mail for; where there are more flows than connections,
 * each has them in turn by its weight; and urgent mail has the next one, whoever has the turn at its
 * destination. A class has its floor. Where destinations with different hosts share the lane of a site, the bound
 * of a destination holds there for all of them together, whoever has mail elsewhere and holds connections for it; also
 * where they have the same hosts, and when one with other hosts comes later.
 *
 * Both may bind: then the bound at a destination holds while it lacks no connection, and again once its window
 * was full. */
#include "sched/sched.h"
#include "tests/sim/core_shell.h"
#include "tests/sim/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOWS        6
#define DESTINATIONS 4
#define LARGEST      8
#define FLIGHTS      64
#define STEPS        600
#define BACKLOG      3 /* messages of a flow that wait for each destination */
#define ROUNDING     1e-4
#define ANYWHERE     UINT32_MAX
#define GOES_ON      8 /* recipients */
#define STRAYS       32
#define ELSEWHERE                                                                                  \
    (DESTINATIONS - 1) /* the destination that is not of the site, where most of them are */
#define LATE                                                                                       \
    (DESTINATIONS - 2) /* the destination that comes when the others have been served for long */
#define LANE_PLACE DESTINATIONS /* what was given at all destinations of the site */
#define PLACES     (DESTINATIONS + 1)

/* What is lacking: windows, or connections alone, or so much that not every flow can have one, or now windows
 * and now connections, or one window and connections together, or the window of a site, alone or beside a destination that is none of it. */
enum limit { WINDOWS, CONNECTIONS, CROWD, BOTH, TWICE, SITE };

struct flow_model {
    struct sched_flow_key key;
    double weight; /* of its own: its tenant's, divided by the campaigns */
    uint32_t largest;
    uint32_t places; /* a bit for each destination that it has mail for */
    uint32_t waiting[DESTINATIONS];
    double given[PLACES]; /* recipients */
    int held;
};

/* What a destination lacks, as far as can be seen. */
struct destination_model {
    int in_flight;
    bool
        is_short; /* a connection, since its window was full last; the site: not all have joined it */
};

struct message {
    struct flow_model *flow;
    uint32_t destination;
};

struct flight {
    struct sched_entry *entry;
    struct message *message;
    bool is_old; /* from before connections were short */
};

struct world {
    uint64_t random;
    struct sched *sched;
    usec_t now;
    uint64_t next_id;
    uint32_t flow_count, destination_count;
    uint32_t compared; /* the first so many flows share a destination; 0: all */
    struct flow_model flows[FLOWS];
    /* For each two of them and each destination: the least and the most of the difference so far. */
    double least[FLOWS][FLOWS][PLACES], most[FLOWS][FLOWS][PLACES];
    struct destination_model destinations[PLACES];
    int window, connections;
    struct flight flights[FLIGHTS];
    uint32_t flight_count, old_count;
    double given[SCHED_CLASSES], all;
    uint32_t spans;                /* that a destination was short and is not any more */
    bool checks_held, has_singles; /* the first flow has one message at a time */
    bool is_bound_twice, strays;   /* a window and connections bind; shares are far off */
    bool is_site;                  /* all destinations but one are of one site */
    bool has_one_list, has_late;   /* which have the same hosts; but for one, which comes later */
    bool are_scarce; /* some connection may have to end before another one is opened */
    int depth;       /* entries on one connection; 0: one */
    double lead;     /* recipients that whoever rides may be ahead */
    bool has_new_weights; /* now and then, also between two actions */
};

static uint32_t draw(struct world *w, uint32_t below)
{
    return core_shell_draw(&w->random, below);
}

static void submit(struct world *w, struct flow_model *f, uint32_t destination)
{
    static const char *const names[DESTINATIONS] = {"a", "b", "c", "d"};
    struct sched_recipient recipients[LARGEST];
    struct message *m = malloc(sizeof(*m));
    REQUIRE(m != NULL);
    *m = (struct message){f, destination};
    uint32_t count = 1 + draw(w, f->largest);
    for (uint32_t i = 0; i < count; i++) {
        recipients[i] = (struct sched_recipient){
            .address = SLICE("u@x"), .nexthop = slice_of(names[destination]), .index = i};
    }
    const struct sched_message message = {.id = w->next_id++,
                                          .handle = m,
                                          .recipients = recipients,
                                          .recipient_count = count,
                                          .flow = f->key};
    REQUIRE(sched_submit(w->sched, &message, w->now) == 0);
    f->waiting[destination]++;
}

static void check_shares(struct world *w, uint32_t destination)
{
    uint32_t count = w->compared > 0 ? w->compared : w->flow_count;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const struct flow_model *a = &w->flows[i], *b = &w->flows[j];
            if (a->key.class != b->key.class) {
                continue;
            }
            double difference =
                a->given[destination] / a->weight - b->given[destination] / b->weight;
            double *least = &w->least[i][j][destination], *most = &w->most[i][j][destination];
            if (w->destinations[destination].is_short) {
                *least = *most = difference;
            }
            *least = difference < *least ? difference : *least;
            *most = difference > *most ? difference : *most;
            REQUIRE(*most - *least <= (w->lead + a->largest) / a->weight +
                                          (w->lead + b->largest) / b->weight + ROUNDING);
        }
    }
}

static void deliver(struct world *w, const struct sched_action *a)
{
    struct message *m = a->handle;
    struct flow_model *f = m->flow;
    uint32_t count;
    (void)sched_entry_indexes(a->entry, &count);
    REQUIRE(w->flight_count < FLIGHTS);
    w->flights[w->flight_count++] = (struct flight){a->entry, m, false};
    f->given[m->destination] += count;
    f->held++;
    w->destinations[m->destination].in_flight++;
    w->given[f->key.class] += count;
    w->all += count;
    f->waiting[m->destination]--;
    if (w->is_site && m->destination != ELSEWHERE) {
        f->given[LANE_PLACE] += count;
        check_shares(w, LANE_PLACE);
    } else if (!w->checks_held && !w->is_site) {
        check_shares(w, m->destination);
    }
    if (!w->has_singles || f != w->flows) {
        submit(w, f, m->destination);
    }
}

static double least_weight(const struct world *w)
{
    double least = w->flows[0].weight;
    for (uint32_t i = 1; i < w->flow_count; i++) {
        least = w->flows[i].weight < least ? w->flows[i].weight : least;
    }
    return least;
}

static void check_held(const struct world *w)
{
    double unit = 1 / least_weight(w);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t j = 0; j < w->flow_count; j++) {
            const struct flow_model *a = &w->flows[i], *b = &w->flows[j];
            REQUIRE(a->held / a->weight - b->held / b->weight <= unit + 1 / a->weight + ROUNDING);
        }
    }
}

static void resolve(struct world *w, struct sched_destination *d)
{
    struct slice name = sched_destination_name(d);
    struct sched_server server = {.key_len = 1, .families = 1};
    uint32_t number = (uint32_t)(name.data[0] - 'a');
    bool has_own = !w->has_one_list || number == ELSEWHERE || (w->has_late && number == LATE);
    server.key[0] = has_own ? (uint8_t)name.data[0] : 0;
    const struct sched_hosts_result r = {
        .destination = d,
        .resolution = SCHED_RESOLVED,
        .hosts = w,
        .expires = USEC_NEVER,
        .site = w->is_site && name.data[0] == 'd' ? SLICE("elsewhere") : SLICE("site"),
        .servers = &server,
        .server_count = 1};
    sched_resolved(w->sched, &r, w->now);
}

static void check(const struct world *w)
{
    struct sched_fault fault;
    if (sched_check(w->sched, &fault) != 0) {
        (void)fprintf(stderr, "sched_check: %s\n", fault.text);
        abort();
    }
}

static void pull(struct world *w)
{
    struct sched_action a;
    while (sched_pull(w->sched, &a, w->now)) {
        if (a.kind == SCHED_DELIVER) {
            deliver(w, &a);
        } else if (a.kind == SCHED_FINISHED) {
            free(a.handle);
        } else if (a.kind == SCHED_RESOLVE) {
            resolve(w, a.destination);
        }
        if (w->has_new_weights && draw(w, 4) == 0) {
            uint32_t tenant = draw(w, w->flow_count);
            sched_tenant_weight(w->sched, tenant, (uint16_t)(1 + draw(w, 10)), w->now);
            check(w);
        }
    }
    check(w);
}

static void report_one(struct world *w, uint32_t which)
{
    struct flight f = w->flights[which];
    w->flight_count--;
    memmove(&w->flights[which], &w->flights[which + 1],
            (w->flight_count - which) * sizeof(w->flights[0]));
    f.message->flow->held--;
    w->destinations[f.message->destination].in_flight--;
    w->old_count -= f.is_old;
    const struct sched_outcome o = {.entry = f.entry,
                                    .feedback = SCHED_POSITIVE,
                                    .connection_open = w->depth > 0 || draw(w, 2) == 0,
                                    .depth = (uint16_t)w->depth};
    sched_report(w->sched, &o, w->now);
}

static void report(struct world *w)
{
    report_one(w, draw(w, w->flight_count));
}

static void finish(struct world *w)
{
    struct sched_action a;
    struct sched_reason reason = {"4.0.0", "the end"};
    for (uint64_t id = 0; id < w->next_id; id++) {
        sched_withdraw(w->sched, id, SLICE(""), &reason, w->now);
    }
    while (w->flight_count > 0) {
        report(w);
    }
    while (sched_pull(w->sched, &a, w->now)) {
        if (a.kind == SCHED_FINISHED) {
            free(a.handle);
        }
    }
    sched_free(w->sched);
}

static void begin(struct world *w, enum limit what)
{
    const struct sched_host host = {core_shell_allocate, core_shell_release, core_shell_release,
                                    NULL};
    struct sched_config c;
    sched_config_defaults(&c);
    c.initial_destination_concurrency = 1 + (int)draw(w, 5);
    c.destination_concurrency_limit = c.initial_destination_concurrency;
    c.process_limit = FLIGHTS / 2;
    w->destination_count = 1 + draw(w, DESTINATIONS);
    if (what == CONNECTIONS || what == CROWD) {
        c.initial_destination_concurrency = c.destination_concurrency_limit = FLIGHTS;
        c.process_limit =
            what == CROWD ? 1 + (int)draw(w, DESTINATIONS - 1) : 2 + (int)draw(w, FLIGHTS / 2);
        w->destination_count = DESTINATIONS;
    } else if (what == BOTH) {
        int all = (int)w->destination_count * c.initial_destination_concurrency;
        c.process_limit = 1 + (int)draw(w, all > 1 ? (uint32_t)all - 1 : 1);
    }
    if (what == TWICE) {
        c.process_limit = 2 * c.initial_destination_concurrency;
        w->destination_count = DESTINATIONS;
    }
    w->is_site = what == SITE;
    if (what == SITE) {
        c.pipeline_depth = w->depth > 0 ? w->depth : 1;
        c.must_resolve = true; /* to a host of its own each, at one site */
        c.initial_destination_concurrency = c.destination_concurrency_limit =
            2 + (int)draw(w, w->are_scarce ? FLIGHTS / 2 - 1 : 5);
        c.process_limit = w->has_new_weights ? 2 + (int)draw(w, 5) : FLIGHTS;
        w->destination_count = DESTINATIONS;
    }
    w->checks_held = what == CONNECTIONS || what == CROWD;
    w->window = c.initial_destination_concurrency;
    w->connections = c.process_limit;
    w->sched = sched_new(&c, &host, core_shell_release_hosts, 0);
    REQUIRE(w->sched != NULL);
}

static void fill_one(struct world *w, uint32_t destination)
{
    for (uint32_t i = w->has_singles; i < w->flow_count; i++) {
        for (uint32_t n = 0; n < BACKLOG && (w->flows[i].places >> destination & 1) != 0; n++) {
            submit(w, &w->flows[i], destination);
        }
    }
}

static void fill(struct world *w)
{
    for (uint32_t d = 0; d < w->destination_count; d++) {
        if (!w->has_late || d != LATE) {
            fill_one(w, d);
        }
    }
}

static void mark_old(struct world *w)
{
    for (uint32_t i = 0; i < w->flight_count; i++) {
        w->flights[i].is_old = true;
    }
    w->old_count = w->flight_count;
}

static void run(struct world *w)
{
    fill(w);
    uint32_t checks = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        w->destinations[LANE_PLACE].is_short = step == 0;
        if (w->has_late && step == STEPS / 2) {
            fill_one(w, LATE);
        }
        pull(w);
        if (step == 0) {
            mark_old(w); /* all are taken now */
        }
        if (w->checks_held && w->old_count == 0) {
            check_held(w);
            checks++;
        }
        report(w);
        w->now += draw(w, 50) == 0 ? USEC_PER_SEC : 1000;
    }
    REQUIRE(!w->checks_held || checks >= STEPS / 4);
    finish(w);
}

/* Tenants of one class, some of which have campaigns. */
static void tenants_share(struct world *w)
{
    begin(w, WINDOWS);
    w->flow_count = 2 + draw(w, FLOWS - 1);
    uint32_t class = draw(w, SCHED_CLASSES), tenant = 0;
    for (uint32_t i = 0; i < w->flow_count;) {
        uint32_t campaigns = 1 + draw(w, 3), weight = 1 + draw(w, 10);
        campaigns = campaigns < w->flow_count - i ? campaigns : w->flow_count - i;
        for (uint32_t n = 0; n < campaigns; n++, i++) {
            w->flows[i] = (struct flow_model){.key = {class, tenant, n},
                                              .weight = (double)weight / campaigns,
                                              .places = ANYWHERE,
                                              .largest = 1 + draw(w, LARGEST)};
        }
        /* Before the first pull: what its first message weighs is told behind it. */
        tenant++;
        w->flows[i - 1].held = (int)weight;
    }
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t d = 0; d < w->destination_count; d++) {
            submit(w, &w->flows[i], d);
        }
    }
    for (uint32_t i = 0; i < w->flow_count; i++) {
        if (w->flows[i].held > 0) {
            sched_tenant_weight(w->sched, w->flows[i].key.tenant, (uint16_t)w->flows[i].held, 0);
            w->flows[i].held = 0;
        }
    }
    run(w);
}

/* All of them wait everywhere. */
static void review_shortage(struct world *w)
{
    for (uint32_t d = 0; d < w->destination_count; d++) {
        struct destination_model *m = &w->destinations[d];
        bool is_full = m->in_flight >= w->window;
        check_shares(w, d); /* where it was short, from here on */
        w->spans += m->is_short && is_full;
        m->is_short = !is_full && (m->is_short || w->flight_count == (uint32_t)w->connections);
    }
}

static void both_bind(struct world *w)
{
    begin(w, BOTH);
    w->lead = GOES_ON;
    uint32_t class = draw(w, SCHED_CLASSES);
    w->flow_count = 2 + draw(w, FLOWS - 1);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        uint32_t weight = 1 + draw(w, 10);
        w->flows[i] = (struct flow_model){.key = {class, i, 0},
                                          .weight = weight,
                                          .largest = 1 + draw(w, LARGEST),
                                          .places = ANYWHERE};
        submit(w, &w->flows[i], 0);
        sched_tenant_weight(w->sched, i, (uint16_t)weight, 0);
    }
    fill(w);
    for (uint32_t step = 0; step < STEPS; step++) {
        pull(w);
        review_shortage(w);
        report(w);
        w->now += draw(w, 50) == 0 ? USEC_PER_SEC : 1000;
    }
    finish(w);
}

/* As many connections as the windows of two of the destinations: the window of the first one and connections bind
 * together. Two flows have mail for it alone and the others elsewhere, one of them for both: the two
 * have their shares by weight, though each slot that becomes free is another flow's as well. In few worlds they
 * are off by more than STRAYS recipients for their weights. */
static void window_binds_too(struct world *w)
{
    begin(w, TWICE);
    w->compared = 2;
    w->lead = UINT32_MAX; /* counted at the end instead */
    w->flow_count = FLOWS;
    for (uint32_t i = 0; i < w->flow_count; i++) {
        uint32_t weight = i < 2 ? 4 + draw(w, 7) : 1;
        uint32_t place = i < 2 ? 0 : 1 + i % (DESTINATIONS - 1);
        w->flows[i] = (struct flow_model){.key = {SCHED_NORMAL, i, 0},
                                          .weight = weight,
                                          .largest = 1 + draw(w, LARGEST),
                                          .places = 1U << place};
        submit(w, &w->flows[i], place);
        sched_tenant_weight(w->sched, i, (uint16_t)weight, 0);
    }
    w->flows[2].places |= 1;
    fill(w);
    for (uint32_t step = 0; step < STEPS; step++) {
        pull(w);
        report(w);
        w->now += 1000;
    }
    const struct flow_model *a = &w->flows[1], *b = &w->flows[0];
    w->is_bound_twice = true;
    w->strays = w->most[1][0][0] - w->least[1][0][0] >
                (a->largest + STRAYS) / a->weight + (b->largest + STRAYS) / b->weight;
    finish(w);
}

/* A tenant with a destination of its own, and, unless it is apart, some that others have mail for as well. */
static void add_tenant(struct world *w, uint32_t i, bool is_apart)
{
    uint32_t weight = 1 + draw(w, 10);
    w->flows[i] = (struct flow_model){.key = {SCHED_NORMAL, i, 0},
                                      .weight = weight,
                                      .largest = 1 + draw(w, LARGEST),
                                      .places = 1U << i};
    w->flows[i].places |= is_apart ? 0 : draw(w, 1U << DESTINATIONS);
    submit(w, &w->flows[i], i);
    sched_tenant_weight(w->sched, i, (uint16_t)weight, 0);
}

/* Each has a destination of its own, or some that others have mail for as well. */
static void connections_are_shared(struct world *w)
{
    begin(w, CONNECTIONS);
    bool is_apart = draw(w, 2) == 0;
    w->flow_count = 2 + draw(w, DESTINATIONS - 1);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        add_tenant(w, i, is_apart);
    }
    run(w);
}

/* What each flow was given since the first check, for its weight: as much as any other, but for a turn, and for
 * those that others have while one holds a connection. */
static void check_turns(struct world *w, const double *before)
{
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t j = 0; j < w->flow_count; j++) {
            const struct flow_model *a = &w->flows[i], *b = &w->flows[j];
            double more =
                (a->given[i] - before[i]) / a->weight - (b->given[j] - before[j]) / b->weight;
            REQUIRE(more <= (1 + w->connections) * (1 / a->weight + 1 / b->weight));
        }
    }
}

/* At a site whose destinations have different hosts: each has mail for one of them or for more, and some for a
 * destination elsewhere, where they hold connections besides. Where connections are scarce, who had one that
 * became idle goes on with it while it is not ahead by more than GOES_ON. */
static void share_site(struct world *w)
{
    w->flow_count = 2 + draw(w, FLOWS - 1);
    w->has_one_list = draw(w, 2) == 0;
    w->has_late = w->has_one_list && draw(w, 2) == 0;
    for (uint32_t i = 0; i < w->flow_count; i++) {
        uint32_t weight = 1 + draw(w, 10), first = draw(w, w->has_late ? LATE : ELSEWHERE);
        w->flows[i] = (struct flow_model){.key = {SCHED_NORMAL, i, 0},
                                          .weight = weight,
                                          .largest = 1 + draw(w, LARGEST),
                                          .places = 1U << first | draw(w, 1U << DESTINATIONS)};
        submit(w, &w->flows[i], first);
        sched_tenant_weight(w->sched, i, (uint16_t)weight, 0);
    }
    run(w);
}

static void site_is_shared(struct world *w)
{
    w->are_scarce = draw(w, 2) == 0;
    begin(w, SITE);
    w->lead = w->are_scarce ? GOES_ON : 0;
    share_site(w);
}

/* The same on connections that carry several entries, and never become idle while there is mail for them: who rides
 * is no further ahead of any other than by four times what all can carry. */
static void rides_are_shared(struct world *w)
{
    w->depth = 2 + (int)draw(w, 3);
    begin(w, SITE);
    w->lead = 4.0 * w->depth * w->window + GOES_ON;
    share_site(w);
}

/* Tenants get other weights under way, by a reload or with a message: whose turn it is stays as it was decided, or
 * is decided anew. */
static void weights_change(struct world *w)
{
    w->has_new_weights = w->are_scarce = true;
    w->lead = UINT32_MAX; /* by which weight they share is not said */
    w->depth = 1 + (int)draw(w, 4);
    begin(w, SITE);
    share_site(w);
}

/* More flows than connections, each with a destination of its own; deliveries end in the order in which they
 * began. */
static void crowd_is_served(struct world *w)
{
    begin(w, CROWD);
    w->flow_count = DESTINATIONS;
    for (uint32_t i = 0; i < w->flow_count; i++) {
        uint32_t weight = 1 + draw(w, 10);
        w->flows[i] = (struct flow_model){
            .key = {SCHED_NORMAL, i, 0}, .weight = weight, .largest = 1, .places = 1U << i};
        submit(w, &w->flows[i], i);
        sched_tenant_weight(w->sched, i, (uint16_t)weight, 0);
    }
    fill(w);
    double before[FLOWS] = {0};
    for (uint32_t step = 0; step < STEPS; step++) {
        pull(w);
        for (uint32_t i = 0; i < w->flow_count && step <= FLOWS; i++) {
            before[i] = w->flows[i].given[i]; /* until the weights of all are known */
        }
        check_turns(w, before);
        report_one(w, 0);
        w->now += 1000;
    }
    finish(w);
}

/* The first slot is not its own only when lower classes are owed one. */
static void urgent_is_next(struct world *w)
{
    begin(w, CONNECTIONS);
    w->has_singles = true;
    w->flow_count = 2 + draw(w, FLOWS - 1);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        uint32_t class = i == 0 ? SCHED_URGENT : SCHED_NORMAL + draw(w, 2);
        w->flows[i] = (struct flow_model){
            .key = {class, i, 0}, .weight = 1, .largest = 1, .places = ANYWHERE};
    }
    fill(w);
    uint32_t waited = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        pull(w);
        uint32_t at = 0;
        while (at < DESTINATIONS && w->flows[0].waiting[at] == 0) {
            at++;
        }
        waited = at < DESTINATIONS ? waited + 1 : 0;
        REQUIRE(waited <= 2);
        if (at == DESTINATIONS && draw(w, 3) == 0) {
            submit(w, &w->flows[0], draw(w, DESTINATIONS));
        }
        report(w);
        w->now += 1000;
    }
    finish(w);
}

static void floors_hold(struct world *w)
{
    begin(w, WINDOWS);
    w->flow_count = SCHED_CLASSES;
    for (uint32_t i = 0; i < SCHED_CLASSES; i++) {
        w->flows[i] =
            (struct flow_model){.key = {i, i, 0}, .weight = 1, .largest = 1, .places = ANYWHERE};
    }
    run(w);
    double lower = w->given[SCHED_NORMAL] + w->given[SCHED_BULK];
    double slack = 2 * w->destination_count; /* a turn that is not over, at each of them */
    REQUIRE(lower >= 0.1 * w->all - slack && lower <= 0.1 * w->all + slack + 32);
    REQUIRE(w->given[SCHED_BULK] >= 0.1 * lower - slack);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 240;
    uint64_t spans = 0, bound_twice = 0, strays = 0;
    static void (*const scenes[])(struct world *) = {
        tenants_share,   connections_are_shared, floors_hold,      urgent_is_next,  both_bind,
        crowd_is_served, site_is_shared,         rides_are_shared, window_binds_too,
        weights_change};
    for (uint64_t i = seed; i < seed + runs; i++) {
        static struct world w;
        w = (struct world){.random = (i * UINT64_C(0x9e3779b97f4a7c15)) | 1};
        scenes[i % (sizeof(scenes) / sizeof(*scenes))](&w);
        spans += w.spans;
        bound_twice += w.is_bound_twice;
        strays += w.strays;
    }
    REQUIRE(runs < 100 || (spans > 100 && strays <= bound_twice / 10));
    (void)printf(
        "%llu worlds; where a window and connections bind, shares are far off in %llu of %llu\n",
        (unsigned long long)runs, (unsigned long long)strays, (unsigned long long)bound_twice);
    return 0;
}
