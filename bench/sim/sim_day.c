/* A day of many tenants and sites: the shares of those that wait all the time, and how long mail waits.
 *
 * Deliveries take 5 s (6 at the three largest sites), so that as many connections are busy as relays have. Of what
 * these carry in a day urgent mail is 1.25 %, normal mail 20 % and bulk 45 %, one campaign of each tenant. These
 * begin between a quarter and three quarters of the day: connections are short meanwhile, and the largest sites
 * are until the evening. A tenth of the tenants weighs 10, three tenths 3, the others 1.
 *
 * Urgent mail has the next connection that is free, and the next place where a site's window is full: it
 * waits for a delivery, the longest of which takes 7.2 s. Shares at a site are its own while no connection is
 * lacking, and otherwise those of connections. */
#include "bench/sim/sim_relay.h"
#include "bench/sim/sluice_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND       USEC_PER_SEC
#define DELIVERY     5 /* seconds */
#define TENANTS_MAX  1000
#define LARGEST      3             /* sites that are looked at one by one; place 3 is all others */
#define ALL          (LARGEST + 1) /* what is given anywhere, of who waits for the others */
#define PLACES       (ALL + 1)
#define BINS         96
#define GROUPS       3
#define ROUNDING     1e-9
#define NORMAL_WAITS 5    /* longest deliveries, for normal mail */
#define SIZES        60.0 /* of the largest campaign, for the smallest */

static const uint16_t weights[GROUPS] = {1, 3, 10};

/* Bulk of a tenant at a place. */
struct holding {
    uint32_t waiting, given; /* messages; selections in this bin */
    bool is_steady;          /* some has waited all the time of this bin */
};

struct mail_class {
    struct sim_event next;
    struct day *day;
    double pause; /* usec, the mean between two messages */
};

struct campaign {
    struct sim_event begin;
    struct day *day;
    uint32_t size;
};

struct day {
    uint32_t tenants, sites;
    int connections;
    usec_t span;
    struct sim_world world;
    struct sim_relay relay;
    double *site_ends;                     /* cumulated popularity, Zipf */
    struct mail_class classes[SCHED_BULK]; /* urgent, normal */
    struct campaign campaigns[TENANTS_MAX];
    struct sim_event bin_end;
    struct holding holdings[TENANTS_MAX][PLACES];
    uint64_t submitted[SCHED_CLASSES], selected[SCHED_CLASSES];
    double longest[SCHED_CLASSES],
        longest_in[SCHED_CLASSES][BINS]; /* seconds, by when it came; < 0: none */
    double shares[GROUPS][PLACES][BINS]; /* of what is due to it; < 0: not two groups wait there */
    double beyond; /* the most that a share was off at a large site, less what it may be */
    int busy, busy_least, busy_most;                 /* connections: now, and in this bin */
    uint32_t bins_short, bins_free;                  /* all taken all the time; never all */
    double got[GROUPS][PLACES], due[GROUPS][PLACES]; /* in all bins */
    uint32_t bin;
};

static double unit(struct day *d)
{
    return (double)sim_between(&d->world, (struct sim_range){0, (1 << 30) - 1}) / (1 << 30);
}

static uint32_t group_of(uint32_t tenant)
{
    uint32_t tenth = tenant % 10;
    return tenth == 0 ? 2 : tenth <= 3;
}

static uint32_t place_of(uint32_t site)
{
    return site < LARGEST ? site : LARGEST;
}

