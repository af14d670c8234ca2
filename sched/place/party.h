/* Destinations whose mail may go over the same connections: the servers that they have, the
 * connections that are there, and what one more entry would need. Owner thread only, but for the
 * fields that say otherwise. */
#ifndef SCHED_PARTY_H
#define SCHED_PARTY_H

#include "sched/place/placement.h"
#include "sched/sched.h"
#include "sched/tree.h"

struct party {
    /* Any thread, relaxed; the owner writes. */
    bool is_unreachable; /* none of its hosts may be tried */
    uint8_t families;    /* of addresses, of its hosts that may be tried; at a site */
    uint16_t group;      /* preference of the servers in use, unless is_unreachable */
    /* Owner thread only. */
    uint16_t server_count;
    enum openness work : 8;     /* of its waiting entries, OPEN_NOT without any; counted in
                                 * sched.with_work */
    enum openness ready_in : 8; /* the flow.ready that in_ready is in */
    /* Any thread. */
    struct server *servers; /* published; the last has no host. NULL: one without a name */
    struct turn *turn;      /* owner thread; NULL unless flows take turns there */
    struct site *site;      /* NULL: it is that of one destination, and inside it; constant */
    /* Owner thread only. */
    struct tree idle;          /* connections, by preference, most recently idle first */
    struct tree roomy;         /* those that carry entries and have room, the newest first */
    struct tree_node in_ready; /* flow.ready or site_stand.parties: open, and jobs are parked. That
                                * of a destination that is at a site: shared_party.queue */
};

struct lane;
struct sched_destination;
struct site;
struct turn;

/* Families of addresses for which a lane has room; not at a site, those of the first source of its
 * pool. */
uint8_t party_room(const struct sched *s, const struct party *p);
/* The rest is below struct sched_destination: the way of those without a site is short. */
bool party_has_parked_at_site(const struct party *p);
const struct sched_destination *party_first_at_site(const struct party *p);
void party_recount_at_site(struct sched *s, struct party *p);
void party_count_connection_at_site(struct party *p, int change);
void party_count_busy_at_site(struct party *p, int change);
void party_review_lane_at_site(struct sched *s, struct lane *lane);
/* The position of the first job parked at it. */
uint64_t party_first_position(const struct party *p);
/* Let jobs that were passed over because of it try again, if that would help (5.8). */
void party_reconsider(struct sched *s, struct party *p);
/* A connection that has nothing to do may stay for its next mail. */
bool party_keeps_idle(const struct party *p, struct lane *lane);
/* Forget it when nothing is left of it. */
void party_settle(struct sched *s, struct party *p);
/* What a new connection is opened from: a place in sched.sources. */
uint32_t party_source(const struct sched *s, const struct party *p, struct lane *lane);

#endif
