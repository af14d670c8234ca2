/* The learned pace against simulated receivers, hours in seconds: each bound that the pace must meet,
 * with its target and the worst figure over delays and seeds. */
#include "bench/sim/sim_lane.h"
#include "bench/sim/sim_session.h"
#include "bench/sim/sluice_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE       (60 * USEC_PER_SEC)
#define LANES        50
#define LATENESS     300 /* usec; of the sender's timers, at most */
#define OFFERED      500 /* messages a second, where not all there is is sent */
#define WINDOW_FIRST 5
#define WINDOW_MOST  20
#define SHORT_SPAN   (420 * USEC_PER_SEC)
#define LONG_SPAN    (600 * USEC_PER_SEC)

struct options {
    uint64_t seed;
    bool is_short, is_json, is_verbose;
};

/* The worst of several runs. */
struct figure {
    double accepted;     /* percent of what the receiver allows, at least */
    double refused;      /* percent of its bound, at most */
    double refused_part; /* percent of accepted, at most */
};

struct table {
    const struct options *options;
    int missed;
    bool is_first;
};

struct mark {
    uint64_t accepted, refused;
};

/* A receiver of one lane, and what happens to it. */
struct scene {
    double rate, burst; /* burst 0: a tenth of a second's worth, at least 1 */
    usec_t window;
    struct sim_lane_config lane;
};

static const struct figure nothing_yet = {1e9, 0, 0};

static void run_until(struct sim_world *w, usec_t end)
{
    for (struct heap_node *n = heap_min(&w->events); n != NULL && n->key < end;
         n = heap_min(&w->events)) {
        (void)sim_step(w); /* there is one */
    }
    w->now = end;
}

static struct mark mark(const struct sim_lane *l)
{
    return (struct mark){l->accepted, l->refused};
}

/* One part in a hundred of what was accepted, and five a minute. */
static void judge(struct figure *f, struct mark a, struct mark b, double allowed, usec_t span)
{
    double accepted = (double)(b.accepted - a.accepted), refused = (double)(b.refused - a.refused);
    double bound = accepted / 100 + 5.0 * (double)span / MINUTE;
    double part = accepted > 0 ? 100 * refused / accepted : 100;
    double share = 100 * accepted / (allowed * (double)span / USEC_PER_SEC);
    f->accepted = share < f->accepted ? share : f->accepted;
    f->refused = 100 * refused / bound > f->refused ? 100 * refused / bound : f->refused;
    f->refused_part = part > f->refused_part ? part : f->refused_part;
}

static usec_t span_of(const struct table *t)
{
    return t->options->is_short ? SHORT_SPAN : LONG_SPAN;
}

/* Steady from 20 s on; then R halves, and doubles again, and each time counts from 30 s after. */
static void run_scene(const struct table *t, const struct scene *s, uint64_t seed,
                      struct figure ret[3])
{
    struct sim_world w;
    struct sim_limit limit;
    struct sim_lane lane;
    usec_t span = t->options->is_short && s->rate >= 200 ? MINUTE : span_of(t);
    sim_world_init(&w, seed);
    sim_limit_init(&limit, s->rate, s->burst, 0);
    sim_lane_init(&lane, &w, &s->lane, &limit, seed);
    run_until(&w, 20 * USEC_PER_SEC);
    double rate = s->rate;
    for (int phase = 0; phase < 3; phase++) {
        if (phase > 0) {
            rate = phase == 1 ? s->rate / 2 : s->rate;
            sim_limit_change(&limit, rate, w.now);
            run_until(&w, w.now + 30 * USEC_PER_SEC);
        }
        struct mark before = mark(&lane);
        run_until(&w, w.now + span);
        judge(&ret[phase], before, mark(&lane), rate, span);
    }
    sim_lane_fini(&lane);
    sim_world_fini(&w);
}

static void print_columns(struct table *t)
{
    if (!t->options->is_json) {
        (void)printf("%-52s %21s %26s\n", "", "accepted %", "refused");
        (void)printf("%-52s %10s %10s %13s %12s\n", "receiver", "target", "worst", "target",
                     "worst");
    }
}

