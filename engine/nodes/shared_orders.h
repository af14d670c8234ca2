/* Standing orders that hold at all nodes: what is given or lifted at one travels to the others by the
 * bucket sluice_orders, whose keys are numbers that are drawn when an order is given. A key's value
 * is the order, a JSON object of version 1, and once the order was lifted, that it was. What is over
 * stays there for a day.
 *
 * An order holds at the node where it was given at once and whatever the servers do; it travels when
 * they answer. What was lifted while they did not is forgotten by a restart: then the node hears of
 * the order anew.
 *
 * Concurrency: between the owner of the order book (the fast clerk) and the thread `cluster`. What
 * both have, `known` and the list of wishes, is under `lock`, which nobody holds while he waits for
 * anything. A wish belongs to the list until the owner of the book has taken it out; the thread only
 * adds behind the last. */
#ifndef ENGINE_SHARED_ORDERS_H
#define ENGINE_SHARED_ORDERS_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/nodes/cluster_module.h"
#include "engine/nodes/inbox.h"
#include "engine/order/order.h"

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* An order that this node has, or that it lifted and has not told yet. */
struct known_order {
    struct known_order *next;
    uint64_t shared;   /* the number that it was drawn */
    uint64_t revision; /* of its value; 0: the servers have not taken it yet */
    json_t *value;     /* without the time that is left */
    usec_t until;      /* wall */
    bool must_put, is_lifted;
};

/* What another node did, for the owner of the order book. */
struct order_wish {
    struct order_wish *next;
    bool is_lift;
    uint64_t revision;
    struct order order; /* of a lift `shared` alone */
};

struct shared_orders {
    /* set at creation */
    const struct cluster_module *module;
    const char *node;
    void (*wake)(void *ctx);       /* of the thread `cluster`; any thread */
    void (*wake_owner)(void *ctx); /* of the order book's; any thread */
    void *ctx;
    pthread_mutex_t lock;
    struct inbox inbox;
    /* thread `cluster` only */
    struct cluster_client *client;
    uint64_t heard; /* the greatest revision of what the servers have now */
    usec_t retry;   /* monotonic: no put before that */
    bool has_begun; /* what there was has been told, and changes follow */
    /* owner of the order book only */
    bool is_filled; /* the book's orders are known here */
    /* under `lock` */
    struct known_order *known;
    struct order_wish *wishes, **end;
    uint64_t applied;
};

void shared_orders_init(struct shared_orders *s);
void shared_orders_fini(struct shared_orders *s);

/* --- thread `cluster` ------------------------------------------------------------------------- */

/* errors: of the module */
MUST_USE int shared_orders_open(struct shared_orders *s, struct cluster_client *client);
/* Tell what is to be told, take what was told.
 *
 * ret_applied  all that has a revision up to this one holds here, or is lifted
 * returns      whether that has changed since the last call */
bool shared_orders_work(struct shared_orders *s, uint64_t *ret_applied);

/* --- owner of the order book ------------------------------------------------------------------ */

/* The number of an order that is to be shared; never 0. */
uint64_t shared_orders_draw(void);
/* An order of the book. Does nothing for one whose `shared` is 0. Out of memory it stays with this node,
 * and the log says so.
 *
 * revision  of a wish that was fulfilled; 0: the servers get it, unless it turns out that they have it */
void shared_orders_know(struct shared_orders *s, const struct order *o, uint64_t revision);
/* It was lifted here; the others are told. */
void shared_orders_lift(struct shared_orders *s, uint64_t shared);
/* It is over, or another node has lifted it. */
void shared_orders_forget(struct shared_orders *s, uint64_t shared);
/* The first wish; NULL: there is none. The order's texts may be taken out of it. */
struct order_wish *shared_orders_wish(struct shared_orders *s);
/* It is fulfilled, or cannot be. */
void shared_orders_wish_done(struct shared_orders *s);

/* The revision of an order's value; 0: the servers have not taken it yet, or it is not known. Any
 * thread. */
uint64_t shared_orders_revision(struct shared_orders *s, uint64_t shared);

#endif
