/* What was done to lanes, on its way into the event log: read from the newest that struct limits
 * keeps, a tenth of a second behind the first that waits, so that a flood of them costs a few writes a
 * second and no memory. One that is overwritten before it was read is counted, and the log says how
 * many were.
 *
 * Owner: the thread of the event log. limits_reaction_watch wakes it; see reaction_log_may_sleep. */
#ifndef ENGINE_REACTION_LOG_H
#define ENGINE_REACTION_LOG_H

#include "base/buf.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct event_log;
struct limits;

struct reaction_log {
    struct limits *limits; /* NULL: nobody writes them down */
    struct event_log *log;
    uint64_t next; /* number of the first that is not written */
    uint64_t lost; /* since the last line */
    usec_t due;    /* monotonic: when they are written; 0: there is none, and one wakes us */
    struct buf lines;
};

/* log   NULL: nothing is done, here and below
 * wake  as limits_reaction_watch takes it */
void reaction_log_init(struct reaction_log *r, struct limits *limits, struct event_log *log,
                       void (*wake)(void *ctx), void *ctx);
void reaction_log_fini(struct reaction_log *r);
/* Write what is due. is_last: all there is. Costs a load when there is nothing. */
void reaction_log_write(struct reaction_log *r, usec_t now, bool is_last);
/* When reaction_log_write is to be called at the latest; USEC_NEVER: when we are woken. */
static inline usec_t reaction_log_due(const struct reaction_log *r)
{
    return r->due == 0 ? USEC_NEVER : r->due;
}
/* Between the announcement of a sleep and the sleep: false when something came that reaction_log_due
 * does not know of yet. */
bool reaction_log_may_sleep(const struct reaction_log *r);

#endif
