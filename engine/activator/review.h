/* Whether held mail has to be looked at again. What holds mail are orders, and routes and sources
 * say which mail an order is about; so a change of either may let held mail go. A review is the
 * sweep that looks at all of it (SWEEP_REVIEW).
 *
 * A message that was judged before the last change may enter the held class behind the sweep that
 * the change began: when it settles there, another review is needed. The order book is told of a
 * review that is done when no such message is left, so that the next start need not begin it again.
 *
 * Owner: the activator thread. */
#ifndef ENGINE_REVIEW_H
#define ENGINE_REVIEW_H

#include "base/attr.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct message;
struct sweep;
struct sweeper;

struct review {
    struct engine *engine;
    uint32_t changes;        /* changes of orders or settings that this thread has seen */
    uint32_t unloaded;       /* messages given to the writer unloaded (parked or damaged) */
    uint32_t stale_unloaded; /* those of them that were given before the last change, and settle
                                before the others */
    bool is_needed;
    uint64_t serial;       /* of the settings that held mail was judged by */
    uint64_t rates_serial; /* for which what waits for its turn was looked through last */
    uint64_t wanted;       /* order_book_wanted_review of the newest SWEEP_REVIEW */
    uint64_t noted;        /* the review that the order book was told is done */
};

void review_init(struct review *r, struct engine *engine);
/* Begins the sweeps that an earlier run may not have ended. At the start of the thread. */
void review_start(struct review *r, struct sweeper *sweeper);

/* A sweep comes. wanted: of its letter */
void review_take_sweep(struct review *r, const struct sweep *s, uint64_t wanted);
/* Once a pass, before mail is judged: notices a reload, and begins a review that is needed; after one that
 * changes rates or quotas, the sweep over what waits for its turn. */
void review_begin(struct review *r, struct sweeper *sweeper);
/* Once a pass, behind the sweeper: tells the order book when the review is done.
 *
 * active     messages in the order in which they became active
 * lingering  settled ones that a scheduler still holds */
void review_end(struct review *r, const struct sweeper *sweeper, const struct list *active,
                const struct list *lingering);

/* A message becomes active: it is judged by the orders as they are now. */
void review_note_active(const struct review *r, struct message *m);
/* A message that became active entered the held class. */
void review_note_held(struct review *r, const struct message *m);
/* Whether the turn of a message that has settled is by rates that are not in force any more: the sweep that
 * their change began may have been past its place by then. */
MUST_USE bool review_is_turn_old(const struct review *r, const struct message *m);
/* A message goes to the writer without having been loaded; and the writer has settled it. */
void review_note_unloaded(struct review *r);
void review_note_unloaded_settled(struct review *r);

#endif
