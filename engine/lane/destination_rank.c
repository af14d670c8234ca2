/* Owns copies of the best destinations seen so far: a heap whose root is the worst of them. Called
 * by destination_report.c; asks nobody anything. */
#include "engine/lane/destination_rank.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 32 };

static const char *const words[DESTINATION_ORDER_COUNT] = {"", "name", "load", "delivered",
                                                           "deferred"};

enum destination_order destination_order_find(struct slice text)
{
    enum destination_order order = DESTINATION_ORDER_NAME;
    while (order < DESTINATION_ORDER_COUNT && !slice_eq(text, slice_of(words[order]))) {
        order++;
    }
    return order;
}

void destination_rank_init(struct destination_rank *r, enum destination_order order, size_t limit)
{
    assert(limit > 0 && order < DESTINATION_ORDER_COUNT);
    *r = (struct destination_rank){.order = order, .limit = limit};
}

static void release_row(struct destination_row *row)
{
    free((void *)(uintptr_t)row->view.name.data);
}

void destination_rank_fini(struct destination_rank *r)
{
    for (size_t i = 0; i < r->count; i++) {
        release_row(&r->rows[i]);
    }
    free(r->rows);
}

/* --- which is better -------------------------------------------------------------------------- */

static int compare_names(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int diff = len == 0 ? 0 : memcmp(a.data, b.data, len);
    if (diff != 0) {
        return diff;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

static uint64_t figure(enum destination_order order, const struct sched_destination_view *d)
{
    switch (order) {
    case DESTINATION_ORDER_LOAD:
        return (uint64_t)d->in_flight + (uint64_t)d->todo;
    case DESTINATION_ORDER_DELIVERED:
        return d->delivered;
    case DESTINATION_ORDER_DEFERRED:
        return d->deferred;
    case DESTINATION_ORDER_NONE:
    case DESTINATION_ORDER_NAME:
    case DESTINATION_ORDER_COUNT:
        break;
    }
    return 0;
}

/* Negative: the first is better. Equals are told apart by name and transport, so that the same
 * ones are shown each time. */
static int compare_destinations(enum destination_order order,
                                const struct sched_destination_view *a, uint32_t a_transport,
                                const struct sched_destination_view *b, uint32_t b_transport)
{
    uint64_t x = figure(order, a), y = figure(order, b);
    if (x != y) {
        return x > y ? -1 : 1;
    }
    int diff = compare_names(a->name, b->name);
    if (diff != 0) {
        return diff;
    }
    return a_transport < b_transport ? -1 : a_transport > b_transport;
}

static bool is_worse(const struct destination_rank *r, size_t a, size_t b)
{
    return compare_destinations(r->order, &r->rows[a].view, r->rows[a].transport, &r->rows[b].view,
                                r->rows[b].transport) > 0;
}

/* --- the heap --------------------------------------------------------------------------------- */

static void swap(struct destination_row *a, struct destination_row *b)
{
    struct destination_row row = *a;
    *a = *b;
    *b = row;
}

static void sift_up(struct destination_rank *r, size_t at)
{
    for (size_t parent; at > 0 && is_worse(r, at, parent = (at - 1) / 2); at = parent) {
        swap(&r->rows[at], &r->rows[parent]);
    }
}

static void sift_down(struct destination_rank *r, size_t count)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_worse(r, child + 1, child) ? 1 : 0;
        if (!is_worse(r, child, at)) {
            return;
        }
        swap(&r->rows[at], &r->rows[child]);
    }
}

static bool grow_rank(struct destination_rank *r)
{
    if (r->count < r->capacity) {
        return true;
    }
    size_t capacity = r->capacity == 0 ? FIRST_CAPACITY : r->capacity * 2;
    capacity = capacity < r->limit ? capacity : r->limit;
    struct destination_row *rows = reallocarray(r->rows, capacity, sizeof(*rows));
    if (rows != NULL) {
        r->rows = rows;
        r->capacity = capacity;
    }
    return rows != NULL;
}

/* The name lives as long as the row. */
static bool copy(struct destination_row *row, uint32_t transport,
                 const struct sched_destination_view *d)
{
    char *name = malloc(d->name.len + 1);
    if (name != NULL) {
        memcpy(name, d->name.len == 0 ? "" : d->name.data, d->name.len);
        *row = (struct destination_row){.view = *d, .transport = transport};
        row->view.name = slice_make(name, d->name.len);
    }
    return name != NULL;
}

void destination_rank_add(struct destination_rank *r, uint32_t transport,
                          const struct sched_destination_view *d)
{
    struct destination_row row;
    bool has_room = r->count < r->limit;
    r->has_more = r->has_more || !has_room;
    if (!has_room && (r->order == DESTINATION_ORDER_NONE ||
                      compare_destinations(r->order, d, transport, &r->rows[0].view,
                                           r->rows[0].transport) > 0)) {
        return;
    }
    if ((has_room && !grow_rank(r)) || !copy(&row, transport, d)) {
        r->has_failed = true;
        return;
    }
    if (has_room) {
        r->rows[r->count++] = row;
        if (r->order != DESTINATION_ORDER_NONE) {
            sift_up(r, r->count - 1);
        }
    } else {
        release_row(&r->rows[0]);
        r->rows[0] = row;
        sift_down(r, r->count);
    }
}

bool destination_rank_is_full(const struct destination_rank *r)
{
    return r->order == DESTINATION_ORDER_NONE && r->has_more;
}

void destination_rank_finish(struct destination_rank *r)
{
    if (r->order == DESTINATION_ORDER_NONE) {
        return;
    }
    for (size_t left = r->count; left > 1; left--) {
        swap(&r->rows[0], &r->rows[left - 1]);
        sift_down(r, left - 1);
    }
}
