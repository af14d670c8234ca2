/* What the activator knows of the mail that a flow has in the spool: whose turn it is, its backlog, and
 * how far scans have come in it. There is one for each number of a flow that has had mail since the
 * start; nothing of it is the number of messages, so a flow with a million costs what one with a single
 * message does: this object, and cursors while it has turns.
 *
 * Owner: the activator. */
#ifndef ENGINE_FLOW_QUEUE_H
#define ENGINE_FLOW_QUEUE_H

#include "base/attr.h"
#include "engine/activator/deferred_scan.h"
#include "engine/activator/known_places.h"
#include "engine/activator/recall.h"
#include "engine/activator/rota.h"
#include "engine/post/backlog.h"
#include "engine/spool/spool_store.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* How far the kernel was asked to read a queue ahead. */
struct read_ahead {
    struct spool_position last;
    uint32_t count; /* messages from the scan's place to `last` */
};

/* Of a flow that has turns. */
struct flow_cursors {
    struct known_places known;
    struct read_ahead ahead[2];     /* of SPOOL_INCOMING and SPOOL_DEFERRED */
    struct deferred_place deferred; /* of the scan under way */
    uint64_t held_time, held_id;    /* the last held message that was looked at */
};

struct flow_queue {
    struct rota_flow turn;
    struct backlog backlog;       /* of incoming mail; has the flow's number */
    struct list messages;         /* message.in_flow: the one activated last behind the others */
    struct recall_line called;    /* to be active before a scan would find it */
    struct flow_cursors *cursors; /* NULL: not needed */
    uint64_t next_due;            /* of deferred mail: deferred_place.next_due between scans */
    uint64_t next_held;           /* wall: when its next held message is due; UINT64_MAX: none */
    bool has_deferred;            /* the scan under way may find some */
    bool has_held;                /* some may be due */
    bool prefers_deferred;        /* scheduler-semantics 8.1: whose turn it is */
    bool prefers_woken;           /* mail that was held or called back; else what is queued */
    bool prefers_called;          /* of the former, the latter */
    uint16_t fulls;               /* activator.fulls when `prefers_deferred` was set */
};

static_assert(sizeof(struct flow_queue) <= 176, "of 200 bytes for a flow that has inactive mail");

static inline struct flow_queue *flow_queue_of(struct rota_flow *turn)
{
    return container_of(turn, struct flow_queue, turn);
}

struct flow_queues {
    struct flow_queue **by_number; /* [capacity]; NULL: the number was not seen */
    uint32_t capacity;
};

void flow_queues_fini(struct flow_queues *q);
/* NULL: not seen */
static inline struct flow_queue *flow_queues_find(const struct flow_queues *q, uint32_t number)
{
    return number < q->capacity ? q->by_number[number] : NULL;
}
/* The queue of a flow; a new one has no party, and nothing is known of it. NULL: no memory */
struct flow_queue *flow_queues_obtain(struct flow_queues *q, uint32_t number);

/* The cursors; new ones are at the front. NULL: no memory */
struct flow_cursors *flow_queue_cursors(struct flow_queue *f);
/* Mail of it became active out of its turn, and may be elsewhere in the queue afterwards. */
void flow_queue_forget_places(struct flow_queue *f);
/* It has no turns and no places: cursors go. */
void flow_queue_rest(struct flow_queue *f);

static inline bool flow_queue_has_mail(const struct flow_queue *f)
{
    return backlog_is_readable(&f->backlog) || f->has_deferred || f->has_held ||
           !recall_line_is_empty(&f->called);
}

#endif
