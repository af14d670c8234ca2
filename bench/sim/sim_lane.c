/* One lane and what it has in flight. Called by bench/sim/sim_pace.c. */
#include "bench/sim/sim_lane.h"

#include <stdlib.h>

#define FLOOD_RATE 10000 /* messages a second that a sender without a pace tries */

struct flight {
    struct sim_event event;
    struct list link;
    struct sim_lane *lane;
    usec_t sent_at;
    uint32_t accepted, refused; /* units */
    bool has_arrived, is_judged;
};

static void plan(struct sim_lane *l);

static void land(struct flight *f)
{
    struct sim_lane *l = f->lane;
    l->flying--;
    list_remove(&f->link);
    free(f);
    plan(l);
}

static void verdict(struct flight *f)
{
    struct sim_lane *l = f->lane;
    usec_t now = l->world->now;
    f->is_judged = true;
    if (f->accepted > 0) {
        pace_accepted(&l->pace, f->accepted, f->sent_at, now);
    }
    if (f->refused > 0) {
        pace_refused(&l->pace, f->refused, 0, f->sent_at, now);
    }
    l->window += f->accepted > 0;
    if (f->accepted > 0 && l->config->stays > 0) {
        sim_after(l->world, &f->event, l->config->stays);
        plan(l);
    } else {
        land(f);
    }
}

static void reach_receiver(struct flight *f)
{
    struct sim_lane *l = f->lane;
    const struct sim_lane_config *c = l->config;
    usec_t now = l->world->now;
    /* Only what was on its way already can be lost with one that was refused. */
    bool is_doomed = l->doomed > 0 && f->sent_at <= l->doomed_at;
    l->doomed = is_doomed ? l->doomed : 0;
    for (uint32_t i = 0; i < c->group; i++) {
        bool is_sick =
            c->chance > 0 &&
            (double)sim_between(l->world, (struct sim_range){0, 999999}) < c->chance * 1000000;
        bool is_taken = !is_doomed && !is_sick && sim_limit_take(l->limit, now);
        f->accepted += is_taken;
        f->refused += !is_taken;
    }
    if (l->doomed > 0) {
        l->doomed--;
    } else if (f->refused > 0) {
        l->doomed = c->lost_group;
        l->doomed_at = now;
    }
    l->accepted += f->accepted;
    l->refused += f->refused;
    if (f->accepted > 0 && c->greylisted > 0 &&
        sim_between(l->world, (struct sim_range){0, 99}) < c->greylisted) {
        l->greylisted++;
    }
    f->has_arrived = true;
    sim_after(l->world, &f->event,
              c->delay - c->delay / 2 + sim_between(l->world, (struct sim_range){0, c->jitter}));
}

static void fly(struct sim_event *e)
{
    struct flight *f = container_of(e, struct flight, event);
    if (f->is_judged) {
        land(f);
    } else if (f->has_arrived) {
        verdict(f);
    } else {
        reach_receiver(f);
    }
}

static void send_one(struct sim_lane *l)
{
    const struct sim_lane_config *c = l->config;
    struct flight *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        abort();
    }
    f->lane = l;
    f->sent_at = l->world->now;
    f->event.happen = fly;
    pace_take(&l->pace, c->group, f->sent_at);
    l->last_sent = f->sent_at;
    l->flying++;
    list_push_back(&l->flights, &f->link);
    l->sent += c->group;
    sim_after(l->world, &f->event,
              c->delay / 2 + sim_between(l->world, (struct sim_range){0, c->drift}));
}

static uint32_t most_in_flight(const struct sim_lane *l)
{
    const struct sim_lane_config *c = l->config;
    double need = 10 * l->limit->rate * (double)(c->delay + c->jitter) / USEC_PER_SEC;
    uint32_t needed = need > 20 ? (uint32_t)need : 20;
    uint32_t most = c->in_flight > 0 ? c->in_flight : needed;
    return c->window > 0 && l->window < most ? l->window : most;
}

static usec_t next_turn(struct sim_lane *l)
{
    usec_t now = l->world->now;
    usec_t due = pace_due(&l->pace, now);
    double demand = l->config->demand > 0 ? l->config->demand : FLOOD_RATE;
    usec_t own = l->last_sent + (usec_t)(USEC_PER_SEC / demand);
    if (l->config->offered > 0) {
        double came = (double)(l->sent - l->refused + 1) / l->config->offered * USEC_PER_SEC;
        usec_t at = l->begun + (usec_t)came + 1;
        own = at > own ? at : own;
    }
    return due > own ? due : own;
}

/* Whoever is full is asked again with the next verdict. */
static void plan(struct sim_lane *l)
{
    usec_t at = next_turn(l), now = l->world->now;
    if (l->flying >= most_in_flight(l)) {
        sim_cancel(l->world, &l->turn);
        return;
    }
    if (at > now && pace_due(&l->pace, now) >= at) {
        at += sim_between(l->world, (struct sim_range){0, l->config->lateness});
    }
    sim_at(l->world, &l->turn, at > now ? at : now);
}

static void take_turn(struct sim_event *e)
{
    struct sim_lane *l = container_of(e, struct sim_lane, turn);
    if (next_turn(l) <= l->world->now) {
        send_one(l);
    }
    plan(l);
}

void sim_lane_init(struct sim_lane *l, struct sim_world *w, const struct sim_lane_config *c,
                   struct sim_limit *limit, uint64_t seed)
{
    *l = (struct sim_lane){.world = w, .config = c, .limit = limit, .window = c->window};
    list_init(&l->flights);
    pace_init(&l->pace, c->unit, seed, w->now);
    l->begun = w->now;
    l->last_sent = w->now - USEC_PER_SEC;
    l->turn.happen = take_turn;
    sim_at(w, &l->turn, w->now);
}

void sim_lane_fini(struct sim_lane *l)
{
    list_foreach_safe(f, &l->flights, struct flight, link)
    {
        sim_cancel(l->world, &f->event);
        free(f);
    }
    sim_cancel(l->world, &l->turn);
}