/* target: percent accepted at least; part: percent refused of accepted at most, 0: 1 % and 5 a
 * minute, of which `refused` is the percentage used up */
static void print_row(struct table *t, const char *name, const struct figure *f, double target,
                      double part)
{
    double refused = part > 0 ? f->refused_part : f->refused;
    bool is_met = f->accepted >= target && refused <= (part > 0 ? part : 100);
    t->missed += !is_met;
    if (t->options->is_json) {
        (void)printf("%s\n  {\"receiver\": \"%s\", \"accepted_target\": %g, \"accepted\": %.2f, "
                     "\"refused_target\": %g, \"refused_unit\": \"%s\", \"refused\": %.2f, "
                     "\"met\": %s}",
                     t->is_first ? "" : ",", name, target, f->accepted, part > 0 ? part : 100,
                     part > 0 ? "% of accepted" : "% of 1 % + 5 a minute", refused,
                     is_met ? "true" : "false");
    } else {
        (void)printf("%-52s %10.0f %10.1f ", name, target, f->accepted);
        if (part > 0) {
            (void)printf("%11.0f %% %10.2f %%", part, refused);
        } else {
            (void)printf("%13s %9.0f %% of it", "1 % + 5/min", refused);
        }
        (void)printf("%s\n", is_met ? "" : "   MISSED");
    }
    t->is_first = false;
}

static const usec_t delays[] = {1, 20, 100, 500, 2000};
#define DELAYS (sizeof(delays) / sizeof(delays[0]))
#define DELAYS_BEGUN                                                                               \
    3 /* whoever waits longer for each verdict has more refused in the first 20 s */

/* No reply later than 2 s; a third of each delay is jitter in every second run. */
static struct sim_lane_config lane_with(usec_t delay_msec, bool has_jitter)
{
    usec_t delay = delay_msec * USEC_PER_MSEC;
    return (struct sim_lane_config){.unit = PACE_MESSAGES,
                                    .delay = has_jitter ? delay * 2 / 3 : delay,
                                    .jitter = has_jitter ? delay / 3 : 0,
                                    .lateness = LATENESS,
                                    .group = 1,
                                    .greylisted = has_jitter ? 30 : 0};
}

static void messages(struct table *t)
{
    static const double rates[] = {2, 20, 200, 2000};
    static const char *const when[] = {"from 20 s on", "30 s after it halved",
                                       "30 s after it doubled"};
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        struct figure f[3] = {nothing_yet, nothing_yet, nothing_yet};
        for (size_t run = 0; run < 2 * DELAYS; run++) {
            struct scene s = {.rate = rates[r], .lane = lane_with(delays[run / 2], run % 2)};
            if (t->options->is_short && rates[r] >= 200 && delays[run / 2] != 100) {
                continue;
            }
            struct figure one[3] = {nothing_yet, nothing_yet, nothing_yet};
            run_scene(t, &s, t->options->seed + run, one);
            for (int p = 0; p < 3; p++) {
                f[p].accepted = fmin(f[p].accepted, one[p].accepted);
                f[p].refused = fmax(f[p].refused, one[p].refused);
                if (t->options->is_verbose) {
                    (void)printf("  R %g, %lld ms%s, %s: accepted %.1f %%, refused %.0f %%\n",
                                 rates[r], (long long)delays[run / 2], run % 2 ? ", jitter" : "",
                                 when[p], one[p].accepted, one[p].refused);
                }
            }
        }
        for (int p = 0; p < 3; p++) {
            char name[80];
            (void)snprintf(name, sizeof(name), "%g messages a second, %s", rates[r], when[p]);
            print_row(t, name, &f[p], 95, 0);
        }
    }
}

/* Nothing is let through for a while, from the first message on: from 40 s after the first one that is
 * taken. What was not accepted meanwhile is not the receiver's rate. */
