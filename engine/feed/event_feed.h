/* The events for programs: one thread that reads the event log, behind the writer's back, for every
 * webhook, CSV file and subscriber. Nobody who handles mail ever waits for it.
 *
 * A consumer gets each line at least once, in order, over restarts; see event_consumer.h. The
 * thread looks for new lines ten times a second while there are consumers, at a counter only; the
 * writer makes no call for it.
 *
 * A reload hands the thread a plan (feed_plan.h) of what there has to be. A webhook or CSV file that
 * is gone, or whose options are others, ends as soon as no batch of it is under way: what was handed
 * on is in its place, what was only gathered is dropped and read again. The place stays: the section
 * with its other options, or one that comes back later, goes on there. One that is new begins where
 * the log ended when the plan was made. */
#ifndef ENGINE_EVENT_FEED_H
#define ENGINE_EVENT_FEED_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/feed/event_consumer.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct event_feed;
struct feed_plan;
struct settings;

/* The event log is open and not written yet, so that consumers begin with its first line.
 *
 * errors   -errno; ERR_MISSING: the event log is no regular file, but there are consumers. What
 *          is wrong was logged */
MUST_USE int event_feed_new(struct engine *engine, struct event_feed **ret);
void event_feed_free(struct event_feed *f); /* accepts NULL */
MUST_USE int event_feed_start(struct event_feed *f);
/* After the spool writer, which writes the last lines: they are handed on where that works at once.
 */
void event_feed_stop(struct event_feed *f);

/* What a reload brings. Main; the second call, after the settings are published, hands the plan over
 * and cannot fail.
 *
 * f        NULL: there is no event log, and nobody reads it
 * errors   -ENOMEM, -errno of the log's folder */
MUST_USE int event_feed_plan(struct event_feed *f, struct settings *settings,
                             struct feed_plan **ret);
void event_feed_follow(struct event_feed *f, struct feed_plan *plan);

/* Called on the feed thread for each line, without its newline. returns: 0: done with it, it will
 * not come again (but after a crash, the last few may); else it comes again, after 1 second, then
 * twice as long each time up to 5 minutes */
typedef int event_feed_call(void *ctx, struct slice line);

/* Hand every line to a function of this process. Any thread: before event_feed_start, or online
 * under RCU before event_feed_stop.
 *
 * f        NULL: there is no event log
 * name     of the place in the log, which is kept over restarts: 1 to 64 letters, digits, - _ .
 *          A new one begins with the lines from now on
 * errors   ERR_MISSING: no event log; -EINVAL: not a name; -EEXIST: it is in use; -ENOMEM, -errno
 */
MUST_USE int event_feed_subscribe(struct event_feed *f, const char *name, event_feed_call *call,
                                  void *ctx);

/* A consumer as it is now. Texts are valid during the call that gets it. */
struct event_feed_report {
    const char *kind, *name, *title;
    struct event_position position;   /* all before it is done */
    uint64_t behind_bytes;            /* of the log; also those of types it does not want */
    usec_t behind;                    /* age of the oldest event read and not done; 0: none waits */
    uint64_t events, failures, gaps;  /* since start; see event_consumer */
    usec_t failing_since;             /* wall; 0: it works */
    char why[EVENT_CONSUMER_WHY_MAX]; /* "": it works */
};

/* Any thread that is online under RCU: each consumer once, in order of creation the last one first.
 * f: NULL: there are none */
void event_feed_look(struct event_feed *f,
                     void (*see)(void *ctx, const struct event_feed_report *r), void *ctx);

#endif
