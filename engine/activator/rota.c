/* Owns the parties and the heaps of those that wait. Called by the activator; knows no mail. */
#include "engine/activator/rota.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS_LEAST = 16, POOR = 2, WEIGHT_MAX = 1000, NAME_BYTES = 64, RESERVE = 8 };

struct rota_party {
    struct heap_node node;    /* in rota.waiting of its class while some flow waits */
    struct heap waiting;      /* its flows that wait */
    struct list poor;         /* in rota.poor_parties: some flow waits, and it has fewer than two */
    struct rota_party *chain; /* of the same hash */
    uint32_t hash;
    uint32_t weight;
    uint32_t active; /* places of its flows */
    uint32_t flows;  /* bound to it */
    uint8_t class, len;
    char tenant[];
};

void rota_init(struct rota *r)
{
    *r = (struct rota){.floor = 10, .seed = hash_random_seed()};
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        heap_init(&r->waiting[c], NULL, NULL, NULL);
        list_init(&r->poor_flows[c]);
        list_init(&r->poor_parties[c]);
    }
}

static void free_party(struct rota_party *p)
{
    heap_fini(&p->waiting);
    free(p);
}

void rota_fini(struct rota *r)
{
    for (uint32_t i = 0; i < r->chain_count; i++) {
        while (r->chains[i] != NULL) {
            struct rota_party *p = r->chains[i];
            r->chains[i] = p->chain;
            free_party(p);
        }
    }
    free(r->chains);
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        heap_fini(&r->waiting[c]);
    }
}

/* --- parties ---------------------------------------------------------------------------------- */

static struct slice cut(struct slice tenant)
{
    return tenant.len > NAME_BYTES ? slice_to(tenant, NAME_BYTES) : tenant;
}

static bool is_party(const struct rota_party *p, enum mail_class class, struct slice tenant)
{
    return p->class == class && slice_ieq(slice_make(p->tenant, p->len), cut(tenant));
}

bool rota_is_bound(const struct rota_flow *f, enum mail_class class, struct slice tenant)
{
    return f->party != NULL && is_party(f->party, class, tenant);
}

/* More chains; without memory they become longer. false: there are none at all */
static bool reserve_chain(struct rota *r)
{
    if (r->count < r->chain_count) {
        return true;
    }
    uint32_t count = r->chain_count == 0 ? CHAINS_LEAST : 2 * r->chain_count;
    struct rota_party **chains = calloc(count, sizeof(struct rota_party *));
    if (chains == NULL) {
        return r->chain_count > 0;
    }
    for (uint32_t i = 0; i < r->chain_count; i++) {
        while (r->chains[i] != NULL) {
            struct rota_party *p = r->chains[i];
            r->chains[i] = p->chain;
            p->chain = chains[p->hash & (count - 1)];
            chains[p->hash & (count - 1)] = p;
        }
    }
    free(r->chains);
    r->chains = chains;
    r->chain_count = count;
    return true;
}

/* NULL: no memory */
static struct rota_party *obtain(struct rota *r, enum mail_class class, struct slice tenant)
{
    char lower[NAME_BYTES];
    tenant = cut(tenant);
    slice_lower(tenant, lower);
    uint32_t hash = (uint32_t)hash_bytes(lower, tenant.len, r->seed + class);
    struct rota_party *p = r->chain_count == 0 ? NULL : r->chains[hash & (r->chain_count - 1)];
    while (p != NULL && !(p->hash == hash && is_party(p, class, tenant))) {
        p = p->chain;
    }
    if (p != NULL) {
        return p;
    }
    p = reserve_chain(r) ? calloc(1, sizeof(*p) + tenant.len) : NULL;
    if (p == NULL) {
        return NULL;
    }
    heap_init(&p->waiting, NULL, NULL, NULL);
    list_init(&p->poor);
    p->hash = hash;
    p->weight = 1;
    p->class = (uint8_t) class;
    p->len = (uint8_t)tenant.len;
    memcpy(p->tenant, lower, tenant.len);
    p->chain = r->chains[hash & (r->chain_count - 1)];
    r->chains[hash & (r->chain_count - 1)] = p;
    r->count++;
    return p;
}

