/* Turns what is known of lanes into causes. Called by why_destination.c; changes nothing. */
#include "engine/report/why_lane.h"

#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/lane/lane_object.h"
#include "engine/lane/lane_view.h"
#include "engine/report/why_destination.h"
#include "engine/schedule/lanes.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "sched/limit/pace.h"
#include "sched/limit/rate_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES_SHOWN = 8,
    CAUSE_TEXT = 400,
    RATES_TEXT = 200,
};

/* What the links of one lane share. */
struct subject {
    struct why *w;
    int level;
    const struct why_lanes *q;
    const struct lane_view *v;
    const char *source;
};

/* --- causes ----------------------------------------------------------------------------------- */

/* "TEXT (rule NAME, said 3 times, since 5m)" */
static void because_fact(const struct subject *s, json_t *link, const struct limit_fact *fact)
{
    char text[CAUSE_TEXT], age[WHY_SPAN_TEXT], rule[LIMITS_RULE_MAX + 8] = "", times[48] = "";
    if (fact->since == 0) {
        return;
    }
    if (fact->rule[0] != '\0') {
        (void)snprintf(rule, sizeof(rule), "rule %s, ", fact->rule);
    }
    if (fact->times > 1) {
        (void)snprintf(times, sizeof(times), "said %u times, ", fact->times);
    }
    (void)snprintf(text, sizeof(text), "%s (%s%ssince %s ago)", fact->text, rule, times,
                   why_span_text(s->w->now - fact->since, age));
    why_because(link, slice_of(text));
}

static json_t *lane_link(const struct subject *s, const char *what)
{
    return why_link(s->w, s->level, "lane %s of " SLICE_FMT " %s", s->source, SLICE_ARG(s->v->site),
                    what);
}

/* When its next message goes, where that is known. */
static void put_turn(const struct subject *s, json_t *link)
{
    const struct limit_lane_report *r = &s->v->limits;
    if (lane_view_waits(r, s->w->now) != LIMIT_NO_CAUSE && r->waits_until > 0) {
        why_until(s->w, link, r->waits_until);
        why_next(link, "its next message goes then");
    }
}

static void put_closed(const struct subject *s)
{
    const struct limit_lane_report *r = &s->v->limits;
    json_t *link;
    if (s->v->state == LANE_PROBING) {
        link = lane_link(s, "was closed, and one delivery at a time tries it");
        because_fact(s, link, &r->closed_fact);
        why_next(link, "it is open when its receiver takes one");
        return;
    }
    link = lane_link(s, r->is_ordered ? "is closed by order"
                                      : "is closed: its receiver does not want it");
    because_fact(s, link, &r->closed_fact);
    why_until(s->w, link, s->v->until);
    why_next(link, "%s; sluice lanes open " SLICE_FMT " --source %s opens it now",
             r->is_ordered ? "then it is open again" : "then one delivery at a time tries it",
             SLICE_ARG(s->v->site), s->v->source.len == 0 ? "-" : s->source);
}

static void put_pause(const struct subject *s)
{
    json_t *link = lane_link(s, "pauses");
    because_fact(s, link, &s->v->limits.paused_fact);
    why_until(s->w, link, s->v->limits.paused_until);
    why_next(link, "then it goes on");
}

static void put_paces(const struct subject *s)
{
    const struct limit_lane_report *r = &s->v->limits;
    for (unsigned i = 0; i < LIMIT_PACES; i++) {
        char what[160];
        if (r->paces[i] <= 0) {
            continue;
        }
        (void)snprintf(what, sizeof(what), "may send %.3g %s a second", r->paces[i], lane_units[i]);
        json_t *link = lane_link(s, what);
        because_fact(s, link, &r->pace_facts[i]);
        if (r->pace_until[i] > s->w->now) {
            why_until(s->w, link, r->pace_until[i]);
            why_next(link, "its receiver lets nothing through; then one message tries");
        } else {
            put_turn(s, link);
        }
    }
}

static void add_rate(char text[static RATES_TEXT], enum limit_owner owner, const char *unit,
                     const struct rate_rule *rule)
{
    char rate[RATE_TEXT_BYTES];
    size_t len = strlen(text);
    if (rule->count > 0) {
        rate_print(rule, rate);
        (void)snprintf(text + len, RATES_TEXT - len, "%s%s %s of the %s", len == 0 ? "" : ", ",
                       rate, unit, limit_owner_text(owner));
    }
}

