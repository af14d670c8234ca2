/* How many messages each tenant has in the queue, for `queue_limit`: in the tables or in the journal,
 * whatever their states. Counted only where some tenant has a limit: then the places of all queued
 * mail, which have the numbers of flows, are walked over once, and from then on each reception and
 * each removal moves a number. So the numbers are exact from the first reception after a start, and
 * nothing of them is stored. Mail that goes with another tenant's flow, for want of memory or of
 * numbers (spool_flow.h), is that one's in the walk.
 *
 * Names match in either case, as sections of tenants do; they are kept as hashes, in a table of
 * QUEUE_COUNT_SLOTS. When three quarters of it are in use the owner counts anew, which leaves tenants
 * without mail out; for more tenants than that with queued mail there is no count, and no limit.
 *
 * Owner: the spool writer. Any thread may read: a slot's hash is stored before its count, both are
 * atomic, and a reader who meets a slot that changes sees a number that was right a moment ago. */
#ifndef ENGINE_QUEUE_COUNT_H
#define ENGINE_QUEUE_COUNT_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct queue_count;
struct spool_reader;

#define QUEUE_COUNT_SLOTS 65536 /* power of two */

/* NULL when out of memory. */
struct queue_count *queue_count_new(void);
void queue_count_free(struct queue_count *q); /* accepts NULL */

/* Messages of a tenant; 0 while nothing is counted. Any thread. */
uint64_t queue_count_of(const struct queue_count *q, struct slice tenant);

/* Messages that a tenant may have queued; 0: as many as it likes. Any thread. */
uint64_t queue_count_limit(const struct config *c, struct slice tenant);

/* Whether anything is counted. Owner. */
bool queue_count_is_on(const struct queue_count *q);
/* Whether to walk over the queue now: the configuration has limits and nothing is counted yet, or
 * the numbers are not right any more. Owner. */
bool queue_count_is_wanted(const struct queue_count *q, const struct config *c);
/* Counts all messages of the tables, without a look at them. Owner. errors: ERR_LIMIT: more tenants
 * than there is room for; ERR_AGAIN and others of the store. Nothing is counted then */
MUST_USE int queue_count_take(struct queue_count *q, struct spool_reader *reader);
/* The numbers may be wrong from now on, as messages were lost or are damaged. Owner. */
void queue_count_doubt(struct queue_count *q);

/* A message more or less. Does nothing while nothing is counted. Owner. */
void queue_count_add(struct queue_count *q, struct slice tenant);
void queue_count_remove(struct queue_count *q, struct slice tenant);

#endif
