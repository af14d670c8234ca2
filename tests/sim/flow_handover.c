/* Connections that carry several entries are given over, as docs/scheduler.md says: flows with random weights
 * and more mail than all connections take, each for a destination of its own or for one that it shares; the
 * first is there before the others come. usage: flow_handover [SEED [RUNS]]
 *
 * Entries end in the order in which they went out, so what all connections carry at a moment is over after as many
 * reports. No two flows hold connections that differ by more than 1/wi + 1/wj and one of the least weight for
 * longer than that and what was given over takes to be used; and no flow waits for longer than it takes all to
 * have their turns, each as many as it weighs for one of the waiting flow, and for what the connections carry that
 * are given over then: one may be taken by a flow of the same level that has taken less. Each flow may need a
 * report to find out that it has to wait. */
#include "sched/sched.h"
#include "tests/sim/core_shell.h"
#include "tests/sim/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOWS       8
#define CONNECTIONS 24
#define DEPTH       8
#define FLIGHTS     (CONNECTIONS * DEPTH)
#define ROUNDS      6 /* times that all connections carry what they can, for each flow */
#define ROUNDING    1e-4
#define CHECKS      97 /* reports between two looks at all invariants */

struct flow_model {
    uint32_t weight;
    uint32_t held;       /* connections */
    uint64_t last_given; /* report before its last entry went out */
};

struct flight {
    struct sched_entry *entry;
    uint32_t connection;
};

struct world {
    uint64_t random;
    struct sched *sched;
    uint32_t connections, depth, flow_count, destination_count;
    struct flow_model flows[FLOWS];
    uint64_t next_id, reports, uneven_since;
    struct flight flights[FLIGHTS];
    uint32_t first, count;
    uint32_t carries[CONNECTIONS], whose[CONNECTIONS];
};

static uint32_t draw(struct world *w, uint32_t below)
{
    return core_shell_draw(&w->random, below);
}

static void submit(struct world *w, uint32_t flow)
{
    static const char *const names[FLOWS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const struct sched_recipient recipient = {
        .address = SLICE("u@x"), .nexthop = slice_of(names[flow % w->destination_count])};
    const struct sched_message message = {.id = w->next_id++,
                                          .handle = &w->flows[flow],
                                          .recipients = &recipient,
                                          .recipient_count = 1,
                                          .flow = {SCHED_NORMAL, flow, 0},
                                          .weight = (uint16_t)w->flows[flow].weight};
    REQUIRE(sched_submit(w->sched, &message, 0) == 0);
}

static void deliver(struct world *w, const struct sched_action *a)
{
    struct flow_model *f = a->handle;
    REQUIRE(w->count < FLIGHTS && w->carries[a->connection] < w->depth);
    w->flights[(w->first + w->count++) % FLIGHTS] = (struct flight){a->entry, a->connection};
    if (w->carries[a->connection]++ == 0) {
        w->whose[a->connection] = (uint32_t)(f - w->flows);
        f->held++;
    }
    f->last_given = w->reports;
    submit(w, (uint32_t)(f - w->flows));
}

static void pull(struct world *w)
{
    struct sched_action a;
    struct sched_fault fault;
    while (sched_pull(w->sched, &a, 0)) {
        if (a.kind == SCHED_DELIVER) {
            deliver(w, &a);
        }
    }
    if (w->reports % CHECKS == 0 && sched_check(w->sched, &fault) != 0) {
        (void)fprintf(stderr, "sched_check: %s\n", fault.text);
        abort();
    }
}

static void report(struct world *w)
{
    struct flight f = w->flights[w->first];
    w->first = (w->first + 1) % FLIGHTS;
    w->count--;
    w->reports++;
    if (--w->carries[f.connection] == 0) {
        w->flows[w->whose[f.connection]].held--;
    }
    const struct sched_outcome o = {.entry = f.entry,
                                    .feedback = SCHED_POSITIVE,
                                    .connection_open = true,
                                    .depth = (uint16_t)w->depth};
    sched_report(w->sched, &o, 0);
}

static uint32_t least_weight(const struct world *w)
{
    uint32_t least = w->flows[0].weight;
    for (uint32_t i = 1; i < w->flow_count; i++) {
        least = w->flows[i].weight < least ? w->flows[i].weight : least;
    }
    return least;
}

/* Connections that all others have before the flow has its next one, at most. */
static uint32_t turns_of_others(const struct world *w, const struct flow_model *f)
{
    uint32_t turns = 0;
    for (uint32_t i = 0; i < w->flow_count; i++) {
        turns += 1 + w->flows[i].weight / f->weight;
    }
    return turns;
}

static bool is_even(const struct world *w)
{
    double unit = 1.0 / least_weight(w);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        for (uint32_t j = 0; j < w->flow_count; j++) {
            const struct flow_model *a = &w->flows[i], *b = &w->flows[j];
            double more = (a->held - 1.0) / a->weight - (b->held + 1.0) / b->weight;
            if (more > unit + ROUNDING) {
                return false;
            }
        }
    }
    return true;
}

