/* The servers of a destination, see sched/place/server.h. Called by destination (answers of the
 * resolver), destdb (hosts that change) and placement. */
#include "sched/place/server.h"

#include "sched/parking.h"
#include "sched/place/host_queue.h"
#include "sched/transport.h"

#include <assert.h>

static void free_list(struct sched *s, struct server *servers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        list_remove(&servers[i].in_host);
        destdb_put(s, servers[i].host);
    }
    if (servers != NULL) {
        s->host.retire(s->host.ctx, servers);
    }
}

/* NULL when out of memory. */
static struct server *new_list(struct sched *s, struct party *p, const struct sched_server *from,
                               uint32_t count)
{
    struct server *servers = s->host.alloc(s->host.ctx, (count + 1) * sizeof(*servers));
    if (servers == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct server *server = &servers[i];
        *server = (struct server){.host = destdb_obtain(s, &from[i]),
                                  .party = p,
                                  .name = from[i].name,
                                  .preference = from[i].preference,
                                  .families = from[i].families};
        server->families = server->families == 0 ? SITE_FAMILIES : server->families;
        tree_node_init(&server->in_queue);
        if (server->host == NULL) {
            free_list(s, servers, i);
            return NULL;
        }
        list_push_back(&server->host->users, &server->in_host);
    }
    servers[count].host = NULL;
    return servers;
}

uint64_t server_mask(const struct party *p, const struct destdb_host *h)
{
    if (p->server_count == 0) {
        return h == NULL;
    }
    uint64_t mask = 0;
    for (uint32_t i = 0; i < p->server_count; i++) {
        mask |= (uint64_t)(p->servers[i].host == h) << i;
    }
    return mask;
}

/* Where each server of the old list is in the new one. The servers that an entry has tried are
 * bits of places in its destination's list; they are moved with the list rather than marked with
 * the list they belong to, so that a host that failed it is not tried again after a mere refresh,
 * and an entry needs no room for a generation. */
struct mapping {
    uint64_t to[SCHED_SERVERS_MAX];
    uint32_t count;
};

static struct mapping map_servers(const struct party *p, const struct server *old, uint32_t count)
{
    struct mapping m = {.count = count == 0 ? 1 : count};
    for (uint32_t i = 0; i < m.count; i++) {
        m.to[i] = server_mask(p, count == 0 ? NULL : old[i].host);
    }
    return m;
}

static void move_tried(struct sched_entry *e, const struct mapping *m)
{
    uint64_t tried = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if ((e->tried >> i & 1) != 0) {
            tried |= m->to[i];
        }
    }
    e->tried = tried;
}

static void move_carried(const struct sched_destination *d, struct connection *c,
                         const struct mapping *m)
{
    list_foreach(e, &c->entries, struct sched_entry, place.link)
    {
        if (entry_destination(e) == d) {
            move_tried(e, m);
        }
    }
}

/* Nothing has tried any unless it is in flight. */
static void move_all_tried(const struct sched *s, struct sched_destination *d,
                           const struct mapping *m)
{
    if (s->undelivered != NULL && entry_destination(s->undelivered) == d) {
        move_tried(s->undelivered, m);
    }
    list_foreach(c, &d->lane.open, struct connection, in_lane)
    {
        move_carried(d, c, m);
    }
    /* At a site, or where it has been at one, they may be on any connection. */
    for (uint32_t i = 0; d->was_at_site && i < s->connection_count; i++) {
        struct connection *c = connection_at(s, i);
        if (c->state == CONNECTION_BUSY && c->lane != &d->lane) {
            move_carried(d, c, m);
        }
    }
    list_foreach(e, &d->displaced, struct sched_entry, place.link)
    {
        move_tried(e, m);
    }
}

/* Whether its server is in the list, under the name by which it was connected to: a list may have
 * one host under several. */
static bool is_still_named(const struct party *p, const struct connection *c,
                           uint16_t *ret_preference)
{
    if (p->server_count == 0) {
        *ret_preference = 0;
        return c->host == NULL && c->name == 0;
    }
    for (uint32_t i = 0; i < p->server_count; i++) {
        if (p->servers[i].host == c->host && p->servers[i].name == c->name) {
            *ret_preference = p->servers[i].preference;
            return true;
        }
    }
    return false;
}

/* The connections of a lane that are the party's. */
static void move_connections_of(struct sched *s, const struct party *p, struct lane *lane)
{
    list_foreach_safe(c, &lane->open, struct connection, in_lane)
    {
        uint16_t preference;
        if (c->party != p) {
            continue;
        }
        if (is_still_named(p, c, &preference)) {
            connection_set_preference(s, c, preference);
        } else {
            connection_retire(s, c);
        }
    }
}

static void move_connections(struct sched *s, struct party *p)
{
    if (p->site == NULL) {
        move_connections_of(s, p, &party_owner(p)->lane);
        return;
    }
    LANE_FOREACH(l, p->site, p->site->present)
    {
        move_connections_of(s, p, &l->lane);
    }
}

