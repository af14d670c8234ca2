/* What the lanes of a site took too little of, and so left memory until its turn: by site and flow, in the
 * order of the turns, so that it can be called back when the lanes take more. A turn was reckoned
 * with the pace of that moment, and a pace that is sought is soon many times that.
 *
 * Owner: the scheduler thread that owns the core. */
#ifndef ENGINE_ABSENT_H
#define ENGINE_ABSENT_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct lanes;
struct outbox;
struct sched;
struct sched_action;

/* Of a core; others wait for their turn. */
#define ABSENT_MOST       (1U << 20) /* messages, 16 bytes each */
#define ABSENT_FLOWS_MOST (1U << 16) /* flows that have some, for each site; 150 bytes each */

enum { ABSENT_SITE_CHAINS = 256, ABSENT_FLOW_CHAINS = 4096 };

struct absent_site;
struct absent_flow;

struct absent {
    struct absent_site
        *sites[ABSENT_SITE_CHAINS]; /* chains by hash; what a zeroed one has is none */
    struct absent_flow *flows[ABSENT_FLOW_CHAINS]; /* of all sites */
    struct list all; /* absent_site, the one looked at longest ago first */
    uint64_t count;  /* messages */
    uint32_t flow_count;
    usec_t next; /* monotonic: when to look again, if there is any site */
};

void absent_init(struct absent *a);
void absent_fini(struct absent *a); /* accepts a zeroed one */

/* When a message comes back whose turn is `wait` from `wall` on; the result is wall as well. No message
 * waits longer than one that failed: the writer would put it there, where nobody finds it that calls
 * it back. */
MUST_USE usec_t absent_turn(const struct config *c, usec_t wait, usec_t wall);

/* SCHED_DEFER with is_paced: the message waits in the spool until its turn (wall). Turns of a site come
 * in order. What its lanes would have taken is not noted: another limit sends it away, its
 * tenant's or its domain's. */
void absent_note(struct absent *a, const struct lanes *lanes, const struct sched_action *sent,
                 uint32_t flow, usec_t now, usec_t turn);

struct absent_recall {
    struct sched *sched;
    const struct lanes *lanes;
    struct outbox *to_activator;
    usec_t now;
};
/* Call back what some sites may take soon: of each flow as much, and nothing of one of which something that
 * was called is not active yet. One that has no places keeps nobody else waiting. Does nothing before absent_wake_at. */
void absent_recall(struct absent *a, const struct absent_recall *r);

static inline usec_t absent_wake_at(const struct absent *a)
{
    return list_is_empty(&a->all) ? USEC_NEVER : a->next;
}

#endif
