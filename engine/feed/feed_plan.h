/* Which webhooks and CSV files there have to be: the settings that say so, and where in the event
 * log a new one begins. Made by main, at the start and at each reload, and handed to the feed
 * thread, which compares it with the consumers that it has. Immutable once made. */
#ifndef ENGINE_FEED_PLAN_H
#define ENGINE_FEED_PLAN_H

#include "base/attr.h"
#include "engine/event/event_cursor.h"
#include "engine/feed/event_consumer.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

struct engine;
struct settings;

struct feed_plan {
    struct settings *settings;   /* own reference */
    struct event_position begin; /* the end of the log when the settings came into force */
};

/* errors: -ENOMEM; -errno of the log's folder */
MUST_USE int feed_plan_new(const struct event_log *log, struct settings *settings,
                           struct feed_plan **ret);
void feed_plan_free(struct feed_plan *p); /* accepts NULL */

/* The sections of a plan, by number from 0: webhooks, then CSV files. */
size_t feed_plan_count(const struct feed_plan *p);
/* The number of the section that a consumer was made of, feed_plan_count without one; that of a
 * subscriber is none. */
size_t feed_plan_find(const struct feed_plan *p, const struct event_consumer *c);
/* Whether a consumer that was made by one plan is also what the other one wants: the same options,
 * and for signatures the same secret. */
bool feed_plan_keeps(const struct feed_plan *made_by, const struct feed_plan *wanted,
                     const struct event_consumer *c);
/* Make the consumer of a section. errors: as webhook_new and account_consumer_new */
MUST_USE int feed_plan_make(const struct feed_plan *p, size_t number, const struct engine *engine,
                            const struct event_consumer_place *at, CURLM *multi,
                            struct event_consumer **ret);

#endif
