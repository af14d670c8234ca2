/* Parties: what placement, connections and hosts ask of the destinations that they serve. Called by
 * these; knows nothing of how a connection is chosen. */
#include "sched/place/party.h"

#include "sched/parking.h"
#include "sched/transport.h"

struct sched_destination *party_owner(const struct party *p)
{
    return container_of(p, struct sched_destination, own);
}

struct lane *party_lane(struct party *p)
{
    return &party_owner(p)->lane;
}

bool party_has_parked(const struct party *p)
{
    return !tree_is_empty(&party_owner(p)->parked);
}

const struct sched_destination *party_first_parked(const struct party *p)
{
    return party_owner(p);
}

uint64_t party_first_position(const struct party *p)
{
    return parking_first_position(party_owner(p));
}

void party_recount(struct sched *s, struct party *p)
{
    destination_recount(s, party_owner(p));
}

void party_reconsider(struct sched *s, struct party *p)
{
    destination_reconsider(s, party_owner(p));
}

bool party_keeps_idle(const struct party *p)
{
    const struct sched_destination *d = party_owner(p);
    return !destination_is_dead(d) && !d->lacks_hosts;
}

void party_settle(struct sched *s, struct party *p)
{
    destination_settle(s, party_owner(p));
}
