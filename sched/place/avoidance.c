/* What single destinations keep away from, see sched/place/avoidance.h. Called by the public call that
 * orders it, by site and by the timers. A destination that avoids lanes stands in another party than
 * those that do not: parties say which lanes may be used. */
#include "sched/place/avoidance.h"

#include "sched/place/site.h"
#include "sched/transport.h"

#include <errno.h>
#include <string.h>

struct avoidance {
    struct avoidance *next; /* of the destination; the latest first */
    struct sched_destination *destination;
    struct heap_node timer; /* sched.avoidance_timers */
    struct reason *reason;
    uint32_t place; /* of the source */
};

static void free_avoidance(struct sched *s, struct avoidance *a)
{
    heap_remove(&s->avoidance_timers, &a->timer);
    reason_put(s, a->reason);
    s->host.release(s->host.ctx, a);
}

/* The place in the list that names it; the last one when there is none. */
static struct avoidance **find_link(struct sched_destination *d, uint32_t place)
{
    struct avoidance **at = &d->avoidances;
    while (*at != NULL && (*at)->place != place) {
        at = &(*at)->next;
    }
    return at;
}

static void unlink_avoidance(struct sched *s, struct avoidance **at)
{
    struct avoidance *a = *at;
    *at = a->next;
    free_avoidance(s, a);
}

int avoidance_begin(struct sched *s, struct sched_destination *d, uint32_t place, usec_t until,
                    struct reason *reason)
{
    struct avoidance *a = s->host.alloc(s->host.ctx, sizeof(*a));
    if (a == NULL) {
        reason_put(s, reason);
        return -ENOMEM;
    }
    *a = (struct avoidance){.destination = d, .reason = reason, .place = place};
    if (heap_insert(&s->avoidance_timers, &a->timer, until) != 0) {
        reason_put(s, reason);
        s->host.release(s->host.ctx, a);
        return -ENOMEM;
    }
    struct avoidance **before = find_link(d, place);
    if (*before != NULL) {
        unlink_avoidance(s, before); /* it takes the place of that one */
    }
    a->next = d->avoidances;
    d->avoidances = a;
    if (!site_move_avoiding(s, d, reason)) {
        unlink_avoidance(s, &d->avoidances);
        return -ENOMEM;
    }
    return 0;
}

void avoidance_end(struct sched *s, struct sched_destination *d, uint32_t place)
{
    struct avoidance **at = find_link(d, place);
    if (*at == NULL) {
        return;
    }
    unlink_avoidance(s, at);
    bool was_pinned = d->is_pinned;
    d->is_pinned = true;
    /* Without memory it stays where it is, until its hosts are asked for again. */
    (void)site_move_avoiding(s, d, avoidance_reason(d));
    d->is_pinned = was_pinned;
    destination_reconsider(s, d);
    destination_settle(s, d);
}

void avoidance_forget_all(struct sched *s, struct sched_destination *d)
{
    while (d->avoidances != NULL) {
        unlink_avoidance(s, &d->avoidances);
    }
}

uint64_t avoidance_mask(const struct sched_destination *d)
{
    uint64_t mask = 0;
    for (const struct avoidance *a = d->avoidances; a != NULL; a = a->next) {
        mask |= source_bit(a->place);
    }
    return mask;
}

struct reason *avoidance_reason(const struct sched_destination *d)
{
    return d->avoidances == NULL ? NULL : d->avoidances->reason;
}

void avoidance_tick(struct sched *s)
{
    for (;;) {
        struct heap_node *node = heap_min(&s->avoidance_timers);
        if (node == NULL || node->key > s->now) {
            break;
        }
        const struct avoidance *a = container_of(node, struct avoidance, timer);
        avoidance_end(s, a->destination, a->place);
    }
}

usec_t avoidance_wake_at(const struct sched *s)
{
    const struct heap_node *node = heap_min(&s->avoidance_timers);
    return node == NULL ? USEC_NEVER : node->key;
}
