/* Sites: which destinations stand in which party. Called by destination (answers of the resolver,
 * what waits), parking and party. What a lane learns is sched/place/lane.c, where selection finds the
 * parties sched/place/lane_set.c. */
#include "sched/place/site.h"

#include "base/hash.h"
#include "sched/parking.h"
#include "sched/place/avoidance.h"
#include "sched/place/host_queue.h"
#include "sched/place/lane_choice.h"
#include "sched/place/shed.h"
#include "sched/terms.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SITES_MAX      100000
#define FORGOTTEN_MOST 16 /* by one call: bounds its time, and is more than one call can make */

static uint64_t member_key(const struct tree_node *n)
{
    return parking_first_position(container_of(n, const struct sched_destination, own.in_ready));
}

void site_init_all(struct sched *s)
{
    list_init(&s->all_sites);
    list_init(&s->remembered);
    tree_init(&s->ready_sites, lane_set_key);
    heap_init(&s->lane_timers, s->host.alloc, s->host.release, s->host.ctx);
    heap_init(&s->avoidance_timers, s->host.alloc, s->host.release, s->host.ctx);
}

struct slice sched_destination_site(const struct sched_destination *d)
{
    return d->party->site == NULL ? SLICE("") : site_key(d->party->site);
}

struct slice site_key(const struct site *site)
{
    return slice_make(site->key, site->key_len);
}

/* Where no connection may be opened but idle ones may be used, these are what an entry can go to at
 * once. Of limited lanes only. */
static void review_riding(struct sched *s, struct site *site, uint64_t lanes)
{
    LANE_FOREACH(l, site, lanes)
    {
        list_foreach(c, &l->lane.open, struct connection, in_lane)
        {
            if (c->state == CONNECTION_IDLE) {
                party_recount(s, c->party);
            }
        }
    }
}

void site_review(struct sched *s, struct site *site)
{
    int limit = site_limit(s, site);
    uint64_t room = limit == 0 || site->busy < limit ? site->spare : 0;
    uint64_t fresh = room & site->openable;
    uint64_t changed = (room ^ site->room) | (fresh ^ site->fresh);
    if (changed == 0) {
        return;
    }
    uint64_t riding = (room & ~fresh) ^ (site->room & ~site->fresh);
    bool has_gained = ((room & ~site->room) | (fresh & ~site->fresh)) != 0;
    shared_set(&site->room, room);
    site->fresh = fresh;
    review_riding(s, site, riding);
    list_foreach(set, &site->sets, struct lane_set, in_site)
    {
        if ((set->mask & changed) != 0) {
            lane_set_review(s, set);
        }
        if ((set->mask & riding) != 0) {
            lane_set_reconsider(s, set);
        }
    }
    if (has_gained) {
        placement_slot_opened(s);
    }
}

/* --- members ---------------------------------------------------------------------------------- */

/* Nothing of its own bars it; its lanes may. */
static bool is_willing(const struct sched *s, const struct sched_destination *d)
{
    return destination_wanted(d) > 0 && destination_is_ready(d) && !d->lacks_hosts &&
           terms_allow_entry(s, d);
}

void site_file_member(struct sched *s, struct sched_destination *d)
{
    struct shared_party *q = shared_party_of(d->party);
    struct tree_node *n = &d->own.in_ready;
    bool is_first = tree_node_is_linked(n) && q->queue.first == n;
    if (tree_node_is_linked(n)) {
        tree_remove(&q->queue, n);
    }
    if (d->is_willing && destination_is_sought(d)) {
        tree_insert(&q->queue, n);
        is_first = is_first || q->queue.first == n;
    }
    if (is_first) {
        parking_update(s, &q->party);
    }
    if (flows_take_turns(s)) {
        turn_file_member(s, d);
    }
}

static void count_member(struct sched_destination *d, bool is_there)
{
    struct site *site = d->party->site;
    bool is_occupied = is_there && d->waiting + d->in_flight > 0;
    int waiting = is_there ? d->waiting : 0;
    if (is_occupied != d->is_occupied) {
        shared_add(&site->occupied, is_occupied - d->is_occupied);
        d->is_occupied = is_occupied;
    }
    if (waiting != d->counted_waiting) {
        shared_add(&site->waiting, waiting - d->counted_waiting);
        d->counted_waiting = waiting;
    }
}

