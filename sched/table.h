/* Hash table of pointers with one writer and lock-free readers: destinations by name, jobs by id.
 *
 * Open addressing over an array of pointers. A node never moves within its array; growth fills a
 * new array, publishes it with a release store and retires the old one, which readers may still
 * walk. Readers are online under RCU, so a node they found stays allocated until they pass. */
#ifndef SCHED_TABLE_H
#define SCHED_TABLE_H

#include "sched/sched.h"

struct table_node {
    uint64_t hash; /* set by the caller before table_insert, then constant */
};

struct table_slots;

struct table {
    struct table_slots *slots; /* any thread, RCU-published */
    struct table_node tomb;    /* its address marks a slot whose node was removed */
    uint32_t count;            /* owner: nodes */
    uint32_t used;             /* owner: slots that are not empty, tombs included */
    uint32_t promised;         /* owner: see table_promise */
    const struct sched_host *host;
};

typedef bool table_match(const struct table_node *node, const void *key);

MUST_USE int table_init(struct table *t, const struct sched_host *host); /* errors: -ENOMEM */
void table_fini(struct table *t); /* the nodes are the caller's; the array is retired */
/* Make sure that the next table_insert succeeds. errors: -ENOMEM */
MUST_USE int table_reserve(struct table *t);
/* Keep room for a table_insert at any later time; it stays kept, whatever is inserted, until
 * table_take_back, which follows that insert or comes in its place. errors: -ENOMEM */
MUST_USE int table_promise(struct table *t);
void table_take_back(struct table *t);
/* After table_reserve or table_promise; no equal node is in the table. */
void table_insert(struct table *t, struct table_node *node);
void table_remove(struct table *t, struct table_node *node); /* must be in the table */

/* Any thread. */
struct table_node *table_find(const struct table *t, uint64_t hash, table_match *match,
                              const void *key);
/* Hints ahead of a table_find of that hash, which it then need not wait for: first for the slot,
 * and when that has come, for `bytes` from `offset` before the node that stands there. */
void table_expect(const struct table *t, uint64_t hash);
void table_expect_node(const struct table *t, uint64_t hash, size_t offset, size_t bytes);
/* The next node in an order that does not depend on the size of the array, so that growth during a
 * walk neither repeats nor loses one. *cursor is 0 at first; NULL at the end. */
struct table_node *table_next(const struct table *t, uint64_t *cursor);

#endif
