/* The three tables of the seed's "Results for delivery to concurrency-limited servers", run again
 * in virtual time with the real core and printed beside the published numbers. */
#include "bench/sim/sim_client.h"
#include "bench/sim/sluice_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES   3
#define RUNS     10 /* each line is the mean of so many runs, with successive seeds */
#define RUNS_MAX 10000

struct style {
    const char *name, *text; /* text: as sched_feedback_parse reads it */
};

static const struct style styles[] = {
    {"1/N", "1/concurrency"},
    {"1/sqrt(N)", "1/sqrt_concurrency"},
    {"1", "1"},
};
#define STYLES (sizeof(styles) / sizeof(styles[0]))

/* One line as published; a negative number was not. */
struct line {
    double deferred; /* percent */
    double average, deviation;
    int connect, greeting; /* recipients */
};

/* Times that neither measurement states: a disk and a network of 2007, and one machine of today for
 * both sides. They decide how far deliveries that began together drift apart, and so how many
 * connections are opened between an excess and its 421; nothing else depends much on them. */
struct pace {
    struct sim_range hand_off, greeting, message;
};
static const struct pace paces[] = {
    [SCHED_RULE_README] = {.hand_off = {3000, 6000},
                           .greeting = {1000, 3000},
                           .message = {10000, 50000}},
    [SCHED_RULE_POSTFIX3] = {.hand_off = {5000, 9000},
                             .greeting = {1000, 4000},
                             .message = {2000, 14000}},
};

struct table {
    const char *title;
    struct line lines[STYLES][2]; /* [style][caching] */
    struct line postfix[STYLES][2];
    struct sim_server_config server;
    uint32_t recipients;
    int initial;
    double deferred_points;  /* how far off a percentage may be; 0: by deferred_part */
    double deferred_part;    /* of the published number */
    double average_distance; /* how far off an average may be; 0: by deferred_part */
    bool has_timeouts;
};

#define UNKNOWN                                                                                    \
    {                                                                                              \
        -1, -1, -1, -1, -1                                                                         \
    }

static const struct table tables[TABLES] = {
    {
        .title = "30 s connect timeout, full backlog",
        .lines = {{{9.9, 19.4, 0.49, 198, 0}, {10.3, 19.4, 0.49, 206, 0}},
                  {{10.4, 19.6, 0.59, 208, 0}, {10.6, 19.6, 0.61, 212, 0}},
                  {{10.1, 19.5, 1.29, 202, 0}, {10.8, 19.3, 1.57, 216, 0}}},
        .server = {.process_limit = 5,
                   .per_recipient = USEC_PER_SEC,
                   .full_queue = SIM_SYN_DROPPED},
        .recipients = 2000,
        .initial = 20,
        .deferred_part = 0.15,
        .has_timeouts = true,
    },
    {
        .title = "300 s greeting timeout",
        .lines = {{{1.16, 19.8, 0.37, 0, 230}, {1.36, 19.8, 0.36, 0, 272}},
                  {{1.21, 19.9, 0.23, 4, 238}, {1.36, 20.0, 0.23, 0, 272}},
                  {{1.18, 20.0, 0.16, 0, 236}, {1.39, 20.0, 0.16, 0, 278}}},
        .server = {.process_limit = 5,
                   .per_recipient = USEC_PER_SEC,
                   .full_queue = SIM_ACK_DROPPED},
        .recipients = 20000,
        .initial = 20,
        .deferred_part = 0.15,
        .has_timeouts = true,
    },
    {
        .title = "421 from a limiter of 5 connections a client",
        .lines = {{{16.5, 5.17, 0.38, -1, -1}, {16.5, 5.17, 0.38, -1, -1}},
                  {{24.5, 5.28, 0.45, -1, -1}, {24.3, 5.28, 0.46, -1, -1}},
                  {{49.7, 5.63, 0.67, -1, -1}, {49.7, 5.68, 0.70, -1, -1}}},
        /* Postfix 3.7.11 against its own smtpd, 1 s a recipient, second run */
        .postfix = {{{18.4, 5.16, 0.37, -1, -1}, {16.5, 5.17, 0.38, -1, -1}},
                    {UNKNOWN, UNKNOWN},
                    {{37.0, 5.50, 1.19, -1, -1}, {36.8, 5.51, 1.15, -1, -1}}},
        .server = {.process_limit = 10,
                   .client_limit = 5,
                   .per_recipient = USEC_PER_SEC,
                   .full_queue = SIM_SYN_DROPPED},
        .recipients = 2000,
        .initial = 5,
        .deferred_points = 1,
        .average_distance = 0.1,
    },
};

