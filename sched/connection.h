/* The connections of a transport as numbered slots: which are free, idle or busy, and which one an
 * entry goes to. Owner thread only. */
#ifndef SCHED_CONNECTION_H
#define SCHED_CONNECTION_H

#include "base/list.h"
#include "sched/action.h"
#include "sched/sched.h"

enum connection_state { CONNECTION_FREE, CONNECTION_IDLE, CONNECTION_BUSY };

struct connection {
    struct list in_transport;   /* FREE: sched.free_connections; IDLE: sched.idle_connections */
    struct list in_destination; /* IDLE: sched_destination.idle */
    struct pending close;
    struct sched_destination *destination; /* NULL when FREE */
    struct sched_entry *entry;             /* BUSY: what it carries */
    usec_t idle_since;
    enum connection_state state;
    bool is_new; /* BUSY: this entry opens it */
};

MUST_USE int connection_init_all(struct sched *s); /* errors: -ENOMEM */
void connection_fini_all(struct sched *s);
/* Some slot can carry one more entry. */
bool connection_is_available(const struct sched *s);
/* Give a selected entry its slot; may queue CLOSE for an idle connection that has to give way. */
void connection_place(struct sched *s, struct sched_entry *e);
/* The entry on it was reported. */
void connection_report(struct sched *s, uint32_t number, bool is_open);
void connection_lose(struct sched *s, uint32_t number);
void connection_close_idle(struct sched *s, struct sched_destination *d);
/* Close those idle for too long; the time at which the next one will be, or USEC_NEVER. */
void connection_expire(struct sched *s);
usec_t connection_wake_at(const struct sched *s);
uint32_t connection_number(const struct sched *s, const struct connection *c);

#endif
