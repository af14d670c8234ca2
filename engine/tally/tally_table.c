/* Rows by number, and an index over their names that only the owner looks at. Called by the tally;
 * nothing here decides what is counted. */
#include "engine/tally/tally_table.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

enum {
    ROWS = TALLY_ROWS_MAX + 2,
    SLOTS = 4096, /* power of two, so far above ROWS that runs stay short */
};
static_assert(SLOTS >= 4 * ROWS, "a search ends soon");

struct tally_table {
    /* set at creation */
    uint64_t seed;

    /* owner only */
    uint16_t slots[SLOTS]; /* row + 1 at the hash of its name or behind; 0: free */
    uint32_t last;         /* row found last, never that of "": mail of one tenant comes in runs */

    /* any thread: below `count` constant */
    struct tally_row *rows[ROWS];
    _Atomic uint32_t count; /* stored by the owner with release, behind the row */
};

/* name: not empty */
static bool is_named(const struct tally_row *r, struct slice name)
{
    /* Names of one kind often differ at their end only. */
    return r->name_len == name.len && r->name[name.len - 1] == name.data[name.len - 1] &&
           memcmp(r->name, name.data, name.len) == 0;
}

static struct tally_row *row_new(struct slice name)
{
    struct tally_row *r = calloc(1, sizeof(*r) + name.len);
    if (r != NULL) {
        r->name_len = (uint32_t)name.len;
        if (name.len > 0) {
            memcpy(r->name, name.data, name.len);
        }
    }
    return r;
}

/* The row's number, or TALLY_ROW_OTHER. */
static uint32_t add_tally_row(struct tally_table *t, uint16_t *slot, struct slice name)
{
    uint32_t row = atomic_load_explicit(&t->count, memory_order_relaxed);
    struct tally_row *r = row == ROWS ? NULL : row_new(name);
    if (r == NULL) {
        return TALLY_ROW_OTHER;
    }
    t->rows[row] = r;
    *slot = (uint16_t)(row + 1);
    atomic_store_explicit(&t->count, row + 1, memory_order_release); /* see tally_table_rows */
    return row;
}

static uint32_t probe(struct tally_table *t, struct slice name)
{
    uint64_t hash = hash_bytes(name.data, name.len, t->seed);
    for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
        if (t->slots[i] == 0) {
            return add_tally_row(t, &t->slots[i], name);
        }
        if (is_named(t->rows[t->slots[i] - 1], name)) {
            return t->slots[i] - 1U;
        }
    }
}

uint32_t tally_table_search(struct tally_table *t, struct slice name)
{
    if (is_named(t->rows[t->last], name)) {
        return t->last;
    }
    if (name.len > TALLY_NAME_MAX) {
        return TALLY_ROW_OTHER;
    }
    t->last = probe(t, name);
    return t->last;
}

struct tally_row *tally_table_row(const struct tally_table *t, uint32_t row)
{
    return t->rows[row];
}

uint32_t tally_table_rows(const struct tally_table *t)
{
    /* Acquire pairs with the release of add_tally_row: rows below are complete. */
    return atomic_load_explicit(&t->count, memory_order_acquire);
}

struct tally_table *tally_table_new(uint64_t seed)
{
    struct tally_table *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    t->seed = seed;
    t->last = TALLY_ROW_OTHER;
    t->rows[TALLY_ROW_NONE] = row_new(SLICE(""));
    t->rows[TALLY_ROW_OTHER] = row_new(SLICE("other"));
    if (t->rows[TALLY_ROW_NONE] == NULL || t->rows[TALLY_ROW_OTHER] == NULL) {
        tally_table_free(t);
        return NULL;
    }
    uint64_t hash = hash_bytes("other", 5, seed); /* a name "other" from outside counts in the
                                                   * row of that name */
    t->slots[hash % SLOTS] = TALLY_ROW_OTHER + 1;
    atomic_store_explicit(&t->count, TALLY_ROW_OTHER + 1, memory_order_relaxed);
    return t;
}

void tally_table_free(struct tally_table *t)
{
    if (t != NULL) {
        for (uint32_t i = 0; i < ROWS; i++) {
            free(t->rows[i]);
        }
        free(t);
    }
}
