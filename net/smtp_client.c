/* The session: events, input, loss and time. The dialogue itself is in smtp_client_handshake.c,
 * smtp_client_auth.c, smtp_client_pipeline.c (what is written) and smtp_client_transaction.c (what
 * is read). Pure. */
#include "net/smtp_client.h"

#include "net/smtp_client_internal.h"

#include <assert.h>
#include <errno.h>

#define IDLE_BUFFER_BYTES 512 /* larger buffers are given back while a connection is idle */
#define PARTING_TIME      (5 * USEC_PER_SEC) /* for the end of file behind 421, before QUIT */

void smtp_client_config_defaults(struct smtp_client_config *ret)
{
    *ret = (struct smtp_client_config){
        .ehlo_name = SLICE("localhost"),
        .tls = SMTP_CLIENT_TLS_NONE,
        .use_pipelining = true,
        .use_chunking = true,
        .auth_requires_tls = true,
        .pipeline_depth = 16,
        .chunk_wait = 256 * 1024,
        .always_send_ehlo = true,
        .skip_5xx_greeting = true,
        .check_loop = true,
        .skip_quit_response = true,
        .unacked_max = 4096,
        .min_data_rate = 500,
        .helo_timeout = 300 * USEC_PER_SEC,
        .starttls_timeout = 300 * USEC_PER_SEC,
        .mail_timeout = 300 * USEC_PER_SEC,
        .rcpt_timeout = 300 * USEC_PER_SEC,
        .data_init_timeout = 120 * USEC_PER_SEC,
        .data_xfer_timeout = 180 * USEC_PER_SEC,
        .data_done_timeout = 600 * USEC_PER_SEC,
        .rset_timeout = 20 * USEC_PER_SEC,
        .quit_timeout = 300 * USEC_PER_SEC,
    };
}

void smtp_client_init(struct smtp_client *c, const struct smtp_client_config *config,
                      const struct smtp_client_peer *peer, usec_t now)
{
    *c = (struct smtp_client){
        .state = SMTP_CLIENT_STATE_GREETING,
        .config = config,
        .peer = *peer,
        .now = now,
        .deadline = now + config->helo_timeout,
        .body_deadline = USEC_NEVER,
    };
    smtp_pace_init(&c->pace);
    buf_init(&c->out, 0);
    buf_init(&c->flight, 0);
    buf_init(&c->text, OUTCOME_TEXT_MAX);
    smtp_reply_init(&c->reply);
}

void smtp_client_avoid_chunking(struct smtp_client *c)
{
    c->avoids_chunking = true;
}

void smtp_client_fini(struct smtp_client *c)
{
    buf_fini(&c->out);
    buf_fini(&c->text);
    smtp_reply_fini(&c->reply);
    buf_fini(&c->flight);
}

/* --- events ----------------------------------------------------------------------------------- */

struct smtp_client_event *smtp_client_push(struct smtp_client *c, enum smtp_client_event_kind kind)
{
    assert(c->event_count < SMTP_CLIENT_EVENTS_MAX);
    unsigned at = (c->event_first + c->event_count) % SMTP_CLIENT_EVENTS_MAX;
    c->event_count++;
    c->events[at] = (struct smtp_client_event){.kind = kind};
    return &c->events[at];
}

struct smtp_client_event *smtp_client_push_verdict(struct smtp_client *c,
                                                   enum smtp_client_event_kind kind,
                                                   const struct smtp_client_envelope *e)
{
    c->verdict.text = buf_slice(&c->text);
    struct smtp_client_event *event = smtp_client_push(c, kind);
    event->verdict = &c->verdict;
    event->transaction = e != NULL ? e->number : 0;
    return event;
}

bool smtp_client_has_event(const struct smtp_client *c)
{
    return c->event_count > 0 || c->is_ending;
}

static void end_next(struct smtp_client *c);

