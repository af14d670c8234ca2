/* The last failure of each destination, out of a scheduler thread's history of windows
 * (sched_thread.h): built in one walk, then asked for many destinations. One thread. */
#ifndef ENGINE_CHANGE_INDEX_H
#define ENGINE_CHANGE_INDEX_H

#include "base/attr.h"
#include "base/history.h"
#include "base/slice.h"
#include "engine/schedule/sched_thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct change_index {
    const struct history *history;
    struct change_entry {
        uint64_t hash;   /* of transport and name */
        uint64_t number; /* in the history */
    } * entries;         /* [count], by hash, the newest first among equals */
    size_t count;
};

/* Only changes for the worse that have a text. Out of memory leaves it empty. */
void change_index_init(struct change_index *x, const struct history *history);
void change_index_fini(struct change_index *x);
/* The newest of a destination; false: none is kept any more. */
MUST_USE bool change_index_find(const struct change_index *x, uint32_t transport, struct slice name,
                                struct sched_thread_change *ret);

#endif
