/* Places in memory are given back until shares hold, as engine/activator/rota.h says: some flows,
 * of parties with random classes and weights, fill the memory; then others have mail. usage:
 * rota_shares [SEED [RUNS]]
 *
 * Some of what is in memory is in flight and cannot be given back; what can goes back to its flow.
 * Rounds follow each other, each a plan and what becomes free by it, until no plan names anybody.
 * Then no party that waits has less than the bound lets it, beside any of its class that could
 * give; no campaign beside another one of its party; no class keeps more from one that waits than
 * its floor; and nobody had to give back more than the memory holds. */
#include "engine/activator/rota.h"
#include "tests/sim/core_shell.h"
#include "tests/sim/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 2e-3 /* places for a weight are compared to a thousandth */
enum { FLOWS = 24, TENANTS = 8, PLACES = 400, MOST = 32 };

struct flow_model {
    enum mail_class class;
    uint32_t tenant;
    uint32_t mail;   /* in the spool */
    uint32_t flying; /* of those in memory, that cannot be given back */
};

struct world {
    uint64_t random;
    struct rota rota;
    struct rota_room room;
    uint32_t count;
    uint32_t weights[TENANTS];
    struct rota_flow flows[FLOWS];
    struct flow_model models[FLOWS];
    uint64_t given_back;
};

static uint32_t draw(struct world *w, uint32_t below)
{
    return core_shell_draw(&w->random, below);
}

static void refresh(struct world *w, uint32_t i)
{
    if (w->models[i].mail > 0) {
        REQUIRE(rota_wait(&w->rota, &w->flows[i]) == 0);
    } else {
        rota_rest(&w->rota, &w->flows[i]);
    }
}

/* Whoever's turn it is takes what is free. */
static void take_all(struct world *w)
{
    struct rota_flow *f;
    while ((f = rota_next(&w->rota, &w->room)) != NULL) {
        uint32_t i = (uint32_t)(f - w->flows);
        w->models[i].mail--;
        w->room.used++;
        rota_count(&w->rota, f, 1);
        rota_pass(&w->rota, f);
        refresh(w, i);
    }
}

/* One in four flows has mail for some of the places, or for more than all. */
static void bring_mail(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (draw(w, 4) == 0) {
            w->models[i].mail += 1 + draw(w, draw(w, 2) == 0 ? 4 : 2 * PLACES);
            refresh(w, i);
        }
    }
}

static void begin(struct world *w)
{
    static const char *const names[TENANTS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    rota_init(&w->rota);
    w->rota.floor = draw(w, 51);
    w->room = (struct rota_room){.places = 1 + draw(w, draw(w, 2) == 0 ? 80 : PLACES)};
    w->count = 2 + draw(w, FLOWS - 1);
    for (uint32_t t = 0; t < TENANTS; t++) {
        w->weights[t] = 1 + draw(w, draw(w, 4) == 0 ? 1000 : 5);
    }
    for (uint32_t i = 0; i < w->count; i++) {
        struct flow_model *m = &w->models[i];
        *m = (struct flow_model){.class = (enum mail_class)draw(w, MAIL_CLASS_COUNT),
                                 .tenant = draw(w, TENANTS)};
        rota_flow_init(&w->flows[i]);
        REQUIRE(rota_bind(&w->rota, &w->flows[i], m->class, slice_of(names[m->tenant]),
                          w->weights[m->tenant]) == 0);
    }
}

static bool could_give(const struct world *w, uint32_t i)
{
    return w->flows[i].active > w->models[i].flying && w->flows[i].active > 2;
}

/* The places of the flow's party. */
static uint32_t held_by_party(const struct world *w, uint32_t i)
{
    uint32_t held = 0;
    for (uint32_t k = 0; k < w->count; k++) {
        held += w->flows[k].party == w->flows[i].party ? w->flows[k].active : 0;
    }
    return held;
}

/* Of the flows of a class that wait. */
static uint32_t least_weight(const struct world *w, enum mail_class class)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t weight = w->weights[w->models[i].tenant];
        bool waits = w->models[i].class == class && rota_is_waiting(&w->flows[i]);
        least = waits && weight < least ? weight : least;
    }
    return least;
}

/* Flow h has places to give, and v waits. */
static void check_pair(const struct world *w, uint32_t h, uint32_t v)
{
    if (w->models[h].class != w->models[v].class) {
        return;
    }
    if (w->flows[h].party == w->flows[v].party) {
        REQUIRE(w->flows[h].active < w->flows[v].active + 2);
        return;
    }
    double more = (held_by_party(w, h) - 1.0) / w->weights[w->models[h].tenant];
    double less = (double)held_by_party(w, v) / w->weights[w->models[v].tenant];
    REQUIRE(more < less + 1.0 / least_weight(w, w->models[h].class) + ROUNDING);
}

