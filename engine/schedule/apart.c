/* A list that is looked at when hosts were found, while anybody stands apart. Called by sched_thread.c; must not
 * decide who stands apart. */
#include "engine/schedule/apart.h"

#include "base/hash.h"

#define APART_SPAN (3600 * USEC_PER_SEC)

static uint64_t name_of(struct slice destination)
{
    return hash_checksum(destination.data, destination.len) | 1;
}

void apart_add(struct apart *a, struct slice destination, usec_t now)
{
    if (!apart_has(a, destination, now)) {
        a->list[a->next] = (struct apart_destination){name_of(destination), now + APART_SPAN};
        a->next = (a->next + 1) % APART_MOST;
        a->last_until = now + APART_SPAN;
    }
}

bool apart_has(const struct apart *a, struct slice destination, usec_t now)
{
    if (now >= a->last_until) {
        return false;
    }
    uint64_t name = name_of(destination);
    for (uint32_t i = 0; i < APART_MOST; i++) {
        if (a->list[i].name == name && now < a->list[i].until) {
            return true;
        }
    }
    return false;
}