static void publish_servers(struct party *p, struct server *servers, uint32_t count)
{
    __atomic_store_n(&p->servers, servers, __ATOMIC_RELEASE);
    p->server_count = (uint16_t)(servers == NULL ? 0 : count);
}

/* The one whose entries have tried what the list names: the servers of several are never changed. */
static struct sched_destination *only_member(const struct party *p)
{
    if (p->site == NULL) {
        struct sched_destination *owner = party_owner(p);
        return owner->party == p ? owner : NULL;
    }
    const struct shared_party *q = shared_party_of(p);
    return list_is_empty(&q->members) ? NULL
                                      : list_first(&q->members, struct sched_destination, in_party);
}

void server_move_tried(struct sched *s, struct sched_destination *d, const struct party *from,
                       const struct party *to)
{
    if (d->in_flight > 0) {
        struct mapping m = map_servers(to, from->servers, from->server_count);
        move_all_tried(s, d, &m);
    }
}

void server_set(struct sched *s, struct party *p, const struct sched_server *servers,
                uint32_t count)
{
    assert(count <= SCHED_SERVERS_MAX);
    struct server *old = p->servers;
    uint32_t old_count = p->server_count;
    host_queue_leave(s, p);
    publish_servers(p, count == 0 ? NULL : new_list(s, p, servers, count), count);
    if (old_count == 0 && p->server_count == 0) {
        party_recount(s, p);
        return;
    }
    struct sched_destination *d = only_member(p);
    if (d != NULL && d->in_flight > 0) {
        struct mapping m = map_servers(p, old, old_count);
        move_all_tried(s, d, &m);
    }
    move_connections(s, p);
    free_list(s, old, old_count);
    server_review(s, p);
}

void server_free_all(struct sched *s, struct party *p)
{
    host_queue_leave(s, p);
    free_list(s, p->servers, p->server_count);
    publish_servers(p, NULL, 0);
}

/* Of addresses that some source of it reaches; without any source nobody asks. */
static uint8_t families_within_reach(const struct sched *s, const struct party *p)
{
    if (p->site == NULL) {
        return source_families(s, source_bit(source_first(s, party_owner(p)->pool)));
    }
    uint64_t mask = shared_party_of(p)->set->mask;
    return mask == 0 ? SITE_FAMILIES : source_families(s, mask);
}

static inline bool find_group(const struct party *p, uint8_t families, uint64_t tried,
                              uint16_t *ret)
{
    if (p->server_count == 0) {
        *ret = 0;
        return (tried & 1) == 0;
    }
    bool is_found = false;
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        if ((tried >> i & 1) != 0 || destdb_host_is_waiting(server->host) ||
            (server->families & families) == 0) {
            continue;
        }
        if (!is_found || server->preference < *ret) {
            *ret = server->preference;
            is_found = true;
        }
    }
    return is_found;
}

bool server_group(const struct sched *s, const struct party *p, uint64_t tried, uint16_t *ret)
{
    if (p->server_count == 0) {
        *ret = 0;
        return (tried & 1) == 0;
    }
    return find_group(p, families_within_reach(s, p), tried, ret);
}

bool server_group_of(const struct party *p, uint8_t families, uint64_t tried, uint16_t *ret)
{
    return find_group(p, families, tried, ret);
}

bool server_has_room(const struct party *p, uint8_t families)
{
    const struct server *server = __atomic_load_n(&p->servers, __ATOMIC_ACQUIRE);
    if (server == NULL) {
        return true;
    }
    uint16_t group = shared_get(&p->group);
    for (; server->host != NULL; server++) {
        if (server->preference == group && (server->families & families) != 0 &&
            !shared_get(&server->host->is_full) && !destdb_host_is_waiting(server->host)) {
            return true;
        }
    }
    return false;
}

/* Where a party of a site stands depends on them. */
static void review_families(struct sched *s, struct party *p, bool can_try, uint16_t group)
{
    uint8_t families = can_try && p->server_count == 0 ? SITE_FAMILIES : 0;
    for (uint32_t i = 0; can_try && i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        if (server->preference == group && !destdb_host_is_waiting(server->host)) {
            families |= server->families;
        }
    }
    if (families != p->families) {
        lane_set_work(s, p, OPEN_NOT);
        parking_update(s, p);
        p->families = families;
    }
}

void server_review(struct sched *s, struct party *p)
{
    uint16_t group = p->group;
    bool can_try = server_group(s, p, 0, &group);
    if (p->site != NULL) {
        review_families(s, p, can_try, group);
        lane_set_fit(s, p);
    }
    shared_set(&p->is_unreachable, !can_try);
    shared_set(&p->group, group);
    party_recount(s, p);
    if (!can_try && p->site != NULL) {
        site_recount_members(s, p);
    }
    host_queue_update(s, p);
    party_reconsider(s, p);
}

usec_t server_retry_at(const struct sched *s, const struct party *p)
{
    usec_t at = USEC_NEVER;
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct destdb_host *h = p->servers[i].host;
        if (destdb_host_is_waiting(h) && h->retry_until < at) {
            at = h->retry_until;
        }
    }
    return at == USEC_NEVER ? s->now + s->config.minimal_backoff_time : at;
}
