/* The transactions in flight on one connection, and the writer: it queues the commands of one
 * transaction behind those of another as far as replies need not be seen before. Without PIPELINING
 * every command waits. With it the dot of one message and MAIL, RCPT, DATA of the next are one
 * group (RFC 2920: DATA is the last command of a group, the content of a message may be its first).
 * With CHUNKING as well nothing waits at all, but for large bodies (RFC 3030). All of this begins
 * when the server's replies are known well enough to be told apart (smtp_client_idiom.c).
 *
 * The bound on unanswered commands: a server that answers while it cannot write blocks, then does
 * not read, and then this side cannot write either (RFC 2920 3.1). A shell that reads while its
 * writes are blocked ends that by itself; so that nothing depends on it, the commands of all
 * transactions in flight without reply are kept below unacked_max together, for a reply is about as
 * long as its command and any server's send buffer holds that much. BDAT, DATA and the dot are not
 * counted: one a transaction, behind a MAIL that is. A body never waits for the server to write
 * more than those replies. Pure. */
#include "net/smtp_client_internal.h"

#include <assert.h>
#include <errno.h>

#define RCPT_OVERHEAD_BYTES 12 /* "RCPT TO:<" and ">\r\n" */
#define RESET_BYTES         6  /* "RSET\r\n" */
#define MAIL_OVERHEAD_BYTES 60 /* about, with its parameters */

/* --- those in flight -------------------------------------------------------------------------- */

struct smtp_client_envelope *smtp_client_at(const struct smtp_client *c, uint32_t index)
{
    assert(index < c->flight_count);
    struct smtp_client_envelope *all = (struct smtp_client_envelope *)(void *)c->flight.data;
    return &all[c->flight_first + index];
}

int smtp_client_queue(struct smtp_client *c, const struct smtp_client_envelope *e)
{
    buf_append(&c->flight, e, sizeof(*e));
    if (c->flight.failed) {
        c->flight.failed = false; /* what it holds is whole */
        return -ENOMEM;
    }
    c->flight_count++;
    return 0;
}

void smtp_client_pop(struct smtp_client *c)
{
    assert(c->flight_count > 0);
    c->flight_first++;
    c->flight_count--;
    c->written -= c->written > 0 ? 1 : 0;
    if (c->flight_first > c->flight_count) { /* moves no more than were removed */
        buf_consume(&c->flight, c->flight_first * sizeof(struct smtp_client_envelope));
        c->flight_first = 0;
    }
}

/* --- what is awaited -------------------------------------------------------------------------- */

enum smtp_client_awaited smtp_client_awaited(const struct smtp_client_envelope *e)
{
    if (!e->is_begun) {
        return SMTP_CLIENT_AWAITS_NOTHING;
    }
    if (e->has_reset && !e->is_reset_answered) {
        return SMTP_CLIENT_AWAITS_RESET;
    }
    if (!e->is_mail_answered) {
        return SMTP_CLIENT_AWAITS_MAIL;
    }
    if (e->rcpt_answered < e->rcpt_sent) {
        return SMTP_CLIENT_AWAITS_RCPT;
    }
    if (e->is_data_sent && !e->is_data_answered) {
        return e->is_chunk ? SMTP_CLIENT_AWAITS_END : SMTP_CLIENT_AWAITS_DATA;
    }
    if (e->has_last_reset) {
        return SMTP_CLIENT_AWAITS_LAST_RESET;
    }
    if (e->is_end_queued) {
        return SMTP_CLIENT_AWAITS_END;
    }
    return e->has_body ? SMTP_CLIENT_AWAITS_BODY : SMTP_CLIENT_AWAITS_NOTHING;
}

/* Some command of the envelope waits for its reply. */
static bool is_outstanding(const struct smtp_client_envelope *e)
{
    enum smtp_client_awaited awaited = smtp_client_awaited(e);
    return awaited != SMTP_CLIENT_AWAITS_NOTHING && awaited != SMTP_CLIENT_AWAITS_BODY;
}

bool smtp_client_is_handed_over(const struct smtp_client *c, const struct smtp_client_envelope *e)
{
    /* A last RSET comes behind an end that was answered, and moves end_pos. */
    return e->is_body_out && (e->has_last_reset || e->end_pos <= c->out_taken);
}

