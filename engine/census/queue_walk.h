/* Walking through all queued mail with a filter: each message, and each of its recipients that is
 * not done, with what people call its facts: whose it is, where it goes, what state it is in.
 *
 * The spool is read a page of messages at a time. Between pages the view of the spool is ended and
 * `between` is called, so a walk over millions of messages neither pins pages nor holds up a grace
 * period; what is found is therefore no single moment's truth, but each message is seen once.
 *
 * Thread: the reader's, online for RCU. Used by counts, searches and dry runs of orders. */
#ifndef ENGINE_QUEUE_WALK_H
#define ENGINE_QUEUE_WALK_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/config/label.h"
#include "engine/order/selector.h"
#include "engine/spool/spool_walk.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct reply_set;
struct router;
struct source_table;

enum queue_state {
    QUEUE_INCOMING, /* never tried; waits to become active */
    QUEUE_ACTIVE,   /* a scheduler has its message */
    QUEUE_DEFERRED,
    QUEUE_SCHEDULED, /* its sender wants it delivered later */
    QUEUE_SUSPENDED, /* an order holds it back */
    QUEUE_STATE_COUNT
};
const char *queue_state_text(enum queue_state state) NONNULL_RET;
/* QUEUE_STATE_COUNT: none of them. */
enum queue_state queue_state_find(struct slice name);

/* What is looked for. Texts are globs as in selectors, and owned; NULL: any. */
struct queue_filter {
    struct selector selector;
    char *sender, *recipient;
    uint32_t states;       /* bits by enum queue_state; 0: any */
    usec_t created_before; /* wall; 0: any */
};

void queue_filter_fini(struct queue_filter *f);
/* errors: -ENOMEM, ret is empty then */
MUST_USE int queue_filter_copy(struct queue_filter *ret, const struct queue_filter *f);
bool queue_filter_eq(const struct queue_filter *a, const struct queue_filter *b);

struct queue_walk;

/* Where a walk reads, and the functions that it calls. */
struct queue_source {
    struct spool_reader *reader; /* no view is open */
    struct label owner;          /* of this tenant's mail alone, byte by byte; len 0: of all */
    const struct config *config;
    const struct router *router;        /* of the same snapshot */
    const struct source_table *sources; /* likewise */
    const struct reply_set *replies;    /* likewise; NULL: replies have no class */
    const uint64_t *active;             /* ids that schedulers hold, sorted */
    size_t active_count;
    /* Whether an order suspends a recipient of a message received then (wall); NULL: there are
     * none. */
    bool (*is_suspended)(void *ctx, const struct slice facts[static SELECTOR_COUNT],
                         usec_t received);
    /* Between pages: let others run, and queue_walk_configure when the snapshot is another one now.
     * false: stop. NULL: nothing to do. */
    bool (*between)(void *ctx, struct queue_walk *w);
    void *ctx;
};

struct queue_recipient {
    struct slice address;
    uint32_t index;
    bool is_deferred; /* an attempt was made, and its reply is stored as the reason */
    enum queue_state state;
    /* Of tenant and campaign always; of the others those that the walk was asked for. "" where a
     * recipient has none (without a route). The domain is in lower case. */
    struct slice facts[SELECTOR_COUNT];
};

#define QUEUE_WALK_DOMAIN_MAX 256

struct queue_walk {
    struct queue_source from;
    const struct queue_filter *filter;
    usec_t now;           /* wall, when the walk began */
    bool needs_route;     /* destination, transport and source are wanted */
    bool sees_recipients; /* the filter is about recipients */

    struct spool_walk spool;
    bool is_open;       /* a view of the spool is open */
    uint32_t page_left; /* messages until the view is renewed */
    usec_t page_began;
    bool prefetches;  /* pages come from the disk */
    uint64_t after;   /* the message last walked over */
    uint64_t damaged; /* messages passed over */
    int error;        /* 0, or why it ended early: -ECANCELED, or of the storage */

    struct spool_walked message; /* the one found; valid until the next queue_walk_next */
    bool is_active, is_scheduled;
    enum queue_state state; /* see queue_walk_fits */

    uint32_t batch, batch_index; /* where the recipients of `message` are read next */
    struct slice packed, states;
    struct queue_recipient recipient;
    char domain[QUEUE_WALK_DOMAIN_MAX];
};

/* filter: lives as long as the walk. after: 0, or the message behind which to begin. has_routes:
 * the caller wants all facts of recipients. */
void queue_walk_begin(struct queue_walk *w, const struct queue_source *from,
                      const struct queue_filter *filter, uint64_t after, bool has_routes);
/* The next message that fits as far as can be said without its recipients; false at the end, see
 * w->error. Its recipients come by queue_walk_recipient. */
MUST_USE bool queue_walk_next(struct queue_walk *w);
/* The next recipient of the message that is not done and fits: w->recipient. */
MUST_USE bool queue_walk_recipient(struct queue_walk *w);
/* Whether the message fits: any message when the filter has nothing about recipients, otherwise one
 * with a recipient that fits. Sets w->state to that recipient's. Instead of queue_walk_recipient.
 */
MUST_USE bool queue_walk_fits(struct queue_walk *w);
/* Closes the view. */
void queue_walk_end(struct queue_walk *w);

/* From `between` only: the configuration in force now. */
void queue_walk_configure(struct queue_walk *w, const struct config *config,
                          const struct router *router, const struct source_table *sources,
                          const struct reply_set *replies);

#endif