/* Of the rates of a tenant or a domain struct limits does not tell here. */
static void because_rates(const struct subject *s, json_t *link)
{
    enum limit_owner whose = s->v->limits.waits_whose;
    char text[RATES_TEXT] = "";
    if (whose <= LIMIT_OF_SOURCE) {
        const struct limit_rates *r = &s->v->limits.rates[whose];
        add_rate(text, whose, lane_units[PACE_MESSAGES], &r->messages);
        add_rate(text, whose, lane_units[PACE_RECIPIENTS], &r->recipients);
        add_rate(text, whose, lane_units[PACE_CONNECTS], &r->connects);
    }
    if (text[0] == '\0') {
        (void)snprintf(text, sizeof(text), "that of the %s", limit_owner_text(whose));
    }
    why_because(link, slice_of(text));
}

static void put_rates(const struct subject *s)
{
    json_t *link = lane_link(s, "has sent what its rate permits");
    because_rates(s, link);
    put_turn(s, link);
}

static void put_share(const struct subject *s)
{
    json_t *link = lane_link(s, "waits for this node's share of its rate or quota");
    because_rates(s, link);
    put_turn(s, link);
}

static void put_seats(const struct subject *s)
{
    enum limit_owner whose = s->v->limits.waits_whose;
    char text[RATES_TEXT];
    json_t *link = lane_link(s, "waits for this node's share of the connections at a time");
    (void)snprintf(text, sizeof(text), "%u of the %s, of all nodes together",
                   s->v->limits.rates[whose].connections, limit_owner_text(whose));
    why_because(link, slice_of(text));
    why_next(link, "the next delivery starts when one of them is free");
}

static void put_quota(const struct subject *s)
{
    enum limit_owner whose = s->v->limits.waits_whose;
    char rate[RATE_TEXT_BYTES] = "that", text[RATES_TEXT];
    json_t *link = lane_link(s, "has used up its quota");
    if (whose <= LIMIT_OF_SOURCE && s->v->limits.rates[whose].quota.count > 0) {
        rate_print(&s->v->limits.rates[whose].quota, rate);
    }
    (void)snprintf(text, sizeof(text), "%s of the %s", rate, limit_owner_text(whose));
    why_because(link, slice_of(text));
    put_turn(s, link);
}

static void put_ceiling(const struct subject *s)
{
    char what[80];
    (void)snprintf(what, sizeof(what), "has the %u connections that its receiver allows",
                   s->v->limits.state.most_connections);
    json_t *link = lane_link(s, what);
    because_fact(s, link, &s->v->limits.connections_fact);
    why_next(link, "the next delivery starts when one of them is free");
}

/* The destination keeps away from it. */
static bool put_avoided(const struct subject *s)
{
    const struct limit_lane_report *r = &s->v->limits;
    const struct limit_key key = {slice_of(r->source), slice_of(r->site), slice_of(r->hosts)};
    struct limit_destination_report *found =
        r->closed_destinations == 0 ? NULL : calloc(LANE_DESTINATIONS_MAX, sizeof(*found));
    uint32_t count = found == NULL ? 0
                                   : limits_report_destinations(s->w->clerk->engine->limits, &key,
                                                                found, LANE_DESTINATIONS_MAX,
                                                                clock_mono(), clock_wall());
    bool is_avoided = false;
    for (uint32_t i = 0; i < count && !is_avoided; i++) {
        is_avoided = slice_eq(slice_of(found[i].destination), s->q->destination);
        if (is_avoided) {
            json_t *link = lane_link(s, "is avoided by this destination, which does not want it");
            why_because(link, slice_of(found[i].reason));
            why_until(s->w, link, found[i].until);
            why_next(link, "then its mail goes there again");
        }
    }
    free(found);
    return is_avoided;
}

/* --- lanes ------------------------------------------------------------------------------------ */