static void storm(struct table *t, double rate, enum pace_unit unit, const char *what)
{
    static const usec_t spans[] = {2, 10, 60};
    struct figure f = nothing_yet;
    char name[80];
    for (size_t run = 0; run < (t->options->is_short ? 1 : 3) * DELAYS; run++) {
        struct sim_lane_config config = lane_with(delays[run % DELAYS], false);
        struct sim_limit limit;
        struct sim_lane lane;
        struct sim_world w;
        config.unit = unit;
        sim_world_init(&w, t->options->seed);
        sim_limit_init(&limit, 1e-9, 0, 0);
        limit.tokens = 0;
        sim_lane_init(&lane, &w, &config, &limit, t->options->seed + run);
        run_until(&w, spans[run / DELAYS] * USEC_PER_SEC);
        sim_limit_change(&limit, rate, w.now);
        while (lane.accepted == 0 && sim_step(&w)) {
        }
        run_until(&w, w.now + 40 * USEC_PER_SEC);
        struct mark before = mark(&lane);
        run_until(&w, w.now + MINUTE);
        judge(&f, before, mark(&lane), rate, MINUTE);
        if (t->options->is_verbose) {
            (void)printf("  storm of %lld s, %lld ms: pace %.2f\n", (long long)spans[run / DELAYS],
                         (long long)delays[run % DELAYS], lane.pace.rate);
        }
        sim_lane_fini(&lane);
        sim_world_fini(&w);
    }
    (void)snprintf(name, sizeof(name), "nothing for 2-60 s, then %g %s/s, 40 s later", rate, what);
    print_row(t, name, &f, 95, 0);
}

/* Eighty seconds from the first one on, with a window that begins at five and grows: every refusal
 * counts, and what is accepted from 20 s on.
 *
 * each  messages on a connection, where the limit is of connects; else 1 */
static void beginning(struct table *t, const char *name, const struct scene *s, double each)
{
    struct figure f = nothing_yet;
    for (size_t run = 0; run < (t->options->is_short ? 2 : 6) * DELAYS_BEGUN; run++) {
        struct sim_lane_config config = lane_with(delays[run / 2 % DELAYS_BEGUN], run % 2);
        struct sim_limit limit;
        struct sim_lane lane;
        struct sim_world w;
        config.unit = s->lane.unit;
        config.stays = s->lane.stays;
        config.window = WINDOW_FIRST;
        config.in_flight = WINDOW_MOST;
        config.greylisted = 0;
        if (config.delay + config.jitter > 0 && s->lane.unit == PACE_MESSAGES &&
            WINDOW_MOST * (double)USEC_PER_SEC <
                2 * s->rate * (double)(config.delay + config.jitter)) {
            continue; /* the window would be what binds */
        }
        sim_world_init(&w, t->options->seed + run);
        sim_limit_init(&limit, s->rate, s->burst, 0);
        sim_lane_init(&lane, &w, &config, &limit, t->options->seed + run);
        run_until(&w, 20 * USEC_PER_SEC);
        struct mark settled = mark(&lane);
        run_until(&w, 80 * USEC_PER_SEC);
        struct figure one = nothing_yet, settled_one = nothing_yet;
        judge(&settled_one, settled, mark(&lane), s->rate, MINUTE);
        judge(&one, (struct mark){0, 0}, mark(&lane), s->rate, 80 * USEC_PER_SEC);
        f.accepted = fmin(f.accepted, settled_one.accepted);
        f.refused = fmax(f.refused, one.refused);
        f.refused_part = fmax(f.refused_part, one.refused_part / each);
        if (t->options->is_verbose) {
            (void)printf("  %s, %lld ms: accepted %.1f %%, refused %llu, %llu of them at once; "
                         "pace %.2f\n",
                         name, (long long)delays[run / 2 % DELAYS_BEGUN], settled_one.accepted,
                         (unsigned long long)lane.refused, (unsigned long long)settled.refused,
                         lane.pace.rate);
        }
        sim_lane_fini(&lane);
        sim_world_fini(&w);
    }
    print_row(t, name, &f, each > 1 ? 90 : 95, each > 1 ? 2 : 0);
}

