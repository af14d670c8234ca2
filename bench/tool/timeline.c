/* The current interval and the points before it. Called by the receiver's threads under the lock of
 * a listener, and by the report. */
#include "bench/tool/timeline.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

void timeline_init(struct timeline *t, usec_t start, usec_t interval)
{
    assert(interval > 0);
    *t = (struct timeline){.start = start, .interval = interval, .now = {.p50 = -1, .p99 = -1}};
}

void timeline_fini(struct timeline *t)
{
    free(t->points);
    latency_fini(&t->latency);
    *t = (struct timeline){0};
}

/* The current interval with the latencies that it has so far. */
static struct timeline_point current(const struct timeline *t)
{
    struct timeline_point p = t->now;
    if (t->latency.count > 0) {
        p.p50 = latency_quantile(&t->latency, 0.5);
        p.p99 = latency_quantile(&t->latency, 0.99);
    }
    return p;
}

static void keep_second(struct timeline *t)
{
    if (t->count == t->capacity) {
        size_t capacity = t->capacity == 0 ? 16 : 2 * t->capacity;
        struct timeline_point *points = realloc(t->points, capacity * sizeof(*points));
        if (points == NULL) {
            abort(); /* a picture with holes is worse than none */
        }
        t->points = points;
        t->capacity = capacity;
    }
    t->points[t->count++] = current(t);
}

static bool is_quiet_timeline(const struct timeline *t)
{
    const struct timeline_point *p = &t->now;
    uint32_t before = t->count == 0 ? 0 : t->points[t->count - 1].open_end;
    return p->messages == 0 && p->deferred == 0 && p->open_max == before && p->open_end == before;
}

void timeline_advance(struct timeline *t, usec_t now)
{
    usec_t index = now > t->start ? (now - t->start) / t->interval : 0;
    if (index <= t->now.index || index >= UINT32_MAX) {
        return;
    }
    if (!is_quiet_timeline(t)) {
        keep_second(t);
        latency_clear(&t->latency);
    }
    uint32_t open = t->now.open_end;
    t->now = (struct timeline_point){(uint32_t)index, 0, 0, open, open, -1, -1};
}

void timeline_message(struct timeline *t, usec_t now, usec_t latency)
{
    timeline_advance(t, now);
    t->now.messages++;
    if (latency >= 0) {
        latency_add(&t->latency, latency);
    }
}

void timeline_deferred(struct timeline *t, usec_t now)
{
    timeline_advance(t, now);
    t->now.deferred++;
}

void timeline_open(struct timeline *t, usec_t now, uint32_t open)
{
    timeline_advance(t, now);
    t->now.open_end = open;
    if (open > t->now.open_max) {
        t->now.open_max = open;
    }
}

void timeline_read(const struct timeline *t, uint32_t index, size_t *cursor,
                   struct timeline_point *ret_point)
{
    size_t i = *cursor;
    while (i < t->count && t->points[i].index < index) {
        i++;
    }
    *cursor = i;
    if (i < t->count && t->points[i].index == index) {
        *ret_point = t->points[i];
        return;
    }
    if (t->now.index == index) {
        *ret_point = current(t);
        return;
    }
    uint32_t open = i > 0 ? t->points[i - 1].open_end : 0;
    if (index > t->now.index) {
        open = t->now.open_end;
    }
    *ret_point = (struct timeline_point){index, 0, 0, open, open, -1, -1};
}
