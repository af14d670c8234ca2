/* The SMTP of sluice-source, in four modes that differ in what waits for what: a ring of
 * transactions, of which lockstep and pipelining use one, streaming two and chunking as many as are
 * wanted. Called by the session with whole replies; does no I/O. */
#include "bench/source/source_dialogue.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define WRITE_BYTES (64UL * 1024) /* of commands and content kept ready */

static struct source_transaction *nth(const struct source_session *s, uint32_t n)
{
    uint32_t i = s->first + n;
    return &s->transactions[i < s->depth ? i : i - s->depth];
}

static void say_command(struct source_session *s, enum source_state state, const char *line)
{
    buf_append_str(&s->out, line);
    buf_append_str(&s->out, "\r\n");
    s->state = state;
}

static void put_mail(struct source_session *s, const struct source_transaction *t)
{
    buf_append_str(&s->out, "MAIL FROM:<");
    source_message_sender(&s->load->template, t->offer.number, &s->out);
    buf_append_str(&s->out, ">\r\n");
}

static void put_rcpt(struct source_session *s, struct source_transaction *t)
{
    buf_append_str(&s->out, "RCPT TO:<");
    source_message_recipient(&s->load->template, t->offer.number, t->put++, &s->out);
    buf_append_str(&s->out, ">\r\n");
}

static void put_content(struct source_session *s, struct source_transaction *t)
{
    /* The stamp of an open load is the moment it was due: a queue in front of the connections is
     * part of the latency. */
    usec_t stamp = clock_wall();
    if (s->load->options->arrivals.rate > 0) {
        stamp -= clock_mono() - t->offer.due;
    }
    source_message_content(&s->load->template, t->offer.number, stamp, &s->out);
    t->is_content_put = true;
}

/* The length goes in front of the content but is known behind it: its place is kept free, and
 * filled with zeroes (RFC 3030 section 2: chunk-size is 1*DIGIT). */
static void put_chunk(struct source_session *s, struct source_transaction *t)
{
    static const char command[] = "BDAT 000000000 LAST\r\n";
    buf_append(&s->out, command, sizeof(command) - 1);
    size_t begin = s->out.len;
    put_content(s, t);
    if (!s->out.failed) {
        size_t len = s->out.len - begin;
        char *digit = s->out.data + begin - strlen(" LAST\r\n");
        for (; len > 0; len /= 10) {
            *--digit = (char)('0' + len % 10);
        }
    }
}

/* Whatever of the message needs no answer first. A million recipients never wait in memory.
 * returns: true when all of it was put */
static bool put_more(struct source_session *s, struct source_transaction *t)
{
    if (s->mode == SOURCE_LOCKSTEP || t->is_content_put) {
        return t->is_content_put;
    }
    while (t->put < t->recipients && s->out.len < WRITE_BYTES) {
        put_rcpt(s, t);
    }
    if (t->put == t->recipients && !t->is_envelope_put) {
        t->is_envelope_put = true;
        if (s->mode == SOURCE_CHUNKING) {
            put_chunk(s, t);
        } else {
            buf_append_str(&s->out, "DATA\r\n");
        }
    }
    return t->is_content_put;
}

static uint32_t most_in_flight(const struct source_session *s)
{
    if (s->mode == SOURCE_CHUNKING) {
        return s->depth;
    }
    return s->mode == SOURCE_STREAMING ? 2 : 1;
}

/* With CHUNKING, as fast as answers come: half of what may be in flight is answered first, so that
 * a write carries many messages and not the one that each answer makes room for. */
static bool has_pipeline_room(const struct source_session *s)
{
    uint32_t most = most_in_flight(s);
    bool is_eager = s->mode != SOURCE_CHUNKING || s->load->options->arrivals.rate > 0;
    return s->count < (is_eager || s->is_filling ? most : most / 2 + 1);
}

static bool is_session_used_up(const struct source_session *s)
{
    uint32_t most = s->load->options->per_connection;
    return most != 0 && s->begun_here >= most;
}

