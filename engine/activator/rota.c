/* Owns the parties and the heaps of those that wait. Called by the activator; knows no mail. */
#include "engine/activator/rota.h"

#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS_LEAST = 16, POOR = 2, WEIGHT_MAX = 1000, NAME_BYTES = 64, RESERVE = 8 };

struct rota_party {
    /* What each place that is given or taken reads and writes, within a line of the cache. */
    uint32_t active; /* places of its flows */
    uint32_t weight;
    struct heap_node node; /* in rota.waiting of its class while some flow waits */
    uint32_t hash;
    uint32_t flows; /* bound to it */
    uint8_t class, len;
    struct rota_party *chain; /* of the same hash */
    struct list poor;         /* in rota.poor_parties: some flow waits, and it has fewer than two */
    struct list all;          /* its flows */
    struct heap waiting;      /* its flows that wait */
    struct heap_node giver;   /* in rota.giving of its class during a plan */
    /* During a plan, once the party was looked at: its flows that have places to give. */
    struct heap giving;
    char tenant[];
};

void rota_init(struct rota *r)
{
    *r = (struct rota){.floor = 10, .seed = hash_random_seed()};
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        heap_init(&r->waiting[c], NULL, NULL, NULL);
        heap_init(&r->giving[c], NULL, NULL, NULL);
        list_init(&r->poor_flows[c]);
        list_init(&r->poor_parties[c]);
    }
}

