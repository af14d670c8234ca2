/* What another node of the cluster learned of a lane, or did to it by order, holds here too. Called by
 * the thread that hears of it, with nothing locked. Such a change is recorded with a cause of its own,
 * by which it does not go back to where it came from. */
#include "base/error.h"
#include "engine/limit/limits_private.h"

#include <errno.h>

#define SPAN_MOST (366 * 86400 * USEC_PER_SEC)

static void obey_closed(struct limits *l, struct limits_lane *lane, const struct limit_lesson *what,
                        usec_t now) ON_ROLE(l->lock)
{
    struct limits_learned *learned = lane->learned;
    if (what->kind == LIMIT_REACTED_OPENED) {
        limits_open(l, lane, LIMIT_DONE_BY_PEER, now);
        return;
    }
    if (learned->is_closed && learned->closed_until >= now + what->span) {
        return; /* our own holds longer */
    }
    limits_close(l, lane, what->span, what->is_ordered, now);
    limits_fact_note(learned, LIMITS_FACT_CLOSED, what->rule, what->text, now);
    limits_reacted(l, lane,
                   &(struct limits_reacted){.kind = LIMIT_REACTED_CLOSED,
                                            .rule = what->rule,
                                            .text = what->text,
                                            .cause = LIMIT_DONE_BY_PEER,
                                            .span = what->span},
                   now);
}

static void obey_pace(struct limits *l, struct limits_lane *lane, const struct limit_lesson *what,
                      usec_t now) ON_ROLE(l->lock)
{
    struct pace *p = limits_pace_get(l, lane, (enum pace_unit)what->unit, now);
    if (p == NULL || (p->phase != PACE_FREE && p->rate <= what->value)) {
        return; /* our own is as slow */
    }
    pace_set(p, what->value, now);
    limits_fact_note(lane->learned, LIMITS_FACT_PACE + what->unit, what->rule, what->text, now);
    limits_reacted(l, lane,
                   &(struct limits_reacted){.kind = LIMIT_REACTED_PACE,
                                            .rule = what->rule,
                                            .text = what->text,
                                            .cause = LIMIT_DONE_BY_PEER,
                                            .unit = (enum pace_unit)what->unit,
                                            .value = what->value},
                   now);
}

static void obey_ceiling(struct limits *l, struct limits_lane *lane,
                         const struct limit_lesson *what, usec_t now) ON_ROLE(l->lock)
{
    bool is_session = what->kind == LIMIT_REACTED_SESSION;
    struct limits_learned *learned = lane->learned;
    struct ceiling *c = is_session ? &learned->session : &learned->connections;
    if (c->limit != 0 && c->limit <= what->value) {
        return; /* our own is as low */
    }
    ceiling_refused(c, (uint32_t)what->value, now);
    limits_fact_note(learned, is_session ? LIMITS_FACT_SESSION : LIMITS_FACT_CONNECTIONS,
                     what->rule, what->text, now);
    limits_reacted(l, lane,
                   &(struct limits_reacted){.kind = what->kind,
                                            .rule = what->rule,
                                            .text = what->text,
                                            .cause = LIMIT_DONE_BY_PEER,
                                            .value = c->limit},
                   now);
}

static void obey_destination(struct limits *l, struct limits_lane *lane,
                             const struct limit_lesson *what, usec_t now) ON_ROLE(l->lock)
{
    const struct limits_recalled closed = {what->destination, what->text, what->span, what->span};
    if (limits_recall_destination(l, lane, &closed, now)) {
        limits_reacted(l, lane,
                       &(struct limits_reacted){.kind = LIMIT_REACTED_CLOSED_DESTINATION,
                                                .rule = what->rule,
                                                .text = what->text,
                                                .cause = LIMIT_DONE_BY_PEER,
                                                .destination = what->destination,
                                                .span = what->span},
                       now);
    }
}

static bool is_sound(const struct limit_lesson *what)
{
    switch ((int)what->kind) {
    case LIMIT_REACTED_OPENED:
        return true;
    case LIMIT_REACTED_CLOSED:
        return what->span > 0 && what->span <= SPAN_MOST;
    case LIMIT_REACTED_CLOSED_DESTINATION:
        return what->span > 0 && what->span <= SPAN_MOST && what->destination.len > 0 &&
               what->destination.len <= LIMITS_NAME_MAX;
    case LIMIT_REACTED_CONNECTIONS:
    case LIMIT_REACTED_SESSION:
        return what->value >= 1 && what->value <= UINT16_MAX;
    case LIMIT_REACTED_PACE:
        return what->unit < LIMITS_UNITS && what->value >= PACE_LEAST && what->value <= PACE_MOST;
    default:
        return false;
    }
}

static void obey(struct limits *l, struct limits_lane *lane, const struct limit_lesson *what,
                 usec_t now) ON_ROLE(l->lock)
{
    switch ((int)what->kind) {
    case LIMIT_REACTED_PACE:
        obey_pace(l, lane, what, now);
        break;
    case LIMIT_REACTED_CONNECTIONS:
    case LIMIT_REACTED_SESSION:
        obey_ceiling(l, lane, what, now);
        break;
    case LIMIT_REACTED_CLOSED_DESTINATION:
        obey_destination(l, lane, what, now);
        break;
    default:
        obey_closed(l, lane, what, now);
    }
}

int limits_obey(struct limits *l, const struct limit_key *key, const struct limit_lesson *what,
                usec_t now)
{
    struct limits_lane *lane;
    if (!is_sound(what)) {
        return ERR_SYNTAX;
    }
    if (key->source.len > LIMITS_NAME_MAX || key->site.len > LIMITS_NAME_MAX ||
        key->hosts.len > LIMITS_NAME_MAX) {
        return -ENAMETOOLONG;
    }
    limits_enter(l);
    int err = limits_lane_get(l, key, now, &lane);
    if (err == 0 && limits_lane_learned(lane) == NULL) {
        err = -ENOMEM;
    }
    if (err == 0) {
        obey(l, lane, what, now);
        limits_lane_changed(l, lane, true, now);
    }
    limits_leave_lock(l);
    return err;
}
