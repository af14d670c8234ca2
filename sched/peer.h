/* What one job has for one destination: its waiting entries there, in order. Owner thread only. */
#ifndef SCHED_PEER_H
#define SCHED_PEER_H

#include "base/list.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct job;

struct peer {
    struct list link;           /* the job's ring; the head of the ring moves, 5.4 */
    struct list waiting;        /* sched_entry.in_peer, first in first out */
    struct tree_node in_parked; /* sched_destination.parked, while the job is parked */
    struct job *job;
    struct sched_destination *destination;
    uint32_t entries; /* waiting and in flight; 0 only between creation and commit */
};

/* Not linked to the job yet. NULL when out of memory. */
struct peer *peer_new(struct sched *s, struct job *job, struct sched_destination *d);
void peer_free(struct sched *s, struct peer *p); /* unlinks when linked */
/* The next peer in the job's ring that can deliver now, or NULL; the ring is rotated behind it.
 *
 * needs_connection   only on a connection that the destination has */
struct peer *peer_pick(struct sched *s, struct job *job, bool needs_connection);
static inline bool peer_is_waiting(const struct peer *p)
{
    return !list_is_empty(&p->waiting);
}

#endif
