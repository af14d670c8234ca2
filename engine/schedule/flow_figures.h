/* What tenants have in memory, all transports together: for reports. Walks the flows of all cores, not their
 * messages, and the names of flows; changes nothing. Any thread that is online under RCU. */
#ifndef ENGINE_FLOW_FIGURES_H
#define ENGINE_FLOW_FIGURES_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/config/label.h"
#include "sched/sched.h"

#include <stdint.h>

struct engine;

/* Of a tenant ("": nobody), all its classes and campaigns. */
struct flow_figure {
    uint32_t number;     /* flow_names.h; 0: nobody's */
    struct label name;   /* lower case */
    uint32_t weight;     /* the greatest that some core goes by */
    uint64_t recipients; /* in memory */
    uint64_t waiting;    /* deliveries that wait for a connection */
    uint64_t held;       /* connections, where several flows share them */
    usec_t longest;      /* how long the first message that has some waiting has been there */
};

struct flow_figures {
    struct flow_figure *list; /* [count], by number */
    uint32_t count, capacity;
    usec_t longest[SCHED_CLASSES]; /* of the same, by class; 0: none waits */
};

/* errors: -ENOMEM. Otherwise flow_figures_fini must follow */
MUST_USE int flow_figures_take(const struct engine *e, struct flow_figures *ret);
void flow_figures_fini(struct flow_figures *f);
/* NULL: nothing of it is in memory. */
const struct flow_figure *flow_figures_of(const struct flow_figures *f, struct slice tenant);

#endif