/* returns whether the lane takes nothing at this moment, or less than it could */
static bool put_lane(const struct subject *s)
{
    enum limit_cause why = lane_view_waits(&s->v->limits, s->w->now);
    bool is_avoided = put_avoided(s);
    if (s->v->state == LANE_CLOSED || s->v->state == LANE_PROBING) {
        put_closed(s);
        return true;
    }
    bool has_pace = s->v->state == LANE_PACED || s->v->state == LANE_PAUSED;
    if (s->v->limits.paused_until > s->w->now) {
        put_pause(s);
    } else if (has_pace) {
        put_paces(s);
    }
    if (why == LIMIT_BY_RATE) {
        put_rates(s);
    } else if (why == LIMIT_BY_SHARE) {
        put_share(s);
    } else if (why == LIMIT_BY_CONNECTIONS) {
        put_seats(s);
    } else if (why == LIMIT_BY_QUOTA) {
        put_quota(s);
    } else if (why == LIMIT_BY_CEILING && s->v->limits.state.most_connections > 0) {
        put_ceiling(s);
    } else {
        why = LIMIT_NO_CAUSE;
    }
    return is_avoided || has_pace || why != LIMIT_NO_CAUSE;
}

struct lanes_seen {
    uint32_t all, held, shown;
};

/* Mail of the pool may leave from this source. */
static bool is_in_pool(const struct why *w, const struct why_lanes *q, struct slice source)
{
    const struct settings *settings = settings_of(w->clerk->engine);
    struct slice list;
    if (q->pool == WHY_ANY_POOL) {
        return true;
    }
    list = source_table_pool_list(settings->sources, w->config, q->transport, (uint16_t)q->pool);
    if (list.len == 0) {
        return source.len == 0;
    }
    while (list.len > 0) {
        size_t comma = slice_find(list, ',');
        if (slice_eq(slice_to(list, comma), source)) {
            return true;
        }
        list = comma < list.len ? slice_from(list, comma + 1) : SLICE("");
    }
    return false;
}

static void take_lane(struct why *w, int level, const struct why_lanes *q,
                      const struct lane_view *v, struct lanes_seen *seen)
{
    char source[LIMITS_NAME_MAX + 1];
    if (!v->has_limits || !is_in_pool(w, q, v->source)) {
        return;
    }
    (void)snprintf(source, sizeof(source), SLICE_FMT, SLICE_ARG(v->source));
    const struct subject s = {.w = w,
                              .level = level,
                              .q = q,
                              .v = v,
                              .source = source[0] == '\0' ? "of the system's address" : source};
    seen->all++;
    if (seen->shown < LANES_SHOWN && put_lane(&s)) {
        seen->shown++;
        seen->held++;
    }
}

/* Those of the transport's sources that struct limits remembers, where the core has no lanes. */
static void take_remembered(struct why *w, int level, const struct why_lanes *q,
                            struct lanes_seen *seen)
{
    const struct settings *settings = settings_of(w->clerk->engine);
    const struct transport_sources *t = &settings->sources->transports[q->transport];
    for (uint32_t i = 0; i < t->count; i++) {
        const struct slice source =
            t->sections[i] == NULL ? SLICE("") : slice_of(t->sections[i]->name);
        char room[LANES_KEY_ROOM];
        struct limit_lane_report r;
        struct limit_key key;
        struct lane_view v;
        lanes_limit_key(q->site, source, room, &key);
        if (limits_report_lane(w->clerk->engine->limits, &key, clock_mono(), clock_wall(), &r)) {
            lane_view_remembered(&r, &v);
            take_lane(w, level, q, &v, seen);
        }
    }
}

bool why_lanes(struct why *w, int level, const struct why_lanes *q)
{
    const struct engine *e = w->clerk->engine;
    struct lanes_seen seen = {0};
    struct lane_view v;
    uint32_t i = 0;
    for (; lane_view_in_core(e, q->transport, q->site, i, &v); i++) {
        take_lane(w, level, q, &v, &seen);
    }
    if (i == 0) {
        take_remembered(w, level, q, &seen);
    }
    if (seen.held > 0 && seen.held < seen.all) {
        json_t *link =
            why_link(w, level, "%u of the %u lanes that its mail may take are held back so",
                     seen.held, seen.all);
        why_next(link, "the others take it; sluice lanes has them all");
    }
    return seen.held > 0;
}
