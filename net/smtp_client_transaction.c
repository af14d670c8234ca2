/* One transaction: MAIL, RCPT, DATA, the end of data, RSET; pipelined when offered. Every reply is
 * matched to its command by order, and a permanent verdict comes from nothing but a well-formed
 * reply in its place. Pure. */
#include "base/error.h"
#include "net/smtp_client_internal.h"

#include <assert.h>
#include <inttypes.h>

#define RCPT_OVERHEAD_BYTES 12 /* "RCPT TO:<" and ">\r\n" */
#define DATA_BYTES          6  /* "DATA\r\n" */

/* --- beginning -----------------------------------------------------------------------------------
 */

static int check_address(struct slice address)
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
    int error = check_address(t->sender);
    for (uint32_t i = 0; error == 0 && i < t->recipient_count; i++) {
        error = t->recipients[i].len == 0 ? ERR_SYNTAX : check_address(t->recipients[i]);
    }
    return error;
}

static void append_mail(struct smtp_client *c)
{
    struct smtp_client_envelope *e = &c->envelope;
    size_t before = c->out.len;
    buf_append_str(&c->out, "MAIL FROM:<");
    buf_append_slice(&c->out, e->t.sender);
    buf_append_str(&c->out, ">");
    if (c->features.has_size) {
        buf_printf(&c->out, " SIZE=%" PRIu64, e->t.size_bytes);
    }
    if (e->t.has_8bit && c->features.has_8bitmime) {
        buf_append_str(&c->out, " BODY=8BITMIME");
    }
    if (e->t.needs_smtputf8) {
        buf_append_str(&c->out, " SMTPUTF8");
    }
    buf_append_str(&c->out, "\r\n");
    e->mail_bytes = (uint32_t)(c->out.len - before);
    e->unacked_bytes = e->mail_bytes;
}

static bool is_pipelining(const struct smtp_client *c)
{
    return c->config->use_pipelining && c->features.has_pipelining;
}

/* Some command of the envelope waits for its reply. */
static bool is_outstanding(const struct smtp_client_envelope *e)
{
    return !e->mail_answered || e->rcpt_answered < e->rcpt_sent ||
           (e->data_sent && !e->data_answered);
}

enum outcome_stage smtp_client_envelope_stage(const struct smtp_client *c)
{
    const struct smtp_client_envelope *e = &c->envelope;
    if (!e->mail_answered) {
        return OUTCOME_STAGE_MAIL;
    }
    return e->rcpt_answered < e->rcpt_sent ? OUTCOME_STAGE_RCPT : OUTCOME_STAGE_DATA;
}

/* Length of the RCPT command to recipient i. */
static uint32_t rcpt_bytes(const struct smtp_client_envelope *e, uint32_t i)
{
    return (uint32_t)e->t.recipients[i].len + RCPT_OVERHEAD_BYTES;
}

bool smtp_client_envelope_is_written(const struct smtp_client *c)
{
    const struct smtp_client_envelope *e = &c->envelope;
    size_t behind = 0; /* bytes of the commands after the awaited one */
    enum outcome_stage stage = smtp_client_envelope_stage(c);
    if (stage != OUTCOME_STAGE_DATA) {
        behind = e->unacked_bytes + (e->data_sent ? DATA_BYTES : 0);
        behind -= stage == OUTCOME_STAGE_MAIL ? e->mail_bytes : rcpt_bytes(e, e->rcpt_answered);
    }
    return c->out.len <= behind;
}

/* The deadline of the reply that comes next in ENVELOPE. */
static void arm(struct smtp_client *c, usec_t now)
{
    enum outcome_stage stage = smtp_client_envelope_stage(c);
    usec_t timeout = c->config->data_init_timeout;
    if (stage == OUTCOME_STAGE_MAIL) {
        timeout = c->config->mail_timeout;
    } else if (stage == OUTCOME_STAGE_RCPT) {
        timeout = c->config->rcpt_timeout;
    }
    c->deadline = now + timeout;
}

/* As many commands as may be outstanding together. DATA is the synchronisation point: all RCPTs go
 * before it, nothing behind it. The bound on unanswered bytes keeps two blocked writers from
 * waiting for each other (RFC 2920 3.1). */
