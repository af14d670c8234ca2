/* Which lane of a site an entry goes by: smooth weighted round robin over those that can take it.
 * Owner thread only. */
#ifndef SCHED_LANE_CHOICE_H
#define SCHED_LANE_CHOICE_H

#include "base/list.h"
#include "sched/sched.h"

struct party;
struct site;
struct site_lane;

/* The round robin of a pool whose sources weigh other than by themselves, at one site, which owns it.
 * What pools that share a source send by it says nothing of either's turn. */
struct lane_turn {
    uint16_t pool;
    struct list in_site;               /* site.turns */
    int64_t credit[SCHED_SOURCES_MAX]; /* by place of the source; their sum is 0 */
};

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
/* That of a pool, made when missing. NULL: its sources weigh as they do by themselves, or there is no
 * memory, and they do so too. */
struct lane_turn *lane_turn_obtain(struct sched *s, struct site *site, uint16_t pool);
/* No set of the site may be used before it has obtained its turn again. */
void lane_turn_free_all(struct sched *s, struct site *site);

#endif
