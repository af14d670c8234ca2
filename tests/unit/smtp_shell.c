/* The shell without I/O. It also checks the contract of the core: recipients before content,
 * one end for every transaction that began, bounded buffers, progress with every step. */
#include "tests/unit/smtp_shell.h"

#include "base/packed.h"

#include <stdio.h>
#include <stdlib.h>

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "the core broke its contract: %s\n", what);
        abort();
    }
}

void smtp_shell_init(struct smtp_shell *shell)
{
    *shell = (struct smtp_shell){.body_limit = 1024, .now = USEC_PER_SEC};
    smtp_server_config_defaults(&shell->config);
    shell->config.hostname = "mx.test";
    shell->config.software = "sluice";
    shell->config.offers_starttls = true;
    shell->config.offers_auth = true;
}

void smtp_shell_start(struct smtp_shell *shell, bool is_trusted)
{
    struct smtp_server_peer peer = {.address = "192.0.2.1", .is_trusted = is_trusted};

    buf_init(&shell->body, shell->body_limit);
    smtp_server_init(&shell->server, &shell->config, &peer, shell->now);
    buf_append_slice(&shell->replies, buf_slice(&shell->server.out));
    buf_clear(&shell->server.out);
}

void smtp_shell_fini(struct smtp_shell *shell)
{
    smtp_server_fini(&shell->server);
    buf_fini(&shell->body);
    buf_fini(&shell->content);
    buf_fini(&shell->replies);
    buf_fini(&shell->log);
}

static void take_body(struct smtp_shell *shell)
{
    require(shell->body.len <= shell->body_limit, "body buffer beyond its limit");
    buf_append_slice(&shell->content, buf_slice(&shell->body));
    buf_clear(&shell->body);
}

static void take_recipients(struct smtp_shell *shell)
{
    uint32_t count;
    struct slice batch = smtp_server_recipients(&shell->server, &count), address;

    require(shell->is_staged && shell->content.len == 0, "recipients in the wrong place");
    shell->recipients_seen += count;
    while (packed_next(&batch, &address)) {
        count--;
        buf_printf(&shell->log, "recipient " SLICE_FMT "\n", SLICE_ARG(address));
    }
    require(count == 0 && batch.len == 0, "a batch that is not what it says");
}

static void take_message(struct smtp_shell *shell)
{
    const struct smtp_body_facts *facts = &shell->server.body.facts;
    usec_t now = shell->now;

    take_body(shell);
    require(shell->is_staged, "a message without an envelope");
    require(shell->server.recipient_count == shell->recipients_seen, "recipients got lost");
    require(facts->size == shell->content.len, "the size is wrong");
    shell->is_staged = false;
    shell->message_count++;
    buf_printf(&shell->log, "message %zu bytes\n", shell->content.len);
    buf_append_slice(&shell->log, buf_slice(&shell->content));
    buf_append_str(&shell->log, "end\n");
    buf_clear(&shell->content);
    if (shell->refuses_message) {
        smtp_server_answer(&shell->server, 451, "4.3.0", "Not now", now);
    } else if (!shell->is_silent) {
        smtp_server_answer(&shell->server, 250, "2.0.0", "Ok: queued", now);
    }
}

static void take_envelope(struct smtp_shell *shell)
{
    require(!shell->is_staged, "a transaction within another");
    if (shell->is_silent) {
        return;
    }
    if (shell->refuses_mail) {
        smtp_server_answer(&shell->server, 452, "4.3.1", "Full", shell->now);
        return;
    }
    shell->is_staged = true;
    shell->recipients_seen = 0;
    buf_printf(&shell->log, "envelope <" SLICE_FMT ">\n",
               SLICE_ARG(smtp_address_slice(&shell->server.sender)));
    smtp_server_answer(&shell->server, 250, "2.1.0", "Ok", shell->now);
}

static void check_password(struct smtp_shell *shell)
{
    const struct smtp_server *server = &shell->server;
    enum smtp_server_auth answer = SMTP_SERVER_AUTH_BAD;

    buf_printf(&shell->log, "auth " SLICE_FMT " " SLICE_FMT "\n", SLICE_ARG(server->auth_username),
               SLICE_ARG(server->auth_password));
    if (slice_eq(server->auth_username, SLICE("user")) &&
        slice_eq(server->auth_password, SLICE("secret"))) {
        answer = SMTP_SERVER_AUTH_OK;
    } else if (slice_eq(server->auth_username, SLICE("broken"))) {
        answer = SMTP_SERVER_AUTH_TEMPFAIL;
    }
    if (!shell->is_silent) {
        smtp_server_auth_answer(&shell->server, answer, shell->now);
    }
}

static void take_event(struct smtp_shell *shell, enum smtp_server_event event)
{
    switch (event) {
    case SMTP_SERVER_ENVELOPE:
        take_envelope(shell);
        break;
    case SMTP_SERVER_RECIPIENTS:
        take_recipients(shell);
        break;
    case SMTP_SERVER_BODY:
        take_body(shell);
        break;
    case SMTP_SERVER_MESSAGE:
        take_message(shell);
        break;
    case SMTP_SERVER_ABORTED:
        require(shell->is_staged, "the end of nothing");
        shell->is_staged = false;
        buf_append_str(&shell->log, "aborted\n");
        buf_clear(&shell->content);
        buf_clear(&shell->body);
        break;
    case SMTP_SERVER_AUTH:
        check_password(shell);
        break;
    case SMTP_SERVER_STARTTLS:
        buf_append_str(&shell->log, "starttls\n");
        break;
    case SMTP_SERVER_CLOSE:
        require(!shell->is_staged, "closed without an end of the transaction");
        shell->is_closed = true;
        break;
    case SMTP_SERVER_INPUT:
    case SMTP_SERVER_FLUSH:
    case SMTP_SERVER_WAIT:
    case SMTP_SERVER_EVENT_COUNT:
        break;
    }
    if (shell->fails_content && (event == SMTP_SERVER_BODY || event == SMTP_SERVER_RECIPIENTS)) {
        smtp_server_fail(&shell->server, 452, "4.3.1", "Cannot store");
    }
}

enum smtp_server_event smtp_shell_feed(struct smtp_shell *shell, struct slice in)
{
    for (;;) {
        size_t had = in.len;
        size_t had_out = shell->server.out.len;
        enum smtp_server_event event =
            smtp_server_step(&shell->server, &in, &shell->body, shell->now);
        take_event(shell, event);
        require(event != SMTP_SERVER_FLUSH || had_out > 0 || in.len < had, "no progress");
        require(event != SMTP_SERVER_INPUT || in.len == 0, "input left over");
        buf_append_slice(&shell->replies, buf_slice(&shell->server.out));
        buf_clear(&shell->server.out);
        if (event == SMTP_SERVER_INPUT || event == SMTP_SERVER_WAIT || event == SMTP_SERVER_CLOSE ||
            event == SMTP_SERVER_STARTTLS) {
            return event;
        }
    }
}
