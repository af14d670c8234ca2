/* The transcript runner. */
#include "tests/unit/smtp_script.h"

#include "net/smtp_wire.h"
#include "tests/unit/smtp_warm.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RECIPIENTS_MAX 400
#define CUT_NONE       0
#define CUT_EVERYWHERE SIZE_MAX

struct run {
    const struct smtp_script *script;
    const char *const *steps;
    size_t step;
    size_t cut; /* server bytes are cut behind so many; CUT_EVERYWHERE: one byte each */
    struct smtp_client client;
    struct slice recipients[RECIPIENTS_MAX];
    char names[RECIPIENTS_MAX][16];
    struct buf body; /* wire bytes of the body */
    bool is_chunk;   /* the body asked for last */
    usec_t now;
};

void smtp_script_init(struct smtp_script *script)
{
    *script = (struct smtp_script){.is_whole_only = false};
    smtp_client_config_defaults(&script->config);
    script->config.ehlo_name = SLICE("me");
    script->peer = (struct smtp_client_peer){
        .host = SLICE("mx"),
        .address = SLICE("192.0.2.1"),
        .nexthop = SLICE("example.com"),
        .port = 25,
    };
}

static const char *const stage_names[OUTCOME_STAGE_COUNT] = {
    [OUTCOME_STAGE_RESOLVE] = "RESOLVE",   [OUTCOME_STAGE_CONNECT] = "CONNECT",
    [OUTCOME_STAGE_GREETING] = "GREETING", [OUTCOME_STAGE_EHLO] = "EHLO",
    [OUTCOME_STAGE_HELO] = "HELO",         [OUTCOME_STAGE_STARTTLS] = "STARTTLS",
    [OUTCOME_STAGE_TLS] = "TLS",           [OUTCOME_STAGE_AUTH] = "AUTH",
    [OUTCOME_STAGE_MAIL] = "MAIL",         [OUTCOME_STAGE_RCPT] = "RCPT",
    [OUTCOME_STAGE_DATA] = "DATA",         [OUTCOME_STAGE_BODY] = "BODY",
    [OUTCOME_STAGE_DOT] = "DOT",           [OUTCOME_STAGE_RSET] = "RSET",
    [OUTCOME_STAGE_QUIT] = "QUIT",         [OUTCOME_STAGE_IDLE] = "IDLE",
    [OUTCOME_STAGE_LOCAL] = "LOCAL",
};

static void verdict_text(const struct outcome_verdict *v, char *ret, size_t size)
{
    static const char *const classes[] = {"ok", "soft", "hard"};
    (void)snprintf(ret, size, " %s %s %u %s%s%s%s%s", classes[v->class], v->status.text, v->code,
                   stage_names[v->stage], v->scope == OUTCOME_SCOPE_SITE ? " site" : "",
                   v->is_ambiguous ? " amb" : "", v->is_protocol_error ? " proto" : "",
                   v->is_soft_unless_final ? " unlessfinal" : "");
}

void smtp_script_event_text(const struct smtp_client_event *event, char *ret, size_t size)
{
    static const char *const names[SMTP_CLIENT_EVENT_COUNT] = {
        [SMTP_CLIENT_NONE] = "NONE",           [SMTP_CLIENT_WANT_TLS] = "WANT_TLS",
        [SMTP_CLIENT_READY] = "READY",         [SMTP_CLIENT_WANT_BODY] = "WANT_BODY",
        [SMTP_CLIENT_STOP_BODY] = "STOP_BODY", [SMTP_CLIENT_RECIPIENT] = "RECIPIENT",
        [SMTP_CLIENT_REST] = "REST",           [SMTP_CLIENT_DONE] = "DONE",
        [SMTP_CLIENT_RETURNED] = "RETURNED",   [SMTP_CLIENT_FAILED] = "FAILED",
        [SMTP_CLIENT_CLOSED] = "CLOSED",
    };
    char verdict[200] = "";
    if (event->verdict != NULL) {
        verdict_text(event->verdict, verdict, sizeof(verdict));
    }
    char index[16] = "";
    if (event->kind == SMTP_CLIENT_RECIPIENT) {
        (void)snprintf(index, sizeof(index), " %u", event->index);
    }
    const char *tail = "";
    if (event->kind == SMTP_CLIENT_DONE) {
        static const char *const ends[] = {" lost", " close", " lost doubtful", " close doubtful"};
        tail = ends[(event->is_doubtful ? 2 : 0) + (event->is_complete ? 1 : 0)];
        if (event->can_reuse) {
            tail = event->is_doubtful ? " reuse doubtful" : " reuse";
        }
    } else if (event->kind == SMTP_CLIENT_CLOSED && event->flush) {
        tail = " flush";
    } else if (event->is_chunk) {
        tail = " chunk";
    } else if (event->is_neutral) {
        tail = " neutral";
    }
    (void)snprintf(ret, size, "%s%s%s%s", names[event->kind], index, verdict, tail);
}

/* The text of the script's next event, with its transaction when the script wants it; *ret_event is
 * of kind NONE when there is none. */