enum outcome_stage smtp_client_envelope_stage(const struct smtp_client *c,
                                              const struct smtp_client_envelope *e)
{
    enum smtp_client_awaited awaited = smtp_client_awaited(e);
    /* Until its last byte is handed over nobody can have taken the message; behind that byte it
     * does not matter which reply is awaited, unless the server said that it goes away. */
    if (smtp_client_is_handed_over(c, e) && awaited != SMTP_CLIENT_AWAITS_LAST_RESET &&
        (awaited == SMTP_CLIENT_AWAITS_END || !c->has_parted)) {
        return OUTCOME_STAGE_DOT;
    }
    static const enum outcome_stage stages[] = {
        [SMTP_CLIENT_AWAITS_NOTHING] = OUTCOME_STAGE_DATA,
        [SMTP_CLIENT_AWAITS_RESET] = OUTCOME_STAGE_RSET,
        [SMTP_CLIENT_AWAITS_MAIL] = OUTCOME_STAGE_MAIL,
        [SMTP_CLIENT_AWAITS_RCPT] = OUTCOME_STAGE_RCPT,
        [SMTP_CLIENT_AWAITS_DATA] = OUTCOME_STAGE_DATA,
        [SMTP_CLIENT_AWAITS_BODY] = OUTCOME_STAGE_BODY,
        [SMTP_CLIENT_AWAITS_END] = OUTCOME_STAGE_BODY,
        [SMTP_CLIENT_AWAITS_LAST_RESET] = OUTCOME_STAGE_RSET,
    };
    return e->is_begun ? stages[awaited] : OUTCOME_STAGE_MAIL;
}

/* Length of the RCPT command to recipient i. */
static uint32_t rcpt_bytes(const struct smtp_client_envelope *e, uint32_t i)
{
    return (uint32_t)e->t.recipients[i].len + RCPT_OVERHEAD_BYTES;
}

/* Length of the command whose reply is awaited; 0 for none. */
static uint32_t awaited_bytes(const struct smtp_client_envelope *e,
                              enum smtp_client_awaited awaited)
{
    switch (awaited) {
    case SMTP_CLIENT_AWAITS_MAIL:
        return e->mail_bytes;
    case SMTP_CLIENT_AWAITS_RCPT:
        return rcpt_bytes(e, e->rcpt_answered);
    case SMTP_CLIENT_AWAITS_DATA:
        return e->data_bytes;
    case SMTP_CLIENT_AWAITS_END:
        return e->is_chunk ? e->data_bytes : 0; /* a reply before the dot is an early one */
    case SMTP_CLIENT_AWAITS_RESET:
    case SMTP_CLIENT_AWAITS_LAST_RESET:
        return RESET_BYTES;
    case SMTP_CLIENT_AWAITS_NOTHING:
    case SMTP_CLIENT_AWAITS_BODY:
        break;
    }
    return 0;
}

bool smtp_client_has_handed_over(const struct smtp_client *c)
{
    for (uint32_t i = 0; i < c->flight_count; i++) {
        if (smtp_client_is_handed_over(c, smtp_client_at(c, i))) {
            return true;
        }
    }
    return false;
}

/* The transaction whose reply is awaited. */
static const struct smtp_client_envelope *asking(const struct smtp_client *c)
{
    const struct smtp_client_envelope *e = smtp_client_at(c, 0);
    return e->is_unconfirmed ? smtp_client_at(c, 1) : e;
}

static bool has_left(const struct smtp_client *c, const struct smtp_client_envelope *e)
{
    enum smtp_client_awaited awaited = smtp_client_awaited(e);
    return awaited != SMTP_CLIENT_AWAITS_NOTHING &&
           e->answered_pos + awaited_bytes(e, awaited) <= c->out_taken;
}

bool smtp_client_is_asked(const struct smtp_client *c)
{
    return has_left(c, asking(c));
}

bool smtp_client_is_next_asked(const struct smtp_client *c)
{
    return c->flight_count > 1 && has_left(c, smtp_client_at(c, 1));
}

