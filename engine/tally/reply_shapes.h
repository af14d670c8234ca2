/* Replies put together by what they have in common, and how often each came, in bounded memory. Pure;
 * one thread. */
#ifndef ENGINE_REPLY_SHAPES_H
#define ENGINE_REPLY_SHAPES_H

#include "base/attr.h"
#include "engine/reply/reply_set.h"
#include "engine/tally/response_text.h"

#include <stddef.h>
#include <stdint.h>

#define REPLY_SHAPE_EXAMPLE 400 /* bytes with NUL; the rest is cut */

struct reply_shape {
    char text[RESPONSE_TEXT_MAX]; /* a template (response_text.h), not terminated */
    size_t len;
    uint16_t code;
    char status[REPLY_STATUS_BYTES];
    enum reply_class class; /* of the last one, and by what: static */
    const char *why;
    uint64_t count;
    int64_t last;                      /* wall, seconds; 0: no line said when */
    char example[REPLY_SHAPE_EXAMPLE]; /* the last one, as it came */
};

struct reply_shapes;

/* max: shapes that are kept, at least 2. errors: NULL when out of memory */
MUST_USE struct reply_shapes *reply_shapes_new(size_t max);
void reply_shapes_free(struct reply_shapes *s); /* accepts NULL */

/* One more reply. When there are too many shapes the rarer half goes, those of equal count by how long
 * ago the last one was; what comes again after that is counted anew.
 *
 * when    wall, seconds; 0: not known
 * line    as it came
 * errors  -ENOMEM: it is not counted */
MUST_USE int reply_shapes_add(struct reply_shapes *s, const struct reply *reply,
                              const struct reply_verdict *verdict, int64_t when, struct slice line);

/* All of them, the most frequent first, until the next call. */
const struct reply_shape *reply_shapes_list(struct reply_shapes *s, size_t *ret_count);
/* How many shapes went for want of room, and with how many replies. */
uint64_t reply_shapes_dropped(const struct reply_shapes *s, uint64_t *ret_replies);

#endif
