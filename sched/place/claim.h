/* Where windows or paces are the limit and slots are short besides: a party that was full and has a place again
 * claims the next slot, for whose turn it is there. So shares there stay those of turns, though others
 * are before it where slots are given.
 *
 *     turn ──▶ in_claims   a party or lanes that were closed while mail waited; until they are again,
 *                          or nobody there may go first: then they are short of a slot (shortage.h)
 *
 * Owner thread only. */
#ifndef SCHED_CLAIM_H
#define SCHED_CLAIM_H

#include "sched/place/placement.h"

#include <stdbool.h>

struct flow;
struct peer;
struct sched;
struct share;
struct turn;

/* A turn is settled, and what its next entry needs is known: one that was full and has a place again begins to
 * claim, one that is full has no claim any more. */
void claim_update(struct sched *s, struct turn *t, enum openness need);
/* The turn does not go to a slot's next flow, when no slot is left: it claims one. */
bool claim_stands(const struct turn *t);
/* An entry of the flow is about to be selected, for which the last slot is used. true: a claim is before it, and
 * is settled before the next selection */
bool claim_precedes(struct sched *s, const struct flow *f, const struct peer *p);
/* Whose claim that is; NULL: nobody's. */
struct flow *claim_flow(struct sched *s);
/* It was looked at. */
void claim_end(struct sched *s);
/* What the share was given is about to be paid for: if it was by a claim, those before it are owed less. */
void claim_pay(struct turn *t, const struct share *served);
/* The turn goes. */
void claim_forget(struct sched *s, struct turn *t);
/* What is wrong with the list; NULL: nothing. That of a turn: turn_check. */
const char *claim_check(const struct sched *s);

#endif