void smtp_client_take_reply(struct smtp_client *c, usec_t now)
{
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    enum smtp_client_awaited awaited = smtp_client_awaited(e);
    uint32_t bytes = awaited_bytes(e, awaited);
    if (awaited == (e->has_reset ? SMTP_CLIENT_AWAITS_RESET : SMTP_CLIENT_AWAITS_MAIL)) {
        smtp_pace_reply(&c->pace, now - e->mail_at); /* the first of its group */
    }
    e->answered_pos += bytes;
    c->unanswered--;
    if (awaited == SMTP_CLIENT_AWAITS_MAIL || awaited == SMTP_CLIENT_AWAITS_RCPT ||
        awaited == SMTP_CLIENT_AWAITS_RESET) {
        c->unacked_bytes -= bytes;
    }
}

/* By when the awaited reply must have come. */
static usec_t reply_deadline(const struct smtp_client *c)
{
    const struct smtp_client_config *config = c->config;
    const struct smtp_client_envelope *e = asking(c);
    usec_t from = e->mail_at;
    usec_t timeout = config->data_init_timeout;
    switch (smtp_client_awaited(e)) {
    case SMTP_CLIENT_AWAITS_MAIL:
        timeout = config->mail_timeout;
        break;
    case SMTP_CLIENT_AWAITS_RCPT:
        timeout = config->rcpt_timeout;
        break;
    case SMTP_CLIENT_AWAITS_BODY:
        return USEC_NEVER; /* the body has its own */
    case SMTP_CLIENT_AWAITS_END:
        if (!e->is_body_out && !e->is_lone_dot) {
            return USEC_NEVER;
        }
        from = e->end_at;
        timeout = config->data_done_timeout;
        break;
    case SMTP_CLIENT_AWAITS_RESET:
        timeout = config->rset_timeout;
        break;
    case SMTP_CLIENT_AWAITS_LAST_RESET:
        from = e->end_at;
        timeout = config->rset_timeout;
        break;
    case SMTP_CLIENT_AWAITS_NOTHING:
    case SMTP_CLIENT_AWAITS_DATA:
        break;
    }
    return (from > c->reply_at ? from : c->reply_at) + timeout;
}

usec_t smtp_client_busy_deadline(const struct smtp_client *c)
{
    if (c->is_parting) {
        return c->deadline;
    }
    usec_t reply = reply_deadline(c);
    return c->body_deadline < reply ? c->body_deadline : reply;
}

/* --- depth ------------------------------------------------------------------------------------ */

static bool is_pipelining(const struct smtp_client *c)
{
    return c->config->use_pipelining && c->features.has_pipelining;
}

/* Not where the replies to envelopes vary and are not told from the end's: one too many would be
 * seen by nothing but the 354 to DATA. Nor where MAIL and RCPT get the same code, which is one of
 * addresses: such a server may say it of messages too, and behind BDAT that is never a success. */
static bool is_chunking(const struct smtp_client *c)
{
    return !c->avoids_chunking && (c->is_told || (!c->has_varied && !c->is_all_address)) &&
           is_pipelining(c) && c->config->use_chunking && c->features.has_chunking;
}

uint16_t smtp_client_depth(const struct smtp_client *c)
{
    uint16_t allowed = c->config->pipeline_depth;
    if (!is_pipelining(c) || !c->is_told) {
        allowed = 1;
    } else if (!is_chunking(c) && allowed > 2) {
        allowed = 2;
    }
    return smtp_pace_depth(&c->pace, allowed);
}

uint16_t smtp_client_at_hand(const struct smtp_client *c)
{
    uint16_t depth = smtp_client_depth(c);
    if (depth != 2 || is_chunking(c)) {
        return depth;
    }
    return smtp_pace_is_fast(&c->pace) ? 4 : 3;
}

/* The silence begins with the last reply, or with the message where the connection was idle. */
usec_t smtp_client_stalls_at(const struct smtp_client *c)
{
    usec_t patience = smtp_pace_patience(&c->pace);
    if (patience == USEC_NEVER || c->flight_count == 0) {
        return USEC_NEVER;
    }
    usec_t begun = asking(c)->mail_at;
    return (begun > c->reply_at ? begun : c->reply_at) + patience;
}

void smtp_client_stall(struct smtp_client *c)
{
    smtp_pace_stall(&c->pace);
}

uint32_t smtp_client_in_flight(const struct smtp_client *c)
{
    return c->flight_count;
}

