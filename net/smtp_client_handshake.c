/* From the greeting to the first transaction: EHLO, HELO, STARTTLS, then AUTH
 * (smtp_client_auth.c). A refusal here is the host's,
 * so it is soft unless the configuration wants Postfix's bounces. Pure. */
#include "net/smtp_client_internal.h"

#include <assert.h>

#define SMTP_PORT 25

void smtp_client_hello(struct smtp_client *c, bool extended, usec_t now)
{
    c->features = (struct smtp_client_features){0};
    c->is_loop = false;
    c->state = extended ? SMTP_CLIENT_STATE_EHLO : SMTP_CLIENT_STATE_HELO;
    c->deadline = now + c->config->helo_timeout;
    buf_append_str(&c->out, extended ? "EHLO " : "HELO ");
    buf_append_slice(&c->out, c->config->ehlo_name);
    buf_append_str(&c->out, "\r\n");
}

/* --- what EHLO says --------------------------------------------------------------------------- */

/* The next word of s, which moves behind it; empty at the end. */
static struct slice next_word(struct slice *s)
{
    size_t from = 0;
    while (from < s->len && (s->data[from] == ' ' || s->data[from] == '\t')) {
        from++;
    }
    size_t to = from;
    while (to < s->len && s->data[to] != ' ' && s->data[to] != '\t') {
        to++;
    }
    struct slice word = slice_make(s->data + from, to - from);
    *s = slice_from(*s, to);
    return word;
}

/* A decimal number; 0 when it is none, the largest one when it does not fit. */
static uint64_t number(struct slice s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return 0;
        }
        if (__builtin_mul_overflow(n, 10U, &n) ||
            __builtin_add_overflow(n, (unsigned)(s.data[i] - '0'), &n)) {
            n = UINT64_MAX;
        }
    }
    return n;
}