static void free_party(struct rota_party *p)
{
    heap_fini(&p->waiting);
    heap_fini(&p->giving);
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
        heap_fini(&r->giving[c]);
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
    heap_init(&p->giving, NULL, NULL, NULL);
    list_init(&p->poor);
    list_init(&p->all);
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
    list_init(&f->in_party);
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

static uint32_t poor_places(const struct rota_party *p)
{
    return p->active <= POOR ? p->active : 0;
}

static void add_places(struct rota *r, struct rota_flow *f, int change)
{
    struct rota_party *p = f->party;
    r->poor_places -= poor_places(p);
    f->active += (uint32_t)change;
    p->active += (uint32_t)change;
    r->poor_places += poor_places(p);
    r->active[p->class] += (uint32_t)change;
    if (rota_is_waiting(f)) {
        heap_move(&p->waiting, &f->waiting, (int64_t)f->active);
    }
    if (p->node.position != 0) {
        heap_move(&r->waiting[p->class], &p->node, party_key(p));
    }
}

void rota_count(struct rota *r, struct rota_flow *f, int change)
{
    add_places(r, f, change);
    if (f->party->node.position != 0) {
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
    if (f->party != NULL) {
        list_remove(&f->in_party);
    }
    leave(r, f->party);
    f->party = p;
    f->fixed = 0;
    list_push_back(&p->all, &f->in_party);
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

static uint64_t low_places(const struct rota *r)
{
    return (uint64_t)r->active[MAIL_NORMAL] + r->active[MAIL_BULK];
}

/* Whether a part of some places is less than the floor. */
static bool is_short(const struct rota *r, uint64_t part, uint64_t places)
{
    return part * 100 < places * r->floor;
}

/* The class that goes first of those that wait; MAIL_CLASS_COUNT: none does. */
static enum mail_class next_class(const struct rota *r)
{
    const uint64_t low = low_places(r);
    bool low_waits = waits(r, MAIL_NORMAL) || waits(r, MAIL_BULK);
    bool is_low_short = is_short(r, low, low + r->active[MAIL_URGENT]);
    bool is_bulk_short = is_short(r, r->active[MAIL_BULK], low);
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

/* --- who gives places back -------------------------------------------------------------------- */

/* A plan moves places in the numbers, one after the other, to who goes next, and puts all of them
 * back in the end. */

void rota_fix(struct rota_flow *f)
{
    f->fixed++;
}

void rota_unfix(struct rota *r)
{
    for (uint32_t i = 0; i < r->chain_count; i++) {
        for (struct rota_party *p = r->chains[i]; p != NULL; p = p->chain) {
            list_foreach(f, &p->all, struct rota_flow, in_party)
            {
                f->fixed = 0;
            }
        }
    }
}

/* The flow of the party that has most places, of those that have some to give. NULL: none has */
static struct rota_flow *richest_of(struct rota_party *p)
{
    struct heap_node *first = heap_min(&p->giving);
    return first == NULL ? NULL : container_of(first, struct rota_flow, giving);
}

static struct rota_party *richest(const struct rota *r, int class)
{
    struct heap_node *first = heap_min(&r->giving[class]);
    return first == NULL ? NULL : container_of(first, struct rota_party, giver);
}

/* One with fewer than two places would take the next one of the reserve. */
static bool has_to_give(const struct rota_flow *f)
{
    return f->active > f->fixed && f->active > POOR;
}

/* The places for its weight that a party has left when it gives one, the most first. */
static int64_t giver_key(const struct rota_party *p)
{
    return -((int64_t)p->active - 1) * WEIGHT_MAX * WEIGHT_MAX / p->weight;
}

/* false: no memory */
static bool begin_party(struct rota *r, struct rota_party *p)
{
    list_foreach(f, &p->all, struct rota_flow, in_party)
    {
        if (has_to_give(f) && heap_insert(&p->giving, &f->giving, -(int64_t)f->active) != 0) {
            return false;
        }
    }
    return p->giving.count == 0 || heap_insert(&r->giving[p->class], &p->giver, giver_key(p)) == 0;
}

static bool begin_plan(struct rota *r)
{
    for (uint32_t i = 0; i < r->chain_count; i++) {
        for (struct rota_party *p = r->chains[i]; p != NULL; p = p->chain) {
            if (p->active > 0 && !begin_party(r, p)) {
                return false;
            }
        }
    }
    return true;
}

static void end_plan(struct rota *r)
{
    for (uint32_t i = 0; i < r->chain_count; i++) {
        for (struct rota_party *p = r->chains[i]; p != NULL; p = p->chain) {
            for (struct rota_flow *f; (f = richest_of(p)) != NULL;) {
                heap_remove(&p->giving, &f->giving);
            }
            if (p->giver.position != 0) {
                heap_remove(&r->giving[p->class], &p->giver);
            }
        }
    }
}

/* Its number has changed: of a flow that may have places to give. */
static void move_giver(struct rota *r, struct rota_flow *f)
{
    struct rota_party *p = f->party;
    if (f->giving.position != 0 && has_to_give(f)) {
        heap_move(&p->giving, &f->giving, -(int64_t)f->active);
    } else if (f->giving.position != 0) {
        heap_remove(&p->giving, &f->giving);
    }
    if (p->giver.position != 0 && p->giving.count > 0) {
        heap_move(&r->giving[p->class], &p->giver, giver_key(p));
    } else if (p->giver.position != 0) {
        heap_remove(&r->giving[p->class], &p->giver);
    }
}

static void move(struct rota *r, struct rota_flow *from, struct rota_flow *to)
{
    add_places(r, from, -1);
    move_giver(r, from);
    add_places(r, to, 1);
    move_giver(r, to);
}

/* Whether a place that one class gives up goes to the other one by next_class, when it is free and
 * both wait. */
static bool may_pay(const struct rota *r, enum mail_class from, enum mail_class to)
{
    const uint64_t low = low_places(r), all = low + r->active[MAIL_URGENT];
    if (to == MAIL_URGENT) {
        return !is_short(r, low - 1, all - 1);
    }
    if (from == MAIL_URGENT) {
        return is_short(r, low, all - 1);
    }
    return to == MAIL_NORMAL ? !is_short(r, r->active[MAIL_BULK] - 1, low - 1)
                             : is_short(r, r->active[MAIL_BULK], low - 1);
}

/* Whether a place may go from one party to another one of its class. */
static bool has_more(const struct rota_party *p, const struct rota_party *next)
{
    return p != next &&
           (uint64_t)(p->active - 1) * next->weight >= (uint64_t)(next->active + 1) * p->weight;
}

/* Who gives a place to the party, which goes first of its class. NULL: nobody has to */
static struct rota_flow *giver_for(const struct rota *r, const struct rota_party *next)
{
    for (int c = MAIL_CLASS_COUNT - 1; c >= 0; c--) {
        struct rota_party *p = richest(r, c);
        if (p != NULL &&
            (c == next->class ? has_more(p, next)
                              : may_pay(r, (enum mail_class)c, (enum mail_class)next->class))) {
            return richest_of(p);
        }
    }
    return NULL;
}

struct plan {
    struct rota_flow **from, **to; /* [most] */
    uint32_t count, most;
};

static void note_move(struct rota *r, struct plan *plan, struct rota_flow *from,
                      struct rota_flow *to)
{
    move(r, from, to);
    plan->from[plan->count] = from;
    plan->to[plan->count++] = to;
}

static void plan_class(struct rota *r, int class, struct plan *plan)
{
    struct heap_node *first;
    while (plan->count < plan->most && (first = heap_min(&r->waiting[class])) != NULL) {
        struct rota_party *next = container_of(first, struct rota_party, node);
        struct rota_flow *from = giver_for(r, next);
        if (from == NULL) {
            return;
        }
        note_move(r, plan, from, first_of(next));
    }
}

/* Of all classes, who has most for its weight. NULL: nobody has any to give */
static struct rota_flow *richest_of_all(const struct rota *r)
{
    struct rota_party *most = NULL;
    for (int c = MAIL_CLASS_COUNT - 1; c >= 0; c--) {
        struct rota_party *p = richest(r, c);
        most = p != NULL && (most == NULL || giver_key(p) < giver_key(most)) ? p : most;
    }
    return most == NULL ? NULL : richest_of(most);
}

/* Whoever lacks its first two places gets them out of the reserve; when that is used up by others than the
 * poor, these give some. */
static void plan_poor(struct rota *r, const struct rota_room *room, struct plan *plan)
{
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        list_foreach(p, &r->poor_parties[c], struct rota_party, poor)
        {
            struct rota_flow *from = giver_for(r, p);
            from = from == NULL ? richest_of_all(r) : from;
            if (from == NULL || plan->count == plan->most || r->poor_places >= reserve(room)) {
                return;
            }
            note_move(r, plan, from, first_of(p));
        }
    }
}

/* What one class is given another one may lack. */
static void plan_parties(struct rota *r, struct plan *plan)
{
    for (uint32_t before = UINT32_MAX; plan->count != before;) {
        before = plan->count;
        for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
            plan_class(r, c, plan);
        }
    }
}

/* Between the campaigns of a party in which some wait. */
static void plan_campaigns(struct rota *r, struct rota_party *p, struct plan *plan)
{
    while (plan->count < plan->most) {
        struct rota_flow *to = first_of(p), *from = richest_of(p);
        if (from == NULL || from == to || from->active - 1 < to->active + 1) {
            return;
        }
        note_move(r, plan, from, to);
    }
}

/* A move may change the places of parties of the same number in the heap: one that is left out by
 * that is for the next plan. */
static void plan_all_campaigns(struct rota *r, struct plan *plan)
{
    for (int c = 0; c < MAIL_CLASS_COUNT; c++) {
        for (uint32_t i = 0; i < r->waiting[c].count; i++) {
            plan_campaigns(r, container_of(r->waiting[c].nodes[i], struct rota_party, node), plan);
        }
    }
}

uint32_t rota_plan(struct rota *r, const struct rota_room *room, struct rota_flow **ret,
                   uint32_t most)
{
    if (r->waiting_flows == 0 || rota_has_room(room)) {
        return 0;
    }
    struct plan plan = {ret, calloc(most, sizeof(struct rota_flow *)), 0, most};
    if (plan.to == NULL) {
        return 0;
    }
    if (begin_plan(r)) {
        if (left(room) == 0) {
            plan_poor(r, room, &plan);
        }
        plan_parties(r, &plan);
        plan_all_campaigns(r, &plan);
    }
    end_plan(r);
    for (uint32_t i = plan.count; i > 0; i--) {
        add_places(r, ret[i - 1], 1);
        add_places(r, plan.to[i - 1], -1);
    }
    free(plan.to);
    return plan.count;
}
