/* Verdicts of the SMTP client core and their texts, in the words of Postfix's log lines. Pure. */
#include "net/smtp_client_internal.h"

#define HOST_TEXT_BYTES 300 /* of the peer's name in a text */

void smtp_client_text_add(struct smtp_client *c, struct slice part, size_t keep_free)
{
    smtp_reply_sanitise(&c->text, part, OUTCOME_TEXT_MAX - keep_free);
}

void smtp_client_text_reply(struct smtp_client *c, size_t keep_free)
{
    struct slice text = smtp_reply_text(&c->reply);
    bool is_secret = c->state == SMTP_CLIENT_STATE_AUTH && smtp_client_is_secret(c, text);
    smtp_client_text_add(c, is_secret ? SLICE("(reply not shown)") : text, keep_free);
}

void smtp_client_text(struct smtp_client *c, const char *before, const char *between)
{
    smtp_client_text_add(c, slice_of(before), 0);
    struct slice host = c->peer.host;
    host.len = host.len < HOST_TEXT_BYTES ? host.len : HOST_TEXT_BYTES;
    smtp_client_text_add(c, host, 0);
    smtp_client_text_add(c, SLICE("["), 0);
    smtp_client_text_add(c, c->peer.address, OUTCOME_TEXT_MAX / 2);
    smtp_client_text_add(c, SLICE("]"), 0);
    smtp_client_text_add(c, slice_of(between), 0);
}

struct outcome_verdict *smtp_client_judge(struct smtp_client *c, enum outcome_class class,
                                          enum outcome_scope scope, enum outcome_stage stage,
                                          struct outcome_status status)
{
    buf_clear(&c->text);
    c->verdict = (struct outcome_verdict){
        .class = class,
        .scope = scope,
        .stage = stage,
        .status = status,
    };
    return &c->verdict;
}

void smtp_client_judge_said(struct smtp_client *c, enum outcome_stage stage)
{
    const char *command = outcome_stage_command(stage);
    struct outcome_verdict *v = smtp_client_judge(
        c, c->reply.code >= 500 ? OUTCOME_HARD : OUTCOME_SOFT,
        stage == OUTCOME_STAGE_RCPT ? OUTCOME_SCOPE_RECIPIENT : OUTCOME_SCOPE_MESSAGE, stage,
        c->reply.status);
    v->code = c->reply.code;
    smtp_client_text(c, "host ", " said: ");
    smtp_client_text_reply(c, 60);
    smtp_client_text_add(c, SLICE(" (in reply to "), 0);
    smtp_client_text_add(c, slice_of(command), 0);
    smtp_client_text_add(c, SLICE(" command)"), 0);
}

enum outcome_stage smtp_client_stage(const struct smtp_client *c)
{
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
        return OUTCOME_STAGE_GREETING;
    case SMTP_CLIENT_STATE_EHLO:
        return OUTCOME_STAGE_EHLO;
    case SMTP_CLIENT_STATE_HELO:
        return OUTCOME_STAGE_HELO;
    case SMTP_CLIENT_STATE_STARTTLS:
        return OUTCOME_STAGE_STARTTLS;
    case SMTP_CLIENT_STATE_TLS:
        return OUTCOME_STAGE_TLS;
    case SMTP_CLIENT_STATE_AUTH:
        return OUTCOME_STAGE_AUTH;
    case SMTP_CLIENT_STATE_BUSY:
        return smtp_client_envelope_stage(c, smtp_client_at(c, 0));
    case SMTP_CLIENT_STATE_QUIT:
        return OUTCOME_STAGE_QUIT;
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_CLOSED:
        break;
    }
    return OUTCOME_STAGE_IDLE;
}

void smtp_client_judge_lost(struct smtp_client *c, enum outcome_stage stage, bool by_timeout)
{
    struct outcome_verdict *v =
        smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, stage, outcome_status_of("4.4.2"));
    v->is_ambiguous = stage == OUTCOME_STAGE_DOT;
    smtp_client_text(c, by_timeout ? "conversation with " : "lost connection with ",
                     by_timeout ? " timed out while " : " while ");
    smtp_client_text_add(c, slice_of(outcome_stage_text(stage)), 0);
}

void smtp_client_judge_protocol(struct smtp_client *c, const char *problem)
{
    enum outcome_stage stage = smtp_client_stage(c);
    struct outcome_verdict *v =
        smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, stage, outcome_status_of("4.5.0"));
    v->is_protocol_error = true;
    v->is_ambiguous = stage == OUTCOME_STAGE_DOT;
    c->is_out_of_step = c->is_out_of_step || c->state == SMTP_CLIENT_STATE_BUSY;
    const char *while_text = outcome_stage_text(stage);
    smtp_client_text(c, "Protocol error: host ", problem == NULL ? " said: " : " sent ");
    if (problem == NULL) {
        v->code = c->reply.code;
        smtp_client_text_reply(c, 80);
    } else {
        smtp_client_text_add(c, slice_of(problem), 80);
    }
    smtp_client_text_add(c, SLICE(" while "), 0);
    smtp_client_text_add(c, slice_of(while_text), 0);
}