/* returns: false when there is nothing to begin, or the connection was lost */
static bool begin_envelope(struct source_session *s)
{
    struct source_offer offer;
    if (!has_pipeline_room(s) || s->is_reset_due || is_session_used_up(s)) {
        s->is_filling = false;
        return false;
    }
    if (s->out.len >= WRITE_BYTES || !source_load_take(s->load, &offer)) {
        return false;
    }
    s->is_filling = true;
    struct source_transaction *t = nth(s, s->count++);
    buf_clear(&t->reason);
    buf_clear(&t->refused);
    *t = (struct source_transaction){
        .offer = offer,
        .recipients = source_message_recipients(&s->load->template, offer.number),
        .reason = t->reason,
        .refused = t->refused,
    };
    s->begun_here++;
    int err = source_load_offered(s->load, &t->offer);
    if (err != 0) {
        source_session_lose(s, "ledger", slice_of(err_str(err)));
        return false;
    }
    put_mail(s, t);
    return true;
}

void source_dialogue_fill(struct source_session *s)
{
    if (s->state != SOURCE_READY) {
        return;
    }
    list_remove(&s->link);
    while ((s->count == 0 || put_more(s, nth(s, s->count - 1))) && begin_envelope(s)) {
    }
    if (s->state != SOURCE_READY || s->count > 0) {
        return;
    }
    if (s->is_reset_due) {
        s->is_reset_due = false;
        say_command(s, SOURCE_RSET, "RSET");
    } else if (is_session_used_up(s) || source_load_is_done(s->load)) {
        say_command(s, SOURCE_QUIT, "QUIT");
    } else {
        list_push_back(&s->load->idle, &s->link);
    }
}

static void settle_first(struct source_session *s, enum source_fate fate, struct slice text)
{
    struct source_transaction *t = nth(s, 0);
    source_load_settle(s->load, &t->offer, fate, text, buf_slice(&t->refused));
    s->first = s->first + 1 < s->depth ? s->first + 1 : 0;
    s->count--;
}

void source_dialogue_abort(struct source_session *s, struct slice why)
{
    while (s->count > 0) {
        settle_first(s, nth(s, 0)->is_content_put ? SOURCE_UNKNOWN : SOURCE_UNSENT, why);
    }
    s->is_reset_due = false;
}

static void note_refusal(struct source_transaction *t, int code, struct slice text)
{
    if (t->verdict == 0) {
        t->verdict = code;
        buf_append_slice(&t->reason, text);
    }
}

/* The transaction is over before its content was taken. What is in flight behind it may meet a
 * server that still holds its sender: "bad sequence" says nothing about a message then. */
static void finish_refused(struct source_session *s, struct source_transaction *t)
{
    bool is_certain = t->verdict >= 500 && !(s->is_reset_due && t->verdict == 503);
    settle_first(s, is_certain ? SOURCE_REFUSED : SOURCE_DEFERRED, buf_slice(&t->reason));
    s->is_reset_due = true;
}

static void on_mail(struct source_session *s, struct source_transaction *t, int code,
                    struct slice text)
{
    t->step = SOURCE_RCPT;
    if (code >= 400) {
        note_refusal(t, code, text);
    }
    if (s->mode != SOURCE_LOCKSTEP) {
        return;
    }
    if (code >= 400) {
        finish_refused(s, t);
    } else {
        put_rcpt(s, t);
    }
}

static void on_rcpt(struct source_session *s, struct source_transaction *t, int code,
                    struct slice text)
{
    if (code < 400) {
        t->accepted++;
    } else {
        note_refusal(t, code, text);
        source_message_recipient(&s->load->template, t->offer.number, t->answered, &t->refused);
        buf_append_char(&t->refused, '\n');
    }
    t->answered++;
    if (t->answered < t->recipients) {
        if (s->mode == SOURCE_LOCKSTEP) {
            put_rcpt(s, t);
        }
        return;
    }
    t->step = s->mode == SOURCE_CHUNKING ? SOURCE_DOT : SOURCE_DATA;
    if (s->mode == SOURCE_LOCKSTEP) {
        if (t->accepted == 0) {
            finish_refused(s, t);
        } else {
            say_command(s, SOURCE_READY, "DATA");
        }
    }
}