static void leave(struct rota *r, struct rota_party *p)
{
    if (p == NULL || --p->flows > 0) {
        return;
    }
    struct rota_party **at = &r->chains[p->hash & (r->chain_count - 1)];
    while (*at != p) {
        at = &(*at)->chain;
    }
    *at = p->chain;
    r->count--;
    free_party(p);
}

void rota_flow_init(struct rota_flow *f)
{
    *f = (struct rota_flow){.party = NULL};
    list_init(&f->poor);
}

/* --- who waits -------------------------------------------------------------------------------- */

/* The places that a party has, for its weight. */
static int64_t party_key(const struct rota_party *p)
{
    return (int64_t)p->active * WEIGHT_MAX / p->weight;
}

static void set_poor(struct list *head, struct list *node, bool is_poor)
{
    if (is_poor != list_is_linked(node)) {
        if (is_poor) {
            list_push_back(head, node);
        } else {
            list_remove(node);
        }
    }
}

static void place_poor(struct rota *r, struct rota_flow *f)
{
    struct rota_party *p = f->party;
    set_poor(&r->poor_flows[p->class], &f->poor, rota_is_waiting(f) && f->active < POOR);
    set_poor(&r->poor_parties[p->class], &p->poor, p->node.position != 0 && p->active < POOR);
}

int rota_wait(struct rota *r, struct rota_flow *f)
{
    struct rota_party *p = f->party;
    if (rota_is_waiting(f)) {
        return 0;
    }
    int err = heap_insert(&p->waiting, &f->waiting, (int64_t)f->active);
    if (err == 0 && p->node.position == 0) {
        err = heap_insert(&r->waiting[p->class], &p->node, party_key(p));
        if (err != 0) {
            heap_remove(&p->waiting, &f->waiting);
        }
    }
    if (err == 0) {
        r->waiting_flows++;
        place_poor(r, f);
    }
    return err;
}

void rota_rest(struct rota *r, struct rota_flow *f)
{
    if (!rota_is_waiting(f)) {
        return;
    }
    struct rota_party *p = f->party;
    heap_remove(&p->waiting, &f->waiting);
    if (heap_min(&p->waiting) == NULL) {
        heap_remove(&r->waiting[p->class], &p->node);
    }
    r->waiting_flows--;
    place_poor(r, f);
}

void rota_count(struct rota *r, struct rota_flow *f, int change)
{
    struct rota_party *p = f->party;
    f->active += (uint32_t)change;
    p->active += (uint32_t)change;
    r->active[p->class] += (uint32_t)change;
    if (rota_is_waiting(f)) {
        heap_move(&p->waiting, &f->waiting, (int64_t)f->active);
    }
    if (p->node.position != 0) {
        heap_move(&r->waiting[p->class], &p->node, party_key(p));
        place_poor(r, f);
    }
}

int rota_bind(struct rota *r, struct rota_flow *f, enum mail_class class, struct slice tenant,
              uint32_t weight)
{
    assert(!rota_is_waiting(f) && f->active == 0);
    struct rota_party *p = obtain(r, class, tenant);
    if (p == NULL) {
        return -ENOMEM;
    }
    p->flows++;
    leave(r, f->party);
    f->party = p;
    p->weight = weight > 0 ? weight : 1;
    if (p->node.position != 0) {
        heap_move(&r->waiting[p->class], &p->node, party_key(p));
    }
    return 0;
}

void rota_weigh(struct rota *r, uint32_t (*weight)(void *ctx, struct slice tenant), void *ctx)
{
    for (uint32_t i = 0; i < r->chain_count; i++) {
        for (struct rota_party *p = r->chains[i]; p != NULL; p = p->chain) {
            uint32_t now = weight(ctx, slice_make(p->tenant, p->len));
            p->weight = now > 0 ? now : 1;
            if (p->node.position != 0) {
                heap_move(&r->waiting[p->class], &p->node, party_key(p));
            }
        }
    }
}

/* --- whose turn it is ------------------------------------------------------------------------- */

