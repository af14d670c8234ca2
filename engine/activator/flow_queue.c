/* Owns the table of flow queues by number. Called by the activator; decides nothing. */
#include "engine/activator/flow_queue.h"

#include <stdlib.h>

enum { CAPACITY_LEAST = 16 };

void flow_queues_fini(struct flow_queues *q)
{
    for (uint32_t i = 0; i < q->capacity; i++) {
        if (q->by_number[i] != NULL) {
            free(q->by_number[i]->cursors);
            recall_line_fini(&q->by_number[i]->called);
            free(q->by_number[i]);
        }
    }
    free(q->by_number);
    *q = (struct flow_queues){.capacity = 0};
}

static bool reserve(struct flow_queues *q, uint32_t number)
{
    uint32_t capacity = q->capacity == 0 ? CAPACITY_LEAST : q->capacity;
    while (capacity <= number) {
        capacity *= 2;
    }
    if (capacity == q->capacity) {
        return true;
    }
    struct flow_queue **grown = realloc(q->by_number, capacity * sizeof(struct flow_queue *));
    if (grown == NULL) {
        return false;
    }
    for (uint32_t i = q->capacity; i < capacity; i++) {
        grown[i] = NULL;
    }
    q->by_number = grown;
    q->capacity = capacity;
    return true;
}

struct flow_queue *flow_queues_obtain(struct flow_queues *q, uint32_t number)
{
    struct flow_queue *f = flow_queues_find(q, number);
    if (f != NULL || !reserve(q, number)) {
        return f;
    }
    f = calloc(1, sizeof(*f));
    if (f != NULL) {
        rota_flow_init(&f->turn);
        list_init(&f->messages);
        f->backlog.flow = number;
        q->by_number[number] = f;
    }
    return f;
}

struct flow_cursors *flow_queue_cursors(struct flow_queue *f)
{
    if (f->cursors == NULL) {
        f->cursors = calloc(1, sizeof(*f->cursors));
    }
    return f->cursors;
}

void flow_queue_forget_places(struct flow_queue *f)
{
    if (f->cursors != NULL) {
        known_places_forget(&f->cursors->known);
    }
}

void flow_queue_rest(struct flow_queue *f)
{
    free(f->cursors);
    f->cursors = NULL;
}
