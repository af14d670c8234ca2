/* Fuzz target: a whole session. Two bytes choose the configuration and how the rest is cut; the
 * rest is what the client sends, where byte 1 announces an action of the shell or the clock.
 * Without actions the session must end alike however its input is cut. */
#include "tests/unit/smtp_shell.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ACTION = 1 };

static void start(struct smtp_shell *shell, unsigned flags)
{
    smtp_shell_init(shell);
    shell->config.fix_bare_lf = (flags & 1) != 0;
    shell->config.refuses_early_talk = (flags & 2) != 0;
    shell->config.auth_needs_tls = (flags & 4) == 0;
    shell->config.recipient_batch = (flags & 8) != 0 ? 1 : 1000;
    shell->config.recipient_limit = (flags & 16) != 0 ? 3 : 0;
    shell->config.message_size_limit = (flags & 32) != 0 ? 200 : 50000000;
    shell->config.text_line_limit = (flags & 64) != 0 ? 78 : 0;
    shell->config.command_line_limit = 512;
    smtp_shell_start(shell, (flags & 128) == 0);
}

static void answer(struct smtp_shell *shell)
{
    if (shell->server.state == SMTP_SERVER_MAIL_WAIT) {
        shell->is_staged = true;
        shell->recipients_seen = 0;
        smtp_server_answer(&shell->server, 250, "2.1.0", "Ok", shell->now);
    } else if (shell->server.state == SMTP_SERVER_MESSAGE_WAIT) {
        smtp_server_answer(&shell->server, 421, "4.3.2", "\r\nNo\xff", shell->now);
    } else if (shell->server.state == SMTP_SERVER_AUTH_WAIT) {
        smtp_server_auth_answer(&shell->server, SMTP_SERVER_AUTH_TEMPFAIL, shell->now);
    }
}

static void act(struct smtp_shell *shell, unsigned char action)
{
    switch (action % 9) {
    case 0:
        shell->now += (usec_t)action * USEC_PER_SEC;
        break;
    case 1:
        if (shell->server.state == SMTP_SERVER_TLS_WAIT) {
            smtp_server_tls_started(&shell->server, "TLSv1.3", "X", shell->now);
        }
        break;
    case 2:
        shell->refuses_mail = !shell->refuses_mail;
        break;
    case 3:
        shell->refuses_message = !shell->refuses_message;
        break;
    case 4:
        shell->fails_content = !shell->fails_content;
        break;
    case 5:
        smtp_server_stop(&shell->server);
        break;
    case 6:
        shell->is_silent = !shell->is_silent;
        break;
    case 7:
        answer(shell);
        break;
    default:
        smtp_server_resume(&shell->server, shell->now);
        break;
    }
    (void)smtp_shell_feed(shell, slice_make(NULL, 0));
}

static void feed(struct smtp_shell *shell, const char *data, size_t size, size_t piece)
{
    while (size > 0) {
        size_t len = size < piece ? size : piece;
        (void)smtp_shell_feed(shell, slice_make(data, len));
        data += len;
        size -= len;
    }
}

/* A session in which the shell acts too. */
static void run_with_actions(unsigned flags, size_t piece, const char *data, size_t size)
{
    struct smtp_shell shell;
    size_t at = 0;

    start(&shell, flags);
    while (at < size) {
        size_t end = at;
        while (end < size && data[end] != ACTION) {
            end++;
        }
        feed(&shell, data + at, end - at, piece);
        at = end;
        if (at + 1 < size) {
            act(&shell, (unsigned char)data[at + 1]);
        }
        at += 2;
    }
    smtp_shell_fini(&shell);
}

static void run_both_ways(unsigned flags, size_t piece, const char *data, size_t size)
{
    struct smtp_shell whole, cut;

    start(&whole, flags & ~2U);
    start(&cut, flags & ~2U);
    feed(&whole, data, size, SIZE_MAX);
    feed(&cut, data, size, piece);
    if (!slice_eq(buf_slice(&whole.replies), buf_slice(&cut.replies)) ||
        !slice_eq(buf_slice(&whole.log), buf_slice(&cut.log))) {
        fprintf(stderr, "whole:\n" SLICE_FMT SLICE_FMT "cut:\n" SLICE_FMT SLICE_FMT,
                SLICE_ARG(buf_slice(&whole.replies)), SLICE_ARG(buf_slice(&whole.log)),
                SLICE_ARG(buf_slice(&cut.replies)), SLICE_ARG(buf_slice(&cut.log)));
        abort();
    }
    smtp_shell_fini(&whole);
    smtp_shell_fini(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t piece = (size_t)data[1] % 64 + 1;
    const char *text = (const char *)data + 2;
    run_both_ways(data[0], piece, text, size - 2);
    run_with_actions(data[0], piece, text, size - 2);
    return 0;
}
