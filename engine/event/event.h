/* An event, and the JSON line of the event log that tells it: one for each reception and each
 * recipient's attempt. Pure: any thread. Field names follow KumoMTA's log records where the meaning
 * is equal; `delay` and `delays` are Postfix's. */
#ifndef ENGINE_EVENT_H
#define ENGINE_EVENT_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum event_type {
    EVENT_RECEPTION,         /* accepted and durable */
    EVENT_DELIVERY,          /* the peer took responsibility */
    EVENT_TRANSIENT_FAILURE, /* will be tried again */
    EVENT_BOUNCE,            /* failed for good */
    EVENT_EXPIRATION,        /* given up after its lifetime */
    EVENT_ADMIN_BOUNCE,      /* returned to its sender by an operator's order */
    EVENT_ADMIN_DROP,        /* removed by an operator's order, and nobody is told */
    EVENT_SUPPRESSED,        /* its recipient is suppressed: ended without an attempt */
    EVENT_SUPPRESSION_ADDED, /* a recipient is on a list from now on; about no mail of its own */
    EVENT_SUPPRESSION_REMOVED,
    EVENT_OOB,        /* a report of what became of it later, by mail */
    EVENT_FEEDBACK,   /* a complaint or an unsubscription, likewise */
    EVENT_AUTO_REPLY, /* a program answered for its recipient */
    EVENT_TYPE_COUNT
};

/* Stamps of one delivery attempt, usec, wall; 0: did not get so far. */
struct event_stamps {
    usec_t arrival;   /* of the message, the first time */
    usec_t active;    /* entered the active queue */
    usec_t agent;     /* handed to a connection, or to be connected for */
    usec_t connected; /* connection ready: just before MAIL; 0 with agent set: it failed before */
    usec_t done;      /* the end-of-data reply, or the failure; always set */
};

struct event_delays {
    usec_t total;      /* arrival to done */
    usec_t a, b, c, d; /* before active; active to agent; connection setup; transmission */
};

/* Everything is optional but type, id and time: an empty slice or a zero leaves the field out,
 * unless its line says otherwise. Slices may hold any bytes; they are escaped. */
struct event {
    enum event_type type;
    struct slice id;          /* of the message, printable */
    struct slice sender;      /* always written: empty is the null sender */
    struct slice recipient;   /* Reception: one line with the first; see recipient_count */
    uint32_t recipient_count; /* Reception: written when not 0 */
    struct slice queue;       /* destination that the scheduler knows: nexthop */
    struct slice transport;
    struct slice site; /* the host tried, as it is known there: "mx.example[192.0.2.1]:25" */
    uint64_t size;     /* bytes of the message; always written */
    struct {
        uint16_t code;   /* reply code; 0: no reply, though enhanced and content may be set */
        uint16_t class_; /* enhanced status code; 0: none */
        uint16_t subject, detail;
        struct slice content;           /* text without the codes */
        struct slice command;           /* verb it answers, "." for the end of data */
    } response;                         /* written when code, class_ or content is set */
    struct slice bounce_classification; /* what a refusal means: "throttled", ... */
    struct slice peer_name, peer_address;
    usec_t created;        /* arrival of the message; usec, wall */
    usec_t event_time;     /* usec, wall */
    uint32_t num_attempts; /* not on a Reception */
    struct slice egress_source;
    struct slice delivery_protocol, reception_protocol; /* "ESMTP", ..., "HTTP" */
    struct slice source_transport;                      /* "http": injected */
    struct slice tenant, campaign;                      /* whose mail it is */
    struct slice mail_class;                            /* "urgent", "normal", "bulk" */
    struct slice nodeid;
    struct slice session_id;
    struct slice tls_cipher, tls_protocol_version;
    struct slice tls_verdict; /* "Untrusted", "Trusted", "Verified", "DANE", "STS" */
    bool is_tls_resumed;      /* written when true */
    bool is_ambiguous;        /* the last reply was lost: the peer may have it; written when true */
    struct slice members;     /* further members as JSON, each behind its comma; never escaped */
    const struct event_stamps *stamps; /* NULL: no delays; Delivery and failures have them */
    unsigned delay_resolution;         /* delay_logging_resolution_limit: decimals, 0 to 6 */
};

/* Append one line, its newline included. Failure is the buffer's sticky flag. With stamps,
 * "delay" is a number of seconds and "delays" an array of the four parts. */
void event_format(struct buf *out, const struct event *event);

/* As Postfix: what is missing lasted until done. No active stamp: a takes all; no agent: b takes
 * the rest; no connected: c does. Negative differences are 0; no arrival: all are 0. */
void event_delays(const struct event_stamps *stamps, struct event_delays *ret);

/* A delay as Postfix logs it: two significant digits but at most `resolution` decimals (0 to 6),
 * rounded half up, trailing zeros cut. Negative counts as 0. */
void event_format_delay(struct buf *out, usec_t delay, unsigned resolution);

#endif
