/* Sites: which destinations stand in which party, and where selection finds them. Called by
 * destination (answers of the resolver, what waits), parking and party. What a lane learns is
 * sched/place/lane.c.
 *
 * A lane that gets room, or loses it, is one step for its site, however many destinations wait
 * there: selection finds the site by the first job parked at any of its parties that need a new
 * connection, and the party by the first job parked at any of its members. */
#include "sched/place/site.h"

#include "base/hash.h"
#include "sched/parking.h"
#include "sched/place/host_queue.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SITES_MAX      100000
#define LANES_MAX      300000
#define FORGOTTEN_MOST 16 /* by one call: bounds its time, and is more than one call can make */

static uint64_t member_key(const struct tree_node *n)
{
    return parking_first_position(container_of(n, const struct sched_destination, own.in_ready));
}

static uint64_t standing_key(const struct tree_node *n)
{
    return party_first_position(container_of(n, const struct party, in_ready));
}

static uint64_t stand_key(const struct tree_node *n)
{
    return standing_key(container_of(n, const struct site_stand, in_ready)->parties.first);
}

void site_init_all(struct sched *s)
{
    list_init(&s->all_sites);
    list_init(&s->remembered);
    tree_init(&s->ready_sites, stand_key);
    heap_init(&s->lane_timers, s->host.alloc, s->host.release, s->host.ctx);
}

struct slice site_key(const struct site *site)
{
    return slice_make(site->key, site->key_len);
}

/* --- where selection finds it ----------------------------------------------------------------- */

static bool stand_is_up(const struct site *site, const struct site_stand *stand)
{
    return (site->room & (uint8_t)(stand - site->stands + 1)) != 0;
}

static struct site_stand *stand_of(const struct party *p)
{
    assert(p->families > 0 && p->families <= SITE_FAMILIES);
    return &p->site->stands[p->families - 1];
}

static void file_stand(struct sched *s, const struct site *site, struct site_stand *stand)
{
    if (tree_node_is_linked(&stand->in_ready)) {
        tree_remove(&s->ready_sites, &stand->in_ready);
    }
    if (!tree_is_empty(&stand->parties) && stand_is_up(site, stand)) {
        tree_insert(&s->ready_sites, &stand->in_ready);
    }
}

void site_file(struct sched *s, struct party *p)
{
    struct site_stand *stand = NULL;
    if (tree_node_is_linked(&p->in_ready)) {
        struct tree *t = &s->ready[OPEN_NOW];
        if (p->ready_in == OPEN_SLOT) {
            stand = stand_of(p);
            t = &stand->parties;
        }
        tree_remove(t, &p->in_ready);
    }
    if (party_has_parked(p) && p->work == OPEN_NOW) {
        tree_insert(&s->ready[OPEN_NOW], &p->in_ready);
        p->site->has_missed |= party_first_position(p) < s->passed;
    } else if (party_has_parked(p) && p->work == OPEN_SLOT) {
        stand = stand_of(p);
        tree_insert(&stand->parties, &p->in_ready);
    }
    p->ready_in = p->work;
    if (stand != NULL) {
        file_stand(s, p->site, stand);
    }
}

static void count_site(struct sched *s, struct site *site)
{
    bool is_counted = false;
    for (int i = 0; i < SITE_FAMILIES; i++) {
        const struct site_stand *stand = &site->stands[i];
        is_counted = is_counted || (stand->count > 0 && stand_is_up(site, stand));
    }
    s->with_work[OPEN_SLOT] += is_counted - site->is_counted;
    site->is_counted = is_counted;
}

static void count_work(struct sched *s, struct party *p, int change)
{
    p->site->work[p->work] += change;
    if (p->work == OPEN_SLOT) {
        stand_of(p)->count += change;
        count_site(s, p->site);
    } else {
        s->with_work[p->work] += change;
    }
}

