/* The state machine of an SMTP session: lines, clocks, replies, and the shell's answers.
 * Called by the worker through smtp_server.h; what commands and content mean is in the files
 * beside this one. */
#include "net/smtp_server.h"

#include "net/smtp_server_private.h"

#include <assert.h>
#include <stdio.h>

#define OUT_LIMIT        16384 /* bytes of replies waiting; enough for OUT_HIGH and one more step */
#define OUT_HIGH         8192  /* bytes; from here on the shell must send first */
#define DISCARD_LIMIT    65536 /* bytes of an overlong command before we give up */
#define REPLY_TEXT_MAX   400   /* bytes of the shell's text */
#define ENHANCED_MAX     15    /* bytes of its enhanced status code */
#define RECIPIENT_MEMORY 4096  /* bytes kept between transactions */
/* Content beyond this many times the size limit (plus slack in bytes) is not read to its end. */
#define SIZE_HARD_FACTOR  4
#define SIZE_HARD_SLACK   (1 << 20)
#define LINE_LIMIT_LOWEST 512 /* RFC 5321 4.5.3.1.4 */

void smtp_server_config_defaults(struct smtp_server_config *ret)
{
    *ret = (struct smtp_server_config){
        .hostname = "localhost",
        .software = "",
        .message_size_limit = 50000000,
        .header_size_limit = 1 << 20,
        .header_fields_limit = 1000,
        .command_line_limit = 2048,
        .recipient_limit = 1000,
        .recipient_batch = 1000,
        .error_limit = 20,
        .junk_limit = 100,
        .hop_limit = 50,
        .min_data_rate = 500,
        .command_timeout = 300 * USEC_PER_SEC,
        .transaction_timeout = 3600 * USEC_PER_SEC,
        .offers_chunking = true,
        .offers_smtputf8 = true,
        .auth_needs_tls = true,
        .refuses_early_talk = true,
    };
}

void smtp_server_reply(struct smtp_server *server, int code, const char *text)
{
    const char head[4] = {(char)('0' + code / 100), (char)('0' + code / 10 % 10),
                          (char)('0' + code % 10), ' '};
    buf_append(&server->out, head, sizeof(head));
    buf_append_str(&server->out, text);
    buf_append_str(&server->out, "\r\n");
}

void smtp_server_error(struct smtp_server *server, int code, const char *text)
{
    server->error_count++;
    smtp_server_reply(server, code, text);
}

void smtp_server_bye(struct smtp_server *server, int code, const char *text)
{
    smtp_server_reply(server, code, text);
    smtp_server_reset(server);
    server->state = SMTP_SERVER_CLOSING;
}

static void clear_batch(struct smtp_server *server)
{
    if (server->recipients.capacity > RECIPIENT_MEMORY &&
        server->transaction < SMTP_SERVER_HAS_RCPT) {
        buf_fini(&server->recipients);
    }
    buf_clear(&server->recipients);
    server->batch_count = 0;
    server->is_batch_given = false;
}

void smtp_server_reset(struct smtp_server *server)
{
    server->is_aborted = server->is_aborted || server->is_staged;
    server->is_staged = false;
    server->transaction = SMTP_SERVER_NO_MAIL;
    server->transaction_deadline = USEC_NEVER;
    server->sender.len = 0;
    server->declared_size = 0;
    server->is_8bitmime = false;
    server->is_smtputf8 = false;
    server->requires_tls = false;
    server->has_priority = false;
    server->priority = 0;
    server->recipient_count = 0;
    server->is_heard = false;
    server->overshoot_count = 0;
    server->chunk_left = 0;
    server->is_last_chunk = false;
    server->has_failed = false;
    server->refuses_recipients = false;
    clear_batch(server);
}

bool smtp_server_is_absurd_size(const struct smtp_server *server, uint64_t size)
{
    uint64_t limit = server->config->message_size_limit;

    return limit != 0 && size > SIZE_HARD_SLACK &&
           (size - SIZE_HARD_SLACK) / SIZE_HARD_FACTOR >= limit;
}