bool smtp_client_can_start(const struct smtp_client *c)
{
    uint32_t mail_max = c->features.mail_max;
    return (c->state == SMTP_CLIENT_STATE_IDLE || c->state == SMTP_CLIENT_STATE_BUSY) &&
           !smtp_client_has_event(c) && !c->is_parting && (!c->no_reuse || c->mails == 0) &&
           !c->is_desynced && (mail_max == 0 || c->mails < mail_max) &&
           c->flight_count < smtp_client_depth(c);
}

/* --- the writer ------------------------------------------------------------------------------- */

static uint64_t position(const struct smtp_client *c)
{
    return c->out_taken + c->out.len;
}

static void queued(struct smtp_client *c, uint32_t bytes)
{
    c->unanswered++;
    c->unacked_bytes += bytes;
}

/* A command of so many bytes may not be queued before some reply. */
static bool must_wait(const struct smtp_client *c, uint32_t bytes)
{
    return c->unanswered > 0 &&
           (!is_pipelining(c) || c->unacked_bytes + bytes > c->config->unacked_max);
}

static void append_mail(struct smtp_client *c, struct smtp_client_envelope *e)
{
    uint64_t before = position(c);
    buf_append_str(&c->out, "MAIL FROM:<");
    buf_append_slice(&c->out, e->t.sender);
    buf_append_str(&c->out, ">");
    if (c->features.has_size) {
        buf_append_str(&c->out, " SIZE=");
        buf_append_decimal(&c->out, e->t.size_bytes);
    }
    if (e->t.has_8bit && c->features.has_8bitmime) {
        buf_append_str(&c->out, " BODY=8BITMIME");
    }
    if (e->t.needs_smtputf8) {
        buf_append_str(&c->out, " SMTPUTF8");
    }
    if (e->t.requires_tls) {
        buf_append_str(&c->out, " REQUIRETLS");
    }
    buf_append_str(&c->out, "\r\n");
    e->mail_pos = position(c);
    e->mail_bytes = (uint32_t)(e->mail_pos - before);
    queued(c, e->mail_bytes);
}

/* The transaction before e was sent by BDAT and has no known good end. When it is refused, or all
 * its recipients are, the server's transaction stays open (RFC 3030 4.2), and a MAIL inside it
 * would be refused for no fault of its own. Also in front of the first one that others may follow:
 * what the server says to RSET has to be known before one stands behind the end of a message. */
static bool needs_reset(const struct smtp_client *c)
{
    const struct smtp_client_envelope *before =
        c->written > 0 ? smtp_client_at(c, c->written - 1) : NULL;
    if (before == NULL) {
        return is_chunking(c) && !smtp_client_knows_reset(c) && smtp_client_depth(c) > 1;
    }
    return before->is_chunk && !before->has_last_reset;
}

/* Whether commands may stand behind an end of a message that is not answered. */
static bool may_follow(const struct smtp_client *c)
{
    const struct smtp_client_envelope *before =
        c->written > 0 ? smtp_client_at(c, c->written - 1) : NULL;
    if (before == NULL || before->has_last_reset) {
        return true;
    }
    return before->is_chunk ? c->is_reset_told : c->is_told;
}

static bool begin_envelope(struct smtp_client *c, struct smtp_client_envelope *e, usec_t now)
{
    if ((c->no_reuse && !e->is_first) || c->is_desynced || !may_follow(c) ||
        must_wait(c, (uint32_t)e->t.sender.len + MAIL_OVERHEAD_BYTES)) {
        return false;
    }
    e->answered_pos = position(c);
    if (needs_reset(c)) {
        e->has_reset = true;
        buf_append_str(&c->out, "RSET\r\n");
        queued(c, RESET_BYTES);
    }
    e->is_begun = true;
    e->mail_at = now;
    append_mail(c, e);
    return true;
}

static void want_body(struct smtp_client *c, struct smtp_client_envelope *e, usec_t now)
{
    e->has_body = true;
    e->is_body_out = e->is_chunk && e->t.size_bytes == 0;
    if (c->body_deadline == USEC_NEVER && !e->is_body_out) {
        c->body_started = now;
        c->body_bytes = 0;
        c->body_deadline = now + c->config->data_xfer_timeout;
    }
    struct smtp_client_event *event = smtp_client_push(c, SMTP_CLIENT_WANT_BODY);
    event->transaction = e->number;
    event->is_chunk = e->is_chunk;
}

