/* Recalls: messages that are to be active before a scan of their flow would find them. A scheduler that had
 * sent them away until a turn calls them back, as their receiver takes more than it did then; and what was
 * resumed or flushed before its time and had to give its place in memory back waits here for another one, as
 * does what a sweep has found and could not read for now.
 * Each is named by its place in the queue; a place where the message is no more is passed over. They
 * wait in a line for each flow, and take its turns.
 *
 * struct recall is passed by ownership in LETTER_RECALL; lines are the activator's. */
#ifndef ENGINE_RECALL_H
#define ENGINE_RECALL_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/id_set.h"
#include "engine/spool/spool_store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many recalls of one sender are under way: any thread, atomic. It goes with the last of those that
 * hold it: the sender, and each of these recalls. */
struct recall_account {
    _Atomic uint32_t holders;
};

/* NULL when out of memory. */
MUST_USE struct recall_account *recall_account_new(void);
void recall_account_put(struct recall_account *a); /* the sender's own; accepts NULL */

static inline bool recall_account_is_open(struct recall_account *a)
{
    return atomic_load_explicit(&a->holders, memory_order_relaxed) > 1; /* a figure */
}

struct recall {
    struct recall *next;            /* activator only: a ring */
    struct recall_account *account; /* held until this recall is freed; NULL: nobody asks */
    uint32_t count, done;
    uint32_t in_line; /* activator only, of the last one: messages of all */
    struct spool_position at[];
};

/* With room for so many; `count` is 0. NULL when out of memory. */
MUST_USE struct recall *recall_new(uint32_t capacity, struct recall_account *account);
void recall_free(struct recall *r); /* accepts NULL */

/* Those of one flow. */
struct recall_line {
    struct recall *last; /* its `next` is the first one; NULL: there are none */
};

/* What is resumed or flushed and gives its place back joins the line: no sweep brings more of the flow
 * while it is that long, so that a sweep over all mail does not put all mail into memory. */
#define RECALL_LINE_LONG 1024U

void recall_line_fini(struct recall_line *l);
void recall_line_add(struct recall_line *l, struct recall *r); /* takes it over */
void recall_line_add_first(struct recall_line *l,
                           struct recall *r); /* the same, before all others */

static inline bool recall_line_is_empty(const struct recall_line *l)
{
    return l->last == NULL;
}

static inline uint32_t recall_line_count(const struct recall_line *l)
{
    return l->last == NULL ? 0 : l->last->in_line;
}

static inline bool recall_line_is_long(const struct recall_line *l)
{
    return recall_line_count(l) >= RECALL_LINE_LONG;
}

/* The next message that is still at its place; the same one comes again until recall_line_pass.
 *
 * active   messages that are: they may come to wait for their turn when they are settled
 * missed   those of `active` that were passed over, see recall_take_missed
 * budget   counted down by each place that is looked at
 * errors   ERR_MISSING when the budget is used up or nothing is left; ERR_AGAIN when a page cannot
 *          be read for now */
MUST_USE int recall_line_next(struct recall_line *l, struct spool_reader *reader, int *budget,
                              const struct id_set *active, struct id_set *missed,
                              struct spool_position *ret);
void recall_line_pass(struct recall_line *l);

/* Whether a message that has settled was called back while it was active; only once. */
MUST_USE bool recall_take_missed(struct id_set *missed, uint64_t id);

#endif
