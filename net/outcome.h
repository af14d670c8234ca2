/* What a delivery attempt did to each recipient of one request, and what it teaches about the site.
 * A server's answer or a failure arrives as a verdict; the outcome decides whether it is final or
 * the recipient stays for the next server, and at the end says which feedback the request gives.
 * Called by whoever runs the request; pure: no clock, no I/O, nothing shared between requests. */
#ifndef NET_OUTCOME_H
#define NET_OUTCOME_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTCOME_TEXT_MAX   1000 /* bytes of a recipient's text, without NUL */
#define OUTCOME_REASON_MAX 499  /* bytes of the site-level reason, without NUL */

enum outcome_class {
    OUTCOME_SUCCESS, /* responsibility taken by the server */
    OUTCOME_SOFT,    /* may work later or elsewhere */
    OUTCOME_HARD,    /* never try again */
    OUTCOME_CLASS_COUNT
};

/* What a verdict speaks about. Only a site verdict can throttle the destination. */
enum outcome_scope {
    OUTCOME_SCOPE_RECIPIENT,
    OUTCOME_SCOPE_MESSAGE,
    OUTCOME_SCOPE_SITE,
    OUTCOME_SCOPE_OWN, /* this side on its way to an address: no source address, a proxy */
    OUTCOME_SCOPE_COUNT
};

/* The point of the dialogue a verdict belongs to. */
enum outcome_stage {
    OUTCOME_STAGE_RESOLVE,
    OUTCOME_STAGE_CONNECT,
    OUTCOME_STAGE_GREETING,
    OUTCOME_STAGE_EHLO,
    OUTCOME_STAGE_HELO,
    OUTCOME_STAGE_STARTTLS, /* the command */
    OUTCOME_STAGE_TLS,      /* the handshake */
    OUTCOME_STAGE_AUTH,
    OUTCOME_STAGE_MAIL,
    OUTCOME_STAGE_RCPT,
    OUTCOME_STAGE_DATA,
    OUTCOME_STAGE_BODY,
    OUTCOME_STAGE_DOT, /* end of data sent, reply awaited */
    OUTCOME_STAGE_RSET,
    OUTCOME_STAGE_QUIT,
    OUTCOME_STAGE_IDLE,  /* between transactions */
    OUTCOME_STAGE_LOCAL, /* our own side failed (no memory, spool unreadable) */
    OUTCOME_STAGE_COUNT
};

/* "receiving the initial server greeting", ... (wording of Postfix's log lines); static. */
const char *outcome_stage_text(enum outcome_stage stage);
/* Name of the command a stage's reply answers: "MAIL FROM", "end of DATA", ...; static. */
const char *outcome_stage_command(enum outcome_stage stage);

/* An enhanced status code, RFC 3463, NUL-terminated: "5.1.1". */
struct outcome_status {
    char text[12];
};

/* A literal such as "4.4.2"; at most 11 bytes. */
struct outcome_status outcome_status_of(const char *text);
/* status with its class digit replaced (5.7.1 -> 4.7.1). */
struct outcome_status outcome_status_class(struct outcome_status status, char digit);

/* What a server's reply or a failure says. */
struct outcome_verdict {
    enum outcome_class class;
    enum outcome_scope scope;
    enum outcome_stage stage;
    uint16_t code; /* SMTP reply code, 0 = there was no reply */
    struct outcome_status status;
    bool is_ambiguous;      /* the server may have taken the message; never tried elsewhere now */
    bool is_protocol_error; /* the peer broke the protocol */
    bool is_soft_unless_final; /* HARD only at the final server (SMTPUTF8 not offered) */
    struct slice text; /* sanitised, <= OUTCOME_TEXT_MAX; owner and life: see who hands it out */
};

enum outcome_kind {
    OUTCOME_UNDECIDED, /* waits for a server, or kept for the next one */
    OUTCOME_DELIVERED,
    OUTCOME_DEFERRED,
    OUTCOME_BOUNCED,
    OUTCOME_KIND_COUNT
};

/* One recipient's result. */
struct outcome_recipient {
    enum outcome_kind kind;
    enum outcome_stage stage;
    uint16_t code;
    bool is_ambiguous;
    bool is_taken; /* undecided: part of the transaction under way */
    bool is_kept;  /* undecided: had its verdict at this server, waits for the next */
    struct outcome_status status;
    const char *text; /* NUL-terminated, owned by the outcome; shared between recipients */
};