void smtp_server_restart_clock(struct smtp_server *server)
{
    server->deadline = server->now + server->config->command_timeout;
}

void smtp_server_init(struct smtp_server *server, const struct smtp_server_config *config,
                      const struct smtp_server_peer *peer, usec_t now)
{
    assert(config->command_line_limit >= LINE_LIMIT_LOWEST && config->recipient_batch > 0);
    *server = (struct smtp_server){.config = config, .is_trusted = peer->is_trusted, .now = now};
    (void)snprintf(server->peer, sizeof(server->peer), "%s", peer->address);
    buf_init(&server->out, OUT_LIMIT);
    buf_init(&server->line, config->command_line_limit);
    buf_init(&server->recipients, SMTP_SERVER_BATCH_BYTES + SMTP_ADDRESS_MAX + 2);
    smtp_server_reset(server);
    smtp_server_restart_clock(server);
    const char *space = config->software[0] != '\0' ? " " : "";
    buf_printf(&server->out, "220 %s ESMTP%s%s\r\n", config->hostname, space, config->software);
}

/* A command line may hold a password. */
static void clear_line(struct smtp_server *server)
{
    if (server->line.data != NULL) {
        explicit_bzero(server->line.data, server->line.capacity);
    }
    buf_fini(&server->line);
}

void smtp_server_fini(struct smtp_server *server)
{
    clear_line(server);
    explicit_bzero(server->credentials, sizeof(server->credentials));
    buf_fini(&server->out);
    buf_fini(&server->recipients);
}

/* Whether the peer is the one to act. */
static bool is_peers_turn(const struct smtp_server *server)
{
    switch (server->state) {
    case SMTP_SERVER_COMMAND:
    case SMTP_SERVER_TLS_WAIT:
    case SMTP_SERVER_AUTH_INPUT:
    case SMTP_SERVER_DATA:
    case SMTP_SERVER_CHUNK:
    case SMTP_SERVER_SKIP:
        return true;
    case SMTP_SERVER_AUTH_WAIT:
    case SMTP_SERVER_MAIL_WAIT:
    case SMTP_SERVER_BODY_END:
    case SMTP_SERVER_MESSAGE_WAIT:
    case SMTP_SERVER_CLOSING:
    case SMTP_SERVER_STATE_COUNT:
        break;
    }
    return false;
}

/* Whether the next step has something to say, whatever the peer does. */
static bool is_event_due(const struct smtp_server *server)
{
    switch (server->state) {
    case SMTP_SERVER_COMMAND:
    case SMTP_SERVER_AUTH_INPUT:
        return server->is_aborted || server->is_stopping;
    case SMTP_SERVER_CLOSING:
        return !server->is_close_told;
    case SMTP_SERVER_TLS_WAIT:
    case SMTP_SERVER_AUTH_WAIT:
    case SMTP_SERVER_MAIL_WAIT:
    case SMTP_SERVER_DATA:
    case SMTP_SERVER_CHUNK:
    case SMTP_SERVER_SKIP:
    case SMTP_SERVER_BODY_END:
    case SMTP_SERVER_MESSAGE_WAIT:
    case SMTP_SERVER_STATE_COUNT:
        break;
    }
    return false;
}

usec_t smtp_server_deadline(const struct smtp_server *server)
{
    if (server->is_paused) {
        return USEC_NEVER;
    }
    if (is_event_due(server)) {
        return server->now;
    }
    if (!is_peers_turn(server)) {
        return USEC_NEVER;
    }
    return server->deadline < server->transaction_deadline ? server->deadline
                                                           : server->transaction_deadline;
}

static void add_time(usec_t *deadline, usec_t more)
{
    if (__builtin_add_overflow(*deadline, more, deadline)) {
        *deadline = USEC_NEVER;
    }
}

void smtp_server_resume(struct smtp_server *server, usec_t now)
{
    server->now = now;
    server->is_paused = false;
    smtp_server_restart_clock(server);
}

/* The time that the shell spent on the last event is not the peer's. */
static void end_pause(struct smtp_server *server)
{
    if (server->is_paused) {
        add_time(&server->deadline, server->now - server->paused_at);
        add_time(&server->transaction_deadline, server->now - server->paused_at);
        server->is_paused = false;
    }
}