/* What its lanes are wanted for. */
static void count_wanted(struct sched *s, struct sched_destination *d)
{
    struct lane_set *set = shared_party_of(d->party)->set;
    const struct site *site = d->party->site;
    int wanted = d->is_willing ? destination_wanted(d) : 0;
    if (wanted == d->counted_wanted) {
        return;
    }
    bool was_wanted = set->wanted > 0;
    if (wanted > d->counted_wanted && (site->limited & set->mask) != 0) {
        shed_touch(s, set);
    }
    set->wanted += wanted - d->counted_wanted;
    d->counted_wanted = wanted;
    if ((set->wanted > 0) != was_wanted) {
        grant_touch_all(s, d->party->site, set->mask);
    }
}

void site_count_displaced(struct sched *s, struct sched_destination *d, int change)
{
    if (d->party != &d->own) {
        struct lane_set *set = shared_party_of(d->party)->set;
        set->displaced += change;
        grant_touch_all(s, d->party->site, set->mask);
    }
}

static int displaced_of(const struct sched_destination *d)
{
    int count = 0;
    list_foreach(e, &d->displaced, const struct sched_entry, place.link)
    {
        count += e->state == ENTRY_DISPLACED;
    }
    return count;
}

static void set_willing(struct sched *s, struct sched_destination *d, bool is_now)
{
    struct shared_party *q = shared_party_of(d->party);
    bool was_any = q->willing > 0;
    if (is_now != d->is_willing) {
        d->is_willing = is_now;
        q->willing += is_now ? 1 : -1;
        site_file_member(s, d);
    }
    count_wanted(s, d);
    if (was_any != (q->willing > 0)) {
        party_recount(s, d->party);
    } else if (!list_is_empty(&s->displaced_waiting)) {
        placement_slot_opened(s); /* any member's displaced entries may go on */
    }
}

void site_recount_member(struct sched *s, struct sched_destination *d)
{
    count_member(d, true);
    set_willing(s, d, is_willing(s, d));
}

void site_recount_members(struct sched *s, struct party *p)
{
    list_foreach(d, &shared_party_of(p)->members, struct sched_destination, in_party)
    {
        destination_recount(s, d);
    }
}

static void set_party(struct sched_destination *d, struct party *p)
{
    __atomic_store_n(&d->party, p, __ATOMIC_RELEASE);
}

static void join_party(struct sched *s, struct sched_destination *d, struct shared_party *q)
{
    bool was_own = d->party == &d->own;
    set_party(d, &q->party);
    if (flows_take_turns(s)) {
        turn_arrive(s, d);
    }
    if (was_own) {
        destination_leave_own(s, d);
    }
    if (d->is_lingering) { /* it avoids a lane no longer; these stand first */
        q->lingering++;
        list_push_front(&q->members, &d->in_party);
    } else {
        list_push_back(&q->members, &d->in_party);
    }
    site_count_displaced(s, d, displaced_of(d));
    if (d->tag == s->flow.tag) {
        destination_mark(s, d); /* and the site */
    }
    destination_recount(s, d);
    if (q->set->is_barred) {
        destination_drop_waiting(s, d, SCHED_DEFER, q->set->reason);
    }
}

void site_leave(struct sched *s, struct sched_destination *d)
{
    struct party *p = d->party;
    if (p == &d->own) {
        return;
    }
    site_count_displaced(s, d, -displaced_of(d));
    set_willing(s, d, false);
    count_member(d, false);
    list_remove(&d->in_party);
    shared_party_of(p)->lingering -= d->is_lingering;
    set_party(d, &d->own);
    site_settle_party(s, p);
}

/* --- parties ---------------------------------------------------------------------------------- */

struct list_key {
    struct site *site;
    const struct sched_server *servers;
    uint64_t avoided;
    uint32_t count, tls;
    uint16_t pool;
};

static uint8_t families_of(const struct sched_server *server)
{
    return server->families == 0 ? SITE_FAMILIES : server->families;
}

static uint64_t list_hash(const struct sched *s, const struct list_key *k)
{
    uint64_t set[2] = {k->avoided, k->pool};
    uint64_t hash = k->site->node.hash ^ k->tls;
    if (k->avoided != 0 || k->pool != 0) {
        hash = hash_bytes(set, sizeof(set), hash);
    }
    for (uint32_t i = 0; i < k->count; i++) {
        const struct sched_server *server = &k->servers[i];
        uint32_t rest[3] = {server->preference, families_of(server), server->name};
        hash = hash_bytes(server->key, server->key_len, hash ^ s->hash_seed);
        hash = hash_bytes(rest, sizeof(rest), hash);
    }
    return hash;
}

