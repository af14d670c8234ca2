/* Which site a destination belongs to, also when no scheduler has mail for it any more: what is known
 * of windows, and of a receiver that is away, is the site's. Any thread, online under RCU. */
#ifndef ENGINE_DESTINATION_SITE_H
#define ENGINE_DESTINATION_SITE_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/schedule/receiver.h"
#include "engine/schedule/sched_thread.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

struct destination_site {
    struct slice key; /* valid while online, and as long as this object is; "": none */
    bool is_in_core;  /* a scheduler has mail for the destination */
    struct sched_site_view view;
    bool is_known;               /* view is filled */
    struct receiver_place place; /* what key may point to */
};

/* The site of a destination now, else the one that it had when its hosts were found last, as far as
 * that is remembered. */
void destination_site_find(const struct engine *e, uint32_t transport, struct slice destination,
                           struct destination_site *ret);
/* Whether a record of a window is about this destination, or about this site ("": none): the core
 * cuts long names. */
MUST_USE bool destination_site_is_of(const struct sched_change *change, struct slice destination,
                                     struct slice site);

#endif
