/* Transactions from the start to their verdicts: the reader of the pipeline. Every reply is matched
 * by order to the commands of the oldest transaction in flight, and a permanent verdict comes from
 * nothing but a well-formed reply in its place (smtp_client_idiom.c). Behind 421 the end of file is
 * awaited before anything is concluded about a message that was wholly handed over: a server that
 * goes on has perhaps taken it. Pure. */
#include "base/error.h"
#include "net/smtp_client_internal.h"

#include <assert.h>

#define STALE_TIME (1 * USEC_PER_SEC)

/* --- beginning -------------------------------------------------------------------------------- */

static int check_path(struct slice address)
{
    if (address.len > SMTP_CLIENT_ADDRESS_MAX) {
        return ERR_LIMIT;
    }
    for (size_t i = 0; i < address.len; i++) {
        unsigned char byte = (unsigned char)address.data[i];
        if (byte < 0x20 || byte == 0x7f) {
            return ERR_SYNTAX;
        }
    }
    return 0;
}

static int check_transaction(const struct smtp_transaction *t)
{
    int error = check_path(t->sender);
    for (uint32_t i = 0; error == 0 && i < t->recipient_count; i++) {
        error = t->recipients[i].len == 0 ? ERR_SYNTAX : check_path(t->recipients[i]);
    }
    return error;
}

static void append_number(struct smtp_client *c, uint64_t n)
{
    char digits[24];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    smtp_client_text_add(c, slice_make(digits + at, sizeof(digits) - at), 0);
}

/* Reject before MAIL, by what EHLO offered. The session, and all that is in flight, stay as they
 * are. */
static void refuse_unsent(struct smtp_client *c, const struct smtp_client_envelope *e)
{
    smtp_client_push_verdict(c, SMTP_CLIENT_REST, e);
    struct smtp_client_event *done = smtp_client_push(c, SMTP_CLIENT_DONE);
    done->transaction = e->number;
    done->is_complete = true;
    done->can_reuse = !c->no_reuse;
    if (done->can_reuse) {
        smtp_client_push(c, SMTP_CLIENT_READY);
    } else if (c->state == SMTP_CLIENT_STATE_IDLE) {
        smtp_client_leave(c);
    }
}

/* RFC 8689 section 4.2.1: the next server, or else a bounce; later where TLS may be back then. */
static void refuse_unprotected(struct smtp_client *c, const struct smtp_client_envelope *e)
{
    const struct smtp_transaction *t = &e->t;
    const char *status = t->is_tls_proved ? "5.7.30" : "5.7.10";
    bool is_later = !t->is_tls_proved && t->is_tls_broken;
    smtp_client_judge(c, is_later ? OUTCOME_SOFT : OUTCOME_HARD, OUTCOME_SCOPE_MESSAGE,
                      OUTCOME_STAGE_MAIL, outcome_status_of(is_later ? "4.7.10" : status))
        ->is_soft_unless_final = !is_later;
    smtp_client_text(c,
                     t->is_tls_proved
                         ? "REQUIRETLS support is required, but was not offered by host "
                         : "REQUIRETLS needs a proved TLS session, and there is none with host ",
                     "");
    refuse_unsent(c, e);
}

/* True when the server cannot take this message at all, and its verdict is given. */
static bool is_refused_unsent(struct smtp_client *c, const struct smtp_client_envelope *e)
{
    const struct smtp_transaction *t = &e->t;
    if (t->requires_tls && !(t->is_tls_proved && c->features.has_requiretls)) {
        refuse_unprotected(c, e);
        return true;
    }
    if (t->needs_smtputf8 && !c->features.has_smtputf8) {
        smtp_client_judge(c, OUTCOME_HARD, OUTCOME_SCOPE_MESSAGE, OUTCOME_STAGE_MAIL,
                          outcome_status_of("5.6.7"))
            ->is_soft_unless_final = true;
        smtp_client_text(c, "SMTPUTF8 is required, but was not offered by host ", "");
        refuse_unsent(c, e);
        return true;
    }
    if (c->features.size_max > 0 && t->size_bytes > c->features.size_max) {
        (void)smtp_client_judge(c, OUTCOME_HARD, OUTCOME_SCOPE_MESSAGE, OUTCOME_STAGE_MAIL,
                                outcome_status_of("5.3.4"));
        smtp_client_text_add(c, SLICE("message size "), 0);
        append_number(c, t->size_bytes);
        smtp_client_text_add(c, SLICE(" exceeds size limit "), 0);
        append_number(c, c->features.size_max);
        smtp_client_text(c, " of server ", "");
        refuse_unsent(c, e);
        return true;
    }
    return false;
}

