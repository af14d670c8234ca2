/* Suspensions that replies ask for: the mail of a tenant, or a campaign, waits at the site that said so,
 * whatever its destinations and lanes (suspend-tenant, suspend-campaign). Each becomes a standing order, as an operator would give
 * it: it holds mail that waits and mail that comes, outlives a restart, and is lifted like any other.
 *
 * Scheduler threads ask, the owner of the order book takes. One lock guards what was asked and is not
 * taken yet; nothing is done under it but copying. */
#ifndef ENGINE_SUSPENSION_H
#define ENGINE_SUSPENSION_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/order/selector.h"

#include <stdbool.h>

struct mailbox;
struct order_book;
struct suspensions;

#define SUSPENSIONS_MOST                                                                           \
    256 /* that are not taken yet; those beyond are asked for by the next reply */

/* errors: NULL when out of memory */
MUST_USE struct suspensions *suspensions_new(void);
void suspensions_free(struct suspensions *s); /* accepts NULL; nobody asks any more */

struct suspension {
    struct slice tenant;      /* "": whoever's */
    struct slice campaign;    /* "": all of the tenant's */
    struct slice site;        /* as the cores name it; "": the destination is on its own */
    struct slice destination; /* where that counts */
    usec_t span;
    struct slice rule, text; /* of the reply */
};
/* Any thread. What names nobody, and names with '*', which a selector takes for any text, are left out.
 *
 * taker  the mailbox of the thread that takes; woken */
void suspensions_ask(struct suspensions *s, const struct suspension *wanted, struct mailbox *taker);
/* Is there one to take? Any thread; one relaxed load. */
bool suspensions_are_asked(const struct suspensions *s);
/* The owner of the book: puts into force all that was asked for, unless an order for the same mail lasts
 * as long. Returns how many there are that were not in force. */
unsigned suspensions_take(struct suspensions *s, struct order_book *book, usec_t now_wall);

#endif
