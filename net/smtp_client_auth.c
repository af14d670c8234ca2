/* AUTH (RFC 4954) at a smart host: PLAIN with an initial response, or LOGIN. A refusal is about
 * our credentials, never about the mail, so it is soft and the next server is tried, and no text
 * holds the password. Pure. */
#include "base/error.h"
#include "net/base64.h"
#include "net/smtp_client_internal.h"

#define COMMAND_MAX   512  /* bytes of a command with its CRLF, RFC 5321 4.5.3.1.4 */
#define CHALLENGE_MAX 4096 /* bytes of one that is looked at, as many as of a reply's line */

enum {
    STEP_PLAIN_RESPONSE, /* 334 asks for it: it did not fit behind AUTH PLAIN */
    STEP_LOGIN_USER,
    STEP_LOGIN_PASSWORD,
    STEP_LAST, /* everything was said */
};

/* --- the password ----------------------------------------------------------------------------- */

/* Append base64 of data. */
static void append_encoded(struct buf *out, struct slice data)
{
    char *to = buf_reserve(out, BASE64_ENCODED_LEN(data.len));
    if (to != NULL) {
        out->len += base64_encode(data, to);
    }
}

/* The response of PLAIN, encoded. */
static void append_plain(struct buf *out, const struct smtp_client_config *config)
{
    struct buf message = {.limit = 0};
    buf_append_char(&message, '\0');
    buf_append_slice(&message, config->auth_user);
    buf_append_char(&message, '\0');
    buf_append_slice(&message, config->auth_password);
    if (message.failed) {
        out->failed = true;
    } else {
        append_encoded(out, buf_slice(&message));
    }
    buf_fini(&message);
}

static bool contains(struct slice text, struct slice part)
{
    for (size_t i = 0; part.len > 0 && i + part.len <= text.len; i++) {
        if (memcmp(text.data + i, part.data, part.len) == 0) {
            return true;
        }
    }
    return false;
}

bool smtp_client_is_secret(const struct smtp_client *c, struct slice text)
{
    const struct smtp_client_config *config = c->config;
    struct buf plain = {.limit = 0};
    struct buf password = {.limit = 0};
    append_plain(&plain, config);
    append_encoded(&password, config->auth_password);
    bool is_secret = plain.failed || password.failed || contains(text, config->auth_password) ||
                     contains(text, buf_slice(&plain)) || contains(text, buf_slice(&password));
    buf_fini(&plain);
    buf_fini(&password);
    return is_secret;
}

/* --- refusals --------------------------------------------------------------------------------- */

/* This server cannot be used. */
static void fail_unoffered(struct smtp_client *c, const char *text)
{
    (void)smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_AUTH,
                            outcome_status_of("4.7.0"));
    smtp_client_text(c, text, "");
    smtp_client_fail_politely(c);
}

static void fail_refused(struct smtp_client *c)
{
    const struct smtp_reply *r = &c->reply;
    bool has_status = strcmp(r->status.text + 1, ".0.0") != 0;
    struct outcome_verdict *v = smtp_client_judge(
        c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_AUTH,
        has_status ? outcome_status_class(r->status, '4') : outcome_status_of("4.7.8"));
    v->code = r->code;
    smtp_client_text(c, "SASL authentication failed; server ", " said: ");
    smtp_client_text_reply(c, 0);
    smtp_client_fail_politely(c);
}

static void fail_as_protocol(struct smtp_client *c)
{
    (void)smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_AUTH,
                            outcome_status_of("4.7.0"));
    c->verdict.is_protocol_error = true;
    smtp_client_text(c, "SASL authentication failed; server ", " sent a malformed challenge");
    smtp_client_lose(c);
}

/* --- the exchange ----------------------------------------------------------------------------- */

/* A line is queued. */
static void say_auth(struct smtp_client *c, uint8_t step, usec_t now)
{
    buf_append_str(&c->out, "\r\n");
    c->auth_step = step;
    c->deadline = now + c->config->helo_timeout;
    if (c->out.failed) {
        (void)smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_LOCAL,
                                outcome_status_of("4.3.0"));
        smtp_client_text_add(c, SLICE("out of memory"), 0);
        smtp_client_lose(c);
    }
}

static void say_plain(struct smtp_client *c, usec_t now)
{
    size_t len = 2 + c->config->auth_user.len + c->config->auth_password.len;
    buf_append_str(&c->out, "AUTH PLAIN");
    if (sizeof("AUTH PLAIN \r\n") - 1 + BASE64_ENCODED_LEN(len) > COMMAND_MAX) {
        say_auth(c, STEP_PLAIN_RESPONSE, now);
        return;
    }
    buf_append_char(&c->out, ' ');
    append_plain(&c->out, c->config);
    say_auth(c, STEP_LAST, now);
}

void smtp_client_auth(struct smtp_client *c, usec_t now)
{
    const struct smtp_client_features *f = &c->features;
    if (c->config->auth_requires_tls && !c->is_tls) {
        fail_unoffered(c, "SASL authentication needs TLS, which is not in use with host ");
        return;
    }
    if (!f->has_auth_plain && !f->has_auth_login) {
        fail_unoffered(c, "SASL authentication by PLAIN or LOGIN was not offered by host ");
        return;
    }
    c->state = SMTP_CLIENT_STATE_AUTH;
    if (f->has_auth_plain) {
        say_plain(c, now);
    } else {
        buf_append_str(&c->out, "AUTH LOGIN");
        say_auth(c, STEP_LOGIN_USER, now);
    }
}

/* What a challenge says is not looked at, but it must be one. */
static bool is_challenge(struct slice text)
{
    char bytes[BASE64_DECODED_MAX(CHALLENGE_MAX)];
    size_t len;
    return base64_decode(text, bytes, sizeof(bytes), &len) == 0;
}

static void on_challenge(struct smtp_client *c, usec_t now)
{
    if (c->auth_step == STEP_LAST || c->reply.code != 334 || !is_challenge(c->reply.line)) {
        fail_as_protocol(c);
    } else if (c->auth_step == STEP_LOGIN_USER) {
        append_encoded(&c->out, c->config->auth_user);
        say_auth(c, STEP_LOGIN_PASSWORD, now);
    } else if (c->auth_step == STEP_LOGIN_PASSWORD) {
        append_encoded(&c->out, c->config->auth_password);
        say_auth(c, STEP_LAST, now);
    } else {
        append_plain(&c->out, c->config);
        say_auth(c, STEP_LAST, now);
    }
}

void smtp_client_auth_reply(struct smtp_client *c, usec_t now)
{
    unsigned code = c->reply.code;
    if (code >= 400) {
        fail_refused(c);
    } else if (code >= 300) {
        on_challenge(c, now);
    } else if (c->auth_step == STEP_LAST) {
        smtp_client_idle(c);
    } else {
        smtp_client_protocol_error(c, NULL);
    }
}
