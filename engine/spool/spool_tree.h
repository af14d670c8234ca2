/* Walking LMDB's trees by reading the file, not the map: a page that cannot be read is an error
 * here and no signal, and no page is believed. For the start, and for what is done about damage;
 * nothing writes to the file meanwhile. Inside the spool files only. */
#ifndef ENGINE_SPOOL_TREE_H
#define ENGINE_SPOOL_TREE_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/spool/spool_page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A data file and the root that counts. */
struct spool_file {
    int fd;
    struct spool_meta meta;  /* the newer one */
    bool is_meta_lost;       /* one of the two metas is no meta page: a newer root may have been
                              * there */
    int meta_error;          /* why it is none: -errno of the read, or ERR_CORRUPT for its
                              * contents */
    struct spool_meta other; /* the older one, unless is_meta_lost */
};

/* Reads both metas.
 * errors: ERR_CORRUPT, -errno: neither can be used */
MUST_USE int spool_file_metas(struct spool_file *f, int fd);
/* errors: -errno; ERR_CORRUPT behind the end of the file */
MUST_USE int spool_file_read(const struct spool_file *f, uint64_t page, char *ret, size_t bytes);

/* A page of a tree. lo, hi: its keys are at or above lo and below hi; empty: no bound. */
struct spool_place {
    uint64_t page;
    bool is_leaf;
    struct slice lo, hi;
};

struct spool_tree_walk {
    const struct spool_file *file;
    /* Called with each leaf and its bytes, which are sound or not. returns 0, or an error that ends
     * the walk */
    int (*on_leaf)(void *ctx, const struct spool_place *place, const char *bytes);
    /* A page that cannot be read (-errno), is no page of a tree (ERR_CORRUPT), or has been seen
     * before or is outside of the file (ERR_LIMIT); bytes: NULL when there are none. What hangs
     * below it is passed over when this returns 0. */
    int (*on_bad)(void *ctx, const struct spool_place *place, const char *bytes, int err);
    void *ctx;
    bool skips_leaves;  /* leaves are not read */
    bool has_free_keys; /* the tree of free pages: keys are numbers of this machine */
    uint8_t *seen; /* a bit a page up to meta.last_page: a page is in one tree, once; or NULL */
};

/* errors: -ENOMEM, of the callbacks */
MUST_USE int spool_tree_walk(struct spool_tree_walk *w, const struct spool_tree *tree);

/* Mark pages as in use; false when one of them was, or is outside of the file. */
bool spool_tree_mark(const struct spool_file *f, uint8_t *seen, uint64_t page, uint64_t count);

/* The order of LMDB's keys. */
int spool_tree_compare(struct slice a, struct slice b, bool is_number);

/* A sound leaf whose records are read one after the other. */
struct spool_leaf_walk {
    const struct spool_place *place;
    const char *bytes;
    size_t page_bytes;
    bool is_number;    /* keys are numbers of this machine */
    struct slice last; /* key of the record before; data NULL: none */
};

/* The record of the index-th node, when it fits between its neighbours and bounds. */
MUST_USE bool spool_tree_record(struct spool_leaf_walk *l, unsigned index, struct spool_node *ret);

#endif