static bool waits(const struct world *w, enum mail_class class)
{
    return w->rota.waiting[class].count > 0;
}

/* Of flow h, which could give: its class has no more than it may keep from those that wait. */
static void check_classes(const struct world *w, uint32_t h)
{
    const uint32_t *active = w->rota.active;
    const uint32_t floor = w->rota.floor, low = active[MAIL_NORMAL] + active[MAIL_BULK];
    const enum mail_class class = w->models[h].class;
    bool low_waits = waits(w, MAIL_NORMAL) || waits(w, MAIL_BULK);
    if (class == MAIL_URGENT && low_waits) {
        REQUIRE(low * 100 >= (low + active[MAIL_URGENT] - 1) * floor);
    }
    if (class != MAIL_URGENT && waits(w, MAIL_URGENT)) {
        REQUIRE((low - 1) * 100 < (low + active[MAIL_URGENT] - 1) * floor);
    }
    if (class == MAIL_BULK && waits(w, MAIL_NORMAL)) {
        REQUIRE((active[MAIL_BULK] - 1) * 100 < (low - 1) * floor);
    }
    if (class == MAIL_NORMAL && waits(w, MAIL_BULK)) {
        REQUIRE(active[MAIL_BULK] * 100 >= (low - 1) * floor);
    }
}

/* The places of parties that have no more than two. */
static uint32_t held_by_poor(const struct world *w)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        held += held_by_party(w, i) <= 2 ? w->flows[i].active : 0;
    }
    return held;
}

/* Of flow h, which could give: whoever waits and has fewer than two places lacks them only when others that
 * have no more hold the eighth that is kept for them. */
static void check_poor(const struct world *w)
{
    for (uint32_t v = 0; v < w->count; v++) {
        if (rota_is_waiting(&w->flows[v]) && held_by_party(w, v) < 2) {
            REQUIRE(held_by_poor(w) >= w->room.places / 8);
        }
    }
}

static void check(const struct world *w)
{
    if (rota_has_room(&w->room)) {
        return; /* who waits may take what is free */
    }
    for (uint32_t h = 0; h < w->count; h++) {
        if (could_give(w, h)) {
            check_classes(w, h);
            check_poor(w);
        }
        for (uint32_t v = 0; v < w->count; v++) {
            if (h != v && could_give(w, h) && rota_is_waiting(&w->flows[v])) {
                check_pair(w, h, v);
            }
        }
    }
}

/* Returns how many were asked. */
static uint32_t give_back(struct world *w)
{
    struct rota_flow *from[MOST];
    uint32_t count = rota_plan(&w->rota, &w->room, from, 1 + draw(w, MOST));
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = (uint32_t)(from[k] - w->flows);
        REQUIRE(w->flows[i].active > 0);
        if (!could_give(w, i)) {
            rota_fix(from[k]);
            continue;
        }
        w->given_back++;
        w->room.used--;
        w->models[i].mail++;
        rota_count(&w->rota, from[k], -1);
        refresh(w, i);
    }
    return count;
}

static void settle(struct world *w)
{
    w->given_back = 0;
    rota_unfix(&w->rota);
    while (give_back(w) > 0) {
        take_all(w);
        REQUIRE(w->given_back <= 2ULL * w->room.places);
    }
    check(w);
}

/* Some of what is in memory is delivered, and some goes out. */
static void deliver(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t gone = draw(w, w->models[i].flying + 1);
        w->models[i].flying -= gone;
        w->room.used -= gone;
        rota_count(&w->rota, &w->flows[i], -(int)gone);
        uint32_t rest = w->flows[i].active - w->models[i].flying;
        w->models[i].flying += draw(w, 3) == 0 ? draw(w, rest + 1) : 0;
    }
}

static void run(struct world *w)
{
    begin(w);
    for (int round = 0; round < 12; round++) {
        bring_mail(w);
        take_all(w);
        settle(w);
        deliver(w);
        take_all(w);
    }
    for (uint32_t i = 0; i < w->count; i++) {
        rota_rest(&w->rota, &w->flows[i]);
    }
    rota_fini(&w->rota);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 300;
    for (uint64_t i = seed; i < seed + runs; i++) {
        static struct world w;
        w = (struct world){.random = (i * UINT64_C(0x9e3779b97f4a7c15)) | 1};
        run(&w);
    }
    (void)printf("%llu worlds\n", (unsigned long long)runs);
    return 0;
}
