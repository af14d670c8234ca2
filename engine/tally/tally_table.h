/* Counters by a name that somebody else chose, in a table of bounded size: a tenant, an egress
 * source, a transport. A row stays as long as the table and its counters never go backwards; names
 * for which there is no room, or no memory, share the row "other".
 *
 * Owner: one thread adds rows and counts (for a tally the spool writer). Any thread may read, at
 * any time: rows below `count` are constant but for their values, which are atomic; a value is
 * stored by the owner alone, so it needs no locked instruction. */
#ifndef ENGINE_TALLY_TABLE_H
#define ENGINE_TALLY_TABLE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TALLY_ROWS_MAX 1000 /* names of a table beside "" and "other" */
#define TALLY_NAME_MAX 255  /* bytes; what is longer counts as "other" */

enum tally_value {
    TALLY_RECEIVED,   /* messages that became durable */
    TALLY_RECIPIENTS, /* recipients of these messages */
    TALLY_BYTES,      /* bytes of these messages */
    TALLY_DELIVERED,  /* recipients; an attempt each */
    TALLY_DEFERRED,
    TALLY_FAILED,
    TALLY_DROPPED,    /* by an order */
    TALLY_EXPIRED,    /* recipients given up after the lifetime of their message */
    TALLY_CONTENT,    /* of what was deferred or failed, by the reply's class: for what it says */
    TALLY_POLICY,     /* likewise: against the receiver's rules */
    TALLY_LOWERED,    /* messages with a lower class than they would have had */
    TALLY_SUPPRESSED, /* recipients that ended as they are on a list of suppressed ones */
    TALLY_VALUE_COUNT
};

struct tally_row {
    /* any thread, atomic; stored by the owner */
    _Atomic uint64_t values[TALLY_VALUE_COUNT];
    /* set at creation */
    uint32_t name_len;
    char name[];
};

enum { TALLY_ROW_NONE, TALLY_ROW_OTHER }; /* the rows "" and "other" are always there */

struct tally_table;

/* Owner: nobody else stores, so no locked instruction is needed. */
static inline void tally_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t sum = atomic_load_explicit(counter, memory_order_relaxed) + n;
    atomic_store_explicit(counter, sum, memory_order_relaxed);
}

/* NULL when out of memory. seed: of the hash, as strangers choose names */
struct tally_table *tally_table_new(uint64_t seed);
void tally_table_free(struct tally_table *t); /* accepts NULL */

/* The number of the row of a name that is not empty; it is made when there is room. Owner. */
uint32_t tally_table_search(struct tally_table *t, struct slice name);
/* The same for any name. */
static inline uint32_t tally_table_find(struct tally_table *t, struct slice name)
{
    return name.len == 0 ? TALLY_ROW_NONE : tally_table_search(t, name);
}
/* row: a number from tally_table_find, or below tally_table_rows. Only the owner counts in it. */
struct tally_row *tally_table_row(const struct tally_table *t, uint32_t row);
/* The number of rows in use. Any thread. */
uint32_t tally_table_rows(const struct tally_table *t);

/* Any thread. */
static inline uint64_t tally_row_value(const struct tally_row *r, enum tally_value value)
{
    return atomic_load_explicit(&r->values[value], memory_order_relaxed);
}

static inline struct slice tally_row_name(const struct tally_row *r)
{
    return slice_make(r->name, r->name_len);
}

#endif
