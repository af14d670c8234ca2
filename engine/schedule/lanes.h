/* The lanes of one scheduler core, between the core and struct limits, which all transports share:
 * what the core hears of a lane (closed, limited, a ceiling), what it borrows for one, and what is
 * reported of the deliveries and connections on it.
 *
 * A lane is a source at a site. It is held from the answer that names the site first until the core
 * has forgotten the lane and its last connection has ended.
 *
 * Owner: the scheduler thread that owns the core. */
#ifndef ENGINE_LANES_H
#define ENGINE_LANES_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "engine/limit/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct delivery;
struct engine;
struct mailbox;
struct lane;
struct policy;
struct refusal;
struct sched;
struct sched_action;
struct settings;

/* A connection of the core, by its number. */
struct lane_slot {
    struct lane *lane; /* NULL: there is no connection, or nothing is known of its lane */
    usec_t sent_at;    /* when it was begun, as limits_connected wants it */
    uint32_t messages; /* accepted on it */
    bool is_connected; /* limits_connected was said */
};

struct lanes {
    struct engine *engine;
    struct sched *sched;
    uint16_t transport;
    char name[LIMITS_NAME_MAX + 1]; /* of the transport; a longer one is cut */
    struct limits_borrower *borrower;
    struct list all;         /* lanes */
    struct lane_slot *slots; /* [slot_count] */
    uint32_t slot_count;
};

struct lanes_config {
    struct engine *engine;
    struct mailbox *box; /* the owner's: woken when another thread's report concerns it */
    struct sched *sched; /* the core */
    uint16_t transport;
    const char *name;    /* of the transport; copied */
    uint32_t slot_count; /* connections that the core may have */
};
/* errors: -ENOMEM */
MUST_USE int lanes_init(struct lanes *l, const struct lanes_config *config);
/* Leaves the windows of its lanes to the next core of the transport. Accepts a zeroed one. */
void lanes_fini(struct lanes *l);
/* The core may have so many connections. errors: -ENOMEM, nothing changed */
MUST_USE int lanes_grow(struct lanes *l, uint32_t slot_count);

/* A site as sched_resolved named it, and what its lanes are allowed. */
struct lanes_site {
    struct slice key;            /* as the core knows it */
    struct slice name;           /* of what is configured: the provider, or the key */
    struct slice hosts;          /* as in limit_key */
    const struct policy *policy; /* of the site, by these settings */
    const struct settings *settings;
};

/* The name under which struct limits has the lane of a site as the core knows it. Pure; any thread.
 *
 * source  name, "": the system chooses the address; valid as long as ret, like the site
 * room    what ret may point to */
#define LANES_KEY_ROOM (2 * LIMITS_NAME_MAX)
void lanes_limit_key(struct slice site, struct slice source, char room[static LANES_KEY_ROOM],
                     struct limit_key *ret);

/* After sched_resolved: the lanes are held from now on, by these rules, and the core is told what
 * stands of them. Without memory for it nothing bounds them but their windows. */
void lanes_found(struct lanes *l, const struct lanes_site *site, usec_t now);
/* Tell the core what has changed. Once in each pass, before anything is pulled. */
void lanes_follow(struct lanes *l, usec_t now);
/* SCHED_ASK: what may go now is lent to the core, or when to ask again. */
void lanes_ask(struct lanes *l, const struct sched_action *a, usec_t now);
/* Messages a second that the lanes of a site may send, as they were told last; HUGE_VAL: there is no
 * bound, or none is known. */
MUST_USE double lanes_rate(const struct lanes *l, struct slice site);
/* SCHED_RETURN */
void lanes_return(const struct sched_action *a, usec_t now);
/* SCHED_LANE_GONE */
void lanes_gone(const struct sched_action *a, usec_t now);

/* SCHED_DELIVER: whether other connections of the lane live, while this one is to be made. */
bool lanes_have_others(const struct sched_action *a);
/* SCHED_DELIVER: notes in the delivery when it was sent, and of a new connection which lane it has.
 */
void lanes_deliver(struct lanes *l, const struct sched_action *a, struct delivery *d, usec_t now);
/* The report of a delivery: whether its connection was made, and what was accepted. Then lanes_refused,
 * where it is refused; then lanes_parted. */
void lanes_heard(struct lanes *l, const struct delivery *d, usec_t now);
/* A receiver's refusal, which the delivery's request has: what becomes of the held recipients. */
void lanes_refused(struct lanes *l, const struct delivery *d, usec_t now,
                   struct limit_verdict *ret);
/* The connection of the delivery may be over. */
void lanes_parted(struct lanes *l, const struct delivery *d, usec_t now);
/* The connection is over, or the worker is told to end it without the core awaiting that. */
void lanes_closed(struct lanes *l, uint32_t connection, usec_t now);

#endif
