/* Deadlines of one worker, sorted lazily; see the header for the rule that makes it cheap. */
#include "net/timeout.h"

#include <assert.h>
#include <stddef.h>

void timeout_queue_init(struct timeout_queue *q)
{
    heap_init(&q->heap, NULL, NULL, NULL);
    q->running = INT64_MIN;
}

void timeout_queue_fini(struct timeout_queue *q)
{
    assert(q->heap.count == 0);
    heap_fini(&q->heap);
}

int timeout_add(struct timeout_queue *q, struct timeout *t,
                void (*expired)(struct timeout *t, usec_t now))
{
    t->node = (struct heap_node){0};
    int err = heap_insert(&q->heap, &t->node, USEC_NEVER);
    if (err != 0) {
        return err;
    }
    t->deadline = USEC_NEVER;
    t->expired = expired;
    return 0;
}

void timeout_set(struct timeout_queue *q, struct timeout *t, usec_t deadline)
{
    assert(t->node.position != 0);
    t->deadline = deadline;
    /* What a callback arms for a time already past waits for the next run, or a timeout that
     * arms itself so would keep this one from ending. */
    usec_t key = deadline > q->running ? deadline : q->running + 1;
    if (key < t->node.key) {
        heap_move(&q->heap, &t->node, key);
    }
}

void timeout_remove(struct timeout_queue *q, struct timeout *t)
{
    if (t->node.position == 0) {
        return;
    }
    heap_remove(&q->heap, &t->node);
    t->deadline = USEC_NEVER;
}

usec_t timeout_queue_next(const struct timeout_queue *q)
{
    const struct heap_node *first = heap_min(&q->heap);
    return first == NULL ? USEC_NEVER : first->key;
}

unsigned timeout_queue_run(struct timeout_queue *q, usec_t now)
{
    unsigned expired = 0;
    assert(now < USEC_NEVER);
    q->running = now;
    for (;;) {
        struct heap_node *first = heap_min(&q->heap);
        if (first == NULL || first->key > now) {
            break;
        }
        struct timeout *t = container_of(first, struct timeout, node);
        if (t->deadline > first->key) {
            heap_move(&q->heap, first, t->deadline);
            continue;
        }
        t->deadline = USEC_NEVER;
        heap_move(&q->heap, first, USEC_NEVER);
        t->expired(t, now);
        expired++;
    }
    q->running = INT64_MIN;
    return expired;
}