static uint32_t pick_site(struct day *d)
{
    double at = unit(d) * d->site_ends[d->sites - 1];
    uint32_t low = 0, high = d->sites - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (d->site_ends[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void submit_mail(struct day *d, uint32_t class, uint32_t tenant)
{
    const struct sim_mail m = {.flow = {.class = class, .tenant = tenant},
                               .weight = weights[group_of(tenant)],
                               .kind = (uint16_t) class,
                               .destination = pick_site(d),
                               .spread = 1,
                               .recipients = 1};
    d->submitted[class]++;
    if (class == SCHED_BULK) {
        uint32_t place = place_of(m.destination);
        d->holdings[tenant][place].waiting++;
        d->holdings[tenant][ALL].waiting += place == LARGEST;
    }
    sim_relay_submit(&d->relay, &m);
}

static void take_one(struct holding *h, bool is_given, bool waited)
{
    h->given += is_given;
    h->waiting -= waited;
    h->is_steady = h->is_steady && h->waiting > 0;
}

static void count_end(struct sim_relay *r, const struct sim_mail *m, uint32_t site)
{
    struct day *d = r->options.ctx;
    d->busy--;
    d->busy_least = d->busy < d->busy_least ? d->busy : d->busy_least;
}

static void count_mail(struct sim_relay *r, const struct sim_mail *m, uint32_t site)
{
    struct day *d = r->options.ctx;
    uint32_t class = m->flow.class, bin = (uint32_t)(m->queued * BINS / d->span);
    double waited = (double)(r->world->now - m->queued) / SECOND;
    d->selected[class]++;
    d->longest[class] = fmax(d->longest[class], waited);
    if (bin < BINS) {
        d->longest_in[class][bin] = fmax(d->longest_in[class][bin], waited);
    }
    if (class == SCHED_BULK) {
        uint32_t place = place_of(site);
        take_one(&d->holdings[m->flow.tenant][place], true, true);
        take_one(&d->holdings[m->flow.tenant][ALL], true, place == LARGEST);
    }
    d->busy++;
    d->busy_most = d->busy > d->busy_most ? d->busy : d->busy_most;
}

/* --- what comes --------------------------------------------------------------------------------- */

/* Of urgent or of normal mail, from anybody, by a Poisson process. */
static void mail_arrives(struct sim_event *e)
{
    struct mail_class *c = container_of(e, struct mail_class, next);
    struct day *d = c->day;
    usec_t pause = (usec_t)(-log(1 - unit(d)) * c->pause);
    if (d->world.now + pause < d->span) {
        sim_after(&d->world, e, pause);
    }
    submit_mail(d, (uint32_t)(c - d->classes), (uint32_t)(unit(d) * d->tenants));
}

static void campaign_arrives(struct sim_event *e)
{
    struct campaign *c = container_of(e, struct campaign, begin);
    for (uint32_t i = 0; i < c->size; i++) {
        submit_mail(c->day, SCHED_BULK, (uint32_t)(c - c->day->campaigns));
    }
}

static void plan_mail(struct day *d)
{
    double capacity = (double)d->connections / DELIVERY * (double)d->span / SECOND;
    static const double parts[] = {[SCHED_URGENT] = .0125, [SCHED_NORMAL] = .2};
    for (int i = 0; i < SCHED_BULK; i++) {
        struct mail_class *c = &d->classes[i];
        *c = (struct mail_class){.next.happen = mail_arrives, .day = d};
        c->pause = (double)d->span / (parts[i] * capacity);
        sim_at(&d->world, &c->next, 0);
    }
    /* The mean of sizes that are even in their logarithm. */
    double smallest = .45 * capacity / d->tenants * log(SIZES) / (SIZES - 1);
    for (uint32_t i = 0; i < d->tenants; i++) {
        struct campaign *c = &d->campaigns[i];
        *c = (struct campaign){.begin.happen = campaign_arrives, .day = d};
        c->size = (uint32_t)(smallest * exp(unit(d) * log(SIZES)));
        sim_at(&d->world, &c->begin, d->span / 4 + (usec_t)(unit(d) * (double)d->span / 2));
    }
}

/* --- shares ------------------------------------------------------------------------------------- */

/* |Si/wi - Sj/wj| <= 1/wi + 1/wj for any two that waited all the time: by how much it is missed, at most; < 0:
 * it is kept. */
static double excess_at(const struct day *d, int place)
{
    double most = -INFINITY, least = INFINITY;
    for (uint32_t i = 0; i < d->tenants; i++) {
        const struct holding *h = &d->holdings[i][place];
        double weight = weights[group_of(i)];
        if (h->is_steady) {
            most = fmax(most, (h->given - 1.0) / weight);
            least = fmin(least, (h->given + 1.0) / weight);
        }
    }
    return most - least;
}

/* What each group of weights got, and what was due to it. */
static void share_out(struct day *d, int place, bool is_looked_at)
{
    double got[GROUPS] = {0}, weight[GROUPS] = {0}, all = 0, all_weight = 0;
    for (uint32_t i = 0; i < d->tenants; i++) {
        const struct holding *h = &d->holdings[i][place];
        if (h->is_steady) {
            got[group_of(i)] += h->given;
            weight[group_of(i)] += weights[group_of(i)];
            all += h->given;
            all_weight += weights[group_of(i)];
        }
    }
    for (int g = 0; g < GROUPS; g++) {
        double due = all_weight > 0 ? all * weight[g] / all_weight : 0;
        bool is_shared = is_looked_at && weight[g] > 0 && weight[g] < all_weight && all > 0;
        d->shares[g][place][d->bin] = is_shared ? got[g] / due : -1;
        d->got[g][place] += is_shared ? got[g] : 0;
        d->due[g][place] += is_shared ? due : 0;
    }
}

static void end_bin(struct sim_event *e)
{
    struct day *d = container_of(e, struct day, bin_end);
    bool is_short = d->busy_least >= d->connections * 9 / 10,
         is_free = d->busy_most < d->connections;
    d->bins_short += is_short;
    d->bins_free += is_free;
    for (int place = 0; place < PLACES; place++) {
        if (place < LARGEST && is_free) {
            d->beyond = fmax(d->beyond, excess_at(d, place));
        }
        share_out(d, place, place < LARGEST || is_short);
        for (uint32_t i = 0; i < d->tenants; i++) {
            struct holding *h = &d->holdings[i][place];
            h->given = 0;
            h->is_steady = h->waiting > 0;
        }
    }
    d->busy_least = d->busy_most = d->busy;
    d->bin++;
    if (d->bin < BINS) {
        sim_after(&d->world, e, d->span / BINS);
    }
}

/* --- the day ------------------------------------------------------------------------------------ */

static struct sim_range *prepare_sites(struct day *d)
{
    struct sim_range *delivery = calloc(d->sites, sizeof(*delivery));
    double sum = 0;
    d->site_ends = calloc(d->sites, sizeof(*d->site_ends));
    if (delivery == NULL || d->site_ends == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < d->sites; i++) {
        usec_t mean = (DELIVERY + (i < LARGEST)) * SECOND;
        delivery[i] = (struct sim_range){mean * 8 / 10, mean * 12 / 10};
        sum += 1.0 / (i + 1);
        d->site_ends[i] = sum;
    }
    return delivery;
}

static void run_day(struct day *d)
{
    struct sim_relay_options o;
    struct sim_range *delivery = prepare_sites(d);
    for (int i = 0; i < SCHED_CLASSES; i++) {
        for (int k = 0; k < BINS; k++) {
            d->longest_in[i][k] = -1;
        }
    }
    d->beyond = -INFINITY;
    sim_relay_defaults(&o);
    o.config.process_limit = d->connections;
    o.config.destination_concurrency_limit = d->connections / 10;
    o.destinations = d->sites;
    o.delivery = delivery;
    o.selected = count_mail;
    o.delivered = count_end;
    o.ctx = d;
    sim_relay_init(&d->relay, &d->world, &o);
    plan_mail(d);
    d->bin_end.happen = end_bin;
    sim_at(&d->world, &d->bin_end, d->span / BINS);
    /* What is left at midnight has half a day more. */
    for (struct heap_node *n = heap_min(&d->world.events);
         n != NULL && n->key <= d->span + d->span / 2; n = heap_min(&d->world.events)) {
        (void)sim_step(&d->world); /* there is one */
    }
    sim_relay_fini(&d->relay);
    free(delivery);
    free(d->site_ends);
}

static const char *const class_names[SCHED_CLASSES] = {"urgent", "normal", "bulk"};
static const char *const place_names[PLACES] = {"the largest site", "the second", "the third",
                                                "all other sites", "connections"};

static bool print_bound(FILE *out, const char *name, double bound, double figure, const char *what)
{
    bool is_met = figure <= bound + ROUNDING;
    (void)fprintf(out, "%-64s <= %8.2f %8.2f %s%s\n", name, bound, figure, what,
                  is_met ? "" : "  MISSED");
    return is_met;
}

static int print_day(const struct day *d, FILE *out)
{
    double longest_delivery = (DELIVERY + 1) * 1.2;
    uint64_t left = 0;
    int missed = 0;
    for (int i = 0; i < SCHED_CLASSES; i++) {
        left += d->submitted[i] - d->selected[i];
        (void)fprintf(out, "%s: %llu messages, longest wait %.1f s\n", class_names[i],
                      (unsigned long long)d->submitted[i], d->longest[i]);
    }
    for (int place = 0; place < PLACES; place++) {
        (void)fprintf(out, "%s: received / due of weight 1, 3, 10:", place_names[place]);
        for (int g = 0; g < GROUPS; g++) {
            (void)fprintf(out, d->due[g][place] > 0 ? " %.3f" : " -",
                          d->got[g][place] / d->due[g][place]);
        }
        (void)fputc('\n', out);
    }
    (void)fprintf(out, "connections: short in %u of %d parts of the day, none lacking in %u\n",
                  d->bins_short, BINS, d->bins_free);
    missed += !print_bound(out, "longest wait of urgent mail", longest_delivery,
                           d->longest[SCHED_URGENT], "s");
    missed += !print_bound(out, "longest wait of normal mail", NORMAL_WAITS * longest_delivery,
                           d->longest[SCHED_NORMAL], "s");
    missed += !print_bound(out, "not sent half a day later", 0, (double)left, "messages");
    missed +=
        !print_bound(out, "none lacking: |Si/wi - Sj/wj| at the largest sites, beyond its bound", 0,
                     d->beyond, "recipients at weight 1");
    (void)fprintf(out, "%d bounds missed\n", missed);
    return missed > 0;
}

static void print_bins(const char *name, const double *bins, bool is_first)
{
    (void)printf("%s{\"name\": \"%s\", \"bins\": [", is_first ? "" : ", ", name);
    for (int k = 0; k < BINS; k++) {
        (void)printf("%s", k == 0 ? "" : ", ");
        if (bins[k] < 0) {
            (void)printf("null");
        } else {
            (void)printf("%.4g", bins[k]);
        }
    }
    (void)printf("]}");
}

static void print_plots(const struct day *d)
{
    static const char *const groups[GROUPS] = {"weight 1", "weight 3", "weight 10"};
    double interval = (double)d->span / SECOND / BINS;
    (void)printf("[{\"name\": \"waits\", \"title\": \"longest, by when the mail came\", "
                 "\"kind\": \"log\", \"interval\": %.3f, \"series\": [",
                 interval);
    for (int i = 0; i < SCHED_CLASSES; i++) {
        print_bins(class_names[i], d->longest_in[i], i == 0);
    }
    (void)printf("]}");
    for (int place = 0; place < PLACES; place += ALL) {
        (void)printf(",\n{\"name\": \"%s\", \"title\": \"bulk: received / due\", "
                     "\"kind\": \"linear\", \"unit\": \"\", \"interval\": %.3f, \"series\": [",
                     place_names[place], interval);
        for (int g = 0; g < GROUPS; g++) {
            print_bins(groups[g], d->shares[g][place], g == 0);
        }
        (void)printf("]}");
    }
    (void)printf("]\n");
}

int sim_day(int argc, char **argv)
{
    static struct day d;
    bool is_json = false;
    uint64_t seed = 1;
    d = (struct day){
        .tenants = TENANTS_MAX, .sites = 10000, .connections = 200, .span = 24 * 3600 * SECOND};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--short") == 0) {
            d.tenants = 50;
            d.sites = 500;
            d.connections = 50;
            d.span = 4 * 3600 * SECOND;
        } else if (strcmp(argv[i], "--json") == 0) {
            is_json = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else {
            (void)fputs("sluice-sim day: bad arguments\n", stderr);
            return 2;
        }
    }
    sim_world_init(&d.world, seed);
    run_day(&d);
    sim_world_fini(&d.world);
    if (is_json) {
        print_plots(&d);
    }
    return print_day(&d, is_json ? stderr : stdout);
}