static void beginnings(struct table *t)
{
    static const double rates[] = {2, 5, 20, 200};
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "%g messages a second, with how it begins", rates[r]);
        beginning(t, name, &(struct scene){.rate = rates[r]}, 1);
    }
    struct scene connects = {
        .rate = 0.5, .burst = 5, .lane = {.unit = PACE_CONNECTS, .stays = 5 * USEC_PER_SEC}};
    beginning(t, "30 connections a minute, with how it begins", &connects, 10);
}

/* 500 messages a second are offered, and some are refused whatever the rate is: of a receiver without
 * a limit, and beneath a limit. From the third minute on. */
static void chance_refusals(struct table *t, double rate, double chance)
{
    struct figure f = nothing_yet;
    char name[80];
    for (size_t run = 0; run < 2 * DELAYS; run++) {
        struct sim_lane_config config = lane_with(delays[run / 2], run % 2);
        struct sim_limit limit;
        struct sim_lane lane;
        struct sim_world w;
        if (t->options->is_short && delays[run / 2] != 20) {
            continue;
        }
        config.greylisted = 0;
        config.offered = OFFERED;
        config.chance = chance / 100;
        config.in_flight =
            20 + (uint32_t)(10 * OFFERED * (config.delay + config.jitter) / USEC_PER_SEC);
        sim_world_init(&w, t->options->seed + run);
        sim_limit_init(&limit, rate, 0, 0);
        sim_lane_init(&lane, &w, &config, &limit, t->options->seed + run);
        run_until(&w, 2 * MINUTE);
        struct mark before = mark(&lane);
        struct figure one = nothing_yet;
        run_until(&w, w.now + LONG_SPAN);
        judge(&one, before, mark(&lane), rate > 0 ? rate : OFFERED, LONG_SPAN);
        f.accepted = fmin(f.accepted, one.accepted);
        f.refused_part = fmax(f.refused_part, one.refused_part);
        if (t->options->is_verbose) {
            (void)printf("  R %g, %g %% by chance, %lld ms%s: accepted %.1f %%, refused %.2f %%; "
                         "pace %.1f, believed %.2f %%\n",
                         rate, chance, (long long)delays[run / 2], run % 2 ? ", jitter" : "",
                         one.accepted, one.refused_part, lane.pace.rate,
                         100 * lane.pace.chance.share);
        }
        sim_lane_fini(&lane);
        sim_world_fini(&w);
    }
    if (rate > 0) {
        (void)snprintf(name, sizeof(name), "%g a second, %g %% refused by chance", rate, chance);
    } else {
        (void)snprintf(name, sizeof(name), "no limit, %g %% refused by chance", chance);
    }
    bool is_hard =
        rate > 0 && chance > 2; /* a trial of such a limit says as little as chance does */
    print_row(t, name, &f, 90, chance + (is_hard ? 3 : 2));
}

static void by_chance(struct table *t)
{
    static const double rates[] = {0, 20, 200}, chances[] = {0.1, 1, 3};
    for (size_t r = 0; r < 3; r++) {
        for (size_t c = 0; c < 3; c++) {
            chance_refusals(t, rates[r], chances[c]);
        }
    }
}

/* A refused MAIL ends its connection, and with it what stood behind it there. */
static void pipelined(struct table *t)
{
    struct scene s = {.rate = 200, .lane = lane_with(100, false)};
    struct figure f[3] = {nothing_yet, nothing_yet, nothing_yet};
    s.lane.lost_group = 4;
    run_scene(t, &s, t->options->seed, f);
    print_row(t, "200 a second, each refusal takes 4 more with it", &f[0], 95, 0);
}

/* Lanes with limits of their own; 2: those of two sources, else from 2 to 500
 * a second, or to 100. */