enum outcome_feedback { OUTCOME_NEUTRAL, OUTCOME_POSITIVE, OUTCOME_NEGATIVE };

struct outcome_reason {
    char status[12];
    char text[OUTCOME_REASON_MAX + 1];
};

struct outcome_text; /* one interned text, in the outcome's list */

/* One delivery request. Zeroed is a valid empty outcome for outcome_fini. */
struct outcome {
    struct outcome_recipient *recipients; /* recipient_count of them, heap */
    uint32_t recipient_count;
    uint32_t undecided, delivered, deferred, bounced; /* counts of the above by kind */
    uint32_t ambiguous;
    uint32_t taken; /* undecided ones in the transaction under way */
    struct outcome_text *texts;
    struct outcome_verdict last; /* last verdict kept for the next server; text is interned */
    struct outcome_reason reason;
    bool has_last;
    bool has_reason;           /* feedback is negative */
    bool is_neutral;           /* outcome_set_neutral */
    bool is_final_server;      /* of the session under way */
    bool has_complete_session; /* some session ran the mail dialogue to its end */
    bool is_out_of_memory;     /* a text was replaced by a static one; results stay right */
};

/* errors   -ENOMEM; the outcome is then as zeroed */
MUST_USE int outcome_init(struct outcome *o, uint32_t recipient_count);
void outcome_fini(struct outcome *o);

/* An address is about to be tried (a connect that fails is a session too).
 *
 * final    no other address will be tried after this one: last address, or address limit reached.
 *          May be raised later, when the handshake reaches the session limit
 *          (outcome_session_is_final). */
void outcome_session_begin(struct outcome *o, bool final);
void outcome_session_is_final(struct outcome *o);
/* The session is over.
 *
 * complete  the mail dialogue ran to its end, whatever the replies (smtp_client_event.is_complete)
 */
void outcome_session_end(struct outcome *o, bool complete);

/* Choose the recipients of the next transaction of this session: those that had no verdict in it,
 * in order, at most max (smtp_client_features.rcpt_max; 0 = no limit). Call again after the
 * transaction for more, until it gives 0; after a retry_fresh it gives the same ones again.
 *
 * ret_indexes  room for recipient_count; ret_indexes[i] is recipient i of the transaction
 * returns      their number */
uint32_t outcome_take(struct outcome *o, uint32_t max, uint32_t *ret_indexes);

/* A verdict about one undecided recipient (index within the request); a decided one is left alone.
 * returns  true when it is now decided, false when it stays for the next server */
bool outcome_decide(struct outcome *o, uint32_t index, const struct outcome_verdict *v);
/* A verdict about every recipient taken and without one (SMTP_CLIENT_REST); a site verdict, or any
 * while none is taken (SMTP_CLIENT_FAILED, a failed connect or lookup), is about every one that had
 * none in this session. Soft verdicts at a non-final server keep them; an ambiguous one never does.
 * OUTCOME_SCOPE_OWN counts as MESSAGE, but never hides what a server said before it, and where
 * nothing else decides the feedback is neutral.
 * returns  number of recipients decided */
uint32_t outcome_decide_rest(struct outcome *o, const struct outcome_verdict *v);

/* The reply to RCPT says only that one transaction takes no more recipients: 452, by some servers
 * 451 or 552, each with x.5.3, as plain 452 and 552 also mean a full mailbox.
 *
 * source   RFC 5321 4.5.3.1.10, RFC 3463 3.6 */
bool outcome_is_recipient_limit(const struct outcome_verdict *v);

/* No server is left: recipients still undecided are deferred with the last recorded reason, or
 * 4.3.0 "server unavailable or unable to receive mail". */
void outcome_finish(struct outcome *o);

/* The request says nothing about the site: entries that were queued behind others on a connection
 * that was lost. */
void outcome_set_neutral(struct outcome *o);

/* Feedback of a finished request (nothing undecided).
 *
 * ret      written only for OUTCOME_NEGATIVE: why
 * source   scheduler-semantics 3.2 rules (a) to (e) */
enum outcome_feedback outcome_feedback(const struct outcome *o, struct outcome_reason *ret);

static inline bool outcome_has_deferred(const struct outcome *o)
{
    return o->deferred > 0;
}

#endif
