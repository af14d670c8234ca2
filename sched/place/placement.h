/* Which connection a delivery goes to. Called by the pull loop when an entry was selected, and by
 * destination to know whether one could be. Owner thread only.
 *
 * source   T. Finch, "How to schedule delivery"; what differs is in docs/scheduler.md */
#ifndef SCHED_PLACEMENT_H
#define SCHED_PLACEMENT_H

#include "sched/sched.h"

struct party;
struct sched_entry;

/* What an entry of a party needs to be placed now. */
enum openness {
    OPEN_NOT,  /* cannot be placed */
    OPEN_NOW,  /* there is a connection for it: one with room, or an idle one */
    OPEN_SLOT, /* a new connection, and so a slot that is free or idle */
    OPEN_HOST, /* the same, and a host of its group that is below host_concurrency_limit */
    OPEN_COUNT
};

/* Of its waiting entries, from the state of things: party.work keeps the answer. */
enum openness placement_openness(const struct sched *s, const struct party *p);
enum openness placement_openness_own(const struct sched *s, const struct sched_destination *d);
/* What it has for them is an idle connection, and none that carries entries; not at a site. */
bool placement_is_idle(const struct party *p);
/* Give a selected entry its connection; its destination is open. Queues DELIVER.
 *
 * needs_connection   none may be opened for it */
void placement_place(struct sched *s, struct sched_entry *e, bool needs_connection);
/* There is a connection for an entry of an open destination. */
bool placement_has_connection(const struct sched *s, const struct sched_destination *d);
/* Nothing else but the entry itself is left to try, were it to fail on its connection. */
bool placement_is_last(const struct sched *s, const struct sched_entry *e);

/* Displaced entries: in flight without a connection. They are placed before anything waiting. */
void placement_displace(struct sched *s, struct sched_entry *e);
/* A displaced one is given up instead, as the shell ends: BUSY again, without a connection. */
void placement_withdraw(struct sched *s, struct sched_entry *e);
/* Its circumstances changed: look at its displaced entries again. */
void placement_review(struct sched *s, struct sched_destination *d);
void placement_slot_opened(struct sched *s);
/* Place one, or find out that it cannot be: queues DELIVER or EXHAUSTED; false when all wait. */
bool placement_take_displaced(struct sched *s);

#endif