bool smtp_client_next_event(struct smtp_client *c, struct smtp_client_event *ret)
{
    if (c->event_count == 0 && c->is_ending) {
        end_next(c);
    }
    if (c->event_count == 0) {
        *ret = (struct smtp_client_event){.kind = SMTP_CLIENT_NONE};
        return false;
    }
    *ret = c->events[c->event_first];
    c->event_first = (uint8_t)((c->event_first + 1) % SMTP_CLIENT_EVENTS_MAX);
    c->event_count--;
    return true;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void close_now(struct smtp_client *c, bool flush)
{
    c->state = SMTP_CLIENT_STATE_CLOSED;
    c->deadline = USEC_NEVER;
    if (!flush) {
        buf_clear(&c->out);
    }
    smtp_client_push(c, SMTP_CLIENT_CLOSED)->flush = flush;
}

/* What a lost connection means for a transaction in flight. The verdict about the oldest is given;
 * behind it, all that was wholly sent may have been taken, and nothing else can have been. */
static void end_transaction(struct smtp_client *c, struct smtp_client_envelope *e, bool is_head)
{
    bool is_handed_over = smtp_client_is_handed_over(c, e);
    if (!is_head) {
        smtp_client_judge_lost(c, smtp_client_envelope_stage(c, e), c->is_timed_out);
    }
    if (e->has_body && !e->is_end_queued && !e->is_broken) {
        smtp_client_push(c, SMTP_CLIENT_STOP_BODY)->transaction = e->number;
    }
    bool is_untouched =
        !e->is_mail_answered && (c->has_parted || (!is_handed_over && ((is_head && c->is_used_up) ||
                                                                       !(is_head && e->is_first))));
    if (e->undecided > 0 && is_untouched) {
        smtp_client_push_verdict(c, SMTP_CLIENT_RETURNED, e);
        return;
    }
    /* A refusal that came early ended the dialogue as much as one in its place. */
    bool is_complete = e->is_broken ? !e->is_incomplete
                                    : e->undecided == 0 || c->verdict.scope != OUTCOME_SCOPE_SITE;
    /* Also when all recipients were refused, but nothing was said to the end: one of the refusals
     * may have been that, and a reply before it missing. */
    bool is_unsure = c->is_parting || c->is_out_of_step || e->is_unconfirmed || e->has_said_421 ||
                     smtp_client_awaited(e) != SMTP_CLIENT_AWAITS_LAST_RESET;
    bool is_doubtful = e->undecided == 0 && is_handed_over && !e->is_taken && !e->is_broken &&
                       !c->has_parted && is_unsure;
    if (e->undecided > 0) {
        smtp_client_push_verdict(c, SMTP_CLIENT_REST, e)->is_neutral = c->has_hit;
        c->has_hit = true;
    }
    struct smtp_client_event *done = smtp_client_push(c, SMTP_CLIENT_DONE);
    done->transaction = e->number;
    done->is_complete = is_complete;
    done->is_doubtful = is_doubtful;
}

/* Nothing is in flight any more. */
static void end_client_session(struct smtp_client *c)
{
    c->is_ending = false;
    if (c->is_leaving) {
        smtp_client_leave(c);
    } else {
        close_now(c, false);
    }
}

/* The events of the oldest transaction left: they are made when they are asked for, so that one
 * place holds the text of any number. */
static void end_next(struct smtp_client *c)
{
    end_transaction(c, smtp_client_at(c, 0), c->has_head);
    c->has_head = false;
    smtp_client_pop(c);
    if (c->flight_count == 0) {
        end_client_session(c);
    }
}

static void begin_ending(struct smtp_client *c, bool has_head, bool is_leaving)
{
    c->is_ending = true;
    c->is_leaving = is_leaving;
    c->has_head = has_head;
    if (!is_leaving) {
        buf_clear(&c->out);
    }
    if (c->flight_count == 0) {
        end_client_session(c);
    }
}

void smtp_client_end_rest(struct smtp_client *c, bool is_leaving)
{
    begin_ending(c, false, is_leaving);
}

void smtp_client_lose(struct smtp_client *c)
{
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
    case SMTP_CLIENT_STATE_EHLO:
    case SMTP_CLIENT_STATE_HELO:
    case SMTP_CLIENT_STATE_STARTTLS:
    case SMTP_CLIENT_STATE_TLS:
    case SMTP_CLIENT_STATE_AUTH:
        smtp_client_push_verdict(c, SMTP_CLIENT_FAILED, NULL);
        close_now(c, false);
        break;
    case SMTP_CLIENT_STATE_BUSY:
        begin_ending(c, true, false);
        break;
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_QUIT:
        close_now(c, false);
        break;
    case SMTP_CLIENT_STATE_CLOSED:
        break;
    }
}

void smtp_client_protocol_error(struct smtp_client *c, const char *problem)
{
    smtp_client_judge_protocol(c, problem);
    smtp_client_lose(c);
}

void smtp_client_part(struct smtp_client *c, usec_t now)
{
    c->is_parting = true;
    /* QUIT at once could turn the end of file into a reset. */
    c->deadline = now + (c->unanswered == 0 ? PARTING_TIME : c->config->rset_timeout);
    c->body_deadline = USEC_NEVER;
}

void smtp_client_leave(struct smtp_client *c)
{
    buf_append_str(&c->out, "QUIT\r\n");
    if (c->config->skip_quit_response || c->out.failed) {
        close_now(c, !c->out.failed);
        return;
    }
    c->state = SMTP_CLIENT_STATE_QUIT;
    c->deadline = c->now + c->config->quit_timeout;
}

static void trim(struct buf *b)
{
    if (b->len == 0 && b->capacity > IDLE_BUFFER_BYTES) {
        buf_fini(b);
    }
}

void smtp_client_idle(struct smtp_client *c)
{
    c->state = SMTP_CLIENT_STATE_IDLE;
    c->deadline = USEC_NEVER;
    c->idle_at = c->now;
    trim(&c->out);
    buf_fini(&c->flight);
    smtp_client_push(c, SMTP_CLIENT_READY);
}

void smtp_client_quit(struct smtp_client *c, usec_t now)
{
    assert(c->state == SMTP_CLIENT_STATE_IDLE && !smtp_client_has_event(c));
    c->now = now;
    smtp_client_leave(c);
}

/* --- what happens to the connection ----------------------------------------------------------- */