static enum smtp_server_event pause_with(struct smtp_server *server, enum smtp_server_event event)
{
    server->is_paused = true;
    server->paused_at = server->now;
    return event;
}

enum line_result { LINE_PARTIAL, LINE_COMPLETE, LINE_TOO_LONG };

static enum line_result discard_line(struct smtp_server *server, size_t len, bool is_end)
{
    server->discarded += len;
    if (server->discarded > DISCARD_LIMIT) {
        smtp_server_bye(server, 421, "4.7.0 Error: line too long");
        return LINE_PARTIAL;
    }
    if (!is_end) {
        return LINE_PARTIAL;
    }
    server->is_discarding = false;
    return LINE_TOO_LONG;
}

/* The next line with its LF. It lies in `in` when it came in one piece, else in server->line;
 * the result must not depend on how the input was cut. */
static enum line_result take_client_line(struct smtp_server *server, struct slice *in,
                                         struct slice *ret)
{
    size_t at = slice_find(*in, '\n');
    bool is_end = at < in->len;
    struct slice part = slice_to(*in, is_end ? at + 1 : at);

    *in = slice_from(*in, part.len);
    if (!server->is_discarding &&
        part.len > server->config->command_line_limit - server->line.len) {
        server->is_discarding = true;
        server->discarded = server->line.len;
        clear_line(server);
    }
    if (server->is_discarding) {
        return discard_line(server, part.len, is_end);
    }
    if (is_end && server->line.len == 0) {
        *ret = part;
        return LINE_COMPLETE;
    }
    buf_append_slice(&server->line, part);
    if (server->line.failed) {
        smtp_server_bye(server, 421, "4.3.1 Error: out of memory");
        return LINE_PARTIAL;
    }
    *ret = buf_slice(&server->line);
    return is_end ? LINE_COMPLETE : LINE_PARTIAL;
}

/* Take the line end off; false when it is not one. */
static bool strip_line_end(const struct smtp_server *server, struct slice *line)
{
    line->len--;
    if (line->len > 0 && line->data[line->len - 1] == '\r') {
        line->len--;
        return true;
    }
    return server->config->fix_bare_lf;
}

static enum smtp_server_event run_line(struct smtp_server *server, struct slice line,
                                       size_t pipelined)
{
    bool is_login = server->state == SMTP_SERVER_AUTH_INPUT;

    if (!strip_line_end(server, &line)) {
        server->state = SMTP_SERVER_COMMAND;
        if (smtp_command_is_bdat(line)) {
            smtp_server_bye(server, 501, "5.5.4 Error: bad BDAT command");
        } else {
            smtp_server_error(server, 500, "5.5.2 Error: line must end with CRLF");
        }
        return SMTP_SERVER_GO_ON;
    }
    return is_login ? smtp_server_auth_line(server, line)
                    : smtp_server_run(server, line, pipelined);
}

/* Reading commands or lines of an AUTH exchange. */
static enum smtp_server_event read_client_line(struct smtp_server *server, struct slice *in)
{
    struct slice line = {0};

    if (server->error_count > server->config->error_limit) {
        smtp_server_bye(server, 421, "4.7.0 Error: too many errors");
        return SMTP_SERVER_GO_ON;
    }
    if (server->is_stopping) {
        smtp_server_bye(server, 421, "4.3.2 Service shutting down");
        return SMTP_SERVER_GO_ON;
    }
    if (in->len == 0) {
        return SMTP_SERVER_INPUT;
    }
    bool is_first = server->line.len == 0 && !server->is_discarding;
    if (server->state == SMTP_SERVER_COMMAND && is_first && smtp_command_is_alien(in->data[0])) {
        smtp_server_bye(server, 421, "4.7.0 Error: this is an SMTP server");
        return SMTP_SERVER_GO_ON;
    }
    enum smtp_server_event event = SMTP_SERVER_GO_ON;
    switch (take_client_line(server, in, &line)) {
    case LINE_PARTIAL:
        return SMTP_SERVER_GO_ON;
    case LINE_TOO_LONG: {
        bool is_login = server->state == SMTP_SERVER_AUTH_INPUT;
        server->state = SMTP_SERVER_COMMAND;
        smtp_server_error(server, 500,
                          is_login ? "5.5.6 Error: line too long" : "5.5.2 Error: line too long");
        break;
    }
    case LINE_COMPLETE:
        event = run_line(server, line, in->len);
        break;
    }
    if (server->line.len > 0) {
        clear_line(server);
    }
    smtp_server_restart_clock(server);
    return event;
}

