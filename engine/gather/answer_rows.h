/* One answer made of several nodes' answers. Pure.
 *
 * A list has the rows of all nodes, node after node or in the order of their ids, each with a member
 * `node`. Its last line has `nodes`, an object for each node that was asked: its count and more, or
 * status and error; `absent`, the names of those whose rows may be missing; and what the nodes' last
 * lines say in whole numbers, added up. */
#ifndef ENGINE_ANSWER_ROWS_H
#define ENGINE_ANSWER_ROWS_H

#include "base/slice.h"
#include "engine/http/api.h"

#include <stdbool.h>
#include <stddef.h>

struct node_answer {
    const char *node;
    bool is_self;
    int status;         /* of HTTP; 0: none */
    struct slice bytes; /* the answer as the node's own clients would get it */
    const char *error;  /* why there is none; NULL */
};

/* Answer a call for all nodes. Each byte is looked at, as others wrote it.
 *
 * is_by_id  rows are put in the order of their ids, and `limit` of them are given, so that `after`
 *           goes on behind the last one; else each node gives `limit` rows
 * answers   count of them, in the order that rows get */
void answer_rows_all(struct api_call *c, const struct node_answer *answers, size_t count,
                     bool is_by_id);
/* Answer a call for one other node: as it did, with the member `node`. */
void answer_rows_one(struct api_call *c, const struct node_answer *a);

#endif
