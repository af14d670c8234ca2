/* A sweep: a walk over mail that is not active, to try some of it now. A change of orders or a
 * flush asks for it. The activator does one sweep after the other, a few messages in each pass. One whose
 * messages may not enter, as their flows have their share of the memory, lets the next one go on.
 *
 * struct sweep is passed by ownership in LETTER_SWEEP; struct sweeper is the activator's. */
#ifndef ENGINE_SWEEP_H
#define ENGINE_SWEEP_H

#include "base/attr.h"
#include "base/id_set.h"
#include "engine/order/selector.h"
#include "engine/spool/spool_store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct activation;

enum sweep_kind {
    SWEEP_REVIEW, /* held mail that nothing holds any more: an order ended, or settings changed */
    SWEEP_FLUSH,  /* deferred mail: tried now, not when it is due */
    SWEEP_APPLY,  /* all mail that some order may bounce or drop, scheduled mail included */
    SWEEP_TURNS, /* deferred mail that waits for its turn: a run before this one reckoned it, and who
                     would call it back (schedule/absent.h) is gone with that run; or a reload has changed
                     what may go, of which nobody keeps what it sent away */
};

/* How far a sweep has come. Ids are remembered for a part of the mail at a time, by a hash of the id, so that
 * they need no more memory however much mail there is; each part is a walk of its own. */
struct sweep_walk {
    uint64_t part, parts;        /* part under way, and how many; 0 parts: it has not begun */
    uint64_t end;                /* first id that came after the sweep had begun */
    uint8_t classes;             /* index of the class under way among those that its kind walks */
    struct spool_position at;    /* last message looked at */
    struct spool_position *left; /* a ring: where to go on in the flows that were left */
    uint32_t left_capacity, left_first, left_count;
    uint32_t refused;    /* of them in a row that may not enter yet */
    bool is_in_left;     /* it goes on in those */
    struct id_set taken; /* messages found in this part; a failed attempt may put them
                                    behind `at` again, where they must not be found twice */
};

struct sweep {
    struct sweep *next; /* activator only, as `walk` */
    enum sweep_kind kind;
    struct selector selector;
    _Atomic uint32_t *counter; /* is one higher until this sweep is freed; NULL: none */
    bool is_repeated;          /* SWEEP_TURNS: once more when it is over; activator only */
    struct sweep_walk walk;
};

/* A copy of the selector. NULL when out of memory. */
MUST_USE struct sweep *sweep_new(enum sweep_kind kind, const struct selector *selector);
void sweep_free(struct sweep *s); /* accepts NULL */
/* Make *counter one higher until the sweep is freed. Once a sweep. */
void sweep_count(struct sweep *s, _Atomic uint32_t *counter);

/* Whether a message that a sweep has found may become active now. A flow whose message may not is left
 * for later: the sweep goes on in the other flows, and in the end in those that were left, one message
 * of each in turn. */
struct sweep_entrance {
    bool (*may_enter)(void *ctx, const struct spool_position *position);
    void *ctx;
};

struct sweeper {
    struct sweep *first,
        *last;        /* the one that goes on; those that may not go on yet, and new ones */
    size_t part_size; /* messages, about */
    uint32_t waiting; /* number of sweeps, the first one included */
    uint32_t begun;   /* of them; SWEEPS_BEGUN at most, as each has memory of its own */
    uint32_t refused; /* sweeps in a row that have to wait, since a place became free */
    bool is_stuck;    /* all that may go on were tried since then */
};

void sweeper_init(struct sweeper *s);
void sweeper_fini(struct sweeper *s);
/* Takes the sweep over; its turn comes after those that wait. When SWEEPS_MAX sweeps wait, a sweep
 * for orders is merged into a waiting one of its kind, which then looks at all mail; a flush is
 * dropped, and logged. (order_report.c refuses a flush before it comes to that.) Of SWEEP_TURNS there is
 * one at a time, which begins anew when others came while it was under way: reloads that follow each
 * other cost two walks, and not one each. */
#define SWEEPS_MAX   1000
#define SWEEPS_BEGUN 8
void sweeper_add(struct sweeper *s, struct sweep *sweep);

static inline bool sweeper_is_busy(const struct sweeper *s)
{
    return s->first != NULL;
}

/* Every flow in which there may be more has been tried, and had to be left. */
static inline bool sweeper_is_waiting(const struct sweeper *s)
{
    return s->first != NULL && s->is_stuck;
}
/* A place has become free: what has to wait is tried again. */
static inline void sweeper_retry(struct sweeper *s)
{
    s->is_stuck = false;
    s->refused = 0;
}

/* The next message to be made active, looking at most at *budget of them, which is counted down.
 * The reader of the activation is open.
 *
 * errors   ERR_MISSING when the budget is used up, no sweep is left, or no message may enter; ERR_AGAIN when a page cannot
 *          be read for now: the sweep goes on there later */
MUST_USE int sweeper_next(struct sweeper *s, struct activation *a,
                          const struct sweep_entrance *entrance, int *budget,
                          struct spool_position *ret);

#endif
