/* The scheduler core of one transport, with its lanes and the account of which worker holds which of
 * its connections. Made by main, at start and when a reload brings a transport; then its scheduler
 * thread owns it. What sched.h lets any thread read is read through `sched`. */
#ifndef ENGINE_CORE_H
#define ENGINE_CORE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/schedule/absent.h"
#include "engine/schedule/apart.h"
#include "engine/schedule/core_sources.h"
#include "engine/schedule/lanes.h"
#include "engine/schedule/tenants.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct mailbox;
struct policy;
struct sched;
struct settings;

struct core {
    struct sched *sched; /* published by main; NULL: no transport has this number yet */
    struct lanes lanes;  /* with `sched` */
    struct tenants tenants;
    struct core_sources sources;
    struct absent absent; /* likewise */
    struct apart apart;
    uint16_t transport;
    bool is_gone;          /* its section: what waits is given back, to be routed anew */
    uint32_t generation;   /* of the settings that it goes by: settings.generations */
    uint16_t *workers;     /* [worker_count] which worker holds the connection */
    uint32_t worker_count; /* the greatest process_limit so far */
    uint32_t entry_limit;  /* recipients of the largest entry */
    bool has_more;         /* the pass ended before sched_pull said false */
    uint32_t asked;        /* questions for hosts of destinations that have none, at workers */
    uint32_t unread;       /* messages with recipients that are still in the spool */
};

struct core_start {
    struct engine *engine;
    const struct settings *settings;
    struct mailbox *box; /* the thread's */
    uint32_t transport;
    usec_t now; /* of the core's first moment; the thread's own may be behind the clock */
};
/* Of a zeroed one. errors: -ENOMEM, it is zeroed still */
MUST_USE int core_init(struct core *c, const struct core_start *start);
void core_fini(struct core *c); /* accepts a zeroed one; nothing is in flight */
/* Go on by other settings. errors: -ENOMEM, nothing changed */
MUST_USE int core_reconfigure(struct core *c, const struct settings *s, usec_t now);
/* From now on the lanes of the site are held by these rules; NULL: they stay as they are. */
void core_hold_lanes(struct core *c, struct slice site, const struct policy *policy,
                     const struct settings *s, usec_t now);
/* The lanes of all sites go by other settings. Mail that waits for a rate goes by the new one at
 * once: its site may not be looked up again for hours. */
void core_follow_rules(struct core *c, const struct settings *s, usec_t now);
/* Whether reports can wait a moment: every entry of the core is with a worker, or is the only one that
 * waits for the hosts of its destination, so a report changes nothing until more mail or the hosts come,
 * and those come by letters that wake the thread. */
bool core_reports_can_wait(const struct core *c);
/* destination_concurrency_feedback_debug: what feedback did to windows since the last pass. */
void core_log_feedback(struct core *c);

#endif
