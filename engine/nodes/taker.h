/* The thread `take-over`: sees which logs are nobody's any more, takes one after the other, makes a spool
 * of it in the folder of ours, has the spool writer take its mail in (adopter.h), and removes the log.
 * The rules, and where it goes on after it was interrupted, are in engine/cluster/adoption.h. */
#ifndef ENGINE_TAKER_H
#define ENGINE_TAKER_H

#include "base/attr.h"
#include "engine/nodes/cluster_log_module.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct taker;

/* Who runs a spool, as far as the node sees. */
enum holder {
    HOLDER_RUNS,    /* or might yet */
    HOLDER_LEFT,    /* it was stopped in order, and keeps its mail until it returns */
    HOLDER_GONE,    /* not seen for so long that it may be taken over */
    HOLDER_NONE,    /* no node says that it has it */
    HOLDER_UNKNOWN, /* we are not in contact ourselves, or do not see all nodes */
};

/* What the taker needs of its node; each is called by the thread `take-over`. */
struct taker_node {
    struct engine *engine;
    struct cluster_options options;
    const struct cluster_module *module;
    const struct cluster_log_module *log_module;
    struct cluster_client *(*client)(void *ctx); /* NULL: none yet */
    uint16_t (*number)(void *ctx);               /* 0: it has not joined, or has no number */
    enum holder (*holder)(void *ctx, uint16_t number);
    void *ctx;
    bool is_automatic; /* else only what an operator orders */
};

struct taker_view {
    uint16_t log;            /* under way; 0: none */
    uint64_t logs, messages; /* taken over since the start */
};

/* node is copied. errors: -ENOMEM, of the store's readers */
MUST_USE int taker_new(const struct taker_node *node, struct taker **ret);
/* errors: -errno */
MUST_USE int taker_start(struct taker *t);
/* When the spool writer has ended, and while the client is there. Gives back what it holds; waits for a
 * server 2 s at most. */
void taker_stop(struct taker *t);
void taker_free(struct taker *t); /* accepts NULL */

/* Take this spool's mail over though its node only left, or `takeover` is "manual". Any thread. errors:
 * ERR_LIMIT: too many such orders wait */
MUST_USE int taker_order(struct taker *t, uint16_t number);
/* t: NULL: all zero. Any thread. */
void taker_look(struct taker *t, struct taker_view *ret);

#endif