static uint32_t small_number(struct slice s)
{
    uint64_t n = number(s);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* RFC 9422: LIMITS NAME=NUMBER ... */
static void learn_limits(struct smtp_client_features *f, struct slice arguments)
{
    for (struct slice word = next_word(&arguments); word.len > 0; word = next_word(&arguments)) {
        size_t at = slice_find(word, '=');
        if (at == word.len) {
            continue;
        }
        struct slice name = slice_to(word, at);
        uint32_t value = small_number(slice_from(word, at + 1));
        if (slice_ieq(name, SLICE("RCPTMAX"))) {
            f->rcpt_max = value;
        } else if (slice_ieq(name, SLICE("MAILMAX"))) {
            f->mail_max = value;
        }
    }
}

static void learn_auth(struct smtp_client_features *f, struct slice mechanisms)
{
    for (struct slice word = next_word(&mechanisms); word.len > 0; word = next_word(&mechanisms)) {
        f->has_auth_plain = f->has_auth_plain || slice_ieq(word, SLICE("PLAIN"));
        f->has_auth_login = f->has_auth_login || slice_ieq(word, SLICE("LOGIN"));
    }
}

static void learn_keyword(struct smtp_client_features *f, struct slice line)
{
    struct slice word = next_word(&line);
    if (slice_ieq(word, SLICE("PIPELINING"))) {
        f->has_pipelining = true;
    } else if (slice_ieq(word, SLICE("SIZE"))) {
        f->has_size = true;
        f->size_max = number(next_word(&line));
    } else if (slice_ieq(word, SLICE("8BITMIME"))) {
        f->has_8bitmime = true;
    } else if (slice_ieq(word, SLICE("SMTPUTF8"))) {
        f->has_smtputf8 = true;
    } else if (slice_ieq(word, SLICE("REQUIRETLS"))) {
        f->has_requiretls = true;
    } else if (slice_ieq(word, SLICE("STARTTLS"))) {
        f->has_starttls = true;
    } else if (slice_ieq(word, SLICE("CHUNKING"))) {
        f->has_chunking = true;
    } else if (slice_ieq(word, SLICE("DSN"))) {
        f->has_dsn = true;
    } else if (slice_ieq(word, SLICE("ENHANCEDSTATUSCODES"))) {
        f->has_enhanced_status = true;
    } else if (slice_ieq(word, SLICE("LIMITS"))) {
        learn_limits(f, line);
    } else if (slice_ieq(word, SLICE("AUTH"))) {
        learn_auth(f, line);
    }
}

void smtp_client_handshake_line(struct smtp_client *c)
{
    const struct smtp_reply *r = &c->reply;
    if (r->is_line_unclean || r->code / 100 != 2) {
        return;
    }
    if (r->line_count > 1) {
        learn_keyword(&c->features, r->line);
        return;
    }
    struct slice line = r->line;
    struct slice name = next_word(&line);
    c->is_loop = c->config->check_loop && c->peer.port == SMTP_PORT && name.len > 0 &&
                 slice_ieq(name, c->config->ehlo_name);
}

/* --- refusals --------------------------------------------------------------------------------- */

void smtp_client_fail_politely(struct smtp_client *c)
{
    smtp_client_push_verdict(c, SMTP_CLIENT_FAILED, NULL);
    smtp_client_leave(c);
}

/* A 4yz or 5yz before the first MAIL. */
static void refuse_session(struct smtp_client *c, enum outcome_stage stage, bool may_bounce,
                           const char *before, const char *between)
{
    const struct smtp_reply *r = &c->reply;
    bool is_hard = r->code >= 500 && may_bounce;
    struct outcome_status status = is_hard ? r->status : outcome_status_class(r->status, '4');
    struct outcome_verdict *v = smtp_client_judge(c, is_hard ? OUTCOME_HARD : OUTCOME_SOFT,
                                                  OUTCOME_SCOPE_SITE, stage, status);
    v->code = r->code;
    smtp_client_text(c, before, between);
    smtp_client_text_add(c, smtp_reply_text(r), 0);
    smtp_client_fail_politely(c);
}

static void refuse_to_talk(struct smtp_client *c, enum outcome_stage stage, bool may_bounce)
{
    refuse_session(c, stage, may_bounce, "host ", " refused to talk to me: ");
}

static void fail_without_tls(struct smtp_client *c)
{
    (void)smtp_client_judge(c, OUTCOME_SOFT, OUTCOME_SCOPE_SITE, OUTCOME_STAGE_STARTTLS,
                            outcome_status_of("4.7.4"));
    smtp_client_text(c, "TLS is required, but was not offered by host ", "");
    smtp_client_fail_politely(c);
}

static void fail_as_loop(struct smtp_client *c)
{
    bool is_best = c->peer.is_best_mx;
    (void)smtp_client_judge(c, is_best ? OUTCOME_HARD : OUTCOME_SOFT, OUTCOME_SCOPE_SITE,
                            OUTCOME_STAGE_EHLO, outcome_status_of(is_best ? "5.4.6" : "4.4.6"));
    smtp_client_text_add(c, SLICE("mail for "), 0);
    smtp_client_text_add(c, c->peer.nexthop, OUTCOME_TEXT_MAX / 2);
    smtp_client_text_add(c, SLICE(" loops back to myself"), 0);
    smtp_client_fail_politely(c);
}

/* --- replies ---------------------------------------------------------------------------------- */

/* Nothing but AUTH is left before mail. */
static void said_all(struct smtp_client *c, usec_t now)
{
    if (c->config->auth_user.len > 0) {
        smtp_client_auth(c, now);
    } else {
        smtp_client_idle(c);
    }
}

/* EHLO or HELO succeeded. */
static void said_hello(struct smtp_client *c, usec_t now)
{
    if (c->is_loop) {
        fail_as_loop(c);
        return;
    }
    if (!c->is_tls && c->config->tls != SMTP_CLIENT_TLS_NONE && c->features.has_starttls) {
        c->state = SMTP_CLIENT_STATE_STARTTLS;
        c->deadline = now + c->config->starttls_timeout;
        buf_append_str(&c->out, "STARTTLS\r\n");
        return;
    }
    if (!c->is_tls && c->config->tls == SMTP_CLIENT_TLS_ENCRYPT) {
        fail_without_tls(c);
        return;
    }
    said_all(c, now);
}

/* Whether the banner names ESMTP as a word. */
static bool says_esmtp(struct slice banner)
{
    for (struct slice word = next_word(&banner); word.len > 0; word = next_word(&banner)) {
        if (slice_ieq(word, SLICE("ESMTP"))) {
            return true;
        }
    }
    return false;
}

static void on_greeting(struct smtp_client *c, usec_t now)
{
    if (c->reply.code < 300) {
        smtp_client_hello(c, c->config->always_send_ehlo || says_esmtp(smtp_reply_text(&c->reply)),
                          now);
    } else {
        refuse_to_talk(c, OUTCOME_STAGE_GREETING, !c->config->skip_5xx_greeting);
    }
}

static void on_ehlo(struct smtp_client *c, usec_t now)
{
    unsigned code = c->reply.code;
    if (code < 300) {
        c->features.has_esmtp = true;
        smtp_pace_reply(&c->pace, now - c->reply_at);
        said_hello(c, now);
    } else if (code == 421 || (code < 500 && c->is_tls)) {
        refuse_to_talk(c, OUTCOME_STAGE_EHLO, false);
    } else {
        smtp_client_hello(c, false, now);
    }
}

static void on_helo(struct smtp_client *c, usec_t now)
{
    if (c->reply.code < 300) {
        said_hello(c, now);
    } else {
        refuse_to_talk(c, OUTCOME_STAGE_HELO, c->config->bounce_5xx_handshake);
    }
}

static void on_starttls(struct smtp_client *c, usec_t now)
{
    if (c->reply.code < 300) {
        c->state = SMTP_CLIENT_STATE_TLS;
        c->deadline = now + c->config->starttls_timeout;
        smtp_client_push(c, SMTP_CLIENT_WANT_TLS);
    } else if (c->config->tls == SMTP_CLIENT_TLS_MAY && c->reply.code != 421) {
        said_all(c, now);
    } else if (c->reply.code == 421) {
        refuse_to_talk(c, OUTCOME_STAGE_STARTTLS, false);
    } else {
        refuse_session(c, OUTCOME_STAGE_STARTTLS, c->config->bounce_5xx_handshake,
                       "TLS is required, but host ", " refused to start TLS: ");
    }
}

void smtp_client_handshake_reply(struct smtp_client *c, bool has_more, usec_t now)
{
    const struct smtp_reply *r = &c->reply;
    if (has_more) {
        smtp_client_protocol_error(c, "more than one reply");
        return;
    }
    if (r->code / 100 == 3 && c->state != SMTP_CLIENT_STATE_AUTH) {
        smtp_client_protocol_error(c, NULL);
        return;
    }
    if (c->state == SMTP_CLIENT_STATE_STARTTLS && r->is_unclean) {
        smtp_client_protocol_error(c, "a reply with control or non-ASCII characters");
        return;
    }
    if (c->state == SMTP_CLIENT_STATE_GREETING) {
        on_greeting(c, now);
    } else if (c->state == SMTP_CLIENT_STATE_EHLO) {
        on_ehlo(c, now);
    } else if (c->state == SMTP_CLIENT_STATE_HELO) {
        on_helo(c, now);
    } else if (c->state == SMTP_CLIENT_STATE_STARTTLS) {
        on_starttls(c, now);
    } else {
        smtp_client_auth_reply(c, now);
    }
}

void smtp_client_tls_done(struct smtp_client *c, bool ok, struct slice reason, usec_t now)
{
    assert(!smtp_client_has_event(c));
    c->now = now;
    if (c->state != SMTP_CLIENT_STATE_TLS) {
        return; /* the session was lost while the handshake ran */
    }
    if (ok) {
        /* RFC 3207 4.2: what was learnt before counts for nothing. */
        smtp_reply_next(&c->reply);
        c->is_tls = true;
        smtp_client_hello(c, true, now);
        return;
    }
    /* Level "may" must not throttle: another attempt may go in plaintext. */
    bool is_mandatory = c->config->tls == SMTP_CLIENT_TLS_ENCRYPT;
    (void)smtp_client_judge(c, OUTCOME_SOFT,
                            is_mandatory ? OUTCOME_SCOPE_SITE : OUTCOME_SCOPE_MESSAGE,
                            OUTCOME_STAGE_TLS, outcome_status_of("4.7.5"));
    smtp_client_text(c, "TLS handshake with ", " failed: ");
    smtp_client_text_add(c, reason, 0);
    smtp_client_lose(c);
}