static bool waits(const struct rota *r, enum mail_class class)
{
    return r->waiting[class].count > 0;
}

/* The class that goes first of those that wait; MAIL_CLASS_COUNT: none does. */
static enum mail_class next_class(const struct rota *r)
{
    uint64_t low = (uint64_t)r->active[MAIL_NORMAL] + r->active[MAIL_BULK];
    uint64_t all = low + r->active[MAIL_URGENT];
    bool is_low_short = low * 100 < all * r->floor;
    bool is_bulk_short = (uint64_t)r->active[MAIL_BULK] * 100 < low * r->floor;
    bool low_waits = waits(r, MAIL_NORMAL) || waits(r, MAIL_BULK);
    if (waits(r, MAIL_URGENT) && !(low_waits && is_low_short)) {
        return MAIL_URGENT;
    }
    if (waits(r, MAIL_NORMAL) && !(waits(r, MAIL_BULK) && is_bulk_short)) {
        return MAIL_NORMAL;
    }
    return waits(r, MAIL_BULK) ? MAIL_BULK : MAIL_CLASS_COUNT;
}

/* Of a party that waits. */
static struct rota_flow *first_of(const struct rota_party *p)
{
    struct heap_node *first = heap_min(&p->waiting);
    assert(first != NULL);
    return container_of(first, struct rota_flow, waiting);
}

/* Places that only poor flows may take, and half of these only poor parties. */
static uint32_t reserve(const struct rota_room *room)
{
    return room->places / RESERVE;
}

static uint32_t left(const struct rota_room *room)
{
    return room->used < room->places ? room->places - room->used : 0;
}

bool rota_has_room(const struct rota_room *room)
{
    return left(room) > reserve(room);
}

static struct rota_flow *next_poor(const struct rota *r, bool takes_flows)
{
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        const struct list *flows = &r->poor_flows[c], *parties = &r->poor_parties[c];
        if (takes_flows && !list_is_empty(flows)) {
            return list_first(flows, struct rota_flow, poor);
        }
        if (!list_is_empty(parties)) {
            return first_of(list_first(parties, struct rota_party, poor));
        }
    }
    return NULL;
}

struct rota_flow *rota_next(const struct rota *r, const struct rota_room *room)
{
    if (r->waiting_flows == 0 || left(room) == 0) {
        return NULL;
    }
    if (!rota_has_room(room)) {
        return next_poor(r, left(room) > reserve(room) / 2);
    }
    struct heap_node *first = heap_min(&r->waiting[next_class(r)]);
    assert(first != NULL);
    return first_of(container_of(first, struct rota_party, node));
}

void rota_pass(struct rota *r, struct rota_flow *f)
{
    struct rota_party *p = f->party;
    if (!rota_is_waiting(f)) {
        return;
    }
    /* The places are there: they had these nodes a moment ago. */
    heap_remove(&p->waiting, &f->waiting);
    heap_remove(&r->waiting[p->class], &p->node);
    int err = heap_insert(&p->waiting, &f->waiting, (int64_t)f->active);
    err = err == 0 ? heap_insert(&r->waiting[p->class], &p->node, party_key(p)) : err;
    assert(err == 0);
    if (list_is_linked(&f->poor)) {
        list_remove(&f->poor);
    }
    if (list_is_linked(&p->poor)) {
        list_remove(&p->poor);
    }
    place_poor(r, f);
}

/* As rota_next decides of one that waits. */
static bool has_room_for(const struct rota_flow *f, const struct rota_room *room)
{
    uint32_t free_places = left(room);
    return free_places > reserve(room) || (free_places > reserve(room) / 2 && f->active < POOR) ||
           (free_places > 0 && f->party->active < POOR);
}

bool rota_may_enter(struct rota *r, struct rota_flow *f, const struct rota_room *room)
{
    if (r->waiting_flows == 0) {
        return has_room_for(f, room);
    }
    bool was_waiting = rota_is_waiting(f);
    if (rota_wait(r, f) != 0) {
        return false;
    }
    bool is_next = rota_next(r, room) == f;
    if (!was_waiting) {
        rota_rest(r, f);
    }
    return is_next;
}
