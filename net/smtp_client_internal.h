/* What the files of the SMTP client core share with each other; nobody else includes it. */
#ifndef NET_SMTP_CLIENT_INTERNAL_H
#define NET_SMTP_CLIENT_INTERNAL_H

#include "net/smtp_client.h"

/* Queue an event without verdict; at most SMTP_CLIENT_EVENTS_MAX a call. */
struct smtp_client_event *smtp_client_push(struct smtp_client *c, enum smtp_client_event_kind kind);
/* Queue RECIPIENT, REST or FAILED with c->verdict. */
struct smtp_client_event *smtp_client_push_verdict(struct smtp_client *c,
                                                   enum smtp_client_event_kind kind);

/* Set c->verdict and its text. Peer is "HOST[ADDRESS]", reply is sanitised already. */
struct outcome_verdict *smtp_client_judge(struct smtp_client *c, enum outcome_class class,
                                          enum outcome_scope scope, enum outcome_stage stage,
                                          struct outcome_status status);
void smtp_client_text(struct smtp_client *c, const char *before, const char *between);
void smtp_client_text_add(struct smtp_client *c, struct slice part, size_t keep_free);

/* Verdict by the reply just read, 4yz or 5yz, to `stage`: "host H said: REPLY (in reply to ...)".
 */
void smtp_client_judge_said(struct smtp_client *c, enum outcome_stage stage);
/* Verdict: the peer broke the protocol; problem NULL: the reply just read is of the wrong class. */
void smtp_client_judge_protocol(struct smtp_client *c, const char *problem);
/* Verdict: the connection was lost, or timed out, at the present stage. */
void smtp_client_judge_lost(struct smtp_client *c, bool by_timeout);

/* End the session now, c->verdict says why: recipients without a verdict get it. */
void smtp_client_lose(struct smtp_client *c);
void smtp_client_protocol_error(struct smtp_client *c, const char *problem);
/* Say QUIT and close; nothing is under way. */
void smtp_client_leave(struct smtp_client *c, usec_t now);
/* Ready for a transaction. */
void smtp_client_idle(struct smtp_client *c);

/* smtp_client_handshake.c: a complete reply in GREETING, EHLO, HELO or STARTTLS; a line of EHLO. */
void smtp_client_handshake_reply(struct smtp_client *c, bool has_more, usec_t now);
void smtp_client_handshake_line(struct smtp_client *c);
/* EHLO or, when not, HELO. */
void smtp_client_hello(struct smtp_client *c, bool extended, usec_t now);

/* smtp_client_transaction.c: a complete reply in ENVELOPE, BODY, DOT or RSET.
 * has_more: bytes stand behind it in the input. */
void smtp_client_transaction_reply(struct smtp_client *c, bool has_more, usec_t now);
/* Whether the command whose reply is awaited in ENVELOPE has left out. */
bool smtp_client_envelope_is_written(const struct smtp_client *c);
/* The stage whose reply is awaited in ENVELOPE. */
enum outcome_stage smtp_client_envelope_stage(const struct smtp_client *c);

#endif
