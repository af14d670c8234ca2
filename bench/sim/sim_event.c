#include "bench/sim/sim_event.h"

#include <assert.h>
#include <stdlib.h>

void sim_world_init(struct sim_world *w, uint64_t seed)
{
    *w = (struct sim_world){.chance = seed};
    heap_init(&w->events, NULL, NULL, NULL);
}

void sim_world_fini(struct sim_world *w)
{
    heap_fini(&w->events);
}

void sim_at(struct sim_world *w, struct sim_event *e, usec_t at)
{
    assert(at >= w->now);
    /* Not moved: among equals it is the youngest now. */
    sim_cancel(w, e);
    if (heap_insert(&w->events, &e->node, at) != 0) {
        abort();
    }
}

void sim_after(struct sim_world *w, struct sim_event *e, usec_t delay)
{
    sim_at(w, e, w->now + delay);
}

void sim_cancel(struct sim_world *w, struct sim_event *e)
{
    heap_remove(&w->events, &e->node);
}

bool sim_step(struct sim_world *w)
{
    struct heap_node *node = heap_min(&w->events);
    if (node == NULL) {
        return false;
    }
    struct sim_event *e = container_of(node, struct sim_event, node);
    w->now = node->key;
    heap_remove(&w->events, node);
    e->happen(e);
    return true;
}

/* splitmix64 */
static uint64_t next_chance(struct sim_world *w)
{
    uint64_t z = w->chance += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

usec_t sim_between(struct sim_world *w, struct sim_range r)
{
    assert(r.low <= r.high);
    return r.low + (usec_t)(next_chance(w) % ((uint64_t)(r.high - r.low) + 1));
}
