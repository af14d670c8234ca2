/* AUTH PLAIN and LOGIN (RFC 4954, 4616): the exchange, and the credentials until the shell has
 * checked them. Called by the state machine; they lie only in server->credentials and are wiped
 * with the answer. */
#include "base/error.h"
#include "net/base64.h"
#include "net/smtp_server_private.h"

#include <assert.h>

/* Where LOGIN keeps the password; the user name lies at 0. */
#define PASSWORD_AT (SMTP_SERVER_PASSWORD_MAX + 1)

static void forget_credentials(struct smtp_server *server)
{
    explicit_bzero(server->credentials, sizeof(server->credentials));
    server->auth_username = slice_make(server->credentials, 0);
    server->auth_password = slice_make(server->credentials, 0);
}

static enum smtp_server_event refuse_auth(struct smtp_server *server, int code, const char *text)
{
    forget_credentials(server);
    server->state = SMTP_SERVER_COMMAND;
    smtp_server_error(server, code, text);
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event refuse_encoding(struct smtp_server *server)
{
    return refuse_auth(server, 501, "5.5.2 Error: cannot decode the response");
}

static enum smtp_server_event refuse_credentials(struct smtp_server *server)
{
    return refuse_auth(server, 535, "5.7.8 Error: authentication failed");
}

/* User and password are known: check them for length and form, then the shell decides. */
static enum smtp_server_event ask_shell(struct smtp_server *server)
{
    struct slice username = server->auth_username;
    struct slice password = server->auth_password;

    if (slice_find(username, '\0') < username.len || slice_find(password, '\0') < password.len) {
        return refuse_encoding(server);
    }
    if (username.len == 0 || username.len > SMTP_SERVER_PASSWORD_MAX || password.len == 0 ||
        password.len > SMTP_SERVER_PASSWORD_MAX) {
        return refuse_credentials(server);
    }
    server->state = SMTP_SERVER_AUTH_WAIT;
    return SMTP_SERVER_AUTH;
}

/* authzid NUL authcid NUL password; nobody may act as another. */
static enum smtp_server_event plain(struct smtp_server *server, struct slice text)
{
    size_t len = 0;

    int err = base64_decode(text, server->credentials, sizeof(server->credentials), &len);
    if (err != ERR_OK) {
        return err == ERR_LIMIT ? refuse_credentials(server) : refuse_encoding(server);
    }
    struct slice rest = slice_make(server->credentials, len);
    struct slice identity = slice_to(rest, slice_find(rest, '\0'));
    if (identity.len == rest.len) {
        return refuse_encoding(server);
    }
    rest = slice_from(rest, identity.len + 1);
    struct slice username = slice_to(rest, slice_find(rest, '\0'));
    if (username.len == rest.len) {
        return refuse_encoding(server);
    }
    if (identity.len > 0 && !slice_eq(identity, username)) {
        return refuse_credentials(server);
    }
    server->auth_username = username;
    server->auth_password = slice_from(rest, username.len + 1);
    return ask_shell(server);
}

static enum smtp_server_event login(struct smtp_server *server, struct slice text)
{
    bool is_username = server->login == SMTP_SERVER_LOGIN_USERNAME;
    char *to = server->credentials + (is_username ? 0 : PASSWORD_AT);
    size_t len = 0;

    int err = base64_decode(text, to, SMTP_SERVER_PASSWORD_MAX, &len);
    if (err != ERR_OK) {
        return err == ERR_LIMIT ? refuse_credentials(server) : refuse_encoding(server);
    }
    if (is_username) {
        server->auth_username = slice_make(to, len);
        server->login = SMTP_SERVER_LOGIN_PASSWORD;
        server->state = SMTP_SERVER_AUTH_INPUT;
        smtp_server_reply(server, 334, "UGFzc3dvcmQ6"); /* "Password:" */
        return SMTP_SERVER_GO_ON;
    }
    server->auth_password = slice_make(to, len);
    return ask_shell(server);
}

enum smtp_server_event smtp_server_auth_line(struct smtp_server *server, struct slice line)
{
    if (slice_eq(line, SLICE("*"))) {
        return refuse_auth(server, 501, "5.7.0 Authentication aborted");
    }
    return server->login == SMTP_SERVER_LOGIN_PLAIN ? plain(server, line) : login(server, line);
}

/* Why AUTH is not possible now; 0 when it is. */
static int auth_obstacle(const struct smtp_server *server, const char **ret_text)
{
    if (!server->config->offers_auth) {
        *ret_text = "5.5.1 Error: AUTH is not available";
        return 502;
    }
    if (!server->is_esmtp) {
        *ret_text = "5.5.1 Error: send EHLO first";
        return 503;
    }
    if (server->config->auth_needs_tls && !server->is_tls) {
        *ret_text = "5.7.11 Encryption required for authentication";
        return 538;
    }
    *ret_text = "5.5.1 Error: already authenticated";
    return server->is_authenticated ? 503 : 0;
}

enum smtp_server_event smtp_server_run_auth(struct smtp_server *server, struct slice args)
{
    struct slice mechanism = slice_to(args, slice_find(args, ' '));
    struct slice initial = slice_trim(slice_from(args, mechanism.len));
    const char *text = NULL;

    int code = auth_obstacle(server, &text);
    if (code != 0) {
        return refuse_auth(server, code, text);
    }
    if (mechanism.len == 0) {
        return refuse_auth(server, 501, "5.5.4 Syntax: AUTH mechanism");
    }
    bool is_plain = slice_ieq(mechanism, SLICE("PLAIN"));
    if (!is_plain && !slice_ieq(mechanism, SLICE("LOGIN"))) {
        return refuse_auth(server, 504, "5.5.4 Error: unknown authentication mechanism");
    }
    forget_credentials(server);
    server->login = is_plain ? SMTP_SERVER_LOGIN_PLAIN : SMTP_SERVER_LOGIN_USERNAME;
    if (initial.len == 0) {
        server->state = SMTP_SERVER_AUTH_INPUT;
        smtp_server_reply(server, 334, is_plain ? "" : "VXNlcm5hbWU6"); /* "Username:" */
        return SMTP_SERVER_GO_ON;
    }
    if (slice_eq(initial, SLICE("="))) {
        initial.len = 0; /* RFC 4954 section 4: an initial response of no bytes */
    }
    return is_plain ? plain(server, initial) : login(server, initial);
}

void smtp_server_auth_answer(struct smtp_server *server, enum smtp_server_auth answer, usec_t now)
{
    assert(server->state == SMTP_SERVER_AUTH_WAIT);
    server->now = now;
    server->state = SMTP_SERVER_COMMAND;
    smtp_server_restart_clock(server);
    if (answer == SMTP_SERVER_AUTH_BAD) {
        (void)refuse_credentials(server);
        return;
    }
    if (answer == SMTP_SERVER_AUTH_TEMPFAIL) {
        forget_credentials(server);
        smtp_server_reply(server, 454, "4.7.0 Temporary authentication failure");
        return;
    }
    size_t len = server->auth_username.len;
    memmove(server->credentials, server->auth_username.data, len);
    explicit_bzero(server->credentials + len, sizeof(server->credentials) - len);
    server->auth_username = slice_make(server->credentials, len);
    server->auth_password = slice_make(server->credentials, 0);
    server->is_authenticated = true;
    smtp_server_reply(server, 235, "2.7.0 Authentication successful");
}