static void many_lanes(struct table *t, size_t count, const char *name)
{
    static const double two[] = {20, 300};
    static struct sim_lane lanes[LANES];
    struct sim_limit limits[LANES];
    struct sim_lane_config configs[LANES];
    struct mark before[LANES];
    struct figure f = nothing_yet;
    struct sim_world w;
    sim_world_init(&w, t->options->seed);
    for (size_t i = 0; i < count; i++) {
        double most = t->options->is_short ? 50 : 250; /* times the least */
        double rate = count == 2 ? two[i] : 2 * pow(most, (double)i / (LANES - 1));
        configs[i] = lane_with(delays[i % DELAYS], i % 2);
        sim_limit_init(&limits[i], rate, 0, 0);
        sim_lane_init(&lanes[i], &w, &configs[i], &limits[i], t->options->seed + i);
    }
    run_until(&w, 20 * USEC_PER_SEC);
    for (size_t i = 0; i < count; i++) {
        before[i] = mark(&lanes[i]);
    }
    run_until(&w, w.now + span_of(t));
    for (size_t i = 0; i < count; i++) {
        judge(&f, before[i], mark(&lanes[i]), limits[i].rate, span_of(t));
        sim_lane_fini(&lanes[i]);
    }
    sim_world_fini(&w);
    print_row(t, name, &f, 95, 0);
}

/* All lanes of a site share what it takes: each seeks by itself, so each has its five a minute. */
static void shared_limit(struct table *t)
{
    static struct sim_lane lanes[LANES];
    struct sim_lane_config config = lane_with(20, false);
    struct sim_limit limit;
    struct sim_world w;
    struct mark before = {0}, after = {0};
    struct figure f = nothing_yet;
    usec_t span = span_of(t);
    sim_world_init(&w, t->options->seed);
    sim_limit_init(&limit, 500, 0, 0);
    for (size_t i = 0; i < LANES; i++) {
        sim_lane_init(&lanes[i], &w, &config, &limit, t->options->seed + i);
        lanes[i].pace.chance.company = LANES;
    }
    run_until(&w, MINUTE);
    for (size_t i = 0; i < LANES; i++) {
        before.accepted += lanes[i].accepted;
        before.refused += lanes[i].refused;
    }
    run_until(&w, w.now + span);
    for (size_t i = 0; i < LANES; i++) {
        after.accepted += lanes[i].accepted;
        after.refused += lanes[i].refused;
        sim_lane_fini(&lanes[i]);
    }
    sim_world_fini(&w);
    judge(&f, before, after, 500, span);
    print_row(t, "50 lanes that share 500 a second", &f, 90, 2);
}

/* Limits that are counted slowly: two hours from the fifth minute on. */
static void slow_unit(struct table *t, const char *name, struct scene s)
{
    struct figure f = nothing_yet;
    for (size_t run = 0; run < (t->options->is_short ? 1 : 3); run++) {
        struct sim_world w;
        struct sim_limit limit;
        struct sim_lane lane;
        s.lane.delay = delays[run + 1] * USEC_PER_MSEC;
        s.lane.lateness = LATENESS;
        sim_world_init(&w, t->options->seed + run);
        sim_limit_init(&limit, s.rate, s.burst, 0);
        limit.window = s.window;
        sim_lane_init(&lane, &w, &s.lane, &limit, t->options->seed + run);
        run_until(&w, s.window > 0 ? 2 * s.window : 5 * MINUTE);
        struct mark before = mark(&lane);
        usec_t span = 120 * MINUTE;
        run_until(&w, w.now + span);
        judge(&f, before, mark(&lane), s.rate, span);
        if (t->options->is_verbose) {
            (void)printf("  %s: pace %.2f, phase %d\n", name, lane.pace.rate, lane.pace.phase);
        }
        sim_lane_fini(&lane);
        sim_world_fini(&w);
    }
    print_row(t, name, &f, 90, 2);
}

