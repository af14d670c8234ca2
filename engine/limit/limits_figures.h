/* Figures by provider and source, for those who draw them over time: a bounded number of rows, each
 * for the lanes of one of our sources at one provider, or at all receivers that no `provider` section
 * names. A row stays as long as the limits, and its counters never go backwards.
 *
 * Any thread; what counts takes no lock. */
#ifndef ENGINE_LIMITS_FIGURES_H
#define ENGINE_LIMITS_FIGURES_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_report.h"
#include "engine/reply/reply.h"

#include <stdatomic.h>
#include <stdint.h>

#define LIMITS_FIGURES_MAX 1000U /* rows; further pairs share the row "other", "other" */

enum limits_figure_lanes { LIMIT_LANES_OPEN, LIMIT_LANES_PACED, LIMIT_LANES_CLOSED, LIMIT_LANES };

struct limits_figure {
    /* set at creation */
    struct limits_figure *next; /* in the list of all, the newest first */
    struct limits_figure *chained;
    uint64_t hash;

    /* any thread, atomic; relaxed, as they are figures */
    _Atomic uint64_t refusals[REPLY_CLASS_COUNT]; /* replies */
    _Atomic uint64_t reactions[LIMIT_REACTED_COUNT];
    _Atomic uint64_t connects;           /* made, in all */
    _Atomic uint32_t lanes[LIMIT_LANES]; /* now; closed before paced */
    _Atomic uint32_t connections;        /* now */

    size_t provider_len, source_len;
    char text[]; /* provider, source */
};

/* The row of a pair, made when it is new. provider: "": none; source: "": the system chooses. It lives
 * as long as the limits. */
struct limits_figure *limits_figure_of(struct limits *l, struct slice provider,
                                       struct slice source) NONNULL_RET;
/* A receiver's reply refused something. */
static inline void limits_figure_refused(struct limits_figure *f, enum reply_class class)
{
    atomic_fetch_add_explicit(&f->refusals[class], 1, memory_order_relaxed);
}
/* The first of all rows; the others by `next`. NULL: there is none yet. */
const struct limits_figure *limits_figure_first(const struct limits *l);
struct slice limits_figure_provider(const struct limits_figure *f);
struct slice limits_figure_source(const struct limits_figure *f);

#endif