void site_set_work(struct sched *s, struct party *p, enum openness work)
{
    count_work(s, p, -1);
    p->work = work;
    count_work(s, p, 1);
}

bool site_party_is_open(const struct sched *s, const struct party *p)
{
    switch (p->work) {
    case OPEN_NOW:
        return true;
    case OPEN_SLOT:
        return (p->site->room & p->families) != 0 && connection_has_slot(s);
    case OPEN_HOST:
        return connection_has_slot(s) && server_has_room(p, p->site->room);
    case OPEN_NOT:
    case OPEN_COUNT:
    default:
        return false;
    }
}

static bool blocks_jobs(const struct sched *s, const struct site *site)
{
    if (site->tag == s->tag || site->has_missed) {
        return true;
    }
    for (int i = 0; i < SITE_FAMILIES; i++) {
        const struct site_stand *stand = &site->stands[i];
        if (!tree_is_empty(&stand->parties) && standing_key(stand->parties.first) < s->passed) {
            return true;
        }
    }
    return site->work[OPEN_HOST] > 0;
}

void site_reconsider(struct sched *s, struct site *site)
{
    bool is_open = site->is_counted || site->work[OPEN_NOW] + site->work[OPEN_HOST] > 0;
    if (is_open && blocks_jobs(s, site)) {
        site->has_missed = false;
        job_unblock_all(s);
    }
}

/* A party that needs a host with room stands at its hosts itself: a step for each of those. */
static void review_host_queue(struct sched *s, struct site *site)
{
    if (site->work[OPEN_HOST] == 0) {
        return;
    }
    list_foreach(q, &site->parties, struct shared_party, in_site)
    {
        if (q->party.work == OPEN_HOST) {
            host_queue_update(s, &q->party);
        }
    }
}

void site_review(struct sched *s, struct site *site)
{
    uint8_t room = 0;
    int limit = s->config.site_concurrency_limit;
    for (uint32_t i = 0; i < site->lane_count && (limit == 0 || site->busy < limit); i++) {
        const struct site_lane *l = &site->lanes[i];
        if (lane_has_room(l)) {
            room |= s->sources[l->source].families;
        }
    }
    if (room == site->room) {
        return;
    }
    bool has_gained = (room & ~site->room) != 0;
    site->room = room;
    for (int i = 0; i < SITE_FAMILIES; i++) {
        file_stand(s, site, &site->stands[i]);
    }
    count_site(s, site);
    review_host_queue(s, site);
    if (has_gained) {
        site_reconsider(s, site);
        placement_slot_opened(s);
    }
}

void site_bar(struct sched *s, struct site *site, struct reason *reason)
{
    bool was_pinned = site->is_pinned;
    site->is_pinned = true;
    site->reason = reason_get(reason);
    shared_set(&site->is_barred, true);
    list_foreach_safe(q, &site->parties, struct shared_party, in_site)
    {
        bool was_party_pinned = q->is_pinned;
        q->is_pinned = true;
        list_foreach_safe(d, &q->members, struct sched_destination, in_party)
        {
            if (d->waiting > 0) {
                destination_drop_waiting(s, d, SCHED_DEFER, reason);
                destination_settle(s, d);
            }
        }
        q->is_pinned = was_party_pinned;
        site_settle_party(s, &q->party);
    }
    site->is_pinned = was_pinned;
    placement_slot_opened(s); /* what was displaced is exhausted now */
}

void site_unbar(struct sched *s, struct site *site)
{
    if (site->is_barred) {
        shared_set(&site->is_barred, false);
        reason_put(s, site->reason);
        site->reason = NULL;
    }
}

/* --- members ---------------------------------------------------------------------------------- */

/* Nothing of its own bars it; its lanes may. */
static bool is_willing(const struct sched *s, const struct sched_destination *d)
{
    return d->waiting > 0 && destination_is_ready(d) && !d->lacks_hosts &&
           (s->config.destination_rate_delay == 0 || d->in_flight == 0);
}