static bool is_same_server(const struct server *a, const struct sched_server *b)
{
    return a->preference == b->preference && a->families == families_of(b) && a->name == b->name &&
           a->host->key_len == b->key_len && memcmp(a->host->key, b->key, b->key_len) == 0;
}

static bool list_matches(const struct table_node *node, const void *key)
{
    const struct shared_party *q = container_of(node, const struct shared_party, node);
    const struct list_key *k = key;
    if (q->party.site != k->site || q->tls != k->tls || q->party.server_count != k->count ||
        q->set->pool != k->pool || q->set->avoided != k->avoided) {
        return false;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        if (!is_same_server(&q->party.servers[i], &k->servers[i])) {
            return false;
        }
    }
    return true;
}

static void free_party(struct sched *s, struct shared_party *q)
{
    server_free_all(s, &q->party);
    table_remove(&s->by_list, &q->node);
    list_remove(&q->in_site);
    lane_set_count(s, &q->party, -1);
    q->set->sharing -= q->shares_lanes;
    lane_set_put(s, q->set);
    s->host.retire(s->host.ctx, q);
}

static void free_lingering(struct sched *s, struct shared_party *q)
{
    while (q->lingering > 0) {
        destination_free(s, list_first(&q->members, struct sched_destination, in_party));
    }
}

void site_settle_party(struct sched *s, struct party *p)
{
    struct shared_party *q = shared_party_of(p);
    struct site *site = p->site;
    if (q->is_pinned) {
        return;
    }
    if (q->connections == 0) {
        q->is_pinned = true;
        free_lingering(s, q);
        q->is_pinned = false;
    }
    if (list_is_empty(&q->members) && q->connections == 0) {
        free_party(s, q);
    }
    site_settle(s, site);
}

/* NULL when out of memory. reason: as in lane_set_obtain */
static struct shared_party *new_party(struct sched *s, const struct list_key *k, uint64_t hash,
                                      struct reason *reason)
{
    struct lane_set *set = NULL;
    struct shared_party *q = s->host.alloc(s->host.ctx, sizeof(*q));
    if (q != NULL && table_reserve(&s->by_list) == 0) {
        set = lane_set_obtain(s, k->site, k->pool, k->avoided, reason);
    }
    if (set == NULL) {
        if (q != NULL) {
            s->host.release(s->host.ctx, q);
        }
        return NULL;
    }
    memset(q, 0, sizeof(*q));
    q->party.site = k->site;
    q->set = set;
    q->party.families = SITE_FAMILIES;
    q->tls = k->tls;
    q->node.hash = hash;
    list_init(&q->members);
    tree_node_init(&q->party.in_ready);
    tree_init(&q->queue, member_key);
    list_push_back(&k->site->parties, &q->in_site);
    lane_set_count(s, &q->party, 1);
    table_insert(&s->by_list, &q->node);
    server_set(s, &q->party, k->servers, k->count);
    lane_set_fit(s, &q->party);
    if (q->party.server_count != k->count) {
        free_party(s, q);
        return NULL;
    }
    return q;
}

/* Its only member has other servers now: those that are left keep their connections. */
static bool change_party(struct sched *s, struct shared_party *q, const struct list_key *k,
                         uint64_t hash)
{
    if (table_reserve(&s->by_list) != 0) {
        return false;
    }
    server_set(s, &q->party, k->servers, k->count);
    table_remove(&s->by_list, &q->node);
    q->node.hash = hash;
    table_insert(&s->by_list, &q->node);
    return true;
}

/* --- sites ------------------------------------------------------------------------------------ */

static bool site_matches(const struct table_node *node, const void *key)
{
    const struct site *site = container_of(node, const struct site, node);
    return slice_eq(site_key(site), *(const struct slice *)key);
}

struct site *site_find(const struct sched *s, struct slice key)
{
    uint64_t hash = hash_bytes(key.data, key.len, s->hash_seed);
    struct table_node *node = table_find(&s->sites, hash, site_matches, &key);
    return node == NULL ? NULL : container_of(node, struct site, node);
}

