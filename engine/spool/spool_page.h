/* LMDB's file format 1, as far as finding damage and reading round it needs it: pages, their nodes,
 * the two metas. Pure: bytes in, facts out. Inside the spool files only.
 *
 * A page is a head (number, flags, and for a tree the bounds of its free middle), offsets of its
 * nodes behind that, and the nodes from its end on. A large value has pages of its own behind a
 * head that stands on the first of them only. LMDB trusts all of it; nothing here does. */
#ifndef ENGINE_SPOOL_PAGE_H
#define ENGINE_SPOOL_PAGE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spool_page_kind { SPOOL_PAGE_BRANCH = 1, SPOOL_PAGE_LEAF = 2, SPOOL_PAGE_OVERFLOW = 4 };

#define SPOOL_PAGE_HEAD 16         /* bytes in front of a large value, and of a page's offsets */
#define SPOOL_PAGE_NONE UINT64_MAX /* the root of an empty tree */
#define SPOOL_PAGE_MAX  65536      /* bytes of the largest page */

/* A tree's record, in a meta or in the tree of tables. */
struct spool_tree {
    uint64_t root; /* SPOOL_PAGE_NONE: empty */
    uint64_t entries;
    unsigned depth; /* levels, the leaves' included */
};

/* What a meta page says. */
struct spool_meta {
    uint64_t txnid;
    uint64_t last_page;
    size_t page_bytes;
    struct spool_tree free_pages, tables;
};

struct spool_node {
    struct slice key;
    struct slice value; /* of a leaf; empty for a large one */
    uint64_t page;      /* the child of a branch, the first page of a large value, else 0 */
    uint64_t bytes;     /* of the value, wherever it is */
    bool is_large;
    bool is_tree; /* the value is a table's record */
};

/* false: no meta page of this format. bytes: the first of the page, at least 152 */
MUST_USE bool spool_meta_parse(const char *page, size_t bytes, struct spool_meta *ret);
/* errors: none; false for a value that is no tree's record */
MUST_USE bool spool_tree_parse(struct slice value, struct spool_tree *ret);

/* Whether LMDB can use the page: its number, its kind, every node inside of it. The keys' order is
 * the walk's to check. */
MUST_USE bool spool_page_is_sound(const char *page, size_t page_bytes, uint64_t number,
                                  enum spool_page_kind kind);
/* The number of nodes of a page that may be damaged: never more than fit into a page. */
unsigned spool_page_nodes(const char *page, size_t page_bytes);
/* The node at an index below spool_page_nodes; false when it is not within the page. */
MUST_USE bool spool_page_node(const char *page, size_t page_bytes, enum spool_page_kind kind,
                              unsigned index, struct spool_node *ret);

/* Pages of a large value. */
static inline uint64_t spool_large_pages(uint64_t bytes, size_t page_bytes)
{
    return (SPOOL_PAGE_HEAD + bytes + page_bytes - 1) / page_bytes;
}
/* Whether the head of a large value's first page is what it has to be. */
MUST_USE bool spool_large_is_sound(const char *page, uint64_t number, uint64_t pages);
/* Pages of the large value that begins here; 0: none does. */
uint64_t spool_large_length(const char *page, uint64_t number);
void spool_large_head(char *page, uint64_t number, uint64_t pages);

/* Makes an empty leaf; then adds nodes at its end, in the order of their keys.
 * spool_leaf_add  false when it does not fit. A large value: `node` as spool_page_node found it */
void spool_leaf_init(char *page, size_t page_bytes, uint64_t number);
MUST_USE bool spool_leaf_add(char *page, size_t page_bytes, const struct spool_node *node);

#endif