int smtp_client_start(struct smtp_client *c, const struct smtp_transaction *t, usec_t now)
{
    assert(smtp_client_can_start(c));
    assert(t->recipient_count > 0);
    c->now = now;
    /* An idle connection may have died without a word. With BDAT behind MAIL all of the message
     * could be lost in it, and nobody could say that it was not taken; so its first answer is
     * waited for. */
    bool is_stale =
        c->state == SMTP_CLIENT_STATE_IDLE && c->mails > 0 && now - c->idle_at > STALE_TIME;
    struct smtp_client_envelope e = {
        .t = *t,
        .number = c->transactions,
        .undecided = t->recipient_count,
        .is_first = c->mails == 0,
        .waits = is_stale || t->size_bytes > c->config->chunk_wait,
    };
    int error = check_transaction(t);
    if (error != 0) {
        return error;
    }
    if (is_refused_unsent(c, &e)) {
        c->transactions++;
        return 0;
    }
    error = smtp_client_queue(c, &e);
    if (error != 0) {
        return error;
    }
    c->transactions++;
    c->mails++;
    c->state = SMTP_CLIENT_STATE_BUSY;
    smtp_client_write(c, now);
    return 0;
}

/* --- ending ----------------------------------------------------------------------------------- */

/* The oldest transaction is over and nothing of it is outstanding.
 *
 * is_sound   the order of replies is certain */
static void finish_transaction(struct smtp_client *c, bool is_sound, usec_t now)
{
    bool goes_on = is_sound && !c->no_reuse;
    bool can_reuse = goes_on && (c->features.mail_max == 0 || c->mails < c->features.mail_max);
    const struct smtp_client_envelope *e = smtp_client_at(c, 0);
    struct smtp_client_event *done = smtp_client_push(c, SMTP_CLIENT_DONE);
    done->transaction = e->number;
    done->can_reuse = can_reuse;
    done->is_complete = true;
    done->is_doubtful = (e->is_doubtful || e->has_said_421 || c->is_suspect) &&
                        (!e->is_taken || e->accepted < e->t.recipient_count) &&
                        smtp_client_is_handed_over(c, e);
    c->no_reuse = c->no_reuse || !is_sound;
    smtp_client_pop(c);
    const struct smtp_client_envelope *next = c->flight_count > 0 ? smtp_client_at(c, 0) : NULL;
    if (next == NULL && can_reuse) {
        smtp_client_idle(c);
    } else if (next == NULL || (!next->is_begun && !goes_on)) {
        smtp_client_end_rest(c, true);
    } else if (!is_sound || next->is_broken) {
        smtp_client_end_rest(c, false);
    } else {
        smtp_client_write(c, now);
        if (can_reuse && !c->is_ending) {
            smtp_client_push(c, SMTP_CLIENT_READY);
        }
    }
}

/* Message-level verdict by the reply just read. */
static void decide_rest(struct smtp_client *c, enum outcome_stage stage)
{
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    smtp_client_judge_said(c, stage);
    smtp_client_push_verdict(c, SMTP_CLIENT_REST, e);
    e->undecided = 0;
}

/* The oldest transaction was refused, perhaps in the middle: the server must forget it. */
static void reset(struct smtp_client *c, usec_t now)
{
    if (c->no_reuse) {
        finish_transaction(c, true, now);
    } else {
        smtp_client_write_last_reset(c, now);
    }
}

/* --- replies to the envelope ------------------------------------------------------------------ */

/* 421 in the place of RSET or MAIL; the verdict is set. */
static void part_or_lose(struct smtp_client *c)
{
    if (smtp_client_has_handed_over(c)) {
        smtp_client_part(c, c->now);
    } else {
        c->has_parted = true; /* nothing that is in flight can have been taken */
        smtp_client_lose(c);
    }
}

/* RSET before MAIL. When it is refused, what the server still holds of the transaction before would
 * meet that MAIL. */
