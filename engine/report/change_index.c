/* Owns an index of a history that is written on meanwhile: what it names may be gone when it is
 * asked for. Called by destination_report.c; must not know what a failure means. */
#include "engine/report/change_index.h"

#include "base/hash.h"

#include <stdlib.h>

static uint64_t hash_destination(uint64_t transport, struct slice name)
{
    return hash_bytes(name.data, name.len, transport);
}

/* The core cuts long names. */
static struct slice cut(struct slice name)
{
    size_t most = sizeof(((struct sched_change *)NULL)->name) - 1;
    return slice_to(name, name.len < most ? name.len : most);
}

static int compare_changes(const void *a, const void *b)
{
    const struct change_entry *x = a, *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return x->number > y->number ? -1 : x->number < y->number;
}

static bool is_failure(const struct sched_change *c)
{
    return (c->cause == SCHED_CHANGE_DEAD || c->cause == SCHED_CHANGE_NEGATIVE) &&
           c->text[0] != '\0';
}

void change_index_init(struct change_index *x, const struct history *history)
{
    struct sched_thread_change change;
    uint64_t begin = history_begin(history), end = history_end(history);
    *x = (struct change_index){.history = history};
    if (end == begin ||
        (x->entries = reallocarray(NULL, end - begin, sizeof(*x->entries))) == NULL) {
        return;
    }
    for (uint64_t i = begin; i < end; i++) {
        if (history_get(history, i, &change) && is_failure(&change.change)) {
            x->entries[x->count++] = (struct change_entry){
                hash_destination(change.transport, slice_of(change.change.name)), i};
        }
    }
    if (x->count > 0) {
        qsort(x->entries, x->count, sizeof(*x->entries), compare_changes);
    }
}

void change_index_fini(struct change_index *x)
{
    free(x->entries);
}

bool change_index_find(const struct change_index *x, uint32_t transport, struct slice name,
                       struct sched_thread_change *ret)
{
    struct slice wanted = cut(name);
    uint64_t hash = hash_destination(transport, wanted);
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->entries[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < x->count && x->entries[low].hash == hash; low++) {
        if (history_get(x->history, x->entries[low].number, ret) && ret->transport == transport &&
            is_failure(&ret->change) && slice_eq(slice_of(ret->change.name), wanted)) {
            return true;
        }
    }
    return false;
}
