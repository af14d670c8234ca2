/* The treap of sched/tree.h. Called by the objects of this folder that keep others in order. Knows
 * nothing of what the nodes are embedded in. */
#include "sched/tree.h"

#include <assert.h>

void tree_init(struct tree *t, tree_key *key)
{
    *t = (struct tree){.key = key};
}

/* As good as random: nothing else depends on the address, and multiplication by an odd number is a
 * bijection whose high bits depend on all others. */
static uint64_t priority(const struct tree_node *n)
{
    uint64_t hash = (uintptr_t)n * UINT64_C(0x9e3779b97f4a7c15);
    return (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

static void replace_child(struct tree *t, struct tree_node *old, struct tree_node *with)
{
    struct tree_node *parent = old->parent;
    if (parent == NULL) {
        t->root = with;
    } else if (parent->left == old) {
        parent->left = with;
    } else {
        parent->right = with;
    }
    if (with != NULL) {
        with->parent = parent;
    }
}

/* n takes the place of its parent. */
static void rotate_up(struct tree *t, struct tree_node *n)
{
    struct tree_node *parent = n->parent;
    struct tree_node *moved;
    replace_child(t, parent, n);
    if (parent->left == n) {
        moved = n->right;
        parent->left = moved;
        n->right = parent;
    } else {
        moved = n->left;
        parent->right = moved;
        n->left = parent;
    }
    if (moved != NULL) {
        moved->parent = parent;
    }
    parent->parent = n;
}

/* t is not empty. */
static void attach(struct tree *t, struct tree_node *n)
{
    uint64_t key = t->key(n);
    if (t->key(t->last) <= key) {
        n->parent = t->last;
        t->last->right = n;
        t->last = n;
        return;
    }
    struct tree_node *parent = NULL, **place = &t->root;
    bool is_first = true;
    while (*place != NULL) {
        parent = *place;
        bool goes_right = t->key(parent) <= key;
        is_first = is_first && !goes_right;
        place = goes_right ? &parent->right : &parent->left;
    }
    *place = n;
    n->parent = parent;
    if (is_first) {
        t->first = n;
    }
}

void tree_insert(struct tree *t, struct tree_node *n)
{
    n->left = n->right = NULL;
    if (t->root == NULL) { /* what its key is read from, may be far away */
        n->parent = NULL;
        t->root = t->first = t->last = n;
        return;
    }
    attach(t, n);
    while (n->parent != NULL && priority(n->parent) < priority(n)) {
        rotate_up(t, n);
    }
}

void tree_insert_before(struct tree *t, struct tree_node *n)
{
    struct tree_node *next = tree_find_from(t, t->key(n));
    if (next == NULL) {
        tree_insert(t, n);
        return;
    }
    n->left = n->right = NULL;
    if (next->left == NULL) {
        next->left = n;
        n->parent = next;
    } else {
        struct tree_node *before = tree_previous(next);
        before->right = n;
        n->parent = before;
    }
    if (t->first == next) {
        t->first = n;
    }
    while (n->parent != NULL && priority(n->parent) < priority(n)) {
        rotate_up(t, n);
    }
}

void tree_remove(struct tree *t, struct tree_node *n)
{
    assert(tree_node_is_linked(n));
    if (t->first == n) {
        t->first = tree_next(n);
    }
    if (t->last == n) {
        t->last = tree_previous(n);
    }
    while (n->left != NULL && n->right != NULL) {
        rotate_up(t, priority(n->left) > priority(n->right) ? n->left : n->right);
    }
    replace_child(t, n, n->left != NULL ? n->left : n->right);
    tree_node_init(n);
}

struct tree_node *tree_next(const struct tree_node *n)
{
    if (n->right != NULL) {
        struct tree_node *at = n->right;
        while (at->left != NULL) {
            at = at->left;
        }
        return at;
    }
    while (n->parent != NULL && n->parent->right == n) {
        n = n->parent;
    }
    return n->parent;
}

struct tree_node *tree_previous(const struct tree_node *n)
{
    if (n->left != NULL) {
        struct tree_node *at = n->left;
        while (at->right != NULL) {
            at = at->right;
        }
        return at;
    }
    while (n->parent != NULL && n->parent->left == n) {
        n = n->parent;
    }
    return n->parent;
}

struct tree_node *tree_find_from(const struct tree *t, uint64_t key)
{
    if (t->first == NULL || t->key(t->first) >= key) {
        return t->first;
    }
    struct tree_node *found = NULL, *at = t->root;
    while (at != NULL) {
        if (t->key(at) >= key) {
            found = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return found;
}
