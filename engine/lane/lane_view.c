/* Reads a core's view and asks struct limits for the same lane; changes nothing. */
#include "engine/lane/lane_view.h"

#include "engine/schedule/lanes.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"

#include <string.h>

const char *lane_state_text(enum lane_state state)
{
    static const char *const texts[LANE_STATE_COUNT] = {
        [LANE_OPEN] = "open",     [LANE_PACED] = "paced",     [LANE_PAUSED] = "paused",
        [LANE_CLOSED] = "closed", [LANE_PROBING] = "probing", [LANE_DEAD] = "dead",
    };
    return texts[state];
}

/* --- states ----------------------------------------------------------------------------------- */

/* A pace whose receiver lets nothing through waits for its next trial. */
static enum lane_state paced_state(const struct limit_lane_report *limits, usec_t wall,
                                   usec_t *ret_until)
{
    enum lane_state state = LANE_OPEN;
    for (unsigned i = 0; i < LIMIT_PACES; i++) {
        if (limits->paces[i] > 0 && state == LANE_OPEN) {
            state = LANE_PACED;
        }
        if (limits->paces[i] > 0 && limits->pace_until[i] > wall) {
            state = LANE_PAUSED;
            *ret_until = limits->pace_until[i] > *ret_until ? limits->pace_until[i] : *ret_until;
        }
    }
    return state;
}

static enum lane_state limits_state(const struct limit_lane_report *limits, usec_t wall,
                                    usec_t *ret_until)
{
    if (limits->state.is_closed && !limits->is_probing) {
        *ret_until = limits->state.until;
        return LANE_CLOSED;
    }
    if (limits->state.is_closed && !limits->is_ordered) { /* what an operator closed opens itself */
        return LANE_PROBING;
    }
    if (limits->paused_until > wall) {
        *ret_until = limits->paused_until;
        return LANE_PAUSED;
    }
    return paced_state(limits, wall, ret_until);
}

/* Where struct limits has no room for the lane the core knows it alone. */
static enum lane_state core_state(const struct sched_lane_view *core)
{
    if (core->state == SCHED_LANE_CLOSED) {
        return LANE_CLOSED;
    }
    return core->state == SCHED_LANE_PROBING ? LANE_PROBING : LANE_OPEN;
}

enum lane_state lane_view_state(const struct sched_lane_view *core,
                                const struct limit_lane_report *limits, usec_t now, usec_t wall,
                                usec_t *ret_until)
{
    enum lane_state state = LANE_OPEN;
    *ret_until = 0;
    if (limits != NULL) {
        state = limits_state(limits, wall, ret_until);
    } else if (core != NULL) {
        state = core_state(core);
    }
    bool is_of_core = state != LANE_OPEN && limits == NULL;
    if (core != NULL && core->state == SCHED_LANE_DEAD && state != LANE_CLOSED) {
        state = LANE_DEAD;
        is_of_core = true;
    }
    if (is_of_core) {
        *ret_until = core->state_until > 0 ? wall + (core->state_until - now) : 0;
    }
    return state;
}

enum limit_cause lane_view_waits(const struct limit_lane_report *limits, usec_t wall)
{
    bool is_over = limits->waits_until > 0 && limits->waits_until <= wall;
    return is_over ? LIMIT_NO_CAUSE : limits->waits_for;
}

/* --- lanes ------------------------------------------------------------------------------------ */

bool lane_view_in_core(const struct engine *e, uint32_t transport, struct slice site,
                       uint32_t number, struct lane_view *ret)
{
    const struct sched *s = sched_thread_core(e->scheds[transport % e->sched_count], transport);
    usec_t now = clock_mono(), wall = clock_wall();
    char room[LANES_KEY_ROOM];
    struct limit_key key;
    if (!sched_view_lane(s, site, number, &ret->core)) {
        return false;
    }
    ret->transport = transport;
    ret->site = ret->core.site;
    ret->source = source_table_name(settings_of(e)->sources, ret->core.source);
    lanes_limit_key(ret->site, ret->source, room, &key);
    ret->has_limits = limits_report_lane(e->limits, &key, now, wall, &ret->limits);
    ret->state =
        lane_view_state(&ret->core, ret->has_limits ? &ret->limits : NULL, now, wall, &ret->until);
    return true;
}

void lane_view_remembered(const struct limit_lane_report *limits, struct lane_view *ret)
{
    size_t site_len = strlen(limits->site), hosts_len = strlen(limits->hosts);
    ret->transport = LANE_NO_TRANSPORT;
    ret->has_limits = true;
    ret->limits = *limits;
    memcpy(ret->text, limits->site, site_len);
    if (hosts_len > 0) { /* as receiver.h names sites */
        ret->text[site_len++] = '/';
        memcpy(ret->text + site_len, limits->hosts, hosts_len);
    }
    ret->site = slice_make(ret->text, site_len + hosts_len);
    ret->source = slice_of(ret->limits.source);
    ret->state = lane_view_state(NULL, &ret->limits, clock_mono(), clock_wall(), &ret->until);
}

void lane_view_count(const struct engine *e, uint32_t transport, struct slice site,
                     struct lane_counts *ret)
{
    struct lane_view v;
    *ret = (struct lane_counts){0};
    for (uint32_t i = 0; lane_view_in_core(e, transport, site, i, &v); i++) {
        ret->closed += v.state == LANE_CLOSED || v.state == LANE_PROBING;
        ret->paced += v.state == LANE_PACED || v.state == LANE_PAUSED;
    }
}
