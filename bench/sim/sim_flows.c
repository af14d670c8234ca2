/* What flows promise, in the pure core: each line has its bound and the figure. One destination, 20
 * connections, 50 ms a delivery: 400 messages a second. */
#include "bench/sim/sim_relay.h"
#include "bench/sim/sluice_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS  20
#define DELIVERY     (50 * 1000) /* usec */
#define SECOND       USEC_PER_SEC
#define TENANTS      1000
#define PROBE_TENANT 10000 /* the first one of those that send a single message */
#define PROBES       400
#define SAMPLES      20000
#define CAMPAIGN     10

enum kind { BACKLOG, SINGLE, PROBE, FLOOD };

/* Messages that come one after another. */
struct stream {
    struct sim_event next;
    struct flows_run *run;
    struct sim_mail mail;
    struct sim_range pause;
    uint32_t left;
    bool has_tenants; /* each is of another tenant */
};

struct flows_run {
    struct sim_world world;
    struct sim_relay relay;
    struct stream stream;
    bool is_refilled; /* for each message of the backlog that was delivered another one comes */
    usec_t counted_from;
    uint64_t given[SCHED_CLASSES], given_to[TENANTS + 1], all; /* selections */
    double samples[SAMPLES]; /* SINGLE: seconds until delivered; PROBE: until selected */
    uint32_t count;
    uint64_t begun[PROBES], before_most; /* PROBE: selections of others before its own */
};

struct flows_options {
    uint32_t backlog;
    usec_t span;
    bool is_json;
};

struct flows_table {
    struct flows_options options;
    int missed;
    bool is_first;
};

static void count_selection(struct sim_relay *r, const struct sim_mail *m, uint32_t destination)
{
    struct flows_run *run = r->options.ctx;
    if (m->kind == PROBE) {
        uint32_t number = m->flow.tenant - PROBE_TENANT;
        uint64_t before = r->selections - 1 - run->begun[number];
        run->before_most = before > run->before_most ? before : run->before_most;
        run->samples[run->count++] = (double)(r->world->now - m->queued) / SECOND;
    } else if (r->world->now >= run->counted_from) {
        run->given[m->flow.class]++;
        run->given_to[m->flow.tenant]++;
        run->all++;
    }
}

static void count_delivery(struct sim_relay *r, const struct sim_mail *m, uint32_t destination)
{
    struct flows_run *run = r->options.ctx;
    if (m->kind == SINGLE && run->count < SAMPLES) {
        run->samples[run->count++] = (double)(r->world->now - m->queued) / SECOND;
    } else if (m->kind == BACKLOG && run->is_refilled) {
        const struct sim_mail next = *m;
        sim_relay_submit(r, &next);
    }
}

static void begin_flows(struct flows_run *run)
{
    static const struct sim_range delivery = {DELIVERY * 9 / 10, DELIVERY * 11 / 10};
    struct sim_relay_options o;
    memset(run, 0, sizeof(*run));
    sim_relay_defaults(&o);
    o.config.process_limit = CONNECTIONS;
    o.config.initial_destination_concurrency = CONNECTIONS;
    o.destinations = 1;
    o.delivery = &delivery;
    o.selected = count_selection;
    o.delivered = count_delivery;
    o.ctx = run;
    sim_world_init(&run->world, 1);
    sim_relay_init(&run->relay, &run->world, &o);
}

static void end_flows(struct flows_run *run)
{
    sim_cancel(&run->world, &run->stream.next);
    sim_relay_fini(&run->relay);
    sim_world_fini(&run->world);
}

static struct sim_mail flow_mail(enum kind kind, uint32_t class, uint32_t tenant, uint16_t weight)
{
    return (struct sim_mail){.flow = {.class = class, .tenant = tenant},
                             .weight = weight,
                             .kind = (uint16_t)kind,
                             .spread = 1,
                             .recipients = 1};
}

static void submit_many(struct flows_run *run, struct sim_mail m, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sim_relay_submit(&run->relay, &m);
    }
}