void site_file_member(struct sched *s, struct sched_destination *d)
{
    struct shared_party *q = shared_party_of(d->party);
    struct tree_node *n = &d->own.in_ready;
    bool is_first = tree_node_is_linked(n) && q->queue.first == n;
    if (tree_node_is_linked(n)) {
        tree_remove(&q->queue, n);
    }
    if (d->is_willing && !tree_is_empty(&d->parked)) {
        tree_insert(&q->queue, n);
        is_first = is_first || q->queue.first == n;
    }
    if (is_first) {
        parking_update(s, &q->party);
    }
}

static void count_member(struct sched_destination *d, bool is_there)
{
    struct site *site = d->party->site;
    bool is_occupied = is_there && d->waiting + d->in_flight > 0;
    int waiting = is_there ? d->waiting : 0;
    shared_add(&site->occupied, is_occupied - d->is_occupied);
    shared_add(&site->waiting, waiting - d->counted_waiting);
    d->is_occupied = is_occupied;
    d->counted_waiting = waiting;
}

static void set_willing(struct sched *s, struct sched_destination *d, bool is_now)
{
    if (is_now != d->is_willing) {
        d->is_willing = is_now;
        shared_party_of(d->party)->willing += is_now ? 1 : -1;
        site_file_member(s, d);
    }
    party_recount(s, d->party);
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
    if (was_own) {
        destination_leave_own(s, d);
    }
    list_push_back(&q->members, &d->in_party);
    if (d->tag == s->tag) {
        destination_mark(s, d); /* and the site */
    }
    destination_recount(s, d);
    if (q->party.site->is_barred) {
        destination_drop_waiting(s, d, SCHED_DEFER, q->party.site->reason);
    }
}

void site_leave(struct sched *s, struct sched_destination *d)
{
    struct party *p = d->party;
    if (p == &d->own) {
        return;
    }
    set_willing(s, d, false);
    count_member(d, false);
    list_remove(&d->in_party);
    set_party(d, &d->own);
    site_settle_party(s, p);
}

/* --- parties ---------------------------------------------------------------------------------- */

struct list_key {
    const struct site *site;
    const struct sched_server *servers;
    uint32_t count, tls;
};

static uint64_t list_hash(const struct sched *s, const struct list_key *k)
{
    uint64_t hash = k->site->node.hash ^ k->tls;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct sched_server *server = &k->servers[i];
        uint32_t rest[3] = {server->preference, server->families, server->name};
        hash = hash_bytes(server->key, server->key_len, hash ^ s->hash_seed);
        hash = hash_bytes(rest, sizeof(rest), hash);
    }
    return hash;
}

