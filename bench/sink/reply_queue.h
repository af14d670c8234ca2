/* Replies that are under way: which bytes of a session's output may be sent by now. Where they take
 * no time each may be sent at once. Owner: one session; knows no clock and holds no bytes. */
#ifndef BENCH_REPLY_QUEUE_H
#define BENCH_REPLY_QUEUE_H

#include "base/clock.h"

#include <stddef.h>
#include <stdint.h>

struct reply_mark {
    usec_t due;
    uint64_t end;   /* position in the output, from its first byte ever */
    uint32_t ended; /* transactions whose last reply lies in these bytes */
};

/* Zeroed is empty. */
struct reply_queue {
    uint64_t end;             /* positions: of all bytes that were added */
    uint64_t released;        /* and of those that may be sent */
    struct reply_mark *marks; /* ring in order of due; heap */
    size_t first, count, capacity;
};

void reply_queue_fini(struct reply_queue *q); /* accepts a zeroed one */
/* Everything up to position `end` was written by now and arrives at `due`, or with what was written
 * before if that is later. Aborts when there is no memory. */
void reply_queue_add(struct reply_queue *q, uint64_t end, uint32_t ended, usec_t due);
/* Let the replies go that are due. returns: transactions that ended with them */
uint32_t reply_queue_release(struct reply_queue *q, usec_t now);
/* When the next bytes are due; USEC_NEVER: none are held */
usec_t reply_queue_next(const struct reply_queue *q);

static inline uint64_t reply_queue_held(const struct reply_queue *q) /* bytes */
{
    return q->end - q->released;
}

#endif