static void sessions(struct table *t)
{
    struct figure at_a_time = nothing_yet, on_each = nothing_yet;
    for (size_t i = 0; i < DELAYS; i++) {
        struct sim_session_config c = {.wanted = 20,
                                       .allowed = 5,
                                       .each = 10,
                                       .delay = delays[i] * USEC_PER_MSEC,
                                       .rest = 0,
                                       .noticed =
                                           delays[i] * USEC_PER_MSEC / 2 + 50 * USEC_PER_MSEC,
                                       .span = 60 * MINUTE,
                                       .seed = t->options->seed + i};
        /* Connections of some seconds, so that they are what binds. */
        c.each = (uint32_t)(10 * USEC_PER_SEC / c.delay);
        struct sim_session_result r = sim_session_run(&c, MINUTE);
        /* A place is taken while the greeting is on its way, and until the end is noticed. */
        double could = 5 * (double)(c.each + 1) / (c.each + 1 + 0.5 + 0.125 + 0.5 + 0.125);
        at_a_time.accepted = fmin(at_a_time.accepted, 100 * r.open / could);
        at_a_time.refused_part =
            fmax(at_a_time.refused_part, 100.0 * (double)r.connects_refused / (double)r.messages);
        c.allowed = 0;
        c.allowed_on_each = 20;
        c.each = 100;
        c.wanted = 10;
        r = sim_session_run(&c, MINUTE);
        on_each.accepted =
            fmin(on_each.accepted, 100 * (double)r.messages / (20.0 * (double)r.connects));
        on_each.refused_part =
            fmax(on_each.refused_part, 100.0 * (double)r.messages_refused / (double)r.messages);
    }
    print_row(t, "5 connections an address", &at_a_time, 90, 2);
    print_row(t, "20 messages a connection", &on_each, 90, 2);
}

static void slow_units(struct table *t)
{
    const struct sim_lane_config connects = {.unit = PACE_CONNECTS, .group = 1};
    const struct sim_lane_config recipients = {.unit = PACE_RECIPIENTS, .group = 1};
    struct sim_lane_config grouped = recipients;
    grouped.group = 10;
    slow_unit(t, "60 connections a minute", (struct scene){.rate = 1, .lane = connects});
    slow_unit(t, "60 connections a minute, all at once at first",
              (struct scene){.rate = 1, .burst = 60, .lane = connects});
    slow_unit(t, "10,000 recipients an hour",
              (struct scene){.rate = 10000 / 3600.0, .lane = recipients});
    slow_unit(t, "10,000 recipients an hour, all at once at first",
              (struct scene){.rate = 10000 / 3600.0, .burst = 10000, .lane = grouped});
    slow_unit(t, "10,000 recipients in each hour by the clock",
              (struct scene){
                  .rate = 10000 / 3600.0, .burst = 10000, .window = 60 * MINUTE, .lane = grouped});
}

static bool parse(struct options *o, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            o->is_json = true;
        } else if (strcmp(argv[i], "--short") == 0) {
            o->is_short = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            o->is_verbose = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            o->seed = strtoull(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return !o->is_json || !o->is_verbose;
}

int sim_pace(int argc, char **argv)
{
    struct options o = {.seed = 1};
    struct table t = {.options = &o, .is_first = true};
    if (!parse(&o, argc, argv)) {
        (void)fputs("sluice-sim pace: bad arguments\n", stderr);
        return 2;
    }
    if (o.is_json) {
        (void)printf("[");
    }
    print_columns(&t);
    messages(&t);
    beginnings(&t);
    storm(&t, 20, PACE_MESSAGES, "messages");
    storm(&t, 200, PACE_MESSAGES, "messages");
    storm(&t, 20, PACE_RECIPIENTS, "recipients");
    by_chance(&t);
    pipelined(&t);
    many_lanes(&t, 2, "two sources, 20 and 300 a second");
    many_lanes(&t, LANES, "50 lanes at a site, each with a limit of its own");
    shared_limit(&t);
    sessions(&t);
    slow_units(&t);
    if (o.is_json) {
        (void)printf("\n]\n");
    } else {
        (void)printf("%d bounds missed\n", t.missed);
    }
    return t.missed == 0 ? 0 : 1;
}
