/* Intrusive doubly linked list. The head is a link; an unlinked node points to itself. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->next == l;
}

static inline bool list_is_linked(const struct list *l)
{
    return l->next != l;
}

static inline void list_insert_before(struct list *where, struct list *node)
{
    node->prev = where->prev;
    node->next = where;
    where->prev->next = node;
    where->prev = node;
}

static inline void list_insert_after(struct list *where, struct list *node)
{
    list_insert_before(where->next, node);
}

static inline void list_push_back(struct list *head, struct list *node)
{
    list_insert_before(head, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
    list_insert_before(head->next, node);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#define list_first(head, type, member) container_of((head)->next, type, member)
#define list_last(head, type, member)  container_of((head)->prev, type, member)
#define list_next(item, type, member)  container_of((item)->member.next, type, member)
/* A type and a declared name cannot stand in parentheses.
 * NOLINTBEGIN(bugprone-macro-parentheses) */
#define list_foreach(item, head, type, member)                                                     \
    for (type *item = list_first(head, type, member); &item->member != (head);                     \
         item = list_next(item, type, member))
/* The current item may be removed and freed inside the loop. */
#define list_foreach_safe(item, head, type, member)                                                \
    for (type *item = list_first(head, type, member),                                              \
              *item##_next = list_next(item, type, member);                                        \
         &item->member != (head); item = item##_next, item##_next = list_next(item, type, member))
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
