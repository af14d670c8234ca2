/* What nodes say to each other: a question, which is a GET for somebody, and the parts of its answer.
 * Pure; what comes from others is checked and never asserted.
 *
 * A question is a JSON object: format 1, target (path and query), and tenant, when whoever asks is
 * bound to one. A part is a JSON object on one line, and bytes behind it: format 1, part (0, 1, ...),
 * state, and of the last part status, as of HTTP. Unknown members are ignored. */
#ifndef ENGINE_NODE_QUESTION_H
#define ENGINE_NODE_QUESTION_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "engine/config/label.h"

#include <stdbool.h>
#include <stdint.h>

#define NODE_QUESTION_TARGET_MAX (32U * 1024U)  /* bytes */
#define ANSWER_PART_BYTES        (256U * 1024U) /* of a part, without its first line */

struct node_question {
    char target[NODE_QUESTION_TARGET_MAX + 1];
    struct label tenant; /* len 0: none */
};

/* returns  false: out of memory, or the target is too long */
MUST_USE bool node_question_write(struct slice target, struct slice tenant, struct buf *ret);
/* errors: ERR_SYNTAX; ERR_CORRUPT: its format is not known here; -ENOMEM */
MUST_USE int node_question_read(struct slice text, struct node_question *ret);

enum answer_part_state {
    ANSWER_PART_WORKS, /* nothing yet: the node is at it */
    ANSWER_PART_MORE,  /* others follow */
    ANSWER_PART_END,
};

struct answer_part {
    uint64_t number;
    enum answer_part_state state;
    int status; /* of ANSWER_PART_END: 200, or 400 to 599 */
    struct slice bytes;
};

/* returns  false: out of memory */
MUST_USE bool answer_part_write(const struct answer_part *p, struct buf *ret);
/* bytes point into text. errors: as node_question_read */
MUST_USE int answer_part_read(struct slice text, struct answer_part *ret);

#endif