static void on_data(struct source_session *s, struct source_transaction *t, int code,
                    struct slice text)
{
    if (code != 354) {
        note_refusal(t, code >= 400 ? code : 500, text);
        finish_refused(s, t);
        return;
    }
    put_content(s, t);
    buf_append_str(&s->out, ".\r\n");
    t->step = SOURCE_DOT;
}

/* Of the end of the data, or of BDAT. */
static void on_dot(struct source_session *s, struct source_transaction *t, int code,
                   struct slice text)
{
    if (code < 400) {
        settle_first(s, SOURCE_ACKED, text);
    } else if (t->accepted == 0) { /* nothing of it was taken: BDAT failed as DATA would have */
        note_refusal(t, code, text);
        finish_refused(s, t);
    } else {
        settle_first(s, code < 500 ? SOURCE_DEFERRED : SOURCE_REFUSED, text);
    }
}

static void on_transaction(struct source_session *s, int code, struct slice text)
{
    struct source_transaction *t = nth(s, 0);
    switch (t->step) {
    case SOURCE_MAIL:
        on_mail(s, t, code, text);
        return;
    case SOURCE_RCPT:
        on_rcpt(s, t, code, text);
        return;
    case SOURCE_DATA:
        on_data(s, t, code, text);
        return;
    case SOURCE_DOT:
        on_dot(s, t, code, text);
        return;
    }
}

static bool has_word(struct slice text, const char *word)
{
    return memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* The mode that was asked for, or the next lower one that the server's extensions allow. */
static enum source_mode choose_mode(enum source_mode wanted, struct slice extensions)
{
    if (!has_word(extensions, "PIPELINING")) {
        return SOURCE_LOCKSTEP;
    }
    return wanted == SOURCE_CHUNKING && !has_word(extensions, "CHUNKING") ? SOURCE_STREAMING
                                                                          : wanted;
}

/* Greeting, EHLO and HELO. */
static void on_handshake(struct source_session *s, int code, struct slice text, struct slice all)
{
    const struct source_options *o = s->load->options;
    char line[300];
    if (code >= 400 && s->state != SOURCE_EHLO) {
        source_session_lose(s, "refused", text);
        return;
    }
    if (s->state == SOURCE_GREETING || code >= 400) {
        bool is_esmtp = s->state == SOURCE_GREETING;
        (void)snprintf(line, sizeof(line), "%s %.250s", is_esmtp ? "EHLO" : "HELO", o->helo);
        say_command(s, is_esmtp ? SOURCE_EHLO : SOURCE_HELO, line);
        return;
    }
    s->load->mode = s->mode = choose_mode(o->mode, all);
    s->backoff = SOURCE_BACKOFF_FIRST;
    s->state = SOURCE_READY;
}

void source_dialogue_reply(struct source_session *s, int code, struct slice text, struct slice all)
{
    if (code == 421 && s->state != SOURCE_QUIT) {
        if (s->count > 0) {
            settle_first(s, SOURCE_DEFERRED, text); /* an answer, and it says no */
        }
        source_session_lose(s, "421", text);
        return;
    }
    switch (s->state) {
    case SOURCE_GREETING:
    case SOURCE_EHLO:
    case SOURCE_HELO:
        on_handshake(s, code, text, all);
        return;
    case SOURCE_READY:
        if (s->count > 0) {
            on_transaction(s, code, text);
            return;
        }
        break;
    case SOURCE_RSET:
        s->state = SOURCE_READY;
        return;
    case SOURCE_QUIT:
        source_session_quit(s);
        return;
    case SOURCE_WAITING:
    case SOURCE_CONNECTING:
    case SOURCE_GONE:
        break;
    }
    source_session_lose(s, "unexpected reply", text);
}
