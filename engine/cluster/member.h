/* Who of a cluster is alive, and what a node may do itself while its own sign of life does not get
 * through. Pure: the caller brings the time (usec, CLOCK_BOOTTIME of its own machine, which goes on
 * while the machine sleeps). Wall clocks do not matter, and no time of one machine is ever compared
 * with a time of another: only spans are, with a margin of a third for clocks that run differently.
 *
 * Each node puts its entry every MEMBER_BEAT. Others time it from when they last saw it change
 * (struct member) until they sent an entry of their own that they have heard since (struct member_ear):
 * what was put before that one they have heard too, so the silence is the node's and not of a watch that
 * hears nothing. The node times itself from when it sent the put that was last acknowledged
 * (struct member_lease), which was earlier than anybody saw it. So a node whose clock runs at least
 * three quarters as fast as another's has stopped before that other one goes on in its place. A
 * clock that stood still breaks this; then only the fence of its log keeps mail from loss, and the
 * credits keep repeats in their bound.
 *
 * One owner at a time: the thread that talks to the cluster. */
#ifndef ENGINE_MEMBER_H
#define ENGINE_MEMBER_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define MEMBER_BEAT           (5 * USEC_PER_SEC)
#define MEMBER_LATE_AFTER     (10 * USEC_PER_SEC)
#define MEMBER_LAPSED_AFTER   (45 * USEC_PER_SEC)
#define MEMBER_GONE_AFTER     (60 * USEC_PER_SEC)
#define MEMBER_SHARES_FOR     (MEMBER_LATE_AFTER * 3 / 4)
#define MEMBER_DELIVERIES_FOR (MEMBER_GONE_AFTER * 3 / 4)

enum member_state {
    MEMBER_ALIVE,
    MEMBER_LATE,   /* its shares of limits count no more: others may take them */
    MEMBER_LAPSED, /* a node that measures time as we do delivers nothing by now */
    MEMBER_GONE,   /* may be taken over */
    MEMBER_STATE_COUNT
};

/* How far an observer has heard what is said in the bucket, whose revisions count each change of any key.
 * A change that another one of its key has replaced is never told, so after a gap of revisions a node
 * may have spoken that was not heard: entries tell again only what was put behind that. All zero: nothing
 * was heard. */
struct member_ear {
    uint64_t revision; /* of the last change that was told */
    usec_t gap;        /* when one was missing last */
    usec_t heard;      /* all that was put until then was told */
};

/* A change was told, of any key. Before member_seen, for each and in the order in which they are told. */
void member_ear_told(struct member_ear *ear, uint64_t revision, usec_t now);

/* The change that was told last is our own entry.
 *
 * sent  when its put was sent */
void member_ear_own(struct member_ear *ear, usec_t sent);

/* Another node, as one observer sees it. */
struct member {
    uint64_t revision; /* of its entry, as it was last seen to change */
    usec_t seen;       /* when that was */
};

/* Begin to watch a node whose entry has this revision: it counts as seen just now. */
void member_init(struct member *m, uint64_t revision, usec_t now);

/* Its entry was received. One that is not newer than the last (delivered again, or late) is no sign
 * of life. */
void member_seen(struct member *m, uint64_t revision, usec_t now);

/* What it is, as far as was heard; with the time that it is now instead: what it is if nothing has been said
 * since, which one's own next entry shows.
 *
 * heard  of the observer's ear */
enum member_state member_look(const struct member *m, usec_t heard);

/* "alive", "late", ...; static. */
const char *member_state_text(enum member_state state);

enum member_right {
    MEMBER_RIGHT_ALL,
    MEMBER_RIGHT_NO_SHARES,     /* others may count our shares as free soon: use none of them */
    MEMBER_RIGHT_NO_DELIVERIES, /* others may deliver our mail soon: no MAIL; close connections */
    MEMBER_RIGHT_COUNT
};

/* What this node may do itself. All zero: nothing yet. */
struct member_lease {
    uint64_t epoch; /* of this node's log; 0: none was begun */
    usec_t begun;   /* when the put that was last acknowledged was sent */
    bool is_over;   /* it has run out, until member_lease_begin */
    bool is_lapsed; /* shares could not be used when it was last asked */
    /* Raised whenever shares became void: a renewal may come before anybody has asked. Who holds
     * shares compares it with what it was, before anything else, and calls limit_share_void. */
    uint32_t lapses;
};

/* The owner's key was read or set, and says that this node holds `epoch` (at least 1).
 *
 * sent  when the request for it was sent */
void member_lease_begin(struct member_lease *l, uint64_t epoch, usec_t sent);

/* A put of our own entry was acknowledged.
 *
 * sent     when it was sent; earlier than that of another one: nothing changes
 * returns  false when the lease had run out: somebody may have taken the node over, so the owner's
 *          key is to be read, and then member_lease_begin */
MUST_USE bool member_lease_renew(struct member_lease *l, usec_t sent, usec_t now);

/* Asked before each MAIL, and by whoever has just woken: what it answers is not kept. */
enum member_right member_lease_right(struct member_lease *l, usec_t now);

/* When the answer changes next without a renewal; USEC_NEVER: it does not. */
usec_t member_lease_next(const struct member_lease *l, usec_t now);

/* The owner's key of a node: who may append to its log. Changed by compare-and-set alone. */
struct member_owner {
    uint64_t epoch;
    uint16_t holder; /* a node's number; the node itself until it was taken over */
};

/* What a node that is gone, or one that returns to its own, sets the key to. */
struct member_owner member_owner_claim(const struct member_owner *seen, uint16_t by);

/* Whether `node`, which writes under `epoch`, holds the log. */
bool member_owner_is(const struct member_owner *seen, uint16_t node, uint64_t epoch);

#endif
