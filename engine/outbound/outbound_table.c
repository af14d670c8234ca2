/* Owns the way from the scheduler's number of a connection to the connection, on its worker. Called by
 * outbound.c on the worker's thread; opens and closes nothing. */
#include "engine/outbound/outbound_private.h"
#include "engine/worker/worker.h"

#include <stdlib.h>
#include <string.h>

struct outbound *outbound_find(const struct worker *w, uint32_t transport, uint32_t number)
{
    const struct worker_connections *t = &w->connections[transport];
    return number < t->count ? t->slots[number] : NULL;
}

bool outbound_make_room(struct worker_connections *t, uint32_t number)
{
    if (number < t->count) {
        return true;
    }
    uint32_t count = number + 1 > 2 * t->count ? number + 1 : 2 * t->count;
    struct outbound **grown = realloc(t->slots, count * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    memset(grown + t->count, 0, (count - t->count) * sizeof(*grown));
    *t = (struct worker_connections){grown, count};
    return true;
}

void outbound_leave_table(struct outbound *c)
{
    struct outbound **slot = &c->worker->connections[c->transport].slots[c->connection];
    if (*slot == c) {
        *slot = NULL;
    }
}
