/* The choice among lanes, see sched/place/lane_choice.h. Called by placement.
 *
 * Smooth weighted round robin: each lane that can take the entry gains its weight, the one that has
 * most goes and pays what all have gained. A lane that cannot take it neither gains nor pays, so that
 * its share goes to the others in the proportion of their weights, and it has no claim on what it
 * missed. */
#include "sched/place/lane_choice.h"

#include "sched/place/site.h"
#include "sched/transport.h"

/* Some server could be connected to now. */
static bool has_server(const struct party *p, uint8_t families, uint16_t group, uint64_t tried)
{
    if (p->server_count == 0) {
        return true;
    }
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        if (server->preference == group && (tried >> i & 1) == 0 &&
            (server->families & families) != 0 && !server->host->is_full &&
            !destdb_host_is_waiting(server->host)) {
            return true;
        }
    }
    return false;
}

static bool can_take(const struct sched *s, const struct party *p, struct site_lane *l,
                     const struct lane_wish *w)
{
    if (connection_with_room(p, &l->lane, w->group, w->tried) != NULL) {
        return true;
    }
    uint64_t bit = source_bit(l->source);
    if ((p->site->room & bit) == 0) {
        return false;
    }
    return connection_idle(p, &l->lane, w->group, w->tried) != NULL ||
           (!w->needs_connection && connection_has_slot(s) && (p->site->fresh & bit) != 0 &&
            has_server(p, source_families(s, bit), w->group, w->tried));
}

static uint64_t lanes_of(const struct party *p, const struct lane_wish *w)
{
    return shared_party_of(p)->set->mask & p->site->usable & w->lanes;
}

static int weight_of(const struct sched *s, const struct lane_turn *turn, uint32_t source)
{
    int own = turn == NULL ? 0 : s->sources.weights[turn->pool * SCHED_SOURCES_MAX + source];
    return own != 0 ? own : s->sources.at[source].given.weight;
}

struct site_lane *lane_choice_take(struct sched *s, const struct party *p,
                                   const struct lane_wish *w)
{
    struct site_lane *best = NULL;
    struct lane_turn *turn = shared_party_of(p)->set->turn;
    int64_t *best_credit = NULL, total = 0;
    LANE_FOREACH(l, p->site, lanes_of(p, w))
    {
        if (can_take(s, p, l, w)) {
            int64_t *credit = turn == NULL ? &l->credit : &turn->credit[l->source];
            int weight = weight_of(s, turn, l->source);
            *credit += weight;
            total += weight;
            best = best == NULL || *credit > *best_credit ? l : best;
            best_credit = best == l ? credit : best_credit;
        }
    }
    if (best != NULL) {
        *best_credit -= total;
    }
    return best;
}

/* --- pools with weights of their own -------------------------------------------------------------- */

struct lane_turn *lane_turn_obtain(struct sched *s, struct site *site, uint16_t pool)
{
    if (source_weights(s, pool) == NULL) {
        return NULL;
    }
    list_foreach(turn, &site->turns, struct lane_turn, in_site)
    {
        if (turn->pool == pool) {
            return turn;
        }
    }
    struct lane_turn *turn = s->host.alloc(s->host.ctx, sizeof(*turn));
    if (turn == NULL) {
        return NULL;
    }
    *turn = (struct lane_turn){.pool = pool};
    list_push_back(&site->turns, &turn->in_site);
    return turn;
}

void lane_turn_free_all(struct sched *s, struct site *site)
{
    while (!list_is_empty(&site->turns)) {
        struct lane_turn *turn = list_first(&site->turns, struct lane_turn, in_site);
        list_remove(&turn->in_site);
        s->host.release(s->host.ctx, turn);
    }
}

bool lane_choice_is_there(const struct sched *s, const struct party *p, const struct lane_wish *w)
{
    LANE_FOREACH(l, p->site, lanes_of(p, w))
    {
        if (can_take(s, p, l, w)) {
            return true;
        }
    }
    return false;
}
