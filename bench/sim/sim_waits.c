/* The two faults for which Postfix's old queue manager was replaced, and the one that was left, as times that
 * small mail waits: the same arrivals under round robin, first in first out, with preemption, and with preemption
 * and flows. Fails when a fault is not seen where it should be, or is where it should not. */
#include "bench/sim/sim_relay.h"
#include "bench/sim/sluice_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS 20
#define SECOND      USEC_PER_SEC
#define BINS        60
#define SAMPLES     65536

enum { MEASURED = 1, OTHER = 2 }; /* sim_mail.kind, and tenant */

struct scene {
    const char *name, *what;
    usec_t span, begin, end; /* of the run, and of what causes the fault */
    uint32_t destinations;
    uint32_t measured; /* messages a second that are looked at */
    uint32_t others;   /* beside them, all the time */
    uint32_t more;     /* of these a second, from begin to end */
    uint32_t at_once;  /* or so many messages at begin */
    uint32_t large;    /* or one of so many recipients */
    bool is_gateway;   /* the measured ones are for one destination, the others for the rest */
};

static const struct scene scenes[] = {
    {"gateway", "mail for one inbound destination, beside some for 400 others",
     .span = 3000 * SECOND, .begin = 300 * SECOND, .end = 900 * SECOND, .destinations = 401,
     .measured = 8, .others = 9, .more = 8, .is_gateway = true},
    {"large message",
     "small mail beside one message of 5,000 recipients, for the same 50 destinations",
     .span = 1500 * SECOND, .begin = 300 * SECOND, .destinations = 50, .measured = 2,
     .large = 5000},
    {"personal bulk",
     "small mail beside 6,000 bulk messages of one recipient, for the same 50 destinations",
     .span = 1500 * SECOND, .begin = 300 * SECOND, .destinations = 50, .measured = 2,
     .at_once = 6000},
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

enum { ROUND_ROBIN, FIFO, PREEMPTIVE, FLOWS, SYSTEMS };
static const char *const systems[SYSTEMS] = {"round robin", "first in first out", "preemptive",
                                             "preemptive with flows"};

static const enum sched_scheduler schedulers[SYSTEMS] = {[ROUND_ROBIN] = SCHED_BY_TURNS,
                                                         [FIFO] = SCHED_BY_ARRIVAL,
                                                         [PREEMPTIVE] = SCHED_BY_PREEMPTION,
                                                         [FLOWS] = SCHED_BY_PREEMPTION};

struct source {
    struct sim_event next;
    struct run *run;
    usec_t begin, end;
    uint32_t a_second;
    uint16_t kind;
    struct sim_world chance; /* of its own, so that arrivals are the same whatever is selected */
};

struct run {
    const struct scene *scene;
    bool has_flows;
    struct sim_world world;
    struct sim_relay relay;
    struct source sources[3];
    struct sim_event burst;
    double waits[SAMPLES]; /* seconds, of the measured ones */
    uint32_t count;
    double longest[BINS]; /* by when they came; < 0: none did */
};

struct result {
    double median, p99, longest;
    double bins[BINS];
};

static void take_wait(struct sim_relay *r, const struct sim_mail *m, uint32_t destination)
{
    struct run *run = r->options.ctx;
    if (m->kind != MEASURED) {
        return;
    }
    double waited = (double)(r->world->now - m->queued) / SECOND;
    size_t bin = (size_t)(m->queued * BINS / run->scene->span);
    if (run->count < SAMPLES) {
        run->waits[run->count++] = waited;
    }
    run->longest[bin] = waited > run->longest[bin] ? waited : run->longest[bin];
}

static struct sim_mail mail_of(const struct run *run, uint16_t kind, uint32_t destination)
{
    struct sim_mail m = {
        .kind = kind, .weight = 1, .destination = destination, .spread = 1, .recipients = 1};
    if (run->has_flows) {
        m.flow = (struct sched_flow_key){.class = SCHED_NORMAL, .tenant = kind};
    }
    return m;
}

static uint32_t pick_destination(struct source *source)
{
    const struct scene *scene = source->run->scene;
    uint32_t last = scene->destinations - 1;
    if (!scene->is_gateway) {
        return (uint32_t)sim_between(&source->chance, (struct sim_range){0, last});
    }
    return source->kind == MEASURED
               ? 0
               : (uint32_t)sim_between(&source->chance, (struct sim_range){1, last});
}

/* Evenly within twice the mean. */
static void plan(struct source *source, usec_t from)
{
    usec_t at =
        from + sim_between(&source->chance, (struct sim_range){0, 2 * SECOND / source->a_second});
    if (at < source->end) {
        sim_at(&source->run->world, &source->next, at);
    }
}

static void arrive_mail(struct sim_event *e)
{
    struct source *source = container_of(e, struct source, next);
    const struct sim_mail m = mail_of(source->run, source->kind, pick_destination(source));
    plan(source, source->run->world.now);
    sim_relay_submit(&source->run->relay, &m);
}

static void begin_source(struct run *run, int number, uint32_t a_second, uint16_t kind,
                         struct sim_range span)
{
    struct source *source = &run->sources[number];
    *source = (struct source){.next.happen = arrive_mail,
                              .run = run,
                              .begin = span.low,
                              .end = span.high,
                              .a_second = a_second,
                              .kind = kind};
    source->chance.chance = 1000 + (uint64_t)number;
    if (a_second > 0) {
        plan(source, span.low);
    }
}

static void burst(struct sim_event *e)
{
    struct run *run = container_of(e, struct run, burst);
    struct sim_mail m = mail_of(run, OTHER, 0);
    if (run->scene->large > 0) {
        m.recipients = run->scene->large;
        m.spread = run->scene->destinations;
        sim_relay_submit(&run->relay, &m);
    }
    for (uint32_t i = 0; i < run->scene->at_once; i++) {
        m.destination = i % run->scene->destinations;
        sim_relay_submit(&run->relay, &m);
    }
}

static int compare_waits(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct result summary(struct run *run)
{
    struct result r;
    qsort(run->waits, run->count, sizeof(double), compare_waits);
    r.median = run->waits[run->count / 2];
    r.p99 = run->waits[run->count * 99 / 100];
    r.longest = run->waits[run->count - 1];
    memcpy(r.bins, run->longest, sizeof(r.bins));
    return r;
}

static struct result simulate(const struct scene *scene, int system, uint64_t seed)
{
    static struct run run;
    struct sim_relay_options o;
    struct sim_range *delivery = calloc(scene->destinations, sizeof(*delivery));
    if (delivery == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < scene->destinations; i++) {
        delivery[i] = (struct sim_range){8 * SECOND / 10, 12 * SECOND / 10};
    }
    memset(&run, 0, sizeof(run));
    run.scene = scene;
    run.has_flows = system == FLOWS;
    for (int i = 0; i < BINS; i++) {
        run.longest[i] = -1;
    }
    sim_relay_defaults(&o);
    o.config.process_limit = CONNECTIONS;
    o.config.destination_recipient_limit = 2; /* so that 5,000 recipients are 2,500 deliveries */
    o.config.scheduler = schedulers[system];
    o.destinations = scene->destinations;
    o.delivery = delivery;
    o.selected = take_wait;
    o.ctx = &run;
    sim_world_init(&run.world, seed);
    sim_relay_init(&run.relay, &run.world, &o);
    begin_source(&run, 0, scene->measured, MEASURED, (struct sim_range){0, scene->span});
    begin_source(&run, 1, scene->others, OTHER, (struct sim_range){0, scene->span});
    begin_source(&run, 2, scene->more, OTHER, (struct sim_range){scene->begin, scene->end});
    run.burst.happen = burst;
    sim_at(&run.world, &run.burst, scene->begin);
    while (sim_step(&run.world)) {
    }
    sim_relay_fini(&run.relay);
    sim_world_fini(&run.world);
    free(delivery);
    return summary(&run);
}

static void print_text(const struct scene *scene, const struct result *r)
{
    (void)printf("%s: %s\n", scene->name, scene->what);
    (void)printf("  waits of the former, s         median        p99    longest\n");
    for (int i = 0; i < SYSTEMS; i++) {
        (void)printf("  %-24s %12.2f %10.2f %10.2f\n", systems[i], r[i].median, r[i].p99,
                     r[i].longest);
    }
}

static void print_json(const struct scene *scene, const struct result *r, bool is_first)
{
    (void)printf("%s{\"name\": \"%s\", \"what\": \"%s\", \"title\": \"longest wait, by when the "
                 "mail came\", \"interval\": %.3f, \"series\": [",
                 is_first ? "[" : ",\n", scene->name, scene->what,
                 (double)scene->span / SECOND / BINS);
    for (int i = 0; i < SYSTEMS; i++) {
        (void)printf("%s{\"name\": \"%s\", \"median\": %.3f, \"p99\": %.3f, \"longest\": %.3f, "
                     "\"bins\": [",
                     i == 0 ? "" : ", ", systems[i], r[i].median, r[i].p99, r[i].longest);
        for (int k = 0; k < BINS; k++) {
            if (r[i].bins[k] < 0) {
                (void)printf("%snull", k == 0 ? "" : ", ");
            } else {
                (void)printf("%s%.3f", k == 0 ? "" : ", ", r[i].bins[k]);
            }
        }
        (void)printf("]}");
    }
    (void)printf("]}");
}

static bool require(bool is_met, const char *what)
{
    if (!is_met) {
        (void)fprintf(stderr, "sluice-sim waits: not so: %s\n", what);
    }
    return is_met;
}

static bool judge_waits(const struct result r[SCENES][SYSTEMS])
{
    const struct result *gateway = r[0], *large = r[1], *bulk = r[2];
    bool is_met = require(gateway[ROUND_ROBIN].longest > 2 * gateway[FIFO].longest,
                          "round robin starves the inbound destination of a gateway");
    is_met &= require(gateway[FLOWS].longest < gateway[FIFO].longest / 10,
                      "with flows it does not wait for other mail");
    is_met &= require(large[ROUND_ROBIN].longest > 20 * large[PREEMPTIVE].longest,
                      "round robin has all wait for a large message");
    is_met &= require(large[FIFO].longest > 20 * large[PREEMPTIVE].longest,
                      "so has first in first out, and preemption has not");
    is_met &= require(bulk[PREEMPTIVE].longest > bulk[FIFO].longest / 2,
                      "preemption is no help where bulk is personal");
    is_met &= require(bulk[FLOWS].longest < bulk[PREEMPTIVE].longest / 20 &&
                          large[FLOWS].longest < large[FIFO].longest / 20,
                      "flows are");
    return is_met;
}

int sim_waits(int argc, char **argv)
{
    static struct result results[SCENES][SYSTEMS];
    uint64_t seed = 1;
    bool is_json = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            is_json = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else {
            (void)fputs("sluice-sim waits: bad arguments\n", stderr);
            return 2;
        }
    }
    for (size_t i = 0; i < SCENES; i++) {
        for (int k = 0; k < SYSTEMS; k++) {
            results[i][k] = simulate(&scenes[i], k, seed);
        }
        if (is_json) {
            print_json(&scenes[i], results[i], i == 0);
        } else {
            print_text(&scenes[i], results[i]);
        }
    }
    (void)fputs(is_json ? "]\n" : "", stdout);
    return judge_waits((const struct result(*)[SYSTEMS])results) ? 0 : 1;
}
