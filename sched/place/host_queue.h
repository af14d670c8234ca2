/* Parties that need a connection to a host with a limit: which hosts are worth a look, and
 * whose job would be first. A host that fills up or has room again is one step, however many
 * parties it serves. Owner thread only. */
#ifndef SCHED_HOST_QUEUE_H
#define SCHED_HOST_QUEUE_H

#include "sched/sched.h"

struct destdb_host;
struct party;

void host_queue_init(struct sched *s);
void host_queue_init_host(struct destdb_host *h);
/* Its openness, its group of servers or its first parked job changed. */
void host_queue_update(struct sched *s, struct party *p);
/* Its servers are about to go. */
void host_queue_leave(struct sched *s, struct party *p);
/* The host reached its limit, or left it: what waited for that may go on. */
void host_queue_filled(struct sched *s, struct destdb_host *h);
void host_queue_opened(struct sched *s, struct destdb_host *h);
/* The party whose first parked job stands first, among those of hosts with room; or NULL. */
const struct party *host_queue_first(const struct sched *s);

#endif
