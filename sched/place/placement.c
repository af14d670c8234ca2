/* Placement, see sched/place/placement.h. Chooses; sched/place/connection.c carries out. */
#include "sched/place/placement.h"

#include "sched/place/lane_choice.h"
#include "sched/place/site.h"
#include "sched/terms.h"
#include "sched/transport.h"

#include <assert.h>

/* On an idle connection, of a lane that may not open any. */
static bool can_ride(const struct party *p)
{
    uint64_t lanes = shared_party_of(p)->set->mask & p->site->room & ~p->site->fresh;
    LANE_FOREACH(l, p->site, lanes)
    {
        if (connection_idle(p, &l->lane, p->group, 0) != NULL) {
            return true;
        }
    }
    return false;
}

/* At a site the windows of its lanes are left to the site: they change for all of its parties. */
static enum openness openness_at_site(const struct sched *s, const struct party *p)
{
    if (shared_party_of(p)->willing == 0 || p->is_unreachable) {
        return OPEN_NOT;
    }
    if (connection_with_room(p, NULL, p->group, 0) != NULL || can_ride(p)) {
        return OPEN_NOW;
    }
    return s->config.host_concurrency_limit > 0 && p->server_count > 0 ? OPEN_HOST : OPEN_SLOT;
}

enum openness placement_openness_own(const struct sched *s, const struct sched_destination *d)
{
    const struct party *p = &d->own;
    const struct lane *lane = &d->lane;
    if (destination_wanted(d) == 0 || lane->window <= 0 || d->lacks_hosts || p->is_unreachable) {
        return OPEN_NOT;
    }
    /* The delay follows an entry, wherever that is. */
    if (!terms_allow_entry(s, d)) {
        return OPEN_NOT;
    }
    if (connection_with_room(p, NULL, p->group, 0) != NULL) {
        return OPEN_NOW;
    }
    if (lane->busy >= lane->window) {
        return OPEN_NOT;
    }
    if (connection_idle(p, NULL, p->group, 0) != NULL) {
        return OPEN_NOW;
    }
    return s->config.host_concurrency_limit > 0 && p->server_count > 0 ? OPEN_HOST : OPEN_SLOT;
}

enum openness placement_openness(const struct sched *s, const struct party *p)
{
    return p->site == NULL ? placement_openness_own(s, party_owner(p)) : openness_at_site(s, p);
}

bool placement_is_idle(const struct party *p)
{
    return p->site == NULL && p->work == OPEN_NOW &&
           connection_with_room(p, NULL, p->group, 0) == NULL;
}

/* The order of preference among hosts for a new connection. */
enum rank { RANK_UNUSED, RANK_CLOSED, RANK_RETRY, RANK_OPEN, RANK_NONE };

static enum rank rank_of(const struct destdb_host *h)
{
    if (h->is_full) {
        return RANK_NONE;
    }
    if (h->connections > 0) {
        return RANK_OPEN;
    }
    if (h->retry_until > 0) {
        return RANK_RETRY;
    }
    return h->has_record ? RANK_CLOSED : RANK_UNUSED;
}

/* Within a rank: the oldest last connection, the fewest connections, or any. */
static uint64_t weight_of(const struct destdb_host *h, enum rank rank)
{
    if (rank == RANK_CLOSED) {
        return (uint64_t)h->last_connect;
    }
    return rank == RANK_OPEN ? (uint64_t)h->connections : 0;
}

/* splitmix64 */
static uint64_t next_random(struct sched *s)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The server for a new connection among those of a group, or SERVER_NONE: all are at their limit.
 * Among equals at random, so that the load spreads in another order each time. */
static uint32_t choose_server(struct sched *s, const struct party *p, uint8_t families,
                              uint16_t group, uint64_t tried)
{
    if (p->server_count == 0) {
        return 0;
    }
    uint32_t equal[SCHED_SERVERS_MAX];
    uint32_t count = 0;
    enum rank best_rank = RANK_NONE;
    uint64_t best_weight = 0;
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        enum rank rank = rank_of(server->host);
        uint64_t weight = weight_of(server->host, rank);
        if (server->preference != group || (server->families & families) == 0 ||
            (tried >> i & 1) != 0 || rank > best_rank || rank == RANK_NONE ||
            destdb_host_is_waiting(server->host) || (rank == best_rank && weight > best_weight)) {
            continue;
        }
        if (rank < best_rank || weight < best_weight) {
            count = 0;
            best_rank = rank;
            best_weight = weight;
        }
        equal[count++] = i;
    }
    if (count <= 1) {
        return count == 0 ? SERVER_NONE : equal[0];
    }
    return equal[next_random(s) % count];
}