static void append_content_command(struct smtp_client *c, struct smtp_client_envelope *e,
                                   usec_t now)
{
    uint64_t before = position(c);
    if (is_chunking(c)) {
        e->is_streamed = is_outstanding(e);
        buf_append_str(&c->out, "BDAT ");
        buf_append_decimal(&c->out, e->t.size_bytes);
        buf_append_str(&c->out, " LAST\r\n");
        e->is_chunk = true;
    } else {
        buf_append_str(&c->out, "DATA\r\n");
    }
    e->end_pos = position(c);
    e->data_bytes = (uint32_t)(e->end_pos - before);
    e->is_data_sent = true;
    queued(c, 0);
    if (e->is_chunk) {
        want_body(c, e, now);
    }
}

/* Queue what e may send now; returns true when the writer is through with it. */
static bool advance_envelope(struct smtp_client *c, struct smtp_client_envelope *e, usec_t now)
{
    if (e->is_end_queued || e->is_data_sent || e->undecided == 0) {
        return e->is_end_queued; /* else the next step is the reader's or the shell's */
    }
    while (e->rcpt_sent < e->t.recipient_count) {
        uint32_t bytes = rcpt_bytes(e, e->rcpt_sent);
        if (must_wait(c, bytes)) {
            return false;
        }
        buf_append_str(&c->out, "RCPT TO:<");
        buf_append_slice(&c->out, e->t.recipients[e->rcpt_sent]);
        buf_append_str(&c->out, ">\r\n");
        e->rcpt_sent++;
        queued(c, bytes);
    }
    bool waits = is_chunking(c) ? e->waits || !c->is_told : !is_pipelining(c);
    if (!waits || !is_outstanding(e)) {
        append_content_command(c, e, now);
    }
    return false;
}

/* Commands could not be queued. */
static void lose_without_memory(struct smtp_client *c)
{
    if (smtp_client_stage(c) == OUTCOME_STAGE_DOT) {
        smtp_client_judge_lost(c, OUTCOME_STAGE_DOT, false);
    } else {
        (void)smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_LOCAL,
                                outcome_status_of("4.3.0"));
        smtp_client_text_add(c, SLICE("out of memory"), 0);
    }
    smtp_client_lose(c);
}

void smtp_client_write(struct smtp_client *c, usec_t now)
{
    while (c->written < c->flight_count && !c->is_ending && !c->is_parting) {
        struct smtp_client_envelope *e = smtp_client_at(c, c->written);
        if ((!e->is_begun && !begin_envelope(c, e, now)) || !advance_envelope(c, e, now)) {
            break;
        }
        c->written++;
    }
    if (c->out.failed && !c->is_ending) {
        lose_without_memory(c);
    }
}

void smtp_client_append_end(struct smtp_client *c, struct smtp_client_envelope *e, const char *text,
                            usec_t now)
{
    buf_append_str(&c->out, text);
    queued(c, 0);
    e->is_end_queued = true;
    e->end_pos = position(c);
    e->end_at = now;
}

void smtp_client_write_data(struct smtp_client *c, usec_t now)
{
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    if (e->accepted > 0) {
        want_body(c, e, now);
        return;
    }
    /* RFC 2920 3.1: the way out of a 354 that nobody can use. */
    e->is_lone_dot = true;
    smtp_client_append_end(c, e, ".\r\n", now);
    smtp_client_write(c, now);
}

void smtp_client_write_last_reset(struct smtp_client *c, usec_t now)
{
    struct smtp_client_envelope *e = smtp_client_at(c, 0);
    e->has_last_reset = true;
    e->answered_pos = position(c);
    smtp_client_append_end(c, e, "RSET\r\n", now);
    smtp_client_write(c, now);
}

void smtp_client_consume(struct smtp_client *c, size_t bytes)
{
    uint64_t before = c->out_taken;
    buf_consume(&c->out, bytes);
    c->out_taken += bytes;
    for (uint32_t i = 0; i < c->flight_count; i++) {
        struct smtp_client_envelope *e = smtp_client_at(c, i);
        if (e->is_begun && e->mail_pos > before && e->mail_pos <= c->out_taken) {
            e->mail_at = c->now;
        }
        if (e->is_end_queued && e->end_pos > before && e->end_pos <= c->out_taken) {
            e->end_at = c->now;
        }
    }
}