static void next_event_text(struct run *r, struct smtp_client_event *ret_event, char *ret,
                            size_t size)
{
    (void)smtp_client_next_event(&r->client, ret_event); /* NONE has a text, too */
    size_t at = 0;
    if (r->script->is_numbered &&
        (ret_event->kind == SMTP_CLIENT_WANT_BODY || ret_event->kind == SMTP_CLIENT_STOP_BODY ||
         ret_event->kind == SMTP_CLIENT_RECIPIENT || ret_event->kind == SMTP_CLIENT_REST ||
         ret_event->kind == SMTP_CLIENT_DONE || ret_event->kind == SMTP_CLIENT_RETURNED)) {
        at = (size_t)snprintf(ret, size, "%u ", ret_event->transaction);
    }
    smtp_script_event_text(ret_event, ret + at, size - at);
    if (ret_event->kind == SMTP_CLIENT_WANT_BODY) {
        r->is_chunk = ret_event->is_chunk;
    }
}

/* Every verdict's text keeps the promises of outcome_verdict. */
static void check_text(struct slice text)
{
    assert_true(text.len > 0 && text.len <= OUTCOME_TEXT_MAX);
    struct buf again = {.limit = 0};
    smtp_reply_sanitise(&again, text, OUTCOME_TEXT_MAX);
    assert_true(slice_eq(buf_slice(&again), text));
    buf_fini(&again);
}

static void differs(const struct run *r, const char *got)
{
    fail_msg("step %zu \"%s\" (cut %zu): got \"%s\"", r->step,
             r->steps[r->step] != NULL ? r->steps[r->step] : "(end)", r->cut, got);
}

/* Events came in the middle of a server step: the steps behind it must want them. */
static void expect_pending(struct run *r)
{
    while (smtp_client_has_event(&r->client)) {
        r->step++;
        const char *step = r->steps[r->step];
        struct smtp_client_event event;
        char text[300];
        next_event_text(r, &event, text, sizeof(text));
        if (step == NULL || step[0] != '!' || strcmp(text, step + 1) != 0) {
            differs(r, text);
        }
    }
}

static void feed(struct run *r, struct slice in)
{
    while (in.len > 0) {
        expect_pending(r);
        smtp_client_input(&r->client, &in, r->now);
        if (in.len > 0 && !smtp_client_has_event(&r->client)) {
            differs(r, "input left without events");
        }
    }
}

/* Bytes of the server in an exact heap copy, so that a read beyond them is seen. */
static void feed_copy(struct run *r, const char *data, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    feed(r, slice_make(copy, len));
    free(copy);
}

static void take_server(struct run *r, const char *text)
{
    size_t len = strlen(text);
    if (r->cut == CUT_EVERYWHERE) {
        for (size_t i = 0; i < len; i++) {
            feed_copy(r, text + i, 1);
        }
    } else if (r->cut != CUT_NONE && r->cut < len) {
        feed_copy(r, text, r->cut);
        feed_copy(r, text + r->cut, len - r->cut);
    } else {
        feed_copy(r, text, len);
    }
}

static void start(struct run *r, const char *words)
{
    unsigned count = (unsigned)strtoul(words, NULL, 10);
    assert_in_range(count, 1, RECIPIENTS_MAX);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(r->names[i], sizeof(r->names[i]), "r%u@b", i);
        r->recipients[i] = slice_of(r->names[i]);
    }
    const char *size = strstr(words, "size=");
    struct smtp_transaction t = {
        .sender = SLICE("s@a"),
        .recipients = r->recipients,
        .recipient_count = count,
        .size_bytes = size != NULL ? strtoul(size + 5, NULL, 10) : 100,
        .has_8bit = strstr(words, "8bit") != NULL,
        .needs_smtputf8 = strstr(words, "utf8") != NULL,
        .requires_tls = strstr(words, "requiretls") != NULL,
        .is_tls_proved = strstr(words, "proved") != NULL,
        .is_tls_broken = strstr(words, "broken") != NULL,
    };
    assert_int_equal(smtp_client_start(&r->client, &t, r->now), 0);
}

static void write_body(struct run *r, const char *text, bool is_all)
{
    if (r->is_chunk) {
        smtp_client_body_progress(&r->client, strlen(text), r->now);
        if (is_all) {
            smtp_client_body_sent(&r->client, r->now);
        }
        return;
    }
    struct smtp_wire wire;
    smtp_wire_init(&wire);
    struct slice in = slice_of(text);
    struct slice runs[64];
    int count = smtp_wire_runs(&wire, &in, runs, 64);
    assert_true(count >= 0 && in.len == 0);
    for (int i = 0; i < count; i++) {
        buf_append_slice(&r->body, runs[i]);
    }
    smtp_client_body_progress(&r->client, r->body.len, r->now);
    if (is_all) {
        struct slice end;
        assert_int_equal(smtp_wire_end(&wire, &end), 0);
        buf_append_slice(&r->body, end);
        smtp_client_body_sent(&r->client, r->now);
        struct smtp_wire_check check;
        smtp_wire_check_init(&check);
        buf_append_slice(&r->body, slice_to(buf_slice(&r->client.out), 3));
        assert_true(smtp_wire_check_bytes(&check, buf_slice(&r->body)));
        assert_int_equal(check.state, SMTP_WIRE_ENDED);
        buf_clear(&r->body);
    }
}

