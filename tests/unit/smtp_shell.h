/* A shell for the SMTP server core that does no I/O: it answers every event at once and writes
 * down what happened as text, so that two runs can be compared. Tests and fuzz targets only. */
#ifndef TESTS_UNIT_SMTP_SHELL_H
#define TESTS_UNIT_SMTP_SHELL_H

#include "net/smtp_server.h"

struct smtp_shell {
    struct smtp_server_config config; /* change before smtp_shell_start */
    struct smtp_server server;
    struct buf body; /* given to the core; body_limit bytes */
    size_t body_limit;
    struct buf content; /* of the message being received */
    struct buf replies; /* everything the core sent since smtp_shell_take_replies */
    struct buf log;     /* one line an event; a message with its content */
    usec_t now;
    uint32_t recipients_seen; /* in this transaction */
    bool is_staged;
    bool is_closed;
    bool refuses_mail;    /* answer ENVELOPE with 452 */
    bool refuses_message; /* answer MESSAGE with 451 */
    bool fails_content;   /* smtp_server_fail at the first BODY or RECIPIENTS */
    bool is_silent;       /* leave ENVELOPE, AUTH and MESSAGE unanswered */
    uint32_t message_count;
};

/* Defaults: every extension offered, peer 192.0.2.1 trusted, body buffer of 1,024 bytes. */
void smtp_shell_init(struct smtp_shell *shell);
void smtp_shell_start(struct smtp_shell *shell, bool is_trusted);
void smtp_shell_fini(struct smtp_shell *shell);

/* Give bytes to the core as one read; returns the event it stopped at. Input that the core does
 * not take because it waits for an answer is lost (no test depends on it). */
enum smtp_server_event smtp_shell_feed(struct smtp_shell *shell, struct slice in);

#endif