/* Nothing that arrives before the handshake is done may count as sent inside TLS. */
static enum smtp_server_event drop_input(struct slice *in)
{
    in->len = 0;
    return SMTP_SERVER_WAIT;
}

static enum smtp_server_event step_state(struct smtp_server *server, struct slice *in,
                                         struct buf *body)
{
    switch (server->state) {
    case SMTP_SERVER_COMMAND:
    case SMTP_SERVER_AUTH_INPUT:
        return read_client_line(server, in);
    case SMTP_SERVER_TLS_WAIT:
        return drop_input(in);
    case SMTP_SERVER_AUTH_WAIT:
    case SMTP_SERVER_MAIL_WAIT:
    case SMTP_SERVER_MESSAGE_WAIT:
        return SMTP_SERVER_WAIT;
    case SMTP_SERVER_DATA:
    case SMTP_SERVER_CHUNK:
    case SMTP_SERVER_SKIP:
    case SMTP_SERVER_BODY_END:
        return smtp_server_read_body(server, in, body);
    case SMTP_SERVER_CLOSING:
    case SMTP_SERVER_STATE_COUNT:
        break;
    }
    return SMTP_SERVER_CLOSE;
}

/* Whether the shell is to take recipients now: the batch is full, or content comes next. */
static bool is_batch_due(const struct smtp_server *server)
{
    if (server->batch_count == 0 || server->has_failed) {
        return false;
    }
    return server->state == SMTP_SERVER_DATA || server->state == SMTP_SERVER_CHUNK ||
           server->state == SMTP_SERVER_BODY_END ||
           server->batch_count >= server->config->recipient_batch ||
           server->recipients.len >= SMTP_SERVER_BATCH_BYTES;
}

enum smtp_server_event smtp_server_step(struct smtp_server *server, struct slice *in,
                                        struct buf *body, usec_t now)
{
    server->now = now;
    end_pause(server);
    if (server->is_batch_given) {
        clear_batch(server);
    }
    if (!is_event_due(server) && now >= smtp_server_deadline(server)) {
        smtp_server_bye(server, 421, "4.4.2 Error: timeout exceeded");
    }
    for (;;) {
        if (server->is_aborted) {
            server->is_aborted = false;
            return SMTP_SERVER_ABORTED;
        }
        if (server->state == SMTP_SERVER_CLOSING) {
            server->is_close_told = true;
            return SMTP_SERVER_CLOSE;
        }
        if (server->out.failed) {
            smtp_server_reset(server);
            server->state = SMTP_SERVER_CLOSING;
            continue;
        }
        if (is_batch_due(server)) {
            server->is_batch_given = true;
            return pause_with(server, SMTP_SERVER_RECIPIENTS);
        }
        if (server->out.len >= OUT_HIGH) {
            return SMTP_SERVER_FLUSH;
        }
        enum smtp_server_event event = step_state(server, in, body);
        if (event == SMTP_SERVER_BODY) {
            return pause_with(server, event);
        }
        if (event == SMTP_SERVER_STARTTLS) {
            (void)drop_input(in);
        }
        if (event != SMTP_SERVER_GO_ON) {
            return event;
        }
    }
}

void smtp_server_tls_started(struct smtp_server *server, const char *version, const char *cipher,
                             usec_t now)
{
    assert(!server->is_tls);
    assert(server->state == SMTP_SERVER_TLS_WAIT || server->state == SMTP_SERVER_COMMAND);
    server->now = now;
    server->is_tls = true;
    (void)snprintf(server->tls_version, sizeof(server->tls_version), "%s", version);
    (void)snprintf(server->tls_cipher, sizeof(server->tls_cipher), "%s", cipher);
    smtp_server_reset(server);
    clear_line(server);
    server->is_discarding = false;
    server->helo[0] = '\0';
    server->is_esmtp = false;
    server->state = SMTP_SERVER_COMMAND;
    smtp_server_restart_clock(server);
}