static void lose_connection(struct smtp_client *c, bool by_timeout, usec_t now)
{
    c->now = now;
    c->is_timed_out = by_timeout;
    /* Why the server left is the better reason for one that it left at MAIL or before. */
    bool is_said = c->is_parting && c->has_parted && !smtp_client_at(c, 0)->is_mail_answered;
    if (!is_said) {
        smtp_client_judge_lost(c, smtp_client_stage(c), by_timeout);
    }
    smtp_client_lose(c);
}

void smtp_client_eof(struct smtp_client *c, usec_t now)
{
    assert(!smtp_client_has_event(c));
    c->has_parted = c->was_last_421 && !smtp_reply_is_partial(&c->reply);
    lose_connection(c, false, now);
}

void smtp_client_io_error(struct smtp_client *c, int error, usec_t now)
{
    assert(!smtp_client_has_event(c));
    lose_connection(c, error == ETIMEDOUT, now);
}

void smtp_client_timeout(struct smtp_client *c, usec_t now)
{
    assert(!smtp_client_has_event(c));
    if (now < smtp_client_deadline(c)) {
        return;
    }
    if (c->is_parting && !c->has_quit && c->unanswered == 0) {
        /* Perhaps it waits for QUIT. */
        c->has_quit = true;
        c->deadline = now + c->config->rset_timeout;
        buf_append_str(&c->out, "QUIT\r\n");
    } else {
        lose_connection(c, true, now);
    }
}

usec_t smtp_client_deadline(const struct smtp_client *c)
{
    if (c->is_ending) {
        return USEC_NEVER;
    }
    return c->state == SMTP_CLIENT_STATE_BUSY ? smtp_client_busy_deadline(c) : c->deadline;
}

/* --- input ------------------------------------------------------------------------------------ */

/* True while some reply is owed. An answer to a command that is not written yet answers nothing:
 * most likely the server gave up an idle connection. */
static bool is_reply_due(const struct smtp_client *c)
{
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
        return true;
    case SMTP_CLIENT_STATE_BUSY:
        return c->is_parting || smtp_client_is_asked(c);
    case SMTP_CLIENT_STATE_EHLO:
    case SMTP_CLIENT_STATE_HELO:
    case SMTP_CLIENT_STATE_STARTTLS:
    case SMTP_CLIENT_STATE_AUTH:
    case SMTP_CLIENT_STATE_QUIT:
        return c->out.len == 0;
    case SMTP_CLIENT_STATE_TLS:
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_CLOSED:
        break;
    }
    return false;
}

static void on_reply(struct smtp_client *c, struct slice rest, usec_t now)
{
    const struct smtp_reply *r = &c->reply;
    /* Lines without CR come from a server that may see line ends where there are none (R7 leaves
     * it usable once); 421 says that it is about to close (R3). */
    c->no_reuse = c->no_reuse || r->code == 421 || r->has_bare_lf;
    if (r->is_mixed && c->state != SMTP_CLIENT_STATE_QUIT) {
        smtp_client_protocol_error(c, "a reply whose lines disagree");
        return;
    }
    c->was_last_421 = r->code == 421;
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
    case SMTP_CLIENT_STATE_EHLO:
    case SMTP_CLIENT_STATE_HELO:
    case SMTP_CLIENT_STATE_STARTTLS:
    case SMTP_CLIENT_STATE_AUTH:
        smtp_client_handshake_reply(c, rest.len > 0, now);
        break;
    case SMTP_CLIENT_STATE_BUSY:
        smtp_client_transaction_reply(c, rest, now);
        break;
    case SMTP_CLIENT_STATE_QUIT:
        close_now(c, false);
        break;
    case SMTP_CLIENT_STATE_TLS:
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_CLOSED:
        break;
    }
}

void smtp_client_input(struct smtp_client *c, struct slice *in, usec_t now)
{
    assert(!smtp_client_has_event(c));
    c->now = now;
    while (in->len > 0 && !smtp_client_has_event(c)) {
        if (c->state == SMTP_CLIENT_STATE_CLOSED) {
            *in = slice_from(*in, in->len);
            return;
        }
        if (c->is_desynced || !is_reply_due(c)) {
            *in = slice_from(*in, in->len);
            smtp_client_protocol_error(c, "a reply that nothing asked for");
            return;
        }
        switch (smtp_reply_feed(&c->reply, in)) {
        case SMTP_REPLY_MORE:
            c->is_reply_premature =
                c->is_reply_premature || (c->state == SMTP_CLIENT_STATE_BUSY && !c->is_parting &&
                                          smtp_client_is_premature(c));
            return;
        case SMTP_REPLY_LINE:
            if (c->state == SMTP_CLIENT_STATE_EHLO) {
                smtp_client_handshake_line(c);
            }
            break;
        case SMTP_REPLY_BAD:
            smtp_client_protocol_error(c, c->reply.problem);
            break;
        case SMTP_REPLY_DONE:
            if (c->state == SMTP_CLIENT_STATE_EHLO) {
                smtp_client_handshake_line(c);
            }
            on_reply(c, *in, now);
            c->reply_at = now;
            c->is_reply_premature = false;
            smtp_reply_next(&c->reply);
            break;
        }
    }
}