static void send_commands(struct smtp_client *c)
{
    struct smtp_client_envelope *e = &c->envelope;
    bool is_lockstep = !is_pipelining(c);
    while (e->rcpt_sent < e->t.recipient_count) {
        uint32_t bytes = rcpt_bytes(e, e->rcpt_sent);
        if (is_outstanding(e) &&
            (is_lockstep || e->unacked_bytes + bytes > c->config->unacked_max)) {
            return;
        }
        buf_append_str(&c->out, "RCPT TO:<");
        buf_append_slice(&c->out, e->t.recipients[e->rcpt_sent]);
        buf_append_str(&c->out, ">\r\n");
        e->unacked_bytes += bytes;
        e->rcpt_sent++;
    }
    if (!e->data_sent && !(is_lockstep && is_outstanding(e))) {
        buf_append_str(&c->out, "DATA\r\n");
        e->data_sent = true;
    }
}

/* Commands could not be queued: out of memory. */
static bool has_failed(struct smtp_client *c)
{
    if (!c->out.failed) {
        return false;
    }
    (void)smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_LOCAL,
                            outcome_status_of("4.3.0"));
    smtp_client_text_add(c, SLICE("out of memory"), 0);
    smtp_client_lose(c);
    return true;
}

/* --- ending
 * ---------------------------------------------------------------------------------------- */

/* The transaction is over and nothing is outstanding. */
static void finish(struct smtp_client *c, bool can_reuse, usec_t now)
{
    uint32_t mail_max = c->features.mail_max;
    can_reuse = can_reuse && !c->no_reuse && (mail_max == 0 || c->transactions < mail_max);
    struct smtp_client_event *done = smtp_client_push(c, SMTP_CLIENT_DONE);
    done->can_reuse = can_reuse;
    done->is_complete = true;
    if (can_reuse) {
        smtp_client_idle(c);
    } else {
        smtp_client_leave(c, now);
    }
}

/* Message-level verdict by the reply just read. */
static void decide_rest(struct smtp_client *c, enum outcome_stage stage)
{
    smtp_client_judge_said(c, stage);
    smtp_client_push_verdict(c, SMTP_CLIENT_REST);
    c->envelope.undecided = 0;
}

static void begin_reset(struct smtp_client *c, usec_t now)
{
    if (c->no_reuse) {
        finish(c, false, now);
        return;
    }
    c->state = SMTP_CLIENT_STATE_RSET;
    c->deadline = now + c->config->rset_timeout;
    buf_append_str(&c->out, "RSET\r\n");
}

