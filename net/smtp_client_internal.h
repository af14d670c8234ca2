/* What the files of the SMTP client core share with each other; nobody else includes it. */
#ifndef NET_SMTP_CLIENT_INTERNAL_H
#define NET_SMTP_CLIENT_INTERNAL_H

#include "net/smtp_client.h"

/* A transaction in flight. Its commands are queued and answered in the order RSET (when one is
 * needed), MAIL, RCPT 0..n-1, DATA or BDAT, the dot of DATA, RSET (when it was refused), so counts
 * say which reply comes next. Its commands up to DATA or BDAT stand together in the stream of out,
 * for the writer turns to the next transaction only behind them; positions count from the stream's
 * begin. */
struct smtp_client_envelope {
    struct smtp_transaction t;
    uint32_t number;                   /* for the events */
    uint32_t rcpt_sent, rcpt_answered; /* in order */
    uint32_t accepted;                 /* recipients answered 2yz */
    uint32_t undecided;                /* recipients without a verdict */
    uint32_t mail_bytes, data_bytes;   /* length of MAIL, of DATA or BDAT */
    uint64_t answered_pos;             /* position behind those commands of the transaction that
                                        * were answered */
    uint64_t mail_pos;                 /* behind MAIL */
    uint64_t end_pos;                  /* behind BDAT, the dot or the last RSET */
    usec_t mail_at;                    /* when MAIL was queued; later, when MAIL was handed over */
    usec_t end_at;                     /* the same times of the end of the message, or of RSET */

    /* the writer */
    bool is_first;       /* the connection's first MAIL */
    bool waits;          /* BDAT only behind the replies to the envelope */
    bool is_begun;       /* MAIL is queued */
    bool has_reset;      /* RSET is queued in front of it */
    bool is_data_sent;   /* DATA or BDAT is queued */
    bool is_streamed;    /* BDAT is queued in front of the replies to the envelope */
    bool is_chunk;       /* the transaction's body went by BDAT */
    bool has_body;       /* WANT_BODY was said */
    bool is_end_queued;  /* nothing more to write but perhaps the last RSET */
    bool is_body_out;    /* all of the body was handed over, or stands in front of the dot */
    bool is_lone_dot;    /* 354 though nobody was accepted: an empty message to nobody is ended */
    bool has_last_reset; /* RSET is queued behind it */
    bool is_broken;      /* the body could not be read: the connection ends with this transaction */
    bool is_incomplete;  /* ... and DONE says so */

    /* the reader */
    bool is_reset_answered, is_mail_answered, is_mail_accepted, is_data_answered;
    bool is_taken;       /* the end of the message was answered 2yz */
    bool is_unconfirmed; /* the end of the message was refused for now: DONE waits for the next
                          * reply */
    bool has_said_421;   /* the server said 421 to the envelope, and went on */
    bool is_doubtful;    /* the verdicts were refusals, but the message may have been taken: DONE
                          * says so */
};

/* The reply that comes next for a transaction. */
enum smtp_client_awaited {
    SMTP_CLIENT_AWAITS_NOTHING, /* what the transaction needs next is not queued yet */
    SMTP_CLIENT_AWAITS_RESET,   /* the RSET before it */
    SMTP_CLIENT_AWAITS_MAIL,
    SMTP_CLIENT_AWAITS_RCPT,
    SMTP_CLIENT_AWAITS_DATA,
    SMTP_CLIENT_AWAITS_BODY, /* none, while the body is being written by DATA */
    SMTP_CLIENT_AWAITS_END,  /* to the dot or BDAT */
    SMTP_CLIENT_AWAITS_LAST_RESET,
};

/* --- smtp_client.c: events, the end ----------------------------------------------------------- */

/* Queue an event without verdict; at most SMTP_CLIENT_EVENTS_MAX a call. */
struct smtp_client_event *smtp_client_push(struct smtp_client *c, enum smtp_client_event_kind kind);
/* Queue RECIPIENT, REST, RETURNED or FAILED with c->verdict; e is NULL for FAILED. */
struct smtp_client_event *smtp_client_push_verdict(struct smtp_client *c,
                                                   enum smtp_client_event_kind kind,
                                                   const struct smtp_client_envelope *e);

/* End the session now, c->verdict says why the oldest transaction in flight fails with it. */
void smtp_client_lose(struct smtp_client *c);
void smtp_client_protocol_error(struct smtp_client *c, const char *problem);
/* The same when the oldest transaction has had its DONE: those left in flight are ended. With
 * is_leaving QUIT is said. */
void smtp_client_end_rest(struct smtp_client *c, bool is_leaving);
/* 421 was said, and some message was wholly handed over: what comes behind it tells whether that
 * was taken. Nothing more is written, but after a while QUIT, where nothing else
 * is unanswered. */
void smtp_client_part(struct smtp_client *c, usec_t now);
/* Say QUIT and close; nothing is under way. */
void smtp_client_leave(struct smtp_client *c);
/* Ready for a transaction, nothing is in flight. */
void smtp_client_idle(struct smtp_client *c);

/* --- smtp_client_verdict.c -------------------------------------------------------------------- */

/* Set c->verdict and its text. Peer is "HOST[ADDRESS]", reply is sanitised already. */
struct outcome_verdict *smtp_client_judge(struct smtp_client *c, enum outcome_class class,
                                          enum outcome_scope scope, enum outcome_stage stage,
                                          struct outcome_status status);
