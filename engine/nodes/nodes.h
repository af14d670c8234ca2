/* This node among the others. The thread `cluster` puts the node's entry every five seconds, sees
 * those of the others come, change and stand still, and says so to whoever asks.
 *
 * What stands here holds with a cluster only (config.cluster.node); else nodes_new gives NULL, which
 * every function below takes for "there is none". */
#ifndef ENGINE_NODES_H
#define ENGINE_NODES_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/cluster/member.h"
#include "engine/nodes/cluster_module.h"
#include "engine/nodes/node_entry.h"
#include "engine/nodes/taker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct nodes;
struct shared_orders;

#define NODES_MAX 64U

/* Loads the module. errors: -ENOMEM; ERR_MISSING, ERR_SYNTAX: of the module, which the log has */
MUST_USE int nodes_new(struct engine *engine, struct nodes **ret);
/* Before the start: tell(engine, number of the spool that has it) is called, by a thread of this room
 * and maybe again and again, when this node's log was taken over, so that its spool is void. */
void nodes_when_taken(struct nodes *n, void (*tell)(struct engine *engine, uint16_t holder));
/* errors: -errno */
MUST_USE int nodes_start(struct nodes *n);
/* Gives back parts of rates, says to the others that this node leaves, and ends the thread. Waits for
 * servers 4 s at most. */
void nodes_stop(struct nodes *n);
/* When the spool writer has ended, which the log outlives. */
void nodes_stop_log(struct nodes *n);
void nodes_free(struct nodes *n);

struct node_view {
    struct node_entry entry;
    uint64_t revision;
    usec_t seen; /* wall: when its entry was last seen to change */
    enum member_state state;
    bool is_self;
};

struct nodes_view {
    const char *self; /* the node's name; valid as long as the engine */
    bool is_connected;
    bool is_joined; /* its entry was put, and no other process says that it is this node */
    usec_t joined;  /* wall: since when; 0: it is not */
    usec_t heard;   /* cluster's clock: what was said until then was heard (member.h) */
    char server[CLUSTER_DESCRIPTION_SIZE]; /* that it is connected to, or why to none */
    char refusal[300];                     /* why it does not join; "": nothing speaks against it */
    uint64_t puts, failed_puts;
    uint64_t sent, unsent, obeyed; /* what lanes learned: lessons.h */
    uint64_t limits, limit_puts;   /* shared_limits.h */
    struct taker_view taken;       /* all zero without a log */
    size_t count;
    struct node_view nodes[NODES_MAX]; /* by name */
};

/* Who has a spool, as the nodes that were seen tell; nobody only while their entries are heard. Pure, as the
 * next one.
 *
 * overlooked  when there last was a node that the view lacks; 0: never. It may have any spool that nobody
 *             else has
 * now         both of the cluster's clock */
enum holder nodes_view_holder(const struct nodes_view *view, usec_t overlooked, usec_t now,
                              uint16_t number);

/* Whether an operator may say that the node does not come back. ret_number: of its spool. errors:
 * ERR_MISSING: there is no such node; ERR_LOCKED: it is alive */
MUST_USE int nodes_view_may_forget(const struct nodes_view *view, const char *name,
                                   uint16_t *ret_number);

/* How this node connects to the servers; what it points to lives as long as the node. */
struct cluster_options nodes_options(const struct nodes *n);

/* What the thread saw last. Any thread but `cluster`, for a short time under its lock. */
void nodes_look(struct nodes *n, struct nodes_view *ret);

/* For the owner of the order book; NULL without a cluster. */
struct shared_orders *nodes_orders(struct nodes *n);

/* The next node that is not known to obey a shared order yet; one that left or is gone is not waited
 * for. Any thread but `cluster`; n is not NULL.
 *
 * at  0 at first; where to go on
 * returns  false: no other one */
bool nodes_awaited(struct nodes *n, uint64_t shared, size_t *at,
                   char ret[static NODE_ENTRY_NAME_MAX + 1]);

/* Take over the mail of a node that left or is gone, also where none is taken over without an order.
 * It is done later; any thread. errors: ERR_MISSING: no such node; ERR_LOCKED: it is alive; ERR_SYNTAX:
 * there is no log here, or none of that node; ERR_LIMIT: too many such orders */
MUST_USE int nodes_adopt(struct nodes *n, const char *name);

/* Take a node's entry and its number away: it is gone for good. Waits for a server 2 s at most; any thread.
 * errors: ERR_MISSING: no such node; ERR_LOCKED: it is alive; ERR_AGAIN: others change their numbers
 * now; -ETIMEDOUT, ERR_CLOSED: of the server */
MUST_USE int nodes_forget(struct nodes *n, const char *name);

#endif
