/* A limit over all nodes, divided between them: what each node may use without asking anybody. Pure:
 * the caller brings the time (usec, CLOCK_BOOTTIME of its own machine).
 *
 * Each limit has one key, whose value holds an entry node:share:want for every node that uses it.
 * Only compare-and-set changes a value, a node changes no entry but its own, takes only what no
 * entry has, and gives back only what it uses no more. So the shares never add up to more than the
 * limit, whoever reads an old value or dies between two steps. How far each share should go is
 * max-min fair over the wants, which every node computes alike; what does not divide evenly goes
 * round in turns.
 *
 * What is divided is either things in use (connections: a unit is one, and it is given back when one
 * was closed) or a rate (a unit is a part of rate and burst, and is given back at once). A unit of a
 * rate that was taken brings no tokens but those that its last holder left, so that over any time T
 * all nodes together use at most rate x T + burst.
 *
 * A node that hears nothing uses no share after MEMBER_SHARES_FOR of member.h, and others count the
 * entry of a late node no more: they take it out (limit_share_drop). A node that stood still and
 * does not know it may have its share in use once more: limit + its share, until it wakes.
 *
 * One owner at a time: the thread that talks to the cluster. */
#ifndef ENGINE_LIMIT_SHARE_H
#define ENGINE_LIMIT_SHARE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define LIMIT_SHARE_NODES_MAX 64
#define LIMIT_SHARE_UNITS_MAX 1000000U
#define LIMIT_SHARE_PARTS_MAX 1000U /* units of a rate: thousandths */
#define LIMIT_SHARE_TURN      (10 * USEC_PER_SEC)
#define LIMIT_SHARE_ROUND     (20 * USEC_PER_SEC) /* in which each has its turn, where it can be */
#define LIMIT_SHARE_TURN_MIN  (1 * USEC_PER_SEC)
#define LIMIT_SHARE_WANT_OLD  (1 * USEC_PER_SEC)

/* A node's entry. */
struct limit_share_entry {
    uint16_t node;
    uint32_t share; /* units that it may use, 0..LIMIT_SHARE_UNITS_MAX */
    uint32_t want;  /* units that it could use, likewise */
};

/* A key's value. All zero: nobody uses the limit. */
struct limit_share {
    uint32_t turn;  /* counts the turns of what does not divide evenly; wraps */
    uint32_t left;  /* of a rate: tokens that givers left, in thousandths */
    uint32_t count; /* 0..LIMIT_SHARE_NODES_MAX */
    struct limit_share_entry entries[LIMIT_SHARE_NODES_MAX]; /* by node, each once */
};

/* Append the value as text: "1 TURN LEFT NODE:SHARE:WANT ...", decimal; 1 is the version. */
void limit_share_print(struct buf *out, const struct limit_share *v);

/* errors: ERR_SYNTAX for what limit_share_print does not print, ERR_LIMIT for more nodes or greater
 *         numbers than there may be; *ret is then as it was */
MUST_USE int limit_share_parse(struct slice text, struct limit_share *ret);

/* Take a node's entry out; nothing happens when it has none. */
void limit_share_drop(struct limit_share *v, uint16_t node);

/* Put an entry into a value that lost it, with as much of its share as others have not taken of the limit
 * since. Nothing happens when the node has one, or the value is full. */
void limit_share_restore(struct limit_share *v, const struct limit_share_entry *entry,
                         uint32_t limit);

/* What one node knows of one limit beside the value; kept between calls. All zero but `node` and
 * `limit` at first. */
struct limit_share_self {
    /* set by the caller */
    uint16_t node;
    bool is_rate;
    uint32_t limit;  /* units, 1..LIMIT_SHARE_UNITS_MAX; of a rate limit_share_parts */
    uint32_t in_use; /* units in use now; of a rate 0 */
    uint32_t
        want; /* units that could be used now, in_use included; more than the limit is as much */
    uint32_t tokens; /* of a rate: what its bucket holds now, in thousandths */
    usec_t turn_min; /* of a rate the time of one token; 0: none */
    /* kept by the functions below */
    bool is_void; /* what the key says counts for what is in use alone */
    uint32_t voids;
    bool has_turn;
    uint32_t turn;      /* of the value as last seen ... */
    usec_t turn_begun;  /* ... and since when */
    usec_t want_put;    /* when our entry was last put */
    uint32_t want_told; /* what it said */
};

/* What a node does next. */
struct limit_share_step {
    bool is_due;       /* `value` is to be put in place of the one that was given */
    uint32_t may_use;  /* units, now and until the answer; above that: close, let nothing begin */
    uint32_t then_use; /* units, once the put has succeeded, or now when none is due */
    uint32_t give;     /* tokens, in thousandths, to be taken out of the bucket before the put */
    uint32_t take;     /* tokens to be put into it once the put has succeeded */
    usec_t look_at;    /* when to ask again although nothing has changed; USEC_NEVER: need not */
    uint32_t voids;
    struct limit_share value;
};

/* Others may have counted our share as free: to be called at the start and whenever the lease's
 * `lapses` has changed, before anything else is done. Use nothing until a put succeeds; the bucket is
 * empty. */
void limit_share_void(struct limit_share_self *self);

/* One's own next step, given the value as it was last read.
 *
 * seen     the value, without entries of nodes that are late
 * self     in/out; in_use, want and tokens as they are now
 * put      the step's value is to be put by compare-and-set with the revision of `seen`. Refused: what
 *          was given goes back into the bucket; read the value, ask again. No answer: nobody knows;
 *          go on by may_use, with what was given gone, until the value has been read again.
 * errors   none; a value that 64 other nodes fill leaves this one a share of 0 */
void limit_share_next(const struct limit_share *seen, struct limit_share_self *self, usec_t now,
                      struct limit_share_step *ret);

/* The put succeeded.
 *
 * returns  false when the share became void after the put was made: its answer is too old to go by, so
 *          nothing is used or taken; read the value and ask again */
MUST_USE bool limit_share_put(struct limit_share_self *self, const struct limit_share_step *step,
                              usec_t now);

/* Max-min fair: how many units of `limit` each entry should have by its want. The remainder goes to
 * those whose turn it is.
 *
 * ret      capacity v->count
 * returns  entries that want more than they get, when these have not all the same; 0: turns change
 *          nothing */
uint32_t limit_share_fair(const struct limit_share *v, uint32_t limit, uint32_t *ret);

/* Into how many units a rate of so much burst is divided, so that each holds a token at least.
 *
 * burst  messages, recipients or connections, at least 1 */
uint32_t limit_share_parts(uint32_t burst);

/* A quota by the hour or day is not divided but eaten: the key holds what nodes have taken, and each
 * takes a chunk of a hundredth more when it has used up the last.
 *
 * taken    what the key says
 * returns  what may be taken in addition; 0: the quota is used up */
uint32_t limit_share_chunk(uint64_t taken, uint32_t quota);

#endif