/* A new connection from that source; NULL: none for now. */
static struct connection *open_from(struct sched *s, struct sched_destination *d, struct lane *lane,
                                    uint32_t source, const struct lane_wish *w)
{
    uint8_t families = source_families(s, source_bit(source));
    uint32_t server = choose_server(s, d->party, families, w->group, w->tried);
    if (server == SERVER_NONE) {
        return NULL;
    }
    destination_refresh_hosts(s, d);
    return connection_open(s, d, lane, server);
}

static struct connection *find_at_site(struct sched *s, struct sched_destination *d,
                                       const struct lane_wish *w)
{
    struct party *p = d->party;
    struct site_lane *l = lane_choice_take(s, p, w);
    if (l == NULL) {
        return NULL;
    }
    /* Others of the site open the connections that this one uses: it asks when its time has come, or
     * it would use them for as long as there is mail, whatever its hosts are by then. */
    destination_refresh_hosts(s, d);
    uint64_t bit = source_bit(l->source);
    struct connection *c = connection_with_room(p, &l->lane, w->group, w->tried);
    if (c != NULL || (p->site->room & bit) == 0) {
        return c;
    }
    c = connection_idle(p, &l->lane, w->group, w->tried);
    if (c != NULL || !connection_has_slot(s) || (p->site->fresh & bit) == 0) {
        return c;
    }
    return open_from(s, d, &l->lane, l->source, w);
}

/* The whole choice. NULL: none for now. */
static struct connection *find_connection(struct sched *s, struct sched_destination *d,
                                          const struct lane_wish *w)
{
    if (d->party != &d->own) {
        return find_at_site(s, d, w);
    }
    struct connection *c = connection_with_room(&d->own, NULL, w->group, w->tried);
    if (c != NULL || d->lane.busy >= d->lane.window) {
        return c;
    }
    c = connection_idle(&d->own, NULL, w->group, w->tried);
    if (c != NULL || !connection_has_slot(s)) {
        return c;
    }
    return open_from(s, d, &d->lane, source_first(s, d->pool), w);
}

static void place_entry(struct sched *s, struct sched_entry *e, struct connection *c)
{
    connection_carry(s, c, e);
    s->undelivered = e;
    s->undelivered_from = 0;
    if (c->party->site != NULL) {
        s->undelivered_from = grant_use(s, lane_at_site(c->lane), e->count, c->is_new);
    }
    action_queue(s, &e->place, SCHED_DELIVER);
}

void placement_place(struct sched *s, struct sched_entry *e, bool needs_connection)
{
    struct sched_destination *d = entry_destination(e);
    const struct lane_wish w = {
        .group = d->party->group, .lanes = UINT64_MAX, .needs_connection = needs_connection};
    struct connection *c = find_connection(s, d, &w);
    assert(c != NULL);
    place_entry(s, e, c);
}

bool placement_is_last(const struct sched *s, const struct sched_entry *e)
{
    uint16_t group;
    const struct connection *c = connection_at(s, e->connection);
    const struct party *p = entry_destination(e)->party;
    return !server_group(s, p, e->tried | server_mask(p, c->host), &group);
}

void placement_displace(struct sched *s, struct sched_entry *e)
{
    struct sched_destination *d = entry_destination(e);
    assert(e->state == ENTRY_BUSY && e->connection == ENTRY_NO_CONNECTION);
    e->state = ENTRY_DISPLACED;
    list_push_back(&d->displaced, &e->place.link);
    site_count_displaced(s, d, 1);
    placement_review(s, d);
}

void placement_withdraw(struct sched *s, struct sched_entry *e)
{
    struct sched_destination *d = entry_destination(e);
    assert(e->state == ENTRY_DISPLACED);
    list_remove(&e->place.link);
    e->state = ENTRY_BUSY;
    site_count_displaced(s, d, -1);
    list_remove(&d->in_displaced);
    placement_review(s, d);
}