static void act(struct run *r, const char *what)
{
    struct smtp_client *c = &r->client;
    if (strncmp(what, "start ", 6) == 0) {
        start(r, what + 6);
    } else if (strncmp(what, "body ", 5) == 0) {
        write_body(r, what + 5, true);
    } else if (strncmp(what, "partbody ", 9) == 0) {
        write_body(r, what + 9, false);
    } else if (strcmp(what, "sent") == 0) {
        smtp_client_body_sent(c, r->now);
    } else if (strncmp(what, "wrote ", 6) == 0) {
        smtp_client_body_progress(c, strtoul(what + 6, NULL, 10), r->now);
    } else if (strncmp(what, "take ", 5) == 0) {
        smtp_client_consume(c, strtoul(what + 5, NULL, 10));
    } else if (strncmp(what, "wait ", 5) == 0) {
        r->now += (usec_t)strtoul(what + 5, NULL, 10) * USEC_PER_MSEC;
    } else if (strcmp(what, "full") == 0) {
        assert_false(smtp_client_can_start(c));
    } else if (strcmp(what, "bodyfail") == 0 || strcmp(what, "bodybad") == 0) {
        smtp_client_body_failed(c, strcmp(what, "bodybad") == 0, SLICE("cannot read"), r->now);
    } else if (strcmp(what, "tls") == 0 || strcmp(what, "tlsfail") == 0) {
        smtp_client_tls_done(c, strcmp(what, "tls") == 0, SLICE("bad\r\nalert"), r->now);
    } else if (strcmp(what, "quit") == 0) {
        smtp_client_quit(c, r->now);
    } else if (strcmp(what, "eof") == 0) {
        smtp_client_eof(c, r->now);
    } else if (strcmp(what, "reset") == 0) {
        smtp_client_io_error(c, ECONNRESET, r->now);
    } else if (strcmp(what, "timeout") == 0) {
        assert_true(smtp_client_deadline(c) != USEC_NEVER);
        smtp_client_timeout(c, smtp_client_deadline(c) - 1);
        assert_false(smtp_client_has_event(c));
        r->now = smtp_client_deadline(c);
        smtp_client_timeout(c, r->now);
    } else {
        differs(r, "unknown step");
    }
}

static void expect_out(struct run *r, const char *wanted)
{
    struct buf *out = &r->client.out;
    if (!slice_eq(buf_slice(out), slice_of(wanted))) {
        buf_append_char(out, '\0');
        differs(r, out->data);
    }
    smtp_client_consume(&r->client, out->len);
}

static void expect_event(struct run *r, const char *wanted)
{
    struct smtp_client_event event;
    char text[300];
    next_event_text(r, &event, text, sizeof(text));
    if (strcmp(text, wanted) != 0) {
        differs(r, text);
    }
    if (event.verdict != NULL) {
        check_text(event.verdict->text);
    }
}

static void run_once(struct run *r)
{
    r->now = USEC_PER_SEC;
    r->body = (struct buf){.limit = 0};
    smtp_client_init(&r->client, &r->script->config, &r->script->peer, r->now);
    if (r->script->depth > 0) {
        r->client.pace.depth = r->script->depth;
    }
    if (r->script->is_warm) {
        smtp_warm(&r->client, SMTP_WARM_WORDS);
    }
    r->is_chunk = false;
    for (r->step = 0; r->steps[r->step] != NULL; r->step++) {
        const char *step = r->steps[r->step];
        if (step[0] != '!' && smtp_client_has_event(&r->client)) {
            struct smtp_client_event event;
            char text[300];
            next_event_text(r, &event, text, sizeof(text));
            differs(r, text);
        }
        switch (step[0]) {
        case '<':
            take_server(r, step + 1);
            break;
        case '>':
            expect_out(r, step + 1);
            break;
        case '!':
            expect_event(r, step + 1);
            break;
        default:
            act(r, step + 1);
            break;
        }
    }
    r->step--;
    if (smtp_client_has_event(&r->client) || r->client.out.len > 0) {
        differs(r, "something left at the end");
    }
    buf_fini(&r->body);
    smtp_client_fini(&r->client);
}

void smtp_script_run(const struct smtp_script *script, const char *const *steps)
{
    struct run *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->script = script;
    r->steps = steps;
    r->cut = CUT_NONE;
    run_once(r);
    size_t longest = 0;
    for (size_t i = 0; steps[i] != NULL; i++) {
        size_t len = strlen(steps[i]);
        longest = steps[i][0] == '<' && len > longest ? len : longest;
    }
    if (!script->is_whole_only) {
        for (r->cut = 1; r->cut < longest; r->cut++) {
            run_once(r);
        }
        r->cut = CUT_EVERYWHERE;
        run_once(r);
    }
    free(r);
}
