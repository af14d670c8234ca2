/* Parties: what placement, connections and hosts ask of the destinations that they serve. Called by
 * these; knows nothing of how a connection is chosen. */
#include "sched/place/party.h"

#include "sched/parking.h"
#include "sched/place/site.h"
#include "sched/transport.h"
#include "sched/turn.h"

uint8_t party_room(const struct sched *s, const struct party *p)
{
    if (p->site != NULL) {
        return shared_party_of(p)->set->room;
    }
    return source_families(s, source_bit(source_first(s, party_owner(p)->pool)));
}

uint64_t party_first_position(const struct party *p)
{
    return parking_first_position(party_first_parked(p));
}

void party_reconsider(struct sched *s, struct party *p)
{
    if (flows_take_turns(s)) {
        turn_touch(s, p);
    } else if (p->site != NULL) {
        lane_set_reconsider(s, shared_party_of(p)->set);
    } else {
        destination_reconsider(s, party_owner(p));
    }
}

bool party_keeps_idle(const struct party *p, struct lane *lane)
{
    if (p->site != NULL) {
        return lane_keeps_idle(lane_at_site(lane));
    }
    const struct sched_destination *d = party_owner(p);
    return d->party == p && !destination_is_dead(d) && !d->lacks_hosts;
}

void party_settle(struct sched *s, struct party *p)
{
    if (p->site != NULL) {
        site_settle_party(s, p);
    } else {
        destination_settle(s, party_owner(p));
    }
}

uint32_t party_source(const struct sched *s, const struct party *p, struct lane *lane)
{
    return p->site == NULL ? source_first(s, party_owner(p)->pool) : lane_at_site(lane)->source;
}

bool party_has_parked_at_site(const struct party *p)
{
    return !tree_is_empty(&shared_party_of(p)->queue);
}

const struct sched_destination *party_first_at_site(const struct party *p)
{
    return container_of(shared_party_of(p)->queue.first, struct sched_destination, own.in_ready);
}

void party_recount_at_site(struct sched *s, struct party *p)
{
    enum openness work = placement_openness(s, p);
    if (work != p->work) {
        lane_set_work(s, p, work);
        parking_update(s, p);
    }
    if (!list_is_empty(&s->displaced_waiting)) {
        placement_slot_opened(s); /* any member's displaced entries may go on */
    }
}

void party_count_connection_at_site(struct party *p, int change)
{
    shared_party_of(p)->connections += change;
}

void party_count_busy_at_site(struct party *p, int change)
{
    p->site->busy += change;
}

void party_review_lane_at_site(struct sched *s, struct lane *lane)
{
    lane_review(s, lane_at_site(lane));
}
