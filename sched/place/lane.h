/* What a receiver sees of one of our sources: the window of its connections and what it has taught.
 * Owner thread only, but for the fields that say otherwise. */
#ifndef SCHED_LANE_H
#define SCHED_LANE_H

#include "base/heap.h"
#include "base/list.h"
#include "sched/feedback.h"
#include "sched/place/grant.h"
#include "sched/sched.h"

#include <limits.h>

#define LANES_MAX 300000 /* of all sites */

#define WINDOW_DEAD      0
#define WINDOW_SUSPENDED (-1)

struct reason;
struct site;

struct lane {
    /* Any thread, relaxed; the owner writes. */
    int window; /* > 0 READY, else WINDOW_... */
    int busy;   /* connections that carry entries */
    int connections, idle_connections;
    int in_flight; /* entries on its connections */
    /* Owner thread only. */
    int slowed;   /* so many of these went out before the window was lowered last for SLOWER: what
                    * the others say of that is not news */
    bool is_shut; /* its connections may not carry a further entry; at a site */
    int most_carried; /* any thread, relaxed: entries on one connection, by its ceiling; 0: none */
    struct feedback feedback;
    struct list open; /* connections, newest first */
};

/* One source at one site. What each selection and report touches stands before what was lent. */
struct site_lane {
    struct lane lane;
    struct site *site;
    int64_t credit;  /* of the weighted round robin; owner thread only */
    uint32_t source; /* its place in sched.sources; set at creation, any thread */
    /* Any thread, relaxed; the owner writes. */
    bool is_closed;       /* by order, until closed_until */
    bool is_probing;      /* it was closed, and has not been opened again: one entry at a time */
    int most_connections; /* by its ceiling; 0: none */
    /* Owner thread only. */
    bool keeps_none; /* by its ceiling: no connection without an entry */
    void *user;      /* the shell's */
    struct grant grant;
    struct heap_node timer; /* always in sched.lane_timers; USEC_NEVER unless it waits for a time */
    usec_t dead_until;      /* DEAD only */
    usec_t closed_until;    /* closed only */
    struct reason *reason;  /* DEAD only */
    struct reason *closed_by; /* closed only: why */
    usec_t state_until;       /* any thread, relaxed: DEAD or closed until then; 0 */
};

/* Published as a whole; a lane that came later is another array. */
struct lane_array {
    uint32_t count;
    struct site_lane *at[]; /* by place of the source; NULL: none */
};

static inline struct site_lane *lane_at_site(struct lane *lane)
{
    return container_of(lane, struct site_lane, lane);
}

/* The lanes of these sources, made when missing. false: no memory for all of them, or there are as
 * many as there may be. */
MUST_USE bool lane_obtain_all(struct sched *s, struct site *site, uint64_t sources);
void lane_free_all(struct sched *s, struct site *site);
/* Those whose source has gone, and their last connection too; of all sites. */
void lane_forget_gone(struct sched *s);
/* Some entry is in flight on one of them; one is dead. */
bool lane_is_in_flight(const struct site *site);
bool lane_is_away(const struct site *site);
/* As new, but for dead ones. */
/* One without feedback so far begins with that window, as far as the options allow. */
void lane_recall(struct sched *s, struct site_lane *l, uint32_t window);
void lane_forget_all(struct sched *s, struct site *site);
/* Its window, its connections, its source or its state changed. */
void lane_review(struct sched *s, struct site_lane *l);
/* Connections that may carry entries, by its window and its ceiling. */
static inline int lane_most(const struct site_lane *l)
{
    int window = l->lane.window, ceiling = l->most_connections;
    return ceiling > 0 && ceiling < window ? ceiling : window;
}
/* For views: windows of lanes together, of which each may be as large as an int. */
static inline int lane_add_window(int sum, int window)
{
    return window > INT_MAX - sum ? INT_MAX : sum + window;
}
/* Its timer, for the first of what it waits for. */
void lane_arm(struct sched *s, struct site_lane *l);
void lane_set_ceiling(struct sched *s, struct site_lane *l, uint32_t connections,
                      uint32_t messages);
/* Its connections may stay open without an entry. */
bool lane_keeps_idle(const struct site_lane *l);

/* The reports; reason: copied when it dies of it, NULL for a general text. */
void lane_succeed(struct sched *s, struct site_lane *l);
void lane_fail(struct sched *s, struct site_lane *l, const struct sched_reason *reason);
void lane_slow(struct sched *s, struct site_lane *l, const struct sched_reason *reason);
/* A report with SLOWER is news for this lane; it counts as such from now on. */
bool lane_is_slowed_anew(struct lane *lane);
bool lane_revive_all(struct sched *s, struct site *site); /* false when none was dead */
/* Those whose time has come. */
void lane_tick(struct sched *s);
usec_t lane_wake_at(const struct sched *s);
/* The config changed. */
void lane_refit_all(struct sched *s);
void lane_refit(struct sched *s, struct site *site); /* or the options of the site */
/* Lanes that have learned nothing by the rule that was before begin by the one that is now. */
void lane_begin_anew(struct sched *s, struct site *site, const struct feedback_rule *before);
/* Nothing more goes by it until then, and then one entry at a time; reason: taken, not copied. */
void lane_close(struct sched *s, struct site_lane *l, usec_t until, struct reason *reason);
void lane_probe(struct sched *s, struct site_lane *l); /* closed -> probing */
void lane_open(struct sched *s, struct site_lane *l);

#endif
