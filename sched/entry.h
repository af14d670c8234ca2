/* Some recipients of one message for one destination, delivered in one transaction. */
#ifndef SCHED_ENTRY_H
#define SCHED_ENTRY_H

#include "base/list.h"
#include "sched/action.h"
#include "sched/sched.h"

#define ENTRY_INLINE_INDEXES 2
#define ENTRY_NO_CONNECTION  UINT32_MAX

struct job;
struct peer;

enum entry_state {
    ENTRY_NONE,      /* a peer's embedded entry that is not in use */
    ENTRY_NEW,       /* allocated, in no list but a batch's */
    ENTRY_WAITING,   /* in its peer's and its destination's waiting lists */
    ENTRY_BUSY,      /* in flight; the worker that holds it may read the constants */
    ENTRY_DISPLACED, /* in flight without a connection: to be placed again */
    ENTRY_SETTLED,   /* waits for its DEFER or BOUNCE to be pulled */
};

struct sched_entry {
    union {
        struct sched_entry *next; /* NEW, WAITING: in an entry_queue */
        uint64_t tried;        /* in flight: places in the list of servers, sched/place/server.c */
        struct reason *reason; /* SETTLED; otherwise none */
    };
    struct pending
        place; /* its action; note: sched/place/source_tried.c; without one WAITING: link in destination.todo; BUSY:
                           * connection.entries or sched.exhausted; DISPLACED:
                           * destination.displaced */
    /* Constant from DELIVER to report. */
    struct peer *peer; /* says whose it is and where it goes; stays while the entry does */
    union {
        uint32_t inline_indexes[ENTRY_INLINE_INDEXES]; /* capacity is as many */
        uint32_t *indexes;                             /* it is more: allocated */
    };
    uint32_t count;
    uint32_t capacity;
    uint32_t
        connection; /* ENTRY_NO_CONNECTION unless BUSY, and then when it is exhausted. Of one that
                          * is_paced: the second of its turn */
    uint8_t state;  /* enum entry_state */
    bool is_withdrawn : 1;        /* SETTLED: by order, not because of its destination */
    bool is_charged : 1;          /* in flight: its flow paid for it at its party; sched/turn.h */
    bool is_charged_at_lanes : 1; /* likewise */
    bool is_paced;                /* SETTLED: until its turn */
    uint8_t source;               /* in flight: that of its last connection */
};

/* Entries of one peer, first in first out. Zero is empty. */
struct entry_queue {
    struct sched_entry *last; /* a ring: its next is the first; NULL: empty */
};

static inline struct sched_entry *entry_queue_first(const struct entry_queue *q)
{
    return q->last == NULL ? NULL : q->last->next;
}
/* The one behind e; NULL at the end. */
static inline struct sched_entry *entry_queue_next(const struct entry_queue *q,
                                                   const struct sched_entry *e)
{
    return e == q->last ? NULL : e->next;
}
void entry_queue_push(struct entry_queue *q, struct sched_entry *e);
void entry_queue_push_front(struct entry_queue *q, struct sched_entry *e);
void entry_queue_push_behind(struct entry_queue *q, struct sched_entry *e,
                             struct sched_entry *before);
/* Remove and return the first; NULL when there is none. */
struct sched_entry *entry_queue_pop(struct entry_queue *q);

struct job *entry_job(const struct sched_entry *e); /* any thread, from DELIVER to report */
struct sched_destination *entry_destination(const struct sched_entry *e);
static inline uint32_t *entry_indexes(struct sched_entry *e)
{
    return e->capacity > ENTRY_INLINE_INDEXES ? e->indexes : e->inline_indexes;
}

/* Of one peer; capacity recipients. NULL when out of memory. */
struct sched_entry *entry_new(struct sched *s, struct peer *p, uint32_t capacity);
void entry_free(struct sched *s, struct sched_entry *e); /* and the peer with its last entry */
/* Room for more recipients in a waiting entry. errors: -ENOMEM */
MUST_USE int entry_reserve(struct sched *s, struct sched_entry *e, uint32_t capacity);
/* NEW -> WAITING, at the end of its peer and of its destination. */
void entry_wait(struct sched *s, struct sched_entry *e);
/* NEW -> WAITING, right behind one of the same peer that waits. */
void entry_wait_behind(struct sched *s, struct sched_entry *e, struct sched_entry *before);
/* WAITING -> BUSY; the caller places it at once. */
void entry_select(struct sched *s, struct sched_entry *e);
/* BUSY -> WAITING, before all others of its destination and its peer: it was not taken. */
void entry_return(struct sched *s, struct sched_entry *e);
/* A BUSY entry was reported and its feedback applied (5.9); e is freed. */
void entry_complete(struct sched *s, struct sched_entry *e);
/* WAITING -> SETTLED: deferred or bounced without an attempt. */
void entry_drop(struct sched *s, struct sched_entry *e, enum sched_action_kind kind,
                struct reason *reason);
/* The same, deferred until its turn: it would fill memory. */
void entry_shed(struct sched *s, struct sched_entry *e, usec_t turn, struct reason *reason);
/* The same, deferred because the message is to be left alone. */
void entry_withdraw(struct sched *s, struct sched_entry *e, struct reason *reason);
/* NEW -> SETTLED: its destination was dead when the recipients came. */
void entry_refuse(struct sched *s, struct sched_entry *e);

#endif