void smtp_client_text(struct smtp_client *c, const char *before, const char *between);
void smtp_client_text_add(struct smtp_client *c, struct slice part, size_t keep_free);
/* The reply just read, unless it could hold the password. */
void smtp_client_text_reply(struct smtp_client *c, size_t keep_free);

/* Verdict by the reply just read, 4yz or 5yz, to `stage`: "host H said: REPLY (in reply to ...)".
 */
void smtp_client_judge_said(struct smtp_client *c, enum outcome_stage stage);
/* Verdict: the peer broke the protocol; problem NULL: the reply just read is of the wrong class. */
void smtp_client_judge_protocol(struct smtp_client *c, const char *problem);
/* Verdict: the connection was lost, or timed out, at `stage`. */
void smtp_client_judge_lost(struct smtp_client *c, enum outcome_stage stage, bool by_timeout);
/* The stage of whatever is awaited now. */
enum outcome_stage smtp_client_stage(const struct smtp_client *c);

/* --- smtp_client_idiom.c ---------------------------------------------------------------------- */

/* The reply just read, 2yz, answers RSET, MAIL or RCPT; false: it is what this server says to
 * another command. */
MUST_USE bool smtp_client_notice(struct smtp_client *c, enum smtp_client_asked asked);
/* Whether the reply just read, 2yz, certainly answers the end of the oldest message. has_more: one
 * too many stands behind it. */
MUST_USE bool smtp_client_is_certain_end(struct smtp_client *c, bool has_more);
/* Whether the answer to RSET is known. */
bool smtp_client_knows_reset(const struct smtp_client *c);

/* --- smtp_client_handshake.c, smtp_client_auth.c ---------------------------------------------- */

/* A complete reply in GREETING, EHLO, HELO or STARTTLS; a line of EHLO. */
void smtp_client_handshake_reply(struct smtp_client *c, bool has_more, usec_t now);
void smtp_client_handshake_line(struct smtp_client *c);
/* EHLO or, when not, HELO. */
void smtp_client_hello(struct smtp_client *c, bool extended, usec_t now);
/* The session fails with c->verdict, but the server still listens: say QUIT. */
void smtp_client_fail_politely(struct smtp_client *c);

/* Begin AUTH; the session fails when the server does not offer what is needed. */
void smtp_client_auth(struct smtp_client *c, usec_t now);
/* A complete reply in AUTH. */
void smtp_client_auth_reply(struct smtp_client *c, usec_t now);
/* Whether text could give the password away. */
bool smtp_client_is_secret(const struct smtp_client *c, struct slice text);

/* --- smtp_client_transaction.c: the reader ---------------------------------------------------- */

/* A complete reply in BUSY. rest: the input behind it. */
void smtp_client_transaction_reply(struct smtp_client *c, struct slice rest, usec_t now);
/* Whether a reply now would come before the last byte of the message was handed over. */
bool smtp_client_is_premature(const struct smtp_client *c);

/* --- smtp_client_pipeline.c: the transactions in flight, and the writer ----------------------- */

/* The index-th in flight, 0 is the oldest. */
struct smtp_client_envelope *smtp_client_at(const struct smtp_client *c, uint32_t index);
/* Append to those in flight; e is copied. No pointer to an envelope is good behind this, or behind
 * smtp_client_pop. errors -ENOMEM */
MUST_USE int smtp_client_queue(struct smtp_client *c, const struct smtp_client_envelope *e);
/* Remove the oldest. */
void smtp_client_pop(struct smtp_client *c);

enum smtp_client_awaited smtp_client_awaited(const struct smtp_client_envelope *e);
enum outcome_stage smtp_client_envelope_stage(const struct smtp_client *c,
                                              const struct smtp_client_envelope *e);
/* Whether the command whose reply is awaited has left out. That reply is to the oldest in flight,
 * or, when its end was refused for now, to the one behind it. */
bool smtp_client_is_asked(const struct smtp_client *c);
/* The same of the transaction behind the oldest. */
bool smtp_client_is_next_asked(const struct smtp_client *c);
/* The awaited reply came, in its place: count it. Before what it says is noted. */
void smtp_client_take_reply(struct smtp_client *c, usec_t now);
/* Whether all of the message was handed over (R1). */
bool smtp_client_is_handed_over(const struct smtp_client *c, const struct smtp_client_envelope *e);
usec_t smtp_client_busy_deadline(const struct smtp_client *c);

/* Whether some transaction in flight was wholly handed over. */
bool smtp_client_has_handed_over(const struct smtp_client *c);

/* Queue what may be written now; gives WANT_BODY, or ends the session when out of memory. */
void smtp_client_write(struct smtp_client *c, usec_t now);
/* Queue "." or RSET, the last that is written of e. */
void smtp_client_append_end(struct smtp_client *c, struct smtp_client_envelope *e, const char *text,
                            usec_t now);
/* The oldest transaction got 354: its body, or a dot alone. */
void smtp_client_write_data(struct smtp_client *c, usec_t now);
/* RSET behind the oldest transaction, of which nothing is outstanding. */
void smtp_client_write_last_reset(struct smtp_client *c, usec_t now);

#endif