static void stream_on(struct sim_event *e)
{
    struct stream *stream = container_of(e, struct stream, next);
    struct flows_run *run = stream->run;
    const struct sim_mail m = stream->mail;
    if (m.kind == PROBE) {
        run->begun[m.flow.tenant - PROBE_TENANT] = run->relay.selections;
    }
    stream->mail.flow.tenant += stream->has_tenants;
    stream->left--;
    if (stream->left > 0) {
        sim_after(&run->world, e, sim_between(&run->world, stream->pause));
    }
    sim_relay_submit(&run->relay, &m);
}

/* `count` of them from now on, a second on the average `rate`. */
static void begin_stream(struct flows_run *run, struct sim_mail m, uint32_t count, uint32_t rate)
{
    run->stream = (struct stream){.next.happen = stream_on,
                                  .run = run,
                                  .mail = m,
                                  .pause = {SECOND / rate / 2, SECOND / rate * 3 / 2},
                                  .left = count,
                                  .has_tenants = m.kind == PROBE};
    sim_after(&run->world, &run->stream.next, SECOND);
}

static void run_for(struct flows_run *run, usec_t span)
{
    usec_t end = run->world.now + span;
    for (struct heap_node *n = heap_min(&run->world.events); n != NULL && n->key <= end;
         n = heap_min(&run->world.events)) {
        (void)sim_step(&run->world); /* there is one */
    }
}

static int compare_samples(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double p99(struct flows_run *run)
{
    if (run->count == 0) {
        return INFINITY;
    }
    qsort(run->samples, run->count, sizeof(double), compare_samples);
    return run->samples[(run->count - 1) * 99 / 100];
}

/* is_most: the bound is the largest that it may be, else the least. */
static void line(struct flows_table *t, const char *name, double bound, double figure, bool is_most,
                 const char *unit)
{
    bool is_met = is_most ? figure <= bound : figure >= bound;
    t->missed += !is_met;
    if (t->options.is_json) {
        (void)printf("%s{\"name\": \"%s\", \"bound\": %.4f, \"figure\": %.4f, \"unit\": \"%s\", "
                     "\"is_met\": %s}",
                     t->is_first ? "[" : ",\n", name, bound, figure, unit,
                     is_met ? "true" : "false");
    } else {
        (void)printf("%-78s %s %9.2f %9.2f %-10s%s\n", name, is_most ? "<=" : ">=", bound, figure,
                     unit, is_met ? "" : " MISSED");
    }
    t->is_first = false;
}

/* Of 20 singles a second, p99 from queued to delivered, in ms. */
static double latency(const struct flows_table *t, uint32_t of_singles, uint32_t of_bulk,
                      uint32_t backlog)
{
    static struct flows_run run;
    begin_flows(&run);
    submit_many(&run, flow_mail(BACKLOG, of_bulk, 2, 1), backlog);
    begin_stream(&run, flow_mail(SINGLE, of_singles, 1, 1),
                 (uint32_t)(20 * t->options.span / SECOND), 20);
    run_for(&run, t->options.span + 5 * SECOND);
    double p = 1e3 * p99(&run);
    end_flows(&run);
    return p;
}

static void check_latency(struct flows_table *t)
{
    uint32_t backlog = t->options.backlog;
    char name[100];
    double alone = latency(t, SCHED_URGENT, SCHED_BULK, 0);
    (void)snprintf(name, sizeof(name), "20 urgent singles a second beside %u bulk: p99", backlog);
    line(t, name, 1.5 * alone + 50, latency(t, SCHED_URGENT, SCHED_BULK, backlog), true, "ms");
    alone = latency(t, SCHED_NORMAL, SCHED_NORMAL, 0);
    (void)snprintf(name, sizeof(name), "the same, all normal, of two tenants: p99");
    line(t, name, 1.5 * alone + 50, latency(t, SCHED_NORMAL, SCHED_NORMAL, backlog), true, "ms");
}

static void check_idle_tenant(struct flows_table *t)
{
    static struct flows_run run;
    begin_flows(&run);
    run.is_refilled = true;
    for (uint32_t i = 0; i < t->options.backlog; i++) {
        const struct sim_mail m = flow_mail(BACKLOG, SCHED_NORMAL, 1 + i % TENANTS, 1);
        sim_relay_submit(&run.relay, &m);
    }
    uint32_t probes = (uint32_t)(2 * t->options.span / SECOND);
    begin_stream(&run, flow_mail(PROBE, SCHED_NORMAL, PROBE_TENANT, 1),
                 probes < PROBES ? probes : PROBES, 2);
    run_for(&run, t->options.span * 3 / 2);
    line(t, "single of an idle tenant, 1000 tenants backlogged: selections before it", TENANTS,
         (double)run.before_most, true, "selections");
    /* One selection of each, and a delivery that must end first. */
    line(t, "and its wait, p99", 1.1 * TENANTS * DELIVERY / CONNECTIONS / SECOND + 0.06, p99(&run),
         true, "s");
    end_flows(&run);
}

static void check_weights(struct flows_table *t)
{
    static const uint16_t weights[] = {5, 3, 1};
    static struct flows_run run;
    double worst = 0;
    begin_flows(&run);
    run.is_refilled = true;
    for (uint32_t i = 0; i < t->options.backlog / 3; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            const struct sim_mail m = flow_mail(BACKLOG, SCHED_BULK, 1 + k, weights[k]);
            sim_relay_submit(&run.relay, &m);
        }
    }
    run.counted_from = SECOND;
    run_for(&run, t->options.span);
    for (uint32_t k = 0; k < 3; k++) {
        double share = (double)run.given_to[1 + k] / (double)run.all;
        double off = 100 * fabs(share * 9 / weights[k] - 1);
        worst = off > worst ? off : worst;
    }
    end_flows(&run);
    line(t, "three backlogged tenants, weights 5:3:1: a share is off by", 2, worst, true, "%");
}

