/* How many messages are in each state: the one source of the numbers that status, top, metrics and
 * the page show. Each message counts once, so they add up; by the states of `sluice counts`.
 *
 * A message with recipients in several states is suspended only when all of them are that are not
 * done (counts by recipient shows it in each row).
 *
 * While no order suspends anything the tables and the activator know the states without a walk,
 * whatever the queue's length. What an order suspends only a walk can say, as an order is about
 * mail by its facts: up to QUEUE_FIGURES_AT_ONCE messages it is done when somebody asks, beyond
 * that by the slow clerk, at most a quarter of its time and only while somebody asks. The numbers
 * then say how old they are, and until the first such walk after a change of orders they are an
 * estimate. */
#ifndef ENGINE_QUEUE_FIGURES_H
#define ENGINE_QUEUE_FIGURES_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/census/queue_walk.h"

#include <stdbool.h>
#include <stdint.h>

struct clerk;
struct engine;
struct queue_figures_keeper;
struct spool_counts;

#define QUEUE_FIGURES_AT_ONCE 20000 /* a walk over so many takes some 20 ms */

struct queue_figures {
    uint64_t states[QUEUE_STATE_COUNT]; /* messages */
    uint64_t messages;                  /* the sum of `states` */
    usec_t as_of;                       /* wall */
    uint64_t is_estimate;               /* 1: orders have changed since the last walk, and the
                                         * next walk is under way */
};

/* What is known without a walk.
 *
 * waiting          messages in each class of the spool
 * active_of        those of them that are active
 * active           active messages in all
 * held_suspended   what is held is held by orders, but for so many as `scheduled` */
struct queue_figures_known {
    uint64_t waiting[3], active_of[3]; /* by enum spool_class */
    uint64_t active, scheduled;
    bool is_held_suspended;
};
/* Pure. The two sides were read one after the other: a class never counts below 0. */
void queue_figures_derive(const struct queue_figures_known *known, struct queue_figures *ret);

/* Count by a walk. errors: as queue_walk */
MUST_USE int queue_figures_walk(const struct queue_source *from, struct queue_figures *ret);

/* --- the engine's (queue_figures_run.c) ------------------------------------------------------- */

/* NULL when out of memory. */
struct queue_figures_keeper *queue_figures_keeper_new(void);
void queue_figures_keeper_free(struct queue_figures_keeper *keeper); /* accepts NULL */

/* The numbers now. Thread: a clerk's, online, without an open view of the spool.
 *
 * counts   of the spool, read just now
 * errors   as queue_walk */
MUST_USE int queue_figures_read(struct clerk *k, const struct spool_counts *counts,
                                struct queue_figures *ret);
/* What the slow clerk does between calls (clerk.h): walks when somebody asked. */
usec_t queue_figures_refresh(struct clerk *k);

#endif
