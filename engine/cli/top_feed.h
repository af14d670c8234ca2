/* The rounds in which `sluice top` asks the daemon: one question after the other, the next round
 * when the last one has been answered. One thread. */
#ifndef ENGINE_TOP_FEED_H
#define ENGINE_TOP_FEED_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/cli/api_asker.h"
#include "engine/cli/top_detail.h"
#include "engine/cli/top_model.h"

#include <stdbool.h>

#define TOP_INTERVAL_MIN (USEC_PER_SEC / 4)
#define TOP_INTERVAL_MAX (600 * USEC_PER_SEC)

struct top_feed {
    const struct cli *cli; /* says which nodes are asked */
    struct api_asker *asker;
    usec_t interval;
    bool is_paused;
    bool is_wanted; /* the next round begins as soon as it may */

    /* the round under way, or the last */
    unsigned steps; /* still to ask; bits of enum step */
    unsigned step;  /* asked */
    usec_t begun, asked;
    enum top_view view; /* the view that the rows of this round are for */
    bool is_by_tenant;
    unsigned serial; /* of the detail that this round asks for */
    json_t *held;    /* destinations of the round's first list */
    bool has_more;

    usec_t due;                        /* of the next round */
    usec_t counts_due[TOP_VIEW_COUNT]; /* walks through the spool are not repeated before */
    char error[600];                   /* of the last question; "" none */
    bool is_lost;                      /* the last question got no answer at all */
};

/* errors: -ENOMEM */
MUST_USE int top_feed_init(struct top_feed *f, const struct cli *cli, const char *socket_path,
                           usec_t interval);
void top_feed_fini(struct top_feed *f);
/* Something else is to be shown: ask soon. */
void top_feed_want(struct top_feed *f);
/* The queue is grouped in another way. */
void top_feed_forget_counts(struct top_feed *f);
/* Begin a round when it is time for one, take what was answered. returns true when there is
 * something new to show */
MUST_USE bool top_feed_run(struct top_feed *f, struct top_model *m, struct top_detail *d,
                           usec_t now);
/* How long nothing will happen but answers, milliseconds. */
int top_feed_timeout(const struct top_feed *f, usec_t now);

/* The answer to /v1/status. returns what is wrong with it; NULL: nothing */
const char *top_feed_take_status(struct top_model *m, struct api_answer *a);
/* What is asked for a view; the caller frees it. NULL: out of memory */
MUST_USE char *top_feed_path(const struct top_model *m, enum top_view view, bool is_held);

#endif