/* Copy text, at most `room` bytes of it, without what no reply may hold. returns: the end of it */
static char *put_printable(char *to, size_t room, const char *text)
{
    for (; room > 0 && *text != '\0'; room--, text++) {
        *to++ = (char)(*text >= 32 && *text <= 126 ? *text : '?');
    }
    return to;
}

/* A reply line from the shell's words, which may hold what a peer or a library said. */
static void print_reply(char *ret, size_t size, const char *enhanced, const char *text)
{
    char *to = put_printable(ret, ENHANCED_MAX, enhanced);
    *to++ = ' ';
    size_t room = size - (size_t)(to - ret) - 1;
    to = put_printable(to, room < REPLY_TEXT_MAX ? room : REPLY_TEXT_MAX, text);
    *to = '\0';
}

static void answer_mail(struct smtp_server *server, int code, const char *reply)
{
    server->state = SMTP_SERVER_COMMAND;
    if (code < 300) {
        server->transaction = SMTP_SERVER_HAS_MAIL;
        server->is_staged = true;
        if (server->config->transaction_timeout != 0) {
            server->transaction_deadline = server->now + server->config->transaction_timeout;
        }
    } else {
        smtp_server_reset(server);
    }
    smtp_server_reply(server, code, reply);
}

static void answer_message(struct smtp_server *server, int code, const char *reply)
{
    server->state = SMTP_SERVER_COMMAND;
    if (code < 300) {
        server->message_count++;
        server->error_count = 0;
        server->junk_count = 0;
    }
    smtp_server_reset(server);
    smtp_server_reply(server, code, reply);
}

void smtp_server_answer(struct smtp_server *server, int code, const char *enhanced,
                        const char *text, usec_t now)
{
    char reply[REPLY_TEXT_MAX + 32];

    assert(code >= 200 && code < 600 && (code < 300 || code >= 400));
    assert(server->state == SMTP_SERVER_MAIL_WAIT || server->state == SMTP_SERVER_MESSAGE_WAIT);
    server->now = now;
    print_reply(reply, sizeof(reply), enhanced, text);
    if (server->state == SMTP_SERVER_MAIL_WAIT) {
        answer_mail(server, code, reply);
    } else {
        answer_message(server, code, reply);
    }
    smtp_server_restart_clock(server);
    if (code == 421) {
        server->state = SMTP_SERVER_CLOSING;
    }
}

void smtp_server_fail(struct smtp_server *server, int code, const char *enhanced, const char *text)
{
    assert(code >= 400 && code < 600);
    if (server->is_staged && !server->has_failed) {
        server->has_failed = true;
        server->fail_code = code;
        print_reply(server->fail_text, sizeof(server->fail_text), enhanced, text);
    }
}

void smtp_server_refuse_recipients(struct smtp_server *server, int code, const char *enhanced,
                                   const char *text)
{
    assert(code >= 400 && code < 600 && server->state == SMTP_SERVER_MAIL_WAIT);
    server->refuses_recipients = true;
    server->fail_code = code;
    print_reply(server->fail_text, sizeof(server->fail_text), enhanced, text);
}

void smtp_server_refuse(struct smtp_server *server, int code, const char *enhanced,
                        const char *text)
{
    char reply[REPLY_TEXT_MAX + 32];

    assert(code >= 400 && code < 600);
    print_reply(reply, sizeof(reply), enhanced, text);
    buf_clear(&server->out);
    smtp_server_bye(server, code, reply);
}

void smtp_server_stop(struct smtp_server *server)
{
    server->is_stopping = true;
}

struct slice smtp_server_recipients(const struct smtp_server *server, uint32_t *ret_count)
{
    *ret_count = server->batch_count;
    return buf_slice(&server->recipients);
}