struct options {
    uint64_t seed;
    long runs;
    int table; /* 1 .. TABLES; 0: all */
    bool is_json;
};

/* One line of output. */
struct row {
    const struct table *table;
    const struct style *style;
    const struct line *published;
    /* means of the runs; recipients */
    double percent, average, deviation, connect, greeting, refused, untried, seconds;
    enum sched_feedback_rule rule;
    int number;
    bool is_caching, is_bound, is_within; /* is_bound: its distance counts */
};

static bool is_near(const struct row *r)
{
    const struct table *t = r->table;
    const struct line *p = r->published;
    double points = t->deferred_points > 0 ? t->deferred_points : t->deferred_part * p->deferred;
    double distance = t->average_distance > 0 ? t->average_distance : t->deferred_part * p->average;
    return fabs(r->percent - p->deferred) <= points && fabs(r->average - p->average) <= distance;
}

static const char *rule_name(enum sched_feedback_rule rule)
{
    return rule == SCHED_RULE_README ? "readme" : "postfix3";
}

/* 1 in 1 + roundup(1 / feedback), at the server's limit. */
static double theory(const struct row *r)
{
    double n = r->table->server.client_limit;
    double steps = 1;
    if (r->style == &styles[0]) {
        steps = n;
    } else if (r->style == &styles[1]) {
        steps = ceil(sqrt(n));
    }
    return 100 / (1 + steps);
}

static void print_json(const struct row *r, bool is_first)
{
    const struct line *p = r->published;
    (void)printf(
        "%s\n  {\"table\": %d, \"rule\": \"%s\", \"feedback\": \"%s\", \"caching\": %s, "
        "\"recipients\": %u,\n   \"deferred_percent\": %.3f, \"concurrency_average\": "
        "%.3f, \"concurrency_deviation\": %.3f, \"connect_timeouts\": %.1f, "
        "\"greeting_timeouts\": %.1f, \"refused\": %.1f, \"untried\": %.1f, \"seconds\": %.1f",
        is_first ? "" : ",", r->number, rule_name(r->rule), r->style->name,
        r->is_caching ? "true" : "false", r->table->recipients, r->percent, r->average,
        r->deviation, r->connect, r->greeting, r->refused, r->untried, r->seconds);
    if (p->deferred >= 0) {
        (void)printf(",\n   \"published\": {\"deferred_percent\": %g, \"concurrency_average\": %g, "
                     "\"concurrency_deviation\": %g",
                     p->deferred, p->average, p->deviation);
        if (r->table->has_timeouts) {
            (void)printf(", \"connect_timeouts\": %d, \"greeting_timeouts\": %d", p->connect,
                         p->greeting);
        }
        (void)printf("}");
    }
    if (r->is_bound) {
        (void)printf(", \"within\": %s", r->is_within ? "true" : "false");
    }
    (void)printf("}");
}

static void print_head(const struct row *r)
{
    const struct table *t = r->table;
    bool is_readme = r->rule == SCHED_RULE_README;
    (void)printf("%d. %s; %u recipients, rule %s; %s / simulated\n", r->number, t->title,
                 t->recipients, rule_name(r->rule),
                 is_readme ? "published" : "Postfix 3.7.11 measured");
    (void)printf("   %-10s %-7s %17s %17s %17s %s\n", "feedback", "caching", "deferred %",
                 "average", "stddev",
                 t->has_timeouts ? "   timed out: connect    greeting" : "   theory %");
}

static void print_pair(double published, double measured, int decimals)
{
    if (published < 0) {
        (void)printf(" %8s /%7.*f", "-", decimals, measured);
    } else {
        (void)printf(" %8.*f /%7.*f", decimals, published, decimals, measured);
    }
}

static void print_text(const struct row *r)
{
    const struct line *p = r->published;
    (void)printf("   %-10s %-7s", r->style->name, r->is_caching ? "yes" : "no");
    print_pair(p->deferred, r->percent, r->table->recipients > 2000 ? 2 : 1);
    print_pair(p->average, r->average, 2);
    print_pair(p->deviation, r->deviation, 2);
    if (r->table->has_timeouts) {
        (void)printf("    %6d /%6.1f %4d /%6.1f", p->connect, r->connect, p->greeting, r->greeting);
    } else {
        (void)printf("   %8.1f", theory(r));
    }
    (void)printf("%s\n", r->is_bound && !r->is_within ? "   TOO FAR OFF" : "");
}