static void on_reset(struct smtp_client *c, struct smtp_client_envelope *e)
{
    e->is_reset_answered = c->reply.code < 300;
    if (c->reply.code == 421) {
        smtp_client_judge_said(c, OUTCOME_STAGE_RSET);
        part_or_lose(c);
    } else if (!e->is_reset_answered) {
        smtp_client_protocol_error(c, NULL);
    }
}

/* 45z with x.5.3 (too many) to MAIL: the connection has carried as many messages as this server
 * lets it (OpenSMTPD says it so, and says it again to every MAIL that follows). */
static bool is_client_used_up(const struct smtp_client *c)
{
    return c->reply.code / 10 == 45 && strcmp(c->reply.status.text, "4.5.3") == 0;
}

static void on_mail(struct smtp_client *c, struct smtp_client_envelope *e)
{
    if (c->reply.code == 421 && !e->is_first) {
        smtp_client_judge_said(c, OUTCOME_STAGE_MAIL);
        part_or_lose(c);
        return;
    }
    if (is_client_used_up(c) && !e->is_first && !smtp_client_is_handed_over(c, e)) {
        /* The server gave up the connection; nothing of this message was taken. Of those behind it
         * that is not certain: another MAIL may find favour, from another sender. */
        c->is_used_up = true;
        smtp_client_judge_said(c, OUTCOME_STAGE_MAIL);
        smtp_client_lose(c);
        return;
    }
    c->no_reuse = c->no_reuse || is_client_used_up(c);
    e->is_mail_answered = true;
    e->is_mail_accepted = c->reply.code < 300;
    if (!e->is_mail_accepted && e->undecided > 0) {
        decide_rest(c, OUTCOME_STAGE_MAIL);
    }
}

static void on_rcpt(struct smtp_client *c, struct smtp_client_envelope *e)
{
    uint32_t index = e->rcpt_answered++;
    if (c->reply.code < 300 && !e->is_mail_accepted) {
        smtp_client_protocol_error(c, NULL);
        return;
    }
    if (c->reply.code < 300) {
        e->accepted++;
        return;
    }
    if (e->undecided == 0) {
        return; /* decided with MAIL, or the body could not be read */
    }
    smtp_client_judge_said(c, OUTCOME_STAGE_RCPT);
    smtp_client_push_verdict(c, SMTP_CLIENT_RECIPIENT, e)->index = index;
    e->undecided--;
}

static void on_data(struct smtp_client *c, struct smtp_client_envelope *e, usec_t now)
{
    e->is_data_answered = true;
    if (c->reply.code < 400) {
        smtp_client_write_data(c, now);
    } else if (e->undecided > 0) {
        decide_rest(c, OUTCOME_STAGE_DATA);
    }
}

/* Whether a reply of this class may answer the command at all. */
static bool is_right_class(enum smtp_client_awaited awaited, unsigned code)
{
    return code >= 400 || (awaited == SMTP_CLIENT_AWAITS_DATA ? code >= 300 : code < 300);
}

/* Whether the reply just read can be that to this command; a refusal may be any one's. */
static bool is_in_place(struct smtp_client *c, enum smtp_client_awaited awaited)
{
    static const enum smtp_client_asked asked[] = {
        [SMTP_CLIENT_AWAITS_RESET] = SMTP_CLIENT_ASKED_RESET,
        [SMTP_CLIENT_AWAITS_MAIL] = SMTP_CLIENT_ASKED_MAIL,
        [SMTP_CLIENT_AWAITS_RCPT] = SMTP_CLIENT_ASKED_RCPT,
        [SMTP_CLIENT_AWAITS_LAST_RESET] = SMTP_CLIENT_ASKED_RESET,
    };
    return c->reply.code >= 300 || awaited == SMTP_CLIENT_AWAITS_DATA ||
           smtp_client_notice(c, asked[awaited]);
}

