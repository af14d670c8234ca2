/* Flows share what they wait for, as docs/scheduler.md says: random flows, weights, sizes and windows, all
 * backlogged. usage: flow_shares [SEED [RUNS]]
 *
 * At each destination, for any two of one class and over any time, what they were given differs by no
 * more than Li/wi + Lj/wj recipients, L the largest entry. Of connections, where these are short, they
 * hold so many that the same is true of them, with 1 for L. A class has its floor. */
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

struct flow_model {
    struct sched_flow_key key;
    double weight; /* of its own: its tenant's, divided by the campaigns */
    uint32_t largest;
    uint32_t waiting[DESTINATIONS];
    double given[DESTINATIONS]; /* recipients */
    int held;
};

struct message {
    struct flow_model *flow;
    uint32_t destination;
};

struct flight {
    struct sched_entry *entry;
    struct message *message;
};

struct world {
    uint64_t random;
    struct sched *sched;
    usec_t now;
    uint64_t next_id;
    uint32_t flow_count, destination_count;
    struct flow_model flows[FLOWS];
    /* For each two of them and each destination: the least and the most of the difference so far. */
    double least[FLOWS][FLOWS][DESTINATIONS], most[FLOWS][FLOWS][DESTINATIONS];
    struct flight flights[FLIGHTS];
    uint32_t flight_count;
    double given[SCHED_CLASSES], all;
    bool checks_held;
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
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const struct flow_model *a = &w->flows[i], *b = &w->flows[j];
            if (a->key.class != b->key.class) {
                continue;
            }
            double difference =
                a->given[destination] / a->weight - b->given[destination] / b->weight;
            double *least = &w->least[i][j][destination], *most = &w->most[i][j][destination];
            *least = difference < *least ? difference : *least;
            *most = difference > *most ? difference : *most;
            REQUIRE(*most - *least <= a->largest / a->weight + b->largest / b->weight + ROUNDING);
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
    w->flights[w->flight_count++] = (struct flight){a->entry, m};
    f->given[m->destination] += count;
    f->held++;
    w->given[f->key.class] += count;
    w->all += count;
    f->waiting[m->destination]--;
    if (!w->checks_held) {
        check_shares(w, m->destination);
    }
    submit(w, f, m->destination);
}

static void check_held(const struct world *w)
{
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t j = 0; j < w->flow_count; j++) {
            const struct flow_model *a = &w->flows[i], *b = &w->flows[j];
            REQUIRE(a->key.class != b->key.class || a->held / a->weight - b->held / b->weight <=
                                                        1 / a->weight + 1 / b->weight + ROUNDING);
        }
    }
}

static void pull(struct world *w)
{
    struct sched_action a;
    struct sched_fault fault;
    while (sched_pull(w->sched, &a, w->now)) {
        if (a.kind == SCHED_DELIVER) {
            deliver(w, &a);
        } else if (a.kind == SCHED_FINISHED) {
            free(a.handle);
        }
    }
    if (sched_check(w->sched, &fault) != 0) {
        (void)fprintf(stderr, "sched_check: %s\n", fault.text);
        abort();
    }
}

static void report(struct world *w)
{
    uint32_t which = draw(w, w->flight_count);
    struct flight f = w->flights[which];
    w->flights[which] = w->flights[--w->flight_count];
    f.message->flow->held--;
    const struct sched_outcome o = {
        .entry = f.entry, .feedback = SCHED_POSITIVE, .connection_open = draw(w, 2) == 0};
    sched_report(w->sched, &o, w->now);
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

/* Windows that bind; or connections that do, and then windows do not. */
static void begin(struct world *w, bool is_short_of_connections)
{
    const struct sched_host host = {core_shell_allocate, core_shell_release, core_shell_release,
                                    NULL};
    struct sched_config c;
    sched_config_defaults(&c);
    c.initial_destination_concurrency = 1 + (int)draw(w, 5);
    c.destination_concurrency_limit = c.initial_destination_concurrency;
    c.process_limit = FLIGHTS / 2;
    w->destination_count = 1 + draw(w, DESTINATIONS);
    if (is_short_of_connections) {
        c.initial_destination_concurrency = c.destination_concurrency_limit = FLIGHTS;
        c.process_limit = 2 + (int)draw(w, FLIGHTS / 2);
        w->destination_count = DESTINATIONS;
    }
    w->checks_held = is_short_of_connections;
    w->sched = sched_new(&c, &host, core_shell_release_hosts, 0);
    REQUIRE(w->sched != NULL);
}

static void run(struct world *w)
{
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t d = 0; d < w->destination_count; d++) {
            /* Where connections are short each has a destination of its own. */
            for (uint32_t n = 0; n < BACKLOG && (!w->checks_held || d == i); n++) {
                submit(w, &w->flows[i], d);
            }
        }
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        pull(w);
        if (w->checks_held) {
            check_held(w);
        }
        report(w);
        w->now += draw(w, 50) == 0 ? USEC_PER_SEC : 1000;
    }
    finish(w);
}

/* Tenants of one class, some of which have campaigns. */
static void tenants_share(struct world *w)
{
    begin(w, false);
    w->flow_count = 2 + draw(w, FLOWS - 1);
    uint32_t class = draw(w, SCHED_CLASSES), tenant = 0;
    for (uint32_t i = 0; i < w->flow_count;) {
        uint32_t campaigns = 1 + draw(w, 3), weight = 1 + draw(w, 10);
        campaigns = campaigns < w->flow_count - i ? campaigns : w->flow_count - i;
        for (uint32_t n = 0; n < campaigns; n++, i++) {
            w->flows[i] = (struct flow_model){.key = {class, tenant, n},
                                              .weight = (double)weight / campaigns,
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

static void connections_are_shared(struct world *w)
{
    begin(w, true);
    w->flow_count = 2 + draw(w, DESTINATIONS - 1);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        uint32_t weight = 1 + draw(w, 10);
        w->flows[i] = (struct flow_model){
            .key = {SCHED_NORMAL, i, 0}, .weight = weight, .largest = 1 + draw(w, LARGEST)};
        submit(w, &w->flows[i], i);
        sched_tenant_weight(w->sched, i, (uint16_t)weight, 0);
    }
    run(w);
}

static void floors_hold(struct world *w)
{
    begin(w, false);
    w->flow_count = SCHED_CLASSES;
    for (uint32_t i = 0; i < SCHED_CLASSES; i++) {
        w->flows[i] = (struct flow_model){.key = {i, i, 0}, .weight = 1, .largest = 1};
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
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 90;
    static void (*const scenes[])(struct world *) = {tenants_share, connections_are_shared,
                                                     floors_hold};
    for (uint64_t i = seed; i < seed + runs; i++) {
        static struct world w;
        w = (struct world){.random = (i * UINT64_C(0x9e3779b97f4a7c15)) | 1};
        scenes[i % 3](&w);
    }
    (void)printf("%llu worlds\n", (unsigned long long)runs);
    return 0;
}
