/* Configured rates, limits of connections at a time and quotas that the nodes of a cluster share: of each
 * this node uses only the part that it was given. Whoever speaks to the other nodes (one thread) sees
 * here which are wanted and how much of them, and sets the parts. What is said of rates is said of all.
 *
 * A rate is a part from the time that it is configured while limits_part_begin was called, and begins
 * with nothing. It has a slot while somebody wants it or it has a part. */
#ifndef ENGINE_LIMITS_PART_H
#define ENGINE_LIMITS_PART_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/limit/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define LIMITS_PARTS_MAX    65536U /* slots; a rate beyond them waits for one */
#define LIMITS_PART_KEY_MAX 32     /* bytes: hexadecimal digits */

enum limits_part_kind {
    LIMITS_PART_OF_RATE,
    LIMITS_PART_OF_CONNECTIONS, /* at a time: a part is one */
    LIMITS_PART_OF_QUOTA,       /* it is not divided but eaten, in chunks */
};

struct limits_part_view {
    uint64_t id; /* of the limit as it is configured; never used again */
    enum limits_part_kind kind;
    /* Of owner, name, unit and rule, of a quota its span alone: equal at all nodes that have it
     * configured alike. */
    char key[LIMITS_PART_KEY_MAX + 1];
    /* Of rates and connections. */
    uint32_t parts; /* that it is divided into */
    uint32_t
        share; /* parts that this node uses now; of a quota messages of `window` that are left of
                      * what it took */
    uint32_t want;   /* parts that it could use; of a quota 1 when it lacks a chunk */
    uint32_t in_use; /* of connections: more than `share` after that became less */
    /* Of rates. */
    uint32_t burst;    /* of the whole rate, at least 1 */
    uint32_t tokens;   /* in thousandths, that are left of its burst */
    usec_t token_time; /* the time of one message, recipient or connect of the whole rate; else 0 */
    /* Of quotas. */
    bool is_idle;      /* nobody has asked for a while: what is left is to go back */
    int64_t window;    /* spans since 1970 */
    uint64_t quota;    /* in that window; UINT64_MAX: no limit */
    uint64_t taken;    /* of it by all nodes, as was known last */
    uint64_t revision; /* of the value that said so; 0: none did */
};

/* All rates that are configured from now on are shared. Before anything is held.
 *
 * wake  called under the lock when a rate is wanted that had no slot; it must not call limits */
void limits_part_begin(struct limits *l, void (*wake)(void *ctx), void *ctx);

/* Parts may be used until then (monotonic), and not at all before this was called. */
void limits_part_until(struct limits *l, usec_t until);

/* Slots from here on were never used. */
uint32_t limits_part_slots(struct limits *l);
/* false: the slot is empty */
MUST_USE bool limits_part_look(struct limits *l, uint32_t slot, usec_t now,
                               struct limits_part_view *ret);
/* This node uses so many parts from now on, with so many thousandths of its burst more, or fewer. One
 * that had none has nothing of the burst but these. false: there is no such rate any more */
bool limits_part_set(struct limits *l, uint32_t slot, uint64_t id, uint32_t share, int64_t tokens,
                     usec_t now);
/* Of a quota: nothing of it may be lent any more, but what is returned. returns what was left */
uint32_t limits_chunk_give(struct limits *l, uint32_t slot, const struct limits_part_view *v);
/* All nodes have taken what the view says of its window; so much more of that may be lent here. */
void limits_chunk_take(struct limits *l, uint32_t slot, const struct limits_part_view *v,
                       uint32_t more, usec_t now);
/* It has no part, and the slot is free. false: somebody wants it */
bool limits_part_end(struct limits *l, uint32_t slot, uint64_t id, usec_t now);

#endif