/* RSET, MAIL, RCPT or DATA was answered. is_early: a reply too many stands behind this one. */
static void on_envelope(struct smtp_client *c, enum smtp_client_awaited awaited, bool is_early,
                        usec_t now)
{
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    if (awaited == SMTP_CLIENT_AWAITS_RESET) {
        on_reset(c, e);
    } else if (awaited == SMTP_CLIENT_AWAITS_MAIL) {
        on_mail(c, e);
    } else if (awaited == SMTP_CLIENT_AWAITS_RCPT) {
        on_rcpt(c, e);
    } else {
        on_data(c, e, now);
    }
    if (c->is_parting || c->is_ending) {
        return;
    }
    e->has_said_421 = e->has_said_421 || c->reply.code == 421;
    if (c->reply.code == 421 && smtp_client_has_handed_over(c)) {
        smtp_client_part(c, now);
    } else if (is_early) {
        /* The verdict stands; the rest has to wait until it was taken. */
        c->is_desynced = c->is_out_of_step = true;
    } else {
        awaited = smtp_client_awaited(e);
        if (awaited == SMTP_CLIENT_AWAITS_NOTHING && e->undecided == 0) {
            reset(c, now);
        } else {
            smtp_client_write(c, now);
        }
    }
}

/* --- the body and its end --------------------------------------------------------------------- */

static inline bool is_premature(const struct smtp_client *c, const struct smtp_client_envelope *e,
                                enum smtp_client_awaited awaited)
{
    return awaited == SMTP_CLIENT_AWAITS_BODY ||
           (awaited == SMTP_CLIENT_AWAITS_END && !e->is_lone_dot &&
            !(e->is_end_queued && smtp_client_is_handed_over(c, e)));
}

bool smtp_client_is_premature(const struct smtp_client *c)
{
    const struct smtp_client_envelope *e = smtp_client_at(c, 0);
    return is_premature(c, e, smtp_client_awaited(e));
}

/* A reply before the last byte of the message was handed over. A refusal counts, success cannot. */
static void on_early_reply(struct smtp_client *c)
{
    const struct smtp_client_envelope *e = smtp_client_at(c, 0);
    bool may_be_taken = smtp_client_is_handed_over(c, e) ||
                        (c->reply.code < 300 && (e->is_chunk || c->body_bytes > 0));
    if (c->reply.code < 400) {
        smtp_client_judge_protocol(c, NULL);
        c->verdict.is_ambiguous = may_be_taken;
    } else {
        smtp_client_judge_said(c, OUTCOME_STAGE_BODY);
    }
    smtp_client_lose(c);
}

static void decide_end(struct smtp_client *c, struct smtp_client_envelope *e)
{
    const struct smtp_reply *r = &c->reply;
    if (r->code >= 400) {
        decide_rest(c, OUTCOME_STAGE_DOT);
        return;
    }
    smtp_client_judge(c, OUTCOME_SUCCESS, OUTCOME_SCOPE_MESSAGE, OUTCOME_STAGE_DOT, r->status)
        ->code = r->code;
    smtp_client_text_add(c, smtp_reply_text(r), 0);
    smtp_client_push_verdict(c, SMTP_CLIENT_REST, e);
    e->undecided = 0;
    e->is_taken = true;
}

/* Whether the 2yz just read is the answer to the end of e: nobody takes a message to nobody. Which
 * of two replies is the end's, when one is too many? But a server may say at any time that it goes.
 */
static bool is_possible_end(struct smtp_client *c, const struct smtp_client_envelope *e,
                            struct slice more)
{
    bool is_leaving =
        more.len > 2 && memcmp(more.data, "421", 3) == 0 && slice_find(more, '\n') + 1 >= more.len;
    return e->accepted > 0 && smtp_client_is_certain_end(c, more.len > 0 && !is_leaving);
}

/* The dot or BDAT was answered. more: replies that no command asked for stand behind this one. */
static void on_end_of_data(struct smtp_client *c, struct slice more, usec_t now)
{
    bool is_early = more.len > 0;
    const struct smtp_reply *r = &c->reply;
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    c->is_out_of_step = c->is_out_of_step || is_early;
    e->is_data_answered = true;
    if (e->is_lone_dot) {
        /* Whatever it says is about a message to nobody. */
        finish_transaction(c, !is_early && r->code / 100 != 3 && e->end_pos <= c->out_taken, now);
        return;
    }
    if (r->code / 100 == 3 || (r->code < 300 && !is_possible_end(c, e, more))) {
        e->is_data_answered = false; /* the error names the stage of this reply */
        smtp_client_protocol_error(c, NULL);
        return;
    }
    smtp_pace_end(&c->pace, e->end_at, now);
    if (e->undecided > 0) {
        decide_end(c, e);
    }
    if (r->code == 421) {
        smtp_client_part(c, now);
        return;
    }
    e->is_doubtful = is_early;
    bool is_next_begun = c->flight_count > 1 && smtp_client_at(c, 1)->is_begun;
    if (r->code / 100 == 4 && is_next_begun) {
        e->is_unconfirmed = true;
        return;
    }
    if (e->is_chunk && r->code >= 400 && !is_next_begun && !is_early) {
        reset(c, now); /* a transaction that was begun behind this one has a RSET of its own */
    } else {
        finish_transaction(c, !is_early, now);
    }
}