static void simulate(struct row *r, const struct options *o, struct sched_feedback feedback)
{
    const struct table *t = r->table;
    const struct pace *pace = &paces[r->rule];
    struct sim_run run = {
        .rule = r->rule,
        .feedback = feedback,
        .initial = t->initial,
        .limit = 20,
        .recipients = t->recipients,
        .recipients_per_delivery = 2,
        .hand_off = pace->hand_off,
        .is_caching = r->is_caching,
        .server = t->server,
    };
    run.server.greeting = pace->greeting;
    run.server.message = pace->message;
    for (long i = 0; i < o->runs; i++) {
        run.seed = o->seed + (uint64_t)i;
        struct sim_result m = sim_client_run(&run);
        r->percent += 100.0 * m.deferred / m.recipients / (double)o->runs;
        r->average += m.average / (double)o->runs;
        r->deviation += m.deviation / (double)o->runs;
        r->connect += m.connect_timeouts / (double)o->runs;
        r->greeting += m.greeting_timeouts / (double)o->runs;
        r->refused += m.refused / (double)o->runs;
        r->untried += m.untried / (double)o->runs;
        r->seconds += (double)m.duration / USEC_PER_SEC / (double)o->runs;
    }
}

static struct row run_row(const struct options *o, int number, enum sched_feedback_rule rule,
                          size_t style, bool is_caching, struct sched_feedback feedback)
{
    const struct table *t = &tables[number - 1];
    bool is_readme = rule == SCHED_RULE_README;
    struct row r = {
        .table = t,
        .style = &styles[style],
        .rule = rule,
        .number = number,
        .is_caching = is_caching,
        .is_bound = is_readme,
        .published = is_readme ? &t->lines[style][is_caching] : &t->postfix[style][is_caching],
    };
    simulate(&r, o, feedback);
    r.is_within = is_near(&r);
    return r;
}

/* Returns the number of lines that are too far off. */
static int run_table(const struct options *o, int number, enum sched_feedback_rule rule,
                     bool *is_first)
{
    int off = 0;
    bool has_head = false;
    for (size_t style = 0; style < STYLES; style++) {
        struct sched_feedback feedback;
        if (sched_feedback_parse(styles[style].text, rule, &feedback) != 0) {
            continue; /* Postfix knows no square root */
        }
        for (int is_caching = 0; is_caching < 2; is_caching++) {
            struct row r = run_row(o, number, rule, style, is_caching, feedback);
            off += r.is_bound && !r.is_within;
            if (o->is_json) {
                print_json(&r, *is_first);
            } else {
                if (!has_head) {
                    print_head(&r);
                }
                print_text(&r);
            }
            has_head = true;
            *is_first = false;
        }
    }
    if (!o->is_json) {
        (void)printf("\n");
    }
    return off;
}

static bool parse_table_options(struct options *o, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            o->is_json = true;
        } else if (strcmp(argv[i], "--table") == 0 && i + 1 < argc) {
            o->table = atoi(argv[++i]);
            if (o->table < 1 || o->table > TABLES) {
                return false;
            }
        } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            o->runs = atol(argv[++i]);
            if (o->runs < 1 || o->runs > RUNS_MAX) {
                return false;
            }
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            o->seed = strtoull(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return true;
}

int sim_tables(int argc, char **argv)
{
    struct options o = {.seed = 1, .runs = RUNS};
    if (!parse_table_options(&o, argc, argv)) {
        (void)fputs("sluice-sim tables: bad arguments\n", stderr);
        return 2;
    }
    int off = 0;
    bool is_first = true;
    if (o.is_json) {
        (void)printf("[");
    }
    for (int number = 1; number <= TABLES; number++) {
        if (o.table == 0 || o.table == number) {
            off += run_table(&o, number, SCHED_RULE_README, &is_first);
        }
    }
    if (o.table == 0 || o.table == TABLES) {
        off += run_table(&o, TABLES, SCHED_RULE_POSTFIX3, &is_first);
    }
    if (o.is_json) {
        (void)printf("\n]\n");
    } else {
        (void)printf("%d lines too far off\n", off);
    }
    return off == 0 ? 0 : 1;
}