static uint8_t families_of(const struct sched_server *server)
{
    return server->families == 0 ? SITE_FAMILIES : server->families;
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
    if (q->party.site != k->site || q->tls != k->tls || q->party.server_count != k->count) {
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
    count_work(s, &q->party, -1);
    s->host.retire(s->host.ctx, q);
}

static void free_lingering(struct sched *s, struct shared_party *q)
{
    while (!list_is_empty(&q->members)) {
        struct sched_destination *d = list_first(&q->members, struct sched_destination, in_party);
        if (!d->is_lingering) {
            break;
        }
        destination_free(s, d);
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

/* NULL when out of memory. */
static struct shared_party *new_party(struct sched *s, struct site *site, const struct list_key *k,
                                      uint64_t hash)
{
    struct shared_party *q = s->host.alloc(s->host.ctx, sizeof(*q));
    if (q == NULL) {
        return NULL;
    }
    memset(q, 0, sizeof(*q));
    q->party.site = site;
    q->party.families = SITE_FAMILIES;
    q->tls = k->tls;
    q->node.hash = hash;
    list_init(&q->members);
    tree_node_init(&q->party.in_ready);
    tree_init(&q->queue, member_key);
    if (table_reserve(&s->by_list) != 0) {
        s->host.release(s->host.ctx, q);
        return NULL;
    }
    list_push_back(&site->parties, &q->in_site);
    count_work(s, &q->party, 1);
    table_insert(&s->by_list, &q->node);
    server_set(s, &q->party, k->servers, k->count);
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
    assert(list_is_empty(&site->parties) && site->occupied == 0 && site->busy == 0);
    table_remove(&s->sites, &site->node);
    list_remove(&site->all);
    list_remove(&site->remembered);
    lane_free_all(s, site);
    reason_put(s, site->reason);
    s->host.retire(s->host.ctx, site);
}

static bool is_full(const struct sched *s)
{
    return s->sites.count >= SITES_MAX || s->sites.count * (uint64_t)s->source_count >= LANES_MAX;
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
    list_init(&site->remembered);
    for (int i = 0; i < SITE_FAMILIES; i++) {
        tree_init(&site->stands[i].parties, standing_key);
        tree_node_init(&site->stands[i].in_ready);
    }
    if (lane_new_all(s, site) != 0) {
        s->host.release(s->host.ctx, site);
        return NULL;
    }
    list_push_back(&s->all_sites, &site->all);
    table_insert(&s->sites, &site->node);
    site_review(s, site);
    return site;
}

/* Without mail: what was learned is kept for lane_memory, and where that is none not at all; what a
 * dead lane waits for outlives its mail in any case. */
void site_settle(struct sched *s, struct site *site)
{
    if (site->is_pinned || site->occupied > 0 || lane_is_in_flight(site)) {
        list_remove(&site->remembered);
        return;
    }
    if (s->config.lane_memory == 0) {
        lane_forget_all(s, site);
    }
    bool is_gone = list_is_empty(&site->parties) && !lane_is_away(site);
    if (!is_gone) {
        list_remove(&site->remembered);
    }
    if (is_gone && s->config.lane_memory == 0) {
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
        for (uint32_t i = 0; i < site->lane_count; i++) {
            list_foreach_safe(c, &site->lanes[i].lane.open, struct connection, in_lane)
            {
                if (c->host != NULL) {
                    connection_retire(s, c);
                }
            }
        }
    }
    site_settle_all(s);
}

void site_tick(struct sched *s)
{
    for (int i = 0; i < FORGOTTEN_MOST && !list_is_empty(&s->remembered); i++) {
        struct site *site = list_first(&s->remembered, struct site, remembered);
        if (s->now - site->last_used < s->config.lane_memory) {
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

static bool is_only_member(const struct sched_destination *d, const struct site *site, uint32_t tls)
{
    if (d->party->site != site) {
        return false;
    }
    const struct shared_party *q = shared_party_of(d->party);
    return q->tls == tls && q->members.next == q->members.prev;
}

static void move_to(struct sched *s, struct sched_destination *d, struct party *to)
{
    struct party *from = d->party;
    if (from == to) {
        return;
    }
    server_move_tried(s, d, from, to);
    site_leave(s, d);
    if (to != &d->own) {
        join_party(s, d, shared_party_of(to));
    } else {
        destination_recount(s, d);
    }
}

/* false: there is no memory for it. */
static bool place_at_site(struct sched *s, struct sched_destination *d,
                          const struct sched_hosts_result *r, struct site *site)
{
    const struct list_key k = {site, r->servers, r->server_count, r->tls};
    uint64_t hash = list_hash(s, &k);
    struct shared_party *q = find_party(s, &k, hash);
    if (q == NULL && is_only_member(d, site, r->tls)) {
        return change_party(s, shared_party_of(d->party), &k, hash);
    }
    if (q == NULL) {
        q = new_party(s, site, &k, hash);
    }
    if (q == NULL) {
        return false;
    }
    q->is_pinned = true;
    move_to(s, d, &q->party);
    q->is_pinned = false;
    return true;
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
        server_set(s, &d->own, r->servers, r->server_count);
        move_to(s, d, &d->own);
    }
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
}
