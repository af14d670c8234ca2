/* Connections that carry several entries at once are filled on by the flow that has the turn at their party,
 * so they never become free while it has mail. While a flow that holds less than its share waits for a
 * connection, some of the flow most above its share take nothing more and drain: they are given over.
 * Owner thread only. */
#ifndef SCHED_HANDOVER_H
#define SCHED_HANDOVER_H

#include <stdbool.h>

struct connection;
struct flow;
struct sched;

/* The connection is busy for the flow, or is not any more. */
void handover_hold(struct sched *s, struct flow *f, struct connection *c);
void handover_release(struct sched *s, struct connection *c);
/* What it keeps, or weighs, has changed. */
void handover_file(struct sched *s, struct flow *f);
/* Flows take turns from now on: what is busy is the only flow's. */
void handover_begin(struct sched *s);
/* They do not any more: nobody holds any. */
void handover_end(struct sched *s);
/* The connection takes nothing more, for whoever waits for its place at its lanes. false: enough of these drain,
 * or it does. */
bool handover_yield(struct sched *s, struct connection *c);
/* Nothing can be selected: where that is for want of connections, some are given over. */
void handover_run(struct sched *s);
/* What is wrong with the flow's connections; NULL: nothing (for sched_check). */
const char *handover_check(const struct sched *s, const struct flow *f);

#endif
