/* One destination: its window, its waiting entries, its hosts and its idle connections. */
#ifndef SCHED_DESTINATION_H
#define SCHED_DESTINATION_H

#include "base/heap.h"
#include "base/list.h"
#include "sched/action.h"
#include "sched/place/lane.h"
#include "sched/place/party.h"
#include "sched/sched.h"
#include "sched/shared.h"
#include "sched/table.h"
#include "sched/tree.h"

/* What each selection and report touches lies together, from `lane` on, and next to the name, by which it
 * is found: with many destinations each is out of the cache when its turn comes. */
struct sched_destination {
    /* Owner thread only. */
    usec_t hosts_expire;
    struct list in_party;       /* shared_party.members */
    struct list in_displaced;   /* sched.displaced or .displaced_waiting: it has some. Without any
                                 * entry: sched.lingering */
    struct list all;            /* sched.destinations, in order of creation */
    struct list in_unreachable; /* sched.unreachable */
    struct heap_node timer;     /* always in sched.timers; USEC_NEVER unless dead or suspended */
    struct pending resolve;
    struct reason *reason;        /* DEAD only */
    struct list stands;           /* stand.in_destination: where flows take turns */
    struct avoidance *avoidances; /* at a site: lanes that it keeps away from, the latest first */
    int counted_waiting;          /* `waiting` as it is in the count of its site */
    int counted_wanted;           /* the same in lane_set.wanted: 0 unless it is willing */
    uint32_t settled;             /* entries that are SETTLED */
    uint32_t nexthop_at; /* set at creation, any thread: the nexthop is the end of the name */
    /* Any thread, relaxed; the owner writes. */
    usec_t state_until;
    uint64_t deferred;

    struct lane lane; /* any thread and owner, as it says */
    /* Any thread, relaxed; the owner writes. */
    int in_flight, waiting; /* entries */
    int most_in_flight;     /* of terms; 0: no bound */
    int held;               /* of `waiting`: of jobs whose owner may not send now */
    usec_t paced_until;     /* of their rates and quota: nothing more goes before; 0: it may */
    bool lacks_hosts;       /* must_resolve and none are known */
    bool lacks_quota;       /* paced_until is not of rates alone */
    /* Owner thread only. */
    bool is_resolving;            /* from queueing RESOLVE to sched_resolved */
    bool is_pinned;               /* not freed however unused */
    bool is_willing, is_occupied; /* counted in its party, and its site */
    bool is_lingering;            /* in sched.lingering */
    bool was_at_site;             /* entries of it may be on connections that are not its own */
    struct party *party;          /* any thread, published: own, or one of a site */
    struct list todo;             /* waiting entries (place), in order of arrival */
    struct party own;             /* any thread and owner, as it says; of it alone */
    struct terms *terms;          /* NULL: the config's; sched/terms.h */
    struct list displaced;        /* entries (place) in flight without a connection, oldest first */
    struct tree parked;           /* peer.in_parked, in the order of the schedule */
    uint64_t tag;                 /* = flow.tag: some job was passed over because of it (5.8) */
    void *hosts;
    uint64_t round;       /* its number where destinations take turns; 0: they do not */
    uint64_t delivered;   /* any thread, relaxed; the owner writes */
    struct peer *scratch; /* of the job that a batch is being added to */
    /* Set at creation, any thread. */
    struct table_node node;
    uint32_t name_len;
    uint16_t pool;
    char name[];
};

uint64_t destination_hash(const struct sched *s, struct slice name, uint16_t pool);
/* It will be obtained soon: hints for the processor, see sched/table.h. */
void destination_expect(const struct sched *s, uint64_t hash, bool has_slot);
/* An entry of it will be selected soon: likewise. */
static inline void destination_expect_selection(const struct sched_destination *d)
{
    const char *at = (const char *)&d->lane;
    const size_t bytes =
        offsetof(struct sched_destination, hosts) - offsetof(struct sched_destination, lane);
    for (size_t i = 0; i <= bytes; i += 64) {
        __builtin_prefetch(at + i, 1);
    }
}
/* The destination of that name and pool, created when missing. NULL when out of memory.
 *
 * nexthop_at   where in the name the nexthop starts */
struct sched_destination *destination_obtain(struct sched *s, struct slice name, uint16_t pool,
                                             uint64_t hash, uint32_t nexthop_at);
/* Any thread. */
struct sched_destination *destination_find(const struct sched *s, struct slice name, uint16_t pool);
/* That is its name, or its nexthop. */
bool destination_is_called(const struct sched_destination *d, struct slice name);
/* Forget what was learned when nothing is left of it, and free it when nothing refers to it. */
void destination_settle(struct sched *s, struct sched_destination *d);
void destination_free(struct sched *s, struct sched_destination *d);

void destination_recount(struct sched *s, struct sched_destination *d);
/* Entries wait for it, and one may be selected now. */
bool destination_is_open(const struct sched *s, const struct sched_destination *d);
enum sched_why destination_bar(const struct sched *s,
                               const struct sched_destination *d); /* why it is not open */
