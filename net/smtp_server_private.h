/* What the files of the SMTP server core share: replies, the reset of a transaction, and the
 * entry points from the state machine (smtp_server.c) into commands, AUTH and content.
 * Included by net/smtp_server*.c only. */
#ifndef NET_SMTP_SERVER_PRIVATE_H
#define NET_SMTP_SERVER_PRIVATE_H

#include "net/smtp_command.h"
#include "net/smtp_server.h"

/* Answer of the inner functions when the state machine is to go on by itself. */
#define SMTP_SERVER_GO_ON SMTP_SERVER_EVENT_COUNT

/* Queue one reply line; text begins with the enhanced code where one belongs. */
void smtp_server_reply(struct smtp_server *server, int code, const char *text);

/* The same, counted against error_limit: the peer did something wrong. */
void smtp_server_error(struct smtp_server *server, int code, const char *text);

/* The last reply; the session is over, an open transaction is aborted. */
void smtp_server_bye(struct smtp_server *server, int code, const char *text);

/* The only place that forgets a transaction. Tells the shell when it had staged something. */
void smtp_server_reset(struct smtp_server *server);

/* The peer has command_timeout from now on. */
void smtp_server_restart_clock(struct smtp_server *server);

/* Execute a command line (without CRLF). pipelined: bytes already received behind it. */
enum smtp_server_event smtp_server_run(struct smtp_server *server, struct slice line,
                                       size_t pipelined);

/* Execute AUTH with its arguments, or go on with a line of its exchange. */
enum smtp_server_event smtp_server_run_auth(struct smtp_server *server, struct slice args);
enum smtp_server_event smtp_server_auth_line(struct smtp_server *server, struct slice line);

/* Whether so many bytes are far beyond what we could ever take: not worth reading to the end. */
bool smtp_server_is_absurd_size(const struct smtp_server *server, uint64_t size);

/* Begin to decode content by DATA or by the first BDAT. */
void smtp_server_begin_body(struct smtp_server *server, bool has_dots);

/* Go on in the states DATA, CHUNK, SKIP and BODY_END. */
enum smtp_server_event smtp_server_read_body(struct smtp_server *server, struct slice *in,
                                             struct buf *body);

#endif
