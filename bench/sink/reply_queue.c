/* A ring of marks, one for the replies that were written at the same time. Called by the sessions
 * of sluice-sink. */
#include "bench/sink/reply_queue.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_MARKS 8

void reply_queue_fini(struct reply_queue *q)
{
    free(q->marks);
    q->marks = NULL;
}

static struct reply_mark *mark_at(const struct reply_queue *q, size_t i)
{
    return &q->marks[(q->first + i) & (q->capacity - 1)];
}

static void grow_reply_queue(struct reply_queue *q)
{
    size_t capacity = q->capacity == 0 ? FIRST_MARKS : 2 * q->capacity;
    struct reply_mark *marks = malloc(capacity * sizeof(*marks));
    if (marks == NULL) {
        abort(); /* a reply that comes too early falsifies the measurement */
    }
    for (size_t i = 0; i < q->count; i++) {
        marks[i] = *mark_at(q, i);
    }
    free(q->marks);
    q->marks = marks;
    q->capacity = capacity;
    q->first = 0;
}

void reply_queue_add(struct reply_queue *q, uint64_t end, uint32_t ended, usec_t due)
{
    struct reply_mark *last = q->count > 0 ? mark_at(q, q->count - 1) : NULL;
    assert(end >= q->end);
    q->end = end;
    if (last != NULL && last->due >= due) { /* replies of one connection keep their order */
        last->end = end;
        last->ended += ended;
        return;
    }
    if (q->count == q->capacity) {
        grow_reply_queue(q);
    }
    q->count++;
    *mark_at(q, q->count - 1) = (struct reply_mark){due, end, ended};
}

uint32_t reply_queue_release(struct reply_queue *q, usec_t now)
{
    uint32_t ended = 0;
    while (q->count > 0 && q->marks[q->first].due <= now) {
        const struct reply_mark *mark = &q->marks[q->first];
        q->released = mark->end;
        ended += mark->ended;
        q->first = (q->first + 1) & (q->capacity - 1);
        q->count--;
    }
    return ended;
}

usec_t reply_queue_next(const struct reply_queue *q)
{
    return q->count == 0 ? USEC_NEVER : q->marks[q->first].due;
}
