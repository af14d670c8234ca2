/* What was lent to a lane that is limited: asked for when an entry wants it, used by due times, given
 * back when it is not needed. Owner thread only, but for the fields that say otherwise. */
#ifndef SCHED_GRANT_H
#define SCHED_GRANT_H

#include "base/list.h"
#include "sched/action.h"
#include "sched/sched.h"

struct site;
struct site_lane;

enum grant_state {
    GRANT_NONE,    /* nothing is held, and nothing was asked for */
    GRANT_ASKED,   /* SCHED_ASK is on its way, or waits for its answer */
    GRANT_HELD,    /* from `from` to `until` */
    GRANT_WAITING, /* until `due`: there was nothing to lend */
};

/* Of a lane; without meaning unless it is limited. */
struct grant {
    bool is_limited; /* any thread, relaxed */
    bool is_vain;    /* WAITING: because what was lent was not used */
    uint8_t vain; /* ample loans one behind the other that were not used, as far as that counts */
    enum grant_state state;
    struct sched_grant lent; /* what is left of it */
    uint32_t given;          /* messages, of what was lent last */
    uint32_t used;           /* of these, messages that went out */
    uint32_t used_recipients;
    uint32_t usual;      /* messages that it is likely to use up before a loan ends; 0: not known */
    uint32_t each;       /* recipients of a message, rounded up; 0: not known */
    struct list touched; /* sched.touched_lanes: to be looked at before the next action; or
                              * sched.starved_lanes: wanted, and no slot is to be had */
    struct pending ask;  /* ASK */
    struct pending back; /* RETURN, and LANE_GONE */
    struct sched_units left; /* RETURN says so much */
    uint32_t owed;           /* recipients beyond those lent, paid for by the next grant */
    double per_second;       /* as it was told last; 0: not known */
    enum sched_why why;      /* any thread, relaxed: why it has nothing; NOTHING */
    usec_t due;              /* any thread, relaxed: when it may have something; 0 */
};

void grant_init(struct grant *g);
/* The lane takes new entries only from what is lent, or does not any more. */
void grant_set_limited(struct sched *s, struct site_lane *l, bool is_limited);
/* The answer to ASK. false: nothing was asked for. */
bool grant_give(struct sched *s, struct site_lane *l, const struct sched_grant *lent);
/* An entry can go out, as far as this is concerned; a connection can be opened for it. */
bool grant_allows(const struct sched *s, const struct site_lane *l);
bool grant_allows_connection(const struct site_lane *l);
/* An entry was placed. Returns when that counts as sent: `from` of what it was lent from, but now where
 * that is kept for long; 0: the lane is not limited. */
usec_t grant_use(struct sched *s, struct site_lane *l, uint32_t recipients, bool is_new_connection);
/* What is wanted of the lanes, or what they could take, has changed. */
void grant_touch(struct sched *s, struct site_lane *l);
void grant_touch_all(struct sched *s, struct site *site, uint64_t lanes);
/* An entry of the lane has ended: what would have been lent in vain may be used now. */
void grant_room(struct sched *s, struct site_lane *l);
/* A slot is to be had again: lanes that were wanted without one may ask. */
void grant_slot_opened(struct sched *s);
/* Ask and give back, as it is now; before each action. */
void grant_settle_all(struct sched *s);
/* Wanted and able to go, but for what is lent: then it asks (for sched_check). */
bool grant_is_due(const struct sched *s, const struct site_lane *l);
/* When something of it falls due, USEC_NEVER: never; and it has. */
usec_t grant_wake_at(const struct sched *s, const struct site_lane *l);
void grant_tick(struct sched *s, struct site_lane *l);
/* The lane goes: what is held is told by LANE_GONE, for which the lane must stay when this is true. */
bool grant_leave(struct sched *s, struct site_lane *l);
/* ASK, RETURN or LANE_GONE is pulled. */
void grant_fill(struct sched *s, struct pending *p, struct sched_action *ret);

#endif