void placement_review(struct sched *s, struct sched_destination *d)
{
    if (!list_is_empty(&d->displaced)) {
        list_remove(&d->in_displaced);
        list_push_back(&s->displaced, &d->in_displaced);
    }
}

/* They may have waited for nothing but a slot; there are not more than entries in flight. */
void placement_slot_opened(struct sched *s)
{
    while (!list_is_empty(&s->displaced_waiting)) {
        placement_review(s,
                         list_first(&s->displaced_waiting, struct sched_destination, in_displaced));
    }
}

struct sched_others sched_other_sources(const struct sched *s, const struct sched_entry *e,
                                        uint16_t pool)
{
    const struct party *p = entry_destination(e)->party;
    if (p->site == NULL) {
        return (struct sched_others){.has_any = false};
    }
    uint64_t others = ~source_bit(e->source);
    uint64_t own = shared_party_of(p)->set->mask & p->site->alive & others;
    uint64_t any = own;
    if (pool != entry_destination(e)->pool) { /* of a lane that is not there yet nothing is known */
        any = source_pool(s, pool) & (p->site->alive | ~p->site->present) & others;
    }
    return (struct sched_others){(own & ~source_tried(s, e)) != 0, any != 0};
}

static void exhaust(struct sched *s, struct sched_entry *e)
{
    list_remove(&e->place.link);
    e->state = ENTRY_BUSY;
    site_count_displaced(s, entry_destination(e), -1);
    action_queue(s, &e->place, SCHED_EXHAUSTED);
}

/* What it may go to; false: nothing is left that it has not tried. */
static bool find_wish(const struct sched *s, const struct sched_destination *d,
                      const struct sched_entry *e, struct lane_wish *ret)
{
    uint64_t tried = source_tried(s, e);
    *ret = (struct lane_wish){.lanes = ~tried, .tried = e->tried};
    if (tried == 0) {
        return server_group(s, d->party, e->tried, &ret->group);
    }
    if (d->party->site == NULL) {
        return false; /* it has one source */
    }
    uint64_t left = shared_party_of(d->party)->set->mask & d->party->site->alive & ~tried;
    return left != 0 && server_group_of(d->party, source_families(s, left), e->tried, &ret->group);
}

/* false: it must wait. */
static bool take_connection(struct sched *s, struct sched_destination *d, struct sched_entry *e)
{
    struct lane_wish w;
    if (destination_refuses(s, d) || (d->lacks_hosts && !d->is_resolving) ||
        !find_wish(s, d, e, &w)) {
        exhaust(s, e);
        return true;
    }
    if (d->lacks_hosts) {
        return false; /* they were forgotten (sched_forget_hosts): others come */
    }
    struct connection *c = d->lane.window > 0 ? find_connection(s, d, &w) : NULL;
    if (c == NULL) {
        return false;
    }
    list_remove(&e->place.link);
    e->state = ENTRY_BUSY;
    site_count_displaced(s, d, -1);
    s->undelivered_is_back = true;
    place_entry(s, e, c);
    return true;
}

static bool take_of(struct sched *s, struct sched_destination *d)
{
    const struct sched_entry *last = NULL;
    list_foreach_safe(e, &d->displaced, struct sched_entry, place.link)
    {
        /* One that has tried the same can go nowhere else. */
        if (last != NULL && last->tried == e->tried &&
            source_tried(s, last) == source_tried(s, e)) {
            continue;
        }
        if (take_connection(s, d, e)) {
            return true;
        }
        last = e;
    }
    return false;
}

bool placement_take_displaced(struct sched *s)
{
    while (!list_is_empty(&s->displaced)) {
        struct sched_destination *d =
            list_first(&s->displaced, struct sched_destination, in_displaced);
        bool is_taken = take_of(s, d);
        list_remove(&d->in_displaced);
        if (!list_is_empty(&d->displaced)) {
            list_push_back(is_taken ? &s->displaced : &s->displaced_waiting, &d->in_displaced);
        }
        if (is_taken) {
            return true;
        }
    }
    return false;
}

bool placement_has_connection(const struct sched *s, const struct sched_destination *d)
{
    const struct party *p = d->party;
    if (p->site == NULL) {
        return p->work == OPEN_NOW;
    }
    const struct lane_wish w = {.group = p->group, .lanes = UINT64_MAX, .needs_connection = true};
    return lane_choice_is_there(s, p, &w);
}