/* The last RSET was answered. */
static void on_last_reset(struct smtp_client *c, bool is_early, usec_t now)
{
    if (c->reply.code == 421 && smtp_client_has_handed_over(c)) {
        smtp_client_part(c, now);
        return;
    }
    bool is_sound = !is_early && c->reply.code < 300;
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    /* Nobody refuses RSET: the refusal of the message was perhaps another's. */
    e->is_doubtful = e->is_doubtful || is_early || (c->reply.code >= 300 && c->reply.code != 421);
    c->is_out_of_step = c->is_out_of_step || (!is_sound && c->reply.code != 421);
    finish_transaction(c, is_sound, now);
}

/* A reply behind 421: the server goes on, unless it is the one to QUIT. */
static void on_parting_reply(struct smtp_client *c)
{
    if (c->reply.code == 221 && c->has_quit) {
        c->has_parted = true;
        smtp_client_lose(c);
    } else {
        smtp_client_protocol_error(c, "a reply behind 421");
    }
}

/* The message in front was refused for now, and a refusal may be the answer to any command. This
 * reply, to the one behind it, tells; false: there is nothing more to do with it. */
static bool confirm(struct smtp_client *c, usec_t now)
{
    enum smtp_client_awaited awaited = smtp_client_awaited(smtp_client_at(c, 1));
    if (!is_in_place(c, awaited)) {
        smtp_client_protocol_error(c, NULL);
        return false;
    }
    /* Nobody refuses RSET, so this may be the reply to the end of the message in front; and behind
     * 421 nothing tells. */
    if (c->reply.code == 421 || (awaited == SMTP_CLIENT_AWAITS_RESET && c->reply.code >= 300)) {
        smtp_client_at(c, 0)->is_doubtful = true;
    }
    finish_transaction(c, true, now);
    return !c->is_ending;
}

void smtp_client_transaction_reply(struct smtp_client *c, struct slice rest, usec_t now)
{
    if (c->is_parting) {
        on_parting_reply(c);
        return;
    }
    if (smtp_client_at(c, 0)->is_unconfirmed && !confirm(c, now)) {
        return;
    }
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    enum smtp_client_awaited awaited = smtp_client_awaited(e);
    /* Behind 354 may stand a refusal of the message, as early as can be. */
    bool is_go_ahead = awaited == SMTP_CLIENT_AWAITS_DATA && c->reply.code < 400;
    bool is_end = awaited == SMTP_CLIENT_AWAITS_END;
    bool is_early = rest.len > 0 && !is_go_ahead &&
                    (is_end ? !smtp_client_is_next_asked(c) : c->unanswered <= 1);
    if (is_premature(c, e, awaited) || (is_end && c->is_reply_premature && c->reply.code < 400)) {
        on_early_reply(c);
        return;
    }
    if (!is_end && awaited != SMTP_CLIENT_AWAITS_LAST_RESET) {
        if (!is_right_class(awaited, c->reply.code)) {
            smtp_client_protocol_error(c, NULL);
            return;
        }
        if (is_early && c->reply.code < 400) {
            smtp_client_protocol_error(c, "more than one reply");
            return;
        }
    }
    if (!is_end && !is_in_place(c, awaited)) {
        smtp_client_protocol_error(c, NULL);
        return;
    }
    smtp_client_take_reply(c, now);
    if (is_end) {
        on_end_of_data(c, is_early ? rest : SLICE(""), now);
    } else if (awaited == SMTP_CLIENT_AWAITS_LAST_RESET) {
        on_last_reset(c, is_early, now);
    } else {
        on_envelope(c, awaited, is_early, now);
    }
}