static void free_site(struct sched *s, struct site *site)
{
    assert(list_is_empty(&site->sets) && site->occupied == 0 && site->busy == 0);
    table_remove(&s->sites, &site->node);
    shared_sub(&s->shared.sites, 1);
    list_remove(&site->all);
    list_remove(&site->remembered);
    lane_free_all(s, site);
    lane_turn_free_all(s, site);
    site_free_options(s, site);
    s->host.retire(s->host.ctx, site);
}

static bool is_full(const struct sched *s)
{
    return s->sites.count >= SITES_MAX || s->lane_count >= LANES_MAX;
}

/* NULL when out of memory, or there are as many as may be and mail for each of them. */
static struct site *new_site(struct sched *s, struct slice key)
{
    if (is_full(s) && !list_is_empty(&s->remembered)) {
        free_site(s, list_first(&s->remembered, struct site, remembered));
    }
    if (is_full(s) || table_reserve(&s->sites) != 0) {
        return NULL;
    }
    struct site *site = s->host.alloc(s->host.ctx, sizeof(*site) + key.len);
    if (site == NULL) {
        return NULL;
    }
    memset(site, 0, sizeof(*site));
    site->node.hash = hash_bytes(key.data, key.len, s->hash_seed);
    site->key_len = (uint32_t)key.len;
    memcpy(site->key, key.data, key.len);
    list_init(&site->parties);
    list_init(&site->sets);
    list_init(&site->turns);
    list_init(&site->remembered);
    list_push_back(&s->all_sites, &site->all);
    table_insert(&s->sites, &site->node);
    shared_add(&s->shared.sites, 1);
    return site;
}

/* Without mail: what was learned is kept for lane_memory, and where that is none not at all; what a
 * dead lane waits for outlives its mail in any case. */
void site_settle(struct sched *s, struct site *site)
{
    if (site->is_pinned || site->occupied > 0 || lane_is_in_flight(site)) {
        if (list_is_linked(&site->remembered)) {
            list_remove(&site->remembered);
        }
        return;
    }
    if (site_memory(s, site) == 0) {
        lane_forget_all(s, site);
    }
    bool is_gone = list_is_empty(&site->parties) && !lane_is_away(site);
    if (!is_gone) {
        list_remove(&site->remembered);
    }
    if (is_gone && site_memory(s, site) == 0) {
        free_site(s, site);
    } else if (is_gone && !list_is_linked(&site->remembered)) {
        site->last_used = s->now;
        list_push_back(&s->remembered, &site->remembered);
    }
}

void site_settle_all(struct sched *s)
{
    list_foreach_safe(site, &s->all_sites, struct site, all)
    {
        site->is_pinned = true;
        list_foreach_safe(q, &site->parties, struct shared_party, in_site)
        {
            site_settle_party(s, &q->party);
        }
        site->is_pinned = false;
        site_settle(s, site);
    }
}

void site_forget_hosts(struct sched *s)
{
    list_foreach(site, &s->all_sites, struct site, all)
    {
        LANE_FOREACH(l, site, site->present)
        {
            list_foreach_safe(c, &l->lane.open, struct connection, in_lane)
            {
                if (c->host != NULL) {
                    connection_retire(s, c);
                }
            }
        }
    }
    site_settle_all(s);
}

void site_touch_all(struct sched *s)
{
    list_foreach(site, &s->all_sites, struct site, all)
    {
        grant_touch_all(s, site, site->limited);
    }
}

void site_tick(struct sched *s)
{
    for (int i = 0; i < FORGOTTEN_MOST && !list_is_empty(&s->remembered); i++) {
        struct site *site = list_first(&s->remembered, struct site, remembered);
        if (s->now - site->last_used < site_memory(s, site)) {
            break;
        }
        free_site(s, site);
    }
}

/* --- where a destination's mail goes ---------------------------------------------------------- */

static struct shared_party *find_party(const struct sched *s, const struct list_key *k,
                                       uint64_t hash)
{
    struct table_node *node = table_find(&s->by_list, hash, list_matches, k);
    return node == NULL ? NULL : container_of(node, struct shared_party, node);
}

static bool is_only_member(const struct sched_destination *d, const struct list_key *k)
{
    if (d->party->site != k->site) {
        return false;
    }
    const struct shared_party *q = shared_party_of(d->party);
    return q->tls == k->tls && q->set->pool == k->pool && q->set->avoided == k->avoided &&
           q->members.next == q->members.prev;
}

