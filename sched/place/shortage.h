/* Parties that lack nothing but a slot: the next one there is for whoever is due it of all flows, so that no
 * flow has the turn. Which of its places a flow could use a slot at.
 *
 *     party ──▶ turn ──▶ unheard   its shares whose flow has not heard that it is such a party
 *                           │ ▲
 *      it becomes one: told ▼ │ it is none any more: found out when the flow looks for a place
 *     flow ──▶ seeks, loose        shares where it may use a slot
 *
 * Owner thread only. */
#ifndef SCHED_SHORTAGE_H
#define SCHED_SHORTAGE_H

struct flow;
struct job;
struct sched;
struct share;
struct turn;

void shortage_init_flow(struct flow *f);
void shortage_init_turn(struct turn *t);
void shortage_init_share(struct share *share);
/* What waits of the share, whether it was passed, or its first job has changed; unfile comes before
 * the first job changes. */
void shortage_file(struct sched *s, struct share *share);
void shortage_unfile(struct share *share);
/* Nobody has the turn there from now on. */
void shortage_begin(struct sched *s, struct turn *t);
/* There is an idle connection: messages that are capped may ride on it. */
void shortage_ride(struct sched *s, struct turn *t);
/* What selection did not find there may be there now. */
void shortage_ask_again(struct sched *s, struct share *share);
/* A job of the flow was passed over because of it (5.8). */
void shortage_mark(struct share *share);
/* There is a slot, and selection has found nothing of the flow. */
void shortage_rest(struct flow *f);
/* Where the first job of the flow is that could use a slot; NULL: none. */
struct share *shortage_first(struct flow *f);
/* Where it could use one besides; NULL: none that is known. */
const struct share *shortage_next(const struct share *share);
/* What is wrong; NULL: nothing (for sched_check). */
const char *shortage_check(const struct share *share);

#endif
