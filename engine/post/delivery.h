/* What scheduler threads and workers send each other: an entry to deliver and its outcome, and a
 * destination to resolve and its hosts. Each object travels out and back; the scheduler thread
 * allocates and frees. */
#ifndef ENGINE_DELIVERY_H
#define ENGINE_DELIVERY_H

#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct dns_hosts;
struct message;
struct request;
struct settings;
struct sts_question;

struct delivery {
    /* set by the scheduler thread */
    struct sched_entry *entry;
    struct message *message;
    struct dns_hosts *hosts; /* own reference; NULL when the nexthop needs none */
    uint16_t transport;      /* index in the configuration */
    uint32_t connection;     /* the scheduler's connection slot */
    uint32_t server;         /* index in hosts; with connection_is_new */
    uint32_t source;         /* id, of the connection: source_table.h */
    uint16_t pool;           /* of its recipients: source_table.h */
    uint32_t server_notes;   /* DELIVERY_NOTE_ bits of that server */
    uint32_t generation;     /* settings.generations of the transport: hosts were found by those */
    bool connection_is_new;
    bool is_last_server;      /* no other one is left */
    bool has_others;          /* with connection_is_new: other connections of its lane live */
    bool is_known_here;       /* the destination has taken mail: sched_destination_is_known */
    struct slice destination; /* name; valid until reported */
    struct slice nexthop;     /* of it, the same or its end: what routes and TLS levels are about */
    usec_t dispatched;        /* wall */
    bool is_charged;          /* a loan of its tenant paid for it */
    bool is_counted;          /* the rates and the quota of its domain have it */
    bool was_sent;            /* some server took or refused a MAIL of it */
    bool is_lent;             /* its lane is limited, and it used a unit of what was lent */
    usec_t sent_at;           /* monotonic: as limit_accepted wants it */
    struct list in_flight;    /* scheduler thread only */

    /* set by the worker */
    struct request *request; /* what is known so far; NULL before the first server and at the end */
    enum sched_feedback_sign feedback;
    bool has_deferred;
    bool connection_open, connection_ends; /* as in struct sched_outcome */
    bool again;                            /* not over: wants another connection */
    bool is_refused;   /* nothing is reported yet: the request has recipients that are held for a
                      * refusal, and the scheduler thread says what becomes of them */
    bool is_throttled; /* as sched_outcome.throttled */
    bool source_tried; /* as in struct sched_outcome */
    uint32_t taken_messages, taken_recipients; /* MAILs and RCPTs that the server accepted since the
                                                * delivery was handed out */
    bool server_failed, server_tried, is_out_of_step; /* as in struct sched_outcome */
    uint16_t depth;
    struct sched_reason reason;
};

/* All that it says of its last connection has been heard, and its place may have another one by now:
 * nothing of that is left in it. */
static inline void delivery_forget_session(struct delivery *d)
{
    d->taken_messages = d->taken_recipients = 0;
    d->depth = 0;
    d->is_lent = d->is_refused = d->connection_ends = false;
    d->connection_open = true; /* as far as the place is concerned */
}

/* What workers remember about a server, in the scheduler's destdb. */
enum delivery_note {
    DELIVERY_NOTE_BROKEN_TLS = 1, /* the handshake failed; level may: do without for a while */
    DELIVERY_NOTE_DATA = 2, /* its replies broke the order behind BDAT: use DATA for a while */
};

struct resolution {
    /* set by the scheduler thread */
    struct sched_destination *destination; /* valid until sched_resolved */
    uint16_t transport;
    bool is_first; /* asked for while the destination had taken nothing yet */
    char nexthop[300];
    uint32_t generation; /* of the settings by which it was begun; set by the worker */

    /* set by the worker */
    struct list link;              /* among those it is resolving */
    struct sts_question *question; /* while the host of its MTA-STS policy is looked up */
    enum sched_resolution outcome;
    struct dns_hosts *hosts; /* a reference for the scheduler, with SCHED_RESOLVED */
    usec_t expires;          /* monotonic */
    struct sched_reason reason;
};

/* Recipients of one message for one scheduler, the first (LETTER_SUBMIT) or more of them
 * (LETTER_MORE); freed by the scheduler thread. */
struct submission {
    struct message *message; /* the first: with a reference that the scheduler then holds */
    struct submission *next; /* of the thread that has it */
    uint64_t orders;  /* order_book_changes before its recipients were judged: newer orders are
                       * applied when it comes to its scheduler */
    uint64_t arrived; /* signer's thread only: its place in the order of arrival */
    struct settings *settings; /* own reference: nexthops are of them; NULL: none is */
    uint16_t transport;
    uint32_t count;
    uint32_t unread; /* recipients of the part that stay in the spool for now */
    struct sched_recipient recipients[];
};

#endif
