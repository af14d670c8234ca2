/* Puts what struct limits counts into the exposition. Called on a clerk's thread; changes nothing.
 * A counter that is still 0 is left out: most of a row's classes and reactions never are anything
 * else. */
#include "engine/report/limit_metrics.h"

#include "engine/limit/limits_figures.h"
#include "engine/limit/limits_report.h"
#include "engine/state/engine.h"
#include "engine/tally/exposition.h"

static double figure(const _Atomic uint64_t *value)
{
    return (double)atomic_load_explicit(value, memory_order_relaxed);
}

/* Of one row; more: a third label, or a name that is NULL. */
static void put_figure(struct buf *out, const char *name, const struct limits_figure *f,
                       struct exposition_label more, double value)
{
    const struct exposition_labels labels = {
        {{"provider", limits_figure_provider(f)}, {"source", limits_figure_source(f)}, more}};
    exposition_sample(out, name, &labels, value);
}

/* A row is shown once it counts something; that of "other" has no lanes but when it is needed. */
static bool has_lanes(const struct limits_figure *f)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < LIMIT_LANES; i++) {
        count += atomic_load_explicit(&f->lanes[i], memory_order_relaxed);
    }
    return count > 0 || figure(&f->connects) > 0;
}

static void put_lane_states(struct buf *out, const struct limits *l)
{
    static const char name[] = "sluice_lanes";
    static const struct slice states[LIMIT_LANES] = {
        [LIMIT_LANES_OPEN] = {"open", 4},
        [LIMIT_LANES_PACED] = {"paced", 5},
        [LIMIT_LANES_CLOSED] = {"closed", 6},
    };
    exposition_family(
        out, name, EXPOSITION_GAUGE,
        "Lanes (a source at a receiver) by provider, source and state; those that are "
        "probed are closed.");
    for (const struct limits_figure *f = limits_figure_first(l); f != NULL; f = f->next) {
        for (unsigned i = 0; has_lanes(f) && i < LIMIT_LANES; i++) {
            put_figure(out, name, f, (struct exposition_label){"state", states[i]},
                       atomic_load_explicit(&f->lanes[i], memory_order_relaxed));
        }
    }
}

static void put_lane_connections(struct buf *out, const struct limits *l)
{
    static const char now[] = "sluice_lane_connections", all[] = "sluice_lane_connections_total";
    const struct exposition_label none = {NULL, SLICE("")};
    exposition_family(out, now, EXPOSITION_GAUGE, "Connections of lanes, by provider and source.");
    for (const struct limits_figure *f = limits_figure_first(l); f != NULL; f = f->next) {
        if (has_lanes(f)) {
            put_figure(out, now, f, none,
                       atomic_load_explicit(&f->connections, memory_order_relaxed));
        }
    }
    exposition_family(out, all, EXPOSITION_COUNTER,
                      "Connections of lanes that were made and greeted, by provider and source.");
    for (const struct limits_figure *f = limits_figure_first(l); f != NULL; f = f->next) {
        if (has_lanes(f)) {
            put_figure(out, all, f, none, figure(&f->connects));
        }
    }
}

static void put_refusals(struct buf *out, const struct limits *l)
{
    static const char name[] = "sluice_lane_refusals_total";
    exposition_family(out, name, EXPOSITION_COUNTER,
                      "Replies that refused, also those that were nobody's attempt, by provider, "
                      "source and what they mean.");
    for (const struct limits_figure *f = limits_figure_first(l); f != NULL; f = f->next) {
        for (int i = REPLY_CLASS_NONE + 1; i < REPLY_CLASS_COUNT; i++) {
            struct slice text = slice_of(reply_class_text((enum reply_class)i));
            if (figure(&f->refusals[i]) > 0) {
                put_figure(out, name, f, (struct exposition_label){"class", text},
                           figure(&f->refusals[i]));
            }
        }
    }
}

static void put_reactions(struct buf *out, const struct limits *l)
{
    static const char name[] = "sluice_lane_reactions_total";
    exposition_family(out, name, EXPOSITION_COUNTER,
                      "What was done to lanes, as Reaction events tell it, by provider, source and "
                      "reaction.");
    for (const struct limits_figure *f = limits_figure_first(l); f != NULL; f = f->next) {
        for (int i = 0; i < LIMIT_REACTED_COUNT; i++) {
            struct slice text = slice_of(limit_reaction_text((enum limit_reaction_kind)i));
            if (figure(&f->reactions[i]) > 0) {
                put_figure(out, name, f, (struct exposition_label){"reaction", text},
                           figure(&f->reactions[i]));
            }
        }
    }
}

static void put_limit_total(struct buf *out, const char *name, const char *help, double value)
{
    exposition_family(out, name, EXPOSITION_GAUGE, help);
    exposition_sample(out, name, NULL, value);
}

void limit_metrics_put(struct buf *out, const struct engine *e)
{
    struct limits_totals n;
    put_lane_states(out, e->limits);
    put_lane_connections(out, e->limits);
    put_refusals(out, e->limits);
    put_reactions(out, e->limits);
    limits_totals(e->limits, &n);
    put_limit_total(out, "sluice_limits_lanes", "Lanes that are known, of at most 300,000.",
                    n.lanes);
    put_limit_total(
        out, "sluice_limits_sites",
        "Receivers of these lanes, with each of their sets of hosts, of at most 100,000.", n.sites);
    put_limit_total(out, "sluice_limits_meters", "Rates and quotas that are being counted.",
                    n.meters);
    put_limit_total(out, "sluice_closed_destinations",
                    "Destinations that avoid a lane, each once for each lane.",
                    (double)n.closed_destinations);
}
