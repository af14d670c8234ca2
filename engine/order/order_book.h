/* The standing orders in force: suspend, bounce and drop, each for the mail that a selector names.
 *
 * One owner, the thread of clerk 0, adds and removes orders; every change is on the disk before
 * another thread sees it. The owner is offline for RCU while it writes: RCU pointers that it has,
 * except those into the book, are not valid after a change. Other threads judge mail by a snapshot
 * that the owner publishes under RCU; they are online, and keep nothing of it over a pass of their
 * loops. The number of orders is an atomic counter, and so is what each order matched.
 *
 * An order whose selector names a source is about the sources that match, and applies to mail only
 * when all sources that the mail could leave from are covered by such orders of its kind or a
 * harsher one: as long as one source is left, mail goes out from it. When an order names nothing
 * but a source, no new connection is made from that source. */
#ifndef ENGINE_ORDER_BOOK_H
#define ENGINE_ORDER_BOOK_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/order/order.h"
#include "engine/order/order_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_book;

/* What is known of the mail to be judged; empty where it has none. */
struct order_facts {
    struct slice tenant, campaign;
    struct slice domain;      /* of the recipient */
    struct slice destination; /* the scheduler's name, or the nexthop */
    struct slice transport;
    struct slice site;    /* of the destination, as the cores name it; "": none, or nobody knows */
    struct slice sources; /* all that the transport's pool may use, "a,b"; empty without a pool */
    usec_t received;      /* wall, for orders with is_once; 0: before any order */
};

struct order_verdict {
    enum order_kind kind; /* ORDER_NONE: nothing else is set */
    uint64_t id;
    usec_t until;       /* wall: when this verdict ends, at the latest */
    bool is_at_site;    /* the order is about a site: what it holds is looked at again earlier */
    const char *reason; /* valid as long as the caller stays online under RCU */
    usec_t given;       /* wall: when the order was */
    bool is_by_sources; /* several orders may have a part in it: order_book_count_sources */
    struct order_facts facts; /* set by who judges for a message (intercept.h), for that count */
};

/* Read the orders that an earlier run left in this folder; without those that are over.
 *
 * thread   main, before the others
 * errors   of order_file_read, with its text; ret unchanged */
MUST_USE int order_book_open(const char *folder, usec_t now_wall, struct order_book **ret,
                             char text[static ORDER_FILE_TEXT_MAX]);
/* No reader is left; accepts NULL. */
void order_book_free(struct order_book *b);

/* --- owner ------------------------------------------------------------------------------------ */

/* Put an order into force: it gets an id, and its texts pass to the book.
 *
 * o        kind, selector, reason, by, created and until are set; empty afterwards when taken
 * errors   ERR_LIMIT: ORDER_COUNT_MAX are there; -errno: it could not be written; nothing changed
 */
MUST_USE int order_book_add(struct order_book *b, struct order *o, uint64_t *ret_id);
/* errors: ERR_MISSING, -errno as above */
MUST_USE int order_book_remove(struct order_book *b, uint64_t id);
/* Remove the orders that are over; returns how many. They had no effect any more. */
size_t order_book_expire(struct order_book *b, usec_t now_wall);

/* If the file says that held mail must be reviewed at the next start, and the review has been done
 * since, write the file anew. Returns whether the file still says so: the review is not done, or
 * the file could not be written. */
bool order_book_note_review(struct order_book *b);

/* What the orders matched goes to the file, if it is behind, once a minute at most; the rest when
 * the book is freed. */
void order_book_note_matched(struct order_book *b, usec_t now_mono);

/* --- reviews ---
 * Held mail is looked at again when an order was lifted. Until that is done the file says so, and
 * the next start does it: mail must not wait for the end of an order that nobody knows any more. */

/* The number of the review that is wanted: of the newest order lifted. 0: none was. Any thread. */
uint64_t order_book_wanted_review(const struct order_book *b);
/* A review is wanted and not done yet: held mail may wait for an order that is gone. Any thread. */
bool order_book_awaits_review(const struct order_book *b);
/* Every message that was held when this number was read has been looked at. The activator. */
void order_book_reviewed(struct order_book *b, uint64_t number);

/* --- any thread, online under RCU ------------------------------------------------------------- */

/* The cheap question before the others; one relaxed load, needs no RCU. */
bool order_book_is_empty(const struct order_book *b);
uint32_t order_book_size(const struct order_book *b); /* likewise */
/* Rises with each change of the orders in force. */
uint64_t order_book_changes(const struct order_book *b); /* likewise */
/* What is to become of some mail: the harshest of the orders that apply, among equals the one that
 * lasts longest. */
void order_book_judge(const struct order_book *b, const struct order_facts *facts, usec_t now_wall,
                      struct order_verdict *ret);
/* Some order at least as harsh as `least` applies, or would if what is not known (a fact whose data
 * is NULL) were right. */
bool order_book_may_concern(const struct order_book *b, const struct order_facts *facts,
                            enum order_kind least, usec_t now_wall);
/* Some order applies to nothing but sources: the next question is worth asking. One relaxed load.
 */
bool order_book_has_source_orders(const struct order_book *b);
/* Some order is about mail to one site: the next question is worth asking. One relaxed load. */
bool order_book_has_site_orders(const struct order_book *b);
/* Such an order holds this mail; of the facts tenant, campaign, site and received count. */
bool order_book_holds_at_site(const struct order_book *b, const struct order_facts *facts,
                              usec_t now_wall);
/* No new connection may be made from this source. */
bool order_book_bars_source(const struct order_book *b, struct slice source, usec_t now_wall);
/* Of the orders that bar this source, the one that lasts longest; NULL: none does. Valid while the
 * caller is online. */
const struct order *order_book_bar_of(const struct order_book *b, struct slice source,
                                      usec_t now_wall);
/* Whether the order o, in the book or not, decides about this mail: its selector matches, and
 * orders as harsh cover every source that o leaves to the mail. */
bool order_book_would_hold(const struct order_book *b, const struct order *o,
                           const struct order_facts *facts, usec_t now_wall);
/* Count `recipients` more that the order has met for the first time. */
void order_book_count(const struct order_book *b, uint64_t id, uint64_t recipients);
/* Count `recipients` more for every order that names a source of this mail, as each has a part in
 * keeping it. */
void order_book_count_sources(const struct order_book *b, const struct order_facts *facts,
                              usec_t now_wall, uint64_t recipients);

/* The order with the least id above `after`; NULL at the end.
 *
 * ret_matched  recipients it has met since it was given; may be NULL */
const struct order *order_book_next(const struct order_book *b, uint64_t after,
                                    uint64_t *ret_matched);

#endif
