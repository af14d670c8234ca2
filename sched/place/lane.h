/* What a receiver sees of one of our sources: the window of its connections and what it has taught.
 * Owner thread only, but for the fields that say otherwise. */
#ifndef SCHED_LANE_H
#define SCHED_LANE_H

#include "base/heap.h"
#include "base/list.h"
#include "sched/feedback.h"
#include "sched/sched.h"

#define WINDOW_DEAD      0
#define WINDOW_SUSPENDED (-1)

struct site;

struct lane {
    /* Any thread, relaxed; the owner writes. */
    int window; /* > 0 READY, else WINDOW_... */
    int busy;   /* connections that carry entries */
    int connections, idle_connections;
    int in_flight; /* entries on its connections */
    /* Owner thread only. */
    struct feedback feedback;
    struct list open; /* connections, newest first */
};

/* One source at one site. */
struct site_lane {
    struct lane lane;
    struct site *site;
    uint32_t source;        /* index in sched.sources */
    bool is_usable;         /* connections that it has may carry a further entry */
    int64_t credit;         /* of the weighted round robin */
    struct heap_node timer; /* always in sched.lane_timers; USEC_NEVER unless it waits for a time */
    struct reason *reason;  /* DEAD only */
    usec_t state_until;     /* any thread, relaxed: DEAD until then; 0 */
};

static inline struct site_lane *lane_at_site(struct lane *lane)
{
    return container_of(lane, struct site_lane, lane);
}

/* Those of a new site, one for each source. errors: -ENOMEM, nothing changed */
MUST_USE int lane_new_all(struct sched *s, struct site *site);
void lane_free_all(struct sched *s, struct site *site);
/* Some entry is in flight on one of them; one is dead. */
bool lane_is_in_flight(const struct site *site);
bool lane_is_away(const struct site *site);
/* As new, but for dead ones. */
void lane_forget_all(struct sched *s, struct site *site);
/* Its window has room for a further connection. */
bool lane_has_room(const struct site_lane *l);
/* Its window, its connections or its state changed. */
void lane_review(struct sched *s, struct site_lane *l);

/* The reports; reason: copied when it dies of it, NULL for a general text. */
void lane_succeed(struct sched *s, struct site_lane *l);
void lane_fail(struct sched *s, struct site_lane *l, const struct sched_reason *reason);
void lane_revive(struct sched *s, struct site_lane *l);   /* DEAD -> READY */
bool lane_revive_all(struct sched *s, struct site *site); /* false when none was dead */
/* Those whose time has come. */
void lane_tick(struct sched *s);
usec_t lane_wake_at(const struct sched *s);
/* The config changed. */
void lane_refit_all(struct sched *s);

#endif