static inline bool destination_is_dead(const struct sched_destination *d)
{
    return shared_get(&d->lane.window) == WINDOW_DEAD;
}
/* It takes nothing: it is dead itself, or all lanes of its site are. */
bool destination_refuses(const struct sched *s, const struct sched_destination *d);
/* Entries that wait for it, and for nothing else. */
static inline int destination_wanted(const struct sched_destination *d)
{
    return d->waiting - d->held;
}
struct reason *destination_reason(const struct sched_destination *d); /* why */
static inline bool destination_is_ready(const struct sched_destination *d)
{
    return shared_get(&d->lane.window) > 0;
}

/* The window becomes smaller for SLOWER. */
void destination_slow(struct sched *s, struct sched_destination *d,
                      const struct sched_reason *reason);
void destination_succeed(struct sched *s, struct sched_destination *d);
/* reason: copied when the destination dies of it; NULL for a general text. */
void destination_fail(struct sched *s, struct sched_destination *d,
                      const struct sched_reason *reason);
/* Those that have no host to try: dead until the first may be tried again. */
void destination_give_up_unreachable(struct sched *s);
/* READY or SUSPENDED -> DEAD: its waiting entries are deferred. */
void destination_kill(struct sched *s, struct sched_destination *d,
                      const struct sched_reason *reason, usec_t until);
/* What waits for it is deferred or bounced without an attempt. */
void destination_drop_waiting(struct sched *s, struct sched_destination *d,
                              enum sched_action_kind kind, struct reason *reason);
/* Some job was passed over because of it. */
void destination_mark(const struct sched *s, struct sched_destination *d);
/* It has gone to a site: what it had of its own is as new. */
void destination_leave_own(struct sched *s, struct sched_destination *d);
/* DEAD -> READY; the caller settles. */
void destination_revive(struct sched *s, struct sched_destination *d);
/* The same when it is dead, which is returned, and its hosts may be tried at once; settles. */
bool destination_retry(struct sched *s, struct sched_destination *d);
/* READY or DEAD -> SUSPENDED, for the rate delay. */
void destination_suspend(struct sched *s, struct sched_destination *d);
/* Its timer, for when it is revived or may go on; USEC_NEVER: then its rates alone count. */
void destination_arm(struct sched *s, struct sched_destination *d, usec_t until);
/* The timer of a dead or suspended destination is due, or of its rates. */
void destination_wake(struct sched *s, struct sched_destination *d);
/* Let jobs that were passed over because of it try again, if that would help (5.8). */
void destination_reconsider(struct sched *s, struct sched_destination *d);

/* It has work: ask for hosts unless known or asked for. */
void destination_want_hosts(struct sched *s, struct sched_destination *d);
/* A connection is about to be opened: ask again when the hosts are out of date. */
void destination_refresh_hosts(struct sched *s, struct sched_destination *d);
/* The config changed: its window shrinks to the limit, and what follows from config is found anew.
 */
void destination_refit(struct sched *s, struct sched_destination *d);
/* As if it had never been resolved; asks when there is mail. It may be gone afterwards. */
void destination_forget_hosts(struct sched *s, struct sched_destination *d);
void destination_resolved(struct sched *s, struct sched_destination *d,
                          const struct sched_hosts_result *r);

/* --- its party, or that of a site -------------------------------------------------------------- */

/* Whose it is; not at a site. */
static inline struct sched_destination *party_owner(const struct party *p)
{
    return container_of(p, struct sched_destination, own);
}
/* Selection finds it when it opens: jobs are parked at it, or it has turns (sched/selection.h). */
static inline bool destination_is_sought(const struct sched_destination *d)
{
    return !tree_is_empty(&d->parked) || d->round != 0;
}
/* The same of one of its destinations; the one that is found first. */
static inline bool party_has_parked(const struct party *p)
{
    return p->site == NULL ? destination_is_sought(party_owner(p)) : party_has_parked_at_site(p);
}
static inline const struct sched_destination *party_first_parked(const struct party *p)
{
    return p->site == NULL ? party_owner(p) : party_first_at_site(p);
}
/* What it may need has changed. */
static inline void party_recount(struct sched *s, struct party *p)
{
    if (p->site == NULL) {
        destination_recount(s, party_owner(p));
    } else {
        party_recount_at_site(s, p);
    }
}
/* It has one connection more, or less; so many more of a lane are busy. */
static inline void party_count_connection(struct party *p, int change)
{
    if (p->site != NULL) {
        party_count_connection_at_site(p, change);
    }
}
static inline void party_count_busy(struct party *p, struct lane *lane, int change)
{
    shared_add(&lane->busy, change);
    if (p->site != NULL) {
        party_count_busy_at_site(p, change);
    }
}
/* The lane's window, connections or entries changed. */
static inline void party_review_lane(struct sched *s, const struct party *p, struct lane *lane)
{
    if (p->site != NULL) {
        party_review_lane_at_site(s, lane);
    }
}

#endif
