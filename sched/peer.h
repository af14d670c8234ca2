/* What one job has for one destination: its waiting entries there, in order. Owner thread only. */
#ifndef SCHED_PEER_H
#define SCHED_PEER_H

#include "base/list.h"
#include "sched/entry.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct job;
struct stand;

struct peer {
    struct list link;           /* the job's ring; the head of the ring moves, 5.4 */
    struct tree_node in_parked; /* sched_destination.parked, while the job is parked */
    struct job *job;            /* constant, any thread; NULL: a job's embedded one, not in use */
    struct sched_destination *destination;
    struct stand *stand; /* of its flow there; NULL while all mail is of one flow */
    struct entry_queue waiting;
    uint32_t entries; /* waiting and in flight; it is in the ring while there are some */
    uint32_t held;    /* its entries that exist, settled ones too; and one until peer_remove */
    /* Most have one entry: this saves them an allocation. */
    struct sched_entry first_entry;
};

/* Not linked to the job yet. NULL when out of memory. */
struct peer *peer_new(struct sched *s, struct job *job, struct sched_destination *d);
/* Nothing waits and nothing is in flight: unlinked when linked, freed with its last entry. */
void peer_remove(struct sched *s, struct peer *p);
void peer_release(struct sched *s, struct peer *p); /* one entry less holds it */
/* Its destination is open, and it is the turn of its flow. */
bool peer_is_open(const struct sched *s, const struct peer *p);
/* The next peer in the job's ring that can deliver now, or NULL; the ring is rotated behind it.
 *
 * needs_connection   only on a connection that the destination has */
struct peer *peer_pick(struct sched *s, struct job *job, bool needs_connection);
static inline bool peer_is_waiting(const struct peer *p)
{
    return p->waiting.last != NULL;
}

#endif