static void begin(struct world *w)
{
    const struct sched_host host = {core_shell_allocate, core_shell_release, core_shell_release,
                                    NULL};
    struct sched_config c;
    sched_config_defaults(&c);
    w->connections = 1 + draw(w, CONNECTIONS);
    w->depth = 1 + draw(w, DEPTH);
    w->flow_count = 2 + draw(w, FLOWS - 1);
    w->destination_count = draw(w, 2) == 0 ? w->flow_count : 1 + draw(w, w->flow_count);
    c.process_limit = (int)w->connections;
    c.pipeline_depth = (int)w->depth;
    c.initial_destination_concurrency = c.destination_concurrency_limit = 2 * CONNECTIONS;
    w->sched = sched_new(&c, &host, core_shell_release_hosts, 0);
    REQUIRE(w->sched != NULL);
    for (uint32_t i = 0; i < w->flow_count; i++) {
        w->flows[i].weight = 1 + draw(w, 10);
    }
}

static void fill(struct world *w, uint32_t flow)
{
    for (uint32_t i = 0; i < w->connections * w->depth + 1; i++) {
        submit(w, flow);
    }
}

static void finish(struct world *w)
{
    struct sched_reason reason = {"4.0.0", "the end"};
    struct sched_action a;
    for (uint64_t id = 0; id < w->next_id; id++) {
        sched_withdraw(w->sched, id, SLICE(""), &reason, 0);
    }
    while (w->count > 0) {
        report(w);
    }
    while (sched_pull(w->sched, &a, 0)) {
    }
    sched_free(w->sched);
}

static void run(struct world *w)
{
    begin(w);
    uint32_t all = w->connections * w->depth;
    fill(w, 0);
    for (uint32_t i = 0; i < 3 * all; i++) {
        pull(w);
        report(w);
    }
    pull(w);
    REQUIRE(w->count == all && w->flows[0].held == w->connections);
    for (uint32_t i = 1; i < w->flow_count; i++) {
        fill(w, i);
        w->flows[i].last_given = w->reports;
    }
    w->uneven_since = w->reports;
    for (uint32_t step = 0; step < ROUNDS * all * w->flow_count; step++) {
        pull(w);
        w->uneven_since = is_even(w) ? w->reports : w->uneven_since;
        REQUIRE(w->reports - w->uneven_since <= all + w->connections + w->flow_count);
        for (uint32_t i = 0; i < w->flow_count; i++) {
            uint64_t turns = 4 + turns_of_others(w, &w->flows[i]) / w->connections;
            REQUIRE(w->reports - w->flows[i].last_given <=
                    turns * (all + w->connections) + w->flow_count);
        }
        report(w);
    }
    finish(w);
}

static void run_seed(uint64_t seed)
{
    static struct world w;
    w = (struct world){.random = (seed * UINT64_C(0x9e3779b97f4a7c15)) | 1};
    run(&w);
}

int main(int argc, char **argv)
{
    /* A flow starved in these, when what rides on a connection counted as taken. */
    static const uint64_t starved[] = {1000049, 1000211, 1000788, 1001797};
    for (size_t i = 0; i < sizeof(starved) / sizeof(starved[0]); i++) {
        run_seed(starved[i]);
    }
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 30;
    for (uint64_t i = seed; i < seed + runs; i++) {
        run_seed(i);
    }
    (void)printf("%llu worlds\n", (unsigned long long)runs);
    return 0;
}
