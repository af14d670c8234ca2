/* Owns the table of shapes. Called by `sluice classify --unknown`; must not read files. */
#include "engine/tally/reply_shapes.h"

#include "base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reply_shapes {
    struct reply_shape *items; /* [room] */
    size_t count, room, max;
    uint32_t *index; /* [slots], a power of two: 1 + the place of an item, 0: free */
    size_t slots;
    uint64_t dropped, dropped_replies;
};

struct reply_shapes *reply_shapes_new(size_t max)
{
    struct reply_shapes *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->max = max;
    s->slots = 4;
    while (s->slots < 2 * max) {
        s->slots *= 2;
    }
    s->index = calloc(s->slots, sizeof(*s->index));
    if (s->index == NULL) {
        reply_shapes_free(s);
        return NULL;
    }
    return s;
}

void reply_shapes_free(struct reply_shapes *s)
{
    if (s != NULL) {
        free(s->items);
        free(s->index);
        free(s);
    }
}

/* --- the index -------------------------------------------------------------------------------- */

static bool is_same(const struct reply_shape *a, const struct reply_shape *b)
{
    return a->code == b->code && a->len == b->len && strcmp(a->status, b->status) == 0 &&
           memcmp(a->text, b->text, a->len) == 0;
}

/* Where the shape stands in the index, or would. There are always free slots. */
static size_t slot_of(const struct reply_shapes *s, const struct reply_shape *shape)
{
    size_t at = (size_t)hash_bytes(shape->text, shape->len, shape->code) & (s->slots - 1);
    while (s->index[at] != 0 && !is_same(&s->items[s->index[at] - 1], shape)) {
        at = (at + 1) & (s->slots - 1);
    }
    return at;
}

static void index_all(struct reply_shapes *s)
{
    memset(s->index, 0, s->slots * sizeof(*s->index));
    for (size_t i = 0; i < s->count; i++) {
        s->index[slot_of(s, &s->items[i])] = (uint32_t)i + 1;
    }
}

/* --- the table -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct reply_shape *x = a, *y = b;
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    if (x->last != y->last) {
        return x->last > y->last ? -1 : 1;
    }
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->text, y->text, len);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static void sort(struct reply_shapes *s)
{
    if (s->count > 0) {
        qsort(s->items, s->count, sizeof(*s->items), compare);
    }
}

static void drop_rarer_half(struct reply_shapes *s)
{
    size_t kept = s->max / 2;
    sort(s);
    for (size_t i = kept; i < s->count; i++) {
        s->dropped++;
        s->dropped_replies += s->items[i].count;
    }
    s->count = kept;
    index_all(s);
}

static int make_room(struct reply_shapes *s)
{
    if (s->count == s->max) {
        drop_rarer_half(s);
    }
    if (s->count < s->room) {
        return 0;
    }
    size_t room = s->room == 0 ? 64 : 2 * s->room;
    room = room < s->max ? room : s->max;
    struct reply_shape *items = realloc(s->items, room * sizeof(*items));
    if (items == NULL) {
        return -ENOMEM;
    }
    s->items = items;
    s->room = room;
    return 0;
}

int reply_shapes_add(struct reply_shapes *s, const struct reply *reply,
                     const struct reply_verdict *verdict, int64_t when, struct slice line)
{
    struct reply_shape shape = {.code = reply->code};
    shape.len = response_text_template(reply->text, shape.text);
    memcpy(shape.status, reply->status, sizeof(shape.status));
    size_t at = slot_of(s, &shape);
    if (s->index[at] == 0) {
        int err = make_room(s);
        if (err != 0) {
            return err;
        }
        at = slot_of(s, &shape); /* others may have gone */
        s->items[s->count++] = shape;
        s->index[at] = (uint32_t)s->count;
    }
    struct reply_shape *found = &s->items[s->index[at] - 1];
    found->count++;
    if (found->count == 1 || when >= found->last) {
        found->last = when;
        found->class = verdict->class;
        found->why = verdict->why;
        (void)snprintf(found->example, sizeof(found->example), SLICE_FMT, SLICE_ARG(line));
    }
    return 0;
}

const struct reply_shape *reply_shapes_list(struct reply_shapes *s, size_t *ret_count)
{
    sort(s);
    index_all(s);
    *ret_count = s->count;
    return s->items;
}

uint64_t reply_shapes_dropped(const struct reply_shapes *s, uint64_t *ret_replies)
{
    *ret_replies = s->dropped_replies;
    return s->dropped;
}
