/* One epoll set and the watches registered with it; a worker's loop is wait, then dispatch.
 *
 * Owner: one thread. A connection is added once, edge-triggered in both directions (poller_add);
 * listeners, eventfds and the resolver's sockets are level-triggered (poller_watch). epoll carries
 * generation<<32 | slot, never a pointer: an event of a pass that was fetched before its watch was
 * removed is dropped, also when the slot has a new owner already.
 *
 * Where somebody waits for each step of one kind of connection and nobody for those of another, the
 * first kind is marked is_first: its events go before all others of a pass, and with `turn` a pass has
 * few of these others, so that the next look for events is near. */
#ifndef NET_POLLER_H
#define NET_POLLER_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct epoll_event;

enum poller_event {
    POLLER_READ = 1,   /* readable, or an error that a read will tell */
    POLLER_WRITE = 2,  /* writable, or an error that a write will tell */
    POLLER_HANGUP = 4, /* the peer closed its direction, or both, or the socket failed */
};

/* Embedded in the object that owns the descriptor; zero it before its first use. */
struct poller_watch {
    /* Called by poller_dispatch with a set of enum poller_event; may add and remove any watch,
     * its own included, and free its owner. */
    void (*ready)(struct poller_watch *watch, unsigned events);
    int fd;        /* valid while added */
    uint32_t slot; /* the poller's; 0 = not added */
    bool is_first; /* set before it is added: its events go before those of others */
};

struct poller_slot;

struct poller {
    int epfd;
    struct poller_slot *slots;
    uint32_t capacity;  /* slots allocated */
    uint32_t free_slot; /* head of the free list, 0 = none */
    uint32_t used;      /* watches added */
    struct epoll_event *events;
    int batch;       /* events fetched and not yet dispatched, at most */
    int turn;        /* set by the owner: events not marked is_first a dispatch; 0 = all */
    int event_count; /* fetched by poller_wait, not yet dispatched */
    uint64_t stale;  /* events dropped because their watch was removed */
};

/* batch: events fetched at a time, >= 1. errors: -errno of epoll_create1, -ENOMEM */
MUST_USE int poller_init(struct poller *p, int batch);
/* Every watch must have been removed. Accepts a zeroed poller. */
void poller_fini(struct poller *p);

/* Register a connected or connecting socket: edge-triggered, read, write and hangup, for its whole
 * life. A socket that is writable already reports so in the next pass. The watch must not move
 * until poller_remove.
 *
 * errors   -errno of epoll_ctl, -ENOMEM; nothing registered
 */
MUST_USE int poller_add(struct poller *p, struct poller_watch *watch, int fd,
                        void (*ready)(struct poller_watch *, unsigned));

/* Register level-triggered for `wants`, a set of POLLER_READ and POLLER_WRITE (0: only errors). */
MUST_USE int poller_watch(struct poller *p, struct poller_watch *watch, int fd, unsigned wants,
                          void (*ready)(struct poller_watch *, unsigned));
/* Change what a level-triggered watch wants. errors: -errno of epoll_ctl */
MUST_USE int poller_change(struct poller *p, struct poller_watch *watch, unsigned wants);

/* Unregister; call before the descriptor is closed. No-op when not added. */
void poller_remove(struct poller *p, struct poller_watch *watch);
/* The same for a descriptor that the caller closes next, and of which there is no copy: the close takes
 * it out of the epoll set, so the kernel is asked once. */
void poller_leave(struct poller *p, struct poller_watch *watch);

static inline bool poller_has(const struct poller_watch *watch)
{
    return watch->slot != 0;
}

/* Whether a turn has left events for the next dispatch: poller_wait does not sleep then. */
static inline bool poller_has_events(const struct poller *p)
{
    return p->event_count > 0;
}

/* Sleep until something is ready or `timeout` usec have passed (rounded up to milliseconds; 0 does
 * not sleep, USEC_NEVER has no limit), and fetch events. Calls nothing: the caller may be offline
 * for RCU here and come online before poller_dispatch.
 *
 * returns  number of events fetched (0 also after a signal)
 * errors   -errno of epoll_wait
 */
MUST_USE int poller_wait(struct poller *p, usec_t timeout);

/* The same, rounded by the kernel's timer slack only: where a moment to the millisecond is not good
 * enough. A kernel without epoll_pwait2 (before 5.11) rounds as poller_wait. */
MUST_USE int poller_wait_exact(struct poller *p, usec_t timeout);

/* Call ready() for each fetched event whose watch is still there, but for what is beyond the turn: that
 * comes next time, in its order. returns: calls made */
int poller_dispatch(struct poller *p);

#endif
