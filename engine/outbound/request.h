/* One delivery across the servers it is tried at: which recipients the transaction under way
 * carries, what each server said of them, and in the end the result and the report. No sockets, and
 * no choice of servers (the scheduler's); owned by the worker that has the delivery, and by the
 * scheduler thread while it looks for another connection, with the delivery that it is parked in.
 * Where no server is left the scheduler thread ends it. Limits: scheduler-semantics 9.3.
 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "engine/outbound/request_session.h"
#include "engine/reply/reply.h"
#include "net/outcome.h"
#include "net/smtp_client.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct config_smtp;
struct delivery;
struct dns_host;
struct egress;
struct outbox;
struct refusal;
struct reply_matcher;
struct reply_set;
struct settings;
struct worker;
struct spool_reader;

struct request {
    struct list link; /* among those of its connection */
    struct delivery *delivery;
    const uint32_t *indexes; /* of the entry: positions in the message */
    struct outcome outcome;  /* by position in the entry */
    struct smtp_transaction transaction;
    uint32_t number;               /* of the transaction, on its connection */
    uint32_t use;                  /* of the connection; 1 is the first */
    uint32_t addresses, sessions;  /* used up so far */
    usec_t connected;              /* wall: ready for MAIL the last time */
    bool is_in_session;            /* outcome_session_begin without its end */
    uint32_t undecided, delivered; /* recipients, when the transaction began */
    uint32_t refused;              /* recipients of the transaction, at RCPT */
    bool is_mail_taken;            /* the server accepted the transaction's MAIL */
    bool is_final;                 /* no server after this one */
    bool is_doubtful;              /* refused, but the order of replies broke: perhaps taken */
    bool is_later;                 /* at its last verdict the session had accepted another one */
    bool was_in_vain;              /* the last transaction with this server decided nobody */
    char provider[65];             /* whose server it is at, or was at last; "": nobody's */
    char *
        return_path; /* the transaction's sender, where it is a return address; NULL: it never was */
    struct refusal *refusal;                 /* what the recipients are held for; NULL: none is */
    usec_t park_until, defer_until, blocked; /* as in struct result */
    /* [recipients of the entry], behind the struct in one allocation */
    struct slice *recipients; /* of the transaction under way */
    uint32_t *positions;      /* of the transaction under way: positions in the entry */
    bool *is_tried;           /* by position in the entry: at the present server */
    bool *is_held;            /* by position in the entry: `refusal` is about it */
    bool *is_parked;          /* by position in the entry: not tried, due at park_until */
    bool *is_suppressed;      /* by position in the entry: on a list of suppressed recipients */
    bool *is_answered;        /* by position in the transaction */
};

/* errors: NULL when out of memory */
MUST_USE struct request *request_new(struct delivery *d);
/* Forget it: at shutdown the mail stays queued. Accepts NULL. Any thread that owns the delivery. */
void request_free(struct request *r);

static inline bool request_is_undecided(const struct request *r)
{
    return r->outcome.undecided > 0;
}

/* Recipients that have come to be on a list of suppressed ones are decided: they end without an attempt.
 * What cannot be looked up now is not.
 *
 * reader  in a pass */
void request_suppress(struct request *r, struct spool_reader *reader, usec_t now_wall);
/* The request is on a connection to a server now.
 *
 * is_last    no other server is left for it
 * is_ready   the connection is ready for MAIL already, and counts as a session that was used */
void request_begin_server(struct request *r, const struct config_smtp *s, bool is_last,
                          bool is_ready);
/* The provider that the destination belongs to: rules for replies may name it. Behind the above. */
void request_set_provider(struct request *r, struct slice provider);
/* The server is ready for MAIL on a fresh connection. */
void request_greeted(struct request *r, const struct config_smtp *s);
/* The next transaction: recipients that are undecided and not tried at this server, as many as one
 * transaction there takes. Where they have return addresses (`verp`) it is one, and its sender is that.
 * Mail with the null sender, which nobody answers, has none. Thread: online under RCU.
 *
 * w  whose settings in force say it; NULL: senders stay as they are */
const struct smtp_transaction *request_begin_transaction(struct request *r,
                                                         const struct smtp_client_features *f,
                                                         const struct worker *w);
/* Some recipients were not in any transaction with this server yet. */
bool request_has_untried(const struct request *r);

/* Verdicts of the client core. Those whose refusal is wider are held: see refusal.h.
 *
 * is_wider   request_weigh said so */
void request_recipient(struct request *r, uint32_t index, const struct outcome_verdict *v,
                       bool is_wider);
void request_rest(struct request *r, const struct outcome_verdict *v, bool is_wider);
/* Every recipient that this server has not refused yet is held for the refusal. */
void request_hold_all(struct request *r);
uint32_t request_held_count(const struct request *r);
/* The held recipients get the verdict of the refusal, as refusal.falls_to says, and the transaction or
 * session in which it was said ends. Whoever has the delivery.
 *
 * returns  the refusal, which is the caller's now: free */
struct refusal *request_take_refusal(struct request *r);
/* The same, but nothing was wrong with the recipients: they have no attempt, and are due then (wall).
 */
struct refusal *request_park_held(struct request *r, usec_t until);
/* The held ones go to another connection, of another source or server; this one does not count as
 * one that they were tried at. */
void request_keep_refusal(struct request *r);
void request_end_transaction(struct request *r, bool is_complete);
/* The dialogue of the transaction is over: the delivery's report counts what the server accepted of
 * its envelope. Before request_end_transaction, or the refusal. */
void request_count_taken(struct request *r);
/* The replies that the request got may have answered other commands: its result is marked as
 * ambiguous. */
void request_doubt(struct request *r);
/* The server took nothing and is not to blame: the request counts as not tried there. */
void request_returned(struct request *r);
/* The session did not come as far as MAIL, or this side failed: a verdict on every undecided
 * recipient. */
void request_site_failed(struct request *r, const struct outcome_verdict *v);
struct request_unreached {
    const struct request_session *session; /* of the connection that was tried */
    const struct egress *from;
    const char *why; /* in words */
    bool is_own;     /* that says nothing about the server */
};
/* No connection to the server could be made.
 *
 * returns  true where the source is to blame: its recipients are held, and the scheduler thread says
 *          whether another source can take them */
MUST_USE bool request_unreachable(struct request *r, const struct request_unreached *u);

/* What replies mean, for whoever gets the result. */
struct request_rules {
    const struct reply_set *set;
    struct reply_matcher *matcher; /* the thread's; NULL: there was no memory for it */
    uint64_t serial;               /* of the settings that have the set */
};
/* What a verdict of that stage replies to. Pure. */
enum reply_stage request_stage_of(enum outcome_stage stage);
/* Whether what the server said is about more than the recipients that it was said of. The request then
 * has its refusal, unless it has one already that means the same.
 *
 * returns  false also when memory is short */
MUST_USE bool request_weigh(struct request *r, const struct outcome_verdict *v,
                            const struct request_session *session,
                            const struct request_rules *rules);
/* The delivery is over: fills its report, sends the spool writer the result, and frees the request.
 *
 * session  NULL: it ends without a session
 * rules    asked only when somebody was refused */
void request_finish(struct request *r, const struct request_session *session,
                    const struct request_rules *rules, struct outbox *to_writer);
/* The same for a delivery that could not begin: everything is deferred. */
void request_refuse(struct delivery *d, const char *status, const char *text,
                    struct outbox *to_writer);

#endif