static void check_campaign(struct flows_table *t)
{
    static struct flows_run run;
    char name[100];
    begin_flows(&run);
    submit_many(&run, flow_mail(BACKLOG, SCHED_BULK, 1, 1), t->options.backlog);
    run_for(&run, 10 * SECOND);
    for (uint32_t i = 0; i < CAMPAIGN; i++) {
        struct sim_mail m = flow_mail(SINGLE, SCHED_BULK, 1, 1);
        m.flow.campaign = 1;
        sim_relay_submit(&run.relay, &m);
    }
    run_for(&run, 10 * SECOND);
    double last = run.count < CAMPAIGN ? INFINITY : run.samples[run.count - 1];
    (void)snprintf(name, sizeof(name), "campaign of 10 beside %u of the same tenant: the last one",
                   t->options.backlog);
    line(t, name, 12, last * SECOND / DELIVERY, true, "windows");
    end_flows(&run);
}

static void check_floors(struct flows_table *t)
{
    static struct flows_run run;
    begin_flows(&run);
    run.is_refilled = true;
    submit_many(&run, flow_mail(BACKLOG, SCHED_NORMAL, 2, 1), 2000);
    submit_many(&run, flow_mail(BACKLOG, SCHED_BULK, 3, 1), 2000);
    begin_stream(&run, flow_mail(FLOOD, SCHED_URGENT, 1, 1), UINT32_MAX, 600);
    run.counted_from = 10 * SECOND;
    run_for(&run, t->options.span + 10 * SECOND);
    double all = (double)run.all, bulk = (double)run.given[SCHED_BULK];
    double lower = bulk + (double)run.given[SCHED_NORMAL];
    end_flows(&run);
    /* Where the count begins and ends one unit may be owed. */
    line(t, "urgent flood, normal and bulk backlogged: normal and bulk together", 10,
         100 * (lower + 1) / all, false, "%");
    line(t, "and bulk", 1, 100 * (bulk + 1) / all, false, "%");
}

int sim_flows(int argc, char **argv)
{
    struct flows_table t = {.options = {.backlog = 1000000, .span = 120 * SECOND},
                            .is_first = true};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--short") == 0) {
            t.options.backlog = 20000;
            t.options.span = 30 * SECOND;
        } else if (strcmp(argv[i], "--json") == 0) {
            t.options.is_json = true;
        } else {
            (void)fputs("sluice-sim flows: bad arguments\n", stderr);
            return 2;
        }
    }
    check_latency(&t);
    check_idle_tenant(&t);
    check_weights(&t);
    check_campaign(&t);
    check_floors(&t);
    if (t.options.is_json) {
        (void)puts("]");
    } else {
        (void)printf("%d bounds missed\n", t.missed);
    }
    return t.missed > 0;
}
