/* What other threads see of sites and their lanes; as sched/view.c. */
#include "sched/place/site.h"
#include "sched/shared.h"
#include "sched/transport.h"

static enum sched_lane_state state_of(const struct site_lane *l, int window)
{
    if (shared_get(&l->is_closed)) {
        return SCHED_LANE_CLOSED;
    }
    if (window <= 0) {
        return SCHED_LANE_DEAD;
    }
    return shared_get(&l->is_probing) ? SCHED_LANE_PROBING : SCHED_LANE_READY;
}

static void fill_lane(const struct sched *s, const struct site *site, const struct site_lane *l,
                      struct sched_lane_view *ret)
{
    int window = shared_get(&l->lane.window);
    *ret = (struct sched_lane_view){
        .site = site_key(site),
        .source = s->sources.at[l->source].given.id,
        .state = state_of(l, window),
        .window = window > 0 ? window : 0,
        .busy = shared_get(&l->lane.busy),
        .connections = shared_get(&l->lane.connections),
        .idle = shared_get(&l->lane.idle_connections),
        .in_flight = shared_get(&l->lane.in_flight),
        .state_until = shared_get(&l->state_until),
        .most_connections = shared_get(&l->most_connections),
        .most_messages = shared_get(&l->lane.most_carried),
        .is_limited = shared_get(&l->grant.is_limited),
        .why = shared_get(&l->grant.why),
        .due = shared_get(&l->grant.due),
    };
}

static void fill_site(const struct sched *s, const struct site *site, struct sched_site_view *ret)
{
    *ret = (struct sched_site_view){
        .key = site_key(site),
        .state = shared_get(&site->alive) == 0 ? SCHED_LANE_DEAD : SCHED_LANE_READY,
        .destinations = shared_get(&site->occupied),
        .todo = shared_get(&site->waiting),
    };
    for (uint32_t i = 0; i < SCHED_SOURCES_MAX; i++) {
        const struct site_lane *l = lane_find(site, i);
        struct sched_lane_view lane;
        if (l == NULL) {
            continue;
        }
        fill_lane(s, site, l, &lane);
        ret->lanes++;
        ret->window = lane_add_window(ret->window, lane.window);
        ret->busy += lane.busy;
        ret->connections += lane.connections;
        ret->idle += lane.idle;
        ret->in_flight += lane.in_flight;
        if (lane.state_until > 0 &&
            (ret->state_until == 0 || lane.state_until < ret->state_until)) {
            ret->state_until = lane.state_until;
        }
    }
}

bool sched_view_sites(const struct sched *s, uint64_t *cursor, struct sched_site_view *ret)
{
    struct table_node *node = table_next(&s->sites, cursor);
    if (node == NULL) {
        return false;
    }
    fill_site(s, container_of(node, struct site, node), ret);
    return true;
}

bool sched_view_site(const struct sched *s, struct slice key, struct sched_site_view *ret)
{
    const struct site *site = site_find(s, key);
    if (site == NULL) {
        return false;
    }
    fill_site(s, site, ret);
    return true;
}

bool sched_view_lane(const struct sched *s, struct slice key, uint32_t number,
                     struct sched_lane_view *ret)
{
    const struct site *site = site_find(s, key);
    for (uint32_t i = 0; site != NULL && i < SCHED_SOURCES_MAX; i++) {
        const struct site_lane *l = lane_find(site, i);
        if (l != NULL && number == 0) {
            fill_lane(s, site, l, ret);
            return true;
        }
        number -= l != NULL;
    }
    return false;
}
