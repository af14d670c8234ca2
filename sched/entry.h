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
    ENTRY_NEW,       /* allocated, in no list but a batch's */
    ENTRY_WAITING,   /* in its peer's and its destination's waiting lists */
    ENTRY_BUSY,      /* in flight; the worker that holds it may read the constants */
    ENTRY_DISPLACED, /* in flight without a connection: to be placed again */
    ENTRY_SETTLED,   /* waits for its DEFER or BOUNCE to be pulled */
};

struct sched_entry {
    struct list in_peer;  /* WAITING: peer.waiting; BUSY: connection.entries, or sched.exhausted */
    struct pending place; /* WAITING: link in destination.todo; DISPLACED: destination.displaced;
                           * otherwise the action queue */
    /* Constant from DELIVER to report. */
    struct job *job;
    uint32_t *indexes; /* inline_indexes, or allocated */
    uint32_t count;
    uint32_t capacity;
    uint32_t inline_indexes[ENTRY_INLINE_INDEXES];
    uint32_t connection; /* ENTRY_NO_CONNECTION unless BUSY, and then when it is exhausted */
    enum entry_state state;
    /* Owner only. */
    struct sched_destination *destination; /* stays while the entry does */
    struct peer *peer;                     /* NULL when SETTLED */
    union {
        struct reason *reason; /* SETTLED only */
        uint64_t tried;        /* in flight: places in the list of servers, see sched/server.c */
    };
};

/* For one message; capacity recipients. NULL when out of memory. */
struct sched_entry *entry_new(struct sched *s, struct job *job, uint32_t capacity);
void entry_free(struct sched *s, struct sched_entry *e);
/* Room for more recipients in a waiting entry. errors: -ENOMEM */
MUST_USE int entry_reserve(struct sched *s, struct sched_entry *e, uint32_t capacity);
/* NEW -> WAITING, at the end of the peer and of its destination. */
void entry_wait(struct sched *s, struct sched_entry *e, struct peer *p);
/* WAITING -> BUSY; the caller places it at once. */
void entry_select(struct sched *s, struct sched_entry *e);
/* A BUSY entry was reported and its feedback applied (5.9); e is freed. */
void entry_complete(struct sched *s, struct sched_entry *e);
/* WAITING -> SETTLED: deferred or bounced without an attempt. */
void entry_drop(struct sched *s, struct sched_entry *e, enum sched_action_kind kind,
                struct reason *reason);
/* NEW -> SETTLED: its destination was dead when the recipients came. */
void entry_refuse(struct sched *s, struct sched_entry *e, struct sched_destination *d);

#endif
