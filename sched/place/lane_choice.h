/* Which lane of a site an entry goes by: smooth weighted round robin over those that can take it.
 * Owner thread only. */
#ifndef SCHED_LANE_CHOICE_H
#define SCHED_LANE_CHOICE_H

#include "sched/sched.h"

struct party;
struct site_lane;

/* What an entry may go to. */
struct lane_wish {
    uint64_t lanes; /* of its party, at most these: places of sources */
    uint64_t tried; /* servers that it has tried */
    uint16_t group;
    bool needs_connection; /* one that is there */
};

/* Its turn is counted. NULL: none can take it. */
struct site_lane *lane_choice_take(struct sched *s, const struct party *p,
                                   const struct lane_wish *w);
/* Some lane can take it; nothing is counted. */
bool lane_choice_is_there(const struct sched *s, const struct party *p, const struct lane_wish *w);

#endif