static void move_to(struct sched *s, struct sched_destination *d, struct party *to)
{
    struct party *from = d->party;
    if (from == to) {
        return;
    }
    server_move_tried(s, d, from, to);
    if (flows_take_turns(s)) {
        turn_leave(s, d);
    }
    site_leave(s, d);
    if (to != &d->own) {
        join_party(s, d, shared_party_of(to));
    } else {
        if (flows_take_turns(s)) {
            turn_arrive(s, d);
        }
        destination_recount(s, d);
    }
}

/* false: there is no memory for it. */
static bool place_at(struct sched *s, struct sched_destination *d, const struct list_key *k,
                     struct reason *reason)
{
    uint64_t hash = list_hash(s, k);
    struct shared_party *q = find_party(s, k, hash);
    if (q == NULL && is_only_member(d, k)) {
        return change_party(s, shared_party_of(d->party), k, hash);
    }
    if (q == NULL) {
        q = new_party(s, k, hash, reason);
    }
    if (q == NULL) {
        return false;
    }
    q->is_pinned = true;
    bool is_staged =
        !flows_take_turns(s) || d->party == &q->party || turn_stage(s, d, &q->party) == 0;
    if (is_staged) {
        move_to(s, d, &q->party);
    }
    q->is_pinned = false;
    if (!is_staged) {
        site_settle_party(s, &q->party); /* it may be new */
    }
    return is_staged;
}

static bool place_at_site(struct sched *s, struct sched_destination *d,
                          const struct sched_hosts_result *r, struct site *site)
{
    if (site != d->party->site) {
        avoidance_forget_all(s, d);
    }
    /* One that was remembered for longer stands behind another one in the list. */
    if (list_is_linked(&site->remembered) && s->now - site->last_used >= site_memory(s, site)) {
        lane_forget_all(s, site);
    }
    const struct list_key k = {.site = site,
                               .servers = r->servers,
                               .avoided = avoidance_mask(d),
                               .count = r->server_count,
                               .tls = r->tls,
                               .pool = d->pool};
    return place_at(s, d, &k, avoidance_reason(d));
}

void site_place(struct sched *s, struct sched_destination *d, const struct sched_hosts_result *r)
{
    struct site *site = r->site.len == 0 ? NULL : site_find(s, r->site);
    if (site == NULL && r->site.len > 0) {
        site = new_site(s, r->site);
    }
    bool is_placed = false;
    if (site != NULL) {
        site->is_pinned = true;
        is_placed = place_at_site(s, d, r, site);
        site->is_pinned = false;
        site_settle(s, site);
    }
    if (!is_placed) {
        avoidance_forget_all(s, d);
        server_set(s, &d->own, r->servers, r->server_count);
        move_to(s, d, &d->own);
    }
}

/* Its servers as they were given. */
static void copy_servers(const struct party *p, struct sched_server *ret)
{
    for (uint32_t i = 0; i < p->server_count; i++) {
        const struct server *server = &p->servers[i];
        ret[i] = (struct sched_server){.key_len = server->host->key_len,
                                       .preference = server->preference,
                                       .families = server->families,
                                       .name = server->name};
        memcpy(ret[i].key, server->host->key, server->host->key_len);
    }
}

bool site_move_avoiding(struct sched *s, struct sched_destination *d, struct reason *reason)
{
    struct site *site = d->party->site;
    struct sched_server servers[SCHED_SERVERS_MAX];
    copy_servers(d->party, servers);
    const struct list_key k = {.site = site,
                               .servers = servers,
                               .avoided = avoidance_mask(d),
                               .count = d->party->server_count,
                               .tls = shared_party_of(d->party)->tls,
                               .pool = d->pool};
    site->is_pinned = true;
    bool is_placed = place_at(s, d, &k, reason);
    site->is_pinned = false;
    site_settle(s, site);
    return is_placed;
}

void site_free_all(struct sched *s)
{
    list_foreach_safe(site, &s->all_sites, struct site, all)
    {
        list_foreach_safe(q, &site->parties, struct shared_party, in_site)
        {
            free_party(s, q);
        }
        site->busy = 0;
        free_site(s, site);
    }
    heap_fini(&s->lane_timers);
    heap_fini(&s->avoidance_timers);
}
