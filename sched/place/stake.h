/* A tenant at a turn where a further flow of it has a share: its campaigns divide what it has. Most tenants have one
 * flow and need none, so the share of the flow that a tenant came with has a stake only where another one's has. Each
 * of the others brings the memory for one, and can have as much when it leaves. Owner thread only. */
#ifndef SCHED_STAKE_H
#define SCHED_STAKE_H

#include "sched/table.h"

#include <stdbool.h>
#include <stdint.h>

struct flow;
struct sched;
struct share;
struct turn;

struct stake {
    struct table_node node; /* sched.flows.stakes */
    const struct turn *turn;
    struct stake
        *spare; /* memory for one, of each share that brought some but one; linked by this */
    struct share *first; /* that of the flow that its tenant came with; NULL: it has none here */
    uint32_t class, tenant;
    uint32_t shares;  /* that brought memory: it goes with the last one */
    uint32_t waiting; /* shares that have entries waiting, the first one too */
};

/* Its shares bring the memory for a stake. */
bool stake_is_brought_by(const struct flow *f);
/* A share, of which nothing waits, comes to the stake of its tenant, made when missing; the table has room.
 *
 * brought   NULL unless its flow brings one; the stake's from now on */
void stake_join(struct sched *s, struct share *share, struct stake *brought);
/* It leaves, and nothing of it waits. Returns memory for a stake; NULL: it brought none. */
struct stake *stake_leave(struct sched *s, struct share *share);
/* Of its tenant, those that have entries waiting there: at least one. */
uint32_t stake_campaigns(const struct share *share);
/* It has the stake that is there for it, if any (for sched_check). */
bool stake_is_right(const struct sched *s, const struct share *share);
void stake_release(struct sched *s, struct stake *stake); /* memory, or NULL */

#endif
