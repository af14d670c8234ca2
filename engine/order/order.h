/* A standing order of an operator: what happens to the mail that its selector names, until when and
 * why. Plain data; the order book (order_book.h) keeps them. */
#ifndef ENGINE_ORDER_H
#define ENGINE_ORDER_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/order/selector.h"

#include <stdbool.h>
#include <stdint.h>

/* A later kind is harsher; of several orders about the same mail the harshest wins. */
enum order_kind {
    ORDER_NONE,
    ORDER_SUSPEND, /* not delivered for now */
    ORDER_BOUNCE,  /* given up, the sender is told */
    ORDER_DROP,    /* given up, nobody is told */
    ORDER_KIND_COUNT
};

#define ORDER_REASON_MAX 500 /* bytes */
#define ORDER_BY_MAX     255
#define ORDER_SITE_MAX   800

/* Mail that an order about a site holds is looked at again after this at the latest: its destination
 * may belong to another site by then. */
#define ORDER_SITE_LOOK (3600 * USEC_PER_SEC)

/* How long an order for the mail that is queued now (is_once) is in force: long enough for its
 * sweep to reach all of it, and for mail that was being tried to come back for its retry. */
#define ORDER_ONCE_SPAN (2 * 3600 * USEC_PER_SEC)

struct order {
    uint64_t id; /* 1, 2, ..; never used again; 0: not in a book */
    /* Of an order that holds at all nodes of a cluster, the same at each; 0: at this node alone. */
    uint64_t shared;
    enum order_kind kind;
    bool is_once; /* only mail that was received before `created` */
    struct selector selector;
    char *owner;       /* owned; NULL: an operator's. Else a tenant gave it, and it is about this
                              tenant's mail alone, byte by byte, whatever the selector says */
    char *site;        /* owned; NULL: wherever its mail goes. Else only mail to this site, as the
                              cores name it: a reply of a receiver asked for the order, and of the
                              selector tenant and campaign alone are set */
    char *reason, *by; /* owned; never NULL in a book */
    usec_t created, until; /* wall; until > created */
    uint64_t matched;      /* as of the last write of the file; a book counts in struct record */
};

/* "suspend", "bounce", "drop". */
const char *order_kind_text(enum order_kind kind) NONNULL_RET;
/* ORDER_NONE: none of them. */
enum order_kind order_kind_find(struct slice text);

/* Whether it can be about mail of this tenant: nobody owns it, or they do. */
bool order_is_of(const struct order *o, struct slice tenant);
/* Whether somebody who is bound to a tenant may see it: it is about that tenant and no other.
 * tenant: "": nobody is bound, and sees all */
bool order_is_visible(const struct order *o, struct slice tenant);

void order_init(struct order *o);
void order_fini(struct order *o); /* accepts a zeroed one */
/* Set the text that goes with it; the one before is freed.  errors: -ENOMEM; ERR_LIMIT longer than
 * `most` bytes; ERR_SYNTAX empty, with a control byte or not UTF-8 */
MUST_USE int order_set_text(char **text, struct slice value, size_t most);

#endif
