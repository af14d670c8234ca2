/* An ordered set of embedded nodes: a treap. Nothing is allocated, so nothing can fail. Keys are
 * read from the objects when they are compared; they may change as long as the order does not.
 * Its shape depends on where the nodes lie in memory, its order never does. One owner. */
#ifndef SCHED_TREE_H
#define SCHED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_node {
    struct tree_node *left, *right, *parent; /* parent == itself: in no tree */
};

typedef uint64_t tree_key(const struct tree_node *node);

struct tree {
    struct tree_node *root;
    struct tree_node *first, *last; /* NULL when empty */
    tree_key *key;
};

void tree_init(struct tree *t, tree_key *key);
static inline void tree_node_init(struct tree_node *n)
{
    n->parent = n;
}
static inline bool tree_node_is_linked(const struct tree_node *n)
{
    return n->parent != n;
}
static inline bool tree_is_empty(const struct tree *t)
{
    return t->root == NULL;
}
/* Behind those of the same key; at the end at a cost that does not depend on the size. */
void tree_insert(struct tree *t, struct tree_node *n);
/* Before those of the same key. */
void tree_insert_before(struct tree *t, struct tree_node *n);
void tree_remove(struct tree *t, struct tree_node *n); /* must be in the tree */
/* NULL at the ends. */
struct tree_node *tree_next(const struct tree_node *n);
struct tree_node *tree_previous(const struct tree_node *n);
/* The first whose key is at least `key`; NULL when there is none. */
struct tree_node *tree_find_from(const struct tree *t, uint64_t key);

#endif
