/* Whose mail becomes active next, when several flows have some in the spool. What is shared out is
 * places: messages in memory. A flow is the mail of a class, tenant and campaign; a party is the
 * flows of a tenant in a class.
 *
 * The party that has the fewest places for its weight goes first, and of its flows the one that has
 * the fewest; among equals, who has waited longest since its last turn. So places that become free
 * go to whoever is below its share, whether it holds few because its receivers are fast or because
 * it came late: a slow flow's places stay where they are, and nobody gets more of them than the
 * others until all have the same (for their weights, and while they have mail). Who holds none is
 * first of all, so each party that waits gets a place before anybody that has one gets a further
 * one.
 *
 * Of classes urgent goes before normal before bulk, but normal and bulk together come first while
 * they hold less than `floor` percent of all places, and bulk while it holds less than that of what
 * these two hold.
 *
 * An eighth of the places is kept for flows that have fewer than two, and half of this for parties
 * that have fewer than two, so that many campaigns of one tenant do not take all of it: whoever
 * comes when others fill the memory has places at once. With fewer than 8 places there is no
 * reserve.
 *
 * While the memory is full and flows wait, those above their share give places back (rota_plan):
 * the party with most for its weight, and of its flows the one with most, until no place could be
 * moved to who goes next without turning the two round. So at rest, for any party with h places, of
 * which it can give some, and any of its class that waits and has k, (h - 1) / weight(h) < k /
 * weight(k) + 1 / v, v being the least weight of those of the class that wait; and of two campaigns
 * of a party the one that can give has at most one more. No flow gives of its last two places. A
 * class gives to a higher one that waits down to its floor, and to a lower one that waits up to
 * that one's. When all of the reserve is used up, and a party that waits has fewer than two places, whoever
 * has most for its weight gives one, of whatever class, as long as parties with two places and fewer hold
 * less than an eighth: so what is kept for them does not depend on what others hold.
 *
 * A choice and a change of a number cost a logarithm of the waiting flows, or nothing but a counter
 * while the flow does not wait; a plan costs a step for each party and, of those that give, for
 * each flow. Owner: the activator. Pure but for malloc. */
#ifndef ENGINE_ROTA_H
#define ENGINE_ROTA_H

#include "base/attr.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/mail_class.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct rota_party;

/* Part of what the activator knows of a flow. */
struct rota_flow {
    struct heap_node waiting; /* in its party's heap while it waits */
    struct list poor;         /* in rota.poor_flows: it waits and has fewer than two places */
    struct rota_party *party; /* NULL: not known yet */
    struct list in_party;     /* party.all */
    struct heap_node giving;  /* in its party's heap during a plan: it has places to give */
    uint32_t active;          /* places that it has */
    uint32_t fixed;           /* of them, that it could not give back when it was asked */
};

struct rota {
    struct heap waiting[MAIL_CLASS_COUNT]; /* parties that have flows which wait */
    struct list poor_flows[MAIL_CLASS_COUNT], poor_parties[MAIL_CLASS_COUNT];
    struct heap giving[MAIL_CLASS_COUNT]; /* during a plan: parties that have places to give */
    uint32_t active[MAIL_CLASS_COUNT]; /* places */
    uint32_t poor_places; /* of parties that have no more than two */
    uint32_t waiting_flows;
    uint32_t floor;              /* percent */
    struct rota_party **chains;  /* [chain_count], a power of 2 or 0 */
    uint32_t chain_count, count; /* of parties */
    uint64_t seed;
};

/* What may be in memory. */
struct rota_room {
    uint32_t places, used;
};

void rota_init(struct rota *r);
void rota_fini(struct rota *r);

void rota_flow_init(struct rota_flow *f);
/* Its class and tenant, when it is not known or neither waits nor has places: its number may have been
 * another's. The party's weight is that of `weight`. errors: -ENOMEM */
MUST_USE int rota_bind(struct rota *r, struct rota_flow *f, enum mail_class class,
                       struct slice tenant, uint32_t weight);
/* Whether the flow is as rota_bind would make it. */
MUST_USE bool rota_is_bound(const struct rota_flow *f, enum mail_class class, struct slice tenant);
/* Ask for the weight of every party again. */
void rota_weigh(struct rota *r, uint32_t (*weight)(void *ctx, struct slice tenant), void *ctx);

/* It has mail that may become active, or has none any more. It must be bound. errors: -ENOMEM */
MUST_USE int rota_wait(struct rota *r, struct rota_flow *f);
void rota_rest(struct rota *r, struct rota_flow *f);
static inline bool rota_is_waiting(const struct rota_flow *f)
{
    return f->waiting.position != 0;
}
/* It has places more or fewer. */
void rota_count(struct rota *r, struct rota_flow *f, int change);

/* Whose turn it is; NULL: nobody waits, or there is no room for any of those that wait. */
MUST_USE struct rota_flow *rota_next(const struct rota *r, const struct rota_room *room);
/* It had its turn: among equals the others go first now. */
void rota_pass(struct rota *r, struct rota_flow *f);
/* Whether a message of the flow that is in memory anyway may take a place now: there is room, and nobody
 * that waits goes before it. errors are taken for false */
MUST_USE bool rota_may_enter(struct rota *r, struct rota_flow *f, const struct rota_room *room);
/* Whether mail that belongs to no turn may take a place. */
MUST_USE bool rota_has_room(const struct rota_room *room);

/* Which flows give a place back, as many as `most`: one of each of `ret`, which may name a flow
 * more than once. Nothing changes by it. Returns how many; 0 while there is room, when nobody
 * waits, and when all have their share. Out of memory: 0 */
MUST_USE uint32_t rota_plan(struct rota *r, const struct rota_room *room, struct rota_flow **ret,
                            uint32_t most);
/* A place that a plan named cannot be given back now: no plan counts on it before rota_unfix, or
 * before the flow has fewer places. */
void rota_fix(struct rota_flow *f);
/* Every flow may be asked for all its places again. */
void rota_unfix(struct rota *r);

#endif
