/* The session: events, verdicts, input, loss and time. The dialogue itself is in
 * smtp_client_handshake.c and smtp_client_transaction.c. Pure. */
#include "net/smtp_client.h"

#include "net/smtp_client_internal.h"

#include <assert.h>
#include <errno.h>

#define IDLE_BUFFER_BYTES 512 /* larger buffers are given back while a connection is idle */
#define HOST_TEXT_BYTES   300 /* of the peer's name in a text */

void smtp_client_config_defaults(struct smtp_client_config *ret)
{
    *ret = (struct smtp_client_config){
        .ehlo_name = SLICE("localhost"),
        .tls = SMTP_CLIENT_TLS_NONE,
        .use_pipelining = true,
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
        .deadline = now + config->helo_timeout,
    };
    buf_init(&c->out, 0);
    buf_init(&c->text, OUTCOME_TEXT_MAX);
    smtp_reply_init(&c->reply);
}

void smtp_client_fini(struct smtp_client *c)
{
    buf_fini(&c->out);
    buf_fini(&c->text);
    smtp_reply_fini(&c->reply);
}

/* --- events ---------------------------------------------------------------------------------- */

struct smtp_client_event *smtp_client_push(struct smtp_client *c, enum smtp_client_event_kind kind)
{
    assert(c->event_count < SMTP_CLIENT_EVENTS_MAX);
    unsigned at = (c->event_first + c->event_count) % SMTP_CLIENT_EVENTS_MAX;
    c->event_count++;
    c->events[at] = (struct smtp_client_event){.kind = kind};
    return &c->events[at];
}

struct smtp_client_event *smtp_client_push_verdict(struct smtp_client *c,
                                                   enum smtp_client_event_kind kind)
{
    c->verdict.text = buf_slice(&c->text);
    struct smtp_client_event *event = smtp_client_push(c, kind);
    event->verdict = &c->verdict;
    return event;
}

bool smtp_client_next_event(struct smtp_client *c, struct smtp_client_event *ret)
{
    if (c->event_count == 0) {
        *ret = (struct smtp_client_event){.kind = SMTP_CLIENT_NONE};
        return false;
    }
    *ret = c->events[c->event_first];
    c->event_first = (uint8_t)((c->event_first + 1) % SMTP_CLIENT_EVENTS_MAX);
    c->event_count--;
    return true;
}

/* --- verdicts -------------------------------------------------------------------------------- */

void smtp_client_text_add(struct smtp_client *c, struct slice part, size_t keep_free)
{
    smtp_reply_sanitise(&c->text, part, OUTCOME_TEXT_MAX - keep_free);
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
    smtp_client_text_add(c, smtp_reply_text(&c->reply), 60);
    smtp_client_text_add(c, SLICE(" (in reply to "), 0);
    smtp_client_text_add(c, slice_of(command), 0);
    smtp_client_text_add(c, SLICE(" command)"), 0);
}

/* The stage of whatever is awaited now. */
static enum outcome_stage current_stage(const struct smtp_client *c)
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
    case SMTP_CLIENT_STATE_ENVELOPE:
        return smtp_client_envelope_stage(c);
    case SMTP_CLIENT_STATE_BODY:
        return OUTCOME_STAGE_BODY;
    case SMTP_CLIENT_STATE_DOT:
        /* Until its last byte is handed over nobody can have taken the message. */
        return c->out.len > 0 ? OUTCOME_STAGE_BODY : OUTCOME_STAGE_DOT;
    case SMTP_CLIENT_STATE_RSET:
        return OUTCOME_STAGE_RSET;
    case SMTP_CLIENT_STATE_QUIT:
        return OUTCOME_STAGE_QUIT;
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_CLOSED:
        break;
    }
    return OUTCOME_STAGE_IDLE;
}

void smtp_client_judge_lost(struct smtp_client *c, bool by_timeout)
{
    enum outcome_stage stage = current_stage(c);
    struct outcome_verdict *v =
        smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, stage, outcome_status_of("4.4.2"));
    v->is_ambiguous = stage == OUTCOME_STAGE_DOT;
    smtp_client_text(c, by_timeout ? "conversation with " : "lost connection with ",
                     by_timeout ? " timed out while " : " while ");
    smtp_client_text_add(c, slice_of(outcome_stage_text(stage)), 0);
}

void smtp_client_judge_protocol(struct smtp_client *c, const char *problem)
{
    enum outcome_stage stage = current_stage(c);
    struct outcome_verdict *v =
        smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, stage, outcome_status_of("4.5.0"));
    v->is_protocol_error = true;
    v->is_ambiguous = stage == OUTCOME_STAGE_DOT;
    const char *while_text = outcome_stage_text(stage);
    smtp_client_text(c, "Protocol error: host ", problem == NULL ? " said: " : " sent ");
    if (problem == NULL) {
        v->code = c->reply.code;
        smtp_client_text_add(c, smtp_reply_text(&c->reply), 80);
    } else {
        smtp_client_text_add(c, slice_of(problem), 80);
    }
    smtp_client_text_add(c, SLICE(" while "), 0);
    smtp_client_text_add(c, slice_of(while_text), 0);
}

/* --- the end --------------------------------------------------------------------------------- */

static void close_now(struct smtp_client *c, bool flush)
{
    c->state = SMTP_CLIENT_STATE_CLOSED;
    c->deadline = USEC_NEVER;
    if (!flush) {
        buf_clear(&c->out);
    }
    smtp_client_push(c, SMTP_CLIENT_CLOSED)->flush = flush;
}

