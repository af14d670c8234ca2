/* One lane as operators see it: what a transport's core has of it (window, connections) and what all
 * transports share (engine/limit: paces, ceilings, closure, rates). Any thread, online under RCU. */
#ifndef ENGINE_LANE_VIEW_H
#define ENGINE_LANE_VIEW_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_report.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

enum lane_state {
    LANE_OPEN,
    LANE_PACED,   /* its receiver asked to slow down */
    LANE_PAUSED,  /* nothing goes for a while, by a rule or as nothing is let through */
    LANE_CLOSED,  /* by its receiver's refusal, a rule or an operator */
    LANE_PROBING, /* it was closed; one delivery at a time tries it */
    LANE_DEAD,    /* its receiver cannot be reached */
    LANE_STATE_COUNT
};
/* "open", "paced", ...; static */
const char *lane_state_text(enum lane_state state) NONNULL_RET;

#define LANE_NO_TRANSPORT UINT32_MAX

struct lane_view {
    uint32_t transport;          /* LANE_NO_TRANSPORT: no transport uses it now; it is remembered */
    struct slice site;           /* as `sluice sites` names it; valid while online, and as long as
                                  * this object */
    struct slice source;         /* "": the system chooses the address; likewise */
    struct sched_lane_view core; /* with a transport */
    bool has_limits;             /* limits is filled: else nothing bounds it but its window */
    struct limit_lane_report limits;
    enum lane_state state;
    usec_t until; /* wall; of the state; 0: no end is known */
    char text[2 * LIMITS_NAME_MAX + 2];
};

/* The lanes of a site that a transport's core knows, from number 0 on; false behind the last one. */
bool lane_view_in_core(const struct engine *e, uint32_t transport, struct slice site,
                       uint32_t number, struct lane_view *ret);
/* Of a lane that no transport holds. */
void lane_view_remembered(const struct limit_lane_report *limits, struct lane_view *ret);
/* Pure.
 *
 * core    NULL: no transport has it
 * limits  NULL: nothing is known
 * wall    now, as of the limits; now: monotonic, as of the core */
enum lane_state lane_view_state(const struct sched_lane_view *core,
                                const struct limit_lane_report *limits, usec_t now, usec_t wall,
                                usec_t *ret_until);

/* What its next message waits for, as far as that is not over; of a lane that nobody has asked since, what
 * it was then. Pure. */
enum limit_cause lane_view_waits(const struct limit_lane_report *limits, usec_t wall);

/* How many lanes of a transport's site are closed (or probed), and paced or paused. */
struct lane_counts {
    uint32_t closed, paced;
};
void lane_view_count(const struct engine *e, uint32_t transport, struct slice site,
                     struct lane_counts *ret);

#endif
