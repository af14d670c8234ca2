/* What the shell says about single lanes, by the site's key and the source's id: the public calls that
 * change what a lane takes. Holds no rule of its own. */
#include "sched/parking.h"
#include "sched/place/avoidance.h"
#include "sched/place/site.h"
#include "sched/transport.h"

#include <string.h>

/* Made when missing; NULL: the site or the source is not known, or there is no memory. */
static struct site_lane *find_lane(struct sched *s, struct sched_lane_key lane)
{
    struct site *site = site_find(s, lane.site);
    uint32_t place = source_find(s, lane.source);
    if (site == NULL || place == SCHED_SOURCES_MAX ||
        !lane_obtain_all(s, site, source_bit(place))) {
        return NULL;
    }
    return lane_find(site, place);
}

/* A call of the shell begins. NULL: the core does not know the lane. */
static struct site_lane *begin_order(struct sched *s, struct sched_lane_key lane, usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    return find_lane(s, lane);
}

/* Whatever was said to us, what waits is deferred. */
static struct reason *temporary_reason(struct sched *s, const struct sched_reason *reason)
{
    struct sched_reason copy = *reason;
    if (copy.status[0] == '5') {
        copy.status[0] = '4';
    }
    return reason_new(s, &copy, true);
}

bool sched_lane_close(struct sched *s, struct sched_lane_key lane, usec_t until,
                      const struct sched_reason *reason, usec_t now)
{
    struct site_lane *l = begin_order(s, lane, now);
    if (l == NULL) {
        return false;
    }
    struct site *at = l->site;
    if (until > now) {
        lane_close(s, l, until, temporary_reason(s, reason));
    } else {
        lane_probe(s, l);
    }
    site_settle(s, at);
    return true;
}

bool sched_lane_open(struct sched *s, struct sched_lane_key lane, usec_t now)
{
    struct site_lane *l = begin_order(s, lane, now);
    if (l == NULL) {
        return false;
    }
    struct site *at = l->site;
    lane_open(s, l);
    site_settle(s, at);
    return true;
}

bool sched_lane_attach(struct sched *s, struct sched_lane_key lane, void *user, usec_t now)
{
    transport_enter(s, now);
    struct site_lane *l = find_lane(s, lane);
    if (l == NULL) {
        return false;
    }
    l->user = user;
    return true;
}

void *sched_lane_user(const struct sched *s, struct sched_lane_key lane)
{
    const struct site *site = site_find(s, lane.site);
    const struct site_lane *l = site == NULL ? NULL : lane_find(site, source_find(s, lane.source));
    return l == NULL ? NULL : l->user;
}

uint32_t sched_lane_window(const struct sched *s, struct sched_lane_key lane)
{
    const struct site *site = site_find(s, lane.site);
    const struct site_lane *l = site == NULL ? NULL : lane_find(site, source_find(s, lane.source));
    bool is_other =
        l != NULL && l->lane.window > 0 && l->lane.window != site_rule(s, site)->initial;
    return is_other ? (uint32_t)l->lane.window : 0;
}

void sched_lane_recall(struct sched *s, struct sched_lane_key lane, uint32_t window, usec_t now)
{
    struct site_lane *l = begin_order(s, lane, now);
    if (l != NULL) {
        struct site *site = l->site;
        site->is_pinned = true;
        lane_recall(s, l, window);
        site->is_pinned = false;
        site_settle(s, site);
    }
}

bool sched_lane_limit(struct sched *s, struct sched_lane_key lane, bool is_limited, usec_t now)
{
    struct site_lane *l = begin_order(s, lane, now);
    if (l == NULL) {
        return false;
    }
    grant_set_limited(s, l, is_limited);
    return true;
}

bool sched_lane_ceiling(struct sched *s, struct sched_lane_key lane, uint32_t connections,
                        uint32_t messages, usec_t now)
{
    struct site_lane *l = begin_order(s, lane, now);
    if (l == NULL) {
        return false;
    }
    struct site *site = l->site;
    site->is_pinned = true;
    lane_set_ceiling(s, l, connections, messages);
    site->is_pinned = false;
    site_settle(s, site);
    return true;
}

bool sched_lane_grant(struct sched *s, struct sched_lane_key lane, const struct sched_grant *grant,
                      usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    const struct site *site = site_find(s, lane.site);
    struct site_lane *l = site == NULL ? NULL : lane_find(site, source_find(s, lane.source));
    return l != NULL && grant_give(s, l, grant);
}

/* false: it is not there, or there is no memory. It may be gone afterwards. */
static bool close_for_one(struct sched *s, struct sched_destination *d, uint32_t place,
                          usec_t until, const struct sched_reason *reason)
{
    if (d->is_lingering) {
        destination_free(s, d); /* its next mail asks for its hosts, and hears of this then */
        return false;
    }
    if (until <= s->now) {
        avoidance_end(s, d, place);
        return true;
    }
    bool was_pinned = d->is_pinned;
    d->is_pinned = true;
    int err = avoidance_begin(s, d, place, until, temporary_reason(s, reason));
    d->is_pinned = was_pinned;
    if (err == 0) {
        destination_reconsider(s, d);
    }
    destination_settle(s, d);
    return err == 0;
}

bool sched_close_for(struct sched *s, struct sched_lane_key lane, struct slice destination,
                     usec_t until, const struct sched_reason *reason, usec_t now)
{
    transport_enter(s, now);
    s->resume_job = NULL;
    const struct site *at = site_find(s, lane.site);
    uint32_t place = source_find(s, lane.source);
    if (at == NULL || place == SCHED_SOURCES_MAX) {
        return false;
    }
    bool was_there = false;
    for (uint32_t pool = 0; pool < s->pool_most; pool++) {
        struct sched_destination *d = destination_find(s, destination, (uint16_t)pool);
        if (d != NULL && d->party->site == at) {
            was_there |= close_for_one(s, d, place, until, reason);
        }
    }
    if (s->recipient_destinations > 0) {
        list_foreach_safe(d, &s->destinations, struct sched_destination, all)
        {
            if (d->party->site == at && !slice_eq(sched_destination_name(d), destination) &&
                slice_eq(sched_destination_nexthop(d), destination)) {
                was_there |= close_for_one(s, d, place, until, reason);
            }
        }
    }
    return was_there;
}
