/* Draining: no mail is taken, what is queued and due goes out, and when nothing is left but mail that
 * waits (deferred, scheduled, suspended, of a transport on hold), or a span is over, the daemon ends as
 * by SIGTERM.
 *
 * Concurrency: the gate DRAINING is what others see. The fast clerk alone begins and ends it, the slow
 * one looks at the queue between its calls, and main waits for the verdict. They talk through atomics
 * of the engine, each of which stands alone, so relaxed is enough; the slow clerk is woken through its
 * mailbox, main by RELOAD_SIGNAL. */
#ifndef ENGINE_DRAIN_H
#define ENGINE_DRAIN_H

#include "base/attr.h"
#include "base/clock.h"
#include "engine/http/api.h"

#include <stdbool.h>

struct clerk;
struct engine;

/* How often main and the slow clerk look. */
#define DRAIN_LOOK (250 * USEC_PER_MSEC)

/* POST /v1/drain {"for": "10m"}: 202 {draining, since, until?}; once more: another end.
 * DELETE /v1/drain: mail is taken again. Fast clerk. */
api_handler drain_begin;
api_handler drain_end;
/* POST /v1/restart: 202. Main reads the configuration again, ends everything in order and becomes the
 * program on the disk, with the sockets that listen; with a mistake in the file nothing happens.
 * Fast clerk. */
api_handler drain_restart;
/* Slow clerk, between calls: look whether something is left. returns when to be asked again, monotonic */
usec_t drain_watch(struct clerk *k);

enum drain_verdict {
    DRAIN_NONE,  /* the daemon is not draining */
    DRAIN_WAITS, /* mail is left, and time; or a restart is to be tried again */
    DRAIN_EMPTY,
    DRAIN_LATE,    /* the span is over */
    DRAIN_RESTART, /* somebody wants a restart; asked once */
};
/* Main. */
enum drain_verdict drain_verdict(struct engine *e, usec_t now_mono);
/* There cannot be a next process now, as the log says. When the mail here is another node's, nothing else
 * helps, and it is to be tried again. Main. */
void drain_restart_failed(struct engine *e, usec_t now_mono);

/* Another node has our mail (number of its spool): nothing of ours is delivered any more, and this process
 * makes room for one with an empty spool. Any thread, again and again. */
void drain_taken(struct engine *e, uint16_t holder);

#endif
