/* What the parts of the activator share: activator.c, the thread and its letters, activator_take.c,
 * which message becomes active next, and activator_surplus.c, which gives its place back. Inside
 * these files only. */
#ifndef ENGINE_ACTIVATOR_STATE_H
#define ENGINE_ACTIVATOR_STATE_H

#include "base/id_set.h"
#include "base/list.h"
#include "base/post.h"
#include "engine/activator/activation.h"
#include "engine/activator/activator_surplus.h"
#include "engine/activator/deferred_scan.h"
#include "engine/activator/flow_queue.h"
#include "engine/activator/recall.h"
#include "engine/activator/review.h"
#include "engine/activator/rota.h"
#include "engine/activator/sweep.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

struct activator {
    /* set at creation */
    struct engine *engine;
    struct post post;
    struct spool_reader *reader;

    /* activator thread only */
    struct activation activation;
    struct read_request **reads; /* to be answered when the spool can be read */
    uint32_t read_count, read_capacity;
    struct list messages;  /* active ones, with the reference that LETTER_SETTLED returns */
    struct list lingering; /* settled, but a scheduler has not let go yet */
    struct id_set held;    /* ids that a deferred scan must pass over: active or lingering */
    uint32_t active;
    struct rota rota;
    struct flow_queues queues;
    bool knows_flows;     /* every flow with mail in the spool has a queue */
    usec_t know_flows_at; /* monotonic: look for them then, if not */
    bool prefers_swept;   /* it is the turn of sweeps, not of the flows */
    uint16_t fulls;       /* how often there was no room: new mail goes first then */
    struct deferred_scan scan;
    uint32_t
        scan_at; /* number of the flow that the scan looks at next; above all: it has looked at each,
                       * and those with mail that is due take turns */
    usec_t next_scan;    /* monotonic */
    usec_t last_turn;    /* wall: of the messages that wait for their turn, the latest */
    usec_t pause_until;  /* monotonic: the spool could not be read */
    uint64_t next_held;  /* wall: when a held message may be due, of flows that have not found
                               * theirs to be; UINT64_MAX: never */
    uint32_t held_flows; /* those that have: flow_queue.has_held */
    uint64_t serial;     /* of the settings that the weights are of */
    struct sweeper sweeper;
    struct id_set missed;           /* called back while they were active: at no place yet */
    struct recall_account *resumed; /* of what gave its place back in the held class */
    struct review review;
    struct surplus surplus;
};

/* --- activator_take.c ------------------------------------------------------------------------- */

/* One pass: answers questions of schedulers and makes messages active while there is room. */
void activator_import(struct activator *a) ON_ROLE(a->post);
/* Whether a pass would do something. */
MUST_USE bool activator_has_work(const struct activator *a);
MUST_USE bool activator_is_scanning(const struct activator *a);
/* Whether a held message may be due of a flow that does not take its turn for it. */
MUST_USE bool activator_has_held(const struct activator *a);
struct rota_room activator_room(const struct activator *a);

/* The queue of the flow at a place; bound to its party. e: of a message there, when it is at hand.
 * NULL: no memory, or the spool cannot be read for now: all flows are looked for again in a while */
struct flow_queue *activator_queue(struct activator *a, const struct spool_position *position,
                                   const struct spool_envelope *e);
/* The flow's mail has changed: it waits for its turn, or does not. */
void activator_refresh(struct activator *a, struct flow_queue *f);
/* A message with this time (and an id that is no less) is new in the held class of the flow, or is to
 * be found there again. */
void activator_wake_held(struct activator *a, struct flow_queue *f, uint64_t time, uint64_t id);
/* A message of the flow is to be active before a scan finds it, as its next one. Without memory it comes
 * when a scan does. */
void activator_call(struct activator *a, struct flow_queue *f, const struct spool_position *p);

/* Whether a new message of the flow may become active at once. */
MUST_USE bool activator_may_enter(struct activator *a, struct flow_queue *f);
/* errors: -ENOMEM, nothing happened: the message is still the caller's, and in the spool */
MUST_USE int activator_activate_fresh(struct activator *a, struct flow_queue *f, struct message *m);
void activator_set_active(struct activator *a, uint32_t active);
/* A message is not active any more. */
void activator_uncount(struct activator *a, struct message *m);

#endif
