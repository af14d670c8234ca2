/* The commands of a session: what each needs, what it changes, what it answers.
 * Called by the state machine with whole lines; AUTH is in smtp_server_auth.c, content in
 * smtp_server_body.c. A command that fails leaves the transaction as it was. */
#include "base/error.h"
#include "base/packed.h"
#include "net/smtp_server_private.h"

static bool is_header_safe(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(".-_:[]", c) != NULL);
}

/* HELO or EHLO: remember the name, forget the transaction. */
static bool hello(struct smtp_server *server, const struct smtp_command *command)
{
    if (command->args.len == 0 || command->args.len > SMTP_SERVER_HELO_MAX) {
        smtp_server_error(server, 501, "5.5.4 Syntax: EHLO hostname");
        return false;
    }
    smtp_server_reset(server);
    for (size_t i = 0; i < command->args.len; i++) {
        char c = command->args.data[i];
        server->helo[i] = c;
        if (!is_header_safe(c)) {
            server->helo[i] = '?';
        }
    }
    server->helo[command->args.len] = '\0';
    server->is_esmtp = command->verb == SMTP_VERB_EHLO;
    return true;
}

static enum smtp_server_event run_helo(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    if (hello(server, command)) {
        smtp_server_reply(server, 250, server->config->hostname);
    }
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_ehlo(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    const struct smtp_server_config *config = server->config;
    struct buf *out = &server->out;

    if (!hello(server, command)) {
        return SMTP_SERVER_GO_ON;
    }
    buf_printf(out, "250-%s\r\n250-PIPELINING\r\n", config->hostname);
    if (config->message_size_limit != 0) {
        buf_printf(out, "250-SIZE %llu\r\n", (unsigned long long)config->message_size_limit);
    } else {
        buf_append_str(out, "250-SIZE\r\n");
    }
    if (config->offers_starttls && !server->is_tls) {
        buf_append_str(out, "250-STARTTLS\r\n");
    }
    if (config->offers_auth && !server->is_authenticated &&
        (server->is_tls || !config->auth_needs_tls)) {
        buf_append_str(out, "250-AUTH PLAIN LOGIN\r\n");
    }
    if (config->offers_smtputf8) {
        buf_append_str(out, "250-SMTPUTF8\r\n");
    }
    if (config->offers_mt_priority) {
        buf_append_str(out, "250-MT-PRIORITY\r\n");
    }
    if (server->is_tls) {
        buf_append_str(out, "250-REQUIRETLS\r\n"); /* RFC 8689 section 2: over TLS only */
    }
    if (config->offers_chunking) {
        buf_append_str(out, "250-CHUNKING\r\n");
    }
    buf_append_str(out, "250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_starttls(struct smtp_server *server,
                                           const struct smtp_command *command)
{
    (void)command;
    if (!server->config->offers_starttls) {
        smtp_server_error(server, 502, "5.5.1 Error: STARTTLS is not available");
    } else if (server->is_tls || server->is_authenticated) {
        smtp_server_error(server, 503, "5.5.1 Error: STARTTLS is not possible now");
    } else {
        smtp_server_reply(server, 220, "2.0.0 Ready to start TLS");
        server->state = SMTP_SERVER_TLS_WAIT;
        return SMTP_SERVER_STARTTLS;
    }
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_auth(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    return smtp_server_run_auth(server, command->args);
}

/* The reply to a MAIL or RCPT that does not parse. */
static void refuse_arguments(struct smtp_server *server, enum smtp_command_fault fault,
                             bool is_mail)
{
    switch (fault) {
    case SMTP_COMMAND_BAD_SYNTAX:
        smtp_server_error(server, 501,
                          is_mail ? "5.5.4 Syntax: MAIL FROM:<address>"
                                  : "5.5.4 Syntax: RCPT TO:<address>");
        break;
    case SMTP_COMMAND_BAD_ADDRESS:
        smtp_server_error(server, 501,
                          is_mail ? "5.1.7 Bad sender address syntax"
                                  : "5.1.3 Bad recipient address syntax");
        break;
    case SMTP_COMMAND_BAD_PARAMETER:
        smtp_server_error(server, 501, "5.5.4 Error: bad parameter value");
        break;
    case SMTP_COMMAND_UNKNOWN_PARAMETER:
        smtp_server_error(server, 555, "5.5.4 Unsupported parameter");
        break;
    case SMTP_COMMAND_NEEDS_UTF8:
        smtp_server_error(server, 553, "5.6.7 Address needs SMTPUTF8");
        break;
    case SMTP_COMMAND_OK:
    case SMTP_COMMAND_FAULT_COUNT:
        break;
    }
}

static enum smtp_server_event run_mail(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    const struct smtp_server_config *config = server->config;
    struct smtp_command_offers offers = {config->offers_smtputf8, config->offers_auth,
                                         config->offers_mt_priority, server->is_tls};
    struct smtp_mail mail;

    enum smtp_command_fault fault = smtp_command_mail(command->args, offers, &mail);
    if (fault != SMTP_COMMAND_OK) {
        refuse_arguments(server, fault, true);
        return SMTP_SERVER_GO_ON;
    }
    if (config->message_size_limit != 0 && mail.size > config->message_size_limit) {
        smtp_server_error(server, 552, "5.3.4 Message size exceeds fixed limit");
        return SMTP_SERVER_GO_ON;
    }
    smtp_address_copy(&server->sender, &mail.sender);
    server->declared_size = mail.size;
    server->is_8bitmime = mail.is_8bitmime;
    server->is_smtputf8 = mail.is_smtputf8;
    server->requires_tls = mail.requires_tls;
    server->has_priority = mail.has_priority && (server->is_trusted || server->is_authenticated);
    server->priority = server->has_priority ? mail.priority : 0;
    server->state = SMTP_SERVER_MAIL_WAIT;
    return SMTP_SERVER_ENVELOPE;
}

/* Beyond the recipient limit: a polite client sends the rest in another transaction. */
static void refuse_overshoot(struct smtp_server *server)
{
    server->overshoot_count++;
    if (server->overshoot_count > server->config->recipient_limit) {
        smtp_server_bye(server, 421, "4.5.3 Error: too many recipients");
    } else {
        smtp_server_reply(server, 452, "4.5.3 Error: too many recipients");
    }
}

static void add_recipient(struct smtp_server *server, struct slice address)
{
    struct buf *batch = &server->recipients;

    packed_append(batch, address);
    if (batch->failed) {
        /* The batch takes no further recipient: only the whole transaction can go. */
        smtp_server_fail(server, 452, "4.3.1", "Error: out of memory");
        smtp_server_reply(server, 452, "4.3.1 Error: out of memory");
        return;
    }
    server->batch_count++;
    server->recipient_count++;
    server->transaction = SMTP_SERVER_HAS_RCPT;
    smtp_server_reply(server, 250, "2.1.5 Ok");
}

static void admit_recipient(struct smtp_server *server, struct slice address)
{
    char text[SMTP_SERVER_REFUSAL_MAX];
    if (server->refuses_recipient != NULL &&
        server->refuses_recipient(server->refuses_ctx, address, text)) {
        smtp_server_reply(server, 550, text);
    } else {
        add_recipient(server, address);
    }
}

/* returns  false: it is nobody's who is heard; the others have their reply */
static bool hear_recipient(struct smtp_server *server, const struct smtp_address *address)
{
    enum smtp_server_hearing hearing =
        server->hears_recipient == NULL
            ? SMTP_SERVER_NOT_HEARD
            : server->hears_recipient(server->hears_ctx, smtp_address_slice(address));
    if (hearing == SMTP_SERVER_NOT_HEARD && !server->is_heard) {
        return false;
    }
    if (hearing == SMTP_SERVER_HEARD_UNKNOWN) {
        smtp_server_error(server, 550, "5.1.1 Error: no such address here");
    } else if (server->recipient_count > 0) {
        /* A polite client sends the others in further transactions. */
        smtp_server_reply(server, 452, "4.5.3 Error: too many recipients");
    } else {
        server->is_heard = true;
        add_recipient(server, smtp_address_slice(address));
    }
    return true;
}

static enum smtp_server_event run_rcpt(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    uint32_t limit = server->config->recipient_limit;
    struct smtp_address address;

    if (server->transaction == SMTP_SERVER_NO_MAIL) {
        smtp_server_error(server, 503, "5.5.1 Error: need MAIL command");
        return SMTP_SERVER_GO_ON;
    }
    if (server->transaction == SMTP_SERVER_HAS_BDAT) {
        smtp_server_error(server, 503, "5.5.1 Error: content has begun");
        return SMTP_SERVER_GO_ON;
    }
    enum smtp_command_fault fault = smtp_command_rcpt(command->args, server->is_smtputf8, &address);
    if (fault != SMTP_COMMAND_OK) {
        refuse_arguments(server, fault, false);
    } else if (hear_recipient(server, &address)) {
        return SMTP_SERVER_GO_ON;
    } else if (!server->is_trusted && !server->is_authenticated) {
        smtp_server_error(server, 554, "5.7.1 Relay access denied");
    } else if (server->config->has_route != NULL &&
               !server->config->has_route(server->config->routes, address.domain)) {
        smtp_server_error(server, 550, "5.1.2 Error: no route to domain");
    } else if (limit != 0 && server->recipient_count >= limit) {
        refuse_overshoot(server);
    } else if (server->refuses_recipients) {
        smtp_server_reply(server, server->fail_code, server->fail_text);
    } else {
        admit_recipient(server, smtp_address_slice(&address));
    }
    return SMTP_SERVER_GO_ON;
}

/* Why content cannot begin now; false when it can. */
static bool refuses_content(const struct smtp_server *server, int *ret_code, const char **ret_text)
{
    switch (server->transaction) {
    case SMTP_SERVER_NO_MAIL:
        *ret_code = 503;
        *ret_text = "5.5.1 Error: need RCPT command";
        return true;
    case SMTP_SERVER_HAS_MAIL:
        *ret_code = 554;
        *ret_text = "5.5.1 Error: no valid recipients";
        return true;
    case SMTP_SERVER_HAS_RCPT:
    case SMTP_SERVER_HAS_BDAT:
        break;
    }
    return false;
}

static enum smtp_server_event run_data(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    int code = 0;
    const char *text = NULL;

    (void)command;
    if (refuses_content(server, &code, &text)) {
        smtp_server_error(server, code, text);
    } else if (server->transaction == SMTP_SERVER_HAS_BDAT) {
        smtp_server_error(server, 503, "5.5.1 Error: DATA after BDAT");
    } else if (server->has_failed) {
        smtp_server_reply(server, server->fail_code, server->fail_text);
        smtp_server_reset(server);
    } else {
        smtp_server_begin_body(server, true);
        server->state = SMTP_SERVER_DATA;
        smtp_server_reply(server, 354, "End data with <CR><LF>.<CR><LF>");
    }
    return SMTP_SERVER_GO_ON;
}

/* Beyond junk_limit each counts as an error. */
static void count_junk(struct smtp_server *server)
{
    if (server->junk_count < server->config->junk_limit) {
        server->junk_count++;
    } else {
        server->error_count++;
    }
}

/* The content of a BDAT follows whatever we think of the command, so it must be read; where its
 * length is unknown or absurd only closing keeps content from being taken for commands. */
static enum smtp_server_event run_bdat(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    uint64_t size = 0;
    bool is_last = false;

    if (!smtp_command_bdat(command->args, &size, &is_last)) {
        smtp_server_bye(server, 501, "5.5.4 Syntax: BDAT size [LAST]");
        return SMTP_SERVER_GO_ON;
    }
    if (size == UINT64_MAX || smtp_server_is_absurd_size(server, size)) {
        smtp_server_bye(server, 552, "5.3.4 Message size exceeds fixed limit");
        return SMTP_SERVER_GO_ON;
    }
    server->chunk_left = size;
    if (!server->config->offers_chunking) {
        server->skip_code = 502;
        server->skip_text = "5.5.1 Error: BDAT is not available";
        server->state = SMTP_SERVER_SKIP;
        return SMTP_SERVER_GO_ON;
    }
    if (refuses_content(server, &server->skip_code, &server->skip_text)) {
        server->state = SMTP_SERVER_SKIP;
        return SMTP_SERVER_GO_ON;
    }
    if (server->transaction != SMTP_SERVER_HAS_BDAT) {
        smtp_server_begin_body(server, false);
        server->transaction = SMTP_SERVER_HAS_BDAT;
    }
    if (size == 0 && !is_last) {
        count_junk(server); /* the way to go on for ever without sending anything */
    }
    server->is_last_chunk = is_last;
    server->state = SMTP_SERVER_CHUNK;
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_rset(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    (void)command;
    smtp_server_reset(server);
    smtp_server_reply(server, 250, "2.0.0 Ok");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_noop(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    (void)command;
    smtp_server_reply(server, 250, "2.0.0 Ok");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_vrfy(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    if (command->args.len == 0) {
        smtp_server_error(server, 501, "5.5.4 Syntax: VRFY address");
    } else {
        smtp_server_reply(server, 252, "2.0.0 Cannot verify, but will try to deliver");
    }
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_expn(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    (void)command;
    smtp_server_error(server, 502, "5.5.1 Error: command not implemented");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_help(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    (void)command;
    smtp_server_reply(server, 214, "2.0.0 See RFC 5321");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_quit(struct smtp_server *server,
                                       const struct smtp_command *command)
{
    (void)command;
    smtp_server_bye(server, 221, "2.0.0 Bye");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_unknown(struct smtp_server *server,
                                          const struct smtp_command *command)
{
    (void)command;
    smtp_server_error(server, 500, "5.5.1 Error: command not recognized");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_bad(struct smtp_server *server,
                                      const struct smtp_command *command)
{
    (void)command;
    smtp_server_error(server, 500, "5.5.2 Error: bad syntax");
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event run_forbidden(struct smtp_server *server,
                                            const struct smtp_command *command)
{
    (void)command;
    smtp_server_bye(server, 421, "4.7.0 Error: this is an SMTP server");
    return SMTP_SERVER_GO_ON;
}

enum command_flags {
    AFTER_HELLO = 1,  /* 503 before HELO or EHLO */
    OUTSIDE_MAIL = 2, /* 503 within a transaction */
    NO_ARGS = 4,      /* 501 with arguments */
    ENDS_GROUP = 8,   /* nothing may be pipelined behind it (RFC 2920 3.1, RFC 4954) */
    IS_JUNK = 16,     /* does nothing for mail: counted */
    ALLOWS_8BIT = 32, /* checks its arguments itself */
};

static const struct {
    enum smtp_server_event (*run)(struct smtp_server *server, const struct smtp_command *command);
    unsigned flags;
} handlers[SMTP_VERB_COUNT] = {
    [SMTP_VERB_UNKNOWN] = {run_unknown, ALLOWS_8BIT},
    [SMTP_VERB_BAD] = {run_bad, ALLOWS_8BIT},
    [SMTP_VERB_FORBIDDEN] = {run_forbidden, ALLOWS_8BIT},
    [SMTP_VERB_HELO] = {run_helo, ENDS_GROUP | IS_JUNK},
    [SMTP_VERB_EHLO] = {run_ehlo, ENDS_GROUP | IS_JUNK},
    [SMTP_VERB_STARTTLS] = {run_starttls, AFTER_HELLO | OUTSIDE_MAIL | NO_ARGS | IS_JUNK},
    [SMTP_VERB_AUTH] = {run_auth, AFTER_HELLO | OUTSIDE_MAIL | ENDS_GROUP | IS_JUNK},
    [SMTP_VERB_MAIL] = {run_mail, AFTER_HELLO | OUTSIDE_MAIL | ALLOWS_8BIT},
    [SMTP_VERB_RCPT] = {run_rcpt, ALLOWS_8BIT},
    [SMTP_VERB_DATA] = {run_data, NO_ARGS | ENDS_GROUP},
    [SMTP_VERB_BDAT] = {run_bdat, ALLOWS_8BIT},
    [SMTP_VERB_RSET] = {run_rset, NO_ARGS | IS_JUNK},
    [SMTP_VERB_NOOP] = {run_noop, IS_JUNK},
    [SMTP_VERB_VRFY] = {run_vrfy, ENDS_GROUP | IS_JUNK},
    [SMTP_VERB_EXPN] = {run_expn, IS_JUNK},
    [SMTP_VERB_HELP] = {run_help, IS_JUNK},
    [SMTP_VERB_QUIT] = {run_quit, 0},
};

/* The checks that the table asks for; true when one of them has answered. */
static bool is_refused(struct smtp_server *server, const struct smtp_command *command,
                       unsigned flags)
{
    if (command->has_8bit && (flags & ALLOWS_8BIT) == 0) {
        smtp_server_error(server, 501, "5.5.4 Error: 8-bit argument");
    } else if ((flags & NO_ARGS) != 0 && command->args.len > 0) {
        smtp_server_error(server, 501, "5.5.4 Error: unexpected argument");
    } else if ((flags & AFTER_HELLO) != 0 && server->helo[0] == '\0') {
        smtp_server_error(server, 503, "5.5.1 Error: send HELO or EHLO first");
    } else if ((flags & OUTSIDE_MAIL) != 0 && server->transaction != SMTP_SERVER_NO_MAIL) {
        smtp_server_error(server, 503, "5.5.1 Error: within a mail transaction");
    } else {
        return false;
    }
    return true;
}

enum smtp_server_event smtp_server_run(struct smtp_server *server, struct slice line,
                                       size_t pipelined)
{
    struct smtp_command command = smtp_command_parse(line);
    unsigned flags = handlers[command.verb].flags;

    if (command.verb <= SMTP_VERB_BAD && smtp_command_is_bdat(line)) {
        smtp_server_bye(server, 501, "5.5.4 Syntax: BDAT size [LAST]");
        return SMTP_SERVER_GO_ON;
    }
    if ((flags & ENDS_GROUP) != 0 && pipelined > 0 && server->config->refuses_early_talk) {
        smtp_server_bye(server, 554, "5.5.0 Error: SMTP protocol synchronization");
        return SMTP_SERVER_GO_ON;
    }
    if ((flags & IS_JUNK) != 0) {
        count_junk(server);
    }
    if (is_refused(server, &command, flags)) {
        return SMTP_SERVER_GO_ON;
    }
    return handlers[command.verb].run(server, &command);
}