/* The transaction under way ends with its connection. */
static void lose_transaction(struct smtp_client *c)
{
    struct smtp_client_envelope *e = &c->envelope;
    if (e->undecided > 0 && c->state == SMTP_CLIENT_STATE_ENVELOPE && c->transactions > 1 &&
        !e->mail_accepted) {
        smtp_client_push_verdict(c, SMTP_CLIENT_FAILED)->retry_fresh = true;
        return;
    }
    if (c->state == SMTP_CLIENT_STATE_BODY) {
        smtp_client_push(c, SMTP_CLIENT_STOP_BODY);
    }
    /* A refusal that came early ended the dialogue as much as one in its place. */
    bool is_complete = e->undecided == 0 || c->verdict.scope != OUTCOME_SCOPE_SITE;
    if (e->undecided > 0) {
        smtp_client_push_verdict(c, SMTP_CLIENT_REST);
        e->undecided = 0;
    }
    smtp_client_push(c, SMTP_CLIENT_DONE)->is_complete = is_complete;
}

void smtp_client_lose(struct smtp_client *c)
{
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
    case SMTP_CLIENT_STATE_EHLO:
    case SMTP_CLIENT_STATE_HELO:
    case SMTP_CLIENT_STATE_STARTTLS:
    case SMTP_CLIENT_STATE_TLS:
        smtp_client_push_verdict(c, SMTP_CLIENT_FAILED);
        break;
    case SMTP_CLIENT_STATE_ENVELOPE:
    case SMTP_CLIENT_STATE_BODY:
    case SMTP_CLIENT_STATE_DOT:
    case SMTP_CLIENT_STATE_RSET:
        lose_transaction(c);
        break;
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_QUIT:
        break;
    case SMTP_CLIENT_STATE_CLOSED:
        return;
    }
    close_now(c, false);
}

void smtp_client_protocol_error(struct smtp_client *c, const char *problem)
{
    smtp_client_judge_protocol(c, problem);
    smtp_client_lose(c);
}

void smtp_client_leave(struct smtp_client *c, usec_t now)
{
    buf_append_str(&c->out, "QUIT\r\n");
    if (c->config->skip_quit_response || c->out.failed) {
        close_now(c, !c->out.failed);
        return;
    }
    c->state = SMTP_CLIENT_STATE_QUIT;
    c->deadline = now + c->config->quit_timeout;
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
    trim(&c->out);
    smtp_client_push(c, SMTP_CLIENT_READY);
}

void smtp_client_quit(struct smtp_client *c, usec_t now)
{
    assert(c->state == SMTP_CLIENT_STATE_IDLE && c->event_count == 0);
    smtp_client_leave(c, now);
}

/* --- what happens to the connection ------------------------------------------------------------
 */

void smtp_client_eof(struct smtp_client *c, usec_t now)
{
    (void)now; /* for the same shape as its siblings; a closed session has no deadline */
    assert(c->event_count == 0);
    smtp_client_judge_lost(c, false);
    smtp_client_lose(c);
}

void smtp_client_io_error(struct smtp_client *c, int error, usec_t now)
{
    (void)now;
    assert(c->event_count == 0);
    smtp_client_judge_lost(c, error == ETIMEDOUT);
    smtp_client_lose(c);
}

void smtp_client_timeout(struct smtp_client *c, usec_t now)
{
    assert(c->event_count == 0);
    if (now < c->deadline) {
        return;
    }
    smtp_client_judge_lost(c, true);
    smtp_client_lose(c);
}

usec_t smtp_client_deadline(const struct smtp_client *c)
{
    return c->deadline;
}

/* --- input -------------------------------------------------------------------------------------
 */

/* True while some reply is owed; in BODY an early one is possible. An answer to a command that is
 * not written yet answers nothing: most likely the server gave up an idle connection. */
static bool is_reply_due(const struct smtp_client *c)
{
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
    case SMTP_CLIENT_STATE_BODY:
    case SMTP_CLIENT_STATE_DOT:
        return true;
    case SMTP_CLIENT_STATE_ENVELOPE:
        return smtp_client_envelope_is_written(c);
    case SMTP_CLIENT_STATE_EHLO:
    case SMTP_CLIENT_STATE_HELO:
    case SMTP_CLIENT_STATE_STARTTLS:
    case SMTP_CLIENT_STATE_RSET:
    case SMTP_CLIENT_STATE_QUIT:
        return c->out.len == 0;
    case SMTP_CLIENT_STATE_TLS:
    case SMTP_CLIENT_STATE_IDLE:
    case SMTP_CLIENT_STATE_CLOSED:
        break;
    }
    return false;
}

static void on_reply(struct smtp_client *c, bool has_more, usec_t now)
{
    const struct smtp_reply *r = &c->reply;
    /* Lines without CR come from a server that may see line ends where there are none (R7 leaves
     * it usable once); 421 says that it is about to close (R3). */
    c->no_reuse = c->no_reuse || r->code == 421 || r->has_bare_lf;
    if (r->is_mixed && c->state != SMTP_CLIENT_STATE_QUIT) {
        smtp_client_protocol_error(c, "a reply whose lines disagree");
        return;
    }
    switch (c->state) {
    case SMTP_CLIENT_STATE_GREETING:
    case SMTP_CLIENT_STATE_EHLO:
    case SMTP_CLIENT_STATE_HELO:
    case SMTP_CLIENT_STATE_STARTTLS:
        smtp_client_handshake_reply(c, has_more, now);
        break;
    case SMTP_CLIENT_STATE_ENVELOPE:
    case SMTP_CLIENT_STATE_BODY:
    case SMTP_CLIENT_STATE_DOT:
    case SMTP_CLIENT_STATE_RSET:
        smtp_client_transaction_reply(c, has_more, now);
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
    assert(c->event_count == 0);
    while (in->len > 0 && c->event_count == 0) {
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
            on_reply(c, in->len > 0, now);
            smtp_reply_next(&c->reply);
            break;
        }
    }
}
