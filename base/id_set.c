/* Owns the table of a set. Called by the activator; knows nothing of messages but that no id is 0.
 */
#include "base/id_set.h"

#include <stdlib.h>

enum { START = 1024 };

static size_t slot_of(const struct id_set *s, uint64_t id)
{
    size_t at = (size_t)(id * 0x9E3779B97F4A7C15ull >> 32) & (s->capacity - 1);
    while (s->ids[at] != 0 && s->ids[at] != id) {
        at = (at + 1) & (s->capacity - 1);
    }
    return at;
}

void id_set_fini(struct id_set *s)
{
    free(s->ids);
    *s = (struct id_set){0};
}

bool id_set_has(const struct id_set *s, uint64_t id)
{
    return s->count > 0 && s->ids[slot_of(s, id)] == id;
}

static bool grow_id_set(struct id_set *s)
{
    struct id_set grown = {.capacity = s->capacity == 0 ? START : s->capacity * 2};
    grown.ids = calloc(grown.capacity, sizeof(*grown.ids));
    if (grown.ids == NULL) {
        return false;
    }
    for (size_t i = 0; i < s->capacity; i++) {
        if (s->ids[i] != 0) {
            grown.ids[slot_of(&grown, s->ids[i])] = s->ids[i];
            grown.count++;
        }
    }
    free(s->ids);
    *s = grown;
    return true;
}

bool id_set_add(struct id_set *s, uint64_t id)
{
    if ((s->count + 1) * 2 > s->capacity && !grow_id_set(s)) {
        return false;
    }
    size_t slot = slot_of(s, id);
    s->count += s->ids[slot] == 0;
    s->ids[slot] = id;
    return true;
}

void id_set_remove(struct id_set *s, uint64_t id)
{
    if (!id_set_has(s, id)) {
        return;
    }
    size_t hole = slot_of(s, id);
    s->ids[hole] = 0;
    s->count--;
    /* Entries behind the hole may have been pushed past it. */
    for (size_t at = (hole + 1) & (s->capacity - 1); s->ids[at] != 0;
         at = (at + 1) & (s->capacity - 1)) {
        uint64_t moved = s->ids[at];
        s->ids[at] = 0;
        s->ids[slot_of(s, moved)] = moved;
    }
}