/* Reject before MAIL, by what EHLO offered. The session stays as it is. */
static void refuse_unsent(struct smtp_client *c, struct outcome_status status, usec_t now)
{
    c->verdict.status = status;
    smtp_client_push_verdict(c, SMTP_CLIENT_REST);
    c->envelope.undecided = 0;
    finish(c, true, now);
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

/* True when the server cannot take this message at all, and its verdict is given. */
static bool is_refused_unsent(struct smtp_client *c, usec_t now)
{
    const struct smtp_transaction *t = &c->envelope.t;
    if (t->needs_smtputf8 && !c->features.has_smtputf8) {
        smtp_client_judge(c, OUTCOME_HARD, OUTCOME_SCOPE_MESSAGE, OUTCOME_STAGE_MAIL,
                          outcome_status_of("5.6.7"))
            ->is_soft_unless_final = true;
        smtp_client_text(c, "SMTPUTF8 is required, but was not offered by host ", "");
        refuse_unsent(c, outcome_status_of("5.6.7"), now);
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
        refuse_unsent(c, outcome_status_of("5.3.4"), now);
        return true;
    }
    return false;
}

int smtp_client_start(struct smtp_client *c, const struct smtp_transaction *t, usec_t now)
{
    assert(c->state == SMTP_CLIENT_STATE_IDLE && c->event_count == 0);
    assert(t->recipient_count > 0);
    int error = check_transaction(t);
    if (error != 0) {
        return error;
    }
    c->envelope = (struct smtp_client_envelope){.t = *t, .undecided = t->recipient_count};
    c->body_bytes = 0;
    if (is_refused_unsent(c, now)) {
        return 0;
    }
    c->transactions++;
    c->state = SMTP_CLIENT_STATE_ENVELOPE;
    append_mail(c);
    if (is_pipelining(c)) {
        send_commands(c);
    }
    arm(c, now);
    (void)has_failed(c); /* the events say it */
    return 0;
}

/* --- replies to the envelope
 * ------------------------------------------------------------------------- */

static void on_mail(struct smtp_client *c)
{
    struct smtp_client_envelope *e = &c->envelope;
    if (c->reply.code == 421 && c->transactions > 1) {
        /* The server gave up the idle connection; nothing of this message reached it. */
        smtp_client_judge_said(c, OUTCOME_STAGE_MAIL);
        smtp_client_lose(c);
        return;
    }
    e->mail_answered = true;
    e->unacked_bytes -= e->mail_bytes;
    e->mail_accepted = c->reply.code < 300;
    if (!e->mail_accepted) {
        decide_rest(c, OUTCOME_STAGE_MAIL);
    }
}

static void on_rcpt(struct smtp_client *c)
{
    struct smtp_client_envelope *e = &c->envelope;
    uint32_t index = e->rcpt_answered++;
    e->unacked_bytes -= rcpt_bytes(e, index);
    if (!e->mail_accepted) {
        return; /* decided with MAIL */
    }
    if (c->reply.code < 300) {
        e->accepted++;
        return;
    }
    smtp_client_judge_said(c, OUTCOME_STAGE_RCPT);
    smtp_client_push_verdict(c, SMTP_CLIENT_RECIPIENT)->index = index;
    e->undecided--;
}

static void on_data(struct smtp_client *c, usec_t now)
{
    struct smtp_client_envelope *e = &c->envelope;
    e->data_answered = true;
    if (c->reply.code >= 400) {
        if (e->undecided > 0) {
            decide_rest(c, OUTCOME_STAGE_DATA);
        }
        return;
    }
    if (e->accepted == 0) {
        /* RFC 2920 3.1: the way out of a 354 that nobody can use. */
        e->is_lone_dot = true;
        c->state = SMTP_CLIENT_STATE_DOT;
        c->deadline = now + c->config->data_done_timeout;
        buf_append_str(&c->out, ".\r\n");
        return;
    }
    c->state = SMTP_CLIENT_STATE_BODY;
    c->body_started = now;
    c->deadline = now + c->config->data_xfer_timeout;
    smtp_client_push(c, SMTP_CLIENT_WANT_BODY);
}

/* Whether a reply of this class may answer the stage at all. */
static bool is_right_class(enum outcome_stage stage, unsigned code)
{
    return code >= 400 || (stage == OUTCOME_STAGE_DATA ? code >= 300 : code < 300);
}

static void go_on(struct smtp_client *c, usec_t now)
{
    struct smtp_client_envelope *e = &c->envelope;
    if (e->undecided > 0 && !e->data_sent) {
        bool is_all_answered = e->rcpt_answered == e->t.recipient_count;
        if (!is_all_answered || e->accepted > 0) {
            send_commands(c);
        }
    }
    if (is_outstanding(e)) {
        arm(c, now);
    } else {
        begin_reset(c, now);
    }
    (void)has_failed(c);
}

static void on_envelope(struct smtp_client *c, bool has_more, usec_t now)
{
    struct smtp_client_envelope *e = &c->envelope;
    enum outcome_stage stage = smtp_client_envelope_stage(c);
    if (!is_right_class(stage, c->reply.code)) {
        smtp_client_protocol_error(c, NULL);
        return;
    }
    bool is_last =
        (e->mail_answered ? 0 : 1) + (e->rcpt_sent - e->rcpt_answered) + (e->data_sent ? 1 : 0) ==
        1;
    bool is_early = is_last && has_more; /* a reply too many stands behind this one */
    if (is_early && c->reply.code < 400) {
        smtp_client_protocol_error(c, "more than one reply");
        return;
    }
    if (stage == OUTCOME_STAGE_MAIL) {
        on_mail(c);
    } else if (stage == OUTCOME_STAGE_RCPT) {
        on_rcpt(c);
    } else {
        on_data(c, now);
    }
    if (c->state != SMTP_CLIENT_STATE_ENVELOPE) {
        (void)has_failed(c);
        return;
    }
    if (is_early) {
        /* The verdict stands; the rest has to wait until it was taken. */
        c->is_desynced = true;
        return;
    }
    go_on(c, now);
}

/* --- the body and its end
 * -------------------------------------------------------------------------------- */

void smtp_client_body_progress(struct smtp_client *c, size_t bytes, usec_t now)
{
    if (c->state != SMTP_CLIENT_STATE_BODY || bytes == 0) {
        return;
    }
    c->body_bytes += bytes;
    c->deadline = now + c->config->data_xfer_timeout;
    if (c->config->min_data_rate > 0) {
        usec_t allowed = (usec_t)(c->body_bytes / c->config->min_data_rate) * USEC_PER_SEC;
        usec_t latest = c->body_started + c->config->data_xfer_timeout + allowed;
        c->deadline = latest < c->deadline ? latest : c->deadline;
    }
}

void smtp_client_body_sent(struct smtp_client *c, usec_t now)
{
    assert(c->event_count == 0);
    if (c->state != SMTP_CLIENT_STATE_BODY) {
        return; /* the session was lost while the last bytes were written */
    }
    c->state = SMTP_CLIENT_STATE_DOT;
    c->deadline = now + c->config->data_done_timeout;
    buf_append_str(&c->out, ".\r\n");
    (void)has_failed(c);
}

void smtp_client_body_failed(struct smtp_client *c, bool permanent, struct slice reason, usec_t now)
{
    (void)now;
    assert(c->event_count == 0);
    if (c->state != SMTP_CLIENT_STATE_BODY) {
        return;
    }
    (void)smtp_client_judge(c, permanent ? OUTCOME_HARD : OUTCOME_SOFT,
                            permanent ? OUTCOME_SCOPE_MESSAGE : OUTCOME_SCOPE_SITE,
                            OUTCOME_STAGE_LOCAL, outcome_status_of(permanent ? "5.6.0" : "4.3.0"));
    smtp_client_text_add(c, reason, 0);
    smtp_client_lose(c);
}

/* A reply before the last byte of the message was handed over. A refusal counts, success cannot. */
static void on_early_reply(struct smtp_client *c)
{
    if (c->reply.code < 400) {
        smtp_client_judge_protocol(c, NULL);
        c->verdict.is_ambiguous = c->reply.code < 300;
    } else {
        smtp_client_judge_said(c, OUTCOME_STAGE_BODY);
    }
    smtp_client_lose(c);
}

static void on_end_of_data(struct smtp_client *c, bool has_more, usec_t now)
{
    const struct smtp_reply *r = &c->reply;
    if (c->envelope.is_lone_dot) {
        /* Whatever it says is about a message to nobody. */
        finish(c, !has_more && r->code / 100 != 3 && c->out.len == 0, now);
        return;
    }
    if (r->code / 100 == 3) {
        smtp_client_protocol_error(c, NULL);
        return;
    }
    if (r->code >= 400) {
        decide_rest(c, OUTCOME_STAGE_DOT);
    } else {
        smtp_client_judge(c, OUTCOME_SUCCESS, OUTCOME_SCOPE_MESSAGE, OUTCOME_STAGE_DOT, r->status)
            ->code = r->code;
        smtp_client_text_add(c, smtp_reply_text(r), 0);
        smtp_client_push_verdict(c, SMTP_CLIENT_REST);
        c->envelope.undecided = 0;
    }
    finish(c, !has_more, now);
}

void smtp_client_transaction_reply(struct smtp_client *c, bool has_more, usec_t now)
{
    if (c->state == SMTP_CLIENT_STATE_ENVELOPE) {
        on_envelope(c, has_more, now);
    } else if (c->state == SMTP_CLIENT_STATE_RSET) {
        finish(c, !has_more && c->reply.code < 300, now);
    } else if (c->state == SMTP_CLIENT_STATE_BODY || (c->out.len > 0 && !c->envelope.is_lone_dot)) {
        on_early_reply(c);
    } else {
        on_end_of_data(c, has_more, now);
    }
}
